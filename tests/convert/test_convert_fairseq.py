"""fairseq's checkpoints give fairseq's numbers."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from transformers.trainer_pt_utils import LabelSmoother

from hf_sysgen.convert.authors import from_authors
from hf_sysgen.convert.fairseq import EOS, PAD
from hf_sysgen.evaluation.translation import fairseq_generation_kwargs

FILES = ["a_plain_postnorm", "b_derived_sag_t5_postnorm"]
IMPLEMENTATIONS = ["eager", "sdpa"]


def load_golden(golden_dir: Path, name: str) -> SimpleNamespace:
    tensors = load_file(golden_dir / "sag" / f"{name}.safetensors")
    described = json.loads((golden_dir / "sag" / f"{name}.json").read_text())
    return SimpleNamespace(
        tensors=tensors,
        weights={key[6:]: tensor for key, tensor in tensors.items() if key.startswith("param.")},
        config=described["config"],
        hypotheses=described["hyps"],
        close=described["tolerance"],
        source={"input_ids": tensors["in.src"], "attention_mask": (tensors["in.src"] != 1).long()},
        labels=tensors["in.target"].masked_fill(tensors["in.target"] == 1, -100),
    )


@pytest.fixture(scope="module", params=FILES)
def golden(request: pytest.FixtureRequest, golden_dir: Path) -> SimpleNamespace:
    return load_golden(golden_dir, request.param)


def model_of(golden: SimpleNamespace, implementation: str = "sdpa"):
    model = from_authors("fairseq_sag", golden.weights, golden.config)
    model.set_attn_implementation(implementation)
    return model


def test_every_file_is_known(golden_dir: Path) -> None:
    assert {path.stem for path in (golden_dir / "sag").glob("*.safetensors")} == set(FILES)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_outputs_and_gradients(golden: SimpleNamespace, implementation: str) -> None:
    model, tensors = model_of(golden, implementation), golden.tensors
    out = model(**golden.source, decoder_input_ids=tensors["in.prev"], labels=golden.labels, output_hidden_states=True)
    real, words = golden.source["attention_mask"].bool(), tensors["in.prev"] != 1
    torch.testing.assert_close(out.encoder_hidden_states[1][real], tensors["mid.enc_layer0"][real], **golden.close)
    torch.testing.assert_close(out.encoder_last_hidden_state[real], tensors["mid.enc_out"][real], **golden.close)
    torch.testing.assert_close(out.logits[words], tensors["out.logits"][words], **golden.close)
    tokens = tensors["out.ntokens"]
    assert tokens.item() == (golden.labels != -100).sum()
    torch.testing.assert_close(out.loss * tokens, tensors["out.loss_sum_nll"], **golden.close)
    # transformers' label smoothing is fairseq's: the mean over all words includes the right one
    loss = LabelSmoother(golden.config["label_smoothing"])({"logits": out.logits}, golden.labels)
    torch.testing.assert_close(loss * tokens, tensors["out.loss_sum_smoothed"], **golden.close)
    loss.backward()
    names = {
        "encoder.embed_tokens.weight": ("encoder.embed_tokens.weight", slice(None)),
        "encoder.layers.0.self_attn.q_proj.weight": ("encoder.layers.0.self_attn.qkv_proj.weight", slice(0, 32)),
        "decoder.layers.1.encoder_attn.k_proj.weight": ("decoder.layers.1.cross_attn.kv_proj.weight", slice(0, 32)),
        "encoder.layers.0.beta": ("encoder.layers.0.self_attn_gate.beta", ...),
        "decoder.layers.1.rel_bias": ("decoder.layers.1.self_attn.distance_bias", slice(None)),
        "encoder.layers.1.self_attn.v_proj.weight": ("encoder.layers.1.self_attn.qkv_proj.weight", slice(48, 72)),
    }
    for name in golden.config["grads"]:
        ours, rows = names[name]
        gradient = model.get_parameter(f"model.{ours}").grad[rows]
        if name == "encoder.embed_tokens.weight":
            # their padding id has a row, which nothing of ours reads either
            assert (gradient[1] == 0).all()
        torch.testing.assert_close(gradient, tensors[f"grad.{name}"], **golden.close)


@pytest.mark.parametrize("use_cache", [True, False])
def test_search(golden: SimpleNamespace, use_cache: bool) -> None:
    """Greedy and beam search with both length penalties: tokens, and scores for beam search."""
    model = model_of(golden)
    for run, expected in golden.hypotheses.items():
        beams, penalty = run.removeprefix("beam").split("_lenpen")
        settings = fairseq_generation_kwargs(EOS, int(beams), float(penalty), max_length=16)
        out = model.generate(
            **golden.source, **settings, suppress_tokens=[PAD], use_cache=use_cache, return_dict_in_generate=True,
            output_scores=True,
        )  # fmt: skip
        # the start, which is the end symbol, then a target up to its end
        rows = out.sequences[:, 1:].tolist()
        assert [row[: row.index(2) + 1] for row in rows] == expected, run
        if int(beams) > 1:
            torch.testing.assert_close(out.sequences_scores, golden.tensors[f"out.score_{run}"], **golden.close)


@pytest.fixture(scope="module")
def plain(golden_dir: Path) -> SimpleNamespace:
    return load_golden(golden_dir, FILES[0])


def test_weights_of_a_pre_norm_model_with_one_table(plain: SimpleNamespace) -> None:
    """Parameters that the golden files lack: norms after the stacks, and a shared embedding under three names."""
    ends = [f"{side}.layer_norm.{part}" for side in ("encoder", "decoder") for part in ("weight", "bias")]
    norms = {name: torch.rand(32) for name in ends}
    table = plain.weights["encoder.embed_tokens.weight"]
    tables = {f"{name}.weight": table for name in
              ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection")}  # fmt: skip
    arch = {
        **plain.config["arch"],
        "encoder_normalize_before": True,
        "decoder_normalize_before": True,
        "share_all_embeddings": True,
    }
    model = from_authors("fairseq_sag", {**plain.weights, **norms, **tables}, {"arch": arch})
    for name, expected in norms.items():
        assert torch.equal(model.get_parameter(f"model.{name.replace('layer_norm', 'final_norm')}"), expected)
    assert model.lm_head.weight is model.model.encoder.embed_tokens.weight
    assert torch.equal(model.lm_head.weight, table)
    assert model.config.dropout == 0.1
    assert model.config.attention_dropout == 0.0
    assert (model.config.pad_token_id, model.config.eos_token_id, model.config.decoder_start_token_id) == (1, 2, 2)


def test_what_fairseq_stores_besides_weights_is_left_out(plain: SimpleNamespace) -> None:
    extra = {"encoder.version": torch.tensor([3.0]), "decoder.embed_positions._float_tensor": torch.zeros(1)}
    model = from_authors("fairseq_sag", {**plain.weights, **extra}, plain.config)
    assert len(model.state_dict()) == len(model_of(plain).state_dict())


@pytest.mark.parametrize(
    "name",
    [
        "encoder.layers.0.self_attn.in_proj_weight",
        "encoder.layers.0.gamma",
        "encoder.layers.0.fc3.weight",
        "encoder.embed_positions.weight",
        "encoder.layer_norm.scale",
    ],
)
def test_unknown_parameter(plain: SimpleNamespace, name: str) -> None:
    with pytest.raises(ValueError, match=rf"'{name}'.*'fairseq_sag'"):
        from_authors("fairseq_sag", {**plain.weights, name: torch.zeros(1)}, plain.config)


def test_unknown_kind(plain: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match=r"'lstm'.*'fairseq_sag'.*none, gate"):
        from_authors("fairseq_sag", plain.weights, {**plain.config, "derived": {"kind": "lstm"}})


@pytest.mark.parametrize(
    "arch",
    [
        {"activation_fn": "gelu"},
        {"no_scale_embedding": True},
        {"no_token_positional_embeddings": True},
        {"encoder_layers_to_keep": "0"},
        {"encoder_embed_dims": 32},
    ],
)
def test_arguments_that_are_not_offered(plain: SimpleNamespace, arch: dict) -> None:
    with pytest.raises(ValueError, match=rf"'fairseq_sag'.*{next(iter(arch))}"):
        from_authors("fairseq_sag", plain.weights, {**plain.config, "arch": {**plain.config["arch"], **arch}})


def test_arguments_that_change_nothing(plain: SimpleNamespace) -> None:
    arch = {"activation_fn": "relu", "no_scale_embedding": False, "encoder_layers_to_keep": None, "lr": [5e-4],
            "adaptive_softmax_cutoff": None, "encoder_layerdrop": 0.2, "decoder_output_dim": 32}  # fmt: skip
    model = from_authors("fairseq_sag", plain.weights, {**plain.config, "arch": {**plain.config["arch"], **arch}})
    assert model.state_dict().keys() == model_of(plain).state_dict().keys()


def test_dropout_inside_of_old_checkpoints(plain: SimpleNamespace) -> None:
    """Old name relu_dropout, which fairseq reads if activation_dropout is 0 or missing."""
    for arch, expected in (({"relu_dropout": 0.2}, 0.2), ({"relu_dropout": 0.2, "activation_dropout": 0.1}, 0.1)):
        model = from_authors("fairseq_sag", plain.weights, {"arch": {**plain.config["arch"], **arch}})
        assert model.config.activation_dropout == expected


def test_tables_that_are_not_one(plain: SimpleNamespace) -> None:
    """Trained weights are not dropped if an argument wrongly says that they are shared."""
    same_size = {"encoder.embed_tokens.weight": plain.weights["decoder.embed_tokens.weight"] + 1}
    for flag, first, other in (
        ("share_decoder_input_output_embed", "decoder.embed_tokens", "decoder.output_projection"),
        ("share_all_embeddings", "encoder.embed_tokens", "decoder.embed_tokens"),
    ):
        with pytest.raises(ValueError, match=f"{flag} .*{other}.weight .*{first}.weight"):
            from_authors("fairseq_sag", {**plain.weights, **same_size}, {"arch": {**plain.config["arch"], flag: True}})


@pytest.mark.parametrize("kind", ["span", "fixed_span", "t5"])
def test_kinds_with_a_span_need_it(plain: SimpleNamespace, kind: str) -> None:
    with pytest.raises(ValueError, match=r"'fairseq_sag'.*'span'"):
        from_authors("fairseq_sag", plain.weights, {**plain.config, "derived": {"kind": kind}})


def test_missing_weights(plain: SimpleNamespace) -> None:
    name = "decoder.layers.1.encoder_attn.v_proj.weight"
    weights = {key: weight for key, weight in plain.weights.items() if key != name}
    with pytest.raises(ValueError, match=f"'{name}'"):
        from_authors("fairseq_sag", weights, plain.config)
    with pytest.raises(ValueError, match=r"[\s\S]*self_attn_gate.beta"):
        from_authors("fairseq_sag", plain.weights, {**plain.config, "derived": {"kind": "gate"}})
    with pytest.raises(ValueError, match="'arch'"):
        from_authors("fairseq_sag", plain.weights, {})
