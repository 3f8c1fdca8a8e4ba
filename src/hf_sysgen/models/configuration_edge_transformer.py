"""Configuration of the Edge Transformer of Bergen et al. 2021, "Systematic Generalization with Edge Transformers"."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from .checked_config import CheckedConfig


@strict
class EdgeTransformerConfig(CheckedConfig):
    r"""
    Transformer whose state is one vector per ordered pair of nodes. Without arguments: the paper's CLUTRR model
    (Table 1); with `num_labels=18`, 568,818 parameters. The authors' model has 40,000 more that are never used.

    Args:
        hidden_size: width `d` of every edge, also the width of all heads together.
        intermediate_size: feed-forward width; `None` means `4 * hidden_size` (section 3).
        num_attention_heads: heads; must divide `hidden_size`.
        num_hidden_layers: rounds of triangular attention in the encoder.
        decoder_layers: rounds in the decoder of sequences; `None` means `num_hidden_layers`.
        share_layers: one layer per stack, applied in every round (the paper's default, section 3). The released COGS
            code shares nothing, whatever its option says (cogs/model.py:240-241).
        layer_form: `"released"` is what the code runs: attention adds to the normalized state, and the feed-forward
            block has a residual (clutrr/model.py:179-189). `"paper"` is equation 3, without that residual.
        value_ablation: a triangle's value is that of its first edge alone (section 4.5; `lesion_values`).
        attention_ablation: a triangle is scored by its first and the updated edge (section 4.5; `lesion_scores`).
        attention_bias: biases in the attention's projections: no on CLUTRR, yes on COGS and CFQ.
        dropout: on attention weights, inside the feed-forward block and on both updates.
        layer_norm_eps: epsilon of every LayerNorm.
        input_form: `"graph"` embeds a label for every edge, `"sequence"` signed distances on all edges and tokens on
            loop edges (equation 10).
        edge_vocab_size: edge labels of a graph, "no edge" included.
        vocab_size: tokens of a sequence, one vocabulary for source and target.
        max_relative_distance: distances beyond it share their embedding: 16 on COGS, 32 on CFQ.
        frozen_token_id: a token whose embedding stays zero. The released COGS code freezes that of its first word
            (cogs/model.py:427).
        add_bos_vector: a learned vector, zero at the start, is added to the first token of the source and of the
            target (CFQ).
        num_roles, num_categories, num_noun_types, num_verbs: label sets of semantic graphs (COGS), padding's
            id 0 and "none" included.
        length_buckets: an encoder batch is split into this many parts of similar length, each padded to its own longest
            example. Results are the same, with less padding.
        triangular_implementation: `"plain"` stores one weight per triangle and head; `"blocked"` computes them in
            blocks that fit into the CPU cache (with an ablation: one example at a time, by the plain formula);
            `"triton"` uses fused GPU kernels, which need the least memory. Only `"plain"` can return attention weights
            and has second derivatives. `"auto"` uses `"plain"` for attention outputs, for export, and for torch.compile
            with an ablation; otherwise the one that is fastest at most sizes. (Under torch.compile on a CPU, `"plain"`
            is faster up to about 10 nodes.)
        readout: loop edge from which the decoder predicts: of the token itself (`"i_to_i"`), or the edge to it from
            the start of the target (`"start_to_i"`; cfq/model.py:454).
        is_encoder_decoder: set by the model for sequences.
        pad_token_id, eos_token_id, decoder_start_token_id: the authors start with padding. Padding is read from
            masks, never from an id.

    The number of relation classes and of dependency labels is `num_labels`.

    Errors as in [`CheckedConfig`].
    """

    model_type = "edge_transformer"
    title = 'the Edge Transformer of Bergen et al. 2021, "Systematic Generalization with Edge Transformers"'
    paper = "bergen2021"
    # a Trainer that gathers outputs pads them on one axis, and edges (B, S, S, E) have two
    keys_to_ignore_at_inference = ["cache", "encoder_last_hidden_state"]  # noqa: RUF012
    # the name in checkpoints of version 0.1
    attribute_map = {"length_groups": "length_buckets"}  # noqa: RUF012
    from_data = {  # noqa: RUF012
        **CheckedConfig.from_data,
        "input_form": "the benchmark's task",
        "edge_vocab_size": "the benchmark's labels",
        "num_roles": "the benchmark's labels",
        "num_categories": "the benchmark's labels",
        "num_noun_types": "the benchmark's labels",
        "num_verbs": "the benchmark's labels",
    }

    hidden_size: int = 200
    intermediate_size: int | None = None
    num_attention_heads: int = 4
    num_hidden_layers: int = 8
    decoder_layers: int | None = None
    share_layers: bool = True
    layer_form: Literal["released", "paper"] = "released"
    value_ablation: bool = False
    attention_ablation: bool = False
    attention_bias: bool = False
    dropout: float | int = 0.2
    layer_norm_eps: float = 1e-5
    input_form: Literal["graph", "sequence"] = "graph"
    edge_vocab_size: int = 16
    vocab_size: int = 179
    max_relative_distance: int = 32
    frozen_token_id: int | None = None
    add_bos_vector: bool = False
    num_roles: int = 9
    num_categories: int = 5
    num_noun_types: int = 4
    num_verbs: int = 136
    length_buckets: int = 1
    triangular_implementation: Literal["auto", "plain", "blocked", "triton"] = "auto"
    readout: Literal["i_to_i", "start_to_i"] = "i_to_i"
    use_cache: bool = True
    is_encoder_decoder: bool = False
    tie_word_embeddings: bool = False
    pad_token_id: int | None = 0
    eos_token_id: int | list[int] | None = 2
    decoder_start_token_id: int | None = 0

    def __post_init__(self, **kwargs):
        if self.intermediate_size is None:
            self.intermediate_size = 4 * self.hidden_size
        if self.decoder_layers is None:
            self.decoder_layers = self.num_hidden_layers
        super().__post_init__(**kwargs)

    def validate_architecture(self):
        self.check_sizes(
            "hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers", "decoder_layers",
            "edge_vocab_size", "vocab_size", "max_relative_distance", "num_roles", "num_categories", "num_noun_types",
            "num_verbs", "length_buckets",
        )  # fmt: skip
        self.check_heads()
        self.check_probabilities("dropout")
        self.check_untied()
        if self.frozen_token_id is not None and not 0 <= self.frozen_token_id < self.vocab_size:
            raise ValueError(f"frozen_token_id={self.frozen_token_id} must be below vocab_size={self.vocab_size}")
        if self.triangular_implementation == "triton" and (self.value_ablation or self.attention_ablation):
            raise ValueError(
                "triangular_implementation='triton' has no ablations, but value_ablation or attention_ablation is set; "
                "use 'auto'"
            )


@strict
class EdgeDependencyParserConfig(EdgeTransformerConfig):
    r"""
    Identical to [`EdgeTransformerConfig`] except:

    - nodes are the words of a sentence, and edges are labelled as dependencies.
    - without arguments: the paper's model on CFQ (Table 1). Dropout and biases are ours, those of the released code for
      CFQ's queries: there is no code for this task.
    """

    model_type = "edge_dependency_parser"
    title = "the Edge Transformer of Bergen et al. 2021 as a dependency parser"
    paper = "bergen2021"

    hidden_size: int = 360
    num_hidden_layers: int = 7
    attention_bias: bool = True
    dropout: float | int = 0.1
    input_form: Literal["graph", "sequence"] = "sequence"

    def validate_architecture(self):
        super().validate_architecture()
        if self.input_form != "sequence":
            raise ValueError(f"input_form={self.input_form!r}, but sentences need input_form='sequence'")


__all__ = [
    "EdgeDependencyParserConfig",
    "EdgeTransformerConfig",
]
