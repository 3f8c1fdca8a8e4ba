"""The page of `hf-sysgen demo`: what its parts say, and in a browser."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from browser import BROWSER
from made_records import made_rows
from tiny_runs import command
from typer.testing import CliRunner

from hf_sysgen import demo
from hf_sysgen.cli.main import app
from hf_sysgen.data import DataError
from hf_sysgen.data.scan.grammar import interpret
from hf_sysgen.errors import UserError
from hf_sysgen.results.predictions import write_predictions
from hf_sysgen.results.record import PREDICTIONS
from hf_sysgen.zoo import DEFAULT, zoo_folder, zoo_names

OTHER = "scan_length26_quick_universal"
TEXT = "jump around left twice"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder with a model of the zoo and two predictions."""
    folder = tmp_path / "run"
    shutil.copytree(zoo_folder(DEFAULT), folder)
    row = {"split": "test", "row": 0, "input": "walk", "prediction": "I_RUN", "target": "I_WALK", "exact": False}
    rows = [{**row, "target_length": 27}, {**row, "row": 1, "prediction": "I_WALK", "exact": True, "target_length": 27}]
    write_predictions(folder / PREDICTIONS, made_rows(rows[::-1]))
    return folder


def test_answers_and_right_ones() -> None:
    assert demo.answer(DEFAULT, TEXT) == demo.right_answer(DEFAULT, TEXT) == interpret(TEXT)
    assert demo.right_answer(DEFAULT, "walk walk") is None
    with pytest.raises(DataError, match="hop"):
        demo.answer(DEFAULT, "hop twice")


def test_samples_are_read() -> None:
    for name in demo.zoo_checkpoints()[:2]:
        drawn = [demo.sample(name) for _ in range(20)]
        assert all(map(interpret, drawn))
        assert len(set(drawn)) > 1


@pytest.mark.parametrize("name", [name for name in zoo_names() if name not in (DEFAULT, OTHER)])
def test_stories_and_parses(name: str) -> None:
    """Those of a checkout are more than the wheel's."""
    text = demo.sample(name)
    assert demo.answer(name, text)
    assert demo.draw_attention(name, text).axes


def test_layers_are_drawn_by_name() -> None:
    found = demo.layers(DEFAULT, TEXT)
    assert next(iter(found)) == "encoder, layer 0"
    maps, number = found["decoder to encoder, layer 1"]
    figure = demo.draw_attention(DEFAULT, TEXT, "decoder to encoder, layer 1")
    drawn = [axes.images[0].get_array() for axes in figure.axes if axes.images]
    assert len(drawn) == len(maps.layers[number]) == 8
    for panel, weights in zip(drawn, maps.layers[number], strict=True):
        np.testing.assert_array_equal(panel, weights.numpy())
    with pytest.raises(UserError):
        demo.layers("clutrr_gat_234", "")


def test_bars_are_the_record_and_examples_the_predictions(run: Path) -> None:
    record = demo.record_of(str(run))
    found = demo.bars(str(run))
    for split, scores in record.splits.items():
        right = sum(bar.accuracy * bar.examples for bar in found if bar.split == split)
        assert right == pytest.approx(scores.accuracy * scores.examples)
    (bar,) = (bar for bar in found if (bar.split, bar.group) == ("test", 27))
    assert demo.examples(str(run), bar.label) == [["walk", "I_RUN", "I_WALK"], ["walk", "I_WALK", "I_WALK"]]
    assert demo.examples(str(run), None) == []
    assert demo.examples(DEFAULT, bar.label) == []
    assert len(demo.draw_bars(found, "").axes) == len(record.splits)
    assert demo.right_answer(str(run), "walk") == "I_WALK"


def test_the_nearest_input_of_the_run_stands_in_for_an_answer(run: Path) -> None:
    """Of COGS no grammar here knows the answer."""
    row = {"split": "gen", "prediction": "", "exact": False, "target_length": 4}
    sentences = {"A cat slept .": "cat ( 1 ) ; sleep", "Emma saw a dog .": "dog ( 3 ) ; see"}
    rows = [{**row, "row": at, "input": one, "target": sentences[one]} for at, one in enumerate(sentences)]
    write_predictions(run / PREDICTIONS, made_rows(rows))
    assert demo.nearest(str(run), "Emma saw a cat .") == ("Emma saw a dog .", "dog ( 3 ) ; see")
    assert demo.nearest(DEFAULT, "Emma saw a cat .") is None


def test_a_space(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["demo", DEFAULT, "--space", str(tmp_path / "space")])
    assert done.exit_code == 0, done.output
    code = (tmp_path / "space" / "app.py").read_text().replace(".launch()", "")
    assert sorted(path.name for path in (tmp_path / "space").iterdir()) == ["README.md", "app.py", "requirements.txt"]
    again = CliRunner().invoke(app, ["demo", DEFAULT, "--space", str(tmp_path / "space")])
    assert (again.exit_code, "not overwritten" in again.stderr) == (2, True)
    compile(code, "app.py", "exec")
    assert repr(DEFAULT) in code
    assert CliRunner().invoke(app, ["demo", "me/mine", "--space", str(tmp_path / "hub")]).exit_code == 0
    # of this machine, and one that a clone has
    for name in (str(tmp_path), "clutrr_edge_234"):
        refused = CliRunner().invoke(app, ["demo", name, "--space", str(tmp_path / "other")])
        assert refused.exit_code == 2
    assert not (tmp_path / "other").exists()


@pytest.mark.compat
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(BROWSER is None, reason="needs chromium in PATH")
@pytest.mark.parametrize("width", [390, 1280])
def test_in_a_browser(width: int, run: Path, tmp_path: Path) -> None:
    """In a process of its own: both sides answer, nothing is wider than the page, nothing comes from elsewhere."""
    pytest.importorskip("gradio")
    pytest.importorskip("playwright")
    program = f"""
from playwright.sync_api import sync_playwright
from hf_sysgen.demo import launch

address = launch([{str(run)!r}, {OTHER!r}], block=False)
with sync_playwright() as browsers:
    browser = browsers.chromium.launch(executable_path={BROWSER!r}, args=["--no-sandbox", "--disable-gpu"])
    page = browser.new_page(viewport={{"width": {width}, "height": 900}})
    page.set_default_timeout(180_000)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    page.wait_for_selector("#scores0 img")
    page.fill("#input textarea", {TEXT!r})
    page.click("#answer")
    for side in (0, 1):
        field = f"#prediction{{side}} textarea"
        page.wait_for_function("(field) => document.querySelector(field).value.includes('I_')", arg=field)
        text = page.input_value(field)
        assert text.endswith("right") or "wrong; the target is: " in text, text
        page.wait_for_selector(f"#attention{{side}} img")
    page.click("#layer0 input")
    page.get_by_role("option", name="encoder, layer 0", exact=True).click()
    page.wait_for_function("document.querySelector('#layer0 input').value == 'encoder, layer 0'")
    page.click("#bar0 input")
    page.get_by_role("option", name="test, length 27").click()
    page.wait_for_selector("text=I_RUN")
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, wide
    elsewhere = [url for url in asked if not url.startswith((address, "data:", "blob:"))]
    assert not elsewhere, elsewhere
    page.screenshot(path="page.png", full_page=True)
    browser.close()
"""
    done = command(["-c", program], tmp_path, GRADIO_ANALYTICS_ENABLED="False", HF_HUB_OFFLINE="1")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.png").stat().st_size > 10_000
