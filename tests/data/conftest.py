from __future__ import annotations

import os
from pathlib import Path

import pytest

from hf_sysgen.data.fetch import DATA_DIR_VARIABLE

# read before any test runs, as each test starts without the variable
MIRROR = Path(os.environ.get(DATA_DIR_VARIABLE) or Path(__file__).parents[2].parent / "shared" / "data")


@pytest.fixture(autouse=True)
def without_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test depends on what the machine has, unless it asks for `mirror`."""
    monkeypatch.delenv(DATA_DIR_VARIABLE, raising=False)


@pytest.fixture(scope="session")
def mirror() -> Path:
    """A folder with the upstream files."""
    if not (MIRROR / "scan" / "tasks.txt").is_file():
        pytest.skip(f"needs the upstream files: set {DATA_DIR_VARIABLE} to a folder that holds them")
    return MIRROR
