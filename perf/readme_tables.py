"""
`python perf/readme_tables.py` puts tables into README.md and docs, between their `<!-- results:NAME -->` marks,
and numbers into the heads of recipes, after "# Measured here:"; it writes the cards in model_cards, and draws the
pictures of curves.

`--keep RUN_DIR ...` first copies those runs' records into results. A test holds that all agree.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import unicodedata
from functools import partial
from pathlib import Path

from dataset_statistics import cell as statistic
from kept_records import RESULTS_FOLDER, cards, keep, kept_cells, kept_records, measured_heads
from story_lengths import draw_stories, story_table

from hf_sysgen.config.io import read_recipe, shipped_files
from hf_sysgen.data import list_benchmarks
from hf_sysgen.data.describe import counts_text
from hf_sysgen.files import write_whole
from hf_sysgen.hub.model_card import what_is
from hf_sysgen.reports.comparison import Collection, TableReport, collect, reproduce
from hf_sysgen.reports.report import HEADER, document, rows_of
from hf_sysgen.results.record import RESULTS, Record, read_record
from hf_sysgen.tables import markdown

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# the main job's runs
QUICK = ("scan_length26_quick_relative_universal", "scan_length26_quick_universal")


def first_record(name: str) -> Record:
    return kept_cells()[name][0]


def kept_results(name: str) -> tuple[list[TableReport], Collection]:
    """`hf-sysgen report NAME --runs results`, before it is written."""
    found = collect([RESULTS_FOLDER])
    return reproduce(name, [record for _, record in found.records]), found


def quick_table() -> str:
    """The main job: ours beside the paper's."""
    rows = []
    for table, split in (("csordas2021-table3", "longer than 26"), ("csordas2021-table8", "IID")):
        for report in kept_results(table)[0]:
            for row in rows_of(report, measured_only=True):
                entry = dict(zip(HEADER, row, strict=True))
                cell = f"{report.table.name}, {entry['cell']}: {split}"
                rows.append((cell, *(entry[key] for key in ("paper", "ours", "difference", "budget", "verdict"))))
    cells = [kept_cells()[name] for name in QUICK]
    scores = ([one.splits["test"].metrics["accuracy_oracle"] or 0.0 for one in records] for records in cells)
    oracle = " and ".join(f"{statistics.fmean(values):.3f}" for values in scores)
    relative, absolute = (", ".join(str(one.seed) for one in records) for records in cells)
    records = [first_record(name) for name in QUICK]
    seconds = " and ".join(f"{record.train_seconds:.0f} s" for record in records)
    record = records[-1]
    examples = {name: f"{split.examples:,}" for name, split in record.splits.items()}
    note = (
        f"Seeds: {relative} of the relative one, {absolute} of the absolute one; {examples['validation']} IID and "
        f"{examples['test']} longer examples. With oracle output length, exact match on the longer ones is {oracle} "
        f"(relative and absolute). {seconds} of training (seed 0) on one core of an {record.environment.device} each."
    )
    return f"{markdown(('cell', 'paper', 'ours', 'difference', 'budget', 'verdict'), rows)}\n\n{note}"


def report_document() -> str:
    """All kept results beside the papers."""
    return document(*kept_results("all")).strip()


SETUPS = {
    "scan": "SCAN: batches of 256, width 128, 27 steps of decoding.",
    "cogs": "COGS: batches of 128, width 512, 64 steps.",
}
# ways of training: head of its column, and what the note says of it
WAYS = {
    "train padded": ("steps/s", ""),
    "train grouped": ("grouped", "Grouped: the same update from four parts of similar length"),
    "train bf16": ("bf16", "bf16: that under autocast, `precision=bf16`"),
    "train compiled": ("compiled", "compiled: under `torch.compile`, padded to one shape"),
}


def speed_table() -> str:
    """Training and decoding speed of the setups of SCAN and COGS, from perf/seq2seq.json."""
    record = json.loads((HERE / "seq2seq.json").read_text(encoding="utf-8"))
    speed = {(row["threads"], row["setup"], row["what"], row["name"]): row["per_second"] for row in record["results"]}
    tables = []
    for threads in sorted({row["threads"] for row in record["results"]}):
        kinds = dict.fromkeys((row["setup"], row["what"]) for row in record["results"] if row["threads"] == threads)
        names = dict.fromkeys(row["name"] for row in record["results"] if row["what"] in WAYS)
        header = [f"{threads} thread{'s' * (threads > 1)}"]
        header += [f"{setup.upper()}: {WAYS.get(what, ('sequences/s',))[0]}" for setup, what in kinds]
        rows = [
            (
                f"`{name}`",
                *(
                    f"{speed[threads, setup, what, name]:.2f}"
                    if what in WAYS
                    else f"{speed[threads, setup, what, f'{name} generate']:.0f}"
                    for setup, what in kinds
                ),
            )
            for name in names
        ]
        tables.append(markdown(tuple(header), rows))
    setups = " ".join(SETUPS[setup] for setup in dict.fromkeys(row["setup"] for row in record["results"]))
    measured = {row["what"] for row in record["results"]}
    said = "; ".join(text for what, (_, text) in WAYS.items() if what in measured and text)
    note = (
        f"{record['device']}, medians of {record['rounds']} rounds, all contenders in turn in one run, one thread by "
        f"processor time; T5 and BART of equal width and depth. {setups} {said}. "
        f"Sequences: by greedy `generate`."
    )
    return "\n\n".join([*tables, note])


def authors_table() -> str:
    """Training and evaluation beside the code of Csordas et al. 2021, from perf/authors_code.json."""
    record = json.loads((HERE / "authors_code.json").read_text(encoding="utf-8"))
    ratios = {(row["what"], row["name"]): row["times_as_fast"] for row in record["results"]}
    kinds = list(dict.fromkeys(what for what, _ in ratios))
    names = dict.fromkeys(name for _, name in ratios)
    rows = [
        (f"`{name}`", *(f"{ratios[what, name]:.1f}" if (what, name) in ratios else "" for what in kinds))
        for name in names
    ]
    bf16 = "; bf16: ours so under autocast, theirs in float32" if any("bf16" in what for what in kinds) else ""
    note = (
        f"Times as fast as the authors' code, in one run on one thread of an {record['device']}, by the processor time "
        f"it got (load average {max(record['load_average']):.0f}): medians of the ratios within {record['rounds']} "
        "rounds, of evaluation half as many. SCAN, cutoff 26. Padded: the same batch of that many examples; grouped: "
        "the same update from parts of similar length, four of 256 and two of 64, as recipes have "
        f"it{bf16}. Evaluation: of the zoo's models, whole splits."
    )
    return f"{markdown(('times as fast', *kinds), rows)}\n\n{note}"


def gated_table() -> str:
    """The models of Chaabouni et al. and of Russin et al. beside their bases, from perf/gated_attention.json."""
    record = json.loads((HERE / "gated_attention.json").read_text(encoding="utf-8"))
    tables = []
    for threads in sorted({row["threads"] for row in record["results"]}):
        speed = {(row["name"], row["what"]): row for row in record["results"] if row["threads"] == threads}
        rows = []
        for name in dict.fromkeys(name for name, _ in speed):
            cells = []
            for what, digits in (("train", 2), ("decode", 0)):
                row = speed[name, what]
                low, high = row["times_base_quartiles"]
                spread = "" if name == row["base"] else f" ({low:.2f} to {high:.2f})"
                cells += [f"{row['per_second']:.{digits}f}", f"{row['times_base']:.2f}{spread}"]
            rows.append((f"`{name}`", *cells))
        title = f"SCAN add-jump, {threads} thread{'s' * (threads > 1)}"
        header = (title, "updates/s", "x time of its base", "sequences/s", "x time of its base")
        tables.append(markdown(header, rows))
    bases = " and ".join(f"`{name}`" for name in dict.fromkeys(row["base"] for row in record["results"]))
    note = (
        f"{record['device']} that others used too (load average {min(record['load_average']):.0f} to "
        f"{max(record['load_average']):.0f}), one thread by the processor time it got. Every model as its recipe "
        f"builds it; the bases are {bases}. Updates of {record['batch_size']} sentences from {record['length_groups']} "
        f"parts of similar length; greedy decoding with a cache. Times are ratios within a round, all in turn: "
        f"medians and quartiles of {record['rounds']} rounds of training and {record['decode_rounds']} of decoding."
    )
    return "\n\n".join((*tables, note))


def triangular_table() -> str:
    """Triangular attention beside the einsums of the authors, from perf/triangular_attention.json."""
    record = json.loads((HERE / "triangular_attention.json").read_text(encoding="utf-8"))
    rows = []
    for setup, one in record["setups"].items():
        shape = f"B{one['batch']} n{one['nodes']} d{one['width']} h{one['heads']}"
        kinds = ("einsum", "compiled", "blocked")
        times = [f"{one['rows'][kind]['total_ms']:.1f}" for kind in kinds]
        memory = [f"{one['rows'][kind]['peak_mib']:.0f}" for kind in kinds]
        rows.append((setup, shape, *times, f"{one['rows']['blocked']['speedup']:.1f}", *memory))
    header = (
        "setup", "shape", "einsum: ms", "compiled", "blocked", "times as fast", "einsum: MiB", "compiled", "blocked"
    )  # fmt: skip
    alone = record["threads"] == 1
    note = (
        f"{record['device']}, {record['threads']} thread{'s' * (not alone)}, forward and backward, medians of "
        f"{record['rounds']} rounds in turn{', processor time' * alone}; memory is the peak of one pass. `einsum`: the "
        "formula as released; `compiled`: that under `torch.compile`; `blocked`: ours."
    )
    return f"{markdown(header, rows)}\n\n{note}"


def edge_decoding_table() -> str:
    """Decoding with and without the Edge Transformer's cache, from perf/edge_decoding.json."""
    record = json.loads((HERE / "edge_decoding.json").read_text(encoding="utf-8"))
    rows = [
        (
            f"{row['batch']} of {row['source']} source tokens, d{row['width']} h{row['heads']}, {row['layers']} rounds",
            str(row["target"]),
            f"{row['recomputed_ms']:.1f}",
            f"{row['cached_ms']:.1f}",
            f"{row['times_as_fast']:.1f}",
        )
        for row in record["results"]
    ]
    threads = record["num_threads"]
    note = (
        f"{record['device']}, {threads} thread{'s' * (threads > 1)}, medians of {record['rounds']} rounds in turn, "
        "processor time, encoder included."
    )
    header = ("decoded", "tokens", "recomputed: ms a token", "cached", "times as fast")
    return f"{markdown(header, rows)}\n\n{note}"


def pretraining_table() -> str:
    """Updates of a depth-width decoder beside GPT-2 and Llama of equal size, from perf/pretraining.json."""
    record = json.loads((HERE / "pretraining.json").read_text(encoding="utf-8"))
    results, on_gpu = record["results"], record["measured_peak_flops"] is not None
    modes = dict.fromkeys(row["mode"] for row in results)
    tables = []
    for size_class, layers in dict.fromkeys((row["size_class"], row["layers"]) for row in results):
        own = [row for row in results if (row["size_class"], row["layers"]) == (size_class, layers)]
        cells = {(row["name"], row["mode"]): row for row in own}
        names = list(dict.fromkeys(row["name"] for row in own))
        rows = []
        for name in names:
            row = [f"`{name}`", f"{cells[name, next(iter(modes))]['parameters']:,}"]
            for mode in modes:
                one = cells[name, mode]
                # the first one is ours
                best = max(cells[peer, mode]["tokens_per_second"] for peer in names[1:])
                speed = one["tokens_per_second"]
                row += [f"{speed:,.0f}", f"{speed / best:.2f}", f"{one['peak_bytes'] / 2**20:,.0f}"]
                row += [f"{one['mfu']:.1%}"] if on_gpu else []
            rows.append(tuple(row))
        header = [f"{size_class}, {layers} layer{'s' * (layers > 1)}", "parameters"]
        for mode in modes:
            header += [f"{mode}: tokens/s", "x best peer", "MiB", *["MFU"] * on_gpu]
        tables.append(markdown(tuple(header), rows))
    threads, row = record["num_threads"], results[0]
    measured = "by the clock" if on_gpu else f"{threads} thread{'s' * (threads > 1)} by processor time"
    note = (
        f"{record['device']}, {measured}, medians of {len(row['seconds'])} rounds, all contenders in turn in one run. "
        f"Updates of {row['batch']} x {row['context']} random tokens in {row['precision']}: forward, backward, "
        "clipping and AdamW. Equal size: of the same depth, width, heads and vocabulary, with untied embeddings. "
        "Memory is the highest in use, weights and optimizer included."
    )
    return "\n\n".join((*tables, note))


def benchmarks_table() -> str:
    """All benchmarks."""
    rows = [
        (f"`{one.name}`", str(len(one.configs)), paper(one.citation), cell(one.licence), cell(one.restriction or "no"))
        for one in list_benchmarks()
    ]
    # text reads from the left
    return markdown(("benchmark", "configs", "paper", "licence", "restricted"), rows, numbers=False)


def configs_table() -> str:
    """All configs with the counts of their splits."""
    rows = [
        (f"`{benchmark.name}`", f"`{name}`", cell(counts_text(config)))
        for benchmark in list_benchmarks()
        for name, config in benchmark.configs.items()
    ]
    table = markdown(("benchmark", "config", "examples by split"), rows, numbers=False)
    return f"{table}\n\nA split without a number: nobody knows it before the data is made."


def variants_table() -> str:
    """Model types with what their configuration says of them, and their size by default."""
    from hf_sysgen.cli.listing import num_parameters
    from hf_sysgen.models import CONFIGS

    rows = []
    for name, config in CONFIGS.items():
        rows.append((f"`{name}`", what_is(name), f"{num_parameters(config):,}"))
    return markdown(("model type", "what it is", "parameters by default"), rows).replace("---:", "---", 1)


def crossing_table() -> str:
    """On which benchmarks a model type has shipped recipes, and on which others it can be trained."""
    from hf_sysgen.models import CONFIGS
    from hf_sysgen.training.tasks.base import TASKS, has_needed

    recipes = [read_recipe(path) for path in shipped_files().values()]
    with_recipe = {(recipe.model.type, recipe.data.benchmark) for recipe in recipes}
    rows = []
    for name, config in CONFIGS.items():
        tasks = {task for task, needed, _ in TASKS if has_needed(config, needed)}
        cells = [
            "●" if (name, one.name) in with_recipe else "○" if one.task in tasks else "" for one in list_benchmarks()
        ]
        rows.append((f"`{name}`", *cells))
    # with a place to break a line at, so that the table fits a page
    header = ("", *(one.name.replace("_", "_<wbr>") for one in list_benchmarks()))
    return markdown(header, rows, numbers=False)


def curves(names: tuple[str, ...], path: Path) -> None:
    """Accuracy over training of kept runs."""
    from hf_sysgen.reports.curves import plot_accuracies

    plot_accuracies([first_record(name) for name in names], path)


def depth_figure(analysis: str, start: str, path: Path) -> None:
    """A figure of Petty et al. 2023, made from the kept records whose names start so."""
    from hf_sysgen.analysis import commands as analyse
    from hf_sysgen.analysis.plotting import save

    records = [record for record in kept_records() if record.name.startswith(start)]
    save(getattr(analyse, analysis)([(RESULTS_FOLDER, record) for record in records]).draw(), path)


def in_few_colours(path: Path) -> None:
    """Make a picture small, because every clone carries it."""
    from PIL import Image

    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(32, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def statistics_table() -> str:
    """Table 10 of Csordas et al. 2021 from our loaders, from perf/dataset_statistics.json."""
    record = json.loads((HERE / "dataset_statistics.json").read_text(encoding="utf-8"))
    header = ("", *next(iter(record.values())))
    rows = [(row, *(statistic(entry) for entry in cells.values())) for row, cells in record.items()]
    notes = [
        f"{row}, {column}: {entry['note']}."
        for row, cells in record.items()
        for column, entry in cells.items()
        if "note" in entry and entry["ours"] is not None
    ]
    text = (
        "As loaded; lengths are the greatest of inputs and outputs. In brackets: the paper's number where the file is "
        "not here; `?`: a length that needs such a file."
    )
    return f"{markdown(header, rows)}\n\n{' '.join([text, *notes])}"


def loading_table() -> str:
    """Preparing and loading benchmarks, from perf/data_loading.json."""
    record = json.loads((HERE / "data_loading.json").read_text(encoding="utf-8"))
    rows = []
    for what, row in record["rows"].items():
        fresh = row.get("load_in_new_process_seconds")
        rows.append(
            (
                f"`{what}`",
                ", ".join(row["splits"]),
                f"{sum(row['splits'].values()):,}",
                f"{row['prepare_rows_per_cpu_second']:,}",
                f"{row['load_seconds']:.3f} s",
                "-" if fresh is None else f"{fresh:.3f} s",
            )
        )
    header = ("benchmark", "splits", "rows", "prepared rows/s", "load again", "load in a new process")
    setup, device = record["setup"], record["environment"]["device"]
    note = (
        f"Medians of {setup['rounds']} rounds on one core of an {device} that others used too (load average "
        f"{min(setup['load_average']):.0f} on two cores): rows per second of processor time, loading by the clock."
    )
    return f"{markdown(header, rows)}\n\n{note}"


def cell(text: str) -> str:
    return text.replace("|", "\\|")


ACCENTS = {"'": "\u0301", "`": "\u0300", '"': "\u0308", "~": "\u0303", "^": "\u0302"}


def paper(citation: str) -> str:
    """Authors and year of the first BibTeX entry, as a text names them."""
    entry = citation.split("\n@")[0]
    authors = re.search(r"author = \{(.+?)\},?\n", entry, flags=re.DOTALL)
    year = re.search(r"year = \{?(\d{4})", entry)
    if not authors or not year:
        raise SystemExit(f"no author or year in the citation {entry!r}")
    names = [name.partition(",")[0] for name in re.split(r"\s+and\s+", authors[1])]
    plain = [
        unicodedata.normalize("NFC", re.sub(r"\{?\\(['`\"~^])\{?(\w)\}?\}?", lambda m: m[2] + ACCENTS[m[1]], name))
        for name in names
    ]
    return f"{' & '.join(plain) if len(plain) < 3 else f'{plain[0]} et al.'} {year[1]}"


# document: the tables between its marks, in any order
TABLES = {
    "README.md": {
        "quick": quick_table,
        "variants": variants_table,
        "benchmarks": benchmarks_table,
        "crossing": crossing_table,
        "speed": speed_table,
        "authors": authors_table,
        "gated": gated_table,
        "triangular": triangular_table,
        "edge_decoding": edge_decoding_table,
        "pretraining": pretraining_table,
    },
    "docs/results.md": {"report": report_document, "stories": story_table},
    "docs/benchmarks.md": {"configs": configs_table, "statistics": statistics_table, "loading": loading_table},
}

# picture: what draws it from kept records
PICTURES = {
    "docs/scan_length26_quick.png": partial(curves, QUICK),
    "docs/cogs_graph_edge_quick.png": partial(curves, ("cogs_graph_edge_quick",)),
    "docs/clutrr_by_k.png": draw_stories,
    "docs/depth_family_perplexity.png": partial(depth_figure, "perplexity_depth", "pretrain_quick_"),
    "docs/depth_family_cases.png": partial(depth_figure, "lexical_structural", "cogs_vf_quick"),
}


def filled(name: str) -> str:
    """A document's text with every table between its marks."""
    text = (ROOT / name).read_text(encoding="utf-8")
    for block, table in TABLES[name].items():
        mark = f"<!-- results:{block} -->", f"<!-- /results:{block} -->"
        pattern = re.escape(mark[0]) + ".*?" + re.escape(mark[1])
        new = f"{mark[0]}\n{table()}\n{mark[1]}"
        text, count = re.subn(pattern, lambda _, new=new: new, text, flags=re.DOTALL)
        if count != 1:
            raise SystemExit(f"{name} needs {mark[0]} ... {mark[1]} once, found {count}")
    return text


def texts() -> dict[Path, str]:
    """Every file that is written from records."""
    cells = kept_cells()
    return {ROOT / name: filled(name) for name in TABLES} | measured_heads(cells) | cards(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, nargs="*", default=[], help="folders of runs whose records to keep")
    for run_dir in parser.parse_args().keep:
        keep(read_record(run_dir / RESULTS))
    # all is made before anything is written
    for path, text in texts().items():
        write_whole(path, text)
    for name, draw in PICTURES.items():
        draw(ROOT / name)
        in_few_colours(ROOT / name)


if __name__ == "__main__":
    main()
