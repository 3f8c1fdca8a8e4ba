"""Accuracies of finished runs by what their data has: relations in a story, roles of its words."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from hf_sysgen.analysis.csordas2021 import Curve, accuracies, spread
from hf_sysgen.data.registry import load_benchmark
from hf_sysgen.data.text.roles import role_scheme
from hf_sysgen.errors import UserError
from hf_sysgen.results.record import Record

RELATIONS = "k="


def accuracies_by_relations(record: Record) -> Curve:
    """
    Bergen et al. 2021, Figure 3: (number of relations of a test story, accuracy there).

    Raises:
        UserError: the run has no test stories by their number of relations.
    """
    by_category = record.splits["test"].by_category if "test" in record.splits else {}
    found = [
        (int(name.removeprefix(RELATIONS)), one.accuracy)
        for name, one in by_category.items()
        if name.startswith(RELATIONS)
    ]
    if not found:
        raise UserError(f"{record.title}: has no test stories by their number of relations; give runs of clutrr")
    return sorted(found)


def accuracies_by_roles(records: Sequence[Record]) -> dict[str, tuple[float, float, float, int]]:
    """
    Chakravarthy et al. 2022, Figure 3, by the entropy of the roles.

    Returns:
        scheme of roles -> entropy of the roles of the words of test in bits, mean and standard deviation of the
        accuracy on test (0 of one run), number of runs.

    Raises:
        UserError: a run has no roles.
        DataError: see `load_benchmark` and `role_scheme`.
    """
    runs: dict[str, list[Record]] = {}
    for record in records:
        if record.recipe.data.role_scheme is None:
            raise UserError(f"{record.title}: has no roles; give runs with data.role_scheme")
        runs.setdefault(record.recipe.data.role_scheme, []).append(record)
    found = {}
    for scheme, ones in runs.items():
        data = ones[0].recipe.data
        splits = load_benchmark(data.benchmark, data.config, data_dir=data.data_dir)
        entropy = role_scheme(scheme, splits).entropy(splits["test"]["input"])
        values = accuracies(ones, "test")
        found[scheme] = (entropy, statistics.fmean(values), spread(values), len(ones))
    return dict(sorted(found.items(), key=lambda item: item[1]))
