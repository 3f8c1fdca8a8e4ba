"""The way back from the variable-free form of COGS."""

from __future__ import annotations

from hf_sysgen.data.cogs.forms import is_name
from hf_sysgen.data.cogs.variable_free_forms import Node, parse_variable_free


def to_logical_form(text: str) -> str:
    """
    The logical form of a sentence's variable-free form.

    A variable-free form does not have the positions of its words in the sentence. So variables are numbered, and
    conjuncts ordered, as they occur. Apart from that it is the original, and it gives the same variable-free form
    again. If the agent of an "xcomp" has the same text as that of the verb above, both are one variable, as all control
    verbs of COGS are subject control verbs.

    Not for a primitive: a bare word does not have its arguments.
    """
    root = parse_variable_free(text)
    definite: list[str] = []
    conjuncts: list[str] = []
    count = 0

    def write(node: Node, agent: tuple[Node | None, str]) -> str:
        """Write the conjuncts of a node. Returns its variable or name. `agent` is the agent of the verb above, with its
        variable."""
        nonlocal count
        if not node.roles and not node.definite and is_name(node.word):
            return node.word
        count += 1
        variable = f"x _ {count}"
        if all(role.startswith("nmod") for role, _ in node.roles):
            (definite if node.definite else conjuncts).append(f"{'* ' * node.definite}{node.word} ( {variable} )")
        own: tuple[Node | None, str] = (None, "")
        for role, below in node.roles:
            # a conjunct comes before those of its argument, which is numbered when they are written
            place = len(conjuncts)
            conjuncts.append("")
            shared = role == "agent" and below == agent[0]
            argument = agent[1] if shared else write(below, own if role == "xcomp" else (None, ""))
            conjuncts[place] = f"{node.word} . {role} ( {variable} , {argument} )"
            if role == "agent":
                own = (below, argument)
        return variable

    write(root, (None, ""))
    return " ; ".join([*definite, " AND ".join(conjuncts)])
