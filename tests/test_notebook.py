"""The notebook's cells, run one after the other as a reader would."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_runs import command

NOTEBOOK = Path(__file__).parent.parent / "docs" / "first_result.ipynb"
END = """
import json
print(json.dumps({" ".join(key): value for key, value in accuracy.items()}))
"""


@pytest.mark.slow
def test_it_leads_to_the_result(tmp_path: Path) -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert code[0].startswith("%pip install")
    done = command(["-c", "\n".join([*code[1:], END])], tmp_path, MPLBACKEND="agg")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert min(found["relative validation"], found["absolute validation"]) > 0.7
    assert found["relative test"] > 0.6 > 0.3 > found["absolute test"]
