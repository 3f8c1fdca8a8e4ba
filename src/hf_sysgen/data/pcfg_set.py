"""PCFG SET as a `datasets` builder."""

from __future__ import annotations

from collections.abc import Iterator

import datasets

from hf_sysgen.data.builder import BenchmarkBuilder, Check, builder_configs
from hf_sysgen.data.pcfg_set_grammar import (
    EXCEPTIONS,
    SYNONYMS,
    adjacent_functions,
    exceptional_targets,
    functions,
    interpret,
    without_synonyms,
)
from hf_sysgen.data.pcfg_set_sources import HELD_OUT_PAIRS, PCFG_SET, PRODUCTIVITY_TRAIN
from hf_sysgen.data.sources import DataError, open_file

# role of a file: column it fills, besides `input` and `target`
_MORE_COLUMNS = {"synonym": "synonym_input", "exception": "exception_target"}


class PcfgSet(BenchmarkBuilder):
    """PCFG SET (Hupkes et al. 2020, arXiv:1908.08351): string edit functions and what they make of strings of symbols.

    Columns: `input`, 4 to 71 words (10 functions in prefix notation, 520 symbols, the comma), and `target`, 1 to 736
    symbols; words are joined by single spaces, with no end symbol. Examples are in the order of the upstream files;
    those of productivity are sorted by number of functions. `pcfg_set_grammar.interpret` gives the target of an input,
    `pcfg_set_generator.generate` new examples.

    Configs (section 5 of the paper):
        base: the task accuracy.
        productivity, systematicity: those of Csordas et al. 2021 (arXiv:2108.12284).
        substitutivity_equally_distributed, substitutivity_primitive: functions under two names ("X_twin" for X). test
            has the column `synonym_input`, the input with one function under its other name; null in other splits.
        overgeneralisation_0.01, ..._0.05, ..._0.1, ..._0.5: exceptions of four pairs of functions. test has the column
            `exception_target`, the target that train gives to the input; null in other splits.

    The localism test has no split of its own: it is a procedure that unrolls base's inputs with a trained model. The
    sizes and sha256 of the files with train's inputs are not known, so these are pinned by git's own id of their
    content; what the paper says of them is checked by `hf-sysgen data verify`.

    Raises:
        DataError: unknown config, or (on preparation) a file that cannot be had, is not the one expected or has not as
            many lines as the one that belongs to it.
    """

    BENCHMARK = PCFG_SET
    BUILDER_CONFIGS = builder_configs(PCFG_SET, version="1.0.0")

    def _info(self) -> datasets.DatasetInfo:
        columns = ["input", "target"]
        columns += [column for role, column in _MORE_COLUMNS.items() if f"test_{role}" in self.benchmark_config.sources]
        return self.describe(datasets.Features({column: datasets.Value("string") for column in columns}))

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        files = self.locate_sources()
        generators = []
        for split in self.benchmark_config.splits:
            paths = {"input": files[split], "target": files[f"{split}_target"]}
            for role, column in _MORE_COLUMNS.items():
                if path := files.get(f"{split}_{role}"):
                    paths[column] = path
            generators.append(datasets.SplitGenerator(name=split, gen_kwargs={"paths": paths}))
        return generators

    def _generate_examples(self, paths: dict[str, str]) -> Iterator[tuple[int, dict[str, str | None]]]:
        columns = {column: _lines(path) for column, path in paths.items()}
        counts = {path: len(columns[column]) for column, path in paths.items()}
        if len(set(counts.values())) > 1:
            raise DataError(
                "PCFG SET: files that belong together differ in their number of lines: "
                + ", ".join(f"{path} has {count:,}" for path, count in counts.items())
            )
        empty: dict[str, str | None] = dict.fromkeys(self._info().features)
        for row, values in enumerate(zip(*columns.values(), strict=True)):
            yield row, {**empty, **dict(zip(columns, values, strict=True))}

    def checks(self, dataset: datasets.DatasetDict) -> Iterator[Check]:
        yield from super().checks(dataset)
        inputs = {split: part["input"][:] for split, part in dataset.items()}
        yield from self._target_checks(dataset)
        name = self.config.name
        if not name.startswith(("substitutivity", "overgeneralisation")):
            known = {*inputs["train"], *inputs["validation"]}
            seen = [source for source in inputs["test"] if source in known]
            yield Check("no input of test is in train or validation", not seen, f"{len(seen)} are")
        if name == "productivity":
            for split, fits in (
                ("train", range(1, PRODUCTIVITY_TRAIN + 1)),
                ("test", range(PRODUCTIVITY_TRAIN + 1, 36)),
            ):
                lengths = {len(functions(source)) for source in inputs[split]}
                fact = f"{split}'s inputs have {fits[0]} to {fits[-1]} functions"
                holds = min(lengths) == fits[0] and max(lengths) == fits[-1]
                yield Check(fact, holds, f"{min(lengths)} to {max(lengths)}")
        elif name == "systematicity":
            held_out = set(HELD_OUT_PAIRS)
            train, test = (
                sum(not held_out.isdisjoint(adjacent_functions(source)) for source in inputs[split])
                for split in ("train", "test")
            )
            yield Check("no input of train has a held-out pair of functions side by side", not train, f"{train} have")
            fact = "every input of test has a held-out pair of functions side by side"
            yield Check(fact, test == len(inputs["test"]), f"{test} have")
        elif name.startswith("substitutivity"):
            wrong = [
                row
                for row, (source, other) in enumerate(
                    zip(inputs["test"], dataset["test"]["synonym_input"][:], strict=True)
                )
                if not _is_renamed(source, other)
            ]
            yield Check("every synonym_input renames one function of input", not wrong, f"not in rows {wrong[:5]}")
            words = {word for source in inputs["train"] for word in source.split()}
            yield Check("train has all four synonyms", words.issuperset(SYNONYMS), f"{sorted(words & set(SYNONYMS))}")
        elif name.startswith("overgeneralisation"):
            exceptional = {source for source in inputs["train"] if set(EXCEPTIONS) & adjacent_functions(source)}
            fact = "train's inputs with an exceptional pair of functions side by side are those of test"
            yield Check(fact, exceptional == set(inputs["test"]), f"{len(exceptional)} inputs")

    def _target_checks(self, dataset: datasets.DatasetDict) -> Iterator[Check]:
        """Every target is what its input means."""
        exceptions = "exception_target" in dataset["test"].column_names
        for split, part in dataset.items():
            wrong = []
            for row, (source, target) in enumerate(zip(part["input"][:], part["target"][:], strict=True)):
                try:
                    meant = interpret(without_synonyms(source))
                    right = meant == target or (
                        exceptions and split == "train" and target in exceptional_targets(source)
                    )
                except ValueError:
                    right = False
                if not right:
                    wrong.append(row)
            yield Check(f"every target of {split} is what its input means", not wrong, f"not in rows {wrong[:5]}")
        if exceptions:
            pairs = zip(dataset["test"]["input"][:], dataset["test"]["exception_target"][:], strict=True)
            wrong = [row for row, (source, target) in enumerate(pairs) if target not in exceptional_targets(source)]
            yield Check("every exception_target is what the exception means", not wrong, f"not in rows {wrong[:5]}")


def _is_renamed(source: str, other: str) -> bool:
    """Whether `other` is the source with one of its functions under its other name wherever it stands."""
    names = {name for name in SYNONYMS if name in other.split()}
    return len(names) == 1 and all(
        other == " ".join(name if word == SYNONYMS[name] else word for word in source.split()) for name in names
    )


def _lines(path: str) -> list[str]:
    with open_file(path) as stream:
        # some upstream files have no newline at their end
        return stream.read().decode("ascii").splitlines()
