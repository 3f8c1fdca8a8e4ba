"""The definition of COGS' splits and categories (Kim & Linzen 2020, section 3), checked on its examples."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from hf_sysgen.data.builder import Check
from hf_sysgen.data.cogs_files import CATEGORIES, LEXICAL, Example, chain, has_modified_subject, use
from hf_sysgen.data.cogs_forms import LogicalForm, parse_form

IN_DISTRIBUTION = 24_000
PRIMITIVES = 143
EXPOSURES = 12
PER_CATEGORY = 1_000

Splits = Mapping[str, Sequence[Example]]


def check_categories(splits: Splits, copies: int) -> Iterator[Check]:
    """The counts of each category, and that no sentence is twice in a split or in two of them.

    Args:
        splits: "train", "validation", "test_iid" and "test".
        copies: how often train has each primitive and exposure example.
    """
    count = Counter(example.category for example in splits["train"])
    found = count.pop("in_distribution", 0), count.pop("primitive", 0)
    fact = f"train has {IN_DISTRIBUTION:,} in_distribution and {PRIMITIVES * copies:,} primitive examples"
    yield Check(fact, found == (IN_DISTRIBUTION, PRIMITIVES * copies), f"{found[0]:,} and {found[1]:,}")
    exposures = [name for name in count if name.startswith("exposure_example_")]
    holds = count == dict.fromkeys(exposures, copies) and len(exposures) == EXPOSURES
    yield Check(f"the rest of train is {EXPOSURES} kinds of exposure examples, {copies} of each", holds, f"{count}")
    for split in ("validation", "test_iid"):
        others = {example.category for example in splits[split]} - {"in_distribution"}
        yield Check(f"{split} is in_distribution only", not others, f"also {sorted(others)}")
    tested = Counter(example.category for example in splits["test"])
    yield Check(
        f"test has {len(CATEGORIES)} categories of {PER_CATEGORY:,} examples",
        tested == dict.fromkeys(CATEGORIES, PER_CATEGORY),
        f"{tested}",
    )
    # more copies of an example may be the same sentence
    sentences = [
        {example.sentence for example in examples}
        if split == "train" and copies > 1
        else [e.sentence for e in examples]
        for split, examples in splits.items()
    ]
    repeated = sum(map(len, sentences)) - len(set().union(*sentences))
    yield Check("no sentence is in two splits, or twice in one but for copies", not repeated, f"{repeated} are")


def check_definitions(splits: Splits) -> Iterator[Check]:
    """What each of the 21 categories tests, in words and logical forms."""
    known = [parsed for split in ("train", "validation", "test_iid") for parsed in map(_parsed, splits[split])]
    tested: dict[str, list[_Parsed]] = defaultdict(list)
    for parsed in map(_parsed, splits["test"]):
        tested[parsed.example.category].append(parsed)
    for name in LEXICAL:
        yield from _check_lexical(name, known, tested[name])
    with_theme = {link.head for parsed in known for link in parsed.form.conjuncts if link.role == "theme"}
    for name, has_theme in (("obj_omitted_transitive", True), ("unerg", False)):
        category = f"only_seen_as_unacc_subj_as_{name}_subj"
        verbs = {verb for parsed in tested[category] for verb in _verbs(parsed.form, LEXICAL[category].word)}
        wrong = sorted(verb for verb in verbs if (verb in with_theme) != has_theme)
        fact = (
            f"{category}: {'each' if has_theme else 'none'} of its verbs has a theme in train, validation or test_iid"
        )
        yield Check(fact, not wrong, f"not so {wrong}")
    for name, role, phrase in (("pp_recursion", "nmod", "PP"), ("cp_recursion", "ccomp", "CP")):
        deepest = max(chain(parsed.form, role) for parsed in known)
        yield Check(f"train, validation and test_iid have {phrase} depth up to 2", deepest == 2, f"up to {deepest}")
        depths = Counter(chain(parsed.form, role) for parsed in tested[name])
        each = PER_CATEGORY // 10
        holds = depths == dict.fromkeys(range(3, 13), each)
        yield Check(f"{name}: {phrase} depth 3 to 12, {each} of each", holds, f"{sorted(depths.items())}")
    seen = sum(has_modified_subject(parsed.form) for parsed in known)
    yield Check("no subject in train, validation or test_iid has a PP", not seen, f"{seen} have")
    without = sum(not has_modified_subject(parsed.form) for parsed in tested["obj_pp_to_subj_pp"])
    yield Check("obj_pp_to_subj_pp: a subject has a PP", not without, f"none in {without}")


class _Parsed(NamedTuple):
    example: Example
    form: LogicalForm
    words: frozenset[str]


def _parsed(example: Example) -> _Parsed:
    # a name alone is its own meaning
    form = LogicalForm(()) if example.target == example.sentence else parse_form(example.target)
    return _Parsed(example, form, frozenset(example.target.split()))


def _check_lexical(name: str, known: Iterable[_Parsed], tested: Iterable[_Parsed]) -> Iterator[Check]:
    word, exposure, seen, new = LEXICAL[name]
    shown = [parsed for parsed in known if word in parsed.words]
    elsewhere = Counter(parsed.example.category for parsed in shown if parsed.example.category != exposure)
    yield Check(
        f"{name}: train has {word} in {exposure} only, validation and test_iid never",
        bool(shown) and not elsewhere,
        f"{elsewhere or 'nowhere'}",
    )
    if seen:
        yield from _check_uses(f"{name}: train has {word} as {seen!r}", shown, word, seen)
    yield from _check_uses(f"{name}: test has {word} as {new!r}", tested, word, new)


def _check_uses(fact: str, examples: Iterable[_Parsed], word: str, pattern: str) -> Iterator[Check]:
    """That every example has the word in a use, and in none that is not of the pattern."""
    wrong = [
        parsed.example.sentence
        for parsed in examples
        if not (uses := use(parsed.example.sentence, parsed.form, word))
        or not all(re.fullmatch(pattern, found) for found in uses)
    ]
    yield Check(fact, not wrong, f"{len(wrong)} have not, such as {wrong[:1]}")


def _verbs(form: LogicalForm, noun: str) -> set[str]:
    """The verbs that a noun is an argument of."""
    variables = {conjunct.variable for conjunct in form.conjuncts if conjunct.predicate == noun}
    return {conjunct.head for conjunct in form.conjuncts if conjunct.argument in variables}
