"""transformers' own tests for every model, on the Edge Transformer with each of its heads, and on its baselines."""

from __future__ import annotations

from pathlib import Path

import pytest
from edge_conformance_cases import CASES, LEFT_OUT
from test_conformance import assert_conforms, transformers_tests

# the fixture comes with its name
__all__ = ["transformers_tests"]

SKIPPED = {
    r"ModelTester is not configured to run training tests": "they hand every class labels under one name; "
    "test_edge_models.py trains every class, with checkpointed activations too",
    r"Parts of this model don't support sdpa": "triangular attention has implementations of its own",
    r"This model doesn't use `inputs_embeds`": "graph attention needs to know which edges there are, not only states",
    r"No sequence-to-sequence language modeling head to check": "encoders",
    r"This model has no `base_model_class` defined in tester\.": "those tests are of decoders",
}


@pytest.mark.parametrize(
    "case", [case if case == "edge_transformer" else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)
def test_conformance(case: str, transformers_tests: Path, tmp_path: Path) -> None:
    # 65 and more of transformers 5.23.0
    assert_conforms(
        case, transformers_tests, tmp_path, at_least=62, left_out=LEFT_OUT.get(case, {}), skipped_too=SKIPPED,
        cases="edge_conformance_cases",
    )  # fmt: skip
