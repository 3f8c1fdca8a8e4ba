"""The papers' numbers: as printed, and tied to recipes that exist."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from hf_sysgen.reports.papers import Cell, Table, papers

EXCERPTS = Path(__file__).parents[1] / "fixtures" / "papers"
TABLES = {table.id: table for paper in papers() for table in paper.tables}
# file of a paper's text, and on which side of its caption a table stands
TEXTS = {
    "csordas2021": ("csordas2021_devil_in_the_detail.txt", "below"),
    "chaabouni2021": ("chaabouni2021_jump_around_right.txt", "above"),
    "bergen2021": ("bergen2021_edge_transformer.txt", "below"),
    "chakravarthy2022": ("chakravarthy2022_role_filler.txt", "above"),
    "petty2023": ("petty2023_depth_and_width.txt", "above"),
}
# how many of a table's lines are heads, and how many columns are labels, where it is not one each
SHAPES = {
    "csordas2021-table1": (2, 2), "csordas2021-table2": (2, 2), "csordas2021-table3": (2, 1),
    "csordas2021-table4": (2, 1), "csordas2021-table5": (2, 2), "csordas2021-table6": (2, 1),
    "csordas2021-table7": (2, 2), "csordas2021-table8": (2, 1), "csordas2021-table9": (2, 2),
    "csordas2021-table10": (2, 1), "bergen2021-table1": (1, 2), "bergen2021-table2": (2, 1),
    "bergen2021-table5": (2, 2), "bergen2021-table6": (2, 1), "chaabouni2021-table4": (1, 0),
    "chaabouni2021-table5": (2, 1), "petty2023-table1": (2, 1), "petty2023-table3": (2, 1),
}  # fmt: skip
# columns that the text garbles from top to bottom: a GPU's name, and what ran into it
GARBLED_COLUMNS = {("csordas2021-table5", "GPU type")}
# cells that the text garbles, here or in another table that repeats them
GARBLED = {
    ("csordas2021-table3", "PCFG Productivity split", "Prior Work"),
    ("csordas2021-table3", "PCFG Systematicity split", "Prior Work"),
    # the line above stands there again; Table 3 has the number
    ("csordas2021-table7", "CFQ MCD 3, No scaling", "Trafo"),
}
# numbers that the text repeats or misreads beside the real ones, by column
EXTRA = {
    "csordas2021-table7": {
        0: ["0.10", "0.00", "0.10", "0.13", "0.47", "0.27"],
        1: ["0.11", "0.00", "0.19", "0.14", "0.76", "0.01"],
        2: ["0.72", "0.21", "0.09", "0.02"],
        3: ["0.05", "0.01", "0.90", "0.01"],
        4: ["0.27", "0.09", "0.50", "0.02", "0", "0", "0", "00", "~0.91", "0.00"],
    }
}
# what the running text states: expressions whose groups are the cells of the table's rows
STATED = {
    "csordas2021-section3.2": [
        r"by Kim and Linzen \(2020\) is (\d+)%", r"observed that the accuracy improved to (\d+)%",
        r"best model achieved a test accuracy of (\d+)%",
    ],
    "chaabouni2021-section7": [
        r"recovers an average of ([\d.]+)% of cases", r"Transformer is only correct at ([\d.]+)% of SAG",
    ],
    "bergen2021-section4.3": [
        r"filtered random split \( ?\$(.+?)\\%\$ ", r"filtered random split \(.+? vs +\$(.+?)\$ +% accuracy",
        r"It reaches +\$(.+?)\$ +% average",
    ],
    "chakravarthy2022-figure3": [r"\(entropy = ([\d.]+)\)"],
    "petty2023-figure3": [
        r"optimal \(5-layer\) model is ([\d.]+); .*? ratio is ([\d.]+); .*? ratio is ([\d.]+)\.",
    ],
}  # fmt: skip


@pytest.fixture(scope="session")
def texts() -> dict[str, list[str]]:
    """The lines of the papers' texts that have their tables and captions, and the sentences that tests look for."""
    return {paper: (EXCERPTS / name).read_text(encoding="utf-8").splitlines() for paper, (name, _) in TEXTS.items()}


def numbers(text: str) -> list[str]:
    """The numbers of a printed cell, with the marks that belong to them."""
    text = re.sub(r"\\sim\s*|~\s*", "~", text)
    text = re.sub(r"\s*\\cdot\s*", "·", text)
    text = re.sub(r"10\^\{(-?\d+)\}", r"10^\1", text)
    # footnotes
    text = re.sub(r"\^\{[^}]*\}|\[[\da-z#]\]\*?", "", text)
    text = re.sub(r"\\checkmark|✓", "yes", text)
    text = re.sub(r"<[^>]*>|\\[a-zA-Z]+|[{}$*\\]", " ", text)
    return re.findall(r"~?(?:\d[\d.:/]*|\.\d+)(?:·10\^-?\d+|\^-?\d+)?[kM]?|yes", text)


def block(lines: list[str], table: Table, side: str) -> list[list[str]]:
    """The lines of a table by column, heads left out."""
    caption = next(index for index, line in enumerate(lines) if line.startswith(f"{table.name}:"))
    step = 1 if side == "below" else -1
    rows: list[list[str]] = []
    index = caption + step
    while index < len(lines) and ((cells := split(lines[index])) or not rows):
        if cells:
            rows.append(cells)
        index += step
    heads, _ = SHAPES.get(table.id, (1, 1))
    # the last line of one table is of the whole classes
    return [cells for cells in rows[::step][heads:] if "d_{" not in cells[1]]


def split(line: str) -> list[str]:
    if line.startswith("|"):
        return line.strip("|").split("|")
    if "\t" in line:
        return line.split("\t")
    # plain text: a label, then cells
    found = re.fullmatch(r"(.*?)((?: (?:X|[\d.]+ ± [\d.]+))+)", line)
    if found:
        return [found[1], *re.findall(r"X|[\d.]+ ± [\d.]+", found[2])]
    return ["Model"] if line.startswith("Model ") else []


def wrong(table: Table, lines: list[str], side: str) -> list[str]:
    """The columns whose numbers, from top to bottom, are not those of the text."""
    labels = SHAPES.get(table.id, (1, 1))[1]
    text: list[list[str]] = [[] for _ in table.columns]
    for row in block(lines, table, side):
        for found, cell in zip(text, row[labels:], strict=False):
            found += numbers(cell)
    faults = []
    for index, column in enumerate(table.columns):
        if (table.id, column) in GARBLED_COLUMNS:
            continue
        cells = [cells[index] for cells in table.cells.values()]
        ours = [n for cell in cells if (table.id, cell.row, column) not in GARBLED for n in numbers(cell.printed)]
        left = list(EXTRA.get(table.id, {}).get(index, []))
        theirs = iter(text[index])
        for number in ours:
            for candidate in theirs:
                if candidate == number:
                    break
                if candidate not in left:
                    faults.append(f"{column}: {number} here, {candidate} in the text")
                    break
                left.remove(candidate)
            else:
                faults.append(f"{column}: {number} is not in the text")
        if sorted([*theirs]) != sorted(left):
            faults.append(f"{column}: the text has more numbers")
    return faults


def test_misprints_are_shown_and_not_compared_with():
    cells = {(name, cell.row, cell.column): cell for name, table in TABLES.items() for cell in table if cell.corrected}
    assert {key: (cell.printed, cell.mean, cell.spread) for key, cell in cells.items()} == {
        ("chaabouni2021-table7", "si-en", "+ fixed span"): (".78 ± 0.07", None, None),
        ("csordas2021-table5", "Math: add_or_sub, Standard", "No. of params"): ("4.4M", 44e6, None),
        ("csordas2021-table5", "Math: add_or_sub, Relative Pos.", "No. of params"): ("4.7M", 47e6, None),
    }
    assert all(TABLES[name].errata for name, *_ in cells)


PRINTED = [name for name, table in TABLES.items() if table.cells and table.numbers == "printed" and name not in STATED]


@pytest.mark.parametrize("name", PRINTED)
def test_tables_are_as_printed(name, texts):
    paper = name.partition("-")[0]
    assert wrong(TABLES[name], texts[paper], TEXTS[paper][1]) == []


@pytest.mark.parametrize("name", PRINTED)
def test_a_wrong_digit_is_found(name, texts):
    """Each cell in turn gets another last digit."""
    paper = name.partition("-")[0]
    table = TABLES[name]
    for cell in table:
        garbled = (name, cell.column) in GARBLED_COLUMNS or (name, cell.row, cell.column) in GARBLED
        digits = re.search(r"\d(?=\D*$)", cell.printed)
        if garbled or digits is None:
            continue
        changed = f"{cell.printed[: digits.start()]}{(int(digits[0]) + 3) % 10}{cell.printed[digits.end() :]}"
        assert wrong(with_text(table, cell, changed), texts[paper], TEXTS[paper][1]) != [], (cell, changed)


def with_text(table: Table, cell: Cell, printed: str) -> Table:
    row = tuple(dataclasses.replace(old, printed=printed) if old == cell else old for old in table.cells[cell.row])
    return dataclasses.replace(table, cells={**table.cells, cell.row: row})


@pytest.mark.parametrize("name", STATED)
def test_what_the_text_states(name, texts):
    text = " ".join(texts[name.partition("-")[0]])
    rows = TABLES[name].cells.values()
    for pattern, row in zip(STATED[name], rows, strict=True):
        found = re.search(pattern, text)
        assert found, pattern
        assert numbers(" ".join(found.groups())) == numbers(" ".join(cell.printed for cell in row))


# the runs behind the rows of Bergen et al. 2021, and where the paper says so; what it quotes it does not count
COUNTS = {
    "table2": ({"Transformer": 10, "Universal Transformer": 10, "Edge Transformer": 10},
               "BiLSTM results are from .*Transformer, Universal .* and Edge Transformer results are averaged over 10"),
    "table3": ({"Universal Transformer": 30, "Edge Transformer": 5},
               "For each MCD split we report .* for 30 Universal Transformer and 5 Edge Transformer runs"),
    # of Table 4 the caption is silent, its number of the Edge Transformer is Table 6's
    "table4": ({"Edge Transformer": 10}, "COGS graph semantic parsing.*Results are averaged over 10 runs"),
    "table5": (dict.fromkeys(TABLES["bergen2021-table5"].cells, 10), "on CLUTRR.*Results are averaged over 10 runs"),
    "table6": (dict.fromkeys(TABLES["bergen2021-table6"].cells, 10), "and COGS graph.*Results are averaged over 10"),
    "section4.3": ({"Edge Transformer, MCD avg.": 5}, "for 30 Universal Transformer and 5 Edge Transformer runs"),
}  # fmt: skip


def test_the_paper_counts_its_runs_there(texts):
    for name, (_, sentence) in COUNTS.items():
        assert any(re.search(sentence, line) for line in texts["bergen2021"]), name


def test_runs_are_counted_where_the_paper_counts_them():
    ours = {name.partition("-")[2]: table for name, table in TABLES.items() if name.startswith("bergen2021-")}
    assert {name for name, table in ours.items() if table.kind == "results"} == set(COUNTS)
    for name, (rows, _) in COUNTS.items():
        found = {cell.row: cell.seeds for cell in ours[name]}
        assert found == {**dict.fromkeys(found), **rows}, name


def test_every_caption_of_the_texts_has_an_entry(texts):
    for paper, lines in texts.items():
        captions = {line.partition(":")[0] for line in lines if re.match(r"(Table|Figure) \d+:", line)}
        assert captions <= {table.name for table in next(p for p in papers() if p.id == paper).tables}
