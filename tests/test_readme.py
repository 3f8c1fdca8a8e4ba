"""The README: its commands and snippets run, on runs made small, and its numbers are those of the kept records."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from documents import ROOT, blocks, commands
from tiny_runs import forked

from hf_sysgen.reports.comparison import compare_with_papers
from hf_sysgen.reports.matching import one_for_each_seed
from hf_sysgen.reports.papers import Cell
from hf_sysgen.results.cells import PRECISION, by_cell
from hf_sysgen.results.reading import collect
from hf_sysgen.results.record import Record

README = ROOT / "README.md"
TINY = ["training.max_steps=2", "training.eval_steps=1", "training.report_to=none", "evaluation.examples=3",
        "evaluation.batch_size=1024", "model.hidden_size=16", "model.intermediate_size=16",
        "model.num_attention_heads=2", "model.encoder_layers=1", "model.decoder_layers=1",
        "batches.size=8"]  # fmt: skip
# a number that links to the record that it is of
NUMBER = re.compile(r"\[([\d.,]+)\]\((results/[^)]+\.json)\)")
# the same, and in brackets after it the paper's number, sometimes with its spread and the verdict
COMPARED = re.compile(
    NUMBER.pattern
    + r"[^\[(]*\((?:paper:\s+)?(?P<paper>[\d.]+)(?:\s±\s+(?P<spread>[\d.]+))?(?:;\s+verdict:\s+(?P<verdict>\w+))?"
)


def run(words: list[str], folder: Path, start: Callable[..., CompletedProcess[str]] = forked) -> None:
    done = start(words, folder)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder that looks like the repository's root to a reader."""
    path = tmp_path_factory.mktemp("readme")
    (path / "recipes").symlink_to(ROOT / "recipes")
    return path


@pytest.mark.parametrize("snippet", [block.text for block in blocks(README) if block.language == "python"])
def test_snippet(snippet, folder):
    run(["-c", snippet], folder)


def test_commands(folder):
    """In the README's order, because evaluation reads what training left."""
    ran = []
    for words in commands(README):
        if words[0] != "hf-sysgen":
            continue  # how it is installed, and what needs several GPUs
        words = ["-m", "hf_sysgen.cli", *words[1:]]
        if "train" in words:
            # made small it is another cell, which would have another folder
            words += [*TINY, "output_dir=runs/scan_length26_relative_universal/seed1"]
        run(words, folder)
        ran.append(words[2])
    assert ran == ["predict", "plot", "train", "evaluate", "report", "publish"]


def test_it_is_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150


def measured(record: Record) -> Iterator[tuple[str, float]]:
    """The numbers that a README may quote of a record: shares as percent."""
    for name, split in record.splits.items():
        yield name, 100 * (split.accuracy or 0)
        yield from ((f"{name} {category}", 100 * score.accuracy) for category, score in split.by_category.items())


@cache
def records_by_path() -> dict[Path, list[Record]]:
    """The records that make a number with a kept one, as in the reports: one for each seed, whatever its precision."""
    found = collect([ROOT / "results"]).records
    alike = {id(record): records for records in by_cell([one for _, one in found], PRECISION) for record in records}
    return {path: one_for_each_seed(alike[id(record)], record.recipe) for path, record in found}


# what the numbers are, in their order
MEASURES = (
    "test", "test", "test", "test k=6", "test k=10", "test", "test", "test", "test",  # of the papers' table
    "test", "test k=6", "test k=10",
)  # fmt: skip


def test_numbers_are_those_of_the_records():
    """The mean over the kept seeds, as printed."""
    found = NUMBER.findall(README.read_text(encoding="utf-8"))
    for (text, path), measure in zip(found, MEASURES, strict=True):
        values = [dict(measured(record))[measure] for record in records_by_path()[ROOT / path]]
        digits = len(text.partition(".")[2])
        assert text == f"{statistics.fmean(values):,.{digits}f}", f"{text} is not the {measure} of {path}"


def test_numbers_of_seeds_are_those_of_the_records():
    """Of the numbers before it."""
    found = re.findall(rf"(?s:{NUMBER.pattern})[^\[]*?mean of (\d+) seeds", README.read_text(encoding="utf-8"))
    assert found
    for _, path, seeds in found:
        assert len(records_by_path()[ROOT / path]) == int(seeds)


def test_papers_numbers_and_verdicts_are_those_of_the_reports():
    text = README.read_text(encoding="utf-8")
    found = list(COMPARED.finditer(text))
    assert len(found) == len(NUMBER.findall(text))
    records = list(collect([ROOT / "results"]).records)
    paths = {id(record): path for path, record in records}
    reported = [
        (paths[id(record)], cell.cell, one)
        for report in compare_with_papers("all", [record for _, record in records])
        for cell in report
        for one in cell.ours
        for record in one.records
    ]
    for match in found:
        of_it = [(percent(cell), one.verdict) for path, cell, one in reported if path == ROOT / match[2]]
        printed = float(match["paper"]), match["spread"] and float(match["spread"])
        assert any(
            mean == printed[0]
            and (printed[1] is None or spread == printed[1])
            and (match["verdict"] is None or verdict.startswith(match["verdict"]))
            for (mean, spread), verdict in of_it
        ), f"{match[0]!r} is none of {of_it}"


def percent(cell: Cell) -> tuple[float | None, ...]:
    """The paper's number and its spread."""
    scale = 100 if cell.unit == "share" else 1
    return tuple(None if value is None else round(scale * value, 6) for value in (cell.mean, cell.spread))
