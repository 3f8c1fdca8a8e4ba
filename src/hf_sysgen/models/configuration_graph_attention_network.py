"""Configuration of the graph attention network on CLUTRR, a baseline of Sinha et al. 2019 and Bergen et al. 2021."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from .checked_config import CheckedConfig


@strict
class GraphAttentionNetworkConfig(CheckedConfig):
    r"""
    Graph attention (Velickovic et al. 2018) that also sees the labels of edges. Without arguments: two layers, of which
    the first has three heads, with the sizes of Sinha et al.'s released configuration for CLUTRR's clean graphs. Their
    paper gives no sizes; which configuration made its figures is not known.

    Args:
        hidden_size: width of a node before, between and after the layers.
        edge_size: width of an edge label's embedding.
        num_attention_heads: heads of all layers but the last, which has one; means are taken over heads.
        num_hidden_layers: depth: how many edges away a node can see.
        node_init: initial state of nodes: `"fixed"` gives each node number a random vector that is never trained, and
            permutes the vectors for each training graph, so that a number carries no meaning
            (`entity_embedding_policy: random`); `"zeros"` as Bergen et al. start theirs.
        max_nodes: vectors of `"fixed"`, at least as many as a graph has nodes.
        negative_slope: of the LeakyReLU on scores.
        dropout: on what layers read and, in all but the last, on attention weights.
        edge_vocab_size: edge labels, "no edge" included.

    The number of relation classes is `num_labels`.

    Errors as in [`CheckedConfig`].
    """

    model_type = "graph_attention_network"
    title = "the graph attention network on CLUTRR, a baseline of Sinha et al. 2019 and Bergen et al. 2021"
    paper = "bergen2021"
    no_effect = {"max_nodes": ("node_init", ("zeros",))}  # noqa: RUF012
    from_data = {**CheckedConfig.from_data, "edge_vocab_size": "the benchmark's labels"}  # noqa: RUF012

    hidden_size: int = 100
    edge_size: int = 20
    num_attention_heads: int = 3
    num_hidden_layers: int = 2
    node_init: Literal["fixed", "zeros"] = "fixed"
    max_nodes: int = 20
    negative_slope: float = 0.2
    dropout: float | int = 0.6
    edge_vocab_size: int = 16
    tie_word_embeddings: bool = False

    def validate_architecture(self):
        self.check_sizes(
            "hidden_size", "edge_size", "num_attention_heads", "num_hidden_layers", "max_nodes", "edge_vocab_size"
        )
        self.check_probabilities("dropout")
        self.check_untied()


__all__ = ["GraphAttentionNetworkConfig"]
