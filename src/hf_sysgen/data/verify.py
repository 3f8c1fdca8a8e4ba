"""Check on the data what a benchmark says of its splits: `hf-sysgen data verify`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hf_sysgen.data.builder import Check
from hf_sysgen.data.registry import benchmark_builder

if TYPE_CHECKING:
    import datasets


def verify(
    name: str, config: str, *, data_dir: str | Path | None = None, cache_dir: str | Path | None = None
) -> Iterator[Check | str]:
    """Check a config; prepare it first if needed.

    Yields:
        Its checks, then notes: how many inputs of a split are also in other splits.

    Raises:
        DataError: a file is not available, an example cannot be made from it, or prepared data was damaged.
    """
    builder = benchmark_builder(name, config, data_dir=data_dir, cache_dir=cache_dir)
    builder.download_and_prepare()
    builder.check_prepared()
    dataset = builder.as_dataset()
    try:
        yield from builder.checks(dataset)
    except Exception as error:
        if not (explained := builder.explained_in_own_code(error)):
            raise
        yield Check("the checks run to their end", False, str(explained))
    yield from overlaps(dataset)


def overlaps(dataset: datasets.DatasetDict) -> Iterator[str]:
    """A note for each pair of splits, the training set first. Some benchmarks have overlaps by design."""
    # a whole column at once is forty times as fast as iterating over it
    inputs = {
        split: set(part.select_columns("input")[:]["input"])
        for split, part in dataset.items()
        if "input" in part.column_names
    }
    for first, second in itertools.combinations(inputs, 2):
        shared = len(inputs[first] & inputs[second])
        yield f"{shared:,} of the {len(inputs[second]):,} different inputs of {second} are also in {first}"
