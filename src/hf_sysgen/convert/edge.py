"""Convert checkpoints of Bergen et al. 2021 (github.com/bergen/EdgeTransformer, commit 89f938d)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from hf_sysgen.models import (
    EdgeTransformerConfig,
    EdgeTransformerForConditionalGeneration,
    EdgeTransformerForGraphParsing,
    EdgeTransformerForRelationClassification,
    RelationAwareTransformerConfig,
    RelationAwareTransformerForRelationClassification,
)

StateDict = Mapping[str, torch.Tensor]
Translated = tuple[PreTrainedModel, dict[str, torch.Tensor]]

# their names -> ours inside a layer; projections of one product are joined separately
LAYER = {
    "norm1": "attention_norm",
    "norm2": "feed_forward_norm",
    "linear1": "feed_forward.fc1",
    "linear2": "feed_forward.fc2",
}
RELATION_LAYER = {
    "norm1": "node_update.norm",
    "norm2": "node_update.feed_forward_norm",
    "linear1": "node_update.feed_forward.fc1",
    "linear2": "node_update.feed_forward.fc2",
    "rel_attention.linears.3": "mixing.o_proj",
}
RRAT_LAYER = {
    "norm_graph1": "edge_update.norm",
    "norm_graph2": "edge_update.feed_forward_norm",
    "linear_graph1": "edge_update.feed_forward.fc1",
    "linear_graph2": "edge_update.feed_forward.fc2",
    "rel_attention.left_linear": "first_proj",
    "rel_attention.right_linear": "last_proj",
}
CFQ_SYMBOLS = {"pad_token": "[PAD]", "unk_token": "[UNK]", "eos_token": "[EOS]"}
# parameters that all their models have and none uses
UNUSED = r"(encoder|decoder)\.(left_linear|right_linear|pos_encoder|positional_encoding)\..+"


class Reader:
    """Takes parameters from an authors' state dict. Parameters that remain are an error."""

    def __init__(self, family: str, state_dict: StateDict):
        self.family = family
        self.left = dict(state_dict)
        self.ours: dict[str, torch.Tensor] = {}

    def move(self, theirs: str, ours: str, rows: int | None = None):
        """Take weight and bias (if any) of a module; of an embedding the first `rows`."""
        for part in ("weight", "bias"):
            if part == "weight" or f"{theirs}.{part}" in self.left:
                self.ours[f"{ours}.{part}"] = self.left.pop(f"{theirs}.{part}")[:rows]

    def join(self, theirs: list[str], ours: str):
        """Join modules that we compute in one product."""
        for part in ("weight", "bias"):
            if part == "weight" or f"{theirs[0]}.{part}" in self.left:
                self.ours[f"{ours}.{part}"] = torch.cat([self.left.pop(f"{name}.{part}") for name in theirs])

    def take(self, theirs: str, ours: str):
        self.ours[ours] = self.left.pop(theirs)

    def finish(self, unused: str) -> dict[str, torch.Tensor]:
        """Our parameters. Theirs that match the pattern have no effect and are dropped."""
        for name in self.left:
            if not re.fullmatch(unused, name):
                raise ValueError(f"unknown parameter {name!r} of family {self.family!r}")
        return self.ours


def _edge_layers(reader: Reader, config: EdgeTransformerConfig, theirs: str, ours: str, depth: int, output: int):
    for index in range(1 if config.share_layers else depth):
        layer, target = f"{theirs}.layers.{index}", f"{ours}.rounds.layers.{index}"
        for name, part in LAYER.items():
            reader.move(f"{layer}.{name}", f"{target}.{part}")
        linears = [f"{layer}.edge_attention.linears.{i}" for i in range(3 if config.value_ablation else 4)]
        reader.join(linears, f"{target}.attention.in_proj")
        reader.move(f"{layer}.edge_attention.linears.{output}", f"{target}.attention.o_proj")


def _unused_layers(config: EdgeTransformerConfig, dead: str) -> str:
    """The unused parameters of their checkpoints: projections, and all copies but one of shared layers."""
    ablated = r"|edge_attention\.linears\.3\..+" if config.value_ablation else ""
    copies = r"|(encoder|decoder)\.layers\.[1-9]\d*\..+" if config.share_layers else ""
    return rf"{UNUSED}|(encoder|decoder)\.layers\.\d+\.({dead}{ablated}){copies}"


def _common(config: Mapping[str, Any]) -> dict[str, Any]:
    factor = config.get("ff_factor", config.get("expand_ff", 4))
    return {
        "hidden_size": config["dim"],
        "intermediate_size": factor * config["dim"],
        "num_attention_heads": config["num_heads"],
        "num_hidden_layers": config["num_message_rounds"],
        "dropout": config.get("dropout", 0.1),
    }


def _edge_fields(config: Mapping[str, Any], family: str) -> dict[str, Any]:
    for option in ("flat_attention", "edge_attention_flat"):
        if config.get(option):
            raise ValueError(f"family {family!r}: {option}=True is in the code but not in the paper, and not offered")
    if config.get("input_encoding", "relational") != "relational":
        raise ValueError(f"family {family!r}: input_encoding={config['input_encoding']!r} is not offered")
    return {
        **_common(config),
        "value_ablation": config.get("lesion_values", False),
        "attention_ablation": config.get("lesion_scores", False),
    }


def edge_clutrr(state_dict: StateDict, config: Mapping[str, Any]) -> Translated:
    """`config`: `dim`, `num_heads`, `num_message_rounds`, `share_layers`, `target_size` (the authors' names)."""
    ours = EdgeTransformerConfig(
        **_edge_fields(config, "edge_clutrr"),
        share_layers=config["share_layers"],
        edge_vocab_size=len(state_dict["encoder.embedding.weight"]),
        **{"num_labels": config["target_size"]},
    )
    reader = Reader("edge_clutrr", state_dict)
    reader.move("encoder.embedding", "model.embed_edges")
    _edge_layers(reader, ours, "encoder", "model", ours.num_hidden_layers, output=5)
    reader.move("decoder2vocab.0", "classifier.fc1")
    reader.move("decoder2vocab.3", "classifier.fc2")
    model = EdgeTransformerForRelationClassification(ours)
    return model, reader.finish(_unused_layers(ours, r"edge_attention\.linears\.4\..+"))


def edge_cogs(state_dict: StateDict, config: Mapping[str, Any]) -> Translated:
    """`config`: `dim`, `num_heads`, `num_message_rounds` and the five `..._vocab_size`."""
    largest = 16
    ours = EdgeTransformerConfig(
        **_edge_fields(config, "edge_cogs"),
        # their layers are not shared, although they have an option for it (cogs/model.py:240-241)
        share_layers=False,
        attention_bias=True,
        input_form="sequence",
        vocab_size=config["token_vocab_size"],
        max_relative_distance=largest,
        frozen_token_id=1,
        num_roles=config["role_vocab_size"],
        num_categories=config["category_vocab_size"],
        num_noun_types=config["noun_type_vocab_size"],
        num_verbs=config["verb_name_vocab_size"],
    )
    reader = Reader("edge_cogs", state_dict)
    reader.move("word_emb", "model.embed_tokens")
    reader.move("encoder.spatial_relations_builder.rel_embeddings", "model.relations", rows=2 * largest + 1)
    _edge_layers(reader, ours, "encoder", "model", ours.num_hidden_layers, output=5)
    for head in ("role", "category", "noun_type", "parent"):
        reader.move(f"decode_{head}", f"{head}_head")
    reader.move("decode_verb_name", "verb_head")
    model = EdgeTransformerForGraphParsing(ours)
    return model, reader.finish(_unused_layers(ours, r"edge_attention\.linears\.4\..+"))


def edge_cfq(state_dict: StateDict, config: Mapping[str, Any]) -> Translated:
    """
    `config`: `dim`, `num_heads`, `num_message_rounds`, `share_layers`, `vocab_size`, optional `decode_from`. Its
    tokenizer: see `cfq_tokenizer`.
    """
    largest = 32
    ours = EdgeTransformerConfig(
        **_edge_fields(config, "edge_cfq"),
        share_layers=config["share_layers"],
        attention_bias=True,
        input_form="sequence",
        vocab_size=config["vocab_size"],
        max_relative_distance=largest,
        add_bos_vector=True,
        readout=config.get("decode_from", "i_to_i"),
        pad_token_id=config.get("pad", 0),
        eos_token_id=config.get("eos", 2),
        decoder_start_token_id=config.get("start", 0),
    )
    reader = Reader("edge_cfq", state_dict)
    reader.move("emb", "model.embed_tokens")
    for theirs, side, rows in (("encoder", "model", 2 * largest + 1), ("decoder", "decoder", 2 * largest + 3)):
        reader.take(f"{theirs}.bos_vector", f"{side}.bos.weight")
        reader.move(f"{theirs}.spatial_relations_builder.rel_embeddings", f"{side}.relations", rows)
        _edge_layers(reader, ours, theirs, side, ours.num_hidden_layers, output=4)
    reader.move("lm_head", "lm_head")
    model = EdgeTransformerForConditionalGeneration(ours)
    return model, reader.finish(_unused_layers(ours, r"edge_attention\.reduce_dim_(key|value)\..+"))


def cfq_tokenizer(vocabulary: str | Path | Mapping[str, int]) -> PreTrainedTokenizerFast:
    """
    The tokenizer of an `edge_cfq` checkpoint, to save beside the model. It splits lower-case questions and queries at
    blanks and adds `[EOS]`; unknown words become `[UNK]` (cfq-semantic-parsing/train.py:48-69).

    Args:
        vocabulary: path of the tokenizer.json in their output folder, or the ids of all words and of `[PAD]`, `[UNK]`
            and `[EOS]`.

    Raises:
        ValueError: the file is not from the tokenizers library, a symbol is missing, or two words have one id.
    """
    if isinstance(vocabulary, Mapping):
        backend, ids = None, dict(vocabulary)
    else:
        try:
            backend = Tokenizer.from_file(str(vocabulary))
        except Exception as error:  # the tokenizers library raises bare Exception
            raise ValueError(f"{vocabulary}: is not a file of the tokenizers library: {error}") from error
        ids = backend.get_vocab()
    if missing := CFQ_SYMBOLS.values() - ids.keys():
        raise ValueError(f"family 'edge_cfq': the vocabulary lacks {', '.join(sorted(missing))}")
    words = {index: word for word, index in ids.items()}
    if twice := [word for word, index in ids.items() if words[index] != word]:
        raise ValueError(f"family 'edge_cfq': {twice[0]!r} and {words[ids[twice[0]]]!r} have one id, {ids[twice[0]]}")
    if backend is None:
        end = CFQ_SYMBOLS["eos_token"]
        backend = Tokenizer(WordLevel(ids, unk_token=CFQ_SYMBOLS["unk_token"]))
        backend.normalizer = Lowercase()
        backend.pre_tokenizer = WhitespaceSplit()
        backend.post_processor = TemplateProcessing(single=f"$A {end}", special_tokens=[(end, ids[end])])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        **CFQ_SYMBOLS,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )


def rat(state_dict: StateDict, config: Mapping[str, Any]) -> Translated:
    """As `edge_clutrr`, with `update_relations` (RRAT) and `zero_init`."""
    ours = RelationAwareTransformerConfig(
        **_common(config),
        share_layers=config["share_layers"],
        update_relations=config["update_relations"],
        node_init="zeros" if config.get("zero_init", True) else "uniform",
        edge_vocab_size=len(state_dict["encoder.embedding.weight"]),
        **{"num_labels": config["target_size"]},
    )
    reader = Reader("rat", state_dict)
    reader.move("encoder.embedding", "model.embed_edges")
    for index in range(1 if ours.share_layers else ours.num_hidden_layers):
        layer, target = f"encoder.layers.{index}", f"model.layers.{index}"
        for name, part in (RELATION_LAYER | (RRAT_LAYER if ours.update_relations else {})).items():
            reader.move(f"{layer}.{name}", f"{target}.{part}")
        reader.join([f"{layer}.rel_attention.linears.{i}" for i in range(3)], f"{target}.mixing.qkv_proj")
        if ours.update_relations:
            maps = [f"{layer}.rel_attention.relation_{part}_map" for part in ("key", "value")]
            reader.join(maps, f"{target}.relation_maps.proj")
    if not ours.update_relations:
        maps = [f"encoder.relation_{part}_map" for part in ("key", "value")]
        reader.join(maps, "model.relation_maps.proj")
    reader.move("decoder2vocab.0", "classifier.fc1")
    reader.move("decoder2vocab.3", "classifier.fc2")
    unused = UNUSED + r"|encoder\.relation_(key|value)_map\..+"
    if not ours.update_relations:
        unused += r"|encoder\.layers\.\d+\.(rel_attention\.(left_linear|right_linear|relation_\w+_map)|\w+_graph\d)\..+"
    if ours.share_layers:
        unused += r"|encoder\.layers\.[1-9]\d*\..+"
    return RelationAwareTransformerForRelationClassification(ours), reader.finish(unused)
