"""transformers' own tests for every model, on depth-width decoders."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from depth_width_conformance_cases import FIELDS, LEFT_OUT
from test_conformance import SKIPPED_BY_TRANSFORMERS, run_suite, transformers_tests

# the fixture comes with its name
__all__ = ["transformers_tests"]

SKIPPED = {
    **SKIPPED_BY_TRANSFORMERS,
    r"No sequence-to-sequence language modeling head to check": "a decoder",
}


@pytest.mark.parametrize(
    "variant", [pytest.param(name, marks=[] if name == "rotary" else pytest.mark.slow) for name in FIELDS]
)
def test_conformance(variant: str, transformers_tests: Path, tmp_path: Path) -> None:
    passed, skipped, failures = run_suite(
        variant, transformers_tests, tmp_path, cases="depth_width_conformance_cases.py"
    )
    assert not failures, failures
    # 101 of transformers 5.23.0
    assert len(passed) >= 95, "the suite hardly ran"
    assert {name: skipped.pop(name, None) for name in LEFT_OUT} == LEFT_OUT
    unexpected = {
        name: reason
        for name, reason in skipped.items()
        if not any(re.fullmatch(pattern, reason) for pattern in SKIPPED)
    }
    assert not unexpected
