from __future__ import annotations

from pathlib import Path

import pytest
from tiny_runs import learned_run


@pytest.fixture(scope="session")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run whose model gets some examples right and some wrong."""
    folder = tmp_path_factory.mktemp("learned")
    learned_run(folder)
    return folder / "run"
