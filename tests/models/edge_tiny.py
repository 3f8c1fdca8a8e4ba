"""Small Edge Transformers and batches. Sizes are distinct primes, so that a swapped axis cannot pass."""

from __future__ import annotations

import torch
from tiny import scatter_weights

from hf_sysgen.models import (
    EdgeTransformerConfig,
    EdgeTransformerForConditionalGeneration,
    EdgeTransformerForDependencyParsing,
    EdgeTransformerForGraphParsing,
    EdgeTransformerForRelationClassification,
    EdgeTransformerModel,
    RelationAwareTransformerConfig,
    RelationAwareTransformerForRelationClassification,
    RelationAwareTransformerModel,
)

BATCH, NODES, TARGET = 3, 7, 5
LENGTHS = [NODES, 2, 5]
SIZES = {"hidden_size": 6, "num_attention_heads": 2, "intermediate_size": 13, "num_hidden_layers": 3, "num_labels": 5}
SEQUENCE = {
    **SIZES, "input_form": "sequence", "vocab_size": 17, "max_relative_distance": 3, "attention_bias": True,
    "num_roles": 4, "num_categories": 3, "num_noun_types": 2, "num_verbs": 11,
}  # fmt: skip
GRAPH = {**SIZES, "edge_vocab_size": 11}
TRANSLATION = {**SEQUENCE, "add_bos_vector": True, "decoder_layers": 2}

# what a user loads, by a short name: (class, config)
MODELS = {
    "graph": (EdgeTransformerModel, EdgeTransformerConfig, GRAPH),
    "sequence": (EdgeTransformerModel, EdgeTransformerConfig, SEQUENCE),
    "relation": (EdgeTransformerForRelationClassification, EdgeTransformerConfig, GRAPH),
    "semantic graph": (EdgeTransformerForGraphParsing, EdgeTransformerConfig, SEQUENCE),
    "dependencies": (EdgeTransformerForDependencyParsing, EdgeTransformerConfig, SEQUENCE),
    "translation": (EdgeTransformerForConditionalGeneration, EdgeTransformerConfig, TRANSLATION),
    "rat nodes": (RelationAwareTransformerModel, RelationAwareTransformerConfig, GRAPH),
    "rat": (RelationAwareTransformerForRelationClassification, RelationAwareTransformerConfig, GRAPH),
    "rrat": (
        RelationAwareTransformerForRelationClassification, RelationAwareTransformerConfig,
        {**GRAPH, "update_relations": True},
    ),
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
    config_class, sizes = MODELS[name][1:]

    def draw(high: int, *shape: int, padding: torch.Tensor | None = None) -> torch.Tensor:
        drawn = torch.randint(high, shape, generator=generator)
        return drawn if padding is None else drawn.masked_fill(padding, -100)

    if config_class is RelationAwareTransformerConfig or sizes.get("input_form") != "sequence":
        batch = {"edge_ids": draw(sizes["edge_vocab_size"], BATCH, NODES, NODES), "node_mask": mask}
        if name in ("relation", "rat", "rrat"):
            batch["query"] = torch.tensor([[0, 6], [1, 0], [2, 4]])
            batch["labels"] = draw(5, BATCH)
    else:
        batch = {"input_ids": draw(17, BATCH, NODES), "attention_mask": mask}
        padding = ~mask.bool()
        if name == "semantic graph":
            for set_name, high in (("role", 4), ("category", 3), ("noun_type", 2), ("verb", 11), ("parent", 2)):
                batch[f"{set_name}_labels"] = draw(high, BATCH, NODES, padding=padding)
        if name == "dependencies":
            pairs = padding[:, None] | padding[:, :, None]
            batch["labels"] = draw(5, BATCH, NODES, NODES, padding=pairs)
        if name == "translation":
            ends = torch.arange(TARGET) >= torch.tensor([TARGET, 3, 1])[:, None]
            batch["labels"] = draw(17, BATCH, TARGET, padding=ends)
    return batch if labels else {key: value for key, value in batch.items() if "labels" not in key}
