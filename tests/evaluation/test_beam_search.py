"""Beam search as in fairseq on known probabilities, and the maximum length of a translation."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, LogitsProcessor, LogitsProcessorList

import hf_sysgen.evaluation.translation as translation
from hf_sysgen.data.text.splits import TokenizedSplit
from hf_sysgen.evaluation.translation import fairseq_generation_kwargs
from hf_sysgen.models import UniversalTransformerConfig

A, B, C, EOS = 0, 1, 2, 3
# the tokens that can follow a prefix, and their probabilities
TREE = {(): {A: 0.5, B: 0.4}, (A,): {EOS: 0.5}, (B,): {C: 0.6}, (B, C): {EOS: 0.9}}


class Known(LogitsProcessor):
    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        known = torch.full_like(scores, -1e4)
        for row, ids in zip(known, input_ids.tolist(), strict=True):
            for token, probability in TREE.get(tuple(ids[1:]), {}).items():
                row[token] = math.log(probability)
        return known


@pytest.fixture(scope="module")
def model():
    config = UniversalTransformerConfig(
        vocab_size=17, source_vocab_size=19, hidden_size=6, num_attention_heads=2, intermediate_size=13,
        encoder_layers=1, decoder_layers=1, pad_token_id=EOS, eos_token_id=EOS, decoder_start_token_id=EOS,
    )  # fmt: skip
    return AutoModelForSeq2SeqLM.from_config(config).eval()


@pytest.mark.parametrize(("penalty", "words"), [(0.0, [A]), (0.1, [A]), (0.6, [B, C]), (1.0, [B, C]), (1.2, [B, C])])
def test_length_penalty(model, penalty, words):
    """Probabilities are 0.25 (2 tokens with EOS) and 0.216 (3 tokens). The score is sum log p / n ** penalty."""
    scores = {(A,): math.log(0.25) / 2**penalty, (B, C): math.log(0.216) / 3**penalty}
    assert max(scores, key=scores.__getitem__) == tuple(words)
    done = model.generate(
        torch.tensor([[4, 5, EOS]]), **fairseq_generation_kwargs(EOS, 2, penalty, 5), return_dict_in_generate=True,
        output_scores=True, logits_processor=LogitsProcessorList([Known()]),
    )  # fmt: skip
    assert done.sequences[0, 1:].tolist()[: len(words) + 1] == [*words, EOS]
    assert done.sequences_scores.item() == pytest.approx(scores[tuple(words)], rel=1e-5)


@pytest.mark.parametrize(
    ("brief", "most", "limit"),
    # the longest source has 7 tokens with EOS: int(1.2 * 7 + 10) = 18, and then EOS
    [(True, 200, 19), (True, 6, 6), (False, 200, 200)],
)
def test_how_long_a_translation_of_validation_may_be(model, monkeypatch, brief, most, limit):
    split = TokenizedSplit([[4, EOS], [4, 5, 6, 7, 8, 9, EOS]], [[A, EOS], [B, EOS]], pad_id=EOS)
    asked = []

    def generate(input_ids, max_new_tokens, **_):
        asked.append(max_new_tokens)
        return torch.full((len(input_ids), 2), EOS)

    monkeypatch.setattr(model, "generate", generate)
    monkeypatch.setattr(model.generation_config, "max_new_tokens", most)
    tokenizer = SimpleNamespace(eos_token_id=EOS, batch_decode=lambda rows: ["" for _ in rows])
    translation.evaluate_translations(model, split, tokenizer, ["a", "b"], np.arange(2), brief=brief)
    assert asked == [limit]
