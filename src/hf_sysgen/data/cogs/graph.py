"""COGS as graph parsing, as a `datasets` builder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import datasets
import numpy as np

from hf_sysgen.data.builder import INT32, STRING, BenchmarkBuilder, Check, Examples, builder_configs, check_none
from hf_sysgen.data.cogs.builder import COLUMNS, columns, examples, read
from hf_sysgen.data.cogs.checks import check_categories, check_definitions
from hf_sysgen.data.cogs.files import CATEGORIES
from hf_sysgen.data.cogs.graph_forms import NO_PARENT, Graph, to_graph
from hf_sysgen.data.info import read_info

# the 0-based lines of gen.tsv that are the lines of gen_dev_seqtag.jsonl of bergen/EdgeTransformer, in its order
GEN_DEV_FILE = Path(__file__).with_name("graph_gen_dev.npz")


class CogsGraph(BenchmarkBuilder):
    """The graph form of COGS (Ontañón et al. 2022, arXiv:2108.04378), as Bergen et al. 2021 (arXiv:2112.00578) use it.

    Columns: those of `cogs.Cogs` (`target` is the logical form that the graph stands for), and lists with one entry
    for each word, see `graph_forms.Graph`:
        tokens: the words of `input`.
        parents: position, from 0, of the word that a word depends on; -1 for none.
        roles: how it depends on it; "" if it does not.
        word_categories: "", "CNOUN", "PNOUN", "VERB" (upstream: category, which here is that of the example).
        noun_types: "", "DEF", "INDEF".
        verb_names: "" or the lemma.

    Made from the files of COGS; with gen_2020 they are, byte for byte, those of Bergen et al. (cogs/data/*_seqtag.jsonl
    of their code). validation_generalization are their gen_dev lines, which are also in test.
    """

    BENCHMARK = read_info(__file__, "cogs_graph")
    BUILDER_CONFIGS = builder_configs(BENCHMARK, version="1.0.0")
    FEATURES = COLUMNS | dict.fromkeys(Graph._fields, datasets.List(STRING)) | {"parents": datasets.List(INT32)}

    def _generate_examples(self, files: dict[str, str], split: str) -> Examples:
        if split == "validation_generalization":
            test = read(files["test"])
            rows = [test[line] for line in gen_dev_lines()]
        else:
            rows = read(files[split])
        for row, example in enumerate(rows):
            yield row, {**columns(example), **to_graph(example.sentence, example.target)._asdict()}

    def checks(self, dataset: datasets.DatasetDict) -> Iterator[Check]:
        yield from super().checks(dataset)
        splits = examples(dataset)
        yield from check_categories(splits, copies=1)
        yield from check_definitions(splits)
        for split, part in dataset.items():
            lists = part.select_columns(list(Graph._fields)).to_dict()
            graphs = map(Graph, *(lists[name] for name in Graph._fields))
            yield check_none(
                f"every graph of {split} is a forest with labels for each word",
                (f"row {row}" for row, graph in enumerate(graphs) if not _is_forest(graph)),
            )
        known, tuning = (
            set(zip(*(dataset[split][name] for name in ("input", "category")), strict=True))
            for split in ("test", "validation_generalization")
        )
        yield check_none("validation_generalization is a part of test", tuning - known)
        missing = set(CATEGORIES) - {category for _, category in tuning}
        yield check_none("validation_generalization has every category of test", missing)


def gen_dev_lines() -> list[int]:
    """The 999 lines of gen.tsv, from 0, that are validation_generalization, in its order."""
    with np.load(GEN_DEV_FILE) as file:
        return file["lines"].tolist()


def _is_forest(graph: Graph) -> bool:
    """Whether all lists have one length, each word with a parent has a role, and there is no cycle."""
    if len({len(labels) for labels in graph}) > 1:
        return False
    for word, role in enumerate(graph.roles):
        steps = 0
        while (parent := graph.parents[word]) != NO_PARENT and steps <= len(graph.tokens):
            word, steps = parent, steps + 1
        if steps > len(graph.tokens) or (steps > 0) != bool(role):
            return False
    return True
