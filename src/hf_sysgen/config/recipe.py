"""
A recipe: everything that a run depends on, in sections. Run names, hashes, the check before resuming and the comparison
of seeds derive from the declared fields.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import PrivateAttr, ValidationError

from hf_sysgen.config.errors import RecipeError, none_of
from hf_sysgen.config.fields import BY_KEY, FIELDS, KINDS, SECTIONS, effect_of, flatten, in_hashes, merge, nest
from hf_sysgen.config.sections import Change, Sections
from hf_sysgen.data import benchmark_info
from hf_sysgen.errors import UserError, closest, shorten
from hf_sysgen.files import file_name


class Recipe(Sections):
    """
    Everything that decides a run's result, and where it goes. `load_recipe` of `hf_sysgen.config.io` makes one.

    Attributes:
        file: the recipe file it comes from: "csordas2021/scan_length26_relative" of a shipped one, of any other its
            name without the ending.
        overrides: dotted key -> value of those overrides that make it another cell than the file's.
    """

    _file: str = PrivateAttr("recipe")
    _overrides: dict[str, Any] = PrivateAttr(default_factory=dict)

    @property
    def file(self) -> str:
        return self._file

    @property
    def overrides(self) -> dict[str, Any]:
        return dict(self._overrides)

    @property
    def name(self) -> str:
        """A folder's name for its runs. It is never read back: `file` and `overrides` say what it stands for."""
        words = [f"{key}={value}" for key, value in sorted(self._overrides.items())]
        return file_name(",".join([Path(self._file).name, *words]))

    @property
    def run_dir(self) -> Path:
        return Path(self.output_dir) if self.output_dir else Path("runs") / self.name / f"seed{self.seed}"

    def to_dict(self) -> dict[str, Any]:
        """All fields by section, defaults included, as JSON and YAML can hold them."""
        return self.model_dump(mode="json")

    def flat(self) -> dict[str, Any]:
        """All fields by dotted key, defaults included."""
        return flatten(self.to_dict())

    def differences(self, other: Recipe, *changes: Change) -> dict[str, tuple[Any, Any]]:
        """Fields with one of these effects whose values differ: dotted key -> (this recipe's value, the other's)."""
        ours, theirs = self.flat(), other.flat()
        return {
            key: (ours.get(key), theirs.get(key))
            for key in sorted({*ours, *theirs})
            if effect_of(key) in changes and ours.get(key) != theirs.get(key)
        }

    def replace(self, **values: Any) -> Recipe:
        """A copy with other values by dotted key: `recipe.replace(**{"training.max_steps": 5})`. Raises RecipeError."""
        return build_recipe(merge(self.to_dict(), nest(values)), self._file, self._overrides)

    def settled(self, bf16: bool | Literal["auto"]) -> Recipe:
        """The recipe with this value where it has `training.bf16: auto`, and in the same folder."""
        key = "training.bf16"
        if self.training.bf16 != "auto":
            return self
        if key not in self._overrides:
            return self.replace(**{key: bf16})
        # the folder keeps the name with `auto`, which is known before the measurement
        settled = self.replace(**{key: bf16, "output_dir": str(self.run_dir)})
        settled._overrides[key] = bf16
        return settled

    @property
    def hash(self) -> str:
        """
        16 hex digits over all fields that change anything. Recipes with the same hash compute the same.

        Raises:
            RecipeError: `training.bf16` is `auto`, which a run settles; so for `cell`.
        """
        return self._digest(lambda change: change != "nothing")

    @property
    def cell(self) -> str:
        """16 hex digits over the fields that change the result: the same for all seeds of one cell."""
        return self.cell_without()

    def cell_without(self, *keys: str) -> str:
        """The same without the fields of these dotted keys."""
        return self._digest(lambda change: change == "result", keys)

    @property
    def cell_key(self) -> tuple[str, str]:
        """What identifies a cell: the file and `cell`. A file that was edited between two runs makes two cells."""
        return self._file, self.cell

    def _digest(self, wanted: Callable[[Change], bool], without: Container[str] = ()) -> str:
        if self.training.bf16 == "auto" and "training.bf16" not in without:
            raise RecipeError("training.bf16=auto has no hash before a run has settled it", "training.bf16")
        content = {
            key: value
            for key, value in self.flat().items()
            if key not in without and wanted(effect_of(key)) and in_hashes(key, value)
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def build_recipe(
    sections: Mapping[str, Any], file: str = "recipe", overrides: Mapping[str, Any] | None = None
) -> Recipe:
    """
    A recipe from its sections as a file has them, `base` resolved. The model's fields and those passed through to the
    Trainer are not checked (see `hf_sysgen.config.check`).

    Raises:
        RecipeError: names the key.
    """
    try:
        recipe = Recipe.model_validate(dict(sections))
    except ValidationError as error:
        raise _explained(error, sections) from None
    recipe._file, recipe._overrides = file, dict(overrides or {})
    return recipe


def task_of(recipe: Recipe) -> str:
    """The task of the recipe's benchmark. Raises RecipeError: there is no such benchmark, or no such config of it."""
    key = "data.benchmark"
    try:
        info = benchmark_info(recipe.data.benchmark)
        key = "data.config"
        info.config(recipe.data.config)
    except UserError as error:
        raise RecipeError(f"{key}: {error}", key) from error
    return info.task


def last_word(key: str) -> str:
    """The field's own name of a dotted key."""
    return key.rpartition(".")[2]


def unknown_key(key: str, known: Iterable[str], meant: str | None = None) -> RecipeError:
    """Names the key that was probably meant, by default the one of `likeliest_key`."""
    meant = meant or likeliest_key(key, known)
    end = "." if meant is None else f", did you mean {meant!r}?"
    return RecipeError(f"unknown key {shorten(key)!r}{end}", key)


# what other packages call a field, where a field of ours that means something else is more like it
USUAL_NAMES = {
    "batch_size": "batches.size",
    "dataset": "data.benchmark",
    "lr": "training.learning_rate",
    "name": "data.benchmark",
    "steps": "training.max_steps",
}


def likeliest_key(key: str, known: Iterable[str]) -> str | None:
    """The same key in another section, or the one of its section most like it, or of any section; None if none is."""
    # only the fields' own names are compared, because the section may be wrong too
    word, known = last_word(key), list(known)
    section = key.rpartition(".")[0]
    if word in USUAL_NAMES and section in ("", "training", USUAL_NAMES[word].partition(".")[0]):
        return USUAL_NAMES[word]
    same = [one.key for one in FIELDS if last_word(one.key) == word and one.key != key]
    for keys in (same, known, [one.key for one in FIELDS]):
        by_word = {last_word(one): one for one in reversed(keys)}
        if (found := closest(word, by_word)) is not None:
            return by_word[found]
    return None


def _explained(error: ValidationError, sections: Mapping[str, Any]) -> RecipeError:
    """The first problem in one line that names the key and what would be right."""
    problems = error.errors(include_url=False)
    # an unknown key comes first, because it is often a missing key, misspelt
    first = min(problems, key=lambda one: one["type"] != "extra_forbidden")
    place = [str(one) for one in first["loc"]]
    if place and place[0] in KINDS and len(place) > 1:
        # pydantic puts the kind of a section into the place too
        del place[1]
    if (field := ".".join(place[:-1])) in BY_KEY and field not in SECTIONS and isinstance(first["loc"][-1], str):
        # pydantic also adds a type, if the value may have several
        del place[-1]
    key, kind, value = ".".join(place), first["type"], first["input"]
    if kind == "value_error" and "\n" in str(first["ctx"]["error"]):
        key, _, problem = str(first["ctx"]["error"]).partition("\n")
        return RecipeError(f"{key}: {problem}", key)
    if kind == "extra_forbidden":
        section = ".".join(place[:-1])
        known = [one.key for one in FIELDS if one.key.rpartition(".")[0] == section]
        known += [one for one in ("base", *SECTIONS) if "." not in one] if not section else []
        if section in KINDS:
            name = next(iter(KINDS[section]))
            chosen = dict(sections.get(section, {})).get(name)
            known = [one.key for one in FIELDS if one.key in known and one.kind == chosen]
            if key in BY_KEY:
                return RecipeError(
                    f"{key}={shorten(value)} has no effect under {section}.{name}={chosen}; remove it", key
                )
        return unknown_key(key, known)
    if kind == "missing":
        return RecipeError(f"{key} is missing", key)
    if kind == "union_tag_not_found":
        name = next(iter(KINDS[key]))
        known = [one.key for one in FIELDS if one.key.rpartition(".")[0] == key]
        # an unknown key comes first, as above
        for one in value if isinstance(value, Mapping) else ():
            if f"{key}.{one}" not in known:
                return unknown_key(f"{key}.{one}", known)
        return RecipeError(f"{key}.{name} is missing; one of {', '.join(KINDS[key][name])}", f"{key}.{name}")
    if kind == "bool_type" and key in BY_KEY and BY_KEY[key].choices:
        # the field accepts true, false and words
        return none_of(key, value, BY_KEY[key].type.split(" | "))
    if kind in ("literal_error", "union_tag_invalid"):
        if kind == "union_tag_invalid":
            name = next(iter(KINDS[key]))
            key, value, choices = f"{key}.{name}", first["ctx"]["tag"], list(KINDS[key][name])
        else:
            choices = [*map(str, BY_KEY[key].choices)] or [first["ctx"]["expected"]]
        return none_of(key, value, choices)
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return RecipeError(f"{key or 'recipe'}: expected a section with keys of its own, got {shorten(value)}", key)
    said = first["msg"].removeprefix("Value error, ")
    return RecipeError(f"{key}={shorten(value)}: {said[0].lower()}{said[1:]}", key)
