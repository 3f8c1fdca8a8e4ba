"""Role schemes of SCAN, from less to more abstract: Chakravarthy et al. 2022, sections 4.1 and 4.2.2.

Entropies are in bits, over the sources of the test set of add-jump. The paper gives only that of `scan_prim`, 3.127. Of
the other schemes it says that they merge "left" and "right" into "dir", "twice" and "thrice" into "num", "etc.". Its
role files are not published, and it does not say whether targets are merged too; here they are if the name says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from hf_sysgen.data.scan.grammar import CONJUNCTIONS, MANNERS, PRIMITIVES, REPETITIONS, TURNS
from hf_sysgen.data.text.roles import NamedScheme, RoleScheme

Groups = dict[str, Sequence[str]]

SOURCE_WORDS = (*PRIMITIVES, "turn", *TURNS, *MANNERS, *REPETITIONS, *CONJUNCTIONS)
TARGET_WORDS = (*PRIMITIVES.values(), *TURNS.values())

PRIM: Groups = {"prim": tuple(PRIMITIVES)}
DIR: Groups = {"dir": tuple(TURNS)}
NUM: Groups = {"num": tuple(REPETITIONS)}
MANNER: Groups = {"manner": MANNERS}
CONJ: Groups = {"conj": CONJUNCTIONS}
PAIRS: Groups = {"look_jump": ("look", "jump"), "walk_run": ("walk", "run")}
TARGET_PRIM: Groups = {"PRIM": tuple(PRIMITIVES.values())}
TARGET_TURN: Groups = {"TURN": tuple(TURNS.values())}
TARGET_PAIRS: Groups = {name.upper(): tuple(PRIMITIVES[word] for word in words) for name, words in PAIRS.items()}


def _scheme(name: str, source: Groups, target: Groups) -> RoleScheme:
    """The words of a group share a role; every other word has its own."""
    return RoleScheme.from_names(_roles(SOURCE_WORDS, source), _roles(TARGET_WORDS, target), name)


def _roles(words: Sequence[str], groups: Groups) -> dict[str, str]:
    merged = {word: role for role, members in groups.items() for word in members}
    return {word: merged.get(word, word) for word in words}


# name -> description, groups of source words, groups of target words
_LEVELS: dict[str, tuple[str, Groups, Groups]] = {
    "scan_words": ("every word its own role (3.516 bits)", {}, {}),
    "scan_pairs": ("two roles for the four verbs (3.331 bits)", PAIRS, TARGET_PAIRS),
    "scan_prim": ("the paper's main scheme: one role for the four verbs (3.127 bits)", PRIM, TARGET_PRIM),
    "scan_prim_dir": ("also left and right (2.886 bits)", PRIM | DIR, TARGET_PRIM),
    "scan_prim_dir_turn": ("also I_TURN_LEFT and I_TURN_RIGHT in the target", PRIM | DIR, TARGET_PRIM | TARGET_TURN),
    "scan_prim_num": ("the verbs, twice and thrice (2.942 bits)", PRIM | NUM, TARGET_PRIM),
    "scan_prim_dir_num": ("the verbs, directions, twice and thrice (2.702 bits)", PRIM | DIR | NUM, TARGET_PRIM),
    "scan_prim_dir_num_manner": (
        "also around and opposite (2.541 bits)",
        PRIM | DIR | NUM | MANNER,
        TARGET_PRIM,
    ),
    "scan_prim_dir_num_manner_conj": (
        "also and and after: one role for each category of the grammar (2.403 bits)",
        PRIM | DIR | NUM | MANNER | CONJ,
        TARGET_PRIM,
    ),
}


def _named(name: str) -> NamedScheme:
    description, source, target = _LEVELS[name]
    return NamedScheme(description, lambda dataset: _scheme(name, source, target))


SCHEMES = {name: _named(name) for name in _LEVELS}
