"""Configuration of T5 with one block for all depths, the Universal Transformer that Bergen et al. 2021 train on CFQ."""

from huggingface_hub.dataclasses import strict

from .checked_config import CheckedConfig


@strict
class UniversalT5TransformerConfig(CheckedConfig):
    r"""
    transformers' [`T5Config`] under this package's names. Without arguments: the Universal Transformer of the paper's
    Table 1 (CFQ, semantic parsing), with the values of `t5-small` where neither the paper nor cfq/train.py:147-169
    gives one.

    Args:
        vocab_size: rows of the one table that source, target and logits share. By the README of the
            authors' code theirs has all 32,128 of `t5-small`, of which 179 occur.
        hidden_size: model width `d_model`, also the width of all heads together (train.py sets `d_kv` so).
        intermediate_size: feed-forward width `d_ff`; `None` means `4 * hidden_size` (train.py).
        num_attention_heads: heads; must divide `hidden_size`.
        encoder_layers, decoder_layers: depth of each stack, counted in applications of its one block.
        relative_attention_num_buckets, relative_attention_max_distance: number of distance buckets, and the distance
            (tokens) from which all share the last bucket.
        dropout: on embeddings, attention weights, inside the feed-forward block, on sub-layer outputs and after the
            last norm.
        layer_norm_eps: epsilon of every root mean square normalization.
        pad_token_id, eos_token_id, decoder_start_token_id: the authors start with padding. Padding is read from
            attention masks, never from an id.

    Errors as in [`CheckedConfig`].
    """

    model_type = "universal_t5_transformer"
    title = "T5 with one block for all depths, the Universal Transformer that Bergen et al. 2021 train on CFQ"
    paper = "bergen2021"
    # names that T5's layers use
    attribute_map = {  # noqa: RUF012
        "d_model": "hidden_size",
        "d_ff": "intermediate_size",
        "num_heads": "num_attention_heads",
        "num_layers": "encoder_layers",
        "num_hidden_layers": "encoder_layers",
        "num_decoder_layers": "decoder_layers",
        "dropout_rate": "dropout",
        "layer_norm_epsilon": "layer_norm_eps",
    }
    # fixed: the values of `t5-small`
    dense_act_fn = "relu"
    is_gated_act = False
    scale_decoder_outputs = True
    initializer_factor = 1.0
    # the copy that the decoder reads sets it to true
    is_decoder = False

    vocab_size: int = 179
    hidden_size: int = 256
    intermediate_size: int | None = None
    num_attention_heads: int = 8
    encoder_layers: int = 4
    decoder_layers: int = 4
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    dropout: float | int = 0.1
    layer_norm_eps: float = 1e-6
    use_cache: bool = True
    is_encoder_decoder: bool = True
    tie_word_embeddings: bool = True
    pad_token_id: int | None = 0
    eos_token_id: int | list[int] | None = 2
    decoder_start_token_id: int | None = 0

    def __post_init__(self, **kwargs):
        if self.intermediate_size is None:
            self.intermediate_size = 4 * self.hidden_size
        super().__post_init__(**kwargs)

    @property
    def d_kv(self) -> int:
        """Width of a head."""
        return self.hidden_size // self.num_attention_heads

    def validate_architecture(self):
        self.check_sizes(
            "vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "encoder_layers", "decoder_layers"
        )
        self.check_heads()
        self.check_probabilities("dropout")
        # the encoder has half of the buckets for either direction, and half of these are for one distance each
        if self.relative_attention_num_buckets < 4:
            raise ValueError(f"relative_attention_num_buckets={self.relative_attention_num_buckets} must be at least 4")
        if self.relative_attention_max_distance <= self.relative_attention_num_buckets // 2:
            raise ValueError(
                f"relative_attention_max_distance={self.relative_attention_max_distance} must be greater than half of "
                f"relative_attention_num_buckets={self.relative_attention_num_buckets}"
            )
        if not self.tie_word_embeddings:
            raise ValueError("tie_word_embeddings=False is not offered: logits are made with the table of words")


__all__ = ["UniversalT5TransformerConfig"]
