"""An analysis of runs: its table in the terminal, a CSV file and a figure."""

from __future__ import annotations

import csv
import io
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sysgen.analysis.plotting import check_picture, save
from hf_sysgen.errors import UserError
from hf_sysgen.files import write_atomic
from hf_sysgen.results.reading import collect
from hf_sysgen.results.record import RESULTS, Record
from hf_sysgen.tables import table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Finding:
    """
    The result of an analysis.

    Attributes:
        name: name of its files.
        header, rows: its table.
        draw: makes its figure, if it has one.
        script: lines of a shell script with the next commands, if there are any.
        notes: lines for standard error: runs that were left out.
    """

    name: str
    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    draw: Callable[[], Figure] | None = None
    script: Sequence[str] = ()
    notes: Sequence[str] = ()


def read_runs(paths: Sequence[Path]) -> list[tuple[Path, Record]]:
    """
    Each finished run of the given files and folders, with its folder, or a kept record with its file. A run that is
    there twice counts once, with its folder if it has one.

    Raises:
        UserError: there is none in one of them, or a record cannot be read.
    """
    runs: dict[str, tuple[Path, Record]] = {}
    for path in paths:
        found = collect([path])
        if found.skipped:
            raise UserError(found.skipped[0])
        if not found.records:
            raise UserError(f"{path}: no {RESULTS} and no kept record here or below; give finished runs")
        for file, record in found.records:
            same = record.without_local_paths().model_dump_json()
            if file.name == RESULTS:
                runs[same] = file.parent, record
            else:
                runs.setdefault(same, (file, record))
    return list(runs.values())


def folder_of(run: Path, needed: str) -> Path:
    """
    The folder of a run of `read_runs`.

    Args:
        needed: what the analysis needs from it.

    Raises:
        UserError: the run is a kept record.
    """
    if run.is_file():
        raise UserError(f"{run}: a kept record has no {needed}; give the folder of a run")
    return run


def analyse(paths: Sequence[Path], output: Path, find: Callable[[list[tuple[Path, Record]]], Finding]) -> str:
    """
    Analyse the runs with `find`, write `NAME.csv` and `NAME.png` into a folder, and return the table with their paths.

    Raises:
        UserError: runs lack something, or the folder cannot be written to.
    """
    check_picture(output / "figure.png")
    finding = find(read_runs(paths))
    for note in finding.notes:
        print(note, file=sys.stderr)
    written = [output / f"{finding.name}.csv"]
    write_atomic(written[0], _csv(finding))
    if finding.draw is not None:
        written.append(output / f"{finding.name}.png")
        save(finding.draw(), written[-1])
    if finding.script:
        written.append(output / f"{finding.name}.sh")
        write_atomic(written[-1], "\n".join(finding.script) + "\n")
    return f"{table(finding.header, [[_shown(cell) for cell in row] for row in finding.rows])}\n{_listed(written)}"


def _csv(finding: Finding) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(finding.header)
    writer.writerows(finding.rows)
    return text.getvalue()


def _shown(cell: Any) -> str:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return "-"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def _listed(paths: Sequence[Path]) -> str:
    return "".join(f"-> {path}\n" for path in paths).rstrip()
