"""What was tried against the package, from perf/attacks.json and perf/mutants.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kept import read_perf

from hf_sysgen.tables import markdown

# attack of tests/robustness/attack.py -> what is damaged
DAMAGED = {
    "recipes": "recipes",
    "overrides": "overrides of recipes",
    "sweeps": "sweep files",
    "role_files": "role files",
    "command_lines": "command lines",
    "configs": "config and tokenizer of a checkpoint",
    "checkpoints": "checkpoints, after they were written",
    "records": "records, in a report",
    "cards": "records, in a card",
    "analyses": "records, in an analysis",
    "predictions": "predictions",
    "upstream_files": "upstream files of benchmarks",
    "documents": "shards of C4",
    "prepared_data": "prepared data, after it was written",
    "kills": "kills while files are written, data prepared, reports made",
    "killed_runs": "kills of training",
    "full_disks": "full disks in training",
}
ENDINGS = {
    "fine": "still right",
    "line": "one line",
    "traceback": "traceback",
    "slow": "over 5 s",
    "silent": "silent",
    "lost": "lost",
}


def attacks() -> str:
    """How the tries of each attack ended."""
    record = read_perf("attacks")
    now, before = record["now"], record["before"]
    rows = [
        (
            what,
            f"{now[name]['tries']:,}",
            *(f"{now[name][ending]:,}" for ending in ENDINGS),
            f"{now[name]['longest_seconds']:.1f} s",
        )
        for name, what in DAMAGED.items()
        if name in now
    ]
    total = [f"{sum(one[key] for one in now.values()):,}" for key in ("tries", *ENDINGS)]
    longest = max(one["longest_seconds"] for one in now.values())
    rows.append(("together", *total, f"{longest:.1f} s"))
    first = "; ".join(f"{DAMAGED[name]}: {count}" for name, count in before.items())
    return f"{markdown(('damaged', 'tries', *ENDINGS.values(), 'longest'), rows)}\n\nEnded badly at first: {first}."


def mutants() -> str:
    """Small errors put into the code, by folder, and those that the default tests do not catch."""
    record = read_perf("mutants")
    parts: dict[str, list[Mapping[str, Any]]] = {}
    for one in record["mutants"]:
        below = one["file"].removeprefix("src/hf_sysgen/")
        parts.setdefault(f"`{below.partition('/')[0]}/`" if "/" in below else "files at the top", []).append(one)
    rows = [_row(name, parts[name]) for name in sorted(parts)]
    tried = record["mutants"]
    header = ("folder", "tried", "no other behaviour", "caught", "survived", "out of time")
    text = [markdown(header, [*rows, _row("together", tried)])]
    if len(tried) < record["count"]:
        text.append(f"Of {record['count']} mutants that the seed draws, {len(tried)} were tried so far.")
    titles = {"equal": "No other behaviour:", "survived": "Survived:", "out of time": "Out of time:"}
    for how, title in titles.items():
        if some := [one for one in tried if one["how"] == how]:
            lines = [
                f"- `{one['file'].removeprefix('src/hf_sysgen/')}`, line {one['line']}: `{one['what']}`."
                + (f" {one['why']}" if "why" in one else "")
                for one in some
            ]
            text.append("\n".join((title, "", *lines)))
    return "\n\n".join(text)


def _row(name: str, some: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    counts = [sum(one["how"] == how for one in some) for how in ("equal", "caught", "survived", "out of time")]
    return (name, str(len(some)), *map(str, counts))


TABLES = (attacks, mutants)
