"""
The text benchmarks as tasks of lm-evaluation-harness (lm_eval 0.4.13), for language models of any kind:

    lm_eval --include_path $(hf-sysgen lm-eval-tasks) --tasks sysgen_cogs_gen_2020_test --num_fewshot 8 --model hf ...

A task is a split. Its documents are those of `load_benchmark`, which verifies checksums; examples in the context are of
train. The answer is the first line that the model writes, greedily; `exact_match` counts it if its words are those of
the target, and `exact_match_<category>` does so by generalization case.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hf_sysgen.data import benchmark_info, list_benchmarks, load_benchmark
from hf_sysgen.data.registry import builder_class
from hf_sysgen.evaluation.prompts import INPUT, PROMPT
from hf_sysgen.files import write_atomic

if TYPE_CHECKING:
    import datasets

SCORE = "exact_match"
# read by lm_eval beside the tasks
FUNCTIONS = "from hf_sysgen.evaluation.lm_eval import documents, scores\n"
TASK = """task: {task}
tag: [sysgen, sysgen_{benchmark}]
custom_dataset: !function sysgen.documents
metadata: {{version: 1, benchmark: {benchmark}, config: {config}, split: {split}}}
output_type: generate_until
training_split: train
fewshot_split: train
test_split: {split}
doc_to_text: {prompt}
doc_to_target: "{{{{target}}}}"
generation_kwargs: {{until: ["\\n"], do_sample: false, max_gen_toks: 1024}}
process_results: !function sysgen.scores
metric_list:
"""
METRIC = "  - {{metric: {}, aggregation: mean, higher_is_better: true}}\n"


class Task(NamedTuple):
    """A split of a benchmark's config, and the task's name."""

    name: str
    benchmark: str
    config: str
    split: str


def tasks() -> Iterator[Task]:
    """Every split but train of the benchmarks from text to text."""
    for info in list_benchmarks():
        if info.task != "seq2seq":
            continue
        for config, about in info.configs.items():
            for split in about.splits:
                if split != "train" and "train" in about.splits:
                    yield Task(f"sysgen_{info.name}_{config}_{split}", info.name, config, split)


def write_tasks(folder: Path) -> int:
    """Write a YAML file for each task, and the functions that they name. Returns how many tasks there are."""
    write_atomic(folder / "sysgen.py", FUNCTIONS)
    count = 0
    for task in tasks():
        metrics = [SCORE, *(metric_of(case) for case in cases_of(task.benchmark))]
        prompt = json.dumps(PROMPT.replace(INPUT, "{{input}}"))
        text = TASK.format(
            task=task.name, prompt=prompt, **{key: getattr(task, key) for key in ("benchmark", "config", "split")}
        )
        write_atomic(folder / f"{task.name}.yaml", text + "".join(map(METRIC.format, metrics)))
        count += 1
    return count


@cache
def cases_of(benchmark: str) -> tuple[str, ...]:
    """The generalization cases of a benchmark."""
    return builder_class(benchmark_info(benchmark)).CASES


@cache
def _cases() -> frozenset[str]:
    return frozenset(case for benchmark in {task.benchmark for task in tasks()} for case in cases_of(benchmark))


def metric_of(case: str) -> str:
    return f"{SCORE}_{case}"


def documents(benchmark: str, config: str, split: str, **_: Any) -> dict[str, datasets.Dataset]:
    """The task's split, and train; lm_eval gives the task's metadata."""
    loaded = load_benchmark(benchmark, config)
    return {name: loaded[name] for name in ("train", split)}


def scores(doc: Mapping[str, Any], results: list[str]) -> dict[str, float]:
    """Whether the answer has the words of the target, for the mean of all and that of the document's case."""
    exact = float(results[0].split() == doc["target"].split())
    case = doc.get("category", "")
    return {SCORE: exact} | ({metric_of(case): exact} if case in _cases() else {})
