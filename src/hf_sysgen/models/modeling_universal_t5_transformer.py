"""T5 with one block for all depths: transformers' own layers, stacks and wrappers."""

# B batch, S source length, T target length, V tokens

from functools import partial
from typing import Any

import torch
from torch import nn
from transformers import T5ForConditionalGeneration, T5Model
from transformers.cache_utils import Cache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput
from transformers.utils import can_return_tuple

from .base import accept_past_key_values, record_tying, set_auto_map, set_pipeline
from .configuration_universal_t5_transformer import UniversalT5TransformerConfig
from .generation import SysgenGenerationMixin
from .registry import register
from .seq2seq import ShiftedLabels, token_loss


class CacheLayerView:
    """One depth's layer of a cache, shown as layer 0 to a block that always uses index 0."""

    def __init__(self, cache: Cache, depth: int):
        self.cache = cache
        self.depth = depth

    @property
    def layers(self) -> list:
        return [self.cache.layers[self.depth]]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.cache.get_seq_length(self.depth)

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, **kwargs
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self.cache.update(keys, values, self.depth, **kwargs)


class DepthCache(EncoderDecoderCache):
    """[`CacheLayerView`] of self-attention and of cross-attention."""

    def __init__(self, cache: EncoderDecoderCache, depth: int):
        self.self_attention_cache = CacheLayerView(cache.self_attention_cache, depth)
        self.cross_attention_cache = CacheLayerView(cache.cross_attention_cache, depth)
        self.is_updated = {0: cache.is_updated.get(depth, False)}


class SharedBlock(nn.Module):
    """
    One shared block that acts as the list of a stack's blocks (`reuse_first_block`, cfq/train.py:163-169). It exists
    once, so adapters and quantization change it once. Iteration yields it once per depth, each time with its own cache
    slot. Only the first depth computes the relative position biases; later depths reuse them.
    """

    def __init__(self, block: nn.Module, depth: int):
        super().__init__()
        # the name of the first block in a list of them
        self.add_module("0", block)
        self.depth = depth

    @property
    def block(self) -> nn.Module:
        return self.get_submodule("0")

    def at(self, depth: int, *args, cache: EncoderDecoderCache | None = None, **kwargs):
        """What the block returns at a depth."""
        if cache is None:
            return self.block(*args, **kwargs)
        slot = DepthCache(cache, depth)
        outputs = self.block(*args, cache=slot, **kwargs)
        cache.is_updated[depth] = slot.is_updated[0]
        return outputs

    def __len__(self) -> int:
        return self.depth

    def __iter__(self):
        return (partial(self.at, depth) for depth in range(self.depth))


class SharedBlockMixin:
    """Makes T5 universal: each of its stacks has one block."""

    encoder: Any
    decoder: Any

    def __init__(self, config):
        super().__init__(config)
        for stack in (self.encoder, self.decoder):
            stack.block = SharedBlock(stack.block[0], len(stack.block))

    @classmethod
    def is_custom_code(cls) -> bool:
        """
        False: T5's `_init_weights` does not overwrite loaded weights. For custom code, transformers would skip modules
        without parameters of their own, but T5 initializes its linear layers from such modules.
        """
        return False


@register
class UniversalT5TransformerModel(SharedBlockMixin, T5Model):
    """
    Identical to transformers' [`T5Model`] except:

    - one block per stack, applied at every depth.

    The model without a head.
    """

    config_class = UniversalT5TransformerConfig


@register
class UniversalT5TransformerForConditionalGeneration(
    SharedBlockMixin, ShiftedLabels, SysgenGenerationMixin, T5ForConditionalGeneration
):
    """
    Identical to transformers' [`T5ForConditionalGeneration`] except:

    - one block per stack, applied at every depth.
    - the loss may be a part of that of a larger batch, and labels are checked.
    """

    config_class = UniversalT5TransformerConfig
    # the loss divides by `num_items_in_batch`, so that accumulated and sharded batches have one loss
    accepts_loss_kwargs = True

    @accept_past_key_values
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        labels: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **kwargs,
    ) -> Seq2SeqLMOutput:
        """Arguments and outputs as in [`Seq2SeqLM`], but a source (B, S) ends in EOS and has no start symbol."""
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
            cache=cache,
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
        set_auto_map(self.config, UniversalT5TransformerModel)
        set_pipeline(self)
        record_tying(self)
        super().save_pretrained(*args, **kwargs)


__all__ = ["UniversalT5TransformerForConditionalGeneration", "UniversalT5TransformerModel"]
