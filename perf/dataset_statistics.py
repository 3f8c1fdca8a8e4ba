"""
Table 10 of Csordas et al. 2021 from this package's loaders: counts, vocabulary sizes and maximum lengths of all setups,
beside the paper's numbers.

`python perf/dataset_statistics.py --data-dir FOLDER` writes perf/dataset_statistics.json. Numbers for files that FOLDER
(a mirror, see `load_benchmark`) lacks are left out; if it has some files of a benchmark, these are counted.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from hf_sysgen.data import DataError, benchmark_info, load_benchmark, locate
from hf_sysgen.data.fetch import open_file
from hf_sysgen.files import write_atomic
from hf_sysgen.tables import table

COLUMNS = ("train", "IID validation", "test", "generalization validation", "words", "train lengths", "test lengths")
# the paper's rows -> benchmark and config here, and the numbers in the order of COLUMNS
PAPER = {
    "SCAN (length cutoff=26)": ("scan", "length_cutoff_26", 16458, 1828, 2624, None, 19, "9/26", "9/48"),
    "CFQ MCD 1": ("cfq", "mcd1", 95743, None, 11968, 11968, 181, "29/95", "30/103"),
    "CFQ MCD 2": ("cfq", "mcd2", 95743, None, 11968, 11968, 181, "29/107", "30/91"),
    "CFQ MCD 3": ("cfq", "mcd3", 95743, None, 11968, 11968, 181, "29/107", "30/103"),
    "CFQ Output Length": ("cfq", "query_complexity", 100654, None, 9512, 9512, 181, "29/77", "29/107"),
    "PCFG Productivity": ("pcfg_set", "productivity", 81010, None, 11333, None, 535, "53/200", "71/736"),
    "PCFG Systematicity": ("pcfg_set", "systematicity", 82168, None, 10175, None, 535, "71/736", "71/496"),
    "COGS": ("cogs", "gen_2020", 24155, 3000, 21000, None, 871, "22/153", "61/480"),
    "Math: add_or_sub": ("mathematics", "arithmetic__add_or_sub", 1969029, 10000, 10000, None, 69, "60/19", "62/23"),
    "Math: place_value": ("mathematics", "numbers__place_value", 1492268, 9988, 10000, None, 69, "50/1", "52/1"),
}
# row and column -> why our number differs
EXPLAINED = {
    ("PCFG Productivity", "words"): "their vocabulary has four words more, of another split of the benchmark",
    ("PCFG Systematicity", "words"): "their vocabulary has four words more, of another split of the benchmark",
    ("Math: add_or_sub", "words"): "theirs are the characters of all modules, ours those of this one",
    ("Math: place_value", "words"): "theirs are the characters of all modules, ours those of this one",
}


def texts_of(benchmark: str, config: str, data_dir: Path) -> dict[tuple[str, str], list[str]]:
    """Split and side ("input" or "target") -> texts, as far as the folder has them."""
    try:
        data = load_benchmark(benchmark, config, data_dir=data_dir)
        return {(name, side): split[side][:] for name, split in data.items() for side in ("input", "target")}
    except DataError:
        return dict(_parts(benchmark, config, data_dir))


def _parts(benchmark: str, config: str, data_dir: Path) -> Iterator[tuple[tuple[str, str], list[str]]]:
    if benchmark != "pcfg_set":
        return
    # one text per line, a file for each split and side
    for role, source in benchmark_info(benchmark).config(config).sources.items():
        split, _, side = role.partition("_")
        try:
            path = locate(source, data_dir)
        except DataError:
            continue
        with open_file(path) as stream:
            yield (split, side or "input"), stream.read().decode().splitlines()


def statistics(texts: dict[tuple[str, str], list[str]], characters: bool) -> dict[str, int | str | None]:
    """The table's columns; None where a text is missing."""

    def count(split: str) -> int | None:
        return next((len(rows) for (name, _), rows in texts.items() if name == split), None)

    def lengths(split: str) -> str | None:
        longest = [
            max(len(text) if characters else len(text.split()) for text in texts[split, side])
            if (split, side) in texts
            else None
            for side in ("input", "target")
        ]
        return None if longest == [None, None] else "/".join("?" if n is None else str(n) for n in longest)

    words = {word for rows in texts.values() for text in rows for word in (text if characters else text.split())}
    values = (
        count("train"), count("validation"), count("test"), count("validation_generalization"), len(words) or None,
        lengths("train"), lengths("test"),
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".json"))
    arguments = parser.parse_args()
    record = {}
    for row, (benchmark, config, *paper) in PAPER.items():
        ours = statistics(texts_of(benchmark, config, arguments.data_dir), characters=benchmark == "mathematics")
        record[row] = {
            column: {"ours": ours[column], "paper": value}
            | ({"note": EXPLAINED[row, column]} if (row, column) in EXPLAINED else {})
            for column, value in zip(COLUMNS, paper, strict=True)
        }
    write_atomic(arguments.output, json.dumps(record, indent=1) + "\n")
    print(table(("", *COLUMNS), [(row, *(cell(entry) for entry in cells.values())) for row, cells in record.items()]))


def cell(entry: dict) -> str:
    """Our number if it equals the paper's; both if they differ; the paper's in brackets if ours is not known."""
    ours, paper = entry["ours"], entry["paper"]
    if ours is None:
        return "-" if paper is None else f"({paper})"
    if paper is None or str(ours) == str(paper):
        return str(ours)
    return f"{ours} (paper: {paper})"


if __name__ == "__main__":
    main()
