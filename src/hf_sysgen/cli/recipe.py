"""`hf-sysgen recipe`: what a recipe may say, and recipes of the first edition."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hf_sysgen.cli.commands import command
from hf_sysgen.config.errors import RecipeError
from hf_sysgen.errors import UserError, did_you_mean, tell_error

if TYPE_CHECKING:
    from hf_sysgen.config.fields import FieldNote

app = typer.Typer(no_args_is_help=True, help="Show the fields of recipes; rewrite recipes of version 0.1.")


@command(app)
def fields(
    section: Annotated[str | None, typer.Argument(help="e.g. training; default: all")] = None,
) -> None:
    """Show every field of a recipe with its type, default and meaning, and what another value changes."""
    print(fields_text(section))


@command(app)
def migrate(
    files: Annotated[list[Path], typer.Argument(help="recipe or sweep files of hf-sysgen 0.1, rewritten in place")],
) -> int:
    """Rewrite flat recipes of hf-sysgen 0.1 in sections, and sweeps with dotted keys. Comments are kept."""
    from hf_sysgen.config.migrate import migrate_file

    status = 0
    for file in files:
        try:
            migrate_file(file)
            print(f"rewritten: {file}")
        except UserError as error:
            tell_error(str(error))
            status = error.status
    return status


def fields_text(section: str | None = None) -> str:
    """
    The declared fields, by section.

    Raises:
        RecipeError: there is no such section.
    """
    from hf_sysgen.config.fields import FIELDS, SECTIONS

    top = "recipe"
    known = [*SECTIONS, top]
    if section is not None and section not in known:
        raise RecipeError(f"no section {section!r}{did_you_mean(section, known)}", section)
    lines: list[str] = []
    for name in known if section is None else [section]:
        meaning = SECTIONS.get(name, "Beside the sections; `base: other.yaml` starts from another recipe file.")
        lines += ["", name, *textwrap.wrap(" ".join(meaning.split()), 110, initial_indent="  ", subsequent_indent="  ")]
        for field in FIELDS:
            folder, _, word = field.key.rpartition(".")
            if folder != ("" if name == top else name):
                continue
            # a field that only one kind of a section has stands below that kind
            chooses, indent = field.kind == field.type, "    " if field.kind and field.kind != field.type else "  "
            facts = field.type if chooses else f"{_values(field)}; changes {field.changes}"
            lines.append(f"{indent}{word}: {facts}")
            lines += textwrap.wrap(field.meaning, 106, initial_indent="      ", subsequent_indent="      ")
    return "\n".join(lines).lstrip()


def options_text(options: Mapping[str, str]) -> str:
    """The values and the default of each option, by its name and the dotted key of its field."""
    from hf_sysgen.config.fields import BY_KEY

    width = max(map(len, options))
    return "\n".join(f"  --{option:{width}}  {_values(BY_KEY[key])}" for option, key in options.items())


def _values(field: FieldNote) -> str:
    """A field's type and its default, in words."""
    return f"{field.type}; " + ("required" if field.default is ... else f"default {_yaml(field.default)}")


def _yaml(value: object) -> str:
    from hf_sysgen.config.migrate import scalar

    return scalar(list(value) if isinstance(value, tuple) else value)
