"""Depth-width decoders equal their loop-only version, outputs and all gradients, and answers computed by hand."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from depth_width_tiny import LENGTHS, VARIANTS, ragged_labels, ragged_mask, random_ids, tiny_decoder
from reference import depth_width as reference
from torch import nn
from transformers import T5Config
from transformers.models.t5.modeling_t5 import T5Attention

from hf_sysgen.models import DepthWidthConfig
from hf_sysgen.models.causal_positions import BucketedBias, apply_rotary, rotary_angles
from hf_sysgen.models.modeling_depth_width_decoder import RMSNorm

# sums of at most a few hundred float64 numbers, several layers deep
CLOSE = {"rtol": 1e-10, "atol": 1e-12}


def weights_of(named: dict[str, torch.Tensor], config: DepthWidthConfig) -> tuple[dict, dict]:
    """Our parameters, and the configuration, in the reference's dictionaries."""
    layers = []
    for depth in range(config.num_hidden_layers):
        prefix = f"model.layers.{0 if config.share_layers else depth}."
        query, key, value = named[f"{prefix}self_attn.qkv_proj.weight"].chunk(3)
        gate, up = named[f"{prefix}feed_forward.gate_up_proj.weight"].chunk(2)
        layers.append(
            {
                "query": query, "key": key, "value": value, "merge": named[f"{prefix}self_attn.o_proj.weight"],
                "gate": gate, "up": up, "down": named[f"{prefix}feed_forward.down_proj.weight"],
                "attention_norm": named[f"{prefix}self_attn_norm.weight"],
                "feed_forward_norm": named[f"{prefix}feed_forward_norm.weight"],
            }
        )  # fmt: skip
    rows = named["model.embed_tokens.weight"]
    output = named.get("lm_head.weight", rows)
    model = {"rows": rows, "output": output, "norm": named["model.final_norm.weight"], "layers": layers}
    act = {"gelu": reference.gelu, "silu": reference.silu}[config.hidden_act]
    options = {"heads": config.num_attention_heads, "epsilon": config.rms_norm_eps, "act": act}
    if config.position_scheme == "rotary":
        options["base"] = config.rotary_base
    else:
        options |= {"bias": named["model.relative_bias.weight"], "maximum": config.relative_max_distance}
    return model, options


@pytest.mark.parametrize(
    ("variant", "changes", "implementation"),
    [
        *[(variant, {}, "sdpa") for variant in VARIANTS],
        # every other option at once
        (
            "rotary",
            {"hidden_act": "silu", "tie_word_embeddings": True, "rotary_base": 50, "rms_norm_eps": 0.1},
            "eager",
        ),
    ],
    ids=str,
)
def test_loss_and_gradients(variant: str, changes: dict, implementation: str) -> None:
    model = tiny_decoder(variant, **changes)
    model.set_attn_implementation(implementation)
    named = {name: parameter.detach().clone().requires_grad_() for name, parameter in model.named_parameters()}
    ids = random_ids()
    labels = ragged_labels(ids)
    rows = [
        (row[:length], label[:length])
        for row, label, length in zip(ids.tolist(), labels.tolist(), LENGTHS, strict=True)
    ]
    expected = reference.loss(rows, *weights_of(named, model.config))
    found = model(ids, attention_mask=ragged_mask("right"), labels=labels).loss
    torch.testing.assert_close(found, expected, **CLOSE)
    found.backward()
    expected.backward()
    for name, parameter in model.named_parameters():
        theirs = named[name].grad
        assert theirs.abs().max() > 1e-6, f"{name} is not used: the comparison would say nothing"
        torch.testing.assert_close(parameter.grad, theirs, **CLOSE, msg=lambda text, n=name: f"{n}: {text}")


@pytest.mark.parametrize("variant", VARIANTS)
def test_logits(variant: str) -> None:
    model = tiny_decoder(variant)
    ids = random_ids()
    with torch.no_grad():
        named = dict(model.named_parameters())
        logits = model(ids).logits
        for row in (0, 3):
            expected = reference.decoder(ids[row].tolist(), *weights_of(named, model.config))
            torch.testing.assert_close(logits[row], expected, **CLOSE)


def test_rotary_positions_by_hand() -> None:
    """Base 4 and width 4: the pairs rotate by 1 and 1/2 radians per position."""
    angles = rotary_angles(torch.arange(5, 8), 4, 4.0, like=torch.zeros((), dtype=torch.float64))
    cosines, sines = angles[:, 2, 0]
    torch.testing.assert_close(cosines, torch.tensor([math.cos(7), math.cos(3.5)]).double(), rtol=1e-6, atol=0)
    torch.testing.assert_close(sines, torch.tensor([math.sin(7), math.sin(3.5)]).double(), rtol=1e-6, atol=0)
    query = apply_rotary(torch.tensor([1.0, 2.0, 3.0, 5.0], dtype=torch.float64).expand(1, 3, 1, 4), *angles)
    expected = [
        math.cos(7) - 3 * math.sin(7), 2 * math.cos(3.5) - 5 * math.sin(3.5),
        3 * math.cos(7) + math.sin(7), 5 * math.cos(3.5) + 2 * math.sin(3.5),
    ]  # fmt: skip
    torch.testing.assert_close(query[0, 2, 0], torch.tensor(expected, dtype=torch.float64), rtol=1e-14, atol=0)


@pytest.mark.parametrize(("buckets", "maximum"), [(32, 128), (6, 7), (2, 3), (10, 1000)])
def test_buckets(buckets: int, maximum: int) -> None:
    bias = BucketedBias(DepthWidthConfig(relative_buckets=buckets, relative_max_distance=maximum))
    distances = torch.arange(3 * maximum)
    found = bias.buckets(distances).tolist()
    assert found == [reference.bucket(distance, buckets, maximum) for distance in distances.tolist()]
    assert sorted(set(found)) == list(range(buckets))
    # T5's own, which counts in float32 and may put a distance at the very edge of a range elsewhere
    theirs = T5Attention._relative_position_bucket(-distances, False, buckets, maximum).tolist()
    different = [distance for distance in distances.tolist() if found[distance] != theirs[distance]]
    edges = [buckets // 2 * (maximum / (buckets // 2)) ** (step / (buckets // 2)) for step in range(buckets)]
    assert all(min(abs(distance - edge) for edge in edges) < 1e-6 for distance in different)
    assert isinstance(T5Attention(T5Config(), has_relative_attention_bias=True).relative_attention_bias, nn.Embedding)


def test_biases_follow_the_distance() -> None:
    bias = BucketedBias(DepthWidthConfig(num_attention_heads=2, relative_buckets=4, relative_max_distance=9))
    with torch.no_grad():
        bias.weight.copy_(torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]))
    found = bias(torch.arange(3, 5), torch.arange(5))
    # queries at 3 and 4; ranges of distances 2-4 and from 5 on (edge at 2 sqrt(4.5) = 4.24); later keys as distance 0
    assert found[0, 0].tolist() == [[3.0, 3.0, 2.0, 1.0, 1.0], [3.0, 3.0, 3.0, 2.0, 1.0]]
    assert found[0, 1].tolist() == [[7.0, 7.0, 6.0, 5.0, 5.0], [7.0, 7.0, 7.0, 6.0, 5.0]]
    assert bias(torch.tensor([9]), torch.arange(10))[0, 0].tolist() == [
        [4.0, 4.0, 4.0, 4.0, 4.0, 3.0, 3.0, 3.0, 2.0, 1.0]
    ]


def test_rms_norm() -> None:
    norm = RMSNorm(3, eps=2.0).double()
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([2.0, 3.0, 5.0]))
    # mean square 14, and 2 for eps: by 4
    found = norm(torch.tensor([[1.0, 4.0, 5.0]], dtype=torch.float64))
    torch.testing.assert_close(found, torch.tensor([[0.5, 3.0, 6.25]]).double(), rtol=1e-15, atol=0)
    # float32 weights under autocast leave the states narrow
    assert norm.float()(torch.ones(1, 3, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_scores_depend_on_distances_alone() -> None:
    """A prefix that nobody sees moves every position and changes nothing, to float64's last digits."""
    for variant in VARIANTS:
        model = tiny_decoder(variant)
        ids = random_ids(shape=(1, 7))
        moved = torch.cat((random_ids(seed=1, shape=(1, 29)), ids), dim=1)
        mask = torch.cat((torch.zeros(1, 29), torch.ones(1, 7)), dim=1).long()
        with torch.no_grad():
            torch.testing.assert_close(model(moved, attention_mask=mask).logits[:, 29:], model(ids).logits, **CLOSE)


def test_layers_differ_unless_they_are_shared() -> None:
    for variant, shared in itertools.product(VARIANTS, [True, False]):
        model = tiny_decoder(variant, share_layers=shared, num_hidden_layers=5)
        assert len(model.model.layers) == (1 if shared else 5)
