"""COMP: the share of French predictions that have both the adjective and the noun that were held out together
(Chaabouni et al. 2021, section 5). Order does not matter. A synonym is wrong, even in good French.

The paper does not say how words are matched. Here a lexicon has the French forms of the eight nouns and adjectives, and
there are two rules: any form counts, or only those of the reference.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal, TypedDict, get_args

from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.metrics.sequences import check_paired

Rule = Literal["any_inflection", "same_form"]

_STEMS = {
    "response": "réponse réponses",
    "institution": "institution institutions",
    "organisation": "organisation organisations organisme organismes",
    "solution": "solution solutions",
    "source": "source sources",
    "decision": "décision décisions",
    "responsibility": "responsabilité responsabilités",
    "population": "population populations",
    "specific": "spécifique spécifiques",
    "particular": "particulier particuliers particulière particulières",
    "effective": "efficace efficaces",
    "permanent": "permanent permanents permanente permanentes",
    "new": "nouveau nouveaux nouvel nouvelle nouvelles",
    "good": "bon bons bonne bonnes",
    "big": "grand grands grande grandes gros grosse grosses",
    "first": "premier premiers première premières",
}
# English word -> its French forms, lowercase
LEXICON = {word: frozenset(forms.split()) for word, forms in _STEMS.items()}
# Moses writes an apostrophe as &apos; and splits at hyphens with @-@; elision is split off: l'organisation
_WORD = re.compile(r"[^\W\d_]+")


def words(text: str) -> set[str]:
    """The lowercase words of a French text, joined from subword-nmt's pieces, without elided articles."""
    text = text.replace("@@ ", "").replace("&apos;", "'")
    return set(_WORD.findall(unicodedata.normalize("NFC", text).lower()))


def comp_match(prediction: str, reference: str, pairs: Sequence[str], rule: Rule = "any_inflection") -> bool | None:
    """
    Whether a prediction has adjective and noun of every pair.

    Args:
        prediction, reference: French.
        pairs: English adjective and noun, such as "new response": the column `pairs` of noun_adjective.
        rule: `any_inflection` accepts any form of the lexicon, `same_form` only a form in the reference.

    Returns:
        None if the reference itself lacks a word (e.g. it has "important" for big), under either rule.

    Raises:
        UserError: there is no pair, or a word of it is not in the lexicon.
    """
    if not pairs:
        raise UserError("an example has no noun-adjective pair; give the column `pairs` of noun_adjective's test")
    predicted, expected = words(prediction), words(reference)
    found = complete = True
    for english in (word for pair in pairs for word in _split(pair)):
        in_reference = LEXICON[english] & expected
        complete &= bool(in_reference)
        found &= bool(predicted & (in_reference if rule == "same_form" else LEXICON[english]))
    return found if complete else None


class Comp(TypedDict):
    """COMP of `examples` examples, 0 to 1. `other_references` of the references lack a word."""

    comp: float
    examples: int
    other_references: int


def comp(
    predictions: Sequence[str],
    references: Sequence[str],
    pairs: Sequence[Sequence[str]],
    rule: Rule = "any_inflection",
    drop: bool = False,
) -> Comp:
    """
    COMP of a test set.

    Args:
        predictions, references, pairs, rule: see `comp_match`, for every example.
        drop: leave out examples whose reference lacks a word. Otherwise they count too, with any form of the lexicon: a
            model may use the word even if the reference does not.

    Raises:
        UserError: no such rule; not as many references and pairs as predictions; no example is left; see
            `comp_match`.
    """
    hits = comp_hits(predictions, references, pairs, rule, drop)
    if not hits:
        raise UserError("no predictions: there is nothing to measure")
    others = sum(comp_match("", reference, wanted) is None for reference, wanted in zip(references, pairs, strict=True))
    return {"comp": sum(hits) / len(hits), "examples": len(hits), "other_references": others}


def comp_hits(
    predictions: Sequence[str],
    references: Sequence[str],
    pairs: Sequence[Sequence[str]],
    rule: Rule = "any_inflection",
    drop: bool = False,
) -> list[bool]:
    """For each example that counts, whether its prediction has adjective and noun of every pair; see `comp`."""
    if rule not in get_args(Rule):
        raise UserError(f"no rule {rule!r} of comp; there are {', '.join(get_args(Rule))}")
    check_paired(predictions, references)
    check_paired(predictions, pairs, "pairs")
    hits = []
    for prediction, reference, wanted in zip(predictions, references, pairs, strict=True):
        hit = comp_match(prediction, reference, wanted, rule)
        if hit is None and not drop:
            found = words(prediction)
            hit = all(LEXICON[word] & found for pair in wanted for word in _split(pair))
        if hit is not None:
            hits.append(hit)
    return hits


def _split(pair: str) -> list[str]:
    parts = pair.split()
    if len(parts) != 2 or not set(parts) <= set(LEXICON):
        raise UserError(f"{pair!r} is not an adjective and noun of the lexicon, such as 'new response'")
    return parts
