"""What all commands share: user errors are one line and a status, and only options that have an effect are accepted."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import typer
from typer.core import TyperCommand

from hf_sysgen.errors import UserError, did_you_mean, handle_user_errors


def command(
    app: typer.Typer,
    name: str | None = None,
    *,
    interrupted: str = "interrupted",
    text: str | None = None,
    below: Callable[[], str] | None = None,
) -> Callable[[Callable[..., int | None]], Callable[..., None]]:
    """
    Add a function as a command. It returns its exit status, or None for 0; user errors are printed as one line.

    Args:
        name: default: that of the function.
        interrupted: the message after Ctrl-C.
        text: for `--help`; default: the function's docstring.
        below: makes the text after the options in `--help`.
    """

    def add(function: Callable[..., int | None]) -> Callable[..., None]:
        @app.command(name, help=text, cls=None if below is None else _with_text(below))
        @functools.wraps(function)
        def run(*args: Any, **options: Any) -> None:
            with handle_user_errors(interrupted) as exit_status:
                exit_status.status = function(*args, **options) or 0
            raise typer.Exit(exit_status.status)

        return run

    return add


def _with_text(below: Callable[[], str]) -> type[TyperCommand]:
    class WithText(TyperCommand):
        # the text is made when it is asked for: `epilog` would be made at every start
        def format_epilog(self, ctx: Any, formatter: Any) -> None:
            formatter.write(f"\n{below()}\n")

    return WithText


def chosen(name: str, functions: Mapping[str, Callable[..., Any]], options: Mapping[str, Any]) -> functools.partial:
    """
    The function that a command runs, with the given options (those that are not None).

    Raises:
        UserError: the function is unknown, does not have a given option, or a required option is missing.
    """
    if name not in functions:
        raise UserError(f"there is no {name!r}, only {', '.join(functions)}{did_you_mean(name, functions)}")
    known = {key: one for key, one in inspect.signature(functions[name]).parameters.items() if key in options}
    given = {key: value for key, value in options.items() if value is not None}
    if wrong := [_word(key) for key in given if key not in known]:
        has = ", ".join(map(_word, known)) or "none"
        raise UserError(f"{', '.join(wrong)} has no effect on {name}, whose options are: {has}")
    if missing := [_word(key) for key, one in known.items() if one.default is one.empty and key not in given]:
        raise UserError(f"{name} needs {', '.join(missing)}")
    return functools.partial(functions[name], **given)


def _word(key: str) -> str:
    return "TEXT" if key == "text" else f"--{key.replace('_', '-')}"


def listed(lines: Mapping[str, str]) -> str:
    """Names with a line on each, as a paragraph of a help text that is not wrapped."""
    width = max(map(len, lines))
    return "\n\n\b\n" + "\n".join(f"{name:{width}}  {line}" for name, line in lines.items())
