"""What every test folder uses: one thread, and where the large files outside the repository are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# read once, when imported: what a test may reach and which models there are is said by the test, not by the machine
for _variable in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_SYSGEN_EXTENSIONS"):
    os.environ.pop(_variable, None)

import torch  # noqa: E402

BESIDE_REPOSITORY = Path(__file__).parents[2] / "shared"


def _folder(variable: str, default: Path, what: str) -> Path:
    folder = Path(os.environ.get(variable) or default)
    if not folder.is_dir():
        pytest.skip(f"needs {what}: set {variable} to the folder that holds them")
    return folder


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Tiny tensors gain nothing from a second thread, and parallel test runs lose."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def golden_dir() -> Path:
    """One folder per family with weights, inputs and outputs of the authors' code."""
    return Path(__file__).parent / "golden"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The upstream files of the benchmarks."""
    return _folder("HF_SYSGEN_DATA_DIR", BESIDE_REPOSITORY / "data", "the upstream files of the benchmarks")


@pytest.fixture(scope="session")
def papers_dir() -> Path:
    """The papers' texts."""
    return _folder("HF_SYSGEN_PAPERS_DIR", BESIDE_REPOSITORY / "papers", "the papers' texts")
