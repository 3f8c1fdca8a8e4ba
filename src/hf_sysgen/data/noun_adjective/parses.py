"""Parses for noun_adjective: the sentences to parse, parsers, and CoNLL-U files.

Chaabouni et al. 2021 parse with CoreNLP, which writes CoNLL-U itself:

    python -m hf_sysgen.data.noun_adjective.parses sentences fr-en.tgz sentences.en
    java edu.stanford.nlp.pipeline.StanfordCoreNLP -annotators tokenize,ssplit,pos,lemma,depparse \\
        -ssplit.eolonly -outputFormat conllu -file sentences.en

Any other parser with `amod` and `conj` works too. For a spaCy model, with the extra `parsing`:

    python -m hf_sysgen.data.noun_adjective.parses spacy MODEL sentences.en parses.conllu
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Protocol

from hf_sysgen.data.archives import open_member
from hf_sysgen.data.conllu import Word, read_conllu
from hf_sysgen.data.errors import DamagedData, DataError
from hf_sysgen.data.fetch import open_file
from hf_sysgen.data.noun_adjective.rule import nouns
from hf_sysgen.errors import handle_user_errors, one_line

# brackets in the Penn Treebank
_BRACKET = re.compile("-[LR][RSC]B-")
_NO_LETTER = re.compile("[^a-z]")


class Parser(Protocol):
    """A dependency parser."""

    def parse(self, sentences: Iterable[str]) -> Iterator[list[Word]]:
        """One parse per sentence, in order."""


class SpacyParser:
    """A spaCy pipeline with a parser.

    Args:
        model: folder of a model, or name of an installed one.

    Raises:
        DataError: spaCy is not installed, has no such model, or the model does not parse.
    """

    def __init__(self, model: str) -> None:
        try:
            import spacy
        except ImportError as error:
            raise DataError("spacy is not installed: pip install 'hf-sysgen[parsing]'") from error
        try:
            self._pipeline = spacy.load(model)
        except OSError as error:
            raise DataError(f"spaCy model {model}: {' '.join(str(error).split())}") from error
        if "parser" not in self._pipeline.pipe_names:
            raise DataError(
                f"spaCy model {model}: has no parser but {', '.join(self._pipeline.pipe_names) or 'nothing'}"
            )

    def parse(self, sentences: Iterable[str]) -> Iterator[list[Word]]:
        for document in self._pipeline.pipe(sentences):
            # a root is its own head; blanks can be tokens
            yield [
                Word(
                    token.text if token.text.strip() else "_",
                    token.lemma_.strip() or "_",
                    0 if token.head.i == token.i else token.head.i + 1,
                    token.dep_,
                )
                for token in document
            ]


class ConlluParser:
    """Parses from a CoNLL-U file, of the same sentences in the same order.

    Args:
        path: the file, which may be gzipped.

    Raises:
        DataError: (on parsing) a line is not CoNLL-U, or the parses are of other sentences.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = path

    def parse(self, sentences: Iterable[str]) -> Iterator[list[Word]]:
        advice = "parse what hf_sysgen.data.noun_adjective.parses writes, each line as one sentence (-ssplit.eolonly)"
        number = 0
        with open_file(self._path) as lines:
            parses = read_conllu(lines, str(self._path))
            for number, sentence in enumerate(sentences, 1):
                parse = next(parses, None)
                if parse is None:
                    raise DamagedData(f"{self._path}: ends before sentence {number:,}, {sentence[:60]!r}; {advice}")
                if _letters(word.form for word in parse) != _letters([sentence]):
                    found = " ".join(word.form for word in parse)
                    raise DamagedData(
                        f"{self._path}: parse {number:,} is of {found[:60]!r}, not of {sentence[:60]!r}; {advice}"
                    )
                yield parse
            if next(parses, None) is not None:
                raise DamagedData(f"{self._path}: has more parses than the {number:,} sentences; {advice}")


def write_conllu(parses: Iterable[Sequence[Word]], file: IO[str]) -> None:
    """Write parses as CoNLL-U, with "_" for what we do not use."""
    for parse in parses:
        for number, word in enumerate(parse, 1):
            file.write(f"{number}\t{word.form}\t{word.lemma}\t_\t_\t_\t{word.head}\t{word.relation}\t_\t_\n")
        file.write("\n")


def europarl_pairs(archive: str | Path) -> Iterator[tuple[str, str]]:
    """
    The English and French lines of Europarl v7's fr-en.tgz, with single blanks, without pairs that lack a side.

    Raises:
        DataError: the archive is damaged or another one, or one side has more lines.
    """
    name = "europarl-v7.fr-en"
    with open_member(archive, f"{name}.en") as english, open_member(archive, f"{name}.fr") as french:
        sides = [_lines(stream, f"{archive}: member {name}") for stream in (english, french)]
        for source in sides[0]:
            target = next(sides[1], None)
            if target is None:
                raise DamagedData(f"{archive}: {name}.en has more lines than {name}.fr; replace the archive")
            if source and target:
                yield source, target
        if next(sides[1], None) is not None:
            raise DamagedData(f"{archive}: {name}.fr has more lines than {name}.en; replace the archive")


def sentences_to_parse(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The English sentences with one of the eight nouns, in order; the others need no parse."""
    return (source for source, _ in pairs if nouns(source))


def _lines(stream: Iterable[bytes], where: str) -> Iterator[str]:
    for number, line in enumerate(stream, 1):
        try:
            yield " ".join(line.decode("utf-8").split())
        except UnicodeDecodeError as error:
            raise DamagedData(f"{where}: line {number:,} is not UTF-8; replace the archive") from error


def _letters(texts: Iterable[str]) -> str:
    """The letters of a text, which all parsers keep."""
    return _NO_LETTER.sub("", "".join(_BRACKET.sub("", text) for text in texts).lower())


@contextmanager
def _written(path: str) -> Iterator[IO[str]]:
    """A text file that appears only when it is complete. Raises DataError: it cannot be written."""
    unfinished = Path(f"{path}.unfinished")
    try:
        with open(unfinished, "w", encoding="utf-8") as file:
            yield file
        unfinished.replace(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {one_line(error)}") from error
    finally:
        with suppress(OSError):
            unfinished.unlink()


def _sentences(path: str) -> Iterator[str]:
    """The lines of a text file. Raises DataError: it cannot be read."""
    try:
        with open(path, encoding="utf-8", newline="\n") as lines:
            for line in lines:
                yield line.rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {one_line(error)}") from error


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("sentences", help="write the sentences that need a parse, one per line")
    listing.add_argument("archive", help="Europarl v7's fr-en.tgz")
    listing.add_argument("output")
    parsing = commands.add_parser("spacy", help="parse them with a spaCy model")
    parsing.add_argument("model")
    parsing.add_argument("sentences")
    parsing.add_argument("output")
    options = parser.parse_args(arguments)
    with handle_user_errors() as outcome:
        if options.command == "sentences":
            with _written(options.output) as output:
                output.writelines(f"{sentence}\n" for sentence in sentences_to_parse(europarl_pairs(options.archive)))
        else:
            model: Parser = SpacyParser(options.model)
            with _written(options.output) as output:
                write_conllu(model.parse(_sentences(options.sentences)), output)
    return outcome.status


if __name__ == "__main__":
    sys.exit(main())
