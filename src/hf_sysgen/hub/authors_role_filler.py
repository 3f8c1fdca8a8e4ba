"""The checkpoints of Russin et al. 2022 as ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from transformers import PreTrainedModel

from hf_sysgen.models import RoleFillerTransformerConfig, RoleFillerTransformerForConditionalGeneration

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
    github.com/ayushchakravarthy/language_compositionality, commit 448d03a, models/tf_separate.py.

    Args:
        config: `arch` ("sep"), `d_model`, `nhead`, `n_layers`, `d_ff`, `threshold` (or none), `role_loss`, and optional
            `role_map`, a list of the role of each target id, for decoding with roles.
    """
    if config["arch"] != "sep":
        raise ValueError(f"unknown arch {config['arch']!r} of family 'role_filler'; known: sep")
    words, roles = (len(state_dict[f"embedding.{stream}_embedding.weight"]) for stream in "mx")
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
            attention_threshold=config["threshold"],
            role_loss=config["role_loss"],
            role_map=config.get("role_map"),
            pad_token_id=PAD,
            decoder_start_token_id=SOS,
            eos_token_id=EOS,
        )
    )
    tables = {
        "embedding.x_embedding.weight": "embed_roles.weight",
        "embedding.m_embedding.weight": "embed_tokens.weight",
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
        if norm := re.fullmatch(r"([xm])_layernorm([1-4])", part):
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
    ours["lm_head.weight"] = ours["model.decoder.embed_tokens.weight"]
    return model, ours
