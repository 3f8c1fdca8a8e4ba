"""evaluate_split against a loop that takes one example at a time, without cache, padding or shortcuts."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from made_records import made_rows
from tiny_runs import small_scan
from transformers import DynamicCache, EncoderDecoderCache, MistralConfig, MistralForCausalLM
from transformers.cache_utils import DynamicSlidingWindowLayer

from hf_sysgen.data.text.splits import TokenizedSplit
from hf_sysgen.data.text.vocabulary import build_vocabulary, encode_sources, encode_targets
from hf_sysgen.evaluation import decoding, evaluate
from hf_sysgen.evaluation.decoding import greedy_decode, preallocated_cache
from hf_sysgen.evaluation.evaluate import bounded_chunks, evaluate_split
from hf_sysgen.evaluation.metrics.summary import scores, summarize
from hf_sysgen.models import CONFIGS, MODELS, DepthWidthConfig, DepthWidthForCausalLM


@pytest.fixture(scope="module")
def split() -> TokenizedSplit:
    data = small_scan()["train"]
    vocabulary = build_vocabulary(data["input"], data["target"])
    tokenizer = vocabulary.tokenizer
    ready = TokenizedSplit(
        encode_sources(tokenizer, list(data["input"])), encode_targets(tokenizer, list(data["target"])), pad_id=6
    )
    ready.vocabulary = vocabulary
    return ready


def tiny_model(split: TokenizedSplit, model_type: str, updates: int = 0):
    """A float64 model after some updates on the split: without them it is always wrong, with them sometimes right."""
    vocabulary = split.vocabulary
    torch.manual_seed(1)
    config = CONFIGS[model_type](
        vocab_size=vocabulary.vocab_size,
        source_vocab_size=vocabulary.source_vocab_size,
        source_id_offset=vocabulary.source_id_offset,
        hidden_size=32,
        intermediate_size=32,
        num_attention_heads=2,
        encoder_layers=2,
        decoder_layers=2,
        dropout=0.0,
    )
    model = list(MODELS[type(config)].values())[-1](config)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    rows = np.arange(len(split))
    for _ in range(updates):
        model(**split[rows]).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.double().eval()


@torch.inference_mode()
def brute_force(model, source: list[int], target: list[int], eos: int) -> dict:
    """One example: every step runs the whole model on everything so far (encoder_decoder_interface.py:34-41)."""
    ids, mask = torch.tensor([source]), torch.ones(1, len(source), dtype=torch.long)

    def step(fed: list[int]) -> torch.Tensor:
        return model(input_ids=ids, attention_mask=mask, decoder_input_ids=torch.tensor([[eos, *fed]])).logits[0, -1]

    def cross_entropy(logits: torch.Tensor, token: int) -> float:
        return math.log(sum(math.exp(value) for value in logits.tolist())) - logits[token].item()

    produced, free, teacher = [], [], []
    for position, token in enumerate(target):
        logits = step(produced)
        free.append(cross_entropy(logits, token))
        produced.append(int(logits.argmax()))
        teacher.append(cross_entropy(step(target[:position]), token))
    prediction = produced[: produced.index(eos)] if eos in produced else produced
    without_eos: list[int] = []
    for _ in target[:-1]:
        logits = step(without_eos)
        logits[eos] = -math.inf
        without_eos.append(int(logits.argmax()))
    return {
        "prediction": prediction,
        "exact": produced == target,
        "loss": sum(free) / len(free),
        "loss_teacher": sum(teacher) / len(teacher),
        "target_length": len(target) - 1,
        "oracle_exact": without_eos == target[:-1],
    }


@pytest.fixture(scope="module", params=[(0, "relative_universal_transformer"), (60, "sysgen_transformer")], ids=str)
def model(request, split):
    updates, model_type = request.param
    return tiny_model(split, model_type, updates)


@pytest.fixture(scope="module")
def by_loop(model, split) -> dict[int, dict]:
    """`brute_force` of every third row."""

    def ids(side: Any, row: int) -> list[int]:
        return side.flat[side.starts[row] : side.starts[row] + side.lengths[row]].tolist()

    eos = model.config.eos_token_id
    return {
        row: brute_force(model, ids(split.sources, row), ids(split.targets, row), eos)
        for row in range(1, len(split), 3)
    }


@pytest.mark.parametrize("pairs", [evaluate.PAIRS, 100])
def test_every_field_equals_the_loop(model, split, by_loop, pairs, monkeypatch):
    monkeypatch.setattr(evaluate, "PAIRS", pairs)
    records = sorted(evaluate_split(model, split, batch_size=7, oracle=True), key=lambda record: record.row)
    assert [record.row for record in records] == list(range(len(split)))
    exact = 0
    for row, expected in by_loop.items():
        record = records[row]
        for field in ("prediction", "exact", "target_length", "oracle_exact"):
            assert getattr(record, field) == expected[field], (row, field)
        # losses are computed in float32
        assert record.loss == pytest.approx(expected["loss"], rel=1e-5, abs=1e-6)
        assert record.loss_teacher == pytest.approx(expected["loss_teacher"], rel=1e-5, abs=1e-6)
        exact += record.exact
    if model.config.model_type == "sysgen_transformer":
        assert 0 < exact < len(by_loop), "the trained model must be right on some rows and wrong on others"


def test_a_piece_ends_only_where_another_row_is_too_much():
    lengths = np.random.default_rng(0).integers(1, 23, 211)
    rows = np.random.default_rng(1).permutation(211)[:197]

    def fits(piece) -> bool:
        return len(piece) <= 7 and (len(piece) == 1 or len(piece) * lengths[piece].max() ** 2 <= 300)

    for given in (rows, rows[np.argsort(lengths[rows])], rows[:1]):
        pieces = bounded_chunks(given, lengths, size=7, pairs=300)
        assert np.concatenate(pieces).tolist() == given.tolist()
        assert all(map(fits, pieces))
        assert not any(fits(np.append(piece, after[0])) for piece, after in itertools.pairwise(pieces))
    assert bounded_chunks(rows[:0], lengths, size=7, pairs=300) == []


def test_an_answer_without_eos_is_wrong(split):
    """A model that gives every step the same probabilities, whatever it reads: all fields by hand."""
    model = tiny_model(split, "universal_transformer")
    eos, word, other = model.config.eos_token_id, 2, 4
    probabilities = torch.full((model.config.vocab_size,), 0.05, dtype=torch.float64)
    targets = [[word, eos], [word, word, eos], [eos], [other, eos]]
    same = TokenizedSplit([[7, 8]] * 4, targets, pad_id=eos)
    for favourite, second in ((word, eos), (eos, word)):
        probabilities[favourite], probabilities[second] = 0.5, 0.25
        with torch.no_grad():
            model.lm_head.weight.zero_()
            model.lm_head.bias.copy_(probabilities.log())
        records = sorted(evaluate_split(model, same, oracle=True), key=lambda record: record.row)
        # the right words and one more are over-long; nothing at all is right only where nothing is wanted
        assert [record.exact for record in records] == [False, False, favourite == eos, False]
        assert [record.oracle_exact for record in records] == [True, True, True, False]
        assert [record.prediction for record in records] == [
            [word] * (len(target) if favourite == word else 0) for target in targets
        ]
        for record, target in zip(records, targets, strict=True):
            loss = -sum(math.log(probabilities[token]) for token in target) / len(target)
            assert record.loss == pytest.approx(loss, rel=1e-6)
            assert record.loss_teacher == pytest.approx(loss, rel=1e-6)


def test_result_does_not_depend_on_batches_order_or_processes(model, split):
    def by_row(records):
        keys = ("row", "prediction", "exact", "oracle_exact", "target_length")
        return sorted([getattr(record, key) for key in keys] for record in records)

    alone = by_row(evaluate_split(model, split, batch_size=1, oracle=True))
    assert by_row(evaluate_split(model, split, batch_size=1000, oracle=True)) == alone
    rows = np.random.default_rng(0).permutation(len(split))
    assert by_row(evaluate_split(model, split, rows, batch_size=5, oracle=True)) == alone
    shared = [evaluate_split(model, split, batch_size=5, oracle=True, rank=rank, world=3) for rank in range(3)]
    assert by_row(itertools.chain(*shared)) == alone
    assert max(map(len, shared)) - min(map(len, shared)) <= 1


def test_some_rows_only_and_mode_is_put_back(model, split):
    model.train()
    records = evaluate_split(model, split, np.array([3, 17, 5]), batch_size=2)
    assert sorted(record.row for record in records) == [3, 5, 17]
    assert records[0].oracle_exact is None
    assert model.training
    model.eval()
    assert evaluate_split(model, split, np.array([], dtype=np.int64)) == []


def test_greedy_decode_agrees_with_generate_up_to_eos(model, split):
    batch = split[np.arange(0, len(split), 3)]
    source = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    ids, logits = greedy_decode(model, **source, num_steps=9)
    assert logits.shape == (*ids.shape, model.config.vocab_size)
    assert torch.equal(logits.argmax(-1), ids)
    generated = model.generate(**source, max_new_tokens=9, do_sample=False)[:, 1:]
    eos = model.config.eos_token_id
    for ours, theirs in zip(ids.tolist(), generated.tolist(), strict=True):
        end = ours.index(eos) if eos in ours else len(ours)
        assert ours[:end] == theirs[:end]
        assert set(theirs[end:]) <= {eos}


def test_given_tokens_are_gone_on_from(model, split):
    batch = split[np.arange(4)]
    source = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    ids, logits = greedy_decode(model, **source, num_steps=11)
    for given in (0, 1, 7, 10):
        again, its_logits = greedy_decode(model, **source, num_steps=11, prefix=ids[:, :given])
        assert torch.equal(again, ids)
        torch.testing.assert_close(its_logits, logits, rtol=0, atol=1e-12)


def test_preallocated_cache_holds_what_a_growing_one_does(model, split):
    batch = split[np.arange(5)]
    encoded = model.get_encoder()(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
    caches = [
        preallocated_cache(model, 7),
        EncoderDecoderCache(DynamicCache(config=model.config), DynamicCache(config=model.config)),
    ]
    target = torch.randint(0, model.config.vocab_size, (5, 7), generator=torch.Generator().manual_seed(0))
    for start, end in ((0, 3), (3, 4), (4, 7)):
        steps = [
            model(
                encoder_outputs=encoded,
                attention_mask=batch["attention_mask"],
                decoder_input_ids=target[:, start:end],
                cache=cache,
                use_cache=True,
            ).logits
            for cache in caches
        ]
        assert torch.equal(*steps)
        assert caches[0].get_seq_length() == end


def test_summary_by_hand():
    rows = [
        {"exact": True, "loss": 0.1, "loss_teacher": 0.1, "target_length": 2, "oracle_exact": True, "category": "a"},
        {"exact": False, "loss": 2.0, "loss_teacher": 0.5, "target_length": 2, "oracle_exact": True, "category": "b"},
        {"exact": False, "loss": 3.0, "loss_teacher": 0.6, "target_length": 1, "oracle_exact": False, "category": "a"},
    ]
    summary = summarize(made_rows(rows))
    assert summary.examples == 3
    expected = {"accuracy": 1 / 3, "loss": 1.7, "loss_teacher": 0.4, "accuracy_oracle": 2 / 3}
    assert summary.metrics == pytest.approx(expected)
    assert summary.by_length == [(1, 1, 0.0), (2, 2, 0.5)]
    assert summary.by_category == {"a": (2, 0.5), "b": (1, 0.0)}
    named = [{"exact": True, "category": name} for name in ("k=10", "b", "k=2", "a")]
    assert list(summarize(made_rows(named)).by_category) == ["a", "b", "k=2", "k=10"]
    bare = {key: value for key, value in rows[0].items() if key not in ("oracle_exact", "category")}
    bare = summarize(made_rows([bare]))
    assert "accuracy_oracle" not in bare.metrics
    assert "by_category" not in bare.model_fields_set
    assert summarize([]).accuracy is None
    assert math.isnan(scores(summarize([]))["accuracy"])


def test_only_our_own_decoders_write_into_memory_of_a_fixed_size() -> None:
    """Layers of others may be of several kinds; a `DynamicCache` has them from the config."""
    own = DepthWidthForCausalLM(
        DepthWidthConfig(vocab_size=11, hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=2)
    )
    other = MistralForCausalLM(
        MistralConfig(
            vocab_size=11, hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, sliding_window=3,
        )
    )  # fmt: skip
    ids = torch.tensor([[3, 4, 5]])
    kinds = []
    for model in (own, other):
        _, _, cache = decoding.read_prompt(model, ids, torch.ones_like(ids), 5)
        kinds.append({type(layer) for layer in cache.layers})
    assert kinds == [{decoding.PreallocatedLayer}, {DynamicSlidingWindowLayer}]
