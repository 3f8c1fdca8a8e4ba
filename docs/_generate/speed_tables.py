"""Speed and memory, from the JSON files in perf/."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from kept import read_perf

from hf_sysgen.tables import markdown

SETUPS = {
    "scan": "SCAN: batches of 256, width 128, 27 steps of decoding.",
    "cogs": "COGS: batches of 128, width 512, 64 steps of decoding.",
}
# way of training -> column head, and its part of the note
WAYS = {
    "train padded": ("steps/s", ""),
    "train grouped": ("buckets", "Buckets: the same update from four length buckets"),
    "train bf16": ("bf16", "bf16: buckets under autocast"),
}

# way of perf/cpu_ways.py -> what its row says
WITHOUT = {
    "products": "float32 products by oneDNN in place of MKL",
    "dropout": "four decisions of dropout from one random number",
    "softmax": "softmax over fewer than 16 keys padded to 16",
    "memory": "freed memory kept, in huge pages (glibc)",
    "all": "all of these",
}


def _threads(count: int) -> str:
    return f"{count} thread{'s' * (count > 1)}"


def speed() -> str:
    """Training and decoding compared with T5 and BART of equal width and depth, from seq2seq.json."""
    record = read_perf("seq2seq")
    # rows under torch.compile are not shown: on a CPU it does not pay
    results = [row for row in record["results"] if row["what"] in (*WAYS, "decode")]
    found = {(row["threads"], row["setup"], row["what"], row["name"]): row["per_second"] for row in results}
    names = dict.fromkeys(row["name"] for row in results if row["what"] in WAYS)
    tables = []
    for threads in sorted({row["threads"] for row in results}):
        for setup in dict.fromkeys(row["setup"] for row in results):
            kinds = dict.fromkeys(row["what"] for row in results if (row["threads"], row["setup"]) == (threads, setup))
            rows = [
                (
                    f"`{name}`",
                    *(
                        f"{found[threads, setup, what, name]:.2f}"
                        if what in WAYS
                        else f"{found[threads, setup, what, f'{name} generate']:.0f}"
                        for what in kinds
                    ),
                )
                for name in names
            ]
            header = [f"{setup.upper()}, {_threads(threads)}", *(WAYS.get(what, ("sequences/s",))[0] for what in kinds)]
            tables.append(markdown(header, rows))
    setups = " ".join(SETUPS[setup] for setup in dict.fromkeys(row["setup"] for row in results))
    said = "; ".join(text for _, text in WAYS.values() if text)
    note = (
        f"{record['device']}. Processor time, medians of {record['rounds']} rounds; models take turns in one process. "
        f"{setups} {said}. Sequences: greedy `generate`."
    )
    return "\n\n".join([*tables, note])


def start() -> str:
    """How long commands take to start, from start.json."""
    record = read_perf("start")
    note = f"Medians of {record['rounds']} rounds on an {record['device']}, wall-clock time."
    rows = [(f"`{name}`", f"{seconds:.2f} s") for name, seconds in record["seconds"].items()]
    return f"{markdown(('process', 'time'), rows)}\n\n{note}"


def fresh_clone() -> str:
    """What a newcomer waits for, from fresh_clone.json."""
    record = read_perf("fresh_clone")
    rows = [
        (f"`make {name}`", f"{row['seconds'] / 60:.1f} min", f"{row['gigabytes']:.1f} GB")
        for name, row in record["targets"].items()
    ]
    note = f"On two cores of an {record['device']}, by the clock, one after the other; PyTorch {record['torch']}."
    return f"{markdown(('command', 'time', 'size of the clone after it'), rows)}\n\n{note}"


def authors_code() -> str:
    """Training and evaluation compared with the code of Csordás et al. 2021, from authors_code.json."""
    record = read_perf("authors_code")
    found = {(row["what"], row["name"]): row for row in record["results"]}
    names, kinds = (list(dict.fromkeys(part)) for part in ((name for _, name in found), (what for what, _ in found)))
    rows = []
    for what in kinds:
        cells = []
        for name in names:
            row = found.get((what, name))
            cells.append(_between(row["times_as_fast"], *row["quartiles"], digits=1) if row else "")
        rows.append((what.replace("grouped", "buckets"), *cells))
    note = (
        f"Speed relative to the authors' code, on one thread of an {record['device']}, by processor time (load average "
        f"{max(record['load_average']):.0f}): medians and quartiles of the ratios of {record['rounds']} rounds, half "
        "as many for evaluation. SCAN, cutoff 26. Buckets: the same update from length buckets, four for batches of "
        "256, two for 64. bf16: ours under autocast, theirs in float32. Evaluation: the shipped small models on whole "
        "splits."
    )
    return f"{markdown(('times as fast', *(f'`{name}`' for name in names)), rows)}\n\n{note}"


def cpu_ways() -> str:
    """What each way to save time on a CPU gains in an update, from cpu_ways.json."""
    record = read_perf("cpu_ways")
    found = {(row["without"], row["setup"]): row for row in record["results"]}
    setups = [setup for without, setup in found if without == "all"]
    rows = [(what, *(_ratio(found[way, setup]) for setup in setups)) for way, what in WITHOUT.items()]
    note = (
        f"Time of an update relative to one with all four, on one thread of an {record['device']}, by processor time: "
        f"medians of {record['rounds']} rounds (least to most); each is the median of 20 updates, after 20 others, in "
        "a process of its own. SCAN, cutoff 26, relative universal Transformer, four length buckets for batches of "
        "256, two for 64. Evaluation of the small relative universal Transformer on the long split takes "
        f"{_ratio(found['reading', 'evaluation'])} times as long with SDPA and MKL throughout."
    )
    return f"{markdown(('without', *setups), rows)}\n\n{note}"


def _ratio(row: dict[str, Any]) -> str:
    return _between(row["times_as_long"], row["least"], row["most"])


def _between(middle: float, low: float, high: float, digits: int = 2) -> str:
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def cpu_attention() -> str:
    """Plain attention and SDPA by sequence length, from cpu_attention.json."""
    record = read_perf("cpu_attention")
    rows = record["results"]
    header = ("tokens", *(f"{name} (ms)" for name in rows[0]["milliseconds"]))
    table = [(f"{row['length']:,}", *(f"{one:.1f}" for one in row["milliseconds"].values())) for row in rows]
    note = (
        f"Forward and backward of 2,048 tokens, 8 heads of 16 channels (of 64 from 512 tokens on); one thread of an "
        f"{record['device']}, medians of {record['rounds']} rounds, processor time."
    )
    return f"{markdown(header, table)}\n\n{note}"


def gated() -> str:
    """Models of Chaabouni et al. and Chakravarthy et al. and their baselines, from gated_attention.json."""
    record = read_perf("gated_attention")
    tables = []
    for threads in sorted({row["threads"] for row in record["results"]}):
        found = {(row["name"], row["what"]): row for row in record["results"] if row["threads"] == threads}
        rows = []
        for name in dict.fromkeys(name for name, _ in found):
            cells = []
            for what, digits in (("train", 2), ("decode", 0)):
                row = found[name, what]
                ratio, quartiles = row["times_base"], row["times_base_quartiles"]
                ratios = f"{ratio:.2f}" if name == row["base"] else _between(ratio, *quartiles)
                cells += [f"{row['per_second']:.{digits}f}", ratios]
            rows.append((f"`{name}`", *cells))
        header = (
            f"SCAN add-jump, {_threads(threads)}", "updates/s", "time / baseline", "sequences/s",
            "time / baseline",
        )  # fmt: skip
        tables.append(markdown(header, rows))
    bases = " and ".join(f"`{name}`" for name in dict.fromkeys(row["base"] for row in record["results"]))
    note = (
        f"{record['device']} shared with others (load average {min(record['load_average']):.0f} to "
        f"{max(record['load_average']):.0f}), by processor time. Models are as in their recipes; the baselines are "
        f"{bases}. Updates of {record['batch_size']} sentences from {record['length_buckets']} length buckets; greedy "
        f"decoding with a cache. Ratios within a round: medians and quartiles of {record['rounds']} training rounds "
        f"and {record['decode_rounds']} decoding rounds."
    )
    return "\n\n".join((*tables, note))


def triangular() -> str:
    """Triangular attention compared with the authors' einsums, from triangular_attention.json."""
    record = read_perf("triangular_attention")
    kinds, rows = ("einsum", "compiled", "blocked"), []
    for setup, one in record["setups"].items():
        times = [f"{one['rows'][kind]['total_ms']:.1f}" for kind in kinds]
        memory = [f"{one['rows'][kind]['peak_mib']:.0f}" for kind in kinds]
        rows.append((setup, _shape(one), *times, f"{one['rows']['blocked']['speedup']:.1f}", *memory))
    header = (
        "setup", "shape", "einsum: ms", "compiled", "blocked", "times as fast", "einsum: MiB", "compiled", "blocked"
    )  # fmt: skip
    note = (
        f"{record['device']}, {_threads(record['threads'])}, forward and backward, medians of {record['rounds']} "
        "rounds; memory is the peak of one pass. `einsum`: the released formula; `compiled`: the same under "
        "`torch.compile`; `blocked`: ours."
    )
    return f"{markdown(header, rows)}\n\n{note}"


def _shape(setup: dict[str, Any]) -> str:
    return f"B{setup['batch']} n{setup['nodes']} d{setup['width']} h{setup['heads']}"


def gpu_triangular() -> str:
    """The implementations of triangular attention on a GPU, from gpu_triangular_attention.json."""
    record = read_perf("gpu_triangular_attention")
    kinds = ("plain", "blocked", "triton")
    setups: dict[tuple[str, str], dict[str, dict]] = defaultdict(dict)
    for row in record["results"]:
        if "error" not in row:
            setups[row["setup"], row["dtype"].removeprefix("torch.")][row["implementation"]] = row
    rows = []
    for (setup, dtype), own in setups.items():
        one = own["triton"]
        times = [f"{own[kind]['graph_ms']:.2f}" if kind in own else "-" for kind in kinds]
        memory = [f"{own[kind]['peak_mib']:,.0f}" if kind in own else "-" for kind in kinds]
        ratio = f"{own['plain']['graph_ms'] / one['graph_ms']:.1f}" if "plain" in own else "-"
        rows.append((setup, _shape(one), dtype, *times, ratio, f"{one['of_bound']:.0f}", *memory))
    header = (
        "setup", "shape", "numbers", "plain: ms", "blocked", "triton", "plain / triton", "triton / bound", "plain: MiB",
        "blocked", "triton",
    )  # fmt: skip
    checks = record["checks"]
    note = (
        f"{record['device']}, forward and backward as one CUDA graph, medians; memory is the peak of one pass; `-`: it "
        "failed, see the record. The bound is the larger of two times: to read and write all inputs and outputs once, "
        "and to multiply and add what is no matrix product. Compared with float64, outputs and gradients are at most "
        f"twice as far off as the plain version's in {sum(row['fits'] for row in checks)} of {len(checks)} checks."
    )
    return f"{markdown(header, rows)}\n\n{note}"


def edge_decoding() -> str:
    """Decoding of the Edge Transformer with and without a cache, from edge_decoding.json."""
    record = read_perf("edge_decoding")
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
    header = ("decoded", "tokens", "recomputed: ms a token", "cached", "times as fast")
    threads = _threads(record["num_threads"])
    note = f"{record['device']}, {threads}, medians of {record['rounds']} rounds, encoder included."
    return f"{markdown(header, rows)}\n\n{note}"


def pretraining(name: str = "pretraining") -> str:
    """Updates of a depth-width decoder compared with GPT-2 and Llama of equal size, from a record of pretraining.py."""
    record = read_perf(name)
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
                tokens = one["tokens_per_second"]
                row += [
                    f"{tokens:,.0f}",
                    f"{tokens / best:.2f}",
                    f"{one['peak_bytes'] / 2**20:,.0f}" if one["peak_bytes"] else "-",
                ]
                row += [f"{one['mfu']:.1%}"] if on_gpu else []
            rows.append(tuple(row))
        header = [f"{size_class}, {layers} layer{'s' * (layers > 1)}", "parameters"]
        for mode in modes:
            header += [f"{mode}: tokens/s", "/ best peer", "MiB", *["MFU"] * on_gpu]
        tables.append(markdown(tuple(header), rows))
    row = results[0]
    measured = "by the clock" if on_gpu else f"{_threads(record['num_threads'])}, by processor time"
    note = (
        f"{record['device']}, {measured}, medians of {len(row['seconds'])} rounds; models take turns. Updates of "
        f"{row['batch']} x {row['context']} random tokens in {row['precision']}: forward, backward, clipping and "
        "AdamW. "
        "Equal size: the same depth, width, heads and vocabulary, untied embeddings. Memory is the peak, with weights "
        "and optimizer."
    )
    if on_gpu:
        note += (
            f" MFU is the share of this GPU's measured peak, {record['measured_peak_flops'] / 1e12:.0f} TFLOP/s, that "
            "the useful work needs."
        )
    return "\n\n".join((*tables, note))


def statistics() -> str:
    """Table 10 of Csordás et al. 2021 from our loaders, from dataset_statistics.json."""
    record = read_perf("dataset_statistics")
    rows = [(row, *(_statistic(entry) for entry in cells.values())) for row, cells in record.items()]
    noted: dict[str, list[str]] = defaultdict(list)
    for row, cells in record.items():
        for column, entry in cells.items():
            if "note" in entry and entry["ours"] is not None:
                noted[entry["note"]].append(f"{row}, {column}")
    notes = [f"{'; '.join(places)}: {note}." for note, places in noted.items()]
    text = (
        "Counted in the loaded data; lengths are the longest input and output. In brackets: the paper's number, where "
        "a file was not available; `?`: a length that needs such a file."
    )
    return f"{markdown(('', *next(iter(record.values()))), rows)}\n\n{' '.join([text, *notes])}"


def _statistic(entry: dict[str, Any]) -> str:
    ours, theirs = entry["ours"], entry["paper"]
    if ours is None:
        return "-" if theirs is None else f"({theirs})"
    return str(ours) if theirs is None or str(ours) == str(theirs) else f"{ours} (paper: {theirs})"


def loading() -> str:
    """Preparing and loading benchmarks, from data_loading.json."""
    record = read_perf("data_loading")
    rows = []
    for what, row in record["rows"].items():
        fresh = row.get("load_in_new_process_seconds")
        rows.append(
            (
                f"`{what}`",
                f"{sum(row['splits'].values()):,}",
                f"{row['prepare_rows_per_cpu_second']:,}",
                f"{row['load_seconds']:.3f} s",
                "-" if fresh is None else f"{fresh:.3f} s",
            )
        )
    header = ("benchmark", "rows", "prepared rows/s", "load again", "load in a new process")
    setup, device = record["setup"], record["environment"]["device"]
    note = (
        f"Medians of {setup['rounds']} rounds on one core of an {device} shared with others (load average "
        f"{min(setup['load_average']):.0f}). Preparing: rows per second of processor time. Loading: wall-clock time."
    )
    return f"{markdown(header, rows)}\n\n{note}"


TABLES = (
    speed,
    start,
    fresh_clone,
    authors_code,
    cpu_ways,
    cpu_attention,
    gated,
    triangular,
    gpu_triangular,
    edge_decoding,
    pretraining,
    statistics,
    loading,
)
