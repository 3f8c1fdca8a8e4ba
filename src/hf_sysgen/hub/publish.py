"""Publishing a benchmark as parquet files and a card, so that `load_dataset("owner/name", "config")` needs no code."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hf_sysgen.data.download import one_line
from hf_sysgen.data.info import BenchmarkInfo
from hf_sysgen.data.registry import benchmark_builder, benchmark_info
from hf_sysgen.data.sources import no_space
from hf_sysgen.errors import UserError
from hf_sysgen.hub.dataset_card import benchmark_tag, dataset_card, parquet_path

if TYPE_CHECKING:
    from huggingface_hub import HfApi

CARD = "README.md"


class PublishError(UserError):
    """A benchmark cannot be published. The message is one line."""


@dataclass(frozen=True)
class Published:
    """What was published, or would be.

    Attributes:
        repo_id: "owner/name".
        files: path in the repository to size in bytes.
        url: address of the commit, "" for a dry run.
    """

    repo_id: str
    files: dict[str, int]
    url: str = ""


def publish_dataset(
    name: str,
    repo_id: str,
    configs: Sequence[str] = (),
    *,
    private: bool = False,
    dry_run: bool = False,
    allow_restricted: bool = False,
    data_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
    api: HfApi | None = None,
) -> Published:
    """Write a benchmark's configs as parquet, and push them with a card to a dataset repository of the hub.

    The repository is made if it does not exist. One that exists must be empty or hold the same benchmark; its data
    files are then replaced: it has the configs named here and no others. An upload that was interrupted is gone on with
    by the same call: the hub is not sent what it has. All files appear at once, in one commit.

    Args:
        name: a benchmark.
        repo_id: "owner/name".
        configs: its configs, default all.
        private: whether a new repository is private; an existing one must be what is asked for.
        dry_run: make the files and say which they are, ask nothing of the hub.
        allow_restricted: publish a benchmark whose licence is restricted, see `BenchmarkInfo.restriction`.
        data_dir: as in `load_benchmark`.
        cache_dir: as in `load_benchmark`.
        api: the hub and the token to use, default that of HF_ENDPOINT with the token of HF_TOKEN or of the login.

    Raises:
        PublishError: restricted licence; a benchmark that is read as a stream; wrong name of the repository, or one
            that has something else; no token, a wrong one, or one that may not write there; the hub cannot be reached
            or refuses; no space for the files.
        DataError: unknown benchmark or config, or data that cannot be had.
    """
    benchmark = benchmark_info(name)
    infos = [benchmark.config(config) for config in dict.fromkeys(configs)] or list(benchmark.configs.values())
    if benchmark.restriction and not allow_restricted:
        raise PublishError(
            f"{name} is restricted: {benchmark.restriction} If you may publish it, pass --allow-restricted "
            "(allow_restricted=True)"
        )
    _check_repo_id(repo_id)
    if not dry_run:
        # before minutes of preparation
        api = api or _api()
        _check_access(api, repo_id, benchmark, private)
    with tempfile.TemporaryDirectory(prefix="hf-sysgen-publish-") as folder, _space(folder):
        counts = {}
        for info in infos:
            builder = benchmark_builder(name, info.name, data_dir=data_dir, cache_dir=cache_dir)
            if builder.STREAMED:
                raise PublishError(f"{name} is too large to be published anew; it is at {benchmark.homepage}")
            builder.download_and_prepare()
            parts = builder.as_dataset()
            counts[info.name] = {split: len(part) for split, part in parts.items()}
            for split, part in parts.items():
                path = Path(folder, parquet_path(info.name, split))
                path.parent.mkdir(exist_ok=True)
                # on a full disk parquet's writer ends the process, so it writes to memory
                content = io.BytesIO()
                part.to_parquet(content)
                path.write_bytes(content.getbuffer())
        Path(folder, CARD).write_text(dataset_card(benchmark, infos, counts, repo_id), encoding="utf-8")
        files = {
            path.relative_to(folder).as_posix(): path.stat().st_size
            for path in sorted(Path(folder).rglob("*"))
            if path.is_file()
        }
        if api is None or dry_run:
            return Published(repo_id, files)
        with _hub_errors(api, repo_id):
            api.create_repo(repo_id, repo_type="dataset", private=private, exist_ok=True)
            commit = api.upload_folder(
                repo_id=repo_id,
                repo_type="dataset",
                folder_path=folder,
                commit_message=f"Publish {name}: {', '.join(counts)}",
                delete_patterns="*.parquet",
            )
    return Published(repo_id, files, commit.commit_url)


def _check_repo_id(repo_id: str) -> None:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repo_id)
        if "/" not in repo_id:
            raise HFValidationError("it has no owner")
    except HFValidationError as error:
        raise PublishError(f"{repo_id!r} is no name of a repository ({one_line(error)}); give owner/name") from error


def _api() -> HfApi:
    from huggingface_hub import HfApi, get_token

    token = get_token()
    if token is None:
        raise PublishError("no token of the hub: run `hf auth login`, or set HF_TOKEN to a token that may write")
    return HfApi(token=token)


def _check_access(api: HfApi, repo_id: str, benchmark: BenchmarkInfo, private: bool) -> None:
    """Raise a PublishError if the token is nobody's, or the repository is one of something else."""
    from huggingface_hub.errors import RepositoryNotFoundError

    with _hub_errors(api, repo_id):
        api.whoami()
        try:
            info = api.dataset_info(repo_id)
        except RepositoryNotFoundError:
            return
        files = {sibling.rfilename for sibling in info.siblings or ()} - {".gitattributes"}
        card = api.hf_hub_download(repo_id, CARD, repo_type="dataset") if CARD in files else None
    if files and (card is None or benchmark_tag(benchmark) not in Path(card).read_text(encoding="utf-8")):
        raise PublishError(
            f"{repo_id} exists and holds something other than {benchmark.name} ({', '.join(sorted(files)[:3])}, ...); "
            "choose another name, or empty it first"
        )
    if bool(info.private) != private:
        now, asked = ("private", "public") if info.private else ("public", "private")
        raise PublishError(f"{repo_id} exists and is {now}, not {asked}; change that in its settings, or the command")


@contextmanager
def _space(folder: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if not no_space(error):
            raise
        raise PublishError(
            f"no space left in {folder} ({one_line(error)}) for the parquet files; "
            "set TMPDIR to a folder on another disk"
        ) from error


@contextmanager
def _hub_errors(api: HfApi, repo_id: str) -> Iterator[None]:
    """What the hub's client raises, as one line that never shows the token."""
    from huggingface_hub.errors import HfHubHTTPError

    try:
        yield
    # beside the hub's own errors, what its layers raise: no such host, refused, timed out, offline
    except Exception as error:
        # an upload's error comes wrapped
        root = next((one for one in (error, error.__cause__) if isinstance(one, HfHubHTTPError)), error)
        status = root.response.status_code if isinstance(root, HfHubHTTPError) else None
        advice = {
            401: "the token is wrong or has expired: run `hf auth login`, or correct HF_TOKEN",
            403: f"the token may not write to {repo_id.partition('/')[0]}: use one that may, or another owner",
        }.get(status or 0, "run it again: what the hub has already is not sent again")
        reason = one_line(root)
        if isinstance(api.token, str):
            reason = reason.replace(api.token, "<token>")
        raise PublishError(f"cannot publish to {repo_id} at {api.endpoint}: {advice} ({reason})") from error
