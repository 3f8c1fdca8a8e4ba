"""What the scripts in perf compute from what they measure."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from documents import ROOT
from transformers import GPT2Config, GPT2LMHeadModel

from hf_sysgen.config.io import load_recipe
from hf_sysgen.evaluation.checkpoints import load_any_checkpoint
from hf_sysgen.models import DepthWidthConfig, DepthWidthForCausalLM
from hf_sysgen.results.reading import read_record
from hf_sysgen.zoo import DEFAULT, zoo_folder, zoo_names


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "perf"), *sys.path])


# script -> its smallest size
QUICK = {
    "c4_packing": ["texts.jsonl", "--rounds", "1", "--vocab-size", "300"],
    "cpu_attention": ["--quick", "--rounds", "1"],
    "cpu_ways": ["--quick"],
    "data_loading": ["--data-dir", str(ROOT / "tests" / "fixtures" / "upstream"), "--only", "scan", "--rounds", "1"],
    "edge_decoding": ["--quick"],
    "gated_attention": ["--quick", "--only", "sag_transformer"],
    "gpu_pretraining": ["--quick", "pretrain_41M_2", "--steps", "1"],
    "gpu_triangular_attention": ["--quick", "--time-only"],
    "growth": ["--quick", "--only", "records", "--rounds", "1"],
    "pretraining": ["--quick"],
    "seq2seq": ["--quick"],
    "start": ["--rounds", "1"],
    "tied_rounds": ["--quick"],
    "triangular_attention": ["--quick"],
}
# of gpu_pretraining.py
ROW = {"parameters": 3, "tokens_per_second": 5.0, "flops_per_token": 7, "peak_bytes": None, "days": 0.5}


def keys_of(value, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where values stand in JSON; the items of a list count as one."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*before, key)
            yield from keys_of(inner, (*before, key))
    elif isinstance(value, list):
        for inner in value:
            yield from keys_of(inner, before)


@pytest.mark.slow
@pytest.mark.parametrize("script", QUICK)
def test_a_script_writes_what_the_site_reads(script, tmp_path):
    lines = (json.dumps({"text": f"the cat {number} sat on the mat " * 9}) for number in range(150))
    (tmp_path / "texts.jsonl").write_text("\n".join(lines), encoding="utf-8")
    output = tmp_path / "measured.json"
    command = [sys.executable, str(ROOT / "perf" / f"{script}.py"), *QUICK[script], "--output", str(output)]
    subprocess.run(command, cwd=tmp_path, check=True)
    measured = json.loads(output.read_text("utf-8"))
    kept = ROOT / "perf" / f"{script}.json"
    if kept.exists():
        assert set(keys_of(measured)) <= set(keys_of(json.loads(kept.read_text("utf-8"))))
    else:
        assert all("error" not in row for row in measured["results"])


def measured_on_gpu(folder: Path, *words: str, **variables: str) -> tuple[int, list[dict]]:
    """Exit status and steps of `gpu.sh`."""
    variables |= {"FOLDER": str(folder), "PY": sys.executable}
    done = subprocess.run([str(ROOT / "perf" / "gpu.sh"), *words], env=os.environ | variables)
    file = folder / "steps.jsonl"
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return done.returncode, [json.loads(line) for line in lines]


@pytest.mark.slow
def test_every_step_of_a_gpu_leaves_its_json(tmp_path):
    status, steps = measured_on_gpu(tmp_path, "--tiny")
    assert len(steps) > 9
    assert [(step["step"], step["status"], step["json"]) for step in steps] == [(s["step"], 0, True) for s in steps]
    assert status == 0
    for name in ("gpu_scan_time", "gpu_scan_row", "kernels", "attention", "decoder", "seq2seq"):
        assert json.loads((tmp_path / f"{name}.json").read_text("utf-8"))


def test_steps_of_a_gpu_end_with_the_time(tmp_path):
    assert measured_on_gpu(tmp_path, "--tiny", "kernels", "kernel") == (2, [])
    status, steps = measured_on_gpu(tmp_path, "--tiny", "kernels", "scan", TOTAL="1")
    assert status == 1
    assert [step["step"] for step in steps] == ["kernels", "scan"]
    assert all(step["status"] != 0 and not step["json"] for step in steps)
    # an earlier list is not kept
    assert measured_on_gpu(tmp_path, "--tiny", "seeds", TOTAL="0")[1] == [
        {"step": "seeds", "status": None, "seconds": 0, "json": False}
    ]


def test_runs_that_end_stay_beside_one_that_fails(scripts, tmp_path, monkeypatch):
    import gpu_scan_row

    record = read_record(zoo_folder(DEFAULT) / "results.json")
    runs = {("universal", 0): record, ("universal", 1): None, ("relative", 0): record, ("relative", 1): record}
    monkeypatch.setattr(gpu_scan_row, "train", lambda name, seed, *_: runs[name, seed])
    assert not gpu_scan_row.train_row(["universal", "relative"], 2, 1, tmp_path, (), tmp_path)
    assert len(json.loads((tmp_path / "gpu_scan_row.json").read_text("utf-8"))) == 3
    assert gpu_scan_row.train_row(["relative"], 2, 1, tmp_path, (), tmp_path)
    trained = []

    def train(variant, seed, runs, words):
        trained.append((runs.name, words[-1]))
        return None if runs.name == "whole" else record

    monkeypatch.setattr(gpu_scan_row, "train", train)
    assert not gpu_scan_row.time_updates(tmp_path, 10_000, ("training.max_steps=7",), tmp_path)
    assert read_record(tmp_path / "gpu_scan_time.json") == record
    assert trained == [("short", "training.max_steps=500"), ("whole", "training.max_steps=10000")]


def test_a_fresh_clone_is_timed_and_read(scripts, tmp_path, monkeypatch):
    import fresh_clone

    source, output = tmp_path / "source", tmp_path / "measured.json"
    kept = zoo_folder(DEFAULT) / "results.json"
    source.mkdir()
    (source / "Makefile").write_text(
        "run:\n\tmkdir -p runs/small/seed0\n\tcp $(RECORD) runs/small/seed0\n"
        "\tprintenv HF_HOME PYTHONPATH > seen || true\ntest:\n\ttest ! -s seen\n\ttruncate -s 50000000 large\n"
    )
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"]):
        subprocess.run(["git", *words], cwd=source, check=True)
    command = ["fresh_clone", "run", "test", f"RECORD={kept}", "--repository", str(source), "--output", str(output)]
    monkeypatch.setattr(sys, "argv", command)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    fresh_clone.main()
    measured = json.loads(output.read_text("utf-8"))
    assert [*measured["targets"]] == ["run", "test"]
    assert measured["targets"]["run"]["gigabytes"] < 0.05 <= measured["targets"]["test"]["gigabytes"]
    assert measured["accuracies"] == {
        "small/seed0": {name: split.accuracy for name, split in read_record(kept).splits.items()}
    }


def test_a_measurement_says_which_machine_and_commit(scripts):
    from machine import machine

    kept = json.loads((ROOT / "perf" / "seq2seq.json").read_text("utf-8"))
    about = machine()
    assert about.keys() == {"versions", "git_commit", "device", "num_threads"} <= kept.keys()
    assert about["versions"].keys() == kept["versions"].keys()
    assert json.loads(json.dumps(about)) == about


@pytest.mark.parametrize("shared", [False, True])
def test_useful_work_counts_every_application_of_a_layer(scripts, shared):
    from pretraining import flops_per_token

    config = DepthWidthConfig(
        vocab_size=11, hidden_size=8, intermediate_size=6, num_hidden_layers=5, num_attention_heads=2,
        share_layers=shared,
    )  # fmt: skip
    with torch.device("meta"):
        model = DepthWidthForCausalLM(config)
    layer = 4 * 8 * 8 + 3 * 8 * 6
    assert flops_per_token(model, 7) == 6 * (5 * layer + 8 * 11) + 6 * 5 * 7 * 8


def test_useful_work_of_a_peer(scripts):
    from pretraining import flops_per_token

    with torch.device("meta"):
        model = GPT2LMHeadModel(GPT2Config(vocab_size=11, n_embd=8, n_inner=9, n_layer=5, n_head=2, n_positions=7))
    assert flops_per_token(model, 7) == 6 * (5 * (4 * 8 * 8 + 2 * 8 * 9) + 8 * 11) + 6 * 5 * 7 * 8


def test_days_on_more_gpus(scripts):
    from gpu_pretraining import plan

    rows = [
        {"recipe": f"pretrain_{name}_{depth}", "days": days}
        for name, depth, days in (("134M", 1, 16.0), ("41M", 1, 4.0), ("41M", 2, 8.0))
    ]
    *lines, note = (line.split() for line in plan(rows).splitlines())
    assert lines == [
        ["days", "of", "all", "steps", "41M", "134M", "all", "3", "runs"],
        ["1", "GPU", "12.00", "16.00", "28.00"],
        ["8", "GPUs", "1.50", "2.00", "3.50"],
        ["64", "GPUs", "0.19", "0.25", "0.44"],
    ]
    assert " ".join(note) == "measured on one GPU; of more, if speed grows with their number"


def test_heads_of_recipes_and_cards_are_those_of_the_records(scripts):
    from kept_records import checkpoint_name, kept_cells, texts

    written = texts()
    assert {path.parent.name for path in written} > {*zoo_names(), "csordas2021"}
    for path, text in written.items():
        assert text == path.read_text(encoding="utf-8"), f"{path}: run python perf/kept_records.py"
    assert {path.stem for path in (ROOT / "model_cards").glob("*.md")} == {*zoo_names()}
    assert all(
        zoo_folder(name).name == checkpoint_name(read_record(zoo_folder(name) / "results.json")) for name in zoo_names()
    )
    # seeds beside a model's own are those of its cell
    cells = kept_cells()
    for name in zoo_names():
        record = read_record(zoo_folder(name) / "results.json")
        beside = {path.parent.name for path in zoo_folder(name).glob("seed*/results.json")}
        cell = cells[record.cell_key]
        assert beside == {f"seed{other.seed}" for other in cell} - {f"seed{record.seed}"}


@pytest.mark.parametrize("changes", [False, True])
def test_weights_are_rounded_unless_an_accuracy_changes(scripts, tmp_path, monkeypatch, changes):
    import kept_records

    folder = tmp_path / DEFAULT
    shutil.copytree(zoo_folder(DEFAULT), folder)
    weights = folder / "model.safetensors"
    before, splits = weights.read_bytes(), dict(read_record(folder / "results.json").splits)
    # losses may change
    measured = {name: split.model_copy(update={"loss": 0.0}) for name, split in splits.items()}
    if changes:
        measured["test"] = splits["test"].model_copy(update={"accuracy": splits["test"].accuracy - 1e-4})
    monkeypatch.setattr(kept_records, "measure", lambda *_: measured)
    kept_records.round_weights(folder)
    if changes:
        assert weights.read_bytes() == before
    else:
        assert weights.stat().st_size < 0.6 * len(before)
        assert next(load_any_checkpoint(folder)[0].parameters()).dtype == torch.float32


def test_only_code_in_the_history_counts(scripts):
    from kept_records import check_commits

    record = read_record(zoo_folder(DEFAULT) / "results.json")
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True)
    for commit in (head.stdout.strip(), f"{head.stdout.strip()}+", None, "0" * 40):
        starts = [record.starts[0].model_copy(update={"commit": commit})]
        one = record.model_copy(update={"starts": starts})
        if commit == head.stdout.strip():
            check_commits(one)
        else:
            with pytest.raises(SystemExit, match="not in the history"):
                check_commits(one)


def test_mutants_differ_in_one_place(scripts):
    from mutants import PACKAGE, mutant, tests_of

    source = "def f(a: int, b=2):\n    if a < b:\n        raise ValueError(a + b)\n    return g(a, b) * a\n"
    made = [mutant(source, random.Random(seed)) for seed in range(100)]
    bodies = {text.partition(":\n")[2].strip() for text, _, _ in made if "b=2" in text}
    kept = "raise ValueError(a + b)\n    return "
    assert bodies == {
        f"if a <= b:\n        {kept}g(a, b) * a",
        f"if not a < b:\n        {kept}g(a, b) * a",
        f"if a < b:\n        {kept}g(b, a) * a",
        f"if a < b:\n        {kept}g(a, b) / a",
    }
    assert any("b=3" in text for text, _, _ in made)
    assert {line for _, line, _ in made} == {1, 2, 4}
    assert mutant("x: list = []\n", random.Random(0)) is None
    assert tests_of(PACKAGE / "reports" / "comparison.py", 1) == ["tests/reports/test_report.py"]


def test_a_speedrun_is_timed_once_and_again_after_an_edit(scripts, tmp_path, monkeypatch):
    import speedruns

    def timed(path: Path, seed: int) -> dict:
        runs.append(seed)
        return {"recipe": path.stem, "seed": seed, "hash": load_recipe(path, [f"seed={seed}"]).hash}

    runs: list[int] = []
    recipe = tmp_path / "fast.yaml"
    recipe.write_text(f"base: {ROOT / 'recipes/csordas2021/scan_length26_relative.yaml'}\n", "utf-8")
    monkeypatch.setattr(speedruns, "timed", timed)
    monkeypatch.setattr(speedruns, "OUTPUT", tmp_path / "speedruns.json")
    monkeypatch.setattr(sys, "argv", ["speedruns.py", str(recipe), "--seeds", "1", "0"])
    speedruns.main()
    speedruns.main()
    assert runs == [1, 0]
    recipe.write_text(recipe.read_text("utf-8") + "training:\n  max_steps: 7\n", "utf-8")
    monkeypatch.setattr(sys, "argv", ["speedruns.py", str(recipe), "--seeds", "1"])
    speedruns.main()
    assert runs == [1, 0, 1]
    kept = json.loads((tmp_path / "speedruns.json").read_text("utf-8"))
    assert [(row["seed"], row["hash"]) for row in kept] == [
        (0, load_recipe(recipe, ["seed=0", "training.max_steps=50000"]).hash),
        (1, load_recipe(recipe, ["seed=1"]).hash),
    ]


def test_a_recipe_that_fails_is_a_row_of_the_measurement(scripts, tmp_path, monkeypatch):
    import gpu_pretraining

    right = ROW | {"recipe": "pretrain_41M_2"}
    done = {"pretrain_41M_1": (1, ""), "pretrain_41M_2": (0, f"step 1\n{json.dumps(right)}")}
    monkeypatch.setattr(gpu_pretraining, "machine", dict)
    monkeypatch.setattr(
        gpu_pretraining.subprocess, "run", lambda words, **_: subprocess.CompletedProcess(words, *done[words[2]])
    )
    output = tmp_path / "measured.json"
    monkeypatch.setattr(sys, "argv", ["gpu_pretraining.py", *done, "--quick", "--output", str(output)])
    with pytest.raises(SystemExit) as ended:
        gpu_pretraining.main()
    assert ended.value.code == 1
    failed, measured = json.loads(output.read_text("utf-8"))["results"]
    assert failed["recipe"] == "pretrain_41M_1"
    assert failed["error"]
    assert measured == right


def test_fairseq_drops_what_ours_drops(scripts):
    """In its own layout: sources padded on the left, and time first between the layers."""
    from fairseq_conv import CALLS, EqualMasks

    sources, targets, rate = torch.ones(2, 5, 3), torch.ones(2, 7, 3), 0.25
    batch = {"attention_mask": torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])}
    ours, theirs = EqualMasks(), EqualMasks()
    seen = []
    for _ in range(2):
        for masks in (ours, theirs):
            masks.start(batch)
        for call in range(CALLS):
            hidden = sources if call < 7 else targets
            dropped = ours.ours(hidden, rate, True)
            other = hidden if call in (0, 7, 14) else hidden.transpose(0, 1)
            other = theirs.theirs(other, rate, True)
            other = other if call in (0, 7, 14) else other.transpose(0, 1)
            if call < 7:
                # three real columns, which stand at the end
                assert other[0, 2:].equal(dropped[0, :3])
                assert other[1].equal(dropped[1])
            else:
                assert other.equal(dropped)
            seen.append(dropped.flatten().tolist())
    assert len({tuple(one) for one in seen}) == len(seen)
