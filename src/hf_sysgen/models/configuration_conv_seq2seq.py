"""Configuration of the convolutional encoder-decoder, a baseline in the SCAN table of Chaabouni et al. 2021."""

from huggingface_hub.dataclasses import strict

from .configuration_encoder_decoder import Seq2SeqConfig


@strict
class ConvSeq2SeqConfig(Seq2SeqConfig):
    r"""
    Gated convolutions with attention in every layer of the decoder (Gehring et al. 2017, "Convolutional Sequence to
    Sequence Learning"), as fairseq builds them. Without arguments: the network of Dessi & Baroni 2019 with 69.2% on
    SCAN's "jump", which Chaabouni et al. 2021 quote in Table 3.

    Vocabularies and special ids are those of [`Seq2SeqConfig`].

    Args:
        hidden_size: width of embeddings and channels of every convolution (searched in {128, 256, 512}).
        encoder_layers, decoder_layers: convolutions (searched in 6 to 10).
        kernel_size: positions that a convolution of the encoder reads, centred; of an even number one more follows
            than comes before (searched in {3, 4, 5}).
        decoder_kernel_size: positions that a convolution of the decoder reads, the last one its own; `None` means as
            in the encoder.
        dropout: on embeddings, before every convolution, and before the logits (searched in {0, 0.25, 0.5}).
        max_position_embeddings: rows of each table of learned positions, the longest source or target.
    """

    model_type = "conv_seq2seq"
    title = "the convolutional encoder-decoder, a baseline in the SCAN table of Chaabouni et al. 2021"
    paper = "chaabouni2021"
    # the files in bin-data of robertodessi/SCAN-CNN hold words and one end symbol
    source_starts = False

    source_vocab_size: int = 14
    encoder_layers: int = 6
    decoder_layers: int = 6
    kernel_size: int = 5
    decoder_kernel_size: int | None = None
    dropout: float | int = 0.25
    max_position_embeddings: int = 1024

    def __post_init__(self, **kwargs):
        if self.decoder_kernel_size is None:
            self.decoder_kernel_size = self.kernel_size
        super().__post_init__(**kwargs)

    def validate_architecture(self):
        super().validate_architecture()
        self.check_sizes("kernel_size", "decoder_kernel_size", "max_position_embeddings")
        self.check_untied()


__all__ = ["ConvSeq2SeqConfig"]
