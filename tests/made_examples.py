"""A few generated examples of benchmarks other than SCAN, for runs of a second."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import datasets
from tiny_runs import SMALL, short_scan, small_scan
from tiny_text import text_benchmark

import hf_sysgen.training.tasks.registry
from hf_sysgen.data import load_benchmark
from hf_sysgen.data.cfq.dependencies import derive_tree
from hf_sysgen.data.cfq.dependencies import example as tree_example
from hf_sysgen.data.clutrr.kinship import EDGE_TYPES, compose
from hf_sysgen.data.cogs.graph_forms import to_graph
from hf_sysgen.training.tasks import translation as translation_task

if TYPE_CHECKING:
    import pytest

PEOPLE = ["Ann", "Bob", "Cy", "Di", "Ed", "Flo"]


def few_clutrr() -> Iterator[dict[str, Any]]:
    """Walks of 2 to 4 relations, some with cycles; not all people are in a walk."""
    draw = random.Random(0)
    while True:
        types = [draw.choice(EDGE_TYPES) for _ in range(draw.randint(2, 4))]
        answers = compose(types)
        if len(answers) == 1:
            edges = [[index, index + 1] for index in range(len(types))]
            if types[0] == "wife" and len(types) == 3:
                edges, types = [[0, 1], [1, 0], [0, 2]], ["wife", "husband", types[2]]
                answers = compose(types[2:])
            if len(answers) == 1 and (target := answers.pop()) not in ("husband", "wife"):
                yield {"input": f"[A] {len(edges)}", "target": target, "k": len(edges), "edges": edges,
                       "edge_types": types, "query_edge": [edges[0][0], edges[-1][1]], "names": PEOPLE}  # fmt: skip


def few_cogs_graphs() -> Iterator[dict[str, Any]]:
    for name, noun in itertools.cycle(itertools.product(("Emma", "Liam", "Noah"), ("cat", "rose", "box"))):
        seen = f"see . agent ( x _ 1 , {name} ) AND see . theme ( x _ 1 , x _ 3 )"
        hope = f"hope . agent ( x _ 1 , {name} ) AND hope . ccomp ( x _ 1 , x _ 5 )"
        for category, sentence, target in (
            ("short", f"A {noun} saw .", f"{noun} ( x _ 1 ) AND see . agent ( x _ 2 , x _ 1 )"),
            ("active", f"{name} saw the {noun} .", f"* {noun} ( x _ 3 ) ; {seen}"),
            (
                "deep",
                f"{name} hoped that a {noun} saw .",
                f"{hope} AND {noun} ( x _ 4 ) AND see . agent ( x _ 5 , x _ 4 )",
            ),
        ):
            graph = to_graph(sentence, target)
            yield {"input": sentence, "target": target, "category": category, **graph._asdict()}


def few_questions() -> Iterator[str]:
    draw = random.Random(0)
    while True:
        people = [f"M{draw.randrange(4)}" for _ in range(draw.randint(1, 3))]
        verb = draw.choice(["marry", "influence", "direct"])
        yield f"Did {draw.choice(['M4', 'a person'])} {verb} {' and '.join(people)}"


def few_cfq() -> Iterator[dict[str, Any]]:
    for question in few_questions():
        words = question.lower().split()
        yield {"input": " ".join(words), "target": " ".join(["select", *["and"] * words.count("and"), words[-1]])}


def few_translations() -> Iterator[dict[str, Any]]:
    """English and French, with the column of noun_adjective."""
    nouns = {"solution": "la solution", "response": "la réponse", "decision": "la décision", "source": "la source"}
    adjectives = {"new": "nouvelle", "good": "bonne", "specific": "spécifique", "permanent": "permanente"}
    verbs = {"needs": "demande", "finds": "trouve", "supports": "soutient"}
    draw = random.Random(0)
    while True:
        noun, adjective, verb, other = (draw.choice(sorted(words)) for words in (nouns, adjectives, verbs, nouns))
        yield {
            "input": f"The {adjective} {noun} {verb} the {other} .",
            "target": f"{nouns[noun]} {adjectives[adjective]} {verbs[verb]} {nouns[other]} .",
            "pairs": [f"{adjective} {noun}"],
        }


MADE = {
    "cfq": few_cfq,
    "cfq_dependencies": lambda: (tree_example(derive_tree(question)) for question in few_questions()),
    "clutrr": few_clutrr,
    "cogs_graph": few_cogs_graphs,
    "flores": few_translations,
    "iwslt14": few_translations,
    "noun_adjective": few_translations,
}


@functools.cache
def made_examples(benchmark: str) -> datasets.DatasetDict:
    """The columns that training reads, in splits of `SMALL` sizes, all drawn alike."""
    examples = MADE[benchmark]()
    return datasets.DatasetDict(
        {name: datasets.Dataset.from_list(list(itertools.islice(examples, size))) for name, size in SMALL.items()}
    )


def any_benchmark(benchmark: str, *args: Any, **kwargs: Any) -> datasets.DatasetDict | datasets.IterableDatasetDict:
    """Replaces `load_benchmark`: generated examples, or SCAN's for a benchmark without any; C4's files if named."""
    if benchmark == "c4":
        return text_benchmark() if kwargs.get("data_dir") is None else load_benchmark("c4", **kwargs)
    return made_examples(benchmark) if benchmark in MADE else small_scan()


def use_short_examples(patch: pytest.MonkeyPatch) -> None:
    """Examples with short outputs for any benchmark: a model that has learned nothing writes as far as it may."""
    patch.setattr(hf_sysgen.training.tasks.registry, "load_benchmark", any_benchmark)
    patch.setattr(f"{__name__}.small_scan", short_scan)
    search = functools.partial(translation_task.fairseq_generation_kwargs, max_length=8)
    patch.setattr(translation_task, "fairseq_generation_kwargs", search)
