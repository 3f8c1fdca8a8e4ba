"""What other packages' tools do with every model, from the outcomes of their tests in perf/compat.json."""

from __future__ import annotations

import json
from typing import Any

from kept import ROOT

from hf_sysgen.tables import markdown

MARKS = {"passed": "yes", "failed": "no", "skipped": "-"}


def _record() -> dict[str, Any]:
    return json.loads((ROOT / "perf" / "compat.json").read_text(encoding="utf-8"))


def compatibility(tool: str) -> str:
    """The checks of one tool: a column each, a row for each model; a cell without a test is empty."""
    record = _record()
    cells = {(cell["check"], cell["model"]): cell for cell in record["cells"] if cell["tool"] == tool}
    checks, models = (list(dict.fromkeys(key[axis] for key in cells)) for axis in (0, 1))
    rows = [
        (model, *(MARKS[cells[check, model]["outcome"]] if (check, model) in cells else "" for check in checks))
        for model in models
    ]
    return f"Version {record['versions'][tool]}.\n\n" + markdown(["model", *checks], rows)


TABLES = (compatibility,)
