"""Checkpoints in a process that cannot import the package."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from elsewhere import run_elsewhere
from tiny_runs import environment

START = """
import copy, sys
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoModelForSequenceClassification
from transformers import AutoModelForTokenClassification

torch.set_num_threads(1)
"""


def use_elsewhere(code: str, folders: Iterable[Path], home: Path) -> None:
    """
    Runs the code with the folders as arguments, torch and transformers imported.

    Args:
        home: where libraries keep what they load.
    """
    run_elsewhere(START + code, *folders, environment=environment(HF_HOME=str(home), HF_HUB_OFFLINE="1"), folder=home)


def assert_same_files(one: Path, other: Path) -> None:
    names = sorted(path.name for path in one.iterdir())
    assert sorted(path.name for path in other.iterdir()) == names
    for name in names:
        assert (other / name).read_bytes() == (one / name).read_bytes(), name
