"""Publishing a benchmark as parquet files and a card, so that `load_dataset("owner/name", "config")` needs no code."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hf_sysgen.data.registry import benchmark_builder, benchmark_info
from hf_sysgen.errors import UserError
from hf_sysgen.hub.dataset_card import benchmark_tag, citations, dataset_card, parquet_path
from hf_sysgen.hub.repository import CARD, CITATION, Published, Repository, check_tag_names, space_for

if TYPE_CHECKING:
    from huggingface_hub import HfApi


def publish_dataset(
    name: str,
    repo_id: str,
    configs: Sequence[str] = (),
    *,
    private: bool = False,
    dry_run: bool = False,
    folder: Path | None = None,
    allow_restricted: bool = False,
    tags: Sequence[str] = (),
    collection: str | None = None,
    data_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
    api: HfApi | None = None,
) -> Published:
    """Write a benchmark's configs as parquet, and push them with a card to a dataset repository of the hub. Splits that
    upstream keeps out of the open (`ConfigInfo.withheld`) are left out, and the card says why.

    The repository is made if it does not exist. One that exists must be empty or hold the same benchmark; its data
    files are then replaced: it has the configs named here and no others. Repeat the call to continue an interrupted
    upload: files that the hub has are not sent again. All files appear at once, in one commit.

    Args:
        name: a benchmark.
        repo_id: "owner/name".
        configs: its configs, default all.
        private: whether a new repository is private; an existing one must be what is asked for.
        dry_run: make and list the files without contacting the hub.
        folder: a new folder for the files, without contacting the hub.
        allow_restricted: publish a benchmark whose licence is restricted, see `BenchmarkInfo.restriction`.
        tags: names for the commit.
        collection: a paper's name, e.g. csordas2021: the repository joins its owner's collection of that paper.
        data_dir: as in `load_benchmark`.
        cache_dir: as in `load_benchmark`.
        api: the hub and the token to use, default that of HF_ENDPOINT with the token of HF_TOKEN or of the login.

    Raises:
        UserError: restricted licence; a benchmark that is read as a stream; no space for the files; a tag that
            stands for other data; an unknown collection; see also `Repository`.
        DataError: unknown benchmark or config, or data that cannot be had.
    """
    benchmark = benchmark_info(name)
    infos = [benchmark.config(config) for config in dict.fromkeys(configs)] or list(benchmark.configs.values())
    if benchmark.restriction and not allow_restricted:
        raise UserError(
            f"{name} is restricted: {benchmark.restriction} If you may publish it, pass --allow-restricted "
            "(allow_restricted=True)"
        )
    # arguments are checked before minutes of preparation
    check_tag_names(tags)
    repository = Repository(repo_id, "dataset", benchmark_tag(benchmark), private, collection, dry_run, folder, api)
    with tempfile.TemporaryDirectory(prefix="hf-sysgen-publish-") as staged, space_for("the parquet files", staged):
        counts = {}
        for info in infos:
            builder = benchmark_builder(name, info.name, data_dir=data_dir, cache_dir=cache_dir)
            if builder.STREAMED:
                raise UserError(f"{name} is too large to be published again; it is at {benchmark.homepage}")
            builder.download_and_prepare()
            builder.check_prepared()
            parts = {split: part for split, part in builder.as_dataset().items() if split not in info.withheld}
            counts[info.name] = {split: len(part) for split, part in parts.items()}
            for split, part in parts.items():
                path = Path(staged, parquet_path(info.name, split))
                path.parent.mkdir(exist_ok=True)
                # on a full disk parquet's writer ends the process, so it writes to memory
                content = io.BytesIO()
                part.to_parquet(content)
                path.write_bytes(content.getbuffer())
        Path(staged, CARD).write_text(dataset_card(benchmark, infos, counts, repo_id), encoding="utf-8")
        Path(staged, CITATION).write_text(citations(benchmark, infos), encoding="utf-8")
        repository.check_tags(tags, Path(staged))
        done = repository.push(Path(staged), f"Publish {name}: {', '.join(counts)}", tags, delete=["*.parquet"])
        repository.collect()
    return done
