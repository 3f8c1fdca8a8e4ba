"""Finding records, and reading them, of this version or of version 1."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import from_json

from hf_sysgen.errors import UserError, shorten
from hf_sysgen.files import read_whole
from hf_sysgen.results.record import RESULTS, SCHEMA_VERSION, Record, first_error
from hf_sysgen.results.version1 import from_version1

# names of kept records, see `Record.kept_at`
KEPT = "*-seed[0-9]*.json"


@dataclass(frozen=True)
class Collection:
    """
    Results records found.

    Attributes:
        records: with their file, in order of files.
        skipped: one line for each file that is not a results record, with its name and error.
    """

    records: tuple[tuple[Path, Record], ...]
    skipped: tuple[str, ...]


def collect(paths: Iterable[Path]) -> Collection:
    """
    All records of folders at any depth: `results.json` of runs, and kept records, `NAME-seedN.json`; and of single
    files, whatever their name. Files that cannot be read and missing paths are listed, not raised.
    """
    # by resolved path, so that nested folders give each run once
    files: dict[Path, Path] = {}
    skipped = []
    for path in paths:
        if path.is_dir():
            found = [file for pattern in (KEPT, RESULTS) for file in sorted(path.rglob(pattern))]
        elif path.exists():
            found = [path]
        else:
            found = []
            skipped.append(f"{path}: is not there; give folders of runs, or files of kept records")
        for file in found:
            files.setdefault(file.resolve(), file)
    records = []
    for file in files.values():
        try:
            records.append((file, read_record(file)))
        except UserError as error:
            skipped.append(" ".join(str(error).split()))
    return Collection(tuple(records), tuple(skipped))


def read_record(path: str | Path) -> Record:
    """
    A record from its file, of this version or of version 1.

    Raises:
        UserError: the file cannot be read, is not JSON (e.g. cut short), or no record; names the first wrong key.
    """
    try:
        text = read_whole(path)
        content = from_json(text, allow_inf_nan=False)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot read results: {shorten(error)}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path}: cannot read results: a record is a JSON object")
    version = content.get("schema_version")
    if version not in (1, SCHEMA_VERSION):
        raise UserError(
            f"{path}: schema_version is {shorten(version, quoted=True)}; this version reads 1 and {SCHEMA_VERSION}"
        )
    try:
        return Record.model_validate_json(json.dumps(from_version1(content)) if version == 1 else text)
    except ValidationError as error:
        raise UserError(f"{path}: {first_error(error)}") from error
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
