"""Convert checkpoints of fairseq's Transformer, with or without the changes of Chaabouni et al. 2021."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from transformers import PreTrainedModel

from hf_sysgen.models import (
    FairseqTransformerForConditionalGeneration,
    SagFixedSpanTransformerForConditionalGeneration,
    SagT5TransformerForConditionalGeneration,
    SagTransformerForConditionalGeneration,
)

StateDict = Mapping[str, torch.Tensor]

# fairseq's dictionary begins with <s>, <pad>, </s>, <unk> (data/dictionary.py:19-40); decoding starts from </s>
PAD, EOS = 1, 2

# their kinds of self-attention, as the `derived` entry of a config names them
DERIVED: Mapping[str, Any] = {
    "none": FairseqTransformerForConditionalGeneration,
    "gate": SagTransformerForConditionalGeneration,
    "sag": SagTransformerForConditionalGeneration,
    "span": SagFixedSpanTransformerForConditionalGeneration,
    "fixed_span": SagFixedSpanTransformerForConditionalGeneration,
    "t5": SagT5TransformerForConditionalGeneration,
}
WITH_SPAN = (SagFixedSpanTransformerForConditionalGeneration, SagT5TransformerForConditionalGeneration)

# fairseq arguments that change the computation, and for which we have only one value (`add_args`)
FIXED: Mapping[str, Any] = {
    "activation_fn": "relu",
    "no_scale_embedding": False,
    "no_token_positional_embeddings": False,
    "no_cross_attention": False,
    "cross_self_attention": False,
    "layernorm_embedding": False,
    "adaptive_input": False,
    "adaptive_softmax_cutoff": None,
    "encoder_learned_pos": False,
    "decoder_learned_pos": False,
    "encoder_layers_to_keep": None,
    "decoder_layers_to_keep": None,
}
# sizes, and arguments that the parameters show or that change nothing
SIDES = {"embed_dim", "ffn_embed_dim", "attention_heads", "layers", "normalize_before", "layerdrop", "embed_path"}
STACKS = {f"{side}_{name}" for side in ("encoder", "decoder") for name in SIDES}
STACKS |= {"decoder_input_dim", "decoder_output_dim"}

# what fairseq stores besides weights
NOT_WEIGHTS = r"(encoder|decoder)\.(version|embed_positions\._float_tensor)"

PARTS = {
    "self_attn.out_proj": "self_attn.o_proj",
    "self_attn_layer_norm": "self_attn_norm",
    "encoder_attn.q_proj": "cross_attn.q_proj",
    "encoder_attn.out_proj": "cross_attn.o_proj",
    "encoder_attn_layer_norm": "cross_attn_norm",
    "fc1": "feed_forward.fc1",
    "fc2": "feed_forward.fc2",
    "final_layer_norm": "feed_forward_norm",
}
# fused in ours, in this order
FUSED = {
    "self_attn.q_proj": ("self_attn.qkv_proj", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
    "encoder_attn.k_proj": ("cross_attn.kv_proj", ("encoder_attn.k_proj", "encoder_attn.v_proj")),
}
JOINED = {part for _, parts in FUSED.values() for part in parts}


def fairseq_sag(state_dict: StateDict, config: Mapping[str, Any]) -> tuple[PreTrainedModel, dict[str, torch.Tensor]]:
    """
    github.com/facebookresearch/fairseq, tag v0.10.2 (83e615d6), models/transformer.py.

    The gate and the bias by distance have no official names. Here they are `layers.<i>.beta` (a number) and
    `layers.<i>.rel_bias` (heads, 2s + 1), with column s + d for key position minus query position = d.

    Args:
        config: `arch` and fairseq's arguments by their names (`encoder_embed_dim`, `share_all_embeddings` ...); missing
            ones have fairseq's defaults, and training arguments are ignored. For the modified models also `derived`,
            with `kind` ("gate", "fixed_span" or "t5") and, except for "gate", `span`.

    Raises:
        ValueError: an argument changes the computation and is not supported; fairseq does not have an argument;
            embeddings differ although the arguments share them.
    """
    arch, derived = config["arch"], config.get("derived") or {"kind": "none"}
    kind = derived["kind"]
    if kind not in DERIVED:
        raise ValueError(f"unknown kind {kind!r} of family 'fairseq_sag'; known: {', '.join(DERIVED)}")
    for name, value in arch.items():
        if name in FIXED and (value or None) != (FIXED[name] or None):
            raise ValueError(f"family 'fairseq_sag': {name}={value!r} is not offered, only {FIXED[name]!r}")
        if name.startswith(("encoder_", "decoder_")) and name not in FIXED and name not in STACKS:
            raise ValueError(f"family 'fairseq_sag': fairseq's Transformer has no argument {name!r}")
    model_class = DERIVED[kind]
    width, inner = arch.get("encoder_embed_dim", 512), arch.get("encoder_ffn_embed_dim", 2048)
    share_all = arch.get("share_all_embeddings", False)
    source, target = (state_dict[f"{side}.embed_tokens.weight"] for side in ("encoder", "decoder"))
    ours_config = model_class.config_class(
        source_vocab_size=len(source),
        vocab_size=len(target),
        hidden_size=width,
        intermediate_size=inner,
        num_attention_heads=arch.get("encoder_attention_heads", 8),
        encoder_layers=arch.get("encoder_layers", 6),
        encoder_normalize_before=arch.get("encoder_normalize_before", False),
        decoder_hidden_size=arch.get("decoder_embed_dim", width),
        decoder_intermediate_size=arch.get("decoder_ffn_embed_dim", inner),
        decoder_attention_heads=arch.get("decoder_attention_heads", 8),
        decoder_layers=arch.get("decoder_layers", 6),
        decoder_normalize_before=arch.get("decoder_normalize_before", False),
        dropout=arch.get("dropout", 0.1),
        attention_dropout=arch.get("attention_dropout", 0.0),
        # old checkpoints have the former name, which fairseq accepts too
        activation_dropout=arch.get("activation_dropout") or arch.get("relu_dropout") or 0.0,
        tie_word_embeddings=share_all or arch.get("share_decoder_input_output_embed", False),
        share_all_embeddings=share_all,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=EOS,
        # a model without a span does not use it
        attention_span=derived["span"] if model_class in WITH_SPAN else 1,
    )
    model = model_class(ours_config)
    tables = {
        "encoder.embed_tokens.weight": "model.encoder.embed_tokens.weight",
        "decoder.embed_tokens.weight": "model.decoder.embed_tokens.weight",
        "decoder.output_projection.weight": "lm_head.weight",
    }
    modified = {"beta": "self_attn_gate.beta", "rel_bias": "self_attn.distance_bias"}
    ours: dict[str, torch.Tensor] = {}
    for name, tensor in state_dict.items():
        if re.fullmatch(NOT_WEIGHTS, name):
            continue
        found = re.fullmatch(r"(encoder|decoder)\.layers\.(\d+)\.(.+?)(?:\.(weight|bias))?", name)
        if name in tables:
            ours[tables[name]] = tensor
        elif re.fullmatch(r"(encoder|decoder)\.layer_norm\.(weight|bias)", name):
            ours[f"model.{name.replace('layer_norm', 'final_norm')}"] = tensor
        elif found is None:
            raise ValueError(f"unknown parameter {name!r} of family 'fairseq_sag'")
        else:
            side, index, part, weight = found.groups()
            theirs, prefix = f"{side}.layers.{index}", f"model.{side}.layers.{index}"
            if weight is None and part in modified:
                ours[f"{prefix}.{modified[part]}"] = tensor
            elif weight is not None and part in PARTS:
                ours[f"{prefix}.{PARTS[part]}.{weight}"] = tensor
            elif weight is not None and part in FUSED:
                fused, parts = FUSED[part]
                ours[f"{prefix}.{fused}.{weight}"] = torch.cat([state_dict[f"{theirs}.{p}.{weight}"] for p in parts])
            elif weight is None or part not in JOINED:
                raise ValueError(f"unknown parameter {name!r} of family 'fairseq_sag'")
    if ours_config.tie_word_embeddings:
        shared = [name for name in tables if name in state_dict and (share_all or name.startswith("decoder"))]
        for name in shared[1:]:
            if not torch.equal(state_dict[shared[0]], state_dict[name]):
                flag = "share_all_embeddings" if share_all else "share_decoder_input_output_embed"
                raise ValueError(f"family 'fairseq_sag': {flag} is set, but {name} is not equal to {shared[0]}")
        # fairseq stores the table under each name, or only under the first
        ours["lm_head.weight"] = ours["model.decoder.embed_tokens.weight"]
    return model, ours
