"""Convert checkpoints of Chakravarthy et al. 2022."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from transformers import PreTrainedModel

from hf_sysgen.models import (
    RoleFillerTransformerConfig,
    RoleFillerTransformerForConditionalGeneration,
    TorchTransformerConfig,
    TorchTransformerForConditionalGeneration,
)

StateDict = Mapping[str, torch.Tensor]

# their dictionary begins with <pad>, <sos>, <eos>
PAD, SOS, EOS = 0, 1, 2

# x is the role stream, m the filler stream
STREAMS = {"x": "role", "m": "filler"}
NORMS = {
    "encoder": ["input_norm", "self_attn_norm", "feed_forward_norm"],
    "decoder": ["input_norm", "self_attn_norm", "cross_attn_norm", "feed_forward_norm"],
}
ATTENTIONS = {"MHA": "self_attn", "selfAttn": "self_attn", "encAttn": "cross_attn"}
PROJECTIONS = {"W_q": "q_proj", "W_k": "k_proj", "W_v": "v_proj", "W_xo": "o_proj.role", "W_mo": "o_proj.filler"}


def role_filler(state_dict: StateDict, config: Mapping[str, Any]) -> tuple[PreTrainedModel, dict[str, torch.Tensor]]:
    """
    github.com/ayushchakravarthy/language_compositionality, commit 448d03a, models/tf_separate.py, and their baseline
    Transformer, models/tf.py.

    Args:
        config: `arch` ("sep", "reversed" for the streams swapped as at b9f9ecc, or "baseline"), `d_model`, `nhead`,
            `n_layers`, `d_ff`; but for "baseline" also `threshold` (or none), `role_loss`, and optional `role_map`, the
            role of each target id, for decoding with roles.
    """
    if config["arch"] == "baseline":
        return _baseline(state_dict, config)
    if config["arch"] not in ("sep", "reversed"):
        raise ValueError(f"unknown arch {config['arch']!r} of family 'role_filler'; known: sep, reversed, baseline")
    swapped = config["arch"] == "reversed"
    of_words, of_roles = "xm" if swapped else "mx"
    words, roles = (len(state_dict[f"embedding.{stream}_embedding.weight"]) for stream in (of_words, of_roles))
    model = RoleFillerTransformerForConditionalGeneration(
        RoleFillerTransformerConfig(
            vocab_size=words,
            source_vocab_size=words,
            role_vocab_size=roles,
            source_role_vocab_size=roles,
            hidden_size=config["d_model"],
            intermediate_size=config["d_ff"],
            num_attention_heads=config["nhead"],
            encoder_layers=config["n_layers"],
            decoder_layers=config["n_layers"],
            swap_streams=swapped,
            attention_threshold=config["threshold"],
            role_loss=config["role_loss"],
            role_map=config.get("role_map"),
            pad_token_id=PAD,
            decoder_start_token_id=SOS,
            eos_token_id=EOS,
        )
    )
    tables = {
        f"embedding.{of_roles}_embedding.weight": "embed_roles.weight",
        f"embedding.{of_words}_embedding.weight": "embed_tokens.weight",
        "embedding.linear.weight": "embed_input.gate.weight",
        "embedding.linear.bias": "embed_input.gate.bias",
    }
    ours: dict[str, torch.Tensor] = {}
    for name, tensor in state_dict.items():
        if name in tables:
            ours |= {f"model.{side}.{tables[name]}": tensor for side in ("encoder", "decoder")}
            continue
        found = re.fullmatch(r"(encoder|decoder)\.layers\.(\d+)\.(.+)\.(weight|bias)", name)
        side, index, part, weight = found.groups() if found else ("", "", "", "")
        theirs, prefix = f"{side}.layers.{index}", f"model.{side}.layers.{index}"
        norm = re.fullmatch(r"([xm])_layernorm([1-4])", part)
        if norm and int(norm[2]) <= len(NORMS[side]):
            ours[f"{prefix}.{NORMS[side][int(norm[2]) - 1]}.{STREAMS[norm[1]]}.{weight}"] = tensor
        elif feed := re.fullmatch(r"densefilter\.([xm])_linear([12])", part):
            ours[f"{prefix}.feed_forward.{STREAMS[feed[1]]}.fc{feed[2]}.{weight}"] = tensor
        elif (attention := re.fullmatch(r"(MHA|selfAttn|encAttn)\.(\w+)", part)) and attention[2] in PROJECTIONS:
            target = f"{prefix}.{ATTENTIONS[attention[1]]}"
            if attention[1] == "encAttn" or attention[2] not in ("W_q", "W_k"):
                ours[f"{target}.{PROJECTIONS[attention[2]]}.{weight}"] = tensor
            elif attention[2] == "W_q":
                both = [state_dict[f"{theirs}.{attention[1]}.{name}.{weight}"] for name in ("W_q", "W_k")]
                ours[f"{target}.qk_proj.{weight}"] = torch.cat(both)
        else:
            raise ValueError(f"unknown parameter {name!r} of family 'role_filler'")
    ours["lm_head.weight"] = state_dict["embedding.m_embedding.weight"]
    return model, ours


def _baseline(state_dict: StateDict, config: Mapping[str, Any]) -> tuple[PreTrainedModel, dict[str, torch.Tensor]]:
    width = config["d_model"]
    model = TorchTransformerForConditionalGeneration(
        TorchTransformerConfig(
            vocab_size=len(state_dict["trg_embedding.weight"]),
            source_vocab_size=len(state_dict["src_embedding.weight"]),
            hidden_size=width,
            intermediate_size=config["d_ff"],
            num_attention_heads=config["nhead"],
            encoder_layers=config["n_layers"],
            decoder_layers=config["n_layers"],
            pad_token_id=PAD,
            decoder_start_token_id=SOS,
            eos_token_id=EOS,
        )
    )
    ends = {
        "src_embedding.weight": "model.encoder.embed_tokens.weight",
        "trg_embedding.weight": "model.decoder.embed_tokens.weight",
        "linear.weight": "lm_head.weight",
        "linear.bias": "lm_head.bias",
    }
    encoder = {"norm1": "self_attn_norm", "norm2": "feed_forward_norm"}
    decoder = {"norm1": "self_attn_norm", "norm2": "cross_attn_norm", "norm3": "feed_forward_norm"}
    parts = {
        "linear1": "feed_forward.fc1",
        "linear2": "feed_forward.fc2",
        "self_attn.in_proj": "self_attn.qkv_proj",
        "self_attn.out_proj": "self_attn.o_proj",
        "multihead_attn.out_proj": "cross_attn.o_proj",
    }
    ours: dict[str, torch.Tensor] = {}
    for name, tensor in state_dict.items():
        found = re.fullmatch(r"(encoder|decoder)\.layers\.(\d+)\.(.+)[._](weight|bias)", name)
        if name in ends:
            ours[ends[name]] = tensor
        elif end := re.fullmatch(r"(encoder|decoder)\.norm\.(weight|bias)", name):
            ours[f"model.{end[1]}.final_norm.{end[2]}"] = tensor
        elif found and found[3] == "multihead_attn.in_proj":
            prefix = f"model.{found[1]}.layers.{found[2]}.cross_attn"
            ours[f"{prefix}.q_proj.{found[4]}"], ours[f"{prefix}.kv_proj.{found[4]}"] = tensor[:width], tensor[width:]
        else:
            known = parts | (decoder if found and found[1] == "decoder" else encoder)
            if found is None or found[3] not in known:
                raise ValueError(f"unknown parameter {name!r} of family 'role_filler'")
            ours[f"model.{found[1]}.layers.{found[2]}.{known[found[3]]}.{found[4]}"] = tensor
    return model, ours
