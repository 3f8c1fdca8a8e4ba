"""
Tests that run others' tools on every model. Those of packages that this one does not need are collected by `make
test-compat` only, which lifts the default `-m`, because their imports take long.

A test file names its tool by `TOOL`, the package; the first line of a test's docstring says what is checked, its
parameter `name` on which model. With `--compat-json FILE` the outcomes are written for docs/compatibility.md.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

# tests of packages that are always there
ALWAYS = ("test_torch.py", "test_transformers.py")
CELLS = pytest.StashKey[list[dict[str, Any]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--compat-json", type=Path, help="where the outcomes of the tests of other tools go")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[CELLS] = []


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    is_test = collection_path.name.startswith("test_")
    return True if is_test and collection_path.name not in ALWAYS and "not compat" in config.option.markexpr else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and item.path.name not in ALWAYS:
            item.add_marker(pytest.mark.compat)
            # of others' code
            item.add_marker(pytest.mark.filterwarnings("ignore"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    report = yield
    if report.when == "call" or report.outcome != "passed":
        tool = getattr(item.module, "TOOL", None)
        params = getattr(getattr(item, "callspec", None), "params", {})
        if tool and "name" in params and report.when != "teardown":
            about = (item.obj.__doc__ or item.name).strip().splitlines()[0].rstrip(".")
            missing = getattr(report, "wasxfail", None)
            outcome = report.outcome if missing is None else "failed"
            reason = report.longrepr[2] if outcome == "skipped" else missing or ""
            cell = {"tool": tool, "check": about, "model": params["name"], "outcome": outcome, "reason": reason}
            item.config.stash[CELLS].append(cell)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Writes the outcomes; those of tests that did not run stay as they were."""
    path, cells = session.config.getoption("compat_json"), session.config.stash[CELLS]
    if not path or not cells:
        return
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"versions": {}, "cells": []}
    found = {(cell["tool"], cell["check"], cell["model"]): cell for cell in (*kept["cells"], *cells)}
    tools = {cell["tool"] for cell in cells} | {"torch", "transformers"}
    versions = kept["versions"] | {tool: version(tool) for tool in sorted(tools)}
    path.write_text(json.dumps({"versions": versions, "cells": list(found.values())}, indent=1) + "\n")
