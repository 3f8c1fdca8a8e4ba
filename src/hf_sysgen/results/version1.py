"""Records of version 1, with a flat recipe and a comma-joined name of the run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hf_sysgen.config.io import read_recipe, shipped_files
from hf_sysgen.config.migrate import migrate_keys, migrated_values
from hf_sysgen.config.recipe import Recipe, build_recipe
from hf_sysgen.errors import UserError, shorten
from hf_sysgen.results.record import SCHEMA_VERSION, LogEntry

# longer names end in a hash
LONGEST_NAME = 160
TYPES = {"name": str, "recipe": dict, "splits": dict, "history": list, "versions": dict}


def from_version1(old: Mapping[str, Any]) -> dict[str, Any]:
    """
    A record of version 1 as one of version 2; its values are not checked yet.

    Raises:
        UserError: a key that is needed here is missing or of another type. RecipeError: the recipe cannot be
            migrated.
    """
    for key, kind in TYPES.items():
        if not isinstance(old.get(key), kind):
            raise UserError(
                f"{key}: is {shorten(old[key], quoted=True) if key in old else 'missing'}, not a {kind.__name__}"
            )
    for index, entry in enumerate(old["history"]):
        if not isinstance(entry, dict):
            raise UserError(f"history.{index}: is {shorten(entry, quoted=True)}, not an object")
    try:
        sections = migrate_keys(old["recipe"])
        recipe = build_recipe(sections)
        overrides = _overrides(old["name"], old["recipe"], recipe)
    except (LookupError, TypeError, AttributeError) as error:
        raise UserError(f"recipe: is not a recipe of version 1 ({shorten(error)})") from error
    kept = ("seed", "steps", "best_step", "num_parameters", "example", "train_seconds", "num_processes")
    entries = [LogEntry.of(entry, old["splits"]) for entry in old["history"]]
    return {
        "schema_version": SCHEMA_VERSION,
        "file": _file(old["name"]),
        "overrides": overrides,
        "recipe": recipe.to_dict(),
        "recipe_hash": recipe.hash,
        "pretrained_fields": old.get("pretrained_fields", {}),
        "splits": old["splits"],
        "history": [entry.model_dump(mode="json", exclude_unset=True) for entry in entries],
        # version 1 kept only the last start of a resumed run, without its update
        "starts": [{"commit": old.get("git_commit"), "versions": old["versions"], "step": None}],
        "environment": {key: old[key] for key in ("device", "num_threads") if key in old},
        **{key: old[key] for key in kept if key in old},
    }


def _file(name: str) -> str:
    stem = name.partition(",")[0]
    return next((file for file in shipped_files() if Path(file).name == stem), stem)


def _overrides(name: str, flat: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    """
    The overrides in the name of a run. The name gives the keys; values come from the recipe, because a name has no
    slashes. If the name was cut short, the overrides are the differences from the shipped file.
    """
    file, files = _file(name), shipped_files()
    if len(name) >= LONGEST_NAME - 1 and file in files:
        changed = recipe.differences(read_recipe(files[file]), "result")
        return {key: ours for key, (ours, _) in changed.items()}
    words = (word.partition("=") for word in name.split(",")[1:] if "=" in word)
    return migrated_values({key: flat.get(key, text) for key, _, text in words})
