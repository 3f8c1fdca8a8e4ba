"""The files of COGS (lines of sentence, target and category), and the definition of each category of the generalization
set."""

from __future__ import annotations

from typing import NamedTuple

from hf_sysgen.data.cogs.forms import LogicalForm, is_variable, position


class Example(NamedTuple):
    """One line.

    Attributes:
        sentence: words joined by single spaces, the full stop included; one word for a primitive.
        target: the meaning.
        category: "in_distribution", "primitive" or "exposure_example_..." in the training file, "in_distribution" in
            dev and test, one of `CATEGORIES` in the generalization set.
    """

    sentence: str
    target: str
    category: str


def parse(content: bytes) -> list[Example]:
    """The examples of a file, in order.

    Raises:
        ValueError: a line does not have three columns; the message names it.
    """
    examples = []
    for number, line in enumerate(content.decode("utf-8").splitlines(), start=1):
        columns = line.split("\t")
        if len(columns) != 3:
            raise ValueError(f"line {number} has {len(columns)} columns, expected sentence, target and category")
        examples.append(Example(*columns))
    return examples


class Lexical(NamedTuple):
    """A category that tests one word in a use that train does not have.

    Attributes:
        word: as in logical forms.
        exposure: category of the only training examples with the word.
        seen: its use there, a pattern for what `use` returns; "" for a word alone.
        tested: its use in the category, also a pattern.
    """

    word: str
    exposure: str
    seen: str
    tested: str


# Kim & Linzen 2020, section 3.1 and 3.3 to 3.5 and table 7
LEXICAL = {
    "subj_to_obj_common": Lexical("hedgehog", "exposure_example_subj_common", "agent in .*", "theme in .*"),
    "subj_to_obj_proper": Lexical("Lina", "exposure_example_subj_proper", "agent in .*", "theme in .*"),
    "obj_to_subj_common": Lexical("cockroach", "exposure_example_obj_common", "theme in .*", "agent in .*"),
    "obj_to_subj_proper": Lexical("Charlie", "exposure_example_obj_proper", "theme in .*", "agent in .*"),
    "prim_to_subj_common": Lexical("shark", "primitive", "", "agent in .*"),
    "prim_to_subj_proper": Lexical("Paula", "primitive", "", "agent in .*"),
    "prim_to_obj_common": Lexical("shark", "primitive", "", "theme in .*"),
    "prim_to_obj_proper": Lexical("Paula", "primitive", "", "theme in .*"),
    "prim_to_inf_arg": Lexical("crawl", "primitive", "", "xcomp: agent V"),
    "active_to_passive": Lexical("bless", "exposure_example_active", "agent V theme", "theme was V( agent)?"),
    "passive_to_active": Lexical("squeeze", "exposure_example_passive", "theme was V( agent)?", "agent V theme"),
    "obj_omitted_transitive_to_transitive": Lexical(
        "bake", "exposure_example_obj_omitted_transitive", "agent V", "agent V theme"
    ),
    "unacc_to_transitive": Lexical("shatter", "exposure_example_unacc", "theme V", "agent V theme"),
    "do_dative_to_pp_dative": Lexical(
        "teleport", "exposure_example_do_dative", "agent V recipient theme", "agent V theme recipient"
    ),
    "pp_dative_to_do_dative": Lexical(
        "ship", "exposure_example_pp_dative", "agent V theme recipient", "agent V recipient theme"
    ),
    "only_seen_as_transitive_subj_as_unacc_subj": Lexical(
        "cobra", "exposure_example_transitive_subj", "agent in agent V theme", "theme in theme V"
    ),
    "only_seen_as_unacc_subj_as_obj_omitted_transitive_subj": Lexical(
        "hippo", "exposure_example_unacc_subj", "theme in theme V", "agent in agent V"
    ),
    "only_seen_as_unacc_subj_as_unerg_subj": Lexical(
        "hippo", "exposure_example_unacc_subj", "theme in theme V", "agent in agent V"
    ),
}
# Kim & Linzen 2020, sections 3.2 and 3.3: known words in a structure that train does not have
STRUCTURAL = ("obj_pp_to_subj_pp", "cp_recursion", "pp_recursion")
CATEGORIES = (*LEXICAL, *STRUCTURAL)


def use(sentence: str, form: LogicalForm, word: str) -> set[str]:
    """
    How a sentence uses a word.

    Args:
        sentence: the sentence.
        form: its logical form.
        word: a name, a noun, or a verb's lemma.

    Returns:
        for a verb its arguments around "V" in the order of the sentence, "was" before a passive and "xcomp: " before an
        infinitive: "agent V theme", "theme was V"; for a noun or name its role and then the same of the verb: "theme in
        agent V theme". One text for each use of the word.
    """
    tokens = sentence.split(" ")
    links = [conjunct for conjunct in form.conjuncts if conjunct.role and not conjunct.role.startswith("nmod")]
    called = {word, *(conjunct.variable for conjunct in form.conjuncts if conjunct.predicate == word)}

    def construction(verb: str) -> str:
        at = position(verb)
        parts = [(at, "was V" if tokens[at - 1] == "was" else "V")]
        for link in links:
            if link.variable == verb:
                place = position(link.argument) if is_variable(link.argument) else tokens.index(link.argument)
                parts.append((place, link.role))
        return " ".join(part for _, part in sorted(parts))

    uses = {f"{link.role} in {construction(link.variable)}" for link in links if link.argument in called}
    infinitives = {link.argument for link in links if link.role == "xcomp"}
    for verb in {link.variable for link in links if link.head == word}:
        uses.add("xcomp: " * (verb in infinitives) + construction(verb))
    return uses


def chain(form: LogicalForm, role: str) -> int:
    """Length of the longest chain of a role: "nmod" (nouns in nouns, PP depth) or "ccomp" (clauses in clauses)."""
    below = {link.variable: link.argument for link in form.conjuncts if link.role.startswith(role)}
    longest = 0
    for start in below.keys() - below.values():
        variable, length = start, 0
        # in a form with a cycle no variable is a start
        while variable in below:
            variable, length = below[variable], length + 1
        longest = max(longest, length)
    return longest


def has_modified_subject(form: LogicalForm) -> bool:
    """Whether a noun with a prepositional phrase precedes the verb that it is an argument of."""
    modified = {link.variable for link in form.conjuncts if link.role.startswith("nmod")}
    return any(
        link.argument in modified and position(link.argument) < position(link.variable) for link in form.conjuncts
    )
