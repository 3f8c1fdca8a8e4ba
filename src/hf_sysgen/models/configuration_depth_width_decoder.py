"""Configuration of the decoders of Petty et al. 2023, "The Impact of Depth and Width on ... Generalization"."""

import math
from fractions import Fraction
from typing import Literal, NamedTuple

from huggingface_hub.dataclasses import strict

from .checked_config import CheckedConfig


class SizeClass(NamedTuple):
    """The model that a class of equal size is derived from, and the depths that the paper trains (Table 1)."""

    num_hidden_layers: int
    intermediate_size: int
    hidden_size: int
    num_attention_heads: int
    depths: tuple[int, ...]


SIZE_CLASSES = {
    "41M": SizeClass(2, 2048, 512, 8, (1, 2, 3, 4, 5, 6, 7)),
    "134M": SizeClass(12, 2048, 768, 8, (1, 2, 6, 8, 12, 16, 21)),
    "374M": SizeClass(24, 2816, 1024, 64, (1, 2, 4, 6, 8, 12, 16, 24)),
}


@strict
class DepthWidthConfig(CheckedConfig):
    r"""
    Causal decoder: deeper models have narrower feed-forward blocks, at an equal number of parameters (section 2.1).
    Without arguments: the base of the 41M class. Layers are pre-norm with RMSNorm, a gated feed-forward block and no
    biases. Only this layer gives every number of the paper's Table 1; the printed formula, for an ungated block, does
    not.

    Args:
        vocab_size: rows of the embeddings and of the output projection. 32,000 gives the totals that the paper's
            classes are named after.
        hidden_size: `d_model`, also `d_attn`, the width of all heads together.
        intermediate_size: `d_ff`, the width of each of the two projections that a feed-forward block multiplies.
        num_hidden_layers: depth, counted in applications.
        num_attention_heads: heads; must divide `hidden_size`.
        share_layers: one layer, applied at every depth (the Universal Transformer that section 5 proposes). Its size
            does not depend on the depth.
        position_scheme: the paper is silent. `"rotary"` rotates queries and keys (Su et al. 2021) and keeps fused
            attention kernels; `"relative_bias"` adds T5's bucketed biases to the scores, one table for all layers, as
            the models whose sizes the paper takes do.
        rotary_base: slowest rotary channel pair turns at almost 1 / rotary_base radians a position.
        relative_buckets, relative_max_distance: biases are learned for this many ranges of distances, the last one
            open from the maximum on (tokens).
        hidden_act: what gates the feed-forward block; the paper is silent, `"gelu"` is T5 1.1's.
        dropout: on embeddings, attention weights, gated activations, sub-layer outputs and the final states; the paper
            is silent, T5 1.1 pretrains without.
        rms_norm_eps: epsilon of every RMSNorm.
        tie_word_embeddings: `False` as the paper counts (2 d_model n_vocab).
        prompt_template: the prompt of a fine-tuned model: `{input}` and the separator before the target. `None` for a
            language model.
        pad_token_id, bos_token_id, eos_token_id: for `generate`; padding is read from attention masks, never from an
            id.

    Errors as in [`CheckedConfig`].
    """

    model_type = "depth_width_decoder"
    title = 'the decoders of Petty et al. 2023, "The Impact of Depth and Width on ... Generalization"'
    paper = "petty2023"
    # what a size class decides
    class_sizes = tuple(name for name in SizeClass._fields if name != "depths")
    no_effect = {  # noqa: RUF012
        "rotary_base": ("position_scheme", ("relative_bias",)),
        "relative_buckets": ("position_scheme", ("rotary",)),
        "relative_max_distance": ("position_scheme", ("rotary",)),
    }
    from_data = {**CheckedConfig.from_data, "prompt_template": "the tokenizer, and data.prompt"}  # noqa: RUF012

    vocab_size: int = 32_000
    hidden_size: int = 512
    intermediate_size: int = 2048
    num_hidden_layers: int = 2
    num_attention_heads: int = 8
    share_layers: bool = False
    position_scheme: Literal["rotary", "relative_bias"] = "rotary"
    rotary_base: float | int = 10_000.0
    relative_buckets: int = 32
    relative_max_distance: int = 128
    hidden_act: Literal["gelu", "silu"] = "gelu"
    dropout: float | int = 0.0
    rms_norm_eps: float = 1e-6
    use_cache: bool = True
    tie_word_embeddings: bool = False
    prompt_template: str | None = None
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_attention_heads

    @property
    def distinct_layers(self) -> int:
        """Layers with weights of their own."""
        return 1 if self.share_layers else self.num_hidden_layers

    @property
    def num_parameters(self) -> int:
        """Parameters of the model with its head and embeddings, counted without building it."""
        width, tables = self.hidden_size, 1 if self.tie_word_embeddings else 2
        layer = 4 * width**2 + 3 * width * self.intermediate_size + 2 * width
        biases = self.num_attention_heads * self.relative_buckets if self.position_scheme == "relative_bias" else 0
        return self.distinct_layers * layer + tables * width * self.vocab_size + width + biases

    @classmethod
    def from_size_class(cls, name: str, num_hidden_layers: int | None = None, **fields) -> "DepthWidthConfig":
        """
        A model of the paper's Table 1, or of another depth in the same class.

        Args:
            name: `"41M"`, `"134M"` or `"374M"`.
            num_hidden_layers: depth; by default that of the class's base.
            fields: any other field, e.g. `share_layers=True` for one layer of the size of all of them, or the
                `vocab_size` of another tokenizer, which changes the size of the whole class.

        Raises:
            ValueError: an unknown class, or see `at_equal_parameters`.
        """
        if name not in SIZE_CLASSES:
            raise ValueError(f"unknown size class {name!r}; valid: {', '.join(SIZE_CLASSES)}")
        for field in cls.class_sizes:
            if field in fields:
                raise ValueError(
                    f"{field}={fields[field]} is decided by the size class {name}; use at_equal_parameters with a base "
                    "of that size"
                )
        base = SIZE_CLASSES[name]
        depth = base.num_hidden_layers if num_hidden_layers is None else num_hidden_layers
        sizes = {key: getattr(base, key) for key in cls.class_sizes}
        return cls.at_equal_parameters(cls(**sizes), depth, **fields)

    @classmethod
    def at_equal_parameters(cls, base: "DepthWidthConfig", num_hidden_layers: int, **fields) -> "DepthWidthConfig":
        """
        `base` at another depth, with feed-forward blocks that keep its number of parameters (equation 1):
        `d_ff - round((1 - n0 / n) (d_ff + A / beta))`, where a layer has `A + beta d_ff` parameters, A = 4 d^2 + 2 d
        and beta = 3 d. Totals differ by what rounding leaves, at most n beta / 2.

        Args:
            base: a configuration of any shape.
            num_hidden_layers: depth of the new one.
            fields: fields that replace those of `base`. Shared layers are counted once, in both configs. Fields that
                act outside the layers (`vocab_size`, `tie_word_embeddings`, `position_scheme` with its buckets and
                heads) change the total by the same amount at every depth: with them, models of different depth still
                have equal size, but not the size of `base`.

        Raises:
            ValueError: the depth is not a whole number or leaves no parameters for the feed-forward blocks, or `fields`
                changes the width.
        """
        for field in ("hidden_size", "intermediate_size"):
            if field in fields:
                raise ValueError(f"{field}={fields[field]} belongs into base, whose number of parameters is kept")
        if not isinstance(num_hidden_layers, int) or isinstance(num_hidden_layers, bool):
            raise ValueError(f"num_hidden_layers={num_hidden_layers!r} must be a whole number")
        if num_hidden_layers < 1:
            raise ValueError(f"num_hidden_layers={num_hidden_layers} must be at least 1")
        fields = {"share_layers": base.share_layers, **fields}
        distinct = 1 if fields["share_layers"] else num_hidden_layers
        # A / beta, in exact arithmetic: halves must be rounded the same way everywhere
        rest = Fraction(4 * base.hidden_size + 2, 3)
        change = (1 - Fraction(base.distinct_layers, distinct)) * (base.intermediate_size + rest)
        width = base.intermediate_size - math.floor(change + Fraction(1, 2))
        if width < 1:
            deepest = int(base.distinct_layers * (base.intermediate_size + rest) / (rest + 1))
            raise ValueError(
                f"num_hidden_layers={num_hidden_layers} leaves no parameters for feed-forward blocks; at hidden_size="
                f"{base.hidden_size} and this number of parameters at most {deepest} layers fit"
            )
        kept = {
            name: getattr(base, name)
            for name in set(cls.__dataclass_fields__) - set(CheckedConfig.__dataclass_fields__)
        }
        kept |= {"num_labels": base.num_labels, "dtype": base.dtype}
        return cls(**{**kept, **fields, "num_hidden_layers": num_hidden_layers, "intermediate_size": width})

    def validate_architecture(self):
        self.check_sizes("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
        self.check_heads()
        if self.position_scheme == "rotary" and self.head_dim % 2:
            raise ValueError(
                f"hidden_size={self.hidden_size} / num_attention_heads={self.num_attention_heads} = {self.head_dim} "
                "must be even: position_scheme='rotary' turns pairs of channels"
            )
        if self.rotary_base <= 1:
            raise ValueError(f"rotary_base={self.rotary_base} must be greater than 1")
        if self.relative_buckets < 2 or self.relative_buckets % 2:
            raise ValueError(f"relative_buckets={self.relative_buckets} must be even and at least 2")
        if self.relative_max_distance <= self.relative_buckets // 2:
            raise ValueError(
                f"relative_max_distance={self.relative_max_distance} must be greater than half of "
                f"relative_buckets={self.relative_buckets}, whose distances have a bucket each"
            )
        self.check_probabilities("dropout")


__all__ = ["DepthWidthConfig"]
