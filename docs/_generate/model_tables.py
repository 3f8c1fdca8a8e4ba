"""Models and their config fields, from the config classes."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

from kept import ROOT, shipped

from hf_sysgen.cli.listing import num_parameters, size_classes_text
from hf_sysgen.config.model_fields import from_data
from hf_sysgen.data import list_benchmarks
from hf_sysgen.hub.model_card import describe_model_type
from hf_sysgen.models import CONFIGS, MODELS
from hf_sysgen.tables import markdown
from hf_sysgen.training.tasks.registry import TASKS, has_needed

# "name, other: meaning" in a docstring; its next lines are indented more
ARGUMENT = re.compile(r"^    (\w+(?:, \w+)*): (.*(?:\n     .*)*)", re.MULTILINE)
SECTION = re.compile(r"^(?:Args|Attributes):\n((?:    .*\n|\n)*)", re.MULTILINE)
REFERENCE = re.compile(r"\[`(\w+)`\]")


def page_of(model_type: str) -> str:
    """The page in docs/models that shows a model's fields. Raises KeyError: there is none."""
    for path in sorted((ROOT / "docs" / "models").glob("*.md")):
        if f"<!-- table: family {family_of(model_type)} -->" in path.read_text(encoding="utf-8"):
            return path.name
    raise KeyError(model_type)


def models() -> str:
    """A row for each model type: its page, what it is, its size."""
    rows = [
        (
            f"[`{name}`]({page_of(name)}#{name})",
            describe_model_type(name),
            f"{num_parameters(config):,}",
        )
        for name, config in CONFIGS.items()
    ]
    return markdown(("model type", "what it is", "parameters by default"), rows, numbers=False)


def crossing() -> str:
    """For each model type: benchmarks with a shipped recipe, and others that it can be trained on."""
    recipes = {(one.model.type, one.data.benchmark) for one in shipped().values()}
    rows = []
    for name, config in CONFIGS.items():
        tasks = {task for task, needed, _ in TASKS if has_needed(config, needed)}
        cells = ["●" if (name, one.name) in recipes else "○" if one.task in tasks else "" for one in list_benchmarks()]
        rows.append((f"`{name}`", *cells))
    table = markdown(("", *(one.name for one in list_benchmarks())), rows, numbers=False)
    return f'<div class="matrix" markdown="1">\n\n{table}\n\n</div>'


def family_of(model_type: str) -> str:
    """Model types of one family have their configs in one file, which is named after the family."""
    return CONFIGS[model_type].__module__.rpartition(".configuration_")[2]


def family(name: str) -> str:
    """All model types of a family."""
    found = [model(one) for one in CONFIGS if family_of(one) == name]
    if not found:
        raise KeyError(name)
    return "\n\n".join(found)


def model(model_type: str) -> str:
    """A model type: the docstring of its config class, its size, its fields and its recipes."""
    config = CONFIGS[model_type]
    own = own_fields(config)
    rows = [(f"`{name}`", meaning, f"`{_text(default)}`") for name, (default, meaning) in own.items()]
    recipes = [name for name, recipe in shipped().items() if recipe.model.type == model_type]
    classes = ", ".join(f"`{one.__name__}`" for one in MODELS[config].values())
    parts = [
        f"## `{model_type}` {{ #{model_type} }}",
        _described(config),
        f"Config `{config.__name__}`; models {classes}. {num_parameters(config):,} parameters by default.",
        markdown(("field", "meaning", "default"), rows, numbers=False) if rows else "",
        _listed(recipes),
    ]
    return "\n\n".join(part for part in parts if part)


def own_fields(config: Any) -> dict[str, tuple[Any, str]]:
    """
    Fields of a config class that a recipe may give, with default and meaning. Of a subclass of another model's config,
    only the fields with another default.
    """
    parent = next((one for one in config.__mro__[1:] if one in MODELS), None)
    theirs = {} if parent is None else {field.name: field.default for field in dataclasses.fields(parent)}
    meanings: dict[str, str] = {}
    for one in config.__mro__:
        if one.__module__.startswith("hf_sysgen."):
            meanings = _arguments(one) | meanings
    found = {}
    for field in dataclasses.fields(config):
        default = field.default
        if field.name not in meanings or field.name in from_data(config) or theirs.get(field.name, ...) == default:
            continue
        found[field.name] = (default, meanings[field.name])
    return found


def _arguments(config: Any) -> dict[str, str]:
    """Argument -> meaning, from a docstring."""
    found: dict[str, str] = {}
    for section in SECTION.findall(inspect.cleandoc(vars(config).get("__doc__") or "") + "\n"):
        for names, meaning in ARGUMENT.findall(section):
            found |= dict.fromkeys(names.split(", "), _inline(" ".join(meaning.split())))
    return found


def _described(config: Any) -> str:
    """A docstring without its sections."""
    text = inspect.cleandoc(config.__doc__ or "")
    return _inline(re.split(r"^(?:Args|Attributes|Raises):$", text, maxsplit=1, flags=re.MULTILINE)[0].strip()).replace(
        "except:\n-", "except:\n\n-"
    )


def _inline(text: str) -> str:
    """References to classes as code; bars escaped, as a bar ends a cell."""
    return REFERENCE.sub(r"`\1`", text).replace("|", "\\|")


def _text(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _listed(recipes: list[str]) -> str:
    if not recipes:
        return "No recipe is shipped."
    names = "\n".join(f"- `recipes/{name}.yaml`" for name in recipes)
    return f'??? note "{len(recipes)} recipe{"s" * (len(recipes) > 1)}"\n\n' + _indented(names)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def size_classes() -> str:
    """The models of Table 1 of Petty et al. 2023."""
    return f"```text\n{size_classes_text()}\n```"


TABLES = (models, crossing, family, size_classes)
