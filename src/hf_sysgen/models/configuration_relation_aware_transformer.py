"""Configuration of the Relation-aware Transformer on graphs, a baseline of Bergen et al. 2021."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from .checked_config import CheckedConfig


@strict
class RelationAwareTransformerConfig(CheckedConfig):
    r"""
    Transformer over the nodes of a graph whose attention knows the labels of edges (Shaw et al. 2018). Without
    arguments: RAT on CLUTRR (Table 1); RRAT is `update_relations=True, num_hidden_layers=6`.

    Args:
        hidden_size: model width `d`, of nodes and edges.
        intermediate_size: feed-forward width; `None` means `4 * hidden_size`.
        num_attention_heads: heads; must divide `hidden_size`.
        num_hidden_layers: depth, counted in applications.
        share_layers: one layer, applied at every depth (the authors' default).
        update_relations: edges have states of their own, which nodes update (RRAT), and the query edge is read
            instead of the query's two nodes.
        node_init: first state of every node: zeros, or uniform on [0, 1) anew each time (`--random_init`).
        dropout: on attention weights, inside the feed-forward blocks and on updates.
        layer_norm_eps: epsilon of every LayerNorm.
        edge_vocab_size: edge labels, "no edge" included.

    The number of relation classes is `num_labels`.

    Errors as in [`CheckedConfig`].
    """

    model_type = "relation_aware_transformer"
    title = "the Relation-aware Transformer on graphs, a baseline of Bergen et al. 2021"
    paper = "bergen2021"
    from_data = {**CheckedConfig.from_data, "edge_vocab_size": "the benchmark's labels"}  # noqa: RUF012

    hidden_size: int = 320
    intermediate_size: int | None = None
    num_attention_heads: int = 8
    num_hidden_layers: int = 8
    share_layers: bool = True
    update_relations: bool = False
    node_init: Literal["zeros", "uniform"] = "zeros"
    dropout: float | int = 0.2
    layer_norm_eps: float = 1e-5
    edge_vocab_size: int = 16
    tie_word_embeddings: bool = False

    def __post_init__(self, **kwargs):
        if self.intermediate_size is None:
            self.intermediate_size = 4 * self.hidden_size
        super().__post_init__(**kwargs)

    def validate_architecture(self):
        self.check_sizes(
            "hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers", "edge_vocab_size"
        )
        self.check_heads()
        self.check_probabilities("dropout")
        self.check_untied()


__all__ = ["RelationAwareTransformerConfig"]
