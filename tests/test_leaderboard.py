"""Which records stand in which list, in which order."""

from __future__ import annotations

import sys
from pathlib import Path

from documents import ROOT
from made_records import made_record

from hf_sysgen.config.recipe import build_recipe

sys.path.insert(0, str(ROOT / "docs" / "_generate"))
from leaderboard import FINE_TUNED, IN_CONTEXT, TRAINED, best, kind_of, leaderboard_rows

sys.path.pop(0)

SCAN = {"benchmark": "scan", "config": "length_cutoff_26"}
IN_PROMPT = {"model": {"type": "t5", "pretrained": "a/b"}, "data": SCAN, "in_context": {"shots": 8, "rule": "similar"}}


def of(name: str, test: float, values: dict | None = None, **fields):
    changed = {"data.benchmark": "scan", "data.config": "length_cutoff_26", **(values or {})}
    record = made_record(splits={"test": test, "validation": 1.0}, recipe_values=changed, file=name, **fields)
    return Path(f"{name}-seed{record.seed}.json"), record


def test_kinds_stand_apart_and_the_best_is_first():
    tuned = {"model.type": "t5", "model.pretrained": "google-t5/t5-small", "peft": {"r": 4}}
    prompted = made_record(build_recipe(IN_PROMPT, "prompted"), {"test": 0.125}, seed=3)
    found = leaderboard_rows(
        [
            of("weak", 0.25),
            of("strong", 0.5),
            of("strong", 1.0, seed=1),
            of("tuned", 0.375, tuned),
            (Path("prompted-seed3.json"), prompted),
        ]
    )
    assert [(one.kind, one.scores) for one in found] == [
        (TRAINED, (50.0, 100.0)),
        (TRAINED, (25.0,)),
        (FINE_TUNED, (37.5,)),
        (IN_CONTEXT, (12.5,)),
    ]
    assert {(one.benchmark, one.config, one.split) for one in found} == {("scan", "length_cutoff_26", "test")}
    assert best(found, TRAINED).mean == 75
    assert best(found[2:], TRAINED) is None
    assert {"`google-t5/t5-small`", "r=4"} <= set(found[2].model.replace(",", "").split())
    assert "8 shots" in found[3].model
    assert kind_of(prompted.recipe) == IN_CONTEXT


def test_models_of_one_type_differ_in_their_switches():
    """A threshold, whose default is a number, can be switched off; sizes and rates stand elsewhere."""
    filler = {"model.type": "role_filler_transformer", "model.role_loss": False, "model.dropout": 0.25}
    found = leaderboard_rows([of("a", 0.5, {**filler, "model.attention_threshold": None}), of("b", 0.25, filler)])
    assert [one.model for one in found] == [
        "`role_filler_transformer`, `model.attention_threshold=None`, `model.role_loss=False`",
        "`role_filler_transformer`, `model.role_loss=False`",
    ]


def test_pretraining_stands_nowhere():
    _, record = of("c4", 0.5, {"data.benchmark": "c4", "data.config": "en"})
    assert leaderboard_rows([(Path("c4-seed0.json"), record)]) == []
