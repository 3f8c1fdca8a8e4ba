"""Models as they are, with examples in their prompts: which examples, which answers, and what the record says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from datasets import Dataset, DatasetDict
from tiny_pretrained import KINDS, make
from tiny_runs import read_lines, short_scan, tiny_sections, train_process
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer
from typer.testing import CliRunner

import hf_sysgen.training.tasks.registry
from hf_sysgen.cli.main import app
from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.io import parse_recipe
from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.in_context import AllowedTokens, Shots
from hf_sysgen.evaluation.prompts import PROMPT
from hf_sysgen.hub.publish_model import publish_model, run_card
from hf_sysgen.results.reading import read_record
from hf_sysgen.training.run import run_recipe
from hf_sysgen.training.tasks.in_context import InContextTask
from hf_sysgen.training.tasks.registry import prepare_task

TRAIN = ["jump", "walk left", "jump twice", "run left twice", "jump left", "jump"]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pretrained")
    return {kind: make(folder / kind, kind) for kind in KINDS}


def test_random_shots_are_drawn_by_seed_and_example():
    def drawn(seed: int) -> list[list[int]]:
        shots = Shots(TRAIN, "random", 3, seed)
        return [shots.rows_for("look", number) for number in range(200)]

    found = drawn(0)
    assert found == drawn(0) != drawn(1)
    assert all(len(set(rows)) == 3 for rows in found)
    counts = np.bincount(np.concatenate(found), minlength=len(TRAIN))
    assert counts.min() > 60  # of 100 each on average
    assert all({0, 5}.isdisjoint(Shots(TRAIN, "random", 4, 0).rows_for("jump", number)) for number in range(20))


def test_shots_of_the_same_length_and_the_most_similar():
    same = Shots(TRAIN, "same-length", 3, 0)
    assert all(set(same.rows_for("look right", number)) == {1, 2, 4} for number in range(20))
    # of three words there is one; then the nearest length, two
    assert {tuple(same.rows_for("look right twice", number)[2:]) for number in range(20)} == {(3,)}
    similar = Shots(TRAIN, "similar", 2, 0)
    assert similar.similarity("jump left").tolist() == pytest.approx([1 / 2, 1 / 3, 1 / 3, 1 / 4, 1, 1 / 2])
    assert {similar.rows_for("jump left left", number)[-1] for number in range(9)} == {4}
    for number in range(9):
        # the one with that input is left out; the nearest stand last
        assert set(similar.rows_for("jump left", number)) == {0, 5}


def test_allowed_tokens_by_hand():
    allowed = AllowedTokens([[5, 6], [5], [7]], ends=[1, 2])
    assert allowed([]) == [5, 7]
    assert allowed([5]) == [1, 2, 5, 6, 7]
    assert allowed([5, 6]) == [1, 2, 5, 7]
    assert allowed([7, 5, 6, 7]) == [1, 2, 5, 7]
    assert allowed([7, 1]) == allowed([6]) == [1, 2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("constrained", [False, True])
def test_answers_are_those_of_the_model_alone(kind, constrained, checkpoints, tmp_path, few_examples, monkeypatch):
    monkeypatch.setattr(hf_sysgen.training.tasks.registry, "load_benchmark", lambda *args, **kwargs: short_scan())
    how = {"shots": 2, "rule": "similar", "examples": 7, "splits": ["test"], "constrained": constrained}
    recipe = parse_recipe(
        {
            "model": {"pretrained": str(checkpoints[kind])},
            "data": tiny_sections()["data"],
            "in_context": how,
            "evaluation": {"batch_size": 3},
            "seed": 5,
            "output_dir": str(tmp_path / "run"),
        }
    )
    record = run_recipe(recipe)
    assert record == read_record(tmp_path / "run" / "results.json")
    assert (record.steps, list(record.splits), record.splits["test"].examples) == (0, ["test"], 7)
    assert not (tmp_path / "run" / "model").exists()
    data = short_scan()
    words = {word for split in data.values() for text in split["target"] for word in text.split()}
    auto = AutoModelForSeq2SeqLM if kind == "t5" else AutoModelForCausalLM
    model = auto.from_pretrained(checkpoints[kind]).eval()
    tokenizer = AutoTokenizer.from_pretrained(checkpoints[kind])
    for row in read_lines(tmp_path / "run" / "predictions.jsonl"):
        assert row["exact"] == (row["prediction"].split() == row["target"].split())
        shown = [data["train"][one] for one in row["shots"]]
        text = "".join(f"{PROMPT.replace('{input}', one['input'])} {one['target']}\n\n" for one in shown)
        text += PROMPT.replace("{input}", data["test"][row["row"]]["input"])
        if constrained:
            # the last one may be cut
            *complete, last = row["prediction"].split()
            assert set(complete) <= words
            assert any(word.startswith(last) for word in words)
            continue
        batch = tokenizer(text, return_tensors="pt")
        start = 1 if kind == "t5" else batch["input_ids"].shape[1]
        with torch.inference_mode():
            ids = model.generate(**batch, max_new_tokens=60, do_sample=False)[0, start:]
        answer = tokenizer.decode(ids, skip_special_tokens=True).partition("\n")[0].strip()
        assert answer.startswith(row["prediction"])
        assert len(row["prediction"]) > 3 or answer == row["prediction"]


def test_two_processes_share_the_examples(checkpoints, tmp_path, few_examples):
    recipe = {
        "model": {"pretrained": str(checkpoints["gpt2"])},
        "data": tiny_sections()["data"],
        "in_context": {"shots": 1, "splits": ["test"]},
    }
    (tmp_path / "shown.yaml").write_text(yaml.safe_dump(recipe))
    rows = []
    for processes in (1, 2):
        run_dir = tmp_path / f"run{processes}"
        done = train_process(["shown.yaml", f"output_dir={run_dir}"], tmp_path, processes=processes)
        assert done.status == 0, done.err
        # how far the model writes depends on the batch, and what it writes first does not
        found = read_lines(run_dir / "predictions.jsonl")
        rows.append([(one["row"], one["shots"], one["exact"], one["prediction"][:4]) for one in found])
    assert len(rows[0]) > 10
    assert rows[0] == rows[1]


def test_a_short_prompt_has_room_for_the_longest_answer_of_its_batch(checkpoints, tmp_path, monkeypatch):
    """Or it is refused before the first answer: here the longest prompt has the shortest answer."""
    data = DatasetDict(short_scan())
    inputs, targets = ["jump " * 150, "jump"], ["I_JUMP", "I_JUMP " * 60]
    data["test"] = Dataset.from_dict({"input": inputs, "target": targets}).cast(data["test"].features)
    monkeypatch.setattr(hf_sysgen.training.tasks.registry, "load_benchmark", lambda *args, **kwargs: data)
    recipe = {
        "model": {"pretrained": str(checkpoints["gpt2"])},
        "data": tiny_sections()["data"],
        "in_context": {"shots": 1, "splits": ["test"]},
        "output_dir": str(tmp_path / "run"),
    }
    with pytest.raises(RecipeError, match=r"in_context\.shots"):
        run_recipe(parse_recipe(recipe))


def test_an_encoder_decoder_has_positions_for_each_side(checkpoints, monkeypatch):
    monkeypatch.setattr(hf_sysgen.training.tasks.registry, "load_benchmark", lambda *args, **kwargs: short_scan())
    needed = []
    monkeypatch.setattr(InContextTask, "_require_room", lambda self, model, tokens: needed.append(tokens))
    for kind in ("t5", "gpt2"):
        recipe = {
            "model": {"pretrained": str(checkpoints[kind])},
            "data": tiny_sections()["data"],
            "in_context": {"shots": 1, "splits": ["test"]},
        }
        task = prepare_task(parse_recipe(recipe))
        rows = np.arange(2)
        task.evaluate(task.build_model("eager"), "test", rows, True, 0, 1)
        texts = task.benchmark["test"].select(rows)["input"][:]
        prompts = [task.prompts.prompt(text, [task.examples[one] for one in task.shots.rows_for(text, row)])
                   for row, text in enumerate(texts)]  # fmt: skip
        sides = task.prompts.encode_pairs(prompts, task.targets["test"][:2])
        prompt, answer = (max(map(len, side)) for side in sides)
        assert needed.pop() == (prompt if kind == "t5" else prompt + answer)


def test_the_command(checkpoints, tmp_path, few_examples):
    words = ["evaluate", str(checkpoints["t5"]), "scan", "length_cutoff_26", "--shots", "1", "--examples", "3"]
    words += ["--constrained", "--seed", "2"]
    done = CliRunner().invoke(app, [*words, "--split", "validation", "--output", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    record = read_record(tmp_path / "out" / "results.json")
    assert record.recipe.in_context.model_dump() == {
        "shots": 1, "rule": "random", "examples": 3, "splits": ("validation",), "constrained": True,
    }  # fmt: skip
    assert record.seed == 2
    # what makes another result makes another folder
    assert record.file == "in_context/scan_length_cutoff_26"
    assert record.overrides == {
        "model.pretrained": str(checkpoints["t5"]), "in_context.shots": 1, "in_context.splits": ["validation"],
        "in_context.examples": 3, "in_context.constrained": True,
    }  # fmt: skip
    assert record.pretrained.name == str(checkpoints["t5"])
    card = run_card(str(tmp_path / "out"))
    (code,) = re.findall(r"```python\n(.*?)```", card, flags=re.DOTALL)
    assert f'checkpoint = "{checkpoints["t5"]}"' in code
    # 3 is not the size of the split
    assert "| split | examples scored |" in card
    with pytest.raises(UserError, match="trains nothing"):
        publish_model(tmp_path / "out", "someone/model", folder=tmp_path / "files")
    for option in (["--examples", "3"], ["--seed", "0"]):
        refused = CliRunner().invoke(app, ["evaluate", "x", "scan", *option])
        assert (refused.exit_code, "--shots" in refused.output) == (2, True)
    assert CliRunner().invoke(app, [*words, "--shot-rule", "best"]).exit_code == 2


@pytest.mark.parametrize(
    ("sections", "key"),
    [
        ({"in_context": {"shots": 61}}, "in_context.shots"),
        ({"in_context": {"shots": 40}}, "in_context.shots"),
        ({"in_context": {"shots": 1, "splits": ["dev"]}}, "in_context.splits"),
        ({"in_context": {"shots": 1, "rule": "best"}}, "in_context.rule"),
        ({"in_context": {"shots": 1}, "peft": {"r": 2}}, "peft"),
        ({"in_context": {"shots": 1}, "model": {"type": "universal_transformer"}}, "in_context"),
        ({"in_context": {"shots": 1}, "training": {"max_steps": 5, "learning_rate": 0.1}}, "training.max_steps"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(sections: dict[str, Any], key, checkpoints, tmp_path, few_examples):
    with pytest.raises(RecipeError) as refused:
        run_recipe(
            parse_recipe(
                {
                    "model": {"pretrained": str(checkpoints["gpt2"])},
                    "data": tiny_sections()["data"],
                    "output_dir": str(tmp_path / "run"),
                    **sections,
                }
            )
        )
    assert refused.value.key == key
