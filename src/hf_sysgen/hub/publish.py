"""One command for everything that can be published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sysgen.data.info import unknown_name_error
from hf_sysgen.data.registry import list_benchmarks
from hf_sysgen.errors import UserError
from hf_sysgen.hub.publish_dataset import publish_dataset
from hf_sysgen.hub.publish_model import publish_model
from hf_sysgen.hub.repository import Published
from hf_sysgen.zoo import zoo_names

if TYPE_CHECKING:
    from huggingface_hub import HfApi


def publish(
    what: str,
    repo_id: str,
    *,
    private: bool = False,
    dry_run: bool = False,
    folder: Path | None = None,
    tags: Sequence[str] = (),
    collection: str | None = None,
    for_models: Mapping[str, Any] | None = None,
    for_data: Mapping[str, Any] | None = None,
    api: HfApi | None = None,
) -> list[Published]:
    """
    Push what a name means: a benchmark, else a run, a folder of runs, or a model of the zoo.

    Args:
        for_models: further arguments of `publish_model`.
        for_data: further arguments of `publish_dataset`.

    Raises:
        DataError: there is no such name.
        UserError: an argument that is for the other kind; see also the two functions.
    """
    benchmarks = [benchmark.name for benchmark in list_benchmarks()]
    is_data = what in benchmarks
    if not is_data and what not in zoo_names() and not Path(what).is_dir():
        raise unknown_name_error("benchmark, model of the zoo or folder of runs", what, [*benchmarks, *zoo_names()])
    for key, value in ((for_models if is_data else for_data) or {}).items():
        if value:
            option = f"--{key.removesuffix('s') if key == 'configs' else key}".replace("_", "-")
            kind = "a benchmark" if is_data else "no benchmark (see `hf-sysgen list benchmarks`)"
            raise UserError(f"{option} has no meaning for {what}, which is {kind}; remove it")
    common: dict[str, Any] = {
        "private": private, "dry_run": dry_run, "folder": folder, "tags": tags, "collection": collection, "api": api,
    }  # fmt: skip
    if is_data:
        return [publish_dataset(what, repo_id, **common, **(for_data or {}))]
    return publish_model(what, repo_id, **common, **(for_models or {}))
