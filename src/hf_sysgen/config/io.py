"""Reading recipes: YAML 1.2, a file's `base`, dotted overrides; and writing them."""

from __future__ import annotations

import contextlib
import copy
import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from io import StringIO
from pathlib import Path
from typing import Any

from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.fields import effect_of, flatten, merge, nest
from hf_sysgen.config.recipe import Recipe, build_recipe, task_of
from hf_sysgen.config.sections import Paper
from hf_sysgen.errors import shorten

BASE = "base"
# limits of a YAML text: its characters, and its values, where an alias counts as all values that it repeats. Every
# recipe is far below them, and a text of this size is read in a second
LONGEST_TEXT, MOST_VALUES = 100_000, 20_000
# limit of brackets inside each other: the time to read them grows with the square of their number
DEEPEST = 100


def load_recipe(path: str | Path, overrides: Iterable[str] = ()) -> Recipe:
    """
    Read a recipe file and check all of it.

    Args:
        path: the YAML file, or the path of one of `shipped_recipes`, with or without the leading "recipes/".
        overrides: `dotted.key=value` texts, value in YAML, e.g. "training.max_steps=100". One that changes the result
            makes another cell: it joins the run's name, and the file's `paper` no longer holds, unless given too.

    Raises:
        RecipeError: the file cannot be read; a key is unknown, missing or of the wrong type; values contradict each
            other. One line, naming file and key.
    """
    path, given = find_shipped(path), parse_overrides(overrides)
    check_schema(path, given)
    return RecipeFile(path).recipe(given)


def check_schema(path: Path, overrides: Mapping[str, Any]) -> None:
    """Raises RecipeError for all that shows without the imports of `check_recipe`, which take seconds."""
    with add_path_to_errors(path):
        task_of(build_recipe(merge(_resolved(path), nest(overrides)), file_of(path)))


class RecipeFile:
    """
    A recipe file that is read once for several cells.

    Raises:
        RecipeError: as `load_recipe`.
    """

    def __init__(self, path: Path):
        from hf_sysgen.config.model_fields import known_fields

        self.path, self.file = path, file_of(path)
        with add_path_to_errors(path):
            self.sections = _resolved(path, known_fields)

    def recipe(self, overrides: Mapping[str, Any]) -> Recipe:
        """As `load_recipe`, of values by dotted key."""
        from hf_sysgen.config.check import check_recipe
        from hf_sysgen.config.model_fields import known_fields

        with add_path_to_errors(self.path):
            recipe = check_recipe(build_recipe(merge(self.sections, nest(overrides), known_fields), self.file))
            return _as_cell(recipe, self._original, overrides) if overrides else recipe

    @cached_property
    def _original(self) -> Recipe | None:
        """The recipe without overrides; None if the file alone is refused, since an override may correct it."""
        from hf_sysgen.config.check import check_recipe

        with contextlib.suppress(RecipeError):
            return check_recipe(build_recipe(self.sections, self.file))
        return None


def _as_cell(recipe: Recipe, original: Recipe | None, overrides: Mapping[str, Any]) -> Recipe:
    """
    The recipe with the overrides that make it another cell, to which the paper's numbers in the file do not apply.
    """
    from hf_sysgen.config.model_fields import flat_with_defaults

    ours, theirs = flat_with_defaults(recipe), flat_with_defaults(original) if original is not None else {}
    # in a section without keys all fields have their defaults
    empty = {key: value for key, value in overrides.items() if value == {}}
    given = flatten(nest(overrides)) | empty
    differing = [key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key)]
    # a section that is switched off has no fields of its own any more
    changed = [key for key in given if any(one == key or one.startswith(f"{key}.") for one in differing)]
    another = {key: empty.get(key, ours.get(key)) for key in changed if effect_of(key) == "result"}
    if not another:
        return recipe
    sections = recipe.to_dict()
    # `metric` stays: it is never null, and the run is measured in the same unit
    numbers = [name for name, info in Paper.model_fields.items() if info.default is None]
    sections["paper"] |= {name: None for name in numbers if f"paper.{name}" not in given}
    return build_recipe(sections, recipe.file, another)


def read_recipe(path: str | Path) -> Recipe:
    """
    The recipe of a file, without checking the fields of its model and those passed through to the Trainer: imports
    neither torch nor transformers.

    Raises:
        RecipeError: as `load_recipe`.
    """
    path = find_shipped(path)
    with add_path_to_errors(path):
        return build_recipe(_resolved(path), file_of(path))


def parse_recipe(sections: Mapping[str, Any], file: str = "recipe") -> Recipe:
    """A checked recipe of sections, e.g. of a record. Errors as `load_recipe`."""
    from hf_sysgen.config.check import check_recipe

    return check_recipe(build_recipe(sections, file))


@contextlib.contextmanager
def add_path_to_errors(path: Path) -> Iterator[None]:
    """Put the file's path before errors of its recipe."""
    try:
        yield
    except RecipeError as error:
        text = str(error)
        raise RecipeError(text if text.startswith(str(path)) else f"{path}: {text}", error.key) from error


def _resolved(path: Path, known_fields: Any = None, above: tuple[Path, ...] = ()) -> dict[str, Any]:
    """
    The sections of a file, merged over those of its `base`.

    Args:
        known_fields: returns the field names of a model type. If the file changes `model.type`, only fields of the new
            type are inherited. None inherits all, which `check_recipe` would refuse.
    """
    sections = read_yaml(path)
    require_sections(sections)
    if BASE not in sections:
        return sections
    name = sections.pop(BASE)
    if not isinstance(name, str):
        raise RecipeError(f"{BASE}: expected a file, got {shorten(name)}", BASE)
    try:
        base_path = (path.parent / name).resolve(strict=True)
    except (OSError, ValueError, RuntimeError) as error:
        # the other errors are for names that no file can have, and for circles of links
        raise RecipeError(f"{BASE}: there is no file {path.parent / name}", BASE) from error
    if base_path in (*above, path.resolve()):
        raise RecipeError(f"{BASE}: {name} starts from this file itself", BASE)
    base = _resolved(base_path, known_fields, (*above, path.resolve()))
    base.pop("paper", None)
    return merge(base, sections, known_fields)


def require_sections(sections: Mapping[str, Any]) -> None:
    """Raises RecipeError: this is a sweep, or a flat recipe of the first edition."""
    if "recipes" in sections:
        raise RecipeError("is a sweep; `hf-sysgen sweep FILE` runs it")
    if isinstance(sections.get("model"), str) and "benchmark" in sections:
        raise RecipeError("is a flat recipe of hf-sysgen 0.1; `hf-sysgen recipe migrate FILE` rewrites it in sections")


def find_shipped(path: str | Path, kind: str = "recipes") -> Path:
    """
    The path, or where it is not there that of `shipped_recipes`, with or without the leading "recipes/" and the ending.

    Args:
        kind: "recipes", "sweeps" or "accelerate" (files for `accelerate launch`), to suggest.

    Raises:
        RecipeError: no shipped file has this relative path either; it suggests the one most like it.
    """
    path = Path(path)
    if path.is_absolute() or path.exists():
        return path
    folder = shipped_recipes()
    name = path.relative_to("recipes" if path.parts[:1] == ("recipes",) else "").as_posix().removesuffix(".yaml")
    shipped = folder / f"{name}.yaml"
    if shipped.is_file():
        return shipped
    known = files_in(folder, {"sweeps": "*/sweeps/*.yaml", "accelerate": "accelerate/*.yaml"}.get(kind, "*/*.yaml"))
    # a name without a folder is compared with names
    by_name = {one if "/" in name else one.rpartition("/")[2]: one for one in known}
    found = difflib.get_close_matches(name, by_name, n=1)
    shown = (
        f"the package has {', '.join(known)}"
        if kind == "accelerate"
        else f"`hf-sysgen list {kind}` shows the shipped ones."
    )
    end = f", did you mean {by_name[found[0]]!r}?" if found else f"; {shown}"
    raise RecipeError(f"{path}: no such file{end}")


def file_of(path: Path) -> str:
    """What a recipe calls its file: folder and name of a shipped one, the name alone of any other, without ending."""
    with contextlib.suppress(ValueError):
        return path.resolve().relative_to(shipped_recipes().resolve()).with_suffix("").as_posix()
    return path.stem


def shipped_recipes() -> Path:
    """The folder of this package's recipes: at the top of a checkout, or in the installed package."""
    checkout = Path(__file__).resolve().parents[3] / "recipes"
    return checkout if checkout.is_dir() else Path(__file__).resolve().parents[1] / "recipes"


def shipped_files() -> dict[str, Path]:
    """
    The recipe files of this package by what recipes call them, e.g. "csordas2021/cogs_relative".

    Raises:
        RecipeError: there are none.
    """
    folder = shipped_recipes()
    if not (files := files_in(folder, "*/*.yaml")):
        raise RecipeError(f"{folder}: the package's recipes are not there; install hf-sysgen again, by pip")
    return files


def files_in(folder: Path, pattern: str) -> dict[str, Path]:
    """The files of a folder of recipes, by name; those for `accelerate launch` only where the pattern names them."""
    is_launch = pattern.startswith("accelerate/")
    paths = (path for path in sorted(folder.glob(pattern)) if is_launch or path.parent.name != "accelerate")
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in paths}


def read_yaml(path: Path, what: str = "recipe") -> dict[str, Any]:
    """
    The mapping in a YAML file.

    Raises:
        RecipeError: the file cannot be read, is not a mapping, or repeats a key.
    """
    try:
        with path.open(encoding="utf-8") as file:
            # the file may be endless, e.g. a device
            text = file.read(LONGEST_TEXT + 1)
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: is not UTF-8 text; save it in that encoding") from error
    # a name that no file can have is a ValueError
    except (OSError, ValueError) as error:
        raise RecipeError(f"{path}: cannot read the {what}: {shorten(error)}") from error
    keys = parse_yaml(text, str(path))
    if keys is None:
        raise RecipeError(f"{path}: is empty; write a {what} in it, `hf-sysgen list {what}s` shows examples")
    if not isinstance(keys, dict):
        raise RecipeError(f"{path}: a {what} is a mapping of keys to values, this is {shorten(keys)}")
    for key in _keys(keys):
        if not isinstance(key, str):
            raise RecipeError(f"{path}: key {shorten(key)} must be text")
    return keys


def _keys(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value
        for inner in value.values():
            yield from _keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner)


def parse_yaml(text: str, where: str) -> Any:
    """The value of a YAML 1.2 text. Raises RecipeError."""
    # the runs of a sweep and the records of a report read the same texts many times
    return copy.deepcopy(_parsed_yaml(text, where))


@lru_cache(maxsize=512)
def _parsed_yaml(text: str, where: str) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    if len(text) > LONGEST_TEXT:
        raise RecipeError(f"{where}: is longer than {LONGEST_TEXT:,} characters, which no recipe needs")
    too_deep = f"{where}: is nested too deep, or an alias contains itself"
    try:
        if _brackets(text) > DEEPEST:
            raise RecipeError(too_deep)
        # only aliases, which begin with `*`, repeat values
        if "*" in text and _values(YAML(typ="safe", pure=True).compose(text), {}) > MOST_VALUES:
            raise RecipeError(f"{where}: its aliases make more than {MOST_VALUES:,} values, which no recipe needs")
        return YAML(typ="safe", pure=True).load(text)
    except RecursionError as error:
        raise RecipeError(too_deep) from error
    # ruamel raises the last three, for tags that do not fit their values
    except (YAMLError, ValueError, AttributeError, LookupError, TypeError) as error:
        if isinstance(error, RecipeError):
            raise
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark else ""
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        # ruamel adds the values, but shows a mapping or a list as an empty one
        problem = re.sub(r"^found duplicate key (.+?) with value .*", r"\1 is given twice, give it once", problem)
        raise RecipeError(f"{where}: not YAML{line}: {problem}") from error


def _brackets(text: str) -> int:
    """How many brackets of a YAML text are inside each other; it is not read on beyond the limit."""
    from ruamel.yaml import YAML, tokens

    depth = deepest = 0
    # most texts have fewer brackets than the limit and need no second reading
    if text.count("[") + text.count("{") > DEEPEST:
        for token in YAML(typ="safe", pure=True).scan(text):
            depth += isinstance(token, (tokens.FlowMappingStartToken, tokens.FlowSequenceStartToken))
            depth -= isinstance(token, (tokens.FlowMappingEndToken, tokens.FlowSequenceEndToken))
            deepest = max(deepest, depth)
            if deepest > DEEPEST:
                break
    return deepest


def _values(node: Any, known: dict[int, int]) -> int:
    """Values in a node, each as often as aliases name it. Raises RecursionError: it contains itself."""
    if id(node) not in known:
        inner = node.value if node is not None and not isinstance(node.value, str) else ()
        parts = (one for entry in inner for one in (entry if isinstance(entry, tuple) else (entry,)))
        known[id(node)] = 1 + sum(_values(one, known) for one in parts)
    return known[id(node)]


def parse_overrides(overrides: Iterable[str]) -> dict[str, Any]:
    """
    Parse `dotted.key=value` texts; values are YAML. Of a key given twice the last value counts, so that scripts can put
    their caller's behind their own. Raises RecipeError for any other text.
    """
    given: dict[str, Any] = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not all(key.split(".")):
            raise RecipeError(f"{shorten(override)!r}: an override is key=value, e.g. training.max_steps=100")
        if key == BASE:
            raise RecipeError(f"{shorten(override)}: {BASE} stands in a file; give that file instead of this one", BASE)
        given[key] = parse_yaml(value, repr(shorten(override)))
    return given


def write_override(key: str, value: Any) -> str:
    """The `key=value` that `parse_overrides` reads as this key and value."""
    if isinstance(value, str):
        # a text that is no YAML, or another value, needs quotes
        with contextlib.suppress(RecipeError):
            if parse_overrides([f"x={value}"])["x"] == value:
                return f"{key}={value}"
    # YAML does not join the two halves by which JSON escapes a character beyond U+FFFF
    return f"{key}={json.dumps(value, ensure_ascii=False)}"


def dump_recipe(recipe: Recipe) -> str:
    """The recipe as YAML, every field with its value: what a run's folder keeps."""
    from ruamel.yaml import YAML

    yaml: Any = YAML(typ="safe", pure=True)
    stream = StringIO()
    yaml.default_flow_style, yaml.width, yaml.sort_base_mapping_type_on_output = False, 120, False
    yaml.dump(recipe.to_dict(), stream)
    return stream.getvalue()
