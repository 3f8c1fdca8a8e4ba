"""PCFG SET as a `datasets` builder."""

from __future__ import annotations

from collections.abc import Iterator

import datasets

from hf_sysgen.data.builder import STRING, BenchmarkBuilder, Check, Examples, builder_configs, check_none
from hf_sysgen.data.errors import DamagedData
from hf_sysgen.data.fetch import read_lines
from hf_sysgen.data.info import read_info
from hf_sysgen.data.pcfg_set.grammar import (
    EXCEPTIONS,
    SYNONYMS,
    adjacent_functions,
    exceptional_targets,
    functions,
    interpret,
    without_synonyms,
)

# adjacent functions that only the systematicity test has
HELD_OUT_PAIRS = (
    ("swap_first_last", "repeat"),
    ("append", "remove_second"),
    ("repeat", "remove_second"),
    ("append", "swap_first_last"),
)
# maximum of functions in a source of the productivity training set
PRODUCTIVITY_TRAIN = 8
# role of a file -> its column, besides `input` and `target`
_MORE_COLUMNS = {"synonym": "synonym_input", "exception": "exception_target"}


class PcfgSet(BenchmarkBuilder):
    """PCFG SET (Hupkes et al. 2020, arXiv:1908.08351): string edit functions, and their results on strings of symbols.

    Columns: `input`, 3 to 71 words (10 functions in prefix notation, 520 symbols, the comma), and `target`, 1 to 736
    symbols; words are joined by single spaces, with no end symbol. Examples are in the order of the upstream files;
    those of productivity are sorted by number of functions. `pcfg_set.grammar.interpret` gives the target of an input,
    `pcfg_set.generator.generate` makes new examples.

    Configs (section 5 of the paper):
        base: task accuracy.
        productivity, systematicity: those of Csordas et al. 2021 (arXiv:2108.12284).
        substitutivity_equally_distributed, substitutivity_primitive: functions with two names (X and "X_twin"). test
        has the column `synonym_input`, the input with one function renamed; null in other splits.
        overgeneralisation_0.01, ..._0.05, ..._0.1, ..._0.5: exceptions of four pairs of functions. test has the column
            `exception_target`, the target that train gives to the input; null in other splits.

    The localism test has no split: it is a procedure that unrolls base's inputs with a trained model. The sizes and
    sha256 of the files with train's inputs are not known, so they are pinned by git ids; `hf-sysgen data verify` checks
    on them what the paper says.

    Raises:
        DataError: unknown config, or (on preparation) a file that is missing, is not the expected one, or has another
            number of lines than its counterpart.
    """

    BENCHMARK = read_info(__file__)
    BUILDER_CONFIGS = builder_configs(BENCHMARK, version="1.0.0")

    def _info(self) -> datasets.DatasetInfo:
        columns = ["input", "target"]
        columns += [column for role, column in _MORE_COLUMNS.items() if f"test_{role}" in self.benchmark_config.sources]
        return self.describe(datasets.Features(dict.fromkeys(columns, STRING)))

    def _generate_examples(self, files: dict[str, str], split: str) -> Examples:
        paths = {"input": files[split], "target": files[f"{split}_target"]}
        paths |= {column: path for role, column in _MORE_COLUMNS.items() if (path := files.get(f"{split}_{role}"))}
        columns = {column: read_lines(path) for column, path in paths.items()}
        counts = {path: len(columns[column]) for column, path in paths.items()}
        if len(set(counts.values())) > 1:
            raise DamagedData(
                "PCFG SET: files that belong together have different numbers of lines: "
                + ", ".join(f"{path} has {count:,}" for path, count in counts.items())
            )
        empty: dict[str, str | None] = dict.fromkeys(self._info().features)
        for row, values in enumerate(zip(*columns.values(), strict=True)):
            yield row, {**empty, **dict(zip(columns, values, strict=True))}

    def checks(self, dataset: datasets.DatasetDict) -> Iterator[Check]:
        yield from super().checks(dataset)
        columns = {split: part.to_dict() for split, part in dataset.items()}
        inputs = {split: column["input"] for split, column in columns.items()}
        family = self.config.name.split("_")[0]
        for split, column in columns.items():
            # an exceptional pair has its usual meaning, except in train's exceptions
            exceptional = family == "overgeneralisation" and split == "train"
            pairs = zip(column["input"], column["target"], strict=True)
            wrong = (pair for pair in pairs if pair[1] not in _meanings(pair[0], exceptional))
            yield check_none(f"every target of {split} is what its input means", wrong)
        if family == "substitutivity":
            yield from _substitutivity_checks(inputs, columns["test"]["synonym_input"])
        elif family == "overgeneralisation":
            yield from _overgeneralisation_checks(inputs, columns["test"]["exception_target"])
        else:
            known = {*inputs["train"], *inputs["validation"]}
            yield check_none("no input of test is in train or validation", known.intersection(inputs["test"]))
        if family == "productivity":
            yield from _productivity_checks(inputs)
        elif family == "systematicity":
            yield from _systematicity_checks(inputs)


def _productivity_checks(inputs: dict[str, list[str]]) -> Iterator[Check]:
    for split, shortest, longest in (("train", 1, PRODUCTIVITY_TRAIN), ("test", PRODUCTIVITY_TRAIN + 1, 35)):
        lengths = {len(functions(source)) for source in inputs[split]}
        outside = lengths - set(range(shortest, longest + 1))
        yield check_none(f"every input of {split} has {shortest} to {longest} functions", sorted(outside))
        yield check_none(
            f"{split} has inputs with {shortest} and with {longest} functions", sorted({shortest, longest} - lengths)
        )


def _systematicity_checks(inputs: dict[str, list[str]]) -> Iterator[Check]:
    def has(source: str) -> bool:
        return not adjacent_functions(source).isdisjoint(HELD_OUT_PAIRS)

    pair = "a held-out pair of functions side by side"
    yield check_none(f"no input of train has {pair}", (source for source in inputs["train"] if has(source)))
    yield check_none(f"every input of test has {pair}", (source for source in inputs["test"] if not has(source)))


def _substitutivity_checks(inputs: dict[str, list[str]], others: list[str]) -> Iterator[Check]:
    pairs = zip(inputs["test"], others, strict=True)
    wrong = (other for source, other in pairs if not _is_renamed(source, other))
    yield check_none("every synonym_input renames one function of input", wrong)
    words = {word for source in inputs["train"] for word in source.split()}
    yield check_none("train has all four synonyms", sorted(SYNONYMS.keys() - words))


def _overgeneralisation_checks(inputs: dict[str, list[str]], targets: list[str]) -> Iterator[Check]:
    pairs = zip(inputs["test"], targets, strict=True)
    wrong = (pair for pair in pairs if pair[1] not in _meanings(pair[0], exceptional=True))
    yield check_none("every exception_target is what the exception means", wrong)
    exceptional = {source for source in inputs["train"] if EXCEPTIONS.keys() & adjacent_functions(source)}
    fact = "the inputs of train with an exceptional pair of functions side by side are those of test"
    yield check_none(fact, sorted(exceptional ^ set(inputs["test"])))


def _meanings(source: str, exceptional: bool) -> set[str]:
    """The possible meanings of a source; none if it is not in the grammar."""
    plain = without_synonyms(source)
    try:
        return (exceptional_targets(plain) if exceptional else set()) or {interpret(plain)}
    except ValueError:
        return set()


def _is_renamed(source: str, other: str) -> bool:
    """Whether `other` is the source with one of its functions renamed at every place."""
    names = {name for name in SYNONYMS if name in other.split()}
    return len(names) == 1 and all(
        other == " ".join(name if word == SYNONYMS[name] else word for word in source.split()) for name in names
    )
