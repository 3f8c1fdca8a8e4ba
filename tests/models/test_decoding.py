"""Rows that need fewer steps leave the evaluation's greedy decoding, and the others do not notice."""

from __future__ import annotations

import pytest
import torch
from depth_width_tiny import VARIANTS, ragged_mask, random_ids, tiny_decoder
from edge_tiny import WRITERS, edge_batch, tiny_edge
from tiny import WRAPPED, ragged_batch, tiny_model

from hf_sysgen.evaluation.decoding import greedy_decode

STEPS = 13
LENGTHS = [13, 8, 8, 4, 3]
# a model, and a batch that its encoder or its prompt is made of
MODELS = {
    **{name: lambda name=name: (model := tiny_model(name), ragged_batch(model.config)) for name in WRAPPED},
    **{
        f"decoder, {name}": lambda name=name: (
            tiny_decoder(name),
            {"input_ids": random_ids(), "attention_mask": ragged_mask("right")},
        )
        for name in VARIANTS
    },
    **{name: lambda name=name: (tiny_edge(name), edge_batch(name, labels=False)) for name in WRITERS},
}


@pytest.fixture(params=MODELS)
def model_and_source(request):
    model, batch = MODELS[request.param]()
    return model, {name: batch[name] for name in ("input_ids", "attention_mask")}


@pytest.mark.parametrize("num_given", [0, 2])
def test_rows_that_end_early_leave(model_and_source, num_given):
    model, source = model_and_source
    lengths = LENGTHS[: len(source["input_ids"])]
    seen: list[int] = []
    handle = model.register_forward_hook(lambda _, __, output: seen.append(len(output.logits)))
    whole_ids, whole_logits = greedy_decode(model, **source, num_steps=STEPS)
    given = whole_ids[:, :num_given] if num_given else None
    seen.clear()
    ids, logits = greedy_decode(model, **source, num_steps=STEPS, prefix=given, lengths=lengths)
    handle.remove()
    assert seen == [sum(length > step for length in lengths) for step in range(num_given, max(lengths))]
    assert ids.shape == whole_ids.shape
    assert logits.shape == whole_logits.shape
    for row, length in enumerate(lengths):
        assert torch.equal(ids[row, :length], whole_ids[row, :length])
        torch.testing.assert_close(logits[row, :length], whole_logits[row, :length], rtol=0, atol=1e-12)
        assert not ids[row, length:].any()
        assert not logits[row, length:].any()


@pytest.mark.parametrize(
    "lengths",
    [[3, 4, 13, 4, 4], [14, 3, 3, 3, 3], [12, 3, 3, 3, 3], [13, 9, 9, 9, 2], [13, 3, 3, 3], [13, 3, 3, 3, 3, 3]],
    ids=str,
)
def test_lengths_that_are_no_lengths(lengths):
    model = tiny_model("sysgen_transformer")
    batch = ragged_batch(model.config)
    source = {name: batch[name] for name in ("input_ids", "attention_mask")}
    given = torch.zeros(5, 2, dtype=torch.long)
    message = "lengths of 5 rows must fall from num_steps=13 to more than the 2 given tokens"
    with pytest.raises(ValueError, match=message):
        greedy_decode(model, **source, num_steps=STEPS, prefix=given, lengths=lengths)
