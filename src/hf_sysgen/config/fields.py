"""Derived from the declared fields of a recipe: their descriptions, the sections by name, and values by dotted key."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.sections import Change, Model, Note, Section, Sections


@dataclass(frozen=True)
class FieldNote:
    """
    A declared field.

    Attributes:
        key: dotted.
        type: in words.
        default: its default; `...` where it must be given.
        meaning: one or two sentences.
        changes, tasks: see [`Note`].
        choices: its values, where they are few words.
        kind: the value of the section's `sampling` or `type` under which it exists; None for all.
        added: see [`Note`].
    """

    key: str
    type: str
    default: Any
    meaning: str
    changes: Change
    tasks: tuple[str, ...]
    choices: tuple[str, ...] = ()
    kind: str | None = None
    added: bool = False


def _parts(section: type[Section], prefix: str = "") -> Iterator[tuple[str, FieldInfo, list[type[Section]]]]:
    """Dotted key and declaration of each field, and the sections that it may be; then what is in that section."""
    for name, info in section.model_fields.items():
        key, types = f"{prefix}{name}", (info.annotation, *get_args(info.annotation))
        inside = [one for one in types if isinstance(one, type) and issubclass(one, Section)]
        yield key, info, inside
        if len(inside) == 1:
            yield from _parts(inside[0], f"{key}.")


_PARTS = list(_parts(Sections))
# section with several kinds -> the field that names the kind -> its value -> the kind's class
KINDS: dict[str, dict[str, dict[str, type[Section]]]] = {
    key: {name: {get_args(one.model_fields[name].annotation)[0]: one for one in kinds}}
    for key, info, kinds in _PARTS
    if isinstance(name := info.discriminator, str)
}
SECTIONS: dict[str, str] = {
    key: f"{info.description} `{info.discriminator}` says which kind." if key in KINDS else inside[0].__doc__ or ""
    for key, info, inside in _PARTS
    if inside
}


def _declared() -> Iterator[FieldNote]:
    for key, info, inside in _PARTS:
        if key in KINDS:
            for name, kinds in KINDS[key].items():
                for value, kind in kinds.items():
                    for field, one in kind.model_fields.items():
                        meaning = kind.__doc__ if field == name else one.description
                        yield _field_note(f"{key}.{field}", one, meaning, value)
        elif not inside or "." in key:
            yield _field_note(key, info, info.description)


def _field_note(key: str, info: FieldInfo, meaning: str | None, kind: str | None = None) -> FieldNote:
    note = _note(info)
    default = info.get_default(call_default_factory=True) if not info.is_required() else ...
    types = (info.annotation, *get_args(info.annotation))
    choices = next((get_args(one) for one in types if get_origin(one) is Literal), ())
    words = " ".join((meaning or "").split())
    return FieldNote(key, _words(info.annotation), default, words, note.changes, note.tasks, choices, kind, note.added)


def _note(info: FieldInfo) -> Note:
    return next((one for one in info.metadata if isinstance(one, Note)), Note())


def _words(annotation: Any) -> str:
    """A type as a reader of a recipe calls it."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _words(arguments[0])
    if origin is Literal:
        return " | ".join(map(str, arguments))
    if origin is tuple:
        return f"list of {_words(arguments[0])}"
    if arguments:
        return " | ".join(_words(one) for one in arguments)
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return "section"
    names = {int: "integer", float: "number", bool: "true | false", str: "text", type(None): "null"}
    return names.get(annotation, str(annotation))


FIELDS: tuple[FieldNote, ...] = tuple(_declared())
# fields and sections that were added after the first runs were recorded -> their defaults
_ADDED: dict[str, Any] = {key: info.default for key, info, _ in _PARTS if _note(info).added} | {
    one.key: one.default for one in FIELDS if one.added
}
BY_KEY: dict[str, FieldNote] = {one.key: one for one in FIELDS}
# what other fields of a model's config or of Seq2SeqTrainingArguments change. The first pattern that fits counts;
# without one, the field changes the result
UNDECLARED: tuple[tuple[str, Change], ...] = (
    ("model.length_buckets", "rounding"),
    ("model.triangular_implementation", "rounding"),
    ("model.use_cache", "rounding"),
    ("training.torch_compile_*", "rounding"),
    ("training.ddp_*", "rounding"),
    ("training.fsdp*", "rounding"),
    ("training.deepspeed", "rounding"),
    ("training.parallelism_config", "rounding"),
    ("training.activation_checkpointing*", "rounding"),
    ("training.gradient_checkpointing_*", "rounding"),
    ("training.use_liger_kernel", "rounding"),
    ("training.liger_kernel_config", "rounding"),
    ("training.tf32", "rounding"),
    ("training.full_determinism", "rounding"),
    ("training.eval_on_start", "bits"),
    ("training.torch_empty_cache_steps", "nothing"),
    ("training.logging_*", "nothing"),
    ("training.log_*", "nothing"),
    ("training.include_num_input_tokens_seen", "nothing"),
    ("training.run_name", "nothing"),
    ("training.project", "nothing"),
    ("training.trackio_*", "nothing"),
    ("training.save_*", "nothing"),
    ("training.skip_memory_metrics", "nothing"),
)


def in_hashes(key: str, value: Any) -> bool:
    """Whether a field is part of hashes: not one that was added later, at its default."""
    return key not in _ADDED or value != _ADDED[key]


def effect_of(key: str) -> Change:
    """What another value of a dotted key changes (see [`Note`])."""
    if key in BY_KEY:
        return BY_KEY[key].changes
    return next((change for pattern, change in UNDECLARED if fnmatchcase(key, pattern)), "result")


# dotted keys


def flatten(sections: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Values by dotted key; a mapping that is the value of a model's field stays whole."""
    flat: dict[str, Any] = {}
    for key, value in sections.items():
        dotted = f"{prefix}{key}"
        if isinstance(value, Mapping) and dotted in SECTIONS:
            flat |= flatten(value, f"{dotted}.")
        else:
            flat[dotted] = value
    return flat


def nest(values: Mapping[str, Any]) -> dict[str, Any]:
    """Sections of values by dotted key."""
    sections: dict[str, Any] = {}
    for dotted, value in values.items():
        *folders, key = dotted.split(".")
        place = sections
        for folder in folders:
            inner = place.setdefault(folder, {})
            if not isinstance(inner, dict):
                raise RecipeError(f"{dotted}: is given beside a value of {folder}", dotted)
            place = inner
        if isinstance(value, Mapping) and isinstance(place.get(key), dict):
            place[key] = {**place[key], **value}
        else:
            place[key] = value
    return sections


def merge(
    base: Mapping[str, Any],
    changes: Mapping[str, Any],
    known_fields: Callable[[str], Container[str]] | None = None,
    prefix: str = "",
) -> dict[str, Any]:
    """
    Sections overridden by others, key by key. If a section changes its kind, it keeps only those fields of the base
    that the new kind has.

    Args:
        known_fields: names of the fields of a model type's config class; None keeps all fields of another type.
    """
    result = dict(base)
    for key, value in changes.items():
        dotted, old = f"{prefix}{key}", result.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping) and dotted in SECTIONS:
            for name, kinds in KINDS.get(dotted, {}).items():
                if (
                    value.get(name, old.get(name)) != old.get(name)
                    and (kind := kinds.get(str(value[name]))) is not None
                ):
                    old = {one: given for one, given in old.items() if one in kind.model_fields}
            if dotted == "model" and known_fields is not None and value.get("type", old.get("type")) != old.get("type"):
                fields = known_fields(value["type"])
                old = {one: given for one, given in old.items() if one in Model.model_fields or one in fields}
            value = merge(old, value, known_fields, f"{dotted}.")
        result[key] = value
    return result
