"""CLUTRR as a `datasets` builder: stories, and the graphs behind them."""

from __future__ import annotations

import ast
import csv
import io
import itertools
from collections.abc import Iterator
from typing import Any

import datasets
import numpy as np

from hf_sysgen.data.builder import INT32, STRING, BenchmarkBuilder, Check, Examples, builder_configs
from hf_sysgen.data.clutrr.kinship import EDGE_TYPES, TARGETS, compose
from hf_sysgen.data.errors import DamagedData
from hf_sysgen.data.fetch import open_file
from hf_sysgen.data.info import read_info

_COLUMNS = ("story", "target", "query", "task_name", "story_edges", "edge_types", "query_edge", "genders")

# suffix of configs without validation: train is upstream's whole training file
WHOLE_TRAIN = "_whole_train"


class Clutrr(BenchmarkBuilder):
    """CLUTRR (Sinha et al. 2019, arXiv:1908.06177), the noiseless systematic generalization sets.

    Columns, per example, with E = k edges and n <= k + 1 people:
        input: the story, names in square brackets; several blanks become one, nothing else changes.
        query: the two people of the question, [first, second].
        target: the relation of the second person to the first, one of the 18 `kinship.TARGETS`.
        k: number of relations to compose, 2 to 10. edges (E, 2): [a, b] for each relation, of people numbered from 0;
        `edge_types` (E) is the relation of b to a, one of the 14 `kinship.EDGE_TYPES`. The edges are a walk from
        `query_edge[0]` to `query_edge[1]`. query_edge (2): the edge to label. names (n): the person of each number.

    `EDGE_TYPES` and `TARGETS` are sorted, so that a label's id does not change from run to run.

    Configs: gen_train23_test2to10 and gen_train234_test2to10 (the names that the published copy of Sinha et al. has),
    edge_train23_test2to10 (Bergen et al. 2021, arXiv:2112.00578, section 4.1), and each with "_whole_train". What is
    wrong upstream is in `errata` of the benchmark.

    Raises:
        DataError: unknown config, or (on preparation) a file that is missing, is not the expected one, or has a line
            that is not a CLUTRR example.
    """

    BENCHMARK = read_info(__file__)
    BUILDER_CONFIGS = builder_configs(BENCHMARK, version="1.0.0")
    FEATURES = datasets.Features(
        {
            "input": STRING,
            "query": datasets.List(STRING),
            "target": STRING,
            "k": INT32,
            "edges": datasets.List(datasets.List(INT32)),
            "edge_types": datasets.List(STRING),
            "query_edge": datasets.List(INT32),
            "names": datasets.List(STRING),
        }
    )

    def _generate_examples(self, files: dict[str, str], split: str) -> Examples:
        rows = []
        # validation is a part of the file of train; test has a file for each length
        for path in [path for role, path in files.items() if (role != "train") == (split == "test")]:
            with open_file(path) as stream:
                rows += parse(stream.read(), path)
        if split != "test" and not self.config.name.endswith(WHOLE_TRAIN):
            held_out = validation_rows(len(rows))
            rows = [row for line, row in enumerate(rows) if (line in held_out) == (split == "validation")]
        yield from enumerate(rows)

    def checks(self, dataset: datasets.DatasetDict) -> Iterator[Check]:
        yield from super().checks(dataset)
        longest = 4 if "train234" in self.config.name else 3
        rows = {split: part.to_dict() for split, part in dataset.items()}
        for split, column in rows.items():
            expected = set(range(2, 11) if split == "test" else range(2, longest + 1))
            lengths = set(column["k"])
            yield Check(
                f"{split} has chains of {min(expected)} to {max(expected)} relations",
                lengths == expected,
                f"{sorted(lengths)}",
            )
            labels = {label for types in column["edge_types"] for label in types}
            yield Check(f"{split} has only known edge labels", labels <= set(EDGE_TYPES), f"{sorted(labels)}")
            yield Check(f"{split} has only known targets", set(column["target"]) <= set(TARGETS))
            wrong = [
                row
                for row, (types, target) in enumerate(zip(column["edge_types"], column["target"], strict=True))
                if target not in compose(types)
            ]
            yield Check(f"every target of {split} is one that its edges allow", not wrong, f"not in rows {wrong[:5]}")
        known = [part for split, part in rows.items() if split != "test"]
        stories = {story for part in known for story in part["input"]}
        shared = stories & set(rows["test"]["input"])
        yield Check("no story of test is in train or validation", not shared, f"{len(shared)} are")
        if self.config.name.startswith("gen_"):
            chains = {tuple(types) for part in known for types in part["edge_types"]}
            test = [(k, tuple(types)) for k, types in zip(rows["test"]["k"], rows["test"]["edge_types"], strict=True)]
            seen = [k for k, types in test if types in chains]
            pairs = [k for k, _ in test if k == 2]
            yield Check(
                "train has all chains of 2 relations that test has, and no longer one", seen == pairs, f"{len(seen)}"
            )


def validation_rows(num_rows: int) -> set[int]:
    """0-based rows of upstream's training file that are held out: a fifth, rounded up, drawn by RandomState(42).

    Bergen et al. 2021, `clutrr/train.py:207-232` of their code, keep int(0.8 * num_rows) random rows for training.
    """
    order = np.random.RandomState(42).permutation(num_rows)
    return set(order[int(0.8 * num_rows) :].tolist())


def parse(content: bytes, where: str) -> list[dict[str, Any]]:
    """The examples of one upstream csv file, in order.

    Args:
        content: the file.
        where: its name, for messages.

    Raises:
        DataError: a column is missing, or a line is not an example.
    """
    reader = csv.DictReader(io.StringIO(content.decode("utf-8"), newline=""))
    if missing := [name for name in _COLUMNS if name not in (reader.fieldnames or ())]:
        raise DamagedData(f"{where}: no column {', '.join(missing)}; this is not a CLUTRR file")
    rows = []
    for row in reader:
        try:
            rows.append(_example(row))
        # literal_eval raises these on text that is not a literal; our own checks raise ValueError
        except (ValueError, SyntaxError, TypeError) as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise DamagedData(f"{where}, line {reader.line_num}: not a CLUTRR example ({reason})") from error
    return rows


def _example(row: dict[str, str]) -> dict[str, Any]:
    edges = [list(edge) for edge in ast.literal_eval(row["story_edges"])]
    edge_types = ast.literal_eval(row["edge_types"])
    query_edge = list(ast.literal_eval(row["query_edge"]))
    walk = [query_edge[0], *(end for _, end in edges)]
    # then the order of the labels is the order of composition, on which the target depends
    if len(edges) != len(edge_types) or [list(step) for step in itertools.pairwise(walk)] != edges:
        raise ValueError(f"edges {edges} with labels {edge_types} are no walk from {query_edge[0]}")
    if walk[-1] != query_edge[1]:
        raise ValueError(f"edges {edges} do not end at {query_edge[1]}")
    return {
        "input": " ".join(row["story"].split()),
        "query": list(ast.literal_eval(row["query"])),
        "target": row["target"],
        # "task_1.4": task 1 has no noise, 4 relations
        "k": int(row["task_name"].removeprefix("task_1.")),
        "edges": edges,
        "edge_types": edge_types,
        "query_edge": query_edge,
        "names": [person.partition(":")[0] for person in row["genders"].split(",")],
    }
