"""Dependency trees of CFQ questions: a context-free grammar, and for each of its rules a head and labels.

Rules and words are those printed by Goodwin et al. 2022 (arXiv:2110.06843, appendix), plus the word "gender", which
their list lacks and 405 questions of mcd1 have. THE HEADS AND LABELS ARE OURS, not the table of Goodwin et al., so the
trees made here are not their benchmark. Ours follow Universal Dependencies where a rule of the grammar allows it (a
content word is the head, the first conjunct heads a coordination); "by" depends on its verb, as the grammar puts these
two together first.

In a rule the head has no label. Every other child is child:LABEL, which depends on the head, or child:LABEL@other,
which depends on that other child.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

_RULES = """
S -> NPQ:NSUBJ VP | NPQ:NSUBJ Vobl | NPQ:NSUBJ was:COP Nominal | NPQ:OBJ did:AUX NPV
S -> was:AUX Nominal:NSUBJ Vobl | was:COP Nominal:NSUBJ Adj | was:COP Nominal:NSUBJ Nominal
S -> did:AUX Nominal:NSUBJ VP
NPV -> Nominal:NSUBJ V | Nominal:NSUBJ VPrep
VP -> V Nominal:OBJ | was:AUX Vobl
VPrep -> was:AUX VPrep | V by:CASE
Vobl -> VPrep Nominal:OBL
V -> F:COMPOUND V
NPQ -> WhW:DET Nominal | WhW:DET role caseO:NMOD
RC -> Vobl | R:NSUBJ VP | R:OBJ NPV | whose:NMOD@role role:NSUBJ VP
Nominal -> Name | DP | commonNoun
DP -> caseS:NMOD role | det:DET role caseO:NMOD | det:DET commonNoun
caseS -> DP pS:CASE | Name pS:CASE
caseO -> of:CASE DP | of:CASE Name
commonNoun -> commonNoun RC:ACL | F:COMPOUND commonNoun | P:COMPOUND commonNoun | Adj:AMOD commonNoun
role -> F:COMPOUND role | Adj:AMOD role | Cnt of:CASE@nat nat:NMOD
"""
# what "and" and commas join, and which kind may follow which
_COORDINATED = {
    "VP": ("VP",),
    "Vobl": ("Vobl",),
    "VPrep": ("VPrep", "V"),
    "V": ("V", "VPrep"),
    "NPV": ("NPV",),
    "Name": ("Name",),
    "commonNoun": ("commonNoun",),
    "role": ("role",),
}
_NOUNS = (
    "character person composer prequel director writer company actor designer founder sequel producer spouse child "
    "editor employer employee distributor sibling star parent cinematographer screenwriter film"
)
_WORDS = {
    "punct": ",",
    "conj": "and",
    "Cnt": "country",
    "nat": "nationality",
    "P": "production",
    "F": "film art executive costume",
    "V": "direct produce edit married produced starred employ written edited marry distribute played influenced "
    "employed acquire acquired directed wrote influence found play star founded write distributed",
    "Name": "M0 M1 M2 M3 M4 M5 M6 M7 M8 M9",
    "commonNoun": _NOUNS,
    "role": f"{_NOUNS} gender",
    "NPQ": "who what Who What",
    "WhW": "What Which what which",
    "did": "did Did",
    "pS": "'s",
    "of": "of",
    "det": "a an",
    "by": "by",
    "Adj": "female American French Italian male Swedish Canadian British Spanish Mexican Chinese German Dutch Japanese",
    "was": "was were Was Were",
    "R": "that",
    "whose": "whose",
}


class Rule(NamedTuple):
    """One rule of the grammar.

    Attributes:
        parent: its left side.
        children: its right side.
        head: position of the head among the children.
        governors: for each child, the position of the child that it depends on; its own for the head.
        labels: for each child, the label of that dependency; "" for the head.
    """

    parent: str
    children: tuple[str, ...]
    head: int
    governors: tuple[int, ...]
    labels: tuple[str, ...]


class Tree(NamedTuple):
    """A dependency tree.

    Attributes:
        heads: for each token the number of the token that it depends on, counted from 1; 0 for the root.
        labels: for each token the label of that dependency.
    """

    heads: tuple[int, ...]
    labels: tuple[str, ...]


def rules() -> list[Rule]:
    """Rules whose right side is not only words, those of coordination included."""
    lines = _RULES.strip().splitlines()
    for kind, followers in _COORDINATED.items():
        for follower in followers:
            lines += [
                f"{kind} -> {kind} and{follower}:CONJ | {kind}x and{follower}:CONJ",
                f"{kind}x -> {kind} punct{follower}:CONJ | {kind}x punct{follower}:CONJ",
            ]
        lines += [
            f"and{kind} -> conj:CC {kind} | punct:PUNCT conj:CC {kind}",
            f"punct{kind} -> punct:PUNCT {kind}",
        ]
    return [
        _rule(parent.strip(), right.split())
        for parent, _, rights in (line.partition("->") for line in lines)
        for right in rights.split("|")
    ]


def _rule(parent: str, right: list[str]) -> Rule:
    children = tuple(child.partition(":")[0] for child in right)
    labels = tuple(child.partition(":")[2].partition("@")[0] for child in right)
    head = labels.index("")
    governors = tuple(children.index(other) if (other := child.partition("@")[2]) else head for child in right)
    return Rule(parent, children, head, governors, labels)


def words() -> dict[str, frozenset[str]]:
    """Word to the symbols that it may stand for."""
    listed: dict[str, set[str]] = {}
    for symbol, text in _WORDS.items():
        for word in text.split():
            listed.setdefault(word, set()).add(symbol)
    return {word: frozenset(symbols) for word, symbols in listed.items()}


# an entry of the chart for a symbol: number of rules used; the rule (None for the first two children of a rule with
# three); where the right part begins; the symbols of both parts
_Entry = tuple[int, "Rule | None", int, "tuple[_Symbol, ...]"]
# a symbol of the grammar, or the first two children of a rule with three
_Symbol = str | tuple[str, str]
# right part -> what a left part makes with it
_Following = dict[_Symbol, "list[tuple[_Symbol, Rule | None]]"]
# the end of a phrase, and its symbols that begin a rule, each with the number of rules used and what follows
_Begun = tuple[int, list[tuple[_Symbol, int, _Following]]]


class _Grammar:
    """The rules, indexed for the chart parser: by one part, or by a left and a right part."""

    def __init__(self) -> None:
        self.unary: dict[_Symbol, list[tuple[_Symbol, Rule]]] = {}
        self.binary: dict[_Symbol, _Following] = {}
        for rule in rules():
            children = rule.children
            if len(children) == 1:
                self.unary.setdefault(children[0], []).append((rule.parent, rule))
                continue
            left: _Symbol = children[0]
            if len(children) == 3:
                start = children[0], children[1]
                self._add(left, children[1], start, None)
                left = start
            self._add(left, children[-1], rule.parent, rule)

    def _add(self, left: _Symbol, right: _Symbol, parent: _Symbol, rule: Rule | None) -> None:
        made = self.binary.setdefault(left, {}).setdefault(right, [])
        if (parent, rule) not in made:
            made.append((parent, rule))


_GRAMMAR = _Grammar()
_LEXICON = words()


def parse(question: str) -> Tree | None:
    """The dependency tree of a question; None if the grammar has none.

    If the grammar allows several trees (31 % of mcd1's questions), each phrase uses the fewest rules, and among these
    the shortest first part.

    Args:
        question: tokens joined by single blanks, in CFQ's original form ("M0 's actor").
    """
    try:
        return _parse(tuple(_LEXICON[word] for word in question.split()))
    except KeyError:
        return None


# more than half of mcd1's questions have the same word classes as an earlier one
@lru_cache(maxsize=1 << 16)
def _parse(classes: tuple[frozenset[str], ...]) -> Tree | None:
    length = len(classes)
    chart: dict[tuple[int, int], dict[_Symbol, _Entry]] = {}
    # start -> the phrases that begin there
    begun: list[list[_Begun]] = [[] for _ in classes]
    for end in range(1, length + 1):
        # sorted, because the order of a set differs from run to run
        cell: dict[_Symbol, _Entry] = dict.fromkeys(sorted(classes[end - 1]), (0, None, 0, ()))
        for start in range(end - 1, -1, -1):
            if start < end - 1:
                cell = _combined(chart, begun[start], end)
            if cell:
                chart[start, end] = _with_unary(cell)
                lefts = [
                    (left, entry[0], _GRAMMAR.binary[left]) for left, entry in cell.items() if left in _GRAMMAR.binary
                ]
                if lefts:
                    begun[start].append((end, lefts))
    if "S" not in chart.get((0, length), {}):
        return None
    heads, labels = [0] * length, [""] * length
    labels[_attach(chart, 0, length, "S", heads, labels)] = "ROOT"
    return Tree(tuple(heads), tuple(labels))


def _combined(
    chart: dict[tuple[int, int], dict[_Symbol, _Entry]], begun: list[_Begun], end: int
) -> dict[_Symbol, _Entry]:
    cell: dict[_Symbol, _Entry] = {}
    for middle, lefts in begun:
        rights = chart.get((middle, end))
        if rights is None:
            continue
        for left, left_cost, following in lefts:
            for right, made in following.items():
                if right not in rights:
                    continue
                cost = left_cost + rights[right][0] + 1
                for parent, rule in made:
                    if parent not in cell or cost < cell[parent][0]:
                        cell[parent] = cost, rule, middle, (left, right)
    return cell


def _with_unary(cell: dict[_Symbol, _Entry]) -> dict[_Symbol, _Entry]:
    pending = list(cell)
    while pending:
        symbol = pending.pop()
        for parent, rule in _GRAMMAR.unary.get(symbol, ()):
            cost = cell[symbol][0] + 1
            if parent not in cell or cost < cell[parent][0]:
                cell[parent] = cost, rule, 0, (symbol,)
                pending.append(parent)
    return cell


def _attach(
    chart: dict[tuple[int, int], dict[_Symbol, _Entry]],
    start: int,
    end: int,
    symbol: _Symbol,
    heads: list[int],
    labels: list[str],
) -> int:
    """Fill in the dependencies inside a phrase. Returns the position of its head."""
    _, rule, middle, parts = chart[start, end][symbol]
    if not parts:
        return start
    spans = [(start, middle or end, parts[0])]
    if len(parts) == 2:
        spans.append((middle, end, parts[1]))
        if isinstance(parts[0], tuple):
            _, _, first_end, pair = chart[start, middle][parts[0]]
            spans[:1] = [(start, first_end, pair[0]), (first_end, middle, pair[1])]
    assert rule is not None
    found = [_attach(chart, *span, heads, labels) for span in spans]
    for child, (governor, label) in enumerate(zip(rule.governors, rule.labels, strict=True)):
        if label:
            heads[found[child]], labels[found[child]] = found[governor] + 1, label
    return found[rule.head]
