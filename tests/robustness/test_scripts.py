"""Pages and cards show the text of records, recipes and predictions, and never run it."""

from __future__ import annotations

import copy
import re
import subprocess
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import markdown
import pytest
import torch
from browser import BROWSER
from made_records import made_record, shipped

from hf_sysgen.analysis.attention import Maps
from hf_sysgen.analysis.attention_plots import draw_maps
from hf_sysgen.analysis.plotting import save
from hf_sysgen.hub.publish_model import run_card
from hf_sysgen.reports.write import write_report
from hf_sysgen.results.record import Record, write_record

RUN = "document.documentElement.dataset.ran = 1"
# closes a string, an attribute, a cell, a comment and a block of code, then starts a script in three ways
EVIL = f"""'"`|$-->]]><script>{RUN}</script><img src=x onerror="{RUN}">\n```\n<svg onload="{RUN}">"""
# without these a card cannot be made
KNOWN = ("model.type", "data.benchmark", "data.config")


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], bool]]:
    """The paths of all strings, and of all keys (True)."""
    entries = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in list(entries):
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))
        elif isinstance(value, str):
            yield (*path, key), False
        if isinstance(key, str):
            yield (*path, key), True


def poisoned(record: Record, known: tuple[str, ...] = ()) -> Record:
    """The record with the script in every string and key that its types allow."""
    content, count = record.model_dump(mode="json"), 0
    for path, is_key in places(content):
        if ".".join(map(str, path[1:])) in known:
            continue
        changed = copy.deepcopy(content)
        parent = changed
        for key in path[:-1]:
            parent = parent[key]
        if is_key:
            parent[path[-1] + EVIL] = parent.pop(path[-1])
        else:
            parent[path[-1]] += EVIL
        try:
            Record.model_validate(changed, strict=False)
        except ValueError:
            continue
        content, count = changed, count + 1
    assert count > 20
    return Record.model_validate(content, strict=False)


def whole_record() -> Record:
    test = {
        "accuracy": 0.5, "bleu": 20.0, "bleu_signature": "nrefs:1", "odd": 0.25,
        "by_length": [[1, 5, 0.5], [2, 5, 0.5]], "by_category": {"k=2": [5, 0.25], "rest": [5, 0.75]},
    }  # fmt: skip
    logged = [{"step": step, "evaluations": {"test": {"accuracy": 0.1 * step}}, "more": 1.0} for step in (1, 2)]
    recipe = shipped("cogs_transformer").replace(
        **{"output_dir": "runs/x", "data.data_dir": "data", "model.pretrained": "some/model"}
    )
    start = {"commit": "0" * 40, "versions": {"torch": "2"}, "step": 0}
    rate = {"training.learning_rate": 0.1}
    return made_record(recipe, {"validation": 0.5, "test": test}, rate, history=logged, starts=[start, start])


def report_page(folder: Path) -> str:
    runs = folder / "runs"
    record = poisoned(whole_record())
    for seed in (0, 1):
        write_record(runs / f"seed{seed}" / "results.json", record.model_copy(update={"seed": seed}))
    # also in cells, and in remarks about files that cannot be read
    write_record(runs / "cell" / "results.json", poisoned(whole_record(), (*KNOWN, "file", "overrides")))
    odd = runs / "<script>x<img src=x onerror=1>" / "results.json"
    odd.parent.mkdir()
    odd.write_text('{"schema_version": "' + EVIL.replace('"', '\\"').replace("\n", " ") + '"}')
    for ending in ("html", "md"):
        write_report("all", [runs], folder / f"report.{ending}")
    return (folder / "report.html").read_text(encoding="utf-8")


def markdown_page(text: str) -> str:
    body = markdown.markdown(text, extensions=["tables", "fenced_code"])
    return f'<!doctype html><html><head><meta charset="utf-8"></head><body>{body}</body></html>'


def report_document(folder: Path) -> str:
    report_page(folder)
    return markdown_page((folder / "report.md").read_text(encoding="utf-8"))


def card_page(folder: Path) -> str:
    record = poisoned(whole_record(), KNOWN)
    for seed in (0, 1):
        write_record(folder / "cell" / f"seed{seed}" / "results.json", record.model_copy(update={"seed": seed}))
    # the hub does not show the metadata
    return markdown_page(run_card(folder / "cell").partition("\n---\n")[2])


def picture(folder: Path) -> str:
    maps = Maps(EVIL, [torch.full((1, 2, 2), 0.5)], [EVIL, "b"], ["a", EVIL], EVIL)
    save(draw_maps([maps], EVIL), folder / "picture.svg")
    return (folder / "picture.svg").read_text(encoding="utf-8")


class Elements(HTMLParser):
    """What a page would run or fetch."""

    def __init__(self, text: str):
        super().__init__()
        self.found: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "img", "iframe", "object", "embed") or any(name.startswith("on") for name, _ in attrs):
            self.found.append(self.get_starttag_text() or tag)


def ran(path: Path) -> bool:
    """Whether a script has run when the browser has opened a file."""
    assert BROWSER is not None
    words = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-crash-reporter",
        "--virtual-time-budget=2000",
        "--dump-dom",
    ]
    done = subprocess.run([*words, f"--user-data-dir={path.parent / 'browser'}", path.as_uri()], capture_output=True)
    root = re.search(rb"<(?:html|svg)\b[^>]*>", done.stdout)
    assert root, done.stderr
    return b"data-ran" in root[0]


@pytest.mark.parametrize("make", [report_page, report_document, card_page, picture])
def test_no_text_becomes_a_script(make: Callable[[Path], str], tmp_path: Path) -> None:
    text = make(tmp_path)
    # the text is shown
    assert "dataset.ran" in text
    assert Elements(text).found == []


@pytest.mark.skipif(BROWSER is None, reason="needs chromium in PATH")
@pytest.mark.parametrize("make", [report_page, report_document, card_page, picture])
def test_no_script_runs_in_a_browser(make: Callable[[Path], str], tmp_path: Path) -> None:
    page = tmp_path / ("page.svg" if make is picture else "page.html")
    page.write_text(make(tmp_path), encoding="utf-8")
    assert not ran(page)


@pytest.mark.skipif(BROWSER is None, reason="needs chromium in PATH")
def test_a_script_that_is_let_through_is_seen(tmp_path: Path) -> None:
    """Without this, the test above could not fail."""
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><html><body>{EVIL}</body></html>")
    assert ran(page)
