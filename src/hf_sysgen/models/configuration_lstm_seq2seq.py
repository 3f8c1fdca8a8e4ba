"""Configuration of the LSTM encoder-decoder with attention, a baseline in the papers' SCAN tables."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from .configuration_encoder_decoder import Seq2SeqConfig


@strict
class LstmSeq2SeqConfig(Seq2SeqConfig):
    r"""
    LSTM encoder and decoder (Lake & Baroni 2018, "Generalization without Systematicity"). Without arguments: one
    layer of 100 units with attention, which we take for the network of their 1.2% on SCAN's "jump" that Chaabouni et
    al. 2021 quote in Table 3.

    Vocabularies and special ids are those of [`Seq2SeqConfig`].

    Args:
        hidden_size: units of every LSTM layer, also the width of embeddings and of attention (searched in {25, 50,
            100, 200, 400}).
        encoder_layers, decoder_layers: LSTM layers; equal, because each layer of the decoder starts from the last
            state of the encoder's layer of the same depth.
        source_attention: `"additive"` scores source positions against the decoder's previous state (Bahdanau et al.
            2015); its context vector is concatenated to the input word and, before the output projection, to the state.
            `"none"`: the decoder gets only the encoder's last state.
        dropout: on embeddings, and between LSTM layers.
        teacher_forcing: probability of teacher forcing for a training example; otherwise the decoder reads its own
            greedy predictions. Decided per example. Explicit decoder input is never replaced, so do not give
            `DataCollatorForSeq2Seq` its `model`, which would make such input.
    """

    model_type = "lstm_seq2seq"
    title = "the LSTM encoder-decoder with attention, a baseline in the papers' SCAN tables"
    paper = "chaabouni2021"
    # Lake & Baroni 2018 do not mention a start symbol
    source_starts = False

    source_vocab_size: int = 14
    hidden_size: int = 100
    encoder_layers: int = 1
    decoder_layers: int = 1
    source_attention: Literal["additive", "none"] = "additive"
    teacher_forcing: float | int = 0.5

    def validate_architecture(self):
        super().validate_architecture()
        if self.encoder_layers != self.decoder_layers:
            raise ValueError(
                f"encoder_layers={self.encoder_layers} and decoder_layers={self.decoder_layers} must be equal: the "
                "decoder's layers start from the states of the encoder's"
            )
        if not 0 <= self.teacher_forcing <= 1:
            raise ValueError(f"teacher_forcing={self.teacher_forcing} must be in [0, 1]")
        self.check_untied()


__all__ = ["LstmSeq2SeqConfig"]
