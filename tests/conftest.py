"""Fixtures of all tests: one thread, and the files that tests read."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import hypothesis
import pytest
from disk import flush_nothing

# read once, when imported: what a test may reach and which models there are is said by the test, not by the machine
for _variable in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_SYSGEN_EXTENSIONS"):
    os.environ.pop(_variable, None)

import torch  # noqa: E402
from upstream_files import FOLDERS, WHOLE, Files  # noqa: E402

# a busy machine is no failure
hypothesis.settings.register_profile("hf_sysgen", deadline=None)
hypothesis.settings.load_profile("hf_sysgen")


def pytest_collection_finish() -> None:
    """Collections of garbage would look through all that torch and transformers have made by now."""
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def no_collection_in_each_run() -> Iterator[None]:
    """The Trainer starts with a collection of garbage, which takes a tenth of a short run; Python's own stay."""
    with mock.patch("accelerate.utils.memory.gc", SimpleNamespace(collect=lambda: 0)):
        yield


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Tiny tensors gain nothing from a second thread, and parallel test runs lose."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def no_waiting_for_the_disk() -> None:
    flush_nothing()


@pytest.fixture(scope="session")
def golden_dir() -> Path:
    """One folder per family with weights, inputs and outputs of the authors' code."""
    return Path(__file__).parent / "golden"


@pytest.fixture(scope="session", params=FOLDERS, ids=lambda files: "whole" if files.whole else "sample")
def files(request: pytest.FixtureRequest) -> Files:
    """Upstream files of the benchmarks: the parts in the repository, and the whole files if this machine has them."""
    return request.param


@pytest.fixture(scope="session")
def sample() -> Files:
    """The parts in the repository, for tests of files that are complete there."""
    return FOLDERS[0]


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The whole upstream files of the benchmarks."""
    if WHOLE is None:
        pytest.skip("needs the whole upstream files, not a part: set HF_SYSGEN_DATA_DIR to the folder that holds them")
    return WHOLE
