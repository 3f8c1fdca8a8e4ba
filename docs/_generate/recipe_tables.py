"""The fields of a recipe, from their declarations, and the shipped recipes."""

from __future__ import annotations

import json

from kept import ROOT

from hf_sysgen.config.fields import FIELDS, KINDS, SECTIONS, UNDECLARED, FieldNote
from hf_sysgen.config.io import shipped_files
from hf_sysgen.config.trainer_fields import OWNED
from hf_sysgen.tables import counted, markdown


def fields() -> str:
    """All declared fields, by section."""
    parts = []
    for section, about in {**SECTIONS, "": "Keys outside the sections."}.items():
        own = [field for field in FIELDS if field.key.rpartition(".")[0] == section and field.key not in SECTIONS]
        kinds = dict.fromkeys(field.kind for field in own)
        parts += [f"### {f'`{section}`' if section else 'At the top'}", " ".join(about.split())]
        for kind in kinds:
            rows = [_row(field) for field in own if field.kind == kind]
            if kind is not None:
                parts.append(f"With `{next(iter(KINDS[section]))}: {kind}`:")
            parts.append(markdown(("field", "meaning", "type", "default", "changes"), rows, numbers=False))
    return "\n\n".join(parts)


def _row(field: FieldNote) -> tuple[str, ...]:
    name = field.key.rpartition(".")[2]
    default = "required" if field.default is ... else f"`{json.dumps(field.default, default=str)}`"
    tasks = f" Only for {', '.join(field.tasks)}." if field.tasks else ""
    return (
        f"`{name}`",
        field.meaning.replace("|", "\\|") + tasks,
        field.type.replace("|", "\\|"),
        default,
        field.changes,
    )


def passed_through() -> str:
    """What fields of a model's config and other ones of Seq2SeqTrainingArguments change if they get another value."""
    rows = [(f"`{pattern}`", change) for pattern, change in UNDECLARED]
    return markdown(("field", "changes"), [*rows, ("any other", "result")], numbers=False)


def owned() -> str:
    """Fields of Seq2SeqTrainingArguments that a recipe cannot give."""
    table = markdown(("field", "decided by"), [(f"`{name}`", owner) for name, owner in OWNED.items()], numbers=False)
    return _folded("Fields that the runner decides", table)


def _folded(title: str, text: str) -> str:
    lines = "\n".join(f"    {line}" if line else "" for line in text.splitlines())
    return f'??? note "{title}"\n\n{lines}'


def example(name: str) -> str:
    """A shipped recipe file, as it is."""
    text = shipped_files()[name].read_text(encoding="utf-8").rstrip()
    return f'```yaml title="recipes/{name}.yaml"\n{text}\n```'


def shipped() -> str:
    """The recipes of each paper, with the first line of their heads."""
    parts, papers = [], dict.fromkeys(name.partition("/")[0] for name in shipped_files())
    for paper in papers:
        rows = [
            (f"`{name}`", path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# "))
            for name, path in shipped_files().items()
            if name.startswith(f"{paper}/")
        ]
        sweeps = sorted((ROOT / "recipes" / paper / "sweeps").glob("*.yaml"))
        rows += [
            (f"`{paper}/sweeps/{path.stem}`", path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# "))
            for path in sweeps
        ]
        table = markdown(
            ("recipe", "what it is"), [(one, text.replace("|", "\\|")) for one, text in rows], numbers=False
        )
        parts.append(
            _folded(f"{paper}: {counted(len(rows) - len(sweeps), 'recipe')}, {counted(len(sweeps), 'sweep')}", table)
        )
    return "\n\n".join(parts)


TABLES = (fields, passed_through, owned, example, shipped)
