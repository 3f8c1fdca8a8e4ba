"""What is wrong with a recipe, in one line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hf_sysgen.errors import UserError, did_you_mean, shorten


class RecipeError(UserError):
    """
    A recipe or a sweep that cannot be run.

    Attributes:
        key: the dotted key that is wrong, e.g. `training.max_steps`; None where the file as a whole is.
    """

    def __init__(self, message: str, key: str | None = None):
        super().__init__(message)
        self.key = key


def none_of(key: str, value: Any, choices: Iterable[Any]) -> RecipeError:
    """The error for a value that is none of the few that a key has."""
    words = [str(one) for one in choices]
    meant = did_you_mean(str(value), words)
    return RecipeError(f"{key}={shorten(value)} is none of {', '.join(words)}{meant}", key)
