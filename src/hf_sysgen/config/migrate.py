"""Recipes of the first edition, one flat mapping, rewritten in sections."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hf_sysgen.config.errors import RecipeError, none_of
from hf_sysgen.config.fields import FIELDS, KINDS, SECTIONS, nest
from hf_sysgen.config.io import parse_yaml
from hf_sysgen.errors import shorten
from hf_sysgen.files import read_whole, write_atomic

# old key -> dotted key; other keys without a rule below are fields of the model
KEYS = {
    "model": "model.type",
    "pretrained": "model.pretrained",
    "size_class": "model.size_class",
    "attention": "model.attn_implementation",
    "benchmark": "data.benchmark",
    "config": "data.config",
    "data_dir": "data.data_dir",
    "tokens": "data.tokenization",
    "subwords": "data.subwords",
    "joint_vocabulary": "data.joint_vocabulary",
    "source_start": "data.source_start",
    "role_scheme": "data.role_scheme",
    "train_eos": "data.train_eos",
    "tokenizer": "data.tokenizer",
    "context_length": "data.context_length",
    "streams": "data.streams",
    "validation_examples": "data.validation_examples",
    "sampling": "batches.sampling",
    "batch_size": "batches.size",
    "length_groups": "batches.length_buckets",
    "max_tokens": "batches.max_tokens",
    "batches_per_update": "batches.per_update",
    "resample": "batches.resample",
    "epochs": "batches.epochs",
    "steps": "training.max_steps",
    "learning_rate": "training.learning_rate",
    "optimizer": "training.optim",
    "momentum": "training.optim_args",
    "adam_beta1": "training.adam_beta1",
    "adam_beta2": "training.adam_beta2",
    "adam_epsilon": "training.adam_epsilon",
    "weight_decay": "training.weight_decay",
    "max_grad_norm": "training.max_grad_norm",
    "label_smoothing": "training.label_smoothing_factor",
    "precision": "training.bf16",
    "torch_compile": "training.torch_compile",
    "gradient_checkpointing": "training.gradient_checkpointing",
    "eval_every": "training.eval_steps",
    "save_every": "training.save_steps",
    "kept_steps": "training.kept_steps",
    "log_every": "training.logging_steps",
    "tracker": "training.report_to",
    "schedule": "schedule.type",
    "warmup_steps": "schedule.warmup_steps",
    "warmup_init_lr": "schedule.warmup_init_lr",
    "eval_batch_size": "evaluation.batch_size",
    "eval_examples": "evaluation.examples",
    "sample_losses": "evaluation.save_example_losses",
    "beams": "evaluation.num_beams",
    "length_penalty": "evaluation.length_penalty",
    "early_stopping": "evaluation.early_stopping.metric",
    "early_stopping_patience": "evaluation.early_stopping.patience",
    "paper_cell": "paper.cell",
    "paper_metric": "paper.metric",
    "paper_test": "paper.test",
    "paper_validation": "paper.validation",
    "seed": "seed",
    "output_dir": "output_dir",
}
OPTIMIZERS = {"adam": "adamw_torch_fused", "nesterov": "sgd"}


def migrate_keys(flat: Mapping[str, Any]) -> dict[str, Any]:
    """
    The sections of a whole flat recipe, as a file or a record of version 1 has it. Keys without effect are left out.

    Raises:
        RecipeError: `static_batches` is true, which is no longer offered.
    """
    return nest(migrated_values(flat, whole=True))


def migrated_values(flat: Mapping[str, Any], whole: bool = False) -> dict[str, Any]:
    """
    Values by dotted key of some keys of a flat recipe.

    Args:
        whole: whether these are all keys, so that those left out have the first edition's defaults.

    Raises:
        RecipeError: as `migrate_keys`.
    """
    if flat.get("static_batches"):
        raise RecipeError(
            "static_batches=true is no longer offered; leave it out, or on a GPU give training.torch_compile=true and "
            "training.torch_compile_mode=reduce-overhead",
            "static_batches",
        )
    given = {key: value for key, value in flat.items() if key != "static_batches"}
    if whole:
        given = {"sampling": "with_replacement", **given}
    values: dict[str, Any] = {}
    for key, value in given.items():
        values |= _migrated(key, value, given)
    for section, kinds in KINDS.items():
        ((name, by_value),) = kinds.items()
        kind = by_value.get(values.get(f"{section}.{name}", ""))
        if kind is not None:
            # fields that this kind does not have were at their defaults
            values = {
                key: value
                for key, value in values.items()
                if not key.startswith(f"{section}.") or key.partition(".")[2] in kind.model_fields
            }
    if whole and values.get("evaluation.early_stopping", "") is None:
        values = {key: value for key, value in values.items() if not key.startswith("evaluation.early_stopping.")}
    return values


def _migrated(key: str, value: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    if key not in KEYS:
        return {f"model.{key}": value}
    dotted = KEYS[key]
    if key == "optimizer":
        if value not in OPTIMIZERS:
            raise none_of(key, value, OPTIMIZERS)
        return {dotted: OPTIMIZERS[value]}
    if key == "momentum":
        # Adam's runs have 0 here
        return {dotted: f"momentum={value},nesterov=true"} if value else {}
    if key == "precision":
        return {f"training.{name}": value == name for name in ("bf16", "fp16") if value in (name, "fp32")}
    if key == "eval_every":
        return {dotted: value or None}
    if key == "early_stopping" and value == "none":
        return {"evaluation.early_stopping": None}
    if key == "warmup_steps" and given.get("schedule") == "constant":
        return {}
    return {dotted: value}


# a line `key: value  # comment` of a flat file, with lines that continue its value
LINE = re.compile(r"""^(?P<quote>["']?)(?P<key>[a-z_0-9]+)(?P=quote):\s*(?P<rest>.*)$""")


def migrate_text(text: str, where: str = "recipe") -> str:
    """
    A flat recipe's file in sections; comments stay with their keys, those of the head stay in front.

    Raises:
        RecipeError: it is no flat recipe, or as `migrate_keys`.
    """
    flat = parse_yaml(text, where)
    if not isinstance(flat, dict) or not isinstance(flat.get("model"), str):
        raise RecipeError(f"{where}: is no flat recipe of hf-sysgen 0.1, nothing to migrate")
    head, entries = _entries(text)
    lines_of: dict[str, list[str]] = {}
    for entry in entries:
        for dotted, value in _migrated_entry(entry.key, flat).items():
            lines_of[dotted] = entry.lines(dotted, value, flat[entry.key])
    order = [*(one for one in SECTIONS if "." not in one), "seed", "output_dir"]
    values = migrated_values(flat, whole=True)
    for dotted in values:
        lines_of.setdefault(dotted, [f"{dotted.rpartition('.')[2]}: {scalar(values[dotted])}"])
    body: list[str] = []
    for section in order:
        if section in values:
            body += lines_of[section]
            continue
        keys = [one for one in values if one.startswith(f"{section}.")]
        if not keys:
            continue
        body.append(f"{section}:")
        body += _section_lines(section, keys, lines_of)
    return "\n".join([*head, *body]) + "\n"


def _section_lines(section: str, keys: list[str], lines_of: Mapping[str, list[str]]) -> list[str]:
    declared = [one.key for one in FIELDS]
    # fields of the model stay in the order of the file, behind the declared ones
    keys = sorted(keys, key=lambda key: declared.index(key) if key in declared else len(declared))
    lines: list[str] = []
    inner = f"{section}.early_stopping."
    for key in keys:
        if key.startswith(inner):
            if f"{inner[:-1]}:" not in lines:
                lines.append(f"{inner[:-1]}:")
            lines += [f"  {line}" for line in lines_of[key]]
        else:
            lines += lines_of[key]
    lines = [line.replace(f"{inner[:-1]}:", "early_stopping:") for line in lines]
    return [f"  {line}" if line else line for line in lines]


class _Entry:
    """A key of a flat file with the lines that its value takes, and the comment lines before it."""

    def __init__(self, key: str, above: list[str], texts: list[str]):
        self.key, self.above, self.texts = key, above, texts

    def lines(self, dotted: str, value: Any, old: Any) -> list[str]:
        name = dotted.rpartition(".")[2]
        first, *more = self.texts
        if value == old:
            text, comment = _split_comment(first)
        else:
            _, comment = _split_comment(" ".join([first, *more]))
            text, more = scalar(value), []
        line = f"{name}: {text}"
        # comments of a section stand below each other
        column = max(len(line) + 2, 37 - 2 * dotted.count("."))
        return [*self.above, line.ljust(column) + comment if comment else line, *more]


def _migrated_entry(key: str, flat: Mapping[str, Any]) -> dict[str, Any]:
    values = migrated_values(flat, whole=True)
    return {dotted: value for dotted, value in _migrated(key, flat[key], flat).items() if dotted in values}


def _entries(text: str) -> tuple[list[str], list[_Entry]]:
    """The comment lines in front, and the keys in the order of the file."""
    head: list[str] = []
    entries: list[_Entry] = []
    above: list[str] = []
    # not at every line break of Unicode: values may have some
    for line in re.split(r"\r?\n", text.rstrip("\r\n")):
        if (found := LINE.match(line)) is not None:
            entries.append(_Entry(found["key"], above, [found["rest"]]))
            above = []
        elif line.startswith("#") or not line.strip():
            (above if entries else head).append(line)
        elif entries:
            entries[-1].texts.append(line)
    return head, entries


def _split_comment(text: str) -> tuple[str, str]:
    """The value and the comment behind it."""
    found = re.match(r"""^((?:"[^"]*"|'[^']*'|[^#"']|(?<!\s)#)*?)\s*((?:(?<=\s)#.*)?)$""", text)
    return (found[1].strip(), found[2]) if found else (text.strip(), "")


def scalar(value: Any) -> str:
    """A value as YAML writes it in one line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z_][\w./ =,-]*", value) and parse_yaml(value, "value") == value:
        return value
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return f"[{', '.join(scalar(one) for one in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {scalar(one)}" for key, one in value.items()) + "}"
    return str(value)


def migrate_sweep_text(text: str, where: str = "sweep") -> str:
    """
    A sweep file of the first edition with dotted keys; nothing else changes.

    Raises:
        RecipeError: a key has other values now; that sweep is to be written anew. Or it has dotted keys already, or is
            no sweep.
    """
    sweep = parse_yaml(text, where)
    axes, cells = sweep.get("axes") or {}, sweep.get("cells") or []
    if not isinstance(axes, dict) or not isinstance(cells, list) or not all(isinstance(one, dict) for one in cells):
        raise RecipeError(f"{where}: `axes` must be values by key, `cells` a list of values by key")
    keys = {key for one in (axes, *cells) for key in one}
    if any("." in str(key) for key in keys):
        raise RecipeError(f"{where}: has dotted keys already, there is nothing to migrate")
    for key in keys:
        if key in ("optimizer", "momentum", "precision", "eval_every", "early_stopping", "static_batches"):
            raise RecipeError(f"{where}: {key} has other values now, write {KEYS.get(key)} by hand", key)
        dotted = KEYS.get(key, f"model.{key}")
        text = re.sub(rf"(?m)(^  |[{{,]\s*|^  - ){re.escape(key)}:", rf"\g<1>{dotted}:", text)
    return text


def migrate_file(path: Path) -> None:
    """Rewrite a recipe or a sweep. Errors as `migrate_text`; the file stays as it is then."""
    try:
        text = read_whole(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: cannot read it: {shorten(error)}") from error
    is_sweep = re.search(r"(?m)^recipes:", text) is not None
    write_atomic(path, (migrate_sweep_text if is_sweep else migrate_text)(text, str(path)))
