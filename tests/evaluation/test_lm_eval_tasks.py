"""The tasks of lm-evaluation-harness without it: which there are, and their files. See tests/compat for the rest."""

from __future__ import annotations

from hf_sysgen.data import benchmark_info, list_benchmarks
from hf_sysgen.evaluation.lm_eval import tasks, write_tasks


def test_one_task_for_each_split_but_train(tmp_path):
    benchmarks = {info.name for info in list_benchmarks() if info.task == "seq2seq"}
    found = [(task.benchmark, task.config, task.split) for task in tasks()]
    assert len(set(found)) == len(found)
    assert {benchmark for benchmark, *_ in found} == benchmarks
    for benchmark, config, split in found:
        splits = benchmark_info(benchmark).configs[config].splits
        assert split != "train"
        assert {"train", split} <= set(splits)
    assert ("cogs", "gen_2020", "test") in found
    assert write_tasks(tmp_path) == len(found) == len(list(tmp_path.glob("*.yaml")))
