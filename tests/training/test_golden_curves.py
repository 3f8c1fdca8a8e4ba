"""The first updates of shipped recipes, made tiny, are those of tests/golden/curves; see `golden_curves`."""

from __future__ import annotations

import json

import pytest
from golden_curves import CURVES, FOLDER, UPDATES, draws, train

# With and without vector instructions (ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE) curves differ by 4e-12 where a
# high learning rate makes errors grow (bergen2021_cogs_graph_universal) and by 2e-15 elsewhere. The files have 12
# digits. Initial weights that are rounded to float32 in another way already make 1e-8.
RELATIVE = 1e-9


def test_every_curve_has_a_file():
    assert {path.stem for path in FOLDER.glob("*.json")} == set(CURVES)


@pytest.mark.parametrize("name", CURVES)
def test_training_goes_as_it_went(name, tmp_path):
    if any(key.startswith("peft.") for key in CURVES[name].overrides):
        pytest.importorskip("peft", reason="needs peft: pip install 'hf-sysgen[peft]'")
    golden = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    if golden["draws"] != draws():
        pytest.skip(
            f"this build of PyTorch draws other random numbers than that of the golden file: {golden['versions']}"
        )
    curve = train(name, tmp_path)
    assert curve.keys() == golden["curve"].keys()
    # the rate first, which explains the rest
    for key in ("learning_rate", "loss", "gradient_norm"):
        assert len(curve[key]) == UPDATES
        assert curve[key] == pytest.approx(golden["curve"][key], rel=RELATIVE, abs=0), key
