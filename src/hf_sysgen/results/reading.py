"""Reading a record, of this version or of version 1."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import from_json

from hf_sysgen.errors import UserError, shorten
from hf_sysgen.files import read_whole
from hf_sysgen.results.record import SCHEMA_VERSION, Record, first_error
from hf_sysgen.results.version1 import from_version1


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
