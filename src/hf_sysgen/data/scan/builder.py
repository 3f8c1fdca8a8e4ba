"""SCAN as a `datasets` builder: 24 split families of the same 20,910 examples."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import datasets
import numpy as np

from hf_sysgen.data.builder import BenchmarkBuilder, Check, Examples, builder_configs, check_none
from hf_sysgen.data.fetch import open_file
from hf_sysgen.data.info import read_info
from hf_sysgen.data.scan.files import LENGTH_TRAIN, TEMPLATES, examples, num_actions, parse

# config -> maximum of actions in `train` and `validation`
LENGTH_CUTOFFS = {
    name: int(name.rpartition("_")[2]) for name in read_info(__file__).configs if name.startswith("length_cutoff_")
}

# 0-based lines of two upstream training files that Chakravarthy et al. 2022 held out as validation: data/scan/*/dev.src
# in jlrussin/transformer_scan (MIT), whose files are identical to theirs
HELD_OUT_FILE = Path(__file__).with_name("held_out.npz")
HELD_OUT = "_chakravarthy2022"


class Scan(BenchmarkBuilder):
    """SCAN (Lake & Baroni 2018, arXiv:1711.00350): commands to actions.

    Columns: `input`, 1 to 9 words of 13, and `target`, 1 to 48 action words of 6; words are joined by single spaces,
    without an end symbol. Examples are in the order of the upstream files. `scan.files` generates these byte for byte,
    so only mcd1 to mcd3 need a network or a mirror.

    Configs (the description of each names its compositional test): simple, length, addprim_jump, addprim_turn_left:
        Lake & Baroni 2018, experiments 1, 2, 3, 3. template_around_right, template_jump_around_right,
        template_opposite_right, template_right: Loula et al. 2018
            (arXiv:1807.07545).
        length_cutoff_22, ..., length_cutoff_40: the cutoffs of Newman et al. 2020 (arXiv:2010.07174) as re-split by
            Csordas et al. 2021 (arXiv:2108.12284, section 3.1; `dataset/scan_length_resplit.py` of their code). The
            files of Newman et al. hold out 5 % for validation, not 10 %.
        mcd1, mcd2, mcd3: the SCAN splits of Keysers et al. 2020 (arXiv:1912.09713).
        simple_chakravarthy2022, addprim_jump_chakravarthy2022: those of Lake & Baroni without the fifth of train that
            Chakravarthy et al. 2022 held out.
    """

    BENCHMARK = read_info(__file__)
    BUILDER_CONFIGS = builder_configs(BENCHMARK, version="1.0.0")

    def _generate_examples(self, files: dict[str, str], split: str) -> Examples:
        # all splits of a length cutoff come from one file, and validation from the file of train
        with open_file(files.get(split) or files.get("tasks") or files["train"]) as stream:
            pairs = parse(stream.read())
        if cutoff := LENGTH_CUTOFFS.get(self.config.name):
            pairs = [pairs[row] for row in resplit([num_actions(pair) for pair in pairs], cutoff)[split]]
        elif self.config.name.endswith(HELD_OUT) and split != "test":
            held_out = held_out_lines(self.config.name.removesuffix(HELD_OUT))
            pairs = [pair for row, pair in enumerate(pairs) if (row in held_out) == (split == "validation")]
        for row, (command, actions) in enumerate(pairs):
            yield row, {"input": command, "target": actions}

    def checks(self, dataset: datasets.DatasetDict) -> Iterator[Check]:
        """The counts, the meaning of each command, and the definition of the config."""
        yield from super().checks(dataset)
        meaning = dict(examples())
        parts = {name: list(zip(*part[:].values(), strict=True)) for name, part in dataset.items()}
        for name, pairs in parts.items():
            yield check_none(
                f"every target of {name} is what its command means",
                (command for command, actions in pairs if meaning.get(command) != actions),
            )
        inputs = {name: Counter(command for command, _ in pairs) for name, pairs in parts.items()}
        if self.config.name.endswith(HELD_OUT):
            # together train and validation are upstream's train, whose command "jump" both have
            inputs["train"] += inputs.pop("validation")
        for name, other in itertools.combinations(inputs, 2):
            yield check_none(f"no command is in both {name} and {other}", inputs[name].keys() & inputs[other].keys())
        name = self.config.name.removesuffix(HELD_OUT)
        if name.startswith("addprim_"):
            yield from _addprim(name.removeprefix("addprim_").replace("_", " "), inputs, set(meaning))
            return
        for part, counts in inputs.items():
            yield check_none(f"no command is twice in {part}", (c for c, count in counts.items() if count > 1))
        if name.startswith("mcd"):
            words = {part: {word for command in counts for word in command.split()} for part, counts in inputs.items()}
            yield check_none("train and test have the same words", words["train"] ^ words["test"])
            return
        known = {command for counts in inputs.values() for command in counts}
        if name.startswith("template_"):
            yield from _template(name.removeprefix("template_"), inputs, set(meaning))
            return
        yield check_none("every command of the grammar is in one of the splits", meaning.keys() - known)
        cutoff = LENGTH_TRAIN if name == "length" else LENGTH_CUTOFFS.get(name)
        if cutoff is not None:
            for part, pairs in parts.items():
                is_test = part == "test"
                yield check_none(
                    f"{part} has {'more than' if is_test else 'at most'} {cutoff} actions",
                    (pair[0] for pair in pairs if (num_actions(pair) > cutoff) != is_test),
                )


def held_out_lines(name: str) -> set[int]:
    """The 0-based lines of the training file of `simple` or `addprim_jump` that Chakravarthy et al. 2022 held out."""
    with np.load(HELD_OUT_FILE) as lines:
        return set(lines[name].tolist())


def _addprim(primitive: str, inputs: dict[str, Counter[str]], meaning: set[str]) -> Iterator[Check]:
    """Lake & Baroni 2018, experiment 3: the primitive alone is a tenth of train; all its longer commands are in
    test."""
    train, test = inputs["train"], inputs["test"]
    copies, total = train[primitive], train.total()
    is_tenth = copies == total // 10
    yield Check(f'"{primitive}" alone is a tenth of train', is_tenth, "" if is_tenth else f"{copies:,} of {total:,}")
    others = [command for command in train if command != primitive]
    yield check_none(f'train has no other command with "{primitive}"', (c for c in others if primitive in c))
    yield check_none("every other command of train is there once", (c for c in others if train[c] > 1))
    composed = {command for command in meaning if primitive in command and command != primitive}
    yield check_none(f'test has every longer command with "{primitive}", and no other', composed ^ test.keys())
    yield check_none("no command is twice in test", (c for c, count in test.items() if count > 1))
    yield check_none("every command of the grammar is in one of the splits", meaning - train.keys() - test.keys())


def _template(split: str, inputs: dict[str, Counter[str]], meaning: set[str]) -> Iterator[Check]:
    """Loula et al. 2018: a combination is only in test; the same with "turn" is in no split."""
    actions, template = TEMPLATES[split]
    held_out = [f"{action} {template}" for action in actions]
    left_out = f"turn {template}"
    for part, counts in inputs.items():
        is_test = part == "test"
        yield check_none(
            f"{'every' if is_test else 'no'} command of {part} has one of: {', '.join(held_out)}",
            (command for command in counts if any(phrase in command for phrase in held_out) != is_test),
        )
    absent = {command for command in meaning if left_out in command}
    yield check_none(
        f'just the commands with "{left_out}" are in no split',
        absent ^ (meaning - inputs["train"].keys() - inputs["test"].keys()),
    )


def resplit(lengths: Sequence[int], cutoff: int) -> dict[str, list[int]]:
    """The length cutoff split of Csordas et al. 2021, `dataset/scan_length_resplit.py:82-89`, with their seed.

    Args:
        lengths: number of actions of each line of tasks.txt, in file order.
        cutoff: maximum of actions in `train` and `validation`.

    Returns:
        0-based line numbers, ascending: `test` has all longer lines, `validation` a random tenth of the others.
    """
    pool = [row for row, length in enumerate(lengths) if length <= cutoff]
    # 1 - 0.9 is a little less than 0.1, and int() rounds down: if a tenth is a whole number, this is one less
    held_out = np.random.RandomState(1234).choice(len(pool), int(len(pool) * (1 - 0.9)), replace=False)
    validation = {pool[position] for position in held_out}
    return {
        "train": [row for row in pool if row not in validation],
        "validation": sorted(validation),
        "test": [row for row, length in enumerate(lengths) if length > cutoff],
    }
