"""Caches, beams, padding and recorded outputs change nothing that they should not."""

from __future__ import annotations

import functools
import itertools

import pytest
import torch
from tiny import BATCH, SIZES, SOURCE, TARGET, VARIANTS, ragged_batch, tiny_model

STEPS = 13
CLOSE = {"rtol": 0.0, "atol": 1e-12}
HEADS, WIDTH = SIZES["num_attention_heads"], SIZES["hidden_size"]
# words that only the source has
OFFSET = 3


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["eager", "sdpa"])
def implementation(request: pytest.FixtureRequest) -> str:
    return request.param


@functools.cache
def taught(variant: str) -> dict[str, torch.Tensor]:
    """Weights that end rows at different places: random ones repeat one word for ever, so these learn five targets."""
    for seed in range(10):
        model = tiny_model(variant, seed=seed, spread=0.1, source_id_offset=OFFSET)
        source, end = source_of(model), model.config.eos_token_id
        labels = torch.randint(end, (BATCH, TARGET), generator=torch.Generator().manual_seed(5))
        lengths = torch.tensor([3, 10, 5, 7, 1])[:, None]
        labels[torch.arange(TARGET) == lengths] = end
        labels[torch.arange(TARGET) > lengths] = -100
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
        for step in range(200):
            optimizer.zero_grad()
            model(**source, labels=labels).loss.backward()
            optimizer.step()
            if step % 25 == 24:
                rows = plain_greedy(model, source, STEPS)[0].tolist()
                if len({len(ended(row, end)) for row in rows}) > 2 and len(set(itertools.chain(*rows))) > 5:
                    return model.state_dict()
    raise AssertionError("no rows of different lengths were learned")


def build(variant: str, implementation: str = "sdpa"):
    model = tiny_model(variant, source_id_offset=OFFSET)
    model.load_state_dict(taught(variant))
    model.set_attn_implementation(implementation)
    return model


def source_of(model) -> dict[str, torch.Tensor]:
    batch = ragged_batch(model.config)
    return {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}


def plain_greedy(model, source: dict[str, torch.Tensor], steps: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and logits of a loop that reads the whole prefix again for every token."""
    tokens = torch.full((len(source["input_ids"]), 1), model.config.decoder_start_token_id)
    logits = None
    with torch.no_grad():
        for _ in range(steps):
            logits = model(**source, decoder_input_ids=tokens, use_cache=False).logits
            tokens = torch.cat((tokens, logits[:, -1:].argmax(-1)), dim=1)
    return tokens, logits


def ended(row: list[int], end: int) -> list[int]:
    """A generated row without its start symbol, up to and including its end."""
    row = row[1:]
    return row[: row.index(end) + 1] if end in row else row


def test_greedy_stops_each_row_at_its_own_end(variant: str) -> None:
    model = build(variant)
    end = model.config.eos_token_id
    source = source_of(model)
    expected = [ended(row, end) for row in plain_greedy(model, source, STEPS)[0].tolist()]
    assert len({len(row) for row in expected}) > 2
    for use_cache in (True, False):
        found = model.generate(**source, max_new_tokens=STEPS, use_cache=use_cache).tolist()
        assert [ended(row, end) for row in found] == expected
        for row, until in zip(found, expected, strict=True):
            assert set(row[len(until) + 1 :]) <= {model.config.pad_token_id}


def test_rows_do_not_depend_on_their_batch(variant: str) -> None:
    model = build(variant)
    source = source_of(model)
    together = model.generate(**source, max_new_tokens=STEPS).tolist()
    for row in range(BATCH):
        length = int(source["attention_mask"][row].sum())
        alone = model.generate(input_ids=source["input_ids"][row : row + 1, :length], max_new_tokens=STEPS).tolist()
        end = model.config.eos_token_id
        assert ended(alone[0], end) == ended(together[row], end)


def cached_logits(model, source: dict[str, torch.Tensor], target: torch.Tensor, pieces: list[int]) -> torch.Tensor:
    """Logits of a given target, fed in pieces of these lengths."""
    assert sum(pieces) == target.shape[1]
    logits, cache, encoded = [], None, None
    with torch.no_grad():
        encoded = model.get_encoder()(**source)
        for piece in target.split(pieces, dim=1):
            out = model(
                attention_mask=source["attention_mask"],
                encoder_outputs=encoded,
                decoder_input_ids=piece,
                cache=cache,
                use_cache=True,
            )
            cache = out.cache
            logits.append(out.logits)
    return torch.cat(logits, dim=1)


@pytest.mark.parametrize("pieces", [[1] * TARGET, [5, 1, 3, 2], [1, 10], [TARGET]], ids=str)
def test_cache_gives_the_logits_of_the_whole_prefix(variant: str, implementation: str, pieces: list[int]) -> None:
    model = build(variant, implementation)
    batch = ragged_batch(model.config)
    target = batch.pop("decoder_input_ids")
    with torch.no_grad():
        whole = model(**batch, decoder_input_ids=target, use_cache=False).logits
    torch.testing.assert_close(cached_logits(model, batch, target, pieces), whole, **CLOSE)


def test_cache_has_a_slot_for_every_depth_and_one_memory_for_every_layer(variant: str) -> None:
    model = build(variant)
    batch = ragged_batch(model.config)
    cache = model(**batch, use_cache=True).cache
    depth = SIZES["decoder_layers"]
    assert len(cache.self_attention_cache.layers) == depth
    for layer in cache.self_attention_cache.layers:
        assert layer.keys.shape == (BATCH, HEADS, TARGET, WIDTH // HEADS)
        # a convolution keeps what it read, which is not keys and values
        assert layer.values.shape == (BATCH, HEADS, TARGET, 0 if "conv" in variant else WIDTH // HEADS)
    distinct = len(model.model.decoder.layers)
    assert distinct == (1 if "universal" in variant else depth)
    held = [layer for layer in cache.cross_attention_cache.layers if layer.is_initialized]
    assert len(held) == distinct
    for layer in held:
        assert layer.keys.shape == (BATCH, HEADS, SOURCE, WIDTH // HEADS)


def test_memory_is_projected_once(variant: str) -> None:
    """A step costs no new keys and values of the source."""
    model = build(variant)
    calls = []
    for module in model.model.decoder.layers:
        projection = module.cross_attn.k_proj if "role" in variant else module.cross_attn.kv_proj
        projection.register_forward_hook(lambda *_: calls.append(1))
    model.generate(**source_of(model), max_new_tokens=5, min_new_tokens=5)
    assert len(calls) == len(model.model.decoder.layers)


def test_no_cache_unless_asked(variant: str) -> None:
    model = build(variant)
    batch = ragged_batch(model.config)
    assert model(**batch, use_cache=False).cache is None
    assert model(**batch, labels=batch["decoder_input_ids"]).cache is None


@pytest.mark.parametrize("beams", [2, 5])
def test_beam_search_with_and_without_cache(variant: str, implementation: str, beams: int) -> None:
    model = build(variant, implementation)
    options = {"max_new_tokens": STEPS, "num_beams": beams, "num_return_sequences": 2,
               "return_dict_in_generate": True, "output_scores": True}  # fmt: skip
    with_cache = model.generate(**source_of(model), **options)
    without = model.generate(**source_of(model), **options, use_cache=False)
    assert torch.equal(with_cache.sequences, without.sequences)
    torch.testing.assert_close(with_cache.sequences_scores, without.sequences_scores, **CLOSE)
    assert len(with_cache.sequences) == 2 * BATCH
    scores = with_cache.sequences_scores.view(BATCH, 2)
    assert (scores[:, 0] >= scores[:, 1]).all()
    # the two sequences of a row are two
    assert all(not torch.equal(*pair) for pair in with_cache.sequences.view(BATCH, 2, -1))


def log_probability(model, source: dict[str, torch.Tensor], row: int, target: list[int]) -> float:
    """Of a whole target, its end included, given one row of the source."""
    ids = source["input_ids"][row : row + 1, : int(source["attention_mask"][row].sum())]
    start = model.config.decoder_start_token_id
    with torch.no_grad():
        logits = model(input_ids=ids, decoder_input_ids=torch.tensor([[start, *target[:-1]]])).logits[0]
    return logits.log_softmax(-1)[torch.arange(len(target)), torch.tensor(target)].sum().item()


def test_beam_scores_are_log_probabilities(variant: str) -> None:
    """Rows swap places in every step; a cache that is not reordered with them gives another score (float32's)."""
    model = build(variant)
    source = source_of(model)
    options = {"num_beams": 5, "length_penalty": 0.0, "return_dict_in_generate": True, "output_scores": True}
    found = model.generate(**source, max_new_tokens=STEPS, **options)
    greedy = model.generate(**source, max_new_tokens=STEPS).tolist()
    end, better = model.config.eos_token_id, 0
    for row, (sequence, score) in enumerate(zip(found.sequences.tolist(), found.sequences_scores, strict=True)):
        target = ended(sequence, end)
        assert log_probability(model, source, row, target) == pytest.approx(score.item(), abs=1e-5)
        better += target != ended(greedy[row], end)
    # otherwise beams were not needed
    assert better > 0


@pytest.mark.parametrize("beams", [1, 3])
def test_static_cache(variant: str, implementation: str, beams: int) -> None:
    model = build(variant, implementation)
    options = {"max_new_tokens": STEPS, "num_beams": beams}
    dynamic = model.generate(**source_of(model), **options)
    static = model.generate(**source_of(model), **options, cache_implementation="static")
    assert torch.equal(static, dynamic)


def test_eager_equals_sdpa(variant: str) -> None:
    batch = None
    logits, generated = [], []
    for implementation in ("eager", "sdpa"):
        model = build(variant, implementation)
        batch = batch or ragged_batch(model.config)
        with torch.no_grad():
            logits.append(model(**batch).logits)
        generated.append(model.generate(**source_of(model), max_new_tokens=STEPS))
    torch.testing.assert_close(*logits, **CLOSE)
    assert torch.equal(*generated)


def pad(source: dict[str, torch.Tensor], extra: int, fill: int) -> dict[str, torch.Tensor]:
    input_ids, mask = source["input_ids"], source["attention_mask"]
    columns = torch.full((len(input_ids), extra), fill)
    return {
        "input_ids": torch.cat((input_ids, columns), dim=1),
        "attention_mask": torch.cat((mask, torch.zeros_like(columns)), dim=1),
    }


def test_source_padding_changes_nothing(variant: str, implementation: str) -> None:
    model = build(variant, implementation)
    batch = ragged_batch(model.config)
    target = batch.pop("decoder_input_ids")
    real = batch["attention_mask"].bool()

    def run(source: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            out = model(**source, decoder_input_ids=target)
        generated = model.generate(**source, max_new_tokens=STEPS)
        return out.logits, out.encoder_last_hidden_state[:, :SOURCE][real], generated

    logits, encoded, generated = run(batch)
    # other words where nothing is real, and more padding
    other = batch["input_ids"].masked_fill(~real, OFFSET + 1)
    assert not torch.equal(other, batch["input_ids"])
    for source in ({**batch, "input_ids": other}, pad(batch, 6, OFFSET + 2)):
        same_logits, same_encoded, same_generated = run(source)
        torch.testing.assert_close(same_logits, logits, **CLOSE)
        torch.testing.assert_close(same_encoded, encoded, **CLOSE)
        assert torch.equal(same_generated, generated)
    # each row without its padding
    for row in range(BATCH):
        length = int(real[row].sum())
        with torch.no_grad():
            out = model(input_ids=batch["input_ids"][row : row + 1, :length], decoder_input_ids=target[row : row + 1])
        torch.testing.assert_close(out.logits[0], logits[row], **CLOSE)
    # and padding does change what is computed when it is taken for real
    with torch.no_grad():
        unmasked = model(input_ids=batch["input_ids"], decoder_input_ids=target).logits
    assert (unmasked - logits).abs().amax((1, 2))[~real.all(1)].min() > 1e-6


def test_decoder_sees_no_later_token(variant: str, implementation: str) -> None:
    model = build(variant, implementation)
    batch = ragged_batch(model.config)
    later = batch["decoder_input_ids"].clone()
    later[:, 6:] = (later[:, 6:] + 1) % model.config.vocab_size
    with torch.no_grad():
        first = model(**batch).logits
        second = model(**{**batch, "decoder_input_ids": later}).logits
    torch.testing.assert_close(first[:, :6], second[:, :6], **CLOSE)
    assert (first[:, 6:] - second[:, 6:]).abs().amax(-1).min() > 1e-9


def test_decoder_mask(variant: str, implementation: str) -> None:
    """A masked target position is read by nobody; the others keep their positions."""
    model = build(variant, implementation)
    batch = ragged_batch(model.config)
    mask = torch.ones_like(batch["decoder_input_ids"])
    mask[:, 4] = 0
    changed = batch["decoder_input_ids"].clone()
    changed[:, 4] = (changed[:, 4] + 1) % model.config.vocab_size
    with torch.no_grad():
        first = model(**batch, decoder_attention_mask=mask).logits
        second = model(**{**batch, "decoder_input_ids": changed}, decoder_attention_mask=mask).logits
        unmasked = model(**batch).logits
    kept = mask[0].bool()
    torch.testing.assert_close(first[:, kept], second[:, kept], **CLOSE)
    torch.testing.assert_close(first[:, :4], unmasked[:, :4], **CLOSE)
    assert (first[:, 5:] - unmasked[:, 5:]).abs().max() > 1e-6


def test_attentions(variant: str) -> None:
    model = build(variant, "eager")
    batch = ragged_batch(model.config)
    with torch.no_grad():
        out = model(**batch, output_attentions=True)
    shapes = {
        "encoder_attentions": (SIZES["encoder_layers"], (BATCH, HEADS, SOURCE, SOURCE)),
        "decoder_attentions": (SIZES["decoder_layers"], (BATCH, HEADS, TARGET, TARGET)),
        "cross_attentions": (SIZES["decoder_layers"], (BATCH, HEADS, TARGET, SOURCE)),
    }
    hidden = ~batch["attention_mask"].bool()
    for name, (depth, shape) in shapes.items():
        if "conv" in variant and name != "cross_attentions":
            assert out[name] == ()
            continue
        # as many as depths, also where all of them share one layer
        assert len(out[name]) == depth, name
        sums = torch.ones(shape[:-1], dtype=torch.float64)
        if "span" in variant and name == "encoder_attentions":
            # padding that is further from a word than the span reads nothing
            sums[(torch.arange(SOURCE) > batch["attention_mask"].sum(1, keepdim=True) + 1)[:, None].expand_as(sums)] = 0
            assert (sums == 0).any()
        for weights in out[name]:
            assert weights.shape == shape
            torch.testing.assert_close(weights.sum(-1), sums, **CLOSE)
        assert all((a - b).abs().max() > 1e-6 for a, b in itertools.pairwise(out[name])), name
    for name in ("encoder_attentions", "cross_attentions"):
        for weights in out[name]:
            assert (weights.transpose(1, 3)[hidden] == 0).all(), name
    hidden = torch.ones(TARGET, TARGET, dtype=torch.bool).triu(1)
    if "span" in variant:
        hidden = hidden | torch.ones(TARGET, TARGET, dtype=torch.bool).tril(-3)
    for weights in out.decoder_attentions:
        assert (weights[..., hidden] == 0).all()
        assert (weights[..., ~hidden] > 0).all()


def test_hidden_states(variant: str) -> None:
    model = build(variant)
    batch = ragged_batch(model.config)
    with torch.no_grad():
        out = model(**batch, output_hidden_states=True)
        encoder = model.model.encoder
        embedded = encoder.embed_input(encoder.embed(batch["input_ids"], None, {}), 0, batch["attention_mask"])
    assert len(out.encoder_hidden_states) == SIZES["encoder_layers"] + 1
    assert len(out.decoder_hidden_states) == SIZES["decoder_layers"] + 1
    assert torch.equal(out.encoder_hidden_states[0], embedded)
    assert torch.equal(out.encoder_hidden_states[-1], out.encoder_last_hidden_state)
    # of the two streams of roles and fillers the second is what is said
    assert torch.equal(model.lm_head(out.decoder_hidden_states[-1][..., -WIDTH:]), out.logits)
    width = 2 * WIDTH if "role" in variant else WIDTH
    for states, length in ((out.encoder_hidden_states, SOURCE), (out.decoder_hidden_states, TARGET)):
        assert all(state.shape == (BATCH, length, width) for state in states)
        assert all((a - b).abs().max() > 1e-6 for a, b in itertools.pairwise(states))


def test_nothing_is_recorded_unless_asked(variant: str) -> None:
    model = build(variant, "eager")
    out = model(**ragged_batch(model.config))
    assert out.encoder_attentions is out.decoder_attentions is out.cross_attentions is None
    assert out.encoder_hidden_states is out.decoder_hidden_states is None
    as_tuple = model(**ragged_batch(model.config), return_dict=False)
    assert isinstance(as_tuple, tuple)
    assert torch.equal(as_tuple[0], out.logits)


def test_embeddings_instead_of_ids(variant: str) -> None:
    model = build(variant)
    batch = ragged_batch(model.config)
    with torch.no_grad():
        expected = model(**batch).logits
        found = model(
            inputs_embeds=model.model.encoder.embed(batch["input_ids"], None, {}),
            attention_mask=batch["attention_mask"],
            decoder_inputs_embeds=model.model.decoder.embed(batch["decoder_input_ids"], None, {}),
        ).logits
    assert torch.equal(found, expected)


def test_encoder_output_instead_of_source(variant: str) -> None:
    model = build(variant)
    batch = ragged_batch(model.config)
    with torch.no_grad():
        expected = model(**batch)
        encoded = model.get_encoder()(batch["input_ids"], attention_mask=batch["attention_mask"])
        batch.pop("input_ids")
        for given in (encoded, (encoded.last_hidden_state,)):
            out = model(**batch, encoder_outputs=given)
            assert torch.equal(out.logits, expected.logits)
            assert torch.equal(out.encoder_last_hidden_state, expected.encoder_last_hidden_state)


def test_input_that_is_missing_or_double(variant: str) -> None:
    model = build(variant)
    batch = ragged_batch(model.config)
    embeddings = model.model.encoder.embed_tokens(batch["input_ids"])
    with pytest.raises(ValueError, match="ids and embeddings"):
        model(**batch, inputs_embeds=embeddings)
    with pytest.raises(ValueError, match="ids and embeddings"):
        model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
    with pytest.raises(ValueError, match="ids and embeddings"):
        model(decoder_input_ids=batch["decoder_input_ids"])
    with pytest.raises(ValueError, match="encoder_hidden_states"):
        model.model.decoder(input_ids=batch["decoder_input_ids"])


def test_source_ids_start_at_the_offset(variant: str) -> None:
    """The encoder's row i is the word with id offset + i; ids outside its table are an error, not another word."""
    model = build(variant)
    encoder = model.model.encoder
    ids = torch.arange(OFFSET, OFFSET + SIZES["source_vocab_size"])[None]
    assert torch.equal(encoder.embed_tokens(ids)[0], encoder.embed_tokens.weight)
    for outside in (OFFSET - 1, OFFSET + SIZES["source_vocab_size"]):
        with pytest.raises(IndexError):
            encoder.embed_tokens(torch.tensor([[outside]]))
    # without an offset the same rows answer to ids that start at 0
    joint = tiny_model(variant)
    joint.load_state_dict(model.state_dict())
    batch = ragged_batch(model.config)
    shifted = {**batch, "input_ids": batch["input_ids"] - OFFSET}
    with torch.no_grad():
        assert torch.equal(joint(**shifted).logits, model(**batch).logits)


def test_longer_than_ever_seen(variant: str) -> None:
    """Positions have no table that could end."""
    model = build(variant)
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(OFFSET, OFFSET + 19, (1, 1201), generator=generator)
    target = torch.randint(17, (1, 11), generator=generator)
    with torch.no_grad():
        assert model(input_ids=source, decoder_input_ids=target).logits.isfinite().all()
