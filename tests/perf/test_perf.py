"""What the scripts in perf compute from what they measure."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from documents import ROOT
from made_records import made_record
from transformers import GPT2Config, GPT2LMHeadModel

from hf_sysgen.models import DepthWidthConfig, DepthWidthForCausalLM
from hf_sysgen.results.record import Record


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "perf"), *sys.path])


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


def test_table_of_pretraining(scripts, monkeypatch, tmp_path):
    """Both modes beside each other, and MFU where a device was measured."""
    import readme_tables

    results = [
        {
            "size_class": "41M", "layers": 1, "batch": 2, "context": 3, "precision": "bf16", "mode": mode, "name": name,
            "parameters": 1000, "tokens_per_second": speed, "seconds": [1.0] * 5, "peak_bytes": 3 * 2**20, "mfu": 0.25,
        }
        for mode, speeds in (("eager", (100, 50, 80)), ("compiled", (90, 120, 60)))
        for name, speed in zip(("depth_width_decoder", "gpt2", "llama"), speeds, strict=True)
    ]  # fmt: skip
    record = {"device": "a GPU", "num_threads": 2, "measured_peak_flops": 1.0, "results": results}
    (tmp_path / "pretraining.json").write_text(json.dumps(record))
    monkeypatch.setattr(readme_tables, "HERE", tmp_path)
    header, _, ours, gpt2, llama, _, note = readme_tables.pretraining_table().splitlines()
    assert header == (
        "| 41M, 1 layer | parameters | eager: tokens/s | x best peer | MiB | MFU | compiled: tokens/s | x best peer "
        "| MiB | MFU |"
    )
    assert ours == "| `depth_width_decoder` | 1,000 | 100 | 1.25 | 3 | 25.0% | 90 | 0.75 | 3 | 25.0% |"
    assert gpt2 == "| `gpt2` | 1,000 | 50 | 0.62 | 3 | 25.0% | 120 | 1.00 | 3 | 25.0% |"
    assert llama == "| `llama` | 1,000 | 80 | 1.00 | 3 | 25.0% | 60 | 0.50 | 3 | 25.0% |"
    assert note.startswith("a GPU, by the clock, medians of 5 rounds")


@pytest.fixture
def stories(scripts, monkeypatch):
    """The module, on made records: of one seed at the paper's setup, of two of the small models, where GAT has none."""
    import story_lengths

    def record(seed: int, right: float) -> Record:
        categories = {"k=10": [20, right - 0.25], "k=6": [40, right]}
        splits = {"test": {"accuracy": right, "by_category": categories}}
        return made_record(splits=splits, seed=seed, num_parameters=1234)

    cells = {}
    for number, name in enumerate(story_lengths.MODELS):
        cells[name] = [record(3, 1 - number / 8)]
        if name != "clutrr_gat_234":
            cells[name + story_lengths.QUICK] = [record(0, 0.75), record(1, 0.5)]
    monkeypatch.setattr(story_lengths, "kept_cells", lambda: cells)
    return story_lengths


def test_table_of_stories_by_length(stories):
    table, note = stories.story_table().split("\n\n")
    header, _, *rows = table.splitlines()
    assert header == "| trained on k = 2, 3, 4 | runs | parameters | k = 6 | k = 10 |"
    assert rows == [
        "| Edge Transformer, paper | 10 |  | 98.1 ± 0.3 | 92.1 ± 1.5 |",
        "| Edge Transformer, ours | 1 | 1,234 | 100.0 | 75.0 |",
        "| Edge Transformer, ours, quick | 2 | 1,234 | 62.5 ± 17.7 | 37.5 ± 17.7 |",
        "| RAT, ours | 1 | 1,234 | 87.5 | 62.5 |",
        "| RAT, ours, quick | 2 | 1,234 | 62.5 ± 17.7 | 37.5 ± 17.7 |",
        "| RRAT, ours | 1 | 1,234 | 75.0 | 50.0 |",
        "| RRAT, ours, quick | 2 | 1,234 | 62.5 ± 17.7 | 37.5 ± 17.7 |",
        "| GAT, ours | 1 | 1,234 | 62.5 | 37.5 |",
        "| stories |  |  | 40 | 20 |",
    ]
    assert note.endswith("Not measured yet: `clutrr_edge_23`, `clutrr_rat_23`, `clutrr_rrat_23`.")


def test_picture_of_stories_by_length(stories, monkeypatch):
    figures = []
    monkeypatch.setattr(stories, "save", lambda figure, path: figures.append(figure))
    stories.draw_stories(ROOT / "unwritten.png")
    large, small = figures[0].axes
    assert large.get_title() == "the paper's setup"
    assert small.get_title() == "small models, mean and range of 2 seeds"
    lines = {line.get_label(): line.get_ydata().tolist() for line in large.lines if line.get_label() in LEGEND}
    assert lines == {
        "Edge Transformer, seed 3": [100, 75], "RAT, seed 3": [87.5, 62.5], "RRAT, seed 3": [75, 50],
        "GAT, seed 3": [62.5, 37.5],
    }  # fmt: skip
    (paper,) = large.containers
    assert [y for _, y in paper[0].get_xydata()] == [98.1, 97.9, 95.3, 92.3, 92.1]
    assert [line.get_ydata().tolist() for line in small.lines] == [[62.5, 37.5]] * 3
    assert [text.get_text() for text in figures[0].legends[0].get_texts()] == LEGEND


LEGEND = [
    "Edge Transformer, seed 3", "RAT, seed 3", "RRAT, seed 3", "GAT, seed 3",
    "Edge Transformer, the paper's Table 5 (± standard error)",
]  # fmt: skip


def test_a_setup_at_a_time_leaves_the_other_s_rows(scripts, tmp_path):
    from seq2seq import rows_of_others

    about = {"device": "d", "versions": {"torch": "2"}, "rounds": 3}
    rows = [{"setup": name, "threads": count, "per_second": 1.0} for name in ("scan", "cogs") for count in (1, 2)]
    path = tmp_path / "seq2seq.json"
    assert rows_of_others(path, {("cogs", 1)}, about) == []
    path.write_text(json.dumps({**about, "git_commit": "x", "results": rows}), encoding="utf-8")
    assert rows_of_others(path, {("cogs", 1), ("cogs", 2)}, {**about, "git_commit": "y"}) == rows[:2]
    assert rows_of_others(path, {("scan", 1), ("cogs", 1)}, about) == [rows[1], rows[3]]
    # of another machine, or measured otherwise
    assert rows_of_others(path, {("cogs", 1)}, about | {"rounds": 5}) == []
    assert rows_of_others(None, {("cogs", 1)}, about) == []


def test_a_setup_of_triangles_at_a_time_leaves_the_others(scripts, monkeypatch, tmp_path):
    import triangular_attention

    path = tmp_path / "record.json"

    def setups(chosen: tuple[str, ...], run: int, rounds: int = 1) -> dict:
        monkeypatch.setattr(triangular_attention, "measure", lambda setup, *_: {"run": run})
        words = ["--setups", *chosen, "--rounds", str(rounds), "--threads", str(torch.get_num_threads())]
        monkeypatch.setattr(sys, "argv", ["triangular_attention.py", *words, "--output", str(path)])
        triangular_attention.main()
        return {name: one["run"] for name, one in json.loads(path.read_text())["setups"].items()}

    monkeypatch.setattr(triangular_attention, "speeds", lambda: (1.0, 1.0))
    assert setups(("n16", "cfq"), run=1) == {"n16": 1, "cfq": 1}
    after = setups(("cfq", "n8"), run=2)
    assert after == {"n8": 2, "n16": 1, "cfq": 2}
    assert list(after) == ["n8", "n16", "cfq"]
    # measured otherwise
    assert setups(("n8",), run=3, rounds=2) == {"n8": 3}
