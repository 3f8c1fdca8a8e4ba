"""What other packages' tools do with every model, from the outcomes of their tests in perf/compat.json."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

from kept import ROOT, read_perf
from leaderboard import switches

from hf_sysgen.tables import markdown

# where the tests' small models are
sys.path.append(str(ROOT / "tests" / "models"))
import depth_width_tiny
import edge_tiny

MARKS = {"passed": "yes", "failed": "no", "skipped": "-"}


def _model(name: str) -> tuple[str, str, str]:
    """The model type that a test's name stands for, the head, and fields of the config."""
    if name in edge_tiny.MODELS:
        model, config, values = edge_tiny.MODELS[name]
    elif name in depth_width_tiny.VARIANTS:
        model, config = depth_width_tiny.DepthWidthForCausalLM, depth_width_tiny.DepthWidthConfig
        values = depth_width_tiny.VARIANTS[name]
    else:
        return f"`{name}`", "", ""
    head = re.sub("(?<=[a-z])(?=[A-Z])", " ", model.__name__.partition("For")[2]).lower() or "no head"
    fields = (f"`{key}={value}`" for key, value in sorted(switches(config, values).items()))
    return f"`{config.model_type}`", head, ", ".join(fields)


def _labels(names: Iterable[str]) -> dict[str, str]:
    """Test's name -> model type, with head or fields where only these tell its rows apart."""
    parts = {name: _model(name) for name in names}
    labels = {name: model for name, (model, _, _) in parts.items()}
    for part in (1, 2):
        alike: dict[str, set[str]] = {}
        for name, label in labels.items():
            alike.setdefault(label, set()).add(parts[name][part])
        labels = {
            name: ", ".join(filter(None, [label, parts[name][part] if len(alike[label]) > 1 else ""]))
            for name, label in labels.items()
        }
    return labels


def compatibility(tool: str) -> str:
    """The checks of one tool: a column each, a row for each model; a cell without a test is empty."""
    record = read_perf("compat")
    cells = {(cell["check"], cell["model"]): cell for cell in record["cells"] if cell["tool"] == tool}
    checks, models = (list(dict.fromkeys(key[axis] for key in cells)) for axis in (0, 1))
    labels = _labels(models)
    rows = [
        (labels[model], *(MARKS[cells[check, model]["outcome"]] if (check, model) in cells else "" for check in checks))
        for model in models
    ]
    return f"Version {record['versions'][tool]}.\n\n" + markdown(["model", *checks], rows)


TABLES = (compatibility,)
