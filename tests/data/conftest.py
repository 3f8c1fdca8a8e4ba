from __future__ import annotations

import pytest

from hf_sysgen.data.fetch import DATA_DIR_VARIABLE


@pytest.fixture(autouse=True)
def without_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test depends on files of the machine, unless it uses `files` or `data_dir`."""
    monkeypatch.delenv(DATA_DIR_VARIABLE, raising=False)
