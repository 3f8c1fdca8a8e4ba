"""The files of SLOG, its cases, and the structure of a sentence from its words."""

from __future__ import annotations

import itertools
import zipfile

from hf_sysgen.data.cogs.files import Example, parse
from hf_sysgen.data.errors import DataError
from hf_sysgen.errors import one_line

# upstream keeps the generalization sets in an archive with this password, to keep them out of training text
PASSWORD = b"SLOG"
MEMBERS = {
    "varfree": "generalization_sets/gen_varfreeLF.tsv",
    "cogs_lf": "generalization_sets/gen_cogsLF.tsv",
}
# group -> its cases (Li et al. 2023, section 3)
GROUPS = {
    "recursion_depth": ("PP_3", "PP_5-12", "CP_3", "CP_5-12", "center_embed_3", "center_embed_5-12"),
    "modified_roles": ("PP_modif_subj", "PP_modif_iobj", "RC_modif_subj", "RC_modif_iobj"),
    "gap_positions": ("RC_iobj_extracted", "Q_iobj_ditransV"),
    "wh_questions": ("Q_subj_active", "Q_subj_passive", "Q_dobj_ditransV", "Q_modified_NPs", "Q_long_mv"),
}
CASES = {case: group for group, cases in GROUPS.items() for case in cases}
# case -> structure to count, smallest and largest depth in test; depths in train are 1, 2 and 4
DEPTHS = {
    "PP_3": ("pp", 3, 3),
    "PP_5-12": ("pp", 5, 12),
    "CP_3": ("cp", 3, 3),
    "CP_5-12": ("cp", 5, 12),
    "center_embed_3": ("center_embedding", 3, 3),
    "center_embed_5-12": ("center_embedding", 5, 12),
}
TRAIN_DEPTHS = (0, 1, 2, 4)
DETERMINERS = ("a", "the")
# prepositions that modify a noun
PREPOSITIONS = ("in", "on", "beside")


def generalization_set(archive: str, config: str) -> list[Example]:
    """The examples of a generalization set, read from the archive in memory.

    Raises:
        DataError: the archive cannot be read.
    """
    try:
        with zipfile.ZipFile(archive) as zipped:
            return parse(zipped.read(MEMBERS[config], pwd=PASSWORD))
    # zipfile raises RuntimeError for a wrong password and KeyError for an absent member
    except (zipfile.BadZipFile, RuntimeError, KeyError, OSError) as error:
        raise DataError(f"{archive}: cannot read {MEMBERS[config]} ({one_line(error)}); delete the file") from error


def noun_phrase(words: list[str], start: int) -> int:
    """Number of words of the noun phrase at a position: a determiner with a noun, or a name; 0 if there is none."""
    if start < len(words) - 1 and words[start].lower() in DETERMINERS:
        return 2
    return int(start < len(words) and words[start][0].isupper())


def depths(sentence: str) -> dict[str, int]:
    """
    Depths of the structures of a sentence, counted from its words.

    - `pp`: the longest chain of prepositional phrases, each on the noun of the one before.
    - `cp`: clauses within clauses: how often "that" follows a verb.
    - `center_embedding`: the longest chain of relative clauses, each on the subject of the one before, which is when a
      noun phrase after "that" is followed by "that" again.
    """
    words = sentence.split(" ")
    relative = [
        place
        for place, word in enumerate(words)
        if word == "that" and place > 1 and words[place - 2].lower() in DETERMINERS
    ]
    longest = {"pp": 0, "center_embedding": 0}
    for place, word in enumerate(words):
        if word in PREPOSITIONS:
            longest["pp"] = max(longest["pp"], _chain(words, place, PREPOSITIONS))
        if place in relative:
            longest["center_embedding"] = max(longest["center_embedding"], _chain(words, place, ("that",)))
    return {**longest, "cp": words.count("that") - len(relative)}


def _chain(words: list[str], place: int, links: tuple[str, ...]) -> int:
    """How many of these words follow each other, with one noun phrase after each except the last."""
    length = 0
    while place < len(words) and words[place] in links:
        length += 1
        phrase = noun_phrase(words, place + 1)
        if not phrase:
            break
        place += 1 + phrase
    return length


def predicates(target: str) -> set[str]:
    """The verbs and nouns of a logical form of either kind, without names and `?`."""
    words = target.split(" ")
    if " x _ " in target:
        heads = {word for word, after in itertools.pairwise(words) if after in (".", "(")}
        roles = {word for before, word in itertools.pairwise(words) if before == "."}
        return {word for word in heads - roles if word.isalpha() and word != "x"}
    labels = {word for word, after in itertools.pairwise(words) if after == "="}
    # names are capitalized; "TV" is a noun
    inside = {word for word in words if word.isalpha() and (word[0].islower() or word.isupper())}
    return inside - labels - {"nmod", *PREPOSITIONS}
