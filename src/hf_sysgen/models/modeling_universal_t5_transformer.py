"""T5 with one block for all depths: transformers' own layers, stacks and wrappers."""

# B batch, S source length, T target length, V tokens

import torch
from transformers import T5ForConditionalGeneration, T5Model
from transformers.cache_utils import Cache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput
from transformers.utils import can_return_tuple

from .base import answer_auto_model
from .configuration_universal_t5_transformer import UniversalT5TransformerConfig
from .registry import register
from .seq2seq import ShiftedLabels, token_loss


class OneBlock:
    """
    Makes T5 universal: all blocks of a stack have the weights of its first (`reuse_first_block`, cfq/train.py:163-169).

    The authors put the first block itself in the place of all. Here each depth keeps a block, whose parameters are the
    first one's, because a block knows which slot of the cache is its own. Only the first has biases for distances,
    which a stack computes once.
    """

    _tied_weights_keys: dict[str, str]

    def __init__(self, config):
        depths = {"encoder": config.encoder_layers, "decoder": config.decoder_layers}
        self._tied_weights_keys = type(self)._tied_weights_keys | {
            rf"{side}\.block\.[1-9]\d*\.": rf"{side}\.block\.0\.(?!.*\.relative_attention_bias\.)"
            for side, depth in depths.items()
            # without tied weights transformers reports the pattern as a mistake
            if depth > 1
        }
        super().__init__(config)

    @classmethod
    def is_custom_code(cls) -> bool:
        """
        Whether `_init_weights` may overwrite loaded weights: T5's does not. Of code that may, transformers skips
        modules without weights of their own, in which T5's initialises the linear layers.
        """
        return False


@register
class UniversalT5TransformerModel(OneBlock, T5Model):
    """
    Identical to transformers' [`T5Model`] except:
    - one block per stack, applied at every depth.

    The model without a head.
    """

    config_class = UniversalT5TransformerConfig


@register
class UniversalT5TransformerForConditionalGeneration(OneBlock, ShiftedLabels, T5ForConditionalGeneration):
    """
    Identical to transformers' [`T5ForConditionalGeneration`] except:
    - one block per stack, applied at every depth.
    - the loss may be a part of that of a larger batch, and labels are checked.
    """

    config_class = UniversalT5TransformerConfig
    # the loss divides by `num_items_in_batch`, so that accumulated and sharded batches have one loss
    accepts_loss_kwargs = True

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        labels: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **kwargs,
    ) -> Seq2SeqLMOutput:
        """
        Args:
            input_ids: source ids (B, S), ending in EOS; attention_mask (B, S) with 1 = real.
            decoder_input_ids: target ids (B, T), starting with `decoder_start_token_id`.
            encoder_outputs: what the encoder returned for this source, to skip it.
            labels: target ids (B, T) ending in EOS, -100 where there is no loss; without decoder input they
                are shifted right to make it.
            num_items_in_batch: number of labels that count in the whole batch, of which this may be a part;
                `None` means those here.

        Returns:
            logits (B, T, V) and, with labels, loss: cross-entropy summed over labels, divided by their number.
        """
        if labels is not None:
            use_cache = False
            if decoder_input_ids is None and decoder_inputs_embeds is None:
                decoder_input_ids = self.training_input(labels)
            else:
                self.check_labels(labels)
        outputs = super().forward(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            encoder_outputs=encoder_outputs,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            decoder_inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            return_dict=True,
            **kwargs,
        )
        if labels is None:
            return outputs
        return Seq2SeqLMOutput(loss=token_loss(outputs.logits, labels, num_items_in_batch), **outputs)

    def save_pretrained(self, *args, **kwargs):
        """As in transformers; `AutoModel` also loads the remote code of the checkpoint."""
        answer_auto_model(self.config, UniversalT5TransformerModel)
        super().save_pretrained(*args, **kwargs)


__all__ = ["UniversalT5TransformerForConditionalGeneration", "UniversalT5TransformerModel"]
