"""Every command and snippet of the README, as printed, on runs made small."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from documents import ROOT, blocks, commands
from tiny_runs import command, forked

README = ROOT / "README.md"
TINY = [
    "training.max_steps=2",
    "training.eval_steps=1",
    "evaluation.examples=3",
    "model.hidden_size=16",
    "model.intermediate_size=16",
    "model.num_attention_heads=2",
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "batches.size=8",
    "evaluation.batch_size=1024",
    "training.report_to=none",
]
CHECKPOINT = "runs/scan_length26_quick_relative_universal/seed0/model"


def folder_of(recipe: str, words: list[str] = ()) -> str:
    """What is made small is another cell, which would have another folder: give it that of the cell."""
    seed = next((word.removeprefix("seed=") for word in words if word.startswith("seed=")), "0")
    return f"output_dir=runs/{Path(recipe).stem}/seed{seed}"


def run(words: list[str], folder: Path, start: Callable[..., CompletedProcess[str]] = forked) -> None:
    done = start(words, folder)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder that looks like the repository's root to a reader: recipes, and the checkpoint of a (tiny) main job."""
    path = tmp_path_factory.mktemp("readme")
    (path / "recipes").symlink_to(ROOT / "recipes")
    recipe = "recipes/csordas2021/scan_length26_quick_relative_universal.yaml"
    run(["-m", "hf_sysgen.train", recipe, *TINY, folder_of(recipe)], path, command)
    return path


@pytest.mark.parametrize("snippet", [block.text for block in blocks(README) if block.language == "python"])
def test_snippet(snippet, folder):
    assert CHECKPOINT in snippet or "checkpoint" not in snippet
    run(["-c", snippet], folder)


def test_make_targets_exist():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    named = [words[1] for words in commands(README) if words[0] == "make"]
    assert named == ["run", "test"]
    assert set(named) <= set(targets)


def test_commands(folder):
    """In the README's order, because evaluation reads what training left."""
    ran = 0
    for words in commands(README):
        if words[0] == "make" or any("multi_gpu" in word for word in words):
            continue  # `make run` and `make test` are these tests and the main job; the other needs several GPUs
        if words[0] == "hf-sysgen":
            words = ["-m", "hf_sysgen.cli", *words[1:]]
        elif words[0] == "torchrun":
            words = ["-m", "torch.distributed.run", *words[1:], "output_dir=runs/two_processes"]
        if {"train", "hf_sysgen.train"} & set(words):
            recipe = next(word for word in words if word.endswith(".yaml"))
            words += [*TINY, *([] if "output_dir" in words[-1] else [folder_of(recipe, words)])]
        if "sweep" in words and "--dry-run" not in words:
            words += [*TINY, "recipes=[../scan_length26_relative.yaml]"]
        if "compare" in words:
            words += [part for override in TINY for part in ("--override", override)]
        run(words, folder)
        ran += 1
    assert ran == 15


def test_numbers_are_those_of_the_results_files():
    """In README and docs, in the heads of recipes, and in cards."""
    sys.path.insert(0, str(ROOT / "perf"))
    try:
        from readme_tables import texts
    finally:
        sys.path.pop(0)
    written = texts()
    assert {path.parent.name for path in written} > {"model_cards", "csordas2021"}
    for path, text in written.items():
        assert text == path.read_text(encoding="utf-8"), f"{path}: run python perf/readme_tables.py"
    assert {*written} >= {*(ROOT / "model_cards").glob("*.md")}
