"""Base class of all configurations, with checks that most of them share."""

from collections.abc import Mapping
from typing import Any, ClassVar

from transformers import PreTrainedConfig


class CheckedConfig(PreTrainedConfig):
    """
    `validate_architecture` of a subclass calls the checks. Each raises `ValueError` with the field and its value.

    Attributes:
        no_effect: by field, another field and those of its values under which the first has no effect. A recipe that
            sets such a field is refused.
        from_data: fields that the data decides -> what decides each. A recipe cannot set them.
        paper: the paper of the model, by the name of its recipes' folder. Each class declares its own.

    Raises:
        huggingface_hub.errors.StrictDataclassClassValidationError: for sizes or settings that contradict each other,
            with both values.
        huggingface_hub.errors.StrictDataclassFieldValidationError: for a value of the wrong type.
    """

    no_effect: ClassVar[Mapping[str, tuple[str, tuple[Any, ...]]]] = {}
    from_data: ClassVar[Mapping[str, str]] = {
        "vocab_size": "the benchmark's words",
        "pad_token_id": "the vocabulary",
        "eos_token_id": "the vocabulary",
        "decoder_start_token_id": "the vocabulary",
    }
    paper: ClassVar[str | None] = None

    def check_sizes(self, *names: str):
        """Each is at least 1; numbers of layers are at most 1000, because shared ones cost time without weights."""
        for name in names:
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
            if name.endswith("_layers") and getattr(self, name) > 1000:
                raise ValueError(f"{name}={getattr(self, name)} must be at most 1000")

    def check_probabilities(self, *names: str):
        """Each is in [0, 1)."""
        for name in names:
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be in [0, 1)")

    def check_heads(self, size: str = "hidden_size", heads: str = "num_attention_heads"):
        """The width `size` divides into as many parts as the field `heads` says."""
        width, number = getattr(self, size), getattr(self, heads)
        if width % number:
            raise ValueError(f"{size}={width} is not a multiple of {heads}={number}")

    def check_untied(self):
        """Logits have their own matrix."""
        if self.tie_word_embeddings:
            raise ValueError("tie_word_embeddings=True is not offered: this model has a matrix of its own for logits")

    def check_sinusoids(self, size: str = "hidden_size"):
        """The width `size` is even."""
        if (width := getattr(self, size)) % 2:
            raise ValueError(f"{size}={width} must be even: sinusoids come in sine/cosine pairs")


__all__ = ["CheckedConfig"]
