"""English passivization as a `datasets` builder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import datasets

from hf_sysgen.data.builder import BenchmarkBuilder, Check, Examples, builder_configs, check_none
from hf_sysgen.data.english_passivization.grammar import TASKS, Sentence, parse
from hf_sysgen.data.errors import DamagedData
from hf_sysgen.data.fetch import open_file
from hf_sysgen.data.info import read_info

# split -> sources to repeat, sources to passivize, in the published files
_TASK_COUNTS = {"train": (67_265, 32_735), "validation": (665, 335), "test_iid": (6_693, 3_307), "test": (0, 10_000)}


class EnglishPassivization(BenchmarkBuilder):
    """English passivization (Mueller et al. 2022, arXiv:2203.09397; the set that Petty et al. 2023, arXiv:2310.19956,
    fine-tune on): does a model move the object by the structure of the sentence, or by word positions?

    Columns: `input`, 7 to 13 words: an active sentence, its full stop, and last the task, "decl" (repeat it) or
    "passiv" (turn it into the passive voice); `target`, 6 to 14 words; words are joined by single spaces, without an
    end symbol. Examples are in the order of the upstream files.

    Config: nps, the set with prepositional phrases. In train, validation and test_iid, they are at the object of any
    sentence and at the subject of sentences to repeat. In test, they are at the subject of all sentences, and all are
    to be passivized.

    Raises:
        DataError: unknown config, or (on preparation) a file that is missing, is not the expected one, or has a line
            that is not a pair.
    """

    BENCHMARK = read_info(__file__)
    BUILDER_CONFIGS = builder_configs(BENCHMARK, version="1.0.0")

    def _generate_examples(self, files: dict[str, str], split: str) -> Examples:
        path = files[split]
        with open_file(path) as stream:
            for row, line in enumerate(stream):
                source, tab, target = line.decode("ascii").rstrip("\n").partition("\t")
                if not tab or "\t" in target:
                    raise DamagedData(f"{path}, line {row + 1}: is not '<source> TAB <target>'")
                yield row, {"input": source, "target": target}

    def checks(self, dataset: datasets.DatasetDict) -> Iterator[Check]:
        yield from super().checks(dataset)
        seen: set[str] = set()
        for split, part in dataset.items():
            inputs, targets = part["input"][:], part["target"][:]
            sentences = {source: found for source in inputs if (found := _parsed(source))}
            repeated, passivized = _TASK_COUNTS[split]
            tasks = Counter(source.split()[-1] for source in inputs)
            holds = [tasks[task] for task in TASKS] == [repeated, passivized]
            fact = f"{split} has {repeated:,} sources to be repeated, {passivized:,} to be passivized"
            yield Check(fact, holds, "" if holds else f"{dict(tasks)}")
            pairs = zip(inputs, targets, strict=True)
            wrong = (pair for pair in pairs if pair[0] not in sentences or sentences[pair[0]].target != pair[1])
            yield check_none(f"every target of {split} is what its source asks for", wrong)
            subjects = [found.subject for found in sentences.values() if found.task == "passiv"]
            if split == "test":
                without = (subject for subject in subjects if len(subject.split()) == 2)
                yield check_none("every subject to be passivized in test has a prepositional phrase", without)
            else:
                phrases = (subject for subject in subjects if len(subject.split()) > 2)
                yield check_none(f"no subject to be passivized in {split} has a prepositional phrase", phrases)
            twice = (source for source, count in Counter(inputs).items() if count > 1 or source in seen)
            yield check_none(f"no source of {split} is in it twice or in a split before it", twice)
            seen.update(inputs)


def _parsed(source: str) -> Sentence | None:
    try:
        return parse(source)
    except ValueError:
        return None
