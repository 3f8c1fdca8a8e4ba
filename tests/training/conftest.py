from __future__ import annotations

from pathlib import Path

import pytest
from made_examples import any_benchmark
from tiny_runs import learned_run

import hf_sysgen.training.run
import hf_sysgen.training.tasks.registry


@pytest.fixture
def few_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of this process take a few examples for the whole benchmark, SCAN's unless it has its own."""
    hf_sysgen.training.run.quiet_libraries()
    monkeypatch.setattr(hf_sysgen.training.tasks.registry, "load_benchmark", any_benchmark)


@pytest.fixture(scope="session")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run whose model gets some examples right and some wrong."""
    folder = tmp_path_factory.mktemp("learned")
    learned_run(folder)
    return folder / "run"
