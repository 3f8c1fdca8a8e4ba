"""Configuration of the Transformer that Chakravarthy et al. 2022 compare with (Table 1)."""

from huggingface_hub.dataclasses import strict

from .configuration_encoder_decoder import EncoderDecoderConfig, StackSettings


@strict
class TorchTransformerConfig(EncoderDecoderConfig):
    r"""
    Post-norm Transformer of PyTorch's own layers. Without arguments: the paper's baseline on SCAN (section 3.4; models
    of language_compositionality at 448d03a, tf.py and tf_layers.py), 2,645,513 parameters.

    Sizes, vocabularies and special ids are those of [`EncoderDecoderConfig`]. Embeddings are not scaled.

    Args:
        mask_memory: padding of the source is hidden from cross-attention. The authors do not hide it (tf.py:170-171),
            so that a result depends on how far a source is padded: theirs always to the longest of the data. Batches of
            recipes are padded less, so recipes need `True`.
    """

    model_type = "torch_transformer"
    title = "the Transformer that Chakravarthy et al. 2022 compare with (Table 1)"
    paper = "chakravarthy2022"
    # read by `EmbeddingInput`
    position_scheme = "absolute"
    embedding_scaling = "none"

    vocab_size: int = 9
    source_vocab_size: int = 16
    hidden_size: int = 256
    intermediate_size: int = 512
    encoder_layers: int = 2
    decoder_layers: int = 2
    tie_word_embeddings: bool = False
    mask_memory: bool = False

    def stack_settings(self, is_decoder: bool) -> StackSettings:
        return super().stack_settings(is_decoder)._replace(final_norm=True, embedding_init="glorot_uniform")


__all__ = ["TorchTransformerConfig"]
