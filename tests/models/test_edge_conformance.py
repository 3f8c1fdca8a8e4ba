"""transformers' own tests for every model, on the Edge Transformer's encoder and its heads over tokens."""

from __future__ import annotations

import re
from pathlib import Path

from edge_conformance_cases import LEFT_OUT
from test_conformance import SKIPPED_BY_TRANSFORMERS, run_suite, transformers_tests

# the fixture comes with its name
__all__ = ["transformers_tests"]

SKIPPED = {
    **SKIPPED_BY_TRANSFORMERS,
    r"ModelTester is not configured to run training tests": "they hand every class labels under one name; "
    "test_edge_models.py trains every class, with checkpointed activations too",
    r"Parts of this model don't support sdpa": "triangular attention has implementations of its own",
    r"No sequence-to-sequence language modeling head to check": "encoders",
    r"This model has no `base_model_class` defined in tester\.": "those tests are of decoders",
}


def test_conformance(transformers_tests: Path, tmp_path: Path) -> None:
    passed, skipped, failures = run_suite(
        "edge_transformer", transformers_tests, tmp_path, cases="edge_conformance_cases.py"
    )
    assert not failures, failures
    # 72 of transformers 5.23.0
    assert len(passed) >= 68, "the suite hardly ran"
    assert {name: skipped.pop(name, None) for name in LEFT_OUT} == LEFT_OUT
    unexpected = {
        name: reason
        for name, reason in skipped.items()
        if not any(re.fullmatch(pattern, reason) for pattern in SKIPPED)
    }
    assert not unexpected
