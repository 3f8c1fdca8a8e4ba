"""Small Edge Transformers, their baselines, and batches. Sizes are distinct primes, so that no axis can be swapped."""

from __future__ import annotations

import torch
from tiny import scatter_weights

from hf_sysgen.models import (
    BiaffineDependencyParserConfig,
    BiaffineForDependencyParsing,
    EdgeDependencyParserConfig,
    EdgeTransformerConfig,
    EdgeTransformerForConditionalGeneration,
    EdgeTransformerForDependencyParsing,
    EdgeTransformerForGraphParsing,
    EdgeTransformerForRelationClassification,
    EdgeTransformerModel,
    GraphAttentionNetworkConfig,
    GraphAttentionNetworkForRelationClassification,
    RelationAwareTransformerConfig,
    RelationAwareTransformerForRelationClassification,
    RelationAwareTransformerModel,
    TransformerForGraphParsing,
    TransformerGraphParserConfig,
    UniversalT5TransformerConfig,
    UniversalT5TransformerForConditionalGeneration,
)

BATCH, NODES, TARGET = 3, 7, 5
LENGTHS = [NODES, 2, 5]
SIZES = {"hidden_size": 6, "num_attention_heads": 2, "intermediate_size": 13, "num_hidden_layers": 3, "num_labels": 5}
LABELS = {"num_roles": 4, "num_categories": 3, "num_noun_types": 2, "num_verbs": 11}
WORDS = {**SIZES, "vocab_size": 17, "max_relative_distance": 3}
SEQUENCE = {**WORDS, "input_form": "sequence", "attention_bias": True, **LABELS}
GRAPH = {**SIZES, "edge_vocab_size": 11}
TRANSLATION = {**SEQUENCE, "add_bos_vector": True, "decoder_layers": 2}
# in whose few buckets near distances are alone and others together
T5 = {
    **{name: size for name, size in SIZES.items() if name not in ("num_hidden_layers", "num_labels")},
    "encoder_layers": 3, "decoder_layers": 2, "vocab_size": 17,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 7,
}  # fmt: skip

RELATION = ("relation", "rat", "rrat", "gat")
SEMANTIC_GRAPH = ("semantic graph", "graph of words")
DEPENDENCIES = ("dependencies", "biaffine", "bilstm")
WRITERS = ("translation", "universal t5")

# what a user loads, by a short name: (class, config)
MODELS = {
    "graph": (EdgeTransformerModel, EdgeTransformerConfig, GRAPH),
    "sequence": (EdgeTransformerModel, EdgeTransformerConfig, SEQUENCE),
    "relation": (EdgeTransformerForRelationClassification, EdgeTransformerConfig, GRAPH),
    "semantic graph": (EdgeTransformerForGraphParsing, EdgeTransformerConfig, SEQUENCE),
    "dependencies": (EdgeTransformerForDependencyParsing, EdgeDependencyParserConfig, SEQUENCE),
    "translation": (EdgeTransformerForConditionalGeneration, EdgeTransformerConfig, TRANSLATION),
    "rat nodes": (RelationAwareTransformerModel, RelationAwareTransformerConfig, GRAPH),
    "rat": (RelationAwareTransformerForRelationClassification, RelationAwareTransformerConfig, GRAPH),
    "rrat": (
        RelationAwareTransformerForRelationClassification, RelationAwareTransformerConfig,
        {**GRAPH, "update_relations": True},
    ),
    "gat": (
        GraphAttentionNetworkForRelationClassification, GraphAttentionNetworkConfig,
        {"hidden_size": 6, "edge_size": 5, "num_attention_heads": 3, "max_nodes": 13, "num_labels": 5,
         "edge_vocab_size": 11},
    ),
    "graph of words": (TransformerForGraphParsing, TransformerGraphParserConfig, {**WORDS, **LABELS}),
    "biaffine": (BiaffineForDependencyParsing, BiaffineDependencyParserConfig, {**WORDS, "biaffine_size": 5}),
    "bilstm": (
        BiaffineForDependencyParsing, BiaffineDependencyParserConfig,
        {**WORDS, "biaffine_size": 11, "encoder": "bilstm", "objective": "heads"},
    ),
    "universal t5": (UniversalT5TransformerForConditionalGeneration, UniversalT5TransformerConfig, T5),
}  # fmt: skip


def tiny_edge(name: str, seed: int = 0, **changes):
    """A model in evaluation mode and float64, always the same one."""
    model_class, config_class, sizes = MODELS[name]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = model_class(config_class(**{**sizes, **changes}))
    return scatter_weights(model.double(), seed, 0.3).eval()


def node_mask() -> torch.Tensor:
    return (torch.arange(NODES) < torch.tensor(LENGTHS)[:, None]).long()


def edge_batch(name: str, labels: bool = True, seed: int = 0) -> dict[str, torch.Tensor]:
    """Examples of different lengths, padded with a real id; -100 where nothing is to be learned."""
    generator = torch.Generator().manual_seed(seed)
    mask = node_mask()
    sizes = MODELS[name][2]

    def draw(high: int, *shape: int, padding: torch.Tensor | None = None) -> torch.Tensor:
        drawn = torch.randint(high, shape, generator=generator)
        return drawn if padding is None else drawn.masked_fill(padding, -100)

    if "edge_vocab_size" in sizes:
        batch = {"edge_ids": draw(sizes["edge_vocab_size"], BATCH, NODES, NODES), "node_mask": mask}
        if name in RELATION:
            batch["query"] = torch.tensor([[0, 6], [1, 0], [2, 4]])
            batch["labels"] = draw(5, BATCH)
    else:
        batch = {"input_ids": draw(17, BATCH, NODES), "attention_mask": mask}
        padding = ~mask.bool()
        if name in SEMANTIC_GRAPH:
            for set_name, high in (("role", 4), ("category", 3), ("noun_type", 2), ("verb", 11), ("parent", 2)):
                batch[f"{set_name}_labels"] = draw(high, BATCH, NODES, padding=padding)
        if name in DEPENDENCIES:
            pairs = padding[:, None] | padding[:, :, None]
            arcs = draw(5, BATCH, NODES, NODES) * ~torch.eye(NODES, dtype=torch.bool)  # no word is its own head
            batch["labels"] = arcs.masked_fill(pairs, -100)
        if name in WRITERS:
            ends = torch.arange(TARGET) >= torch.tensor([TARGET, 3, 1])[:, None]
            batch["labels"] = draw(17, BATCH, TARGET, padding=ends)
    return batch if labels else {key: value for key, value in batch.items() if "labels" not in key}
