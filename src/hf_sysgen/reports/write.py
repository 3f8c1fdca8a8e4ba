"""What `hf-sysgen report` does."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from hf_sysgen.errors import UserError, one_line
from hf_sysgen.files import write_atomic
from hf_sysgen.reports.comparison import compare_with_papers, summarize
from hf_sysgen.reports.page import page
from hf_sysgen.reports.report import markdown_report, terminal_report
from hf_sysgen.results.reading import collect
from hf_sysgen.tables import counted


def write_report(name: str, folders: Sequence[Path], output: Path | None) -> str:
    """
    Put runs beside the tables, print or write the report.

    Args:
        name: which tables, see `hf_sysgen.reports.papers.find_tables`.
        folders: folders to search for results, see `hf_sysgen.results.reading.collect`.
        output: its file, .html, .md or .txt; for `all`, an .html also has Markdown beside it. `None` writes no file,
            except report.html for `all`.

    Returns:
        what to print.

    Raises:
        UserError: nothing has that name, a folder is not there, or the output has another ending or cannot be
            written.
    """
    if output is None and name == "all":
        output = Path("report.html")
    if output is not None and output.suffix not in (".html", ".md", ".txt"):
        raise UserError(f"{output}: a report is written as .html, .md or .txt, not as {output.suffix or 'no ending'}")
    for folder in folders:
        # without this check, a typing error would replace an old report by an empty one
        if not folder.is_dir():
            raise UserError(f"{folder}: is not a folder; give the folders of runs with --runs")
    found = collect(folders)
    reports = compare_with_papers(name, [record for _, record in found.records])
    if output is None:
        return terminal_report(reports, found)
    if name != "all":
        used = {id(record) for report in reports for cell in report for one in cell.ours for record in one.records}
        kept = tuple((path, record) for path, record in found.records if id(record) in used)
        found = dataclasses.replace(found, records=kept)
    if output.suffix == ".html":
        text = page(reports, found)
    elif output.suffix == ".md":
        text = markdown_report(reports, found)
    else:
        text = f"{terminal_report(reports, found, name == 'all')}\n"
    try:
        write_atomic(output, text)
    except OSError as error:
        raise UserError(f"{output}: cannot be written: {one_line(error)}") from error
    cells = sum(len(report.measured) for report in reports)
    compared = summaries[-1].measured if (summaries := summarize(reports)) else 0
    tables = "1 table or figure" if len(reports) == 1 else f"{len(reports)} tables and figures"
    lines = [f"{output}: {counted(len(found.records), 'run')}, {counted(cells, 'measured cell')} of {tables}"]
    if compared < cells:
        lines[0] += f"; with a number of a paper beside it: {compared}"
    return "\n".join([*lines, *(f"skipped {line}" for line in found.skipped)])
