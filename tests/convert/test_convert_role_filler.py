"""The checkpoints of Chakravarthy et al. 2022 give their numbers."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from hf_sysgen.convert.authors import from_authors

FILES = [
    "a_roles_thresh_roleloss",
    "b_fillers_fillers_nothresh",
    "c_baseline_transformer",
    "d_reversed_thresh_roleloss",
    "e_reversed_nothresh",
]
PAD = 0


def load_golden(golden_dir: Path, name: str) -> SimpleNamespace:
    tensors = load_file(golden_dir / "role_filler" / f"{name}.safetensors")
    described = json.loads((golden_dir / "role_filler" / f"{name}.json").read_text())
    config, target = described["config"], tensors["in.trg"]
    source = {"input_ids": tensors["in.src"], "attention_mask": (tensors["in.src"] != PAD).long()}
    batch = {"decoder_input_ids": target[:, :-1], "labels": target[:, 1:].masked_fill(target[:, 1:] == PAD, -100)}
    if config["roles"]:
        roles = tensors["in.trg_ann"]
        source["role_ids"] = tensors["in.src_ann"]
        batch |= {"decoder_role_ids": roles[:, :-1]}
        config = {**config, "role_map": tensors["in.role_map"].tolist()}
    return SimpleNamespace(
        tensors=tensors,
        weights={key[6:]: tensor for key, tensor in tensors.items() if key.startswith("param.")},
        gradients={key[5:]: tensor for key, tensor in tensors.items() if key.startswith("grad.")},
        config=config,
        close=described["tolerance"],
        source=source,
        batch=batch,
        real=target[:, :-1] != PAD,
    )


@pytest.fixture(scope="module", params=FILES)
def golden(request: pytest.FixtureRequest, golden_dir: Path) -> SimpleNamespace:
    return load_golden(golden_dir, request.param)


def model_of(golden: SimpleNamespace, implementation: str = "sdpa"):
    model = from_authors("role_filler", golden.weights, golden.config)
    model.set_attn_implementation(implementation)
    return model


def read_as_theirs(name: str, model) -> torch.Tensor:
    def of(path: str) -> torch.Tensor:
        return model.get_parameter(f"model.{path}").grad

    width = model.config.hidden_size
    tables = ["decoder.embed_roles.weight", "decoder.embed_tokens.weight"]
    of_x, of_m = tables[::-1] if getattr(model.config, "swap_streams", False) else tables
    return {
        "embedding.x_embedding.weight": lambda: of(of_x),
        "embedding.m_embedding.weight": lambda: of(of_m),
        "encoder.layers.0.MHA.W_k.weight": lambda: of("encoder.layers.0.self_attn.qk_proj.weight")[width:],
        "decoder.layers.0.encAttn.W_xo.weight": lambda: of("decoder.layers.0.cross_attn.o_proj.role.weight"),
        "src_embedding.weight": lambda: of("encoder.embed_tokens.weight"),
        "encoder.layers.0.self_attn.in_proj_weight": lambda: of("encoder.layers.0.self_attn.qkv_proj.weight"),
        "decoder.layers.1.multihead_attn.in_proj_weight": lambda: torch.cat(
            [of(f"decoder.layers.1.cross_attn.{part}_proj.weight") for part in ("q", "kv")]
        ),
    }[name]()


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_outputs_and_gradients(golden: SimpleNamespace, implementation: str) -> None:
    model, tensors, real = model_of(golden, implementation), golden.tensors, golden.real
    assert sum(w.numel() for w in golden.weights.values()) == sum(p.numel() for p in model.parameters())
    out = model(**golden.source, **golden.batch, output_attentions=implementation == "eager")
    torch.testing.assert_close(out.logits.log_softmax(-1)[real], tensors["out.logprobs_filler"][real], **golden.close)
    torch.testing.assert_close(out.loss, tensors["out.loss"].squeeze(), **golden.close)
    if golden.config["role_loss"]:
        torch.testing.assert_close(
            out.role_logits.log_softmax(-1)[real], tensors["out.logprobs_role"][real], **golden.close
        )
        torch.testing.assert_close(out.filler_loss, tensors["out.loss_filler"].squeeze(), **golden.close)
        torch.testing.assert_close(out.role_loss, tensors["out.loss_role"].squeeze(), **golden.close)
    if implementation == "eager":
        for layer in range(golden.config["n_layers"]):
            theirs = tensors[f"attn.dec{layer}_cross"].transpose(1, -2)[real]
            ours = out.cross_attentions[layer]
            if golden.config["arch"] == "baseline":
                ours, theirs = ours.mean(1), tensors[f"attn.dec{layer}_cross"]
                torch.testing.assert_close(ours[real], theirs[real], **golden.close)
            else:
                torch.testing.assert_close(ours.transpose(1, -2)[real], theirs, **golden.close)
    out.loss.backward()
    assert golden.gradients
    for name, gradient in golden.gradients.items():
        message = lambda text, n=name: f"{n}: {text}"  # noqa: E731
        torch.testing.assert_close(read_as_theirs(name, model), gradient, **golden.close, msg=message)


@pytest.mark.parametrize("use_cache", [True, False])
def test_greedy(golden: SimpleNamespace, use_cache: bool) -> None:
    """Roles of generated words come from the map in the config; theirs ran one unpadded sentence at a time."""
    model, theirs = model_of(golden), golden.tensors["out.greedy"]
    options = {"max_new_tokens": 20, "do_sample": False, "use_cache": use_cache}
    for row, expected in enumerate(theirs.tolist()):
        length = int(golden.source["attention_mask"][row].sum())
        alone = {name: tensor[row : row + 1, :length] for name, tensor in golden.source.items()}
        found = model.generate(**alone, **options)[0].tolist()
        assert found == expected[: len(found)]
        assert set(expected[len(found) :]) <= {PAD}
    if golden.config["arch"] != "baseline":
        # a batch gives the same: the baseline reads padding, so that only there it matters
        together = model.generate(**golden.source, **options)
        assert torch.equal(together, theirs[:, : together.shape[1]])


def test_teacher_forcing_and_generation_agree(golden_dir: Path) -> None:
    """With roles that follow from words, all choices are right under teacher forcing where generation is right."""
    golden = load_golden(golden_dir, FILES[0])
    model, tensors = model_of(golden), golden.tensors
    with torch.no_grad():
        logits = model(**golden.source, **golden.batch).logits
        # the map of the config gives the roles of the files
        golden.batch.pop("decoder_role_ids")
        torch.testing.assert_close(model(**golden.source, **golden.batch).logits[golden.real], logits[golden.real])
    labels = golden.batch["labels"]
    choices = logits.argmax(-1)
    assert torch.equal(choices[labels != -100], tensors["out.teacher_forced_pred"][labels != -100])
    exact = ((choices == labels) | (labels == -100)).all(1)
    assert exact.long().tolist() == tensors["out.exact_match"].tolist()
    # targets that generation makes are right under teacher forcing
    generated = model.generate(**golden.source, max_new_tokens=20)
    with torch.no_grad():
        again = model(**golden.source, decoder_input_ids=generated[:, :-1]).logits.argmax(-1)
    real = generated[:, 1:] != PAD
    assert torch.equal(again[real], generated[:, 1:][real])


@pytest.fixture(scope="module")
def roles(golden_dir: Path) -> SimpleNamespace:
    return load_golden(golden_dir, FILES[0])


def test_config_without_a_role_map(roles: SimpleNamespace) -> None:
    config = {name: value for name, value in roles.config.items() if name != "role_map"}
    model = from_authors("role_filler", roles.weights, config)
    with torch.no_grad():
        logits = model(**roles.source, decoder_input_ids=roles.batch["decoder_input_ids"],
                       decoder_role_ids=roles.batch["decoder_role_ids"]).logits  # fmt: skip
    expected = roles.tensors["out.logprobs_filler"][roles.real]
    torch.testing.assert_close(logits.log_softmax(-1)[roles.real], expected, **roles.close)


@pytest.mark.parametrize("file", [FILES[0], FILES[2]])
@pytest.mark.parametrize("name", ["encoder.layers.0.gamma.weight", "decoder.layers.0.encAttn.W_o.weight", "pe"])
def test_unknown_parameter(golden_dir: Path, file: str, name: str) -> None:
    golden = load_golden(golden_dir, file)
    with pytest.raises(ValueError, match=rf"'{name}'.*'role_filler'"):
        from_authors("role_filler", {**golden.weights, name: torch.zeros(1)}, golden.config)


def test_unknown_arch(roles: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match=r"'lstm'.*'role_filler'.*sep, reversed, baseline"):
        from_authors("role_filler", roles.weights, {**roles.config, "arch": "lstm"})
