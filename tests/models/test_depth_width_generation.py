"""Caches, beams, padding and recorded outputs of depth-width decoders change nothing that they should not."""

from __future__ import annotations

import functools
import itertools

import pytest
import torch
from depth_width_tiny import (
    BATCH,
    HEAD_DIM,
    HEADS,
    LENGTH,
    LENGTHS,
    VARIANTS,
    WORDS,
    ragged_mask,
    random_ids,
    tiny_decoder,
)

STEPS = 7
CLOSE = {"rtol": 0.0, "atol": 1e-12}
END = 3


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["eager", "sdpa"])
def implementation(request: pytest.FixtureRequest) -> str:
    return request.param


@functools.cache
@torch.enable_grad()
def taught(variant: str) -> dict[str, torch.Tensor]:
    """Weights that go on in different ways: random ones repeat one word for ever, so these learn five continuations."""
    model = tiny_decoder(variant, seed=1, spread=0.1).train()
    ids = torch.cat((random_ids(), random_ids(seed=9, shape=(BATCH, STEPS))), dim=1)
    for row, step in enumerate((1, 4, STEPS, 2, STEPS)):
        ids[row, LENGTH + step :] = END
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(120):
        optimizer.zero_grad()
        model(ids, labels=ids).loss.backward()
        optimizer.step()
    return model.state_dict()


def build(variant: str, implementation: str = "sdpa"):
    model = tiny_decoder(variant, eos_token_id=END, pad_token_id=0)
    model.load_state_dict(taught(variant))
    model.set_attn_implementation(implementation)
    return model


def plain_greedy(model, ids: torch.Tensor) -> list[int]:
    """One row without padding, by a loop that reads the whole prefix again for every token, up to its end."""
    with torch.no_grad():
        for _ in range(STEPS):
            word = model(ids[None], use_cache=False).logits[0, -1].argmax()
            ids = torch.cat((ids, word[None]))
            if word == END:
                break
    return ids.tolist()


def ended(row: list[int]) -> list[int]:
    return row[: row.index(END) + 1] if END in row else row


def test_left_padded_rows_go_on_as_if_alone(variant: str, implementation: str) -> None:
    model = build(variant, implementation)
    ids, mask = random_ids(), ragged_mask("left")
    expected = [plain_greedy(model, row[-length:])[length:] for row, length in zip(ids, LENGTHS, strict=True)]
    assert len({len(row) for row in expected}) > 1
    for options in ({}, {"use_cache": False}, {"cache_implementation": "static"}):
        found = model.generate(ids, attention_mask=mask, max_new_tokens=STEPS, do_sample=False, **options)
        assert [ended(row) for row in found[:, LENGTH:].tolist()] == expected, options


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(variant: str, implementation: str, side: str) -> None:
    model = build(variant, implementation)
    ids, mask = random_ids(), ragged_mask(side)
    other = torch.where(mask.bool(), ids, (ids + 1) % WORDS)
    with torch.no_grad():
        first = model(ids, attention_mask=mask).logits
        second = model(other, attention_mask=mask).logits
        unmasked = model(ids).logits
        for row, real in enumerate(mask.bool()):
            torch.testing.assert_close(first[row, real], second[row, real], **CLOSE)
            torch.testing.assert_close(model(ids[row : row + 1, real]).logits[0], first[row, real], **CLOSE)
    # and taken for real, padding on the left is read
    differs = (unmasked - first).abs().amax(-1)[mask.bool()].max() > 1e-6
    assert differs == (side == "left")


@pytest.mark.parametrize("pieces", [[1] * LENGTH, [5, 1, 3, 2], [LENGTH]], ids=str)
def test_cache_gives_the_logits_of_the_whole_prefix(variant: str, implementation: str, pieces: list[int]) -> None:
    model = build(variant, implementation)
    ids, mask = random_ids(), ragged_mask("left")
    logits, cache, past = [], None, 0
    with torch.no_grad():
        whole = model(ids, attention_mask=mask, use_cache=False)
        for piece in ids.split(pieces, dim=1):
            past += piece.shape[1]
            out = model(piece, attention_mask=mask[:, :past], cache=cache, use_cache=True)
            cache = out.cache
            logits.append(out.logits)
    assert whole.cache is None
    real = mask.bool()
    torch.testing.assert_close(torch.cat(logits, dim=1)[real], whole.logits[real], **CLOSE)
    # a slot for every depth, shared layers included
    assert len(cache.layers) == model.config.num_hidden_layers
    for layer in cache.layers:
        assert layer.keys.shape == layer.values.shape == (BATCH, HEADS, LENGTH, HEAD_DIM)


def test_no_cache_with_labels(variant: str) -> None:
    assert build(variant)(random_ids(), labels=random_ids()).cache is None


@pytest.mark.parametrize("beams", [2, 5])
def test_beam_search_with_and_without_cache(variant: str, beams: int) -> None:
    """And its scores are the log-probabilities of what it found, to float32's digits."""
    model = build(variant)
    ids, mask = random_ids(), ragged_mask("left")
    options = {"max_new_tokens": STEPS, "num_beams": beams, "return_dict_in_generate": True, "output_scores": True,
               "length_penalty": 0.0, "do_sample": False}  # fmt: skip
    found = model.generate(ids, attention_mask=mask, **options)
    for other in ({"use_cache": False}, {"cache_implementation": "static"}):
        again = model.generate(ids, attention_mask=mask, **options, **other)
        assert torch.equal(again.sequences, found.sequences)
        torch.testing.assert_close(again.sequences_scores, found.sequences_scores, **CLOSE)
    for row, length in enumerate(LENGTHS):
        prompt = ids[row, -length:].tolist()
        target = ended(found.sequences[row, LENGTH:].tolist())
        with torch.no_grad():
            logits = model(torch.tensor([prompt + target[:-1]])).logits[0, length - 1 :]
        score = logits.log_softmax(-1)[torch.arange(len(target)), torch.tensor(target)].sum().item()
        assert found.sequences_scores[row].item() == pytest.approx(score, abs=1e-5)


def test_no_later_token_is_seen(variant: str, implementation: str) -> None:
    model = build(variant, implementation)
    ids = random_ids()
    later = ids.clone()
    later[:, 6:] = (later[:, 6:] + 1) % WORDS
    with torch.no_grad():
        first, second = model(ids).logits, model(later).logits
    torch.testing.assert_close(first[:, :6], second[:, :6], **CLOSE)
    assert (first[:, 6:] - second[:, 6:]).abs().amax(-1).min() > 1e-9


def test_eager_equals_sdpa(variant: str) -> None:
    ids, mask = random_ids(), ragged_mask("left")
    with torch.no_grad():
        one, other = (build(variant, name)(ids, attention_mask=mask).logits for name in ("eager", "sdpa"))
    torch.testing.assert_close(one[mask.bool()], other[mask.bool()], **CLOSE)


def test_attentions_and_hidden_states(variant: str) -> None:
    model = build(variant, "eager")
    ids = random_ids()
    with torch.no_grad():
        out = model(ids, output_attentions=True, output_hidden_states=True)
    depth = model.config.num_hidden_layers
    assert len(out.attentions) == depth
    ahead = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    for weights in out.attentions:
        assert weights.shape == (BATCH, HEADS, LENGTH, LENGTH)
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1], dtype=torch.float64), **CLOSE)
        assert (weights[..., ahead] == 0).all()
    assert all((a - b).abs().max() > 1e-6 for a, b in itertools.pairwise(out.attentions))
    assert len(out.hidden_states) == depth + 1
    assert torch.equal(out.hidden_states[0], model.model.embed_tokens(ids))
    torch.testing.assert_close(model.lm_head(out.hidden_states[-1]), out.logits, **CLOSE)


def test_embeddings_instead_of_ids(variant: str) -> None:
    model = build(variant)
    ids = random_ids()
    with torch.no_grad():
        assert torch.equal(model(inputs_embeds=model.get_input_embeddings()(ids)).logits, model(ids).logits)
    for wrong in ({}, {"input_ids": ids, "inputs_embeds": torch.zeros(BATCH, LENGTH, HEADS * HEAD_DIM)}):
        with pytest.raises(ValueError, match="ids and embeddings"):
            model(**wrong)


@pytest.mark.parametrize("implementation", ["flash_attention_2", "flex_attention"])
def test_attention_with_biases_is_refused(implementation: str) -> None:
    model = build("relative bias")
    model.config._attn_implementation_internal = implementation
    with pytest.raises(ValueError, match=rf"'{implementation}'.*position_scheme='relative_bias'"):
        model.model.positions(torch.zeros(1, 2, 12), 2, 0)


# slow, because it is compiled, in ways that PyTorch discourages
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("variant", ["rotary", "rotary shared"])
def test_flex_attention(variant: str) -> None:
    model = tiny_decoder(variant, hidden_size=HEADS * 32).float()
    ids = torch.randint(4, WORDS, (BATCH, LENGTH))
    mask = torch.ones_like(ids)
    mask[0, :3] = 0
    with torch.no_grad():
        expected = model(ids, attention_mask=mask).logits
        model.set_attn_implementation("flex_attention")
        logits = model(ids, attention_mask=mask).logits
    torch.testing.assert_close(logits[mask.bool()], expected[mask.bool()], rtol=0.0, atol=1e-4)


def test_longer_than_ever_seen(variant: str) -> None:
    """Positions have no table that could end."""
    with torch.no_grad():
        assert build(variant)(random_ids(shape=(1, 1201))).logits.isfinite().all()


# documents of these lengths in one row
DOCUMENTS = [3, 7, 1]


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@torch.no_grad()
def test_packed_documents_do_not_see_each_other(variant: str, implementation: str) -> None:
    """Positions that start anew, as collators of packed examples give them."""
    model = build(variant)
    model.set_attn_implementation(implementation)
    ids = random_ids(shape=(2, sum(DOCUMENTS)))
    positions = torch.cat([torch.arange(length) for length in DOCUMENTS])[None]
    alone = torch.cat([model(document).logits for document in ids.split(DOCUMENTS, dim=1)], dim=1)
    for given in (positions, positions.expand(2, -1)):
        torch.testing.assert_close(model(ids, position_ids=given).logits, alone, **CLOSE)
    assert (model(ids).logits - alone)[:, DOCUMENTS[0] :].abs().max() > 1e-3


@torch.no_grad()
def test_counted_positions_say_nothing_new(variant: str) -> None:
    model, ids = build(variant), random_ids()
    positions = torch.arange(ids.shape[1])[None]
    assert torch.equal(model(ids, position_ids=positions).logits, model(ids).logits)
    # only distances matter, with a cache too
    cache = model(ids[:, :4], position_ids=positions[:, :4] + 5, use_cache=True).cache
    rest = model(ids[:, 4:], position_ids=positions[:, 4:] + 5, cache=cache).logits
    torch.testing.assert_close(rest, model(ids).logits[:, 4:], **CLOSE)
