"""Accuracies of finished runs by what their data has: relations in a story, roles of its words."""

from __future__ import annotations

from functools import cache

from hf_sysgen.analysis.csordas2021 import Curve
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


def scheme_of(record: Record) -> str:
    """The scheme of roles of a run. Raises UserError: it has none."""
    if record.recipe.data.role_scheme is None:
        raise UserError(f"{record.title}: has no roles; give runs with data.role_scheme")
    return record.recipe.data.role_scheme


def entropy_of_roles(record: Record) -> float:
    """
    Chakravarthy et al. 2022, Figure 3: entropy of the roles of the words of test, in bits.

    Raises:
        UserError: see `scheme_of`.
        DataError: see `load_benchmark` and `role_scheme`.
    """
    data = record.recipe.data
    return _entropy(scheme_of(record), data.benchmark, data.config, data.data_dir)


@cache
def _entropy(scheme: str, benchmark: str, config: str | None, data_dir: str | None) -> float:
    splits = load_benchmark(benchmark, config, data_dir=data_dir)
    return role_scheme(scheme, splits).entropy(splits["test"]["input"])
