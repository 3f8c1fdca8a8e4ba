"""A repository of the hub that this program fills: checks before the work, commits, tags, collections."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from huggingface_hub import HfApi, get_token, metadata_load
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, RepositoryNotFoundError
from huggingface_hub.utils import validate_repo_id

from hf_sysgen.errors import UserError, is_disk_full, one_line
from hf_sysgen.files import sha256_of
from hf_sysgen.reports.papers import paper_of, papers
from hf_sysgen.results.record import new_folder

CARD = "README.md"
CITATION = "CITATION.bib"
# tells a repository that this program filled from any other
TAG = "hf-sysgen"
# files that decide what a tag means; cards may change
CONTENT = (".safetensors", ".parquet")


@dataclass(frozen=True)
class Published:
    """What was published in one commit, or would be.

    Attributes:
        repo_id: "owner/name".
        files: path in the repository to size in bytes.
        url: address of the commit, "" for a dry run.
        tags: names that this commit has.
    """

    repo_id: str
    files: dict[str, int]
    url: str = ""
    tags: tuple[str, ...] = ()


class Repository:
    """
    A model or dataset repository that exists, or can be made, for content of ours.

    Args:
        repo_id: "owner/name".
        kind: what it is for.
        mark: the tag in a card that tells a repository of this content from others.
        private: whether a new repository is private; an existing one must be what is asked for.
        collection: name of a paper, e.g. csordas2021, for `collect`.
        dry_run: only list what would be sent, without contacting the hub.
        folder: write what the main branch would show into this new folder instead, without contacting the hub.
        api: the hub and the token to use, default that of HF_ENDPOINT with the token of HF_TOKEN or of the login.

    Raises:
        UserError: wrong name of the repository or the collection; no token, or an invalid one; the repository
            has something else, or is not private or public as asked; the hub cannot be reached; the folder holds
            such files already.
    """

    def __init__(
        self,
        repo_id: str,
        kind: Literal["model", "dataset"],
        mark: str,
        private: bool = False,
        collection: str | None = None,
        dry_run: bool = False,
        folder: Path | None = None,
        api: HfApi | None = None,
    ):
        check_repo_id(repo_id)
        if collection is not None and paper_of(collection) is None:
            known = ", ".join(paper.id for paper in papers())
            raise UserError(f"no collection {collection!r}; there is one for each of {known}")
        self.repo_id, self.mark = repo_id, mark
        self.kind: Literal["model", "dataset"] = kind
        self.private, self.collection, self.folder = private, collection, folder
        self.dry_run = dry_run or folder is not None
        self.tags: dict[str, str] = {}
        if folder is not None:
            new_folder(folder, sorted(path.name for path in folder.glob("*")))
        if not self.dry_run:
            self.api = api or _api()
            self._check_access()

    def _check_access(self) -> None:
        card = None
        with self.errors():
            self.api.whoami()
            try:
                info: Any = self.api.repo_info(self.repo_id, repo_type=self.kind)
            except RepositoryNotFoundError:
                return
            files = {sibling.rfilename for sibling in info.siblings or ()} - {".gitattributes"}
            if CARD in files:
                card = self.api.hf_hub_download(self.repo_id, CARD, repo_type=self.kind)
            refs = self.api.list_repo_refs(self.repo_id, repo_type=self.kind)
        if files and (card is None or self.mark not in _tags(Path(card))):
            raise UserError(
                f"{self.repo_id} exists and holds something other than {self.mark.removeprefix(f'{TAG}-')} "
                f"({', '.join(sorted(files)[:3])}, ...); choose another name, or empty it first"
            )
        if bool(info.private) != self.private:
            now, asked = ("private", "public") if info.private else ("public", "private")
            raise UserError(
                f"{self.repo_id} exists and is {now}, not {asked}; change that in its settings, or the command"
            )
        self.tags = {tag.name: tag.target_commit for tag in refs.tags}

    def check_tags(self, tags: Sequence[str], folder: Path) -> bool:
        """
        Whether all of these tags are there already, on the weights or data of that folder.

        Raises:
            UserError: one of them is there on others: a tag does not move.
        """
        known = [tag for tag in tags if tag in self.tags]
        paths = [path for path in folder.rglob("*") if known and path.suffix in CONTENT]
        content = {path.relative_to(folder).as_posix(): sha256_of(path) for path in paths}
        for tag in known:
            with self.errors():
                tree = self.api.list_repo_tree(self.repo_id, recursive=True, repo_type=self.kind, revision=tag)
                entries = [entry for entry in tree if Path(entry.path).suffix in CONTENT]
            there = {entry.path: lfs.sha256 for entry in entries if (lfs := getattr(entry, "lfs", None))}
            if there != content:
                raise UserError(
                    f"{self.repo_id} has a tag {tag!r} already, of other weights or data; tags do not move: choose "
                    "another tag or repository, or remove that one on the hub"
                )
        return bool(tags) and len(known) == len(tags)

    def push(self, folder: Path, message: str, tags: Sequence[str] = (), delete: Sequence[str] = ()) -> Published:
        """
        Make the repository if it is missing. One commit adds or replaces the folder's files and removes others that
        match `delete`. Files that the hub has are not sent again, so repeating an interrupted push continues it.
        """
        files = {
            path.relative_to(folder).as_posix(): path.stat().st_size
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        if self.folder is not None:
            shutil.copytree(folder, self.folder, dirs_exist_ok=True)
        if self.dry_run:
            return Published(self.repo_id, files, tags=tuple(tags))
        with self.errors():
            self.api.create_repo(self.repo_id, repo_type=self.kind, private=self.private, exist_ok=True)
            commit = self.api.upload_folder(
                repo_id=self.repo_id,
                repo_type=self.kind,
                folder_path=folder,
                commit_message=message,
                delete_patterns=list(delete),
            )
            for tag in tags:
                if tag not in self.tags:
                    self.api.create_tag(self.repo_id, tag=tag, revision=commit.oid, repo_type=self.kind)
                    self.tags[tag] = commit.oid
        return Published(self.repo_id, files, commit.commit_url, tuple(tags))

    def collect(self) -> None:
        """Put the repository into its owner's collection of the paper, which is made if it is missing."""
        paper = None if self.collection is None else paper_of(self.collection)
        if paper is None or self.dry_run:
            return
        with self.errors():
            collection = self.api.create_collection(
                f"{TAG}: {paper.authors}",
                namespace=self.repo_id.partition("/")[0],
                description=paper.title,
                private=self.private,
                exists_ok=True,
            )
            self.api.add_collection_item(collection.slug, self.repo_id, item_type=self.kind, exists_ok=True)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """What the hub's client raises, as one line that never shows the token."""
        try:
            yield
        # the hub's own errors, and those of its layers: no such host, refused, timed out, offline
        except Exception as error:
            # an upload's error comes wrapped
            root = next((one for one in (error, error.__cause__) if isinstance(one, HfHubHTTPError)), error)
            status = root.response.status_code if isinstance(root, HfHubHTTPError) else None
            owner = self.repo_id.partition("/")[0]
            advice = {
                401: "the token is wrong or has expired: run `hf auth login`, or correct HF_TOKEN",
                403: f"the token may not write to {owner}: use one that may, or another owner",
            }.get(status or 0, "run it again: what the hub has already is not sent again")
            reason = one_line(root)
            if isinstance(self.api.token, str):
                reason = reason.replace(self.api.token, "<token>")
            raise UserError(f"cannot publish to {self.repo_id} at {self.api.endpoint}: {advice} ({reason})") from error


@contextmanager
def space_for(what: str, folder: str) -> Iterator[None]:
    """A full disk as a UserError that says where and what did not fit."""
    try:
        yield
    except OSError as error:
        if not is_disk_full(error):
            raise
        raise UserError(
            f"no space left in {folder} ({one_line(error)}) for {what}; set TMPDIR to a folder on another disk"
        ) from error


def check_tag_names(tags: Sequence[str]) -> None:
    """Raises UserError: git would refuse one of them, which the hub says only after the upload."""
    for tag in tags:
        if not re.fullmatch(r"\w[\w.+-]*(/\w[\w.+-]*)*", tag) or tag.endswith((".", ".lock")) or ".." in tag:
            raise UserError(f"{tag!r} cannot be a tag; give letters, digits, points and hyphens, such as v1.0")


def check_repo_id(repo_id: str) -> None:
    """Raises UserError: it is not "owner/name"."""
    try:
        validate_repo_id(repo_id)
        if "/" not in repo_id:
            raise HFValidationError("it has no owner")
    except HFValidationError as error:
        raise UserError(f"{repo_id!r} is not a repository name ({one_line(error)}); give owner/name") from error


def _tags(card: Path) -> list[str]:
    try:
        return (metadata_load(card) or {}).get("tags") or []
    # somebody else's card may hold anything
    except (yaml.YAMLError, ValueError, AttributeError):
        return []


def _api() -> HfApi:
    token = get_token()
    if token is None:
        raise UserError("no token of the hub: run `hf auth login`, or set HF_TOKEN to a token that may write")
    return HfApi(token=token)
