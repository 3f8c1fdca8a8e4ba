"""Check the definition of COGS' splits and categories (Kim & Linzen 2020, section 3) on its examples."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from hf_sysgen.data.builder import Check, check_none
from hf_sysgen.data.cogs.files import CATEGORIES, LEXICAL, Example, chain, has_modified_subject, use
from hf_sysgen.data.cogs.forms import LogicalForm, parse_form

IN_DISTRIBUTION = 24_000
PRIMITIVES = 143
EXPOSURES = 12
PER_CATEGORY = 1_000
# the splits without what test tests, and their names in a sentence
KNOWN = ("train", "validation", "test_iid")
_KNOWN = "train, validation and test_iid"

Splits = Mapping[str, Sequence[Example]]


def check_categories(splits: Splits, copies: int) -> Iterator[Check]:
    """Check the counts of each category, and that no sentence is in a split twice or in two splits.

    Args:
        splits: "train", "validation", "test_iid" and "test".
        copies: how many of each primitive and exposure example train has.
    """
    count = Counter(example.category for example in splits["train"])
    in_distribution, primitives = count.pop("in_distribution", 0), count.pop("primitive", 0)
    fact = f"train has {IN_DISTRIBUTION:,} in_distribution and {PRIMITIVES * copies:,} primitive examples"
    holds = (in_distribution, primitives) == (IN_DISTRIBUTION, PRIMITIVES * copies)
    yield _check(fact, holds, f"{in_distribution:,} and {primitives:,}")
    exposures = [name for name in count if name.startswith("exposure_example_")]
    fact = f"the rest of train is {EXPOSURES} kinds of exposure examples, {copies} of each"
    yield _check(fact, count == dict.fromkeys(exposures, copies) and len(exposures) == EXPOSURES, f"{dict(count)}")
    for split in ("validation", "test_iid"):
        others = (example for example in splits[split] if example.category != "in_distribution")
        yield check_none(f"every example of {split} is in_distribution", others)
    count = Counter(example.category for example in splits["test"])
    fact = f"test has {len(CATEGORIES)} categories of {PER_CATEGORY:,} examples"
    yield _check(fact, count == dict.fromkeys(CATEGORIES, PER_CATEGORY), f"{dict(count)}")
    repeated = Counter(
        example.sentence for split, examples in splits.items() if split != "train" for example in examples
    )
    train = [example.sentence for example in splits["train"]]
    # copies of an example may be the same sentence
    repeated.update(set(train) if copies > 1 else train)
    fact = "no sentence is in two splits, or twice in one" + (" except copies in train" if copies > 1 else "")
    yield check_none(fact, (sentence for sentence, times in repeated.items() if times > 1))


def check_definitions(splits: Splits) -> Iterator[Check]:
    """Check what each of the 21 categories tests, in words and logical forms."""
    known = [parsed for split in KNOWN for parsed in map(_parsed, splits[split])]
    tested: dict[str, list[_Parsed]] = defaultdict(list)
    for parsed in map(_parsed, splits["test"]):
        tested[parsed.example.category].append(parsed)
    for name in LEXICAL:
        yield from _check_lexical(name, known, tested[name])
    with_theme = {link.head for parsed in known for link in parsed.form.conjuncts if link.role == "theme"}
    for name, has_theme in (("obj_omitted_transitive", True), ("unerg", False)):
        category = f"only_seen_as_unacc_subj_as_{name}_subj"
        verbs = {verb for parsed in tested[category] for verb in _verbs(parsed.form, LEXICAL[category].word)}
        fact = f"{category}: {'each' if has_theme else 'none'} of its verbs has a theme in {_KNOWN}"
        yield check_none(fact, sorted(verb for verb in verbs if (verb in with_theme) != has_theme))
    for name, role, phrase in (("pp_recursion", "nmod", "PP"), ("cp_recursion", "ccomp", "CP")):
        deeper = (parsed.example for parsed in known if chain(parsed.form, role) > 2)
        yield check_none(f"{_KNOWN} have {phrase} depth up to 2", deeper)
        depths = Counter(chain(parsed.form, role) for parsed in tested[name])
        each = PER_CATEGORY // 10
        fact = f"{name}: {phrase} depth 3 to 12, {each} of each"
        yield _check(fact, depths == dict.fromkeys(range(3, 13), each), f"{dict(sorted(depths.items()))}")
    fact = f"no subject in {_KNOWN} has a PP"
    yield check_none(fact, (parsed.example for parsed in known if has_modified_subject(parsed.form)))
    name = "obj_pp_to_subj_pp"
    without = (parsed.example for parsed in tested[name] if not has_modified_subject(parsed.form))
    yield check_none(f"{name}: a subject has a PP", without)


def _check(fact: str, holds: bool, found: str) -> Check:
    return Check(fact, holds, "" if holds else found)


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
    yield _check(f"{name}: {word} is in train", bool(shown), "nowhere")
    elsewhere = (parsed.example for parsed in shown if parsed.example.category != exposure)
    yield check_none(f"{name}: {_KNOWN} have {word} in {exposure} only", elsewhere)
    if seen:
        yield _check_uses(f"{name}: train has {word} as {seen!r}", shown, word, seen)
    yield _check_uses(f"{name}: test has {word} as {new!r}", tested, word, new)


def _check_uses(fact: str, examples: Iterable[_Parsed], word: str, pattern: str) -> Check:
    """Check that every example has the word in a use of the pattern, and in no other."""

    def is_used(parsed: _Parsed) -> bool:
        uses = use(parsed.example.sentence, parsed.form, word)
        return bool(uses) and all(re.fullmatch(pattern, found) for found in uses)

    return check_none(fact, (parsed.example for parsed in examples if not is_used(parsed)))


def _verbs(form: LogicalForm, noun: str) -> set[str]:
    """The verbs that a noun is an argument of."""
    variables = {conjunct.variable for conjunct in form.conjuncts if conjunct.predicate == noun}
    return {conjunct.head for conjunct in form.conjuncts if conjunct.argument in variables}
