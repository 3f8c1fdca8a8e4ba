"""The role/filler Transformer and its baseline: loop-only version, threshold, roles, starts and counts."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from huggingface_hub.errors import StrictDataclassClassValidationError
from reference import role_filler_transformer as reference
from safetensors.torch import load_file
from test_initialisation import assert_drawn_from, constant, normal, uniform
from test_reference import copies, table
from tiny import SIZES, TARGET, VARIANTS, ragged_batch, ragged_labels, tiny_config, tiny_model
from transformers import AutoModelForSeq2SeqLM, Trainer, TrainingArguments
from transformers.testing_utils import CaptureLogger
from transformers.utils import logging

from hf_sysgen.models import (
    RoleFillerTransformerConfig,
    RoleFillerTransformerForConditionalGeneration,
    TorchTransformerConfig,
    TorchTransformerForConditionalGeneration,
)
from hf_sysgen.models.role_filler import threshold

NAME = "role_filler_transformer"
CLOSE = {"rtol": 1e-11, "atol": 1e-12}
MAP = [word % 5 for word in range(SIZES["vocab_size"])]
ROLES = {"role_vocab_size": 5, "source_role_vocab_size": 3, "role_map": MAP}
# both tables of the target have words and roles
SWAPPED = {**ROLES, "swap_streams": True, "role_vocab_size": 20}
RELATIVE = {"position_scheme": "relative"}
# one table for both languages
ONE = {"separate_tables": False, "source_vocab_size": SIZES["vocab_size"], "source_role_vocab_size": 5}
# in which a source word, from id 4 on, has the row of another number: of 23, of which target words have 17
MAPPED = {
    "separate_tables": False,
    "source_role_vocab_size": 5,
    "source_id_offset": 4,
    "source_row_map": [(7 * word + 3) % 23 for word in range(SIZES["source_vocab_size"])],
}


def reference_model(named: dict[str, torch.Tensor], config) -> dict:
    def part(name: str, rows: slice = slice(None)) -> dict[str, torch.Tensor]:
        return {weight: named[f"{name}.{weight}"][rows] for weight in ("weight", "bias")}

    def streams(name: str) -> dict[str, dict]:
        return {stream: part(f"{name}.{stream}") for stream in ("role", "filler")}

    width = config.hidden_size

    def attention(name: str) -> dict:
        joined = f"{name}.qk_proj.weight" in named
        return {
            "query": part(f"{name}.qk_proj", slice(width)) if joined else part(f"{name}.q_proj"),
            "key": part(f"{name}.qk_proj", slice(width, None)) if joined else part(f"{name}.k_proj"),
            "value": part(f"{name}.v_proj"),
            "role_out": part(f"{name}.o_proj.role"),
            "filler_out": part(f"{name}.o_proj.filler"),
        }

    def layer(prefix: str) -> dict:
        found = {name: streams(f"{prefix}.{name}") for name in ("input_norm", "self_attn_norm", "feed_forward_norm")}
        found["feed_forward"] = {
            stream: {fc: part(f"{prefix}.feed_forward.{stream}.{fc}") for fc in ("fc1", "fc2")}
            for stream in ("role", "filler")
        }
        found["self_attn"] = attention(f"{prefix}.self_attn")
        if config.position_scheme == "relative":
            found["self_attn"]["position"] = named[f"{prefix}.self_attn.pos_proj.weight"]
            found["self_attn"] |= {bias: named[f"{prefix}.self_attn.{bias}"] for bias in ("u", "v")}
        if f"{prefix}.cross_attn.q_proj.weight" in named:
            found["cross_attn"] = attention(f"{prefix}.cross_attn")
            found["cross_attn_norm"] = streams(f"{prefix}.cross_attn_norm")
        return found

    def of(side: str, name: str) -> torch.Tensor:
        # one parameter has one name
        return named.get(f"model.{side}.{name}", named.get(f"model.encoder.{name}"))

    def tables(side: str) -> dict[str, torch.Tensor]:
        # of the filler and the role stream
        pair = (of(side, "embed_tokens.weight"), of(side, "embed_roles.weight"))
        return dict(zip(("words", "roles"), pair[::-1] if config.swap_streams else pair, strict=True))

    return {
        "source": tables("encoder"),
        "target": tables("decoder"),
        "gate": {weight: of("encoder", f"embed_input.gate.{weight}") for weight in ("weight", "bias")},
        "encoder": [layer(f"model.encoder.layers.{i}") for i in range(config.encoder_layers)],
        "decoder": [layer(f"model.decoder.layers.{i}") for i in range(config.decoder_layers)],
    }


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize(
    ("limit", "changes"),
    [
        (0.15, ROLES),
        (None, ROLES | ONE),
        (None, ROLES | MAPPED),
        (0.15, {**ROLES, **RELATIVE}),
        (0.15, SWAPPED),
        (0.15, {**SWAPPED, "role_loss": False}),
    ],
    ids=["threshold", "one table", "mapped", "relative", "swapped", "swapped without role loss"],
)
def test_whole_model(implementation: str, limit: float | None, changes: dict) -> None:
    """A padded batch against one sample after the other: both losses and all gradients."""
    model = tiny_model(NAME, attention_threshold=limit, **changes)
    model.set_attn_implementation(implementation)
    config, rows = model.config, torch.tensor([0, 2, 4])
    batch, labels = ragged_batch(config), ragged_labels(config)[rows, :5]
    ids, mask = batch["input_ids"][rows], batch["attention_mask"][rows]
    role_ids = ids % config.source_role_vocab_size
    out = model(input_ids=ids, attention_mask=mask, role_ids=role_ids, labels=labels)
    out.loss.backward()

    named = copies(model)
    weights, totals, count = reference_model(named, config), [0, 0], 0
    if config.source_row_map is not None:
        ids = torch.tensor([[config.source_row_map[word - 4] for word in row] for row in ids.tolist()])
    for source, roles, real, target in zip(ids, role_ids, mask.bool(), labels, strict=True):
        words = target[target != -100].tolist()
        read = [config.decoder_start_token_id, *words[:-1]]
        # words and their roles: of the source, of what is read, of what is to be said
        pairs = [
            (source[real].tolist(), roles[real].tolist()),
            *((ids, [config.role_map[word] for word in ids]) for ids in (read, words)),
        ]
        if config.swap_streams:
            pairs[:2] = [pair[::-1] for pair in pairs[:2]]
        filler, role = reference.losses(
            *(ids for pair in pairs for ids in pair), weights, config.num_attention_heads, limit, table,
            config.position_scheme == "relative", config.swap_streams and not config.role_loss,
        )  # fmt: skip
        totals, count = [totals[0] + filler, totals[1] + role], count + len(words)
    torch.testing.assert_close(out.filler_loss, totals[0] / count, **CLOSE)
    expected = totals[0] / count
    if config.role_loss:
        torch.testing.assert_close(out.role_loss, totals[1] / count, **CLOSE)
        expected = expected + totals[1] / count
    expected.backward()
    torch.testing.assert_close(out.loss, expected, **CLOSE)
    for name, parameter in model.named_parameters():
        if named[name].grad is None:
            # the last layer's fillers, where nothing reads them
            assert not config.role_loss, name
            assert not parameter.grad.any(), name
            continue
        assert named[name].grad.abs().max() > 1e-9, name
        torch.testing.assert_close(parameter.grad, named[name].grad, **CLOSE, msg=lambda text, n=name: f"{n}: {text}")


def test_threshold_by_hand() -> None:
    weights = torch.tensor([[[[0.5, 0.25, 0.25], [0.1, 0.6, 0.3]]]], dtype=torch.float64)
    # strict: what is as large as the limit goes
    kept = torch.tensor([[[[1.0, 0.0, 0.0], [0.0, 2 / 3, 1 / 3]]]], dtype=torch.float64)
    torch.testing.assert_close(threshold(weights, 0.25, each_row=False), kept, **CLOSE)
    # one row loses everything: nothing is divided, or every other row
    bare = torch.tensor([[[[0.0, 0.0, 0.0], [0.0, 0.6, 0.0]]]], dtype=torch.float64)
    torch.testing.assert_close(threshold(weights, 0.5, each_row=False), bare, **CLOSE)
    divided = torch.tensor([[[[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]], dtype=torch.float64)
    torch.testing.assert_close(threshold(weights, 0.5, each_row=True), divided, **CLOSE)
    # a zero limit keeps all of a row
    torch.testing.assert_close(threshold(weights, 0.0, each_row=False), weights, **CLOSE)


def test_gradient_of_the_threshold_is_finite_where_a_row_is_lost() -> None:
    for each_row in (False, True):
        weights = torch.tensor([[[[0.4, 0.6], [0.5, 0.5]]]], dtype=torch.float64, requires_grad=True)
        (threshold(weights, 0.5, each_row) * torch.tensor([3.0, 7.0])).sum().backward()
        assert weights.grad.isfinite().all()
        assert (weights.grad[0, 0, 1] == 0).all()


def test_fillers_do_not_decide_where_to_look() -> None:
    """Other words with the same roles: the same attention in every layer, and other logits."""
    model = tiny_model(NAME, **ROLES)
    model.set_attn_implementation("eager")
    batch = ragged_batch(model.config)
    roles = {"role_ids": batch["input_ids"] % 3, "decoder_role_ids": batch["decoder_input_ids"] % 5}
    other = {**batch, "input_ids": (batch["input_ids"] + 3) % 19}
    other["decoder_input_ids"] = (batch["decoder_input_ids"] + 1) % 17
    with torch.no_grad():
        first, second = (model(**words, **roles, output_attentions=True) for words in (batch, other))
    for name in ("encoder_attentions", "decoder_attentions", "cross_attentions"):
        assert all(torch.equal(a, b) for a, b in zip(first[name], second[name], strict=True)), name
    assert torch.equal(first.role_logits, second.role_logits)
    assert (first.logits - second.logits).abs().min(-1).values.max() > 1e-6


def test_roles_beside_words_that_attend_are_never_read() -> None:
    """Roles-Fillers of Table 2: the authors count 34 weights without a gradient in a model of one layer each."""
    model = tiny_model(NAME, **SWAPPED | {"role_loss": False}, encoder_layers=1, decoder_layers=1)
    batch, labels = ragged_batch(model.config), ragged_labels(model.config)
    roles = batch["input_ids"] % 3
    out = model(**batch, role_ids=roles, labels=labels)
    assert torch.equal(model(**batch, role_ids=(roles + 1) % 3).logits, out.logits)
    out.loss.backward()
    # the table of roles, which is never read, makes the logits
    left = [name for name, parameter in model.named_parameters() if not parameter.grad.any()]
    assert len([name for name in left if ".layers." in name]) == 34
    assert [name for name in left if ".layers." not in name] == ["model.encoder.embed_roles.weight"]


def test_swapped_streams_need_rows_of_words_among_those_of_roles() -> None:
    with pytest.raises(StrictDataclassClassValidationError, match="role_vocab_size=5"):
        tiny_config(NAME, **SWAPPED | {"role_vocab_size": 5})


@pytest.mark.parametrize("scheme", ["absolute", "relative"])
def test_positions_are_places_or_distances(scheme: str) -> None:
    """Columns of padding before a sentence move its places, and no distance; an exchange of words moves both."""
    model = tiny_model(NAME, position_scheme=scheme, **ROLES)
    source = {"input_ids": torch.tensor([[4, 9, 2, 14]]), "role_ids": torch.tensor([[1, 0, 2, 1]])}
    target = {"decoder_input_ids": torch.tensor([[16, 3, 8]])}
    later = {name: torch.nn.functional.pad(ids, (2, 0)) for name, ids in source.items()}
    mask = torch.tensor([[0, 0, 1, 1, 1, 1]])
    other = {name: ids[:, [1, 0, 2, 3]] for name, ids in source.items()}
    with torch.no_grad():
        first = model(**source, **target).logits
        moved = model(**later, **target, attention_mask=mask).logits
        exchanged = model(**other, **target).logits
    assert torch.allclose(moved, first, **CLOSE) == (scheme == "relative")
    assert (exchanged - first).abs().amax() > 1e-6


@pytest.mark.parametrize("scheme", ["absolute", "relative"])
@pytest.mark.parametrize("beams", [1, 3])
def test_generation_derives_roles(scheme: str, beams: int, tmp_path) -> None:
    """From the map, which travels in the config; with a cache, without, and from a loaded checkpoint."""
    model = tiny_model(NAME, position_scheme=scheme, **ROLES).float()
    batch = ragged_batch(model.config)
    source = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"],
              "role_ids": batch["input_ids"] % 3}  # fmt: skip
    options = {"max_new_tokens": TARGET, "num_beams": beams}
    expected = model.generate(**source, **options)
    assert torch.equal(model.generate(**source, **options, use_cache=False), expected)
    assert torch.equal(model.generate(**source, **options, cache_implementation="static"), expected)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert loaded.config.role_map == MAP
    assert torch.equal(loaded.generate(**source, **options), expected)
    if beams == 1:
        # roles that are given are the same as those that are derived
        read = expected[:, :-1]
        with torch.no_grad():
            given = model(**source, decoder_input_ids=read, decoder_role_ids=read % 5).logits
        chosen = given.argmax(-1)
        end = model.config.eos_token_id
        for row, right in zip(chosen.tolist(), expected[:, 1:].tolist(), strict=True):
            until = right.index(end) + 1 if end in right else len(right)
            assert row[:until] == right[:until]


def test_roles_that_do_not_fit() -> None:
    model = tiny_model(NAME, **ROLES)
    batch = ragged_batch(model.config)
    with pytest.raises(ValueError, match="give role_ids"):
        model(**batch)
    with pytest.raises(ValueError, match=r"decoder_role_ids.*\(5, 3\).*\(5, 11\)"):
        model(**batch, role_ids=batch["input_ids"] % 3, decoder_role_ids=batch["decoder_input_ids"][:, :3] % 5)
    with pytest.raises(ValueError, match=r"config\.role_map.*\b17\b"):
        model.resize_token_embeddings(23)


@pytest.mark.parametrize("one", [ONE, MAPPED], ids=["ids", "map"])
def test_one_table_is_stored_once(one, tmp_path) -> None:
    model = tiny_model(NAME, **ROLES | one)
    model.float().save_pretrained(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    assert sum(t.numel() for t in stored.values()) == sum(p.numel() for p in model.parameters())
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    batch = {**ragged_batch(model.config), "role_ids": torch.ones(5, 7, dtype=torch.long)}
    assert torch.equal(loaded(**batch).logits, model(**batch).logits)
    for name in ("embed_tokens", "embed_roles"):
        assert getattr(loaded.model.encoder, name).weight is getattr(loaded.model.decoder, name).weight
    assert loaded.model.encoder.embed_input.gate.bias is loaded.model.decoder.embed_input.gate.bias
    assert loaded.lm_head.weight is loaded.model.encoder.embed_tokens.weight


def test_rows_by_a_map() -> None:
    """Source words are read from their rows, which are the target's; what no target word has is never written."""
    model = tiny_model(NAME, **ROLES | MAPPED)
    config, table = model.config, model.model.encoder.embed_tokens
    ids = torch.arange(4, 4 + config.source_vocab_size)[None]
    assert torch.equal(table(ids)[0], model.model.decoder.embed_tokens.weight[config.source_row_map])
    assert len(table.weight) == config.decoder_rows == 23
    for outside in (3, 4 + config.source_vocab_size):
        with pytest.raises(IndexError):
            table(torch.tensor([[outside]]))
    batch = {**ragged_batch(config), "role_ids": torch.ones(5, 7, dtype=torch.long)}
    assert model(**batch).logits.shape[-1] == config.vocab_size == 17
    with pytest.raises(ValueError, match=r"\b17\b.* only 17 "):
        model(**batch, labels=torch.tensor([[17]]).expand(5, 3))
    # words that are their own roles
    words = tiny_model(NAME, **MAPPED | {"source_role_vocab_size": None})
    with pytest.raises(ValueError, match=r"source_row_map.*\b19\b"):
        tiny_model(NAME, **MAPPED | {"source_id_offset": 0, "source_role_vocab_size": None}).resize_token_embeddings(30)
    assert words.config.role_vocab_size == words.config.source_role_vocab_size == 23
    assert torch.equal(words.model.encoder.default_roles(ids)[0], torch.tensor(config.source_row_map))


# starts and counts

D, FF, ROWS = 130, 218, 331


def glorot(out: int, into: int = D) -> tuple[str, float]:
    return uniform(math.sqrt(6 / (out + into)))


def expected_start(name: str, variant: str) -> tuple[str, float]:
    role_filler = variant == NAME
    if name.endswith((".u", ".v")):
        return constant(0.0)
    if "norm" in name:
        return constant(1.0 if name.endswith("weight") else 0.0)
    if "embed_tokens" in name or "embed_roles" in name or name == "lm_head.weight":
        return normal(1 / math.sqrt(D)) if role_filler else glorot(ROWS)
    if "gate" in name:
        return normal(1 / math.sqrt(D)) if name.endswith("weight") else uniform(1 / math.sqrt(D))
    if "fc1" in name or "fc2" in name:
        return glorot(FF) if name.endswith("weight") else uniform(1 / math.sqrt(D if "fc1" in name else FF))
    if name == "lm_head.bias" or role_filler:
        return uniform(1 / math.sqrt(D))
    if name.endswith("bias"):
        return constant(0.0)
    # torch's in_proj is one matrix of 3 d rows
    return glorot(D) if "o_proj" in name else glorot(3 * D)


@pytest.mark.parametrize(
    ("variant", "changes"),
    [(NAME, {}), (NAME, RELATIVE), ("torch_transformer", {})],
    ids=["roles", "relative", "torch"],
)
def test_start_of_every_weight(variant: str, changes: dict) -> None:
    torch.manual_seed(1)
    sizes = {"hidden_size": D, "intermediate_size": FF, "num_attention_heads": 5, "vocab_size": ROWS,
             "source_vocab_size": ROWS, "encoder_layers": 2, "decoder_layers": 2}  # fmt: skip
    model = VARIANTS[variant][2](tiny_config(variant, **sizes, **changes))
    for name, parameter in model.named_parameters():
        assert_drawn_from(name, parameter, *expected_start(name, variant))


def count(model_class, config) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in model_class(config).parameters())


def test_number_of_parameters() -> None:
    """Measured on the authors' code at the paper's size."""
    model_class, config_class = RoleFillerTransformerForConditionalGeneration, RoleFillerTransformerConfig
    assert count(model_class, config_class()) == 4_165_888
    assert count(model_class, config_class(vocab_size=16, source_vocab_size=16)) == 4_165_376
    assert count(TorchTransformerForConditionalGeneration, TorchTransformerConfig()) == 2_645_513


def test_padding_of_the_source_is_read_by_the_baseline() -> None:
    """As the authors ran it; `mask_memory` hides it."""
    for mask_memory in (False, True):
        model = tiny_model("torch_transformer", mask_memory=mask_memory)
        batch = ragged_batch(model.config)
        other = {**batch, "input_ids": batch["input_ids"].where(batch["attention_mask"].bool(), 1)}
        with torch.no_grad():
            changed = (model(**batch).logits - model(**other).logits).abs().amax() > 1e-9
        assert changed == (not mask_memory)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab_size": 10}, "vocab_size=10 and source_vocab_size=17 need separate_tables=True"),
        ({"source_role_vocab_size": 10}, "role_vocab_size=17 and source_role_vocab_size=10 need separate_tables"),
        ({"source_id_offset": 3}, "source_id_offset=3 needs a source_row_map or separate_tables=True"),
        ({"source_row_map": [0] * 16}, "source_row_map has 16 rows for source_vocab_size=17 words"),
        ({"source_row_map": [34] * 17}, r"source_row_map holds rows outside vocab_size \+ source_vocab_size=34"),
        ({"source_row_map": [0] * 17, "separate_tables": True}, "source_row_map says which rows are shared"),
        ({"attention_threshold": 1.0}, r"attention_threshold=1.0 must be in \[0, 1\)"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings=False"),
        ({"role_map": [0, 1]}, "role_map has 2 roles for vocab_size=17 words"),
        ({"role_map": [17] * 17}, "role_map holds roles outside role_vocab_size=17"),
        ({"role_map": [0] * 17, "source_role_map": [0]}, "source_role_map has 1 roles for source_vocab_size=17 words"),
        ({"role_map": [0] * 17, "source_role_map": [-1] * 17}, "source_role_map holds roles outside source_role"),
        ({"source_role_map": [0] * 17}, "source_role_map is given and role_map is None"),
    ],
    ids=str,
)
def test_contradictions_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(StrictDataclassClassValidationError, match=message):
        RoleFillerTransformerConfig(**changes)


@pytest.mark.parametrize("label_names", [None, ["labels", "role_labels"]], ids=str)
def test_transformers_trainer_evaluates_a_loss(label_names: list[str] | None, tmp_path: Path) -> None:
    """Without labels of roles by default; with them, by their names."""
    model = tiny_model(NAME)
    batch = {key: value for key, value in ragged_batch(model.config).items() if not key.startswith("decoder")}
    batch["labels"] = ragged_labels(model.config)
    if label_names is not None:
        # others than the default, so that a dropped column shows
        batch["role_labels"] = batch["labels"].where(batch["labels"] == -100, 1)
    args = TrainingArguments(
        str(tmp_path), label_names=label_names, use_cpu=True, report_to=[], prediction_loss_only=True, disable_tqdm=True
    )
    rows = [dict(zip(batch, row, strict=True)) for row in zip(*batch.values(), strict=True)]
    found = Trainer(model, args, eval_dataset=rows).evaluate()["eval_loss"]
    assert found == pytest.approx(model(**batch).loss.item())


def test_label_smoothing_says_that_it_leaves_out_the_role_loss(tmp_path: Path) -> None:
    model = tiny_model(NAME, role_loss=True)
    batch = {**ragged_batch(model.config), "labels": ragged_labels(model.config)}
    rows = [dict(zip(batch, row, strict=True)) for row in zip(*batch.values(), strict=True)]
    logger = logging.get_logger(RoleFillerTransformerForConditionalGeneration.__module__)
    for smoothing in (0.0, 0.1):
        logger.warning_once.cache_clear()
        args = TrainingArguments(
            str(tmp_path), label_smoothing_factor=smoothing, max_steps=1, use_cpu=True, report_to=[],
            disable_tqdm=True, save_strategy="no",
        )  # fmt: skip
        with CaptureLogger(logger) as caught:
            Trainer(model, args, train_dataset=rows).train()
        assert ("role_loss" in caught.out) == (smoothing > 0)


def test_roles_of_the_input_without_those_of_the_labels_are_refused() -> None:
    model = tiny_model(NAME)
    batch = ragged_batch(model.config)
    with pytest.raises(ValueError, match="role_labels"):
        model(**batch, decoder_role_ids=batch["decoder_input_ids"], labels=ragged_labels(model.config))


def test_roles_beside_embeddings_are_refused() -> None:
    model = tiny_model(NAME)
    batch = ragged_batch(model.config)
    embeds = torch.zeros(*batch["input_ids"].shape, 2 * SIZES["hidden_size"], dtype=torch.float64)
    with pytest.raises(ValueError, match="role_ids"):
        model(inputs_embeds=embeds, role_ids=batch["input_ids"], decoder_input_ids=batch["decoder_input_ids"])


@pytest.mark.parametrize("swapped", [False, True])
def test_generation_from_embeddings_of_words_and_roles(swapped: bool) -> None:
    """As from ids; embeddings of both streams, or those of words with the roles beside them."""
    roles = {"source_role_vocab_size": 19, "role_vocab_size": 17}
    model = tiny_model(NAME, swap_streams=swapped, **({} if swapped else roles))
    batch = ragged_batch(model.config)
    ids, mask = batch["input_ids"], batch["attention_mask"]
    encoder = model.get_encoder()

    def scores(*source, **inputs) -> torch.Tensor:
        options = {"max_new_tokens": 5, "output_logits": True, "return_dict_in_generate": True}
        return torch.stack(model.generate(*source, attention_mask=mask, **inputs, **options).logits)

    words = encoder.embed_tokens(ids)
    expected = scores(ids)
    assert (expected[:, 1:] - expected[:, :1]).abs().max() > 1e-3
    torch.testing.assert_close(scores(inputs_embeds=encoder.embed(ids, None, {})), expected, rtol=0, atol=1e-12)
    given = scores(inputs_embeds=words, role_ids=encoder.default_roles(ids))
    torch.testing.assert_close(given, expected, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="role_ids"):
        model.generate(inputs_embeds=words)
