"""Errors that the user of a benchmark can fix."""

from __future__ import annotations

from hf_sysgen.errors import UserError


class DataError(UserError):
    """A benchmark's data is missing or wrong, or a name is unknown. The message is one line."""


class DamagedData(DataError):
    """A benchmark's file is there but has the wrong content: cut short, changed, or another file."""
