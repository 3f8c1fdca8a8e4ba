"""Greedy decoding of a fixed number of steps, as the papers' evaluations need it."""

from __future__ import annotations

from typing import Any

import torch
from transformers import Cache, DynamicCache, EncoderDecoderCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer


class PreallocatedLayer(DynamicLayer):
    """
    Identical to [`DynamicLayer`] except:
    - keys and values are views of buffers that have room for every step, because copying all earlier steps at each
      step took three quarters of the decoding time.
    """

    def __init__(self, capacity: int):
        super().__init__()
        self.capacity = capacity

    def update(self, key_states, value_states, *args, **kwargs):
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self.buffers = [
                new.new_empty(*new.shape[:2], self.capacity, new.shape[3]) for new in (key_states, value_states)
            ]
            self.length = 0
        start, self.length = self.length, self.length + key_states.shape[2]
        for buffer, new in zip(self.buffers, (key_states, value_states), strict=True):
            buffer[:, :, start : self.length] = new
        self.keys, self.values = (buffer[:, :, : self.length] for buffer in self.buffers)
        return self.keys, self.values


def preallocated_cache(model: PreTrainedModel, num_steps: int) -> EncoderDecoderCache:
    """A cache with room for `num_steps` decoder positions."""
    layers: list = [PreallocatedLayer(num_steps) for _ in range(model.config.decoder_layers)]
    return EncoderDecoderCache(Cache(layers=layers), DynamicCache(config=model.config))


@torch.inference_mode()
def greedy_decode(
    model: Any,
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    num_steps: int,
    given: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Take the most likely token `num_steps` times, whatever it is: a row goes on after its EOS, fed with its own tokens.

    `generate` stops rows at their EOS and pads; the authors' free-running loss needs the logits of every step up to
    the length of the reference (models/transformer_enc_dec.py:109-137 of Csordas et al.).

    Args:
        model: an encoder-decoder model in evaluation mode.
        input_ids: source ids (B, S); attention_mask (B, S), 1 = real.
        num_steps: T, at least 1.
        given: the first P < T tokens of every row (B, P), known to be the most likely ones: they are read in one pass.

    Returns:
        ids (B, T) and the logits they were taken from (B, T, V).
    """
    encoded = model.get_encoder()(input_ids=input_ids, attention_mask=attention_mask)
    # a model whose cache is of its own kind makes it at the first step
    cache = preallocated_cache(model, num_steps) if model._supports_default_dynamic_cache() else None
    fed = input_ids.new_full((input_ids.shape[0], 1), model.config.decoder_start_token_id)
    ids, logits = [], []
    if given is not None:
        ids.append(given)
        fed = torch.cat((fed, given), dim=1)
    for _ in range(num_steps + 1 - fed.shape[1]):
        output = model(
            encoder_outputs=encoded,
            attention_mask=attention_mask,
            decoder_input_ids=fed,
            past_key_values=cache,
            use_cache=True,
        )
        cache = output.past_key_values
        logits.append(output.logits)
        fed = output.logits[:, -1:].argmax(dim=-1)
        ids.append(fed)
    return torch.cat(ids, dim=1), torch.cat(logits, dim=1)
