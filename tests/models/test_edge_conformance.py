"""transformers' own tests for every model, on the Edge Transformer with each of its heads, and on its baselines."""

from __future__ import annotations

from pathlib import Path

import pytest
import transformers
from edge_conformance_cases import CASES, WRITING, left_out
from test_conformance import assert_conforms, generation_tests, model_tests, transformers_tests

# fixtures come with their names
__all__ = ["generation_tests", "model_tests", "transformers_tests"]

SKIPPED = {
    r"ModelTester is not configured to run training tests": "they hand every class labels under one name; "
    "test_edge_models.py trains every class, with checkpointed activations too",
    r"Parts of this model don't support sdpa": "triangular attention has implementations of its own",
    r"This model doesn't use `inputs_embeds`": "graph attention needs to know which edges there are, not only states",
    r"No sequence-to-sequence language modeling head to check": "encoders",
    r"This model does(n't| not) support (the static cache format|compilation without graph breaks)": "a cache of edges "
    "grows with every word",
    r"This model doesn't support padding\.": "the target is padded on the right: test_edge_models.py",
    r"This model has no `base_model_class` defined in tester\.": "those tests are of decoders",
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_conformance(case: str, transformers_tests: Path, tmp_path: Path) -> None:
    generation = transformers_tests.name != transformers.__version__ and case in WRITING
    # 65 and more of transformers 5.23.0
    assert_conforms(
        case, transformers_tests, tmp_path, at_least=62, left_out=left_out(case, generation), skipped_too=SKIPPED,
        cases="edge_conformance_cases",
    )  # fmt: skip
