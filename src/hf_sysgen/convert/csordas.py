"""Convert checkpoints of Csordas et al. 2021."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from transformers import PreTrainedModel

from hf_sysgen.models import (
    RelativeTransformerForConditionalGeneration,
    RelativeUniversalTransformerForConditionalGeneration,
    SysgenTransformerForConditionalGeneration,
    UniversalTransformerForConditionalGeneration,
)

StateDict = Mapping[str, torch.Tensor]

# tasks/transformer_mixin.py:8-31 of Csordas et al.: variant name -> (class, embedding scaling)
CSORDAS_VARIANTS: Mapping[str, tuple[Any, str]] = {
    "noscale": (SysgenTransformerForConditionalGeneration, "none"),
    "scaledinit": (SysgenTransformerForConditionalGeneration, "ped"),
    "opennmt": (SysgenTransformerForConditionalGeneration, "teu"),
    "universal_noscale": (UniversalTransformerForConditionalGeneration, "none"),
    "universal_scaledinit": (UniversalTransformerForConditionalGeneration, "ped"),
    "universal_opennmt": (UniversalTransformerForConditionalGeneration, "teu"),
    "relative": (RelativeTransformerForConditionalGeneration, "none"),
    "relative_universal": (RelativeUniversalTransformerForConditionalGeneration, "none"),
}


def csordas(state_dict: StateDict, config: Mapping[str, Any]) -> tuple[PreTrainedModel, dict[str, torch.Tensor]]:
    """
    github.com/RobertCsordas/transformer_generalization, commit 38f2734.

    Args:
        config: `variant` (their name, as in tasks/transformer_mixin.py), `d_model`, `heads`, `ff`, `encoder_layers` and
            `decoder_layers` (or `layers`), `n_in` and `n_out` (words of each vocabulary without special symbols),
            optional `tied_embedding`, `layernorm_eps`.
    """
    variant = config["variant"]
    if variant not in CSORDAS_VARIANTS:
        raise ValueError(f"unknown variant {variant!r} of family 'csordas'; known: {', '.join(CSORDAS_VARIANTS)}")
    model_class, scaling = CSORDAS_VARIANTS[variant]
    depths = {side: config[side if side in config else "layers"] for side in ("encoder_layers", "decoder_layers")}
    model = model_class(
        model_class.config_class(
            vocab_size=config["n_out"] + 1,
            source_vocab_size=config["n_in"] + 2,
            hidden_size=config["d_model"],
            intermediate_size=config["ff"],
            num_attention_heads=config["heads"],
            embedding_scaling=scaling,
            tie_word_embeddings=config.get("tied_embedding", True),
            layer_norm_eps=config.get("layernorm_eps", 1e-5),
            **depths,
        )
    )
    heads, width = config["heads"], config["d_model"]

    def keys_then_values(name: str) -> torch.Tensor:
        # theirs: rows [head][key | value][dim] (multi_head_attention.py:65-72); ours: all keys, then all values
        weight, expected = state_dict[name], (2 * width, width)
        if weight.shape != expected:
            raise ValueError(f"family 'csordas': {name!r} has shape {tuple(weight.shape)}, not {expected}")
        return weight.view(heads, 2, width // heads, width).transpose(0, 1).reshape(expected)

    tables = {
        "input_embedding.weight": "model.encoder.embed_tokens.weight",
        "output_embedding.weight": "model.decoder.embed_tokens.weight",
        "output_map.bias": "lm_head.bias",
    }
    if not model.config.tie_word_embeddings:
        tables["output_map.weight"] = "lm_head.weight"
    encoder_parts = {
        "self_attn": "self_attn",
        "norm1": "self_attn_norm",
        "linear1": "feed_forward.fc1",
        "linear2": "feed_forward.fc2",
        "norm2": "feed_forward_norm",
    }
    decoder_parts = {"multihead_attn": "cross_attn", "norm2": "cross_attn_norm", "norm3": "feed_forward_norm"}
    parts = {"encoder": encoder_parts, "decoder": encoder_parts | decoder_parts}
    weights = {
        "weight": "weight",
        "bias": "bias",
        "data_to_q.weight": "q_proj.weight",
        "data_to_kv.weight": "kv_proj.weight",
        "multi_head_merge.weight": "o_proj.weight",
        "pos_to_pq.weight": "pos_proj.weight",
        "global_content_bias": "u",
        "global_pos_bias": "v",
    }
    ours: dict[str, torch.Tensor] = {}
    for name, tensor in state_dict.items():
        if re.fullmatch(r"pos\.pe|int_seq|trafo\..+\.self_attn\.pos_encoding", name):
            continue  # sinusoids and step numbers: buffers of their modules; ours are computed
        if name in tables:
            ours[tables[name]] = tensor
            continue
        found = re.fullmatch(r"trafo\.(encoder|decoder)\.(?:layer|layers\.(\d+))\.(\w+)\.(.+)", name)
        if found is None or found[3] not in parts[found[1]] or found[4] not in weights:
            raise ValueError(f"unknown parameter {name!r} of family 'csordas'")
        side, index, part, weight = found.groups()
        prefix = f"model.{side}.layers.{index or 0}.{parts[side][part]}"
        if weight == "data_to_kv.weight" and part == "self_attn":
            query = state_dict[name.replace("data_to_kv", "data_to_q")]
            ours[f"{prefix}.qkv_proj.weight"] = torch.cat((query, keys_then_values(name)))
        elif weight == "data_to_q.weight" and part == "self_attn":
            continue  # joined with the keys and values
        elif weight == "data_to_kv.weight":
            ours[f"{prefix}.kv_proj.weight"] = keys_then_values(name)
        else:
            ours[f"{prefix}.{weights[weight]}"] = tensor
    if model.config.tie_word_embeddings:
        ours["lm_head.weight"] = ours["model.decoder.embed_tokens.weight"]
    return model, ours
