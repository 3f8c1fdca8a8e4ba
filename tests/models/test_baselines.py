"""The baselines of the SCAN tables: what is tested of every model with attention layers, and what is theirs alone."""

from __future__ import annotations

import itertools
import math
import re

import pytest
import reference.conv_seq2seq as conv_reference
import reference.lstm_seq2seq as lstm_reference
import torch
from huggingface_hub.errors import StrictDataclassClassValidationError
from safetensors.torch import load_file, save_file
from test_fairseq import test_left_and_right_padding_are_one, test_left_padded_targets  # noqa: F401
from test_generation import (  # noqa: F401
    STEPS,
    ended,
    log_probability,
    source_of,
    test_beam_search_with_and_without_cache,
    test_cache_gives_the_logits_of_the_whole_prefix,
    test_decoder_mask,
    test_decoder_sees_no_later_token,
    test_eager_equals_sdpa,
    test_embeddings_instead_of_ids,
    test_encoder_output_instead_of_source,
    test_greedy_stops_each_row_at_its_own_end,
    test_input_that_is_missing_or_double,
    test_no_cache_unless_asked,
    test_nothing_is_recorded_unless_asked,
    test_rows_do_not_depend_on_their_batch,
    test_source_ids_start_at_the_offset,
    test_source_padding_changes_nothing,
    test_static_cache,
)
from test_initialisation import assert_drawn_from
from test_training import (  # noqa: F401
    gradients,
    labelled_batch,
    test_autocast,
    test_dropout_acts_in_training_only,
    test_labels_make_the_decoder_input,
    test_loss_is_the_mean_over_all_labels_of_the_batch,
    test_low_precision_is_close,
    test_rows_without_a_real_word_are_finite,
    test_two_halves_with_the_number_of_items_are_the_batch,
)
from tiny import BASELINES, BATCH, SOURCE, TARGET, ragged_batch, ragged_labels, tiny_config, tiny_model
from transformers.modeling_layers import GradientCheckpointingLayer

from hf_sysgen.evaluation.decoding import greedy_decode
from hf_sysgen.models import ConvSeq2SeqConfig, LstmSeq2SeqConfig
from hf_sysgen.models.weight_norm import WeightNormConvolution

CLOSE = {"rtol": 1e-10, "atol": 1e-12}


@pytest.fixture(params=BASELINES)
def variant(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["eager", "sdpa"])
def implementation(request: pytest.FixtureRequest) -> str:
    return request.param


# against loops


def lstm_cell_weights(named: dict, prefix: str) -> dict:
    names = {"input": "weight_ih", "hidden": "weight_hh", "input_bias": "bias_ih", "hidden_bias": "bias_hh"}
    return {name: named[prefix + theirs] for name, theirs in names.items()}


def lstm_weights(named: dict, config) -> dict:
    depth, stack = config.encoder_layers, "model.decoder.stack."
    weights = {
        "source_rows": named["model.encoder.embed_tokens.weight"],
        "target_rows": named["model.decoder.embed_tokens.weight"],
        "encoder": [lstm_cell_weights(named, f"model.encoder.layers.{i}.cell.") for i in range(depth)],
        "decoder": [lstm_cell_weights(named, f"{stack}cells.{i}.") for i in range(depth)],
        "output": named["lm_head.weight"],
        "output_bias": named["lm_head.bias"],
    }
    if config.source_attention == "additive":
        names = {"query": "q_proj.weight", "key": "k_proj.weight", "key_bias": "k_proj.bias", "score": "score.weight"}
        weights["attention"] = {name: named[f"{stack}attention.{theirs}"] for name, theirs in names.items()}
    return weights


def weight_norm_weights(named: dict, prefix: str) -> dict:
    return {name: named[f"{prefix}.{name}"] for name in ("direction", "length", "bias")}


def conv_weights(named: dict, config) -> dict:
    weights: dict = {"output": weight_norm_weights(named, "lm_head")}
    for side, depth in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        layers = []
        for prefix in (f"model.{side}.layers.{i}." for i in range(depth)):
            layer = {"convolution": weight_norm_weights(named, f"{prefix}gated.convolution")}
            if side == "decoder":
                parts = {"in": "in_proj", "out": "out_proj"}
                layer["attention"] = {
                    k: weight_norm_weights(named, f"{prefix}cross_attn.{v}") for k, v in parts.items()
                }
            layers.append(layer)
        weights[side] = {
            "rows": named[f"model.{side}.embed_tokens.weight"],
            "positions": named[f"model.{side}.embed_input.table.weight"],
            "first": weight_norm_weights(named, f"model.{side}.fc1"),
            "last": weight_norm_weights(named, f"model.{side}.fc2"),
            "layers": layers,
        }
    return weights


REFERENCES = {
    "lstm_seq2seq": (lstm_reference.logits, lstm_weights),
    "conv_seq2seq": (conv_reference.logits, conv_weights),
}
CASES = [
    ("lstm_seq2seq", {"hidden_size": 5, "encoder_layers": 2}),
    ("lstm_seq2seq", {"hidden_size": 5, "encoder_layers": 1, "source_attention": "none", "source_id_offset": 3}),
    ("conv_seq2seq", {"hidden_size": 3, "kernel_size": 5, "decoder_kernel_size": 2, "decoder_layers": 2}),
    # of an even number one more follows than comes before
    ("conv_seq2seq", {"hidden_size": 3, "kernel_size": 4, "source_id_offset": 3, "decoder_layers": 3}),
]


@pytest.mark.parametrize(("name", "changes"), CASES, ids=str)
def test_whole_model(name: str, changes: dict) -> None:
    """Masks and batches of ours against one unpadded sample after the other of theirs: loss and every gradient."""
    sizes = {"max_position_embeddings": 13} if name == "conv_seq2seq" else {}
    model = tiny_model(name, **sizes, **changes)
    config = model.config
    batch, labels = ragged_batch(config), ragged_labels(config)
    out = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=labels)
    out.loss.backward()

    named = {key: parameter.detach().clone().requires_grad_() for key, parameter in model.named_parameters()}
    reference, weights_of = REFERENCES[name]
    weights, total, count = weights_of(named, config), 0.0, 0
    for row, (source, real) in enumerate(zip(batch["input_ids"], batch["attention_mask"], strict=True)):
        words = [word - config.source_id_offset for word in source[real.bool()].tolist()]
        target = labels[row][labels[row] != -100].tolist()
        logits = reference(words, [config.decoder_start_token_id, *target[:-1]], weights)
        torch.testing.assert_close(out.logits[row, : len(target)], logits, **CLOSE)
        total = total - logits.log_softmax(-1)[torch.arange(len(target)), target].sum()
        count += len(target)
    (total / count).backward()
    torch.testing.assert_close(out.loss, total / count, **CLOSE)
    for key, parameter in model.named_parameters():
        expected = named[key].grad
        assert expected.abs().max() > 1e-9, key
        torch.testing.assert_close(parameter.grad, expected, **CLOSE, msg=lambda text, n=key: f"{n}: {text}")


def test_lstm_is_pytorch_s() -> None:
    """Gates stand in PyTorch's order: its weights mean the same here."""
    layer = tiny_model("lstm_seq2seq").model.encoder.layers[0]
    theirs = torch.nn.LSTM(6, 6, batch_first=True).double()
    theirs.load_state_dict({f"{name}_l0": weight for name, weight in layer.cell.state_dict().items()})
    inputs = torch.randn(3, 7, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    hidden, cells = layer(inputs, None)
    expected, (_, last) = theirs(inputs)
    torch.testing.assert_close(hidden, expected, **CLOSE)
    torch.testing.assert_close(cells[:, -1], last[0], **CLOSE)


def test_weight_norm_is_pytorch_s() -> None:
    ours = WeightNormConvolution(3, 5, 2, gain=4.0).double()
    theirs = torch.nn.utils.parametrizations.weight_norm(torch.nn.Conv1d(3, 5, 2).double(), dim=0)
    weights = theirs.parametrizations.weight
    with torch.no_grad():
        weights.original0.mul_(1.7)
        stored = (weights.original1.transpose(1, 2), weights.original0, theirs.bias)
        for mine, other in zip(ours.parameters(), stored, strict=True):
            mine.copy_(other)
    torch.testing.assert_close(ours.weight.transpose(1, 2), theirs.weight, **CLOSE)
    inputs = torch.randn(7, 11, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(ours(inputs), theirs(inputs.transpose(1, 2)).transpose(1, 2), **CLOSE)


# outputs


def test_attention_to_the_source(variant: str) -> None:
    model = tiny_model(variant)
    model.set_attn_implementation("eager")
    batch = ragged_batch(model.config)
    with torch.no_grad():
        out = model(**batch, output_attentions=True)
    assert not out.encoder_attentions
    assert not out.decoder_attentions
    assert len(out.cross_attentions) == (1 if variant == "lstm_seq2seq" else model.config.decoder_layers)
    for weights in out.cross_attentions:
        assert weights.shape == (BATCH, 1, TARGET, SOURCE)
        torch.testing.assert_close(weights.sum(-1), torch.ones(BATCH, 1, TARGET, dtype=torch.float64), **CLOSE)
        assert (weights.transpose(1, 3)[~batch["attention_mask"].bool()] == 0).all()
        assert weights.std(dim=2).max() > 1e-3


def test_hidden_states(variant: str) -> None:
    model = tiny_model(variant)
    with torch.no_grad():
        out = model(**ragged_batch(model.config), output_hidden_states=True)
    for states, depth, length in (
        (out.encoder_hidden_states, model.config.encoder_layers, SOURCE),
        (out.decoder_hidden_states, model.config.decoder_layers, TARGET),
    ):
        assert [state.shape for state in states] == (depth + 1) * [(BATCH, length, 6)]
        assert all((a - b).abs().max() > 1e-6 for a, b in itertools.pairwise(states))


def test_beam_scores_are_log_probabilities(variant: str) -> None:
    """Rows swap places in every step; a cache that is not reordered with them gives another score (float32's)."""
    model = tiny_model(variant, spread=0.5)
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


def test_greedy_decoding_of_the_evaluation(variant: str) -> None:
    """Its cache has room for every step from the start; a known beginning is read in one pass."""
    model = tiny_model(variant)
    source = source_of(model)
    ids, logits = greedy_decode(model, **source, num_steps=TARGET)
    read = torch.cat((torch.full((BATCH, 1), model.config.decoder_start_token_id), ids[:, :-1]), dim=1)
    with torch.no_grad():
        torch.testing.assert_close(logits, model(**source, decoder_input_ids=read).logits, **CLOSE)
    assert torch.equal(ids, logits.argmax(-1))
    again, its_logits = greedy_decode(model, **source, num_steps=TARGET, prefix=ids[:, :4])
    assert torch.equal(again, ids)
    torch.testing.assert_close(its_logits, logits, **CLOSE)


def test_a_decoder_without_attention_reads_the_last_state_alone() -> None:
    model = tiny_model("lstm_seq2seq", source_attention="none")
    batch = ragged_batch(model.config)
    with torch.no_grad():
        encoded = model.model.encoder(batch["input_ids"], batch["attention_mask"]).last_hidden_state
        expected = model(**batch).logits
        found = model(encoder_outputs=(encoded[:, -1:],), decoder_input_ids=batch["decoder_input_ids"]).logits
    torch.testing.assert_close(found, expected, **CLOSE)
    source = source_of(model)
    cached = model.generate(**source, max_new_tokens=7)
    assert torch.equal(cached, model.generate(**source, max_new_tokens=7, use_cache=False))


def test_kernels_reach_no_further() -> None:
    """A target word changes the logits of the positions whose kernels read it, and none before."""
    model = tiny_model("conv_seq2seq", decoder_layers=2, decoder_kernel_size=3)
    batch = ragged_batch(model.config)
    other = batch["decoder_input_ids"].clone()
    other[:, 2] = (other[:, 2] + 1) % model.config.vocab_size
    with torch.no_grad():
        first, second = model(**batch).logits, model(**{**batch, "decoder_input_ids": other}).logits
    changed = (first - second).abs().amax((0, 2)) > 1e-9
    assert changed.tolist() == [2 <= position <= 6 for position in range(TARGET)]


def test_more_positions_than_the_table_has() -> None:
    model = tiny_model("conv_seq2seq", max_position_embeddings=TARGET)
    batch = ragged_batch(model.config)
    assert model(**batch).logits.isfinite().all()
    longer = torch.cat((batch["decoder_input_ids"], batch["decoder_input_ids"][:, :1]), dim=1)
    with pytest.raises(ValueError, match=r"12 .*max_position_embeddings=11"):
        model(**{**batch, "decoder_input_ids": longer})
    assert (
        model(input_ids=torch.zeros(1, 9, dtype=torch.long), decoder_input_ids=longer[:1, :9]).logits.isfinite().all()
    )


def test_recurrence_has_no_longest_sequence() -> None:
    model = tiny_model("lstm_seq2seq")
    source = torch.randint(19, (1, 1201), generator=torch.Generator().manual_seed(0))
    assert model(input_ids=source, decoder_input_ids=torch.randint(17, (1, 3))).logits.isfinite().all()


# training


def test_own_words_replace_those_of_the_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows whose draw is below the probability, the labels are read; of others what decoding finds."""
    model = tiny_model("lstm_seq2seq", dropout=0.0, teacher_forcing=0.4)
    batch = labelled_batch(model.config)
    source = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    given = model.prepare_decoder_input_ids_from_labels(batch["labels"])
    words = [given[:, :1]]
    with torch.no_grad():
        for _ in range(TARGET - 1):
            logits = model(**source, decoder_input_ids=torch.cat(words, dim=1)).logits
            words.append(logits[:, -1:].argmax(-1))
    own = torch.cat(words, dim=1)
    assert (own != given).any(1).all()
    draws = torch.tensor([0.39, 0.41, 0.0, 0.9, 0.41])[:, None]
    monkeypatch.setattr(torch, "rand", lambda *shape, device: draws)
    expected = torch.where(torch.tensor([True, False, True, False, False])[:, None], given, own)
    assert torch.equal(model.train().training_input(batch["labels"], **source), expected)
    loss = model(**batch).loss
    torch.testing.assert_close(loss, model(**batch, decoder_input_ids=expected).loss, **CLOSE)
    # words are found with a cache where layers are computed twice, too
    model.activation_checkpointing_enable()
    assert torch.equal(model.training_input(batch["labels"], **source), expected)
    assert abs(loss.item() - model(**batch, decoder_input_ids=given).loss.item()) > 1e-3
    # own words that nobody reads are not looked for
    draws = torch.zeros(5, 1)
    with monkeypatch.context() as patch:
        patch.setattr(model, "predicted_input", None)
        assert torch.equal(model.training_input(batch["labels"], **source), given)
    # what is evaluated, and what is always taught, reads the labels
    assert torch.equal(model.eval().training_input(batch["labels"], **source), given)
    model.config.teacher_forcing = 1.0
    assert torch.equal(model.train().training_input(batch["labels"], **source), given)


def test_gradient_of_the_source_is_shared_by_attentions() -> None:
    """2 x layers attentions read the encoder: its gradient is divided by so many, that of its embeddings is not."""
    grads = {}
    for layers in (1, 3):
        torch.manual_seed(0)
        model = tiny_model("conv_seq2seq", decoder_layers=layers, encoder_layers=1)
        encoder = model.model.encoder
        encoder(ragged_batch(model.config)["input_ids"]).last_hidden_state[..., :6].square().sum().backward()
        grads[layers] = encoder.fc2.bias.grad
    torch.testing.assert_close(grads[1], 3 * grads[3], **CLOSE)


def test_where_dropout_is(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On embeddings; between recurrent layers; before every convolution and before the logits."""
    seen = []

    def recorded(hidden: torch.Tensor, p: float, training: bool) -> torch.Tensor:
        if training:
            seen.append((*hidden.shape[1:], p))
        return hidden

    for module in ("lstm", "modeling_lstm_seq2seq", "gated_convolution", "modeling_conv_seq2seq"):
        monkeypatch.setattr(f"hf_sysgen.models.{module}.dropout", recorded)
    changes = {"teacher_forcing": 1.0} if variant == "lstm_seq2seq" else {}
    model = tiny_model(variant, dropout=0.3, **changes).train()
    model(**labelled_batch(model.config))
    source, target, step = (SOURCE, 6, 0.3), (TARGET, 6, 0.3), (6, 0.3)
    expected = {
        "lstm_seq2seq": {source: 2, target: 1, step: TARGET},
        "conv_seq2seq": {source: 1 + 2, target: 1 + 3 + 1},
    }
    assert {place: seen.count(place) for place in seen} == expected[variant]
    seen.clear()
    model.eval()(**labelled_batch(model.config))
    assert not seen


@pytest.mark.parametrize("reentrant", [False, True], ids=["", "re-entrant"])
@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_checkpointed_gradients_are_the_same_numbers(
    variant: str, rate: float, reentrant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"teacher_forcing": 1.0} if variant == "lstm_seq2seq" else {}
    model = tiny_model(variant, dropout=rate, **changes).train()
    batch = labelled_batch(model.config)
    plain = gradients(model, batch)
    model.activation_checkpointing_enable({"use_reentrant": reentrant})
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    assert len(layers) == (2 + 1 if variant == "lstm_seq2seq" else 2 + 3)
    calls = []
    for layer in layers:
        # the first thing that a layer does
        name = "project" if variant == "lstm_seq2seq" else "prepare"
        part = next(child for child in layer.modules() if hasattr(child, name))
        original = getattr(part, name)
        monkeypatch.setattr(part, name, lambda *args, original=original: (calls.append(1), original(*args))[1])
    checkpointed = gradients(model, batch)
    # once forward, and once more on the way back
    assert len(calls) == 2 * len(layers)
    for name, gradient in plain.items():
        torch.testing.assert_close(checkpointed[name], gradient, rtol=1e-11, atol=1e-14)
    assert all(gradient.abs().max() > 0 for gradient in plain.values())


COMPILED = [
    ("conv_seq2seq", {"encoder_layers": 1, "decoder_layers": 1}),
    # as many steps as positions are traced
    ("lstm_seq2seq", {"encoder_layers": 1, "teacher_forcing": 1}),
    ("lstm_seq2seq", {"encoder_layers": 1, "teacher_forcing": 0.5}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "changes"), COMPILED, ids=str)
def test_compiles_without_a_break(name: str, changes: dict) -> None:
    torch.compiler.reset()
    model = tiny_model(name, dropout=0.0, **changes).train()
    batch = labelled_batch(model.config)
    plain = model(**batch).loss
    # a break in the graph raises
    found = torch.compile(model, fullgraph=True, backend="aot_eager")(**batch).loss
    found.backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())
    if changes.get("teacher_forcing") != 0.5:
        assert found.item() == pytest.approx(plain.item(), rel=1e-12)
    torch.compiler.reset()


# starts, counts, configurations

WIDE = {"hidden_size": 130, "vocab_size": 277, "source_vocab_size": 331, "dropout": 0.2, "encoder_layers": 2}


def expected_start(name: str) -> tuple[str, float]:
    part = name.rpartition(".")[2]
    if "embed_input" in name or ("embed_tokens" in name and "conv" in name):
        return "normal", 0.1
    if "embed_tokens" in name:
        return "normal", 1.0
    if part == "bias" and "lstm" not in name:
        return "constant", 0.0
    if part == "direction":
        if "gated" in name:
            return "normal", math.sqrt(4 * 0.8 / (5 * 130))
        return "normal", math.sqrt((0.8 if "fc1" in name or "lm_head" in name else 1.0) / 130)
    return "uniform", 1 / math.sqrt(260 if "lm_head" in name else 130)


def assert_starts_as_expected(model, but: tuple[str, ...] = ()) -> None:
    for name, parameter in model.named_parameters():
        if name in but:
            continue
        if name.endswith("length"):
            direction = model.get_parameter(name.removesuffix("length") + "direction")
            norms = direction.detach().flatten(1).norm(dim=1)
            torch.testing.assert_close(parameter.detach().flatten(), norms, rtol=1e-5, atol=0)
        else:
            assert_drawn_from(name, parameter, *expected_start(f"{model.config.model_type} {name}"))


def test_start_of_every_weight(variant: str) -> None:
    torch.manual_seed(1)
    assert_starts_as_expected(BASELINES[variant][2](tiny_config(variant, **WIDE)))


def test_start_of_what_a_checkpoint_lacks(variant: str, tmp_path) -> None:
    """Loading happens on the meta device: a parameter that nobody starts would be left-over memory."""
    BASELINES[variant][2](tiny_config(variant, **WIDE)).save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    kept = "lm_head.bias"
    save_file({kept: torch.full_like(load_file(path)[kept], 3.5)}, path, metadata={"format": "pt"})
    torch.manual_seed(2)
    model = BASELINES[variant][2].from_pretrained(tmp_path)
    assert (model.get_parameter(kept) == 3.5).all()
    assert_starts_as_expected(model, but=(kept,))


def test_number_of_parameters() -> None:
    """The papers' networks for SCAN, with 15 source and 7 target words, counted by hand."""
    with torch.device("meta"):
        lstm = BASELINES["lstm_seq2seq"][2](LstmSeq2SeqConfig())
        conv = BASELINES["conv_seq2seq"][2](ConvSeq2SeqConfig())
    cell = 4 * 100 * (100 + 100) + 2 * 4 * 100
    attention = 2 * 100 * 100 + 100 + 100
    assert lstm.num_parameters() == 100 * (14 + 7) + cell + (cell + 4 * 100 * 100) + attention + 7 * 200 + 7
    linear, convolution = 128 * 128 + 2 * 128, 256 * 128 * 5 + 2 * 256
    stack = 2 * linear + 6 * convolution + 1024 * 128
    assert conv.num_parameters() == 2 * stack + 6 * 2 * linear + 128 * (14 + 7) + 7 * 128 + 2 * 7


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("lstm_seq2seq", {"encoder_layers": 3}, "encoder_layers=3 and decoder_layers=1 must be equal"),
        ("lstm_seq2seq", {"teacher_forcing": 1.5}, "teacher_forcing=1.5 must be in [0, 1]"),
        ("lstm_seq2seq", {"tie_word_embeddings": True}, "tie_word_embeddings=True is not offered"),
        ("lstm_seq2seq", {"dropout": 1.0}, "dropout=1.0 must be in [0, 1)"),
        ("conv_seq2seq", {"tie_word_embeddings": True}, "tie_word_embeddings=True is not offered"),
        ("conv_seq2seq", {"kernel_size": 0}, "kernel_size=0 must be at least 1"),
        ("conv_seq2seq", {"max_position_embeddings": 0}, "max_position_embeddings=0 must be at least 1"),
        ("conv_seq2seq", {"source_id_offset": -1}, "source_id_offset=-1 must not be negative"),
    ],
    ids=str,
)
def test_contradictions_are_refused(name: str, changes: dict, message: str) -> None:
    with pytest.raises(StrictDataclassClassValidationError, match=re.escape(message)):
        BASELINES[name][0](**changes)


def test_positions_beyond_the_table_with_a_static_cache() -> None:
    model = tiny_model("conv_seq2seq", max_position_embeddings=TARGET)
    with pytest.raises(ValueError, match=r"12 .*max_position_embeddings=11"):
        model.model.decoder.embed_input(torch.zeros(1, 1, model.config.hidden_size), None, torch.tensor(TARGET))
