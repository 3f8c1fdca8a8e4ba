"""T5 with one block for all depths is transformers' T5 whose blocks were replaced by its first."""

from __future__ import annotations

import functools
import json
import math
import re
from pathlib import Path

import pytest
import torch
from edge_tiny import BATCH, LENGTHS, NODES, T5, TARGET, edge_batch, tiny_edge
from huggingface_hub.errors import StrictDataclassClassValidationError
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, T5Config, T5ForConditionalGeneration

from hf_sysgen.models import UniversalT5TransformerConfig, UniversalT5TransformerForConditionalGeneration

NAME = "universal t5"
STEPS = 13
EXACT = {"rtol": 0.0, "atol": 1e-12}
ENDS = {"pad_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 0}
HEADS, WIDTH = T5["num_attention_heads"], T5["hidden_size"]
DEPTH = T5["decoder_layers"]


def their_config(**changes) -> T5Config:
    """Of the sizes in `edge_tiny`, under T5's names."""
    sizes = {
        "vocab_size": T5["vocab_size"], "d_model": WIDTH, "d_kv": WIDTH // HEADS, "d_ff": T5["intermediate_size"],
        "num_heads": HEADS, "num_layers": T5["encoder_layers"], "num_decoder_layers": DEPTH, "dropout_rate": 0.1,
        "relative_attention_num_buckets": T5["relative_attention_num_buckets"],
        "relative_attention_max_distance": T5["relative_attention_max_distance"],
    }  # fmt: skip
    return T5Config(**{**sizes, **ENDS, **changes})


def replaced_by_the_first(model: T5ForConditionalGeneration) -> T5ForConditionalGeneration:
    """As cfq/train.py:163-169 of the authors does it. What such a model caches is wrong: all depths have one slot."""
    for stack in (model.encoder, model.decoder):
        for index in range(1, len(stack.block)):
            stack.block[index] = stack.block[0]
    return model


def theirs_and_ours(model=None, **changes):
    """The authors' form and ours of the same weights, those of a model or scattered, in evaluation mode and float64."""
    ours = model or tiny_edge(NAME, **changes)
    names = {"dropout_rate": ours.config.dropout, "num_layers": ours.config.encoder_layers}
    names["num_decoder_layers"] = ours.config.decoder_layers
    theirs = replaced_by_the_first(T5ForConditionalGeneration(their_config(**names))).double().eval()
    weights = dict(ours.named_parameters())
    assert list(weights) == [name for name, _ in theirs.named_parameters()]
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            parameter.copy_(weights[name])
    return theirs, ours


def untied(model) -> T5ForConditionalGeneration:
    """transformers' T5 with a copy of the first block's weights at each depth."""
    separate = T5ForConditionalGeneration(their_config()).double().eval()
    stored = model.state_dict()
    # only the first block has biases for distances
    first = {name: re.sub(r"\.block\.\d+\.", ".block.0.", name) for name in separate.state_dict()}
    separate.load_state_dict({name: stored[source] for name, source in first.items()})
    blocks = separate.decoder.block
    assert blocks[1].layer[-1].DenseReluDense.wi.weight is not blocks[0].layer[-1].DenseReluDense.wi.weight
    return separate


@functools.cache
def taught() -> dict[str, torch.Tensor]:
    """Weights that write different words: random ones repeat one for ever, so these learn a target for each source."""
    model, batch = tiny_edge(NAME), edge_batch(NAME, labels=False)
    generator = torch.Generator().manual_seed(5)
    labels = torch.randint(3, T5["vocab_size"], (BATCH, STEPS), generator=generator)
    labels[1, 4] = labels[2, 7] = ENDS["eos_token_id"]
    labels[1, 5:] = labels[2, 8:] = -100
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(200):
        optimizer.zero_grad()
        model(**batch, labels=labels).loss.backward()
        optimizer.step()
    return model.state_dict()


def writer(**changes):
    model = tiny_edge(NAME, **changes)
    model.load_state_dict(taught())
    return model


def gradients(model, batch: dict, seed: int = 0) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    model.zero_grad()
    model(**batch, use_cache=False).loss.backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def target_of(length: int = TARGET) -> torch.Tensor:
    return torch.randint(T5["vocab_size"], (BATCH, length), generator=torch.Generator().manual_seed(3))


def assert_words_vary(rows: torch.Tensor) -> None:
    assert len({tuple(row) for row in rows.tolist()}) == len(rows)
    assert len(set(rows.flatten().tolist())) > 5


@pytest.fixture
def source() -> dict[str, torch.Tensor]:
    return edge_batch(NAME, labels=False)


# the same numbers as transformers' T5


@pytest.mark.parametrize("depths", [{}, {"encoder_layers": 1, "decoder_layers": 3}], ids=str)
def test_outputs_losses_and_gradients(depths: dict) -> None:
    theirs, ours = theirs_and_ours(**depths)
    batch = edge_batch(NAME)
    with torch.no_grad():
        found, expected = ours(**batch, use_cache=False), theirs(**batch, use_cache=False)
    for name in ("loss", "logits", "encoder_last_hidden_state"):
        torch.testing.assert_close(found[name], expected[name], **EXACT)
    expected_gradients = gradients(theirs, batch)
    for name, gradient in gradients(ours, batch).items():
        torch.testing.assert_close(gradient, expected_gradients[name], **EXACT, msg=name)
        assert gradient.abs().max() > 1e-8, name


def test_the_same_dropout() -> None:
    theirs, ours = theirs_and_ours(dropout=0.25)
    batch = edge_batch(NAME)
    expected = gradients(theirs.train(), batch, seed=7)
    found = gradients(ours.train(), batch, seed=7)
    plain = gradients(ours.eval(), batch)
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, expected[name], **EXACT, msg=name)
        assert not torch.equal(gradient, plain[name]), name


def test_the_same_start() -> None:
    """From one seed, the first blocks of both draw the same numbers."""
    torch.manual_seed(5)
    theirs = replaced_by_the_first(T5ForConditionalGeneration(their_config()))
    torch.manual_seed(5)
    ours = UniversalT5TransformerForConditionalGeneration(UniversalT5TransformerConfig(**T5))
    for name, parameter in theirs.named_parameters():
        assert torch.equal(ours.get_parameter(name), parameter), name


def test_start_of_what_a_checkpoint_lacks(tmp_path: Path) -> None:
    """As T5's, where it is loaded without most of its weights."""
    config = UniversalT5TransformerConfig(vocab_size=277, hidden_size=130, num_attention_heads=2)
    UniversalT5TransformerForConditionalGeneration(config).save_pretrained(tmp_path)
    path, kept = tmp_path / "model.safetensors", "decoder.final_layer_norm.weight"
    save_file({kept: torch.full_like(load_file(path)[kept], 3.5)}, path, metadata={"format": "pt"})
    torch.manual_seed(2)
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    sizes = {"vocab_size": 277, "d_model": 130, "d_kv": 65, "d_ff": 520, "num_heads": 2, "num_layers": 4}
    theirs = dict(T5ForConditionalGeneration(their_config(**sizes, num_decoder_layers=4)).named_parameters())
    named = dict(model.named_parameters())
    assert (named.pop(kept) == 3.5).all()
    for name, parameter in named.items():
        if "norm" in name:
            assert (parameter == 1).all(), name
        else:
            # 64 biases tell their spread less well than thousands of weights
            close = 0.3 if "bias" in name else 0.05
            assert parameter.std().item() == pytest.approx(theirs[name].std().item(), rel=close), name


def test_the_same_greedy_words(source: dict) -> None:
    theirs, ours = theirs_and_ours(writer())
    options = {"max_new_tokens": STEPS, "do_sample": False}
    expected = theirs.generate(**source, **options, use_cache=False)
    assert_words_vary(expected)
    for use_cache in (True, False):
        assert torch.equal(ours.generate(**source, **options, use_cache=use_cache), expected)


def test_t5_small_is_the_default() -> None:
    """What the authors leave as it is (config.json of google-t5/t5-small), and the sizes that they set."""
    ours, theirs = UniversalT5TransformerConfig(), T5Config()
    same = ["relative_attention_num_buckets", "relative_attention_max_distance", "dropout_rate", "layer_norm_epsilon"]
    same += ["initializer_factor", "dense_act_fn", "is_gated_act", "scale_decoder_outputs", "tie_word_embeddings"]
    for name in same:
        assert getattr(ours, name) == getattr(theirs, name), name
    assert (ours.d_model, ours.d_kv, ours.d_ff, ours.num_heads) == (256, 32, 1024, 8)
    assert (ours.num_layers, ours.num_hidden_layers, ours.num_decoder_layers) == (4, 4, 4)
    assert json.loads(ours.to_json_string())["encoder_layers"] == 4


# the cache, in which each depth has a place of its own


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("pieces", [[1] * 11, [5, 1, 3, 2], [1, 10], [11]], ids=str)
@torch.no_grad()
def test_cache_gives_the_logits_of_the_whole_prefix(source: dict, pieces: list[int], implementation: str) -> None:
    ours, target = tiny_edge(NAME), target_of(11)
    ours.set_attn_implementation(implementation)
    whole = ours(**source, decoder_input_ids=target, use_cache=False).logits
    for model in (ours, untied(ours)):
        logits, cache, encoded = [], None, model.get_encoder()(**source)
        for piece in target.split(pieces, dim=1):
            out = model(
                attention_mask=source["attention_mask"], encoder_outputs=encoded, decoder_input_ids=piece,
                cache=cache, use_cache=True,
            )  # fmt: skip
            cache = out.cache
            logits.append(out.logits)
        torch.testing.assert_close(torch.cat(logits, dim=1), whole, **EXACT)


@torch.no_grad()
def test_cache_has_a_slot_for_every_depth(source: dict) -> None:
    ours, target = tiny_edge(NAME), target_of()
    cache, expected = (model(**source, decoder_input_ids=target).cache for model in (ours, untied(ours)))
    for part, length in (("self_attention_cache", TARGET), ("cross_attention_cache", NODES)):
        layers = getattr(cache, part).layers
        assert len(layers) == DEPTH
        for layer, other in zip(layers, getattr(expected, part).layers, strict=True):
            assert layer.keys.shape == layer.values.shape == (BATCH, HEADS, length, WIDTH // HEADS)
            torch.testing.assert_close(layer.keys, other.keys, **EXACT)
            torch.testing.assert_close(layer.values, other.values, **EXACT)
    first, second = cache.self_attention_cache.layers
    assert (first.keys - second.keys).abs().max() > 1e-6


@pytest.mark.parametrize("options", [{}, {"cache_implementation": "static"}, {"use_cache": False}], ids=str)
@pytest.mark.parametrize("beams", [1, 3])
def test_generation_is_that_of_separate_blocks(source: dict, beams: int, options: dict) -> None:
    ours = writer()
    wanted = {"max_new_tokens": STEPS, "num_beams": beams, "num_return_sequences": beams}
    expected = untied(ours).generate(**source, **wanted)
    assert_words_vary(expected)
    assert torch.equal(ours.generate(**source, **wanted, **options), expected)


def test_rows_do_not_depend_on_their_batch(source: dict) -> None:
    ours = writer()
    together = ours.generate(**source, max_new_tokens=STEPS)
    for row, length in enumerate(LENGTHS):
        alone = {name: value[row : row + 1, :length] for name, value in source.items()}
        words = ours.generate(**alone, max_new_tokens=STEPS)[0]
        assert torch.equal(together[row, : len(words)], words)
        assert (together[row, len(words) :] == ENDS["pad_token_id"]).all()


@torch.no_grad()
def test_no_cache_with_labels(source: dict) -> None:
    ours = tiny_edge(NAME)
    assert ours(**edge_batch(NAME)).cache is None
    assert ours(**source, decoder_input_ids=target_of(), use_cache=False).cache is None


# losses


def test_two_halves_with_the_number_of_items_are_the_batch() -> None:
    ours, batch = tiny_edge(NAME), edge_batch(NAME)
    whole = gradients(ours, batch)
    items = int((batch["labels"] != -100).sum())
    ours.zero_grad()
    for part in (slice(0, 1), slice(1, None)):
        half = {name: value[part] for name, value in batch.items()}
        ours(**half, num_items_in_batch=items).loss.backward()
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(parameter.grad, whole[name], **EXACT)


@torch.no_grad()
def test_outputs_as_a_tuple() -> None:
    ours, batch = tiny_edge(NAME), edge_batch(NAME)
    expected = ours(**batch)
    loss, logits, *_ = ours(**batch, return_dict=False)
    assert torch.equal(loss, expected.loss)
    assert torch.equal(logits, expected.logits)


def test_labels_that_no_row_has() -> None:
    ours, batch = tiny_edge(NAME), edge_batch(NAME)
    batch["labels"][0, 0] = T5["vocab_size"]
    with pytest.raises(ValueError, match=r"labels .*\b17\b"):
        ours(**batch)


# what is stored


def test_one_block_is_stored(tmp_path: Path) -> None:
    """However deep, also where a depth has two digits."""
    norm = {"layer_norm": [6]}
    attention = {name: [6, 6] for name in "qkvo"}
    feed_forward = {"DenseReluDense.wi": [13, 6], "DenseReluDense.wo": [6, 13], **norm}
    bias = {"SelfAttention.relative_attention_bias": [8, 2]}
    own = {f"SelfAttention.{name}": shape for name, shape in attention.items()} | bias | norm
    cross = {f"EncDecAttention.{name}": shape for name, shape in attention.items()} | norm
    names = {"shared": [17, 6]}
    for side, parts in (("encoder", (own, feed_forward)), ("decoder", (own, cross, feed_forward))):
        names[f"{side}.final_layer_norm"] = [6]
        names |= {
            f"{side}.block.0.layer.{index}.{name}": shape
            for index, part in enumerate(parts)
            for name, shape in part.items()
        }
    model = tiny_edge(NAME, encoder_layers=12, decoder_layers=2)
    model.save_pretrained(tmp_path)
    stored = {name: list(tensor.shape) for name, tensor in load_file(tmp_path / "model.safetensors").items()}
    assert stored == {f"{name}.weight": shape for name, shape in names.items()}
    assert model.num_parameters() == sum(math.prod(shape) for shape in stored.values())
    loaded, loading = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(loading.values())
    assert len(loaded.encoder.block) == len(list(loaded.encoder.block)) == 12
    assert repr(loaded).count("T5Block") == 2
    batch = edge_batch(NAME)
    with torch.no_grad():
        torch.testing.assert_close(loaded(**batch).loss, model(**batch).loss, rtol=0, atol=1e-5)


def test_more_words(tmp_path: Path) -> None:
    model = tiny_edge(NAME)
    model.resize_token_embeddings(23)
    assert model.config.vocab_size == 23
    assert model.lm_head.weight is model.shared.weight is model.encoder.embed_tokens.weight
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert loaded(input_ids=torch.tensor([[22]]), labels=torch.tensor([[21, 2]])).logits.shape == (1, 2, 23)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 7}, "hidden_size=7 is not a multiple of num_attention_heads=2"),
        ({"encoder_layers": 0}, "encoder_layers=0 must be at least 1"),
        ({"dropout": 1.0}, r"dropout=1.0 must be in \[0, 1\)"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings=False is not offered"),
        ({"relative_attention_num_buckets": 3}, "relative_attention_num_buckets=3 must be at least 4"),
        ({"relative_attention_max_distance": 4}, "relative_attention_max_distance=4 must be greater than half of .*=8"),
    ],
)
def test_contradictions(changes: dict, message: str) -> None:
    with pytest.raises(StrictDataclassClassValidationError, match=message):
        UniversalT5TransformerConfig(**{**T5, **changes})


@pytest.mark.slow
def test_compiles_without_a_break() -> None:
    torch.compiler.reset()
    model, batch = tiny_edge(NAME, dropout=0.0).train(), edge_batch(NAME)
    expected = gradients(model, batch)
    model.zero_grad()
    # a break in the graph raises
    torch.compile(model, fullgraph=True, backend="aot_eager")(**batch).loss.backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name], **EXACT)
    torch.compiler.reset()
