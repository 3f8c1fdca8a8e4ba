"""transformers' own tests for every model, on depth-width decoders."""

from __future__ import annotations

from pathlib import Path

import pytest
from depth_width_conformance_cases import FIELDS, LEFT_OUT
from test_conformance import assert_conforms, generation_tests, model_tests, transformers_tests

# fixtures come with their names
__all__ = ["generation_tests", "model_tests", "transformers_tests"]

SKIPPED = {
    r"No sequence-to-sequence language modeling head to check": "a decoder",
    r"bos_token_id is None": "texts start without a mark",
}


@pytest.mark.slow
@pytest.mark.parametrize("variant", FIELDS)
def test_conformance(variant: str, transformers_tests: Path, tmp_path: Path) -> None:
    # 101 of transformers 5.23.0
    assert_conforms(
        variant, transformers_tests, tmp_path, at_least=95, left_out=LEFT_OUT, skipped_too=SKIPPED,
        cases="depth_width_conformance_cases",
    )  # fmt: skip
