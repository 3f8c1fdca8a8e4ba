"""Greedy decoding for a fixed number of steps, as the papers evaluate."""

from __future__ import annotations

import bisect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from transformers import Cache, DynamicCache, EncoderDecoderCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer
from transformers.modeling_outputs import BaseModelOutput

from hf_sysgen.models import MODELS


class PreallocatedLayer(DynamicLayer):
    """
    Identical to [`DynamicLayer`] except:

    - keys and values are views of buffers with room for all steps. To copy all earlier steps at each step took three
    quarters of the decoding time.
    """

    def __init__(self, capacity: int):
        super().__init__()
        self.capacity = capacity
        self.buffers: list[torch.Tensor] = []

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

    def batch_select_indices(self, indices):
        super().batch_select_indices(indices)
        self.buffers = [buffer[indices] for buffer in self.buffers]


def preallocated_cache(model: PreTrainedModel, num_steps: int) -> EncoderDecoderCache:
    """A cache with room for `num_steps` decoder positions."""
    layers: list = [PreallocatedLayer(num_steps) for _ in range(model.config.decoder_layers)]
    return EncoderDecoderCache(Cache(layers=layers), DynamicCache(config=model.config))


def left_padded(ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask (B, S), 1 = real, with the padding of each row moved before its tokens."""
    order = mask.argsort(dim=1, stable=True)
    return ids.gather(1, order), mask.gather(1, order)


def is_sysgen_model(model: Any) -> bool:
    """Whether the model is one of this package, not of transformers."""
    return type(model.config) in MODELS


def position_ids_from_mask(model: Any, mask: torch.Tensor, count: int) -> dict[str, torch.Tensor]:
    """
    Positions of the last `count` columns of left-padded rows, counted from each row's first token, as a decoder of
    transformers needs them. Those of this package count by the mask.

    Args:
        mask: (B, L), 1 = real.
    """
    if is_sysgen_model(model):
        return {}
    return {"position_ids": (mask.cumsum(1) - 1).clamp(min=0)[:, -count:]}


def teacher_forced_logits(
    model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, target: torch.Tensor
) -> torch.Tensor:
    """
    Logits (B, T, V) of every token of the references, each after the source and the tokens before it, in one pass.

    Args:
        model: an encoder-decoder model, or a decoder that continues the source.
        input_ids: source ids (B, S); attention_mask (B, S), 1 = real.
        target: ids (B, T), -100 after the end of a row.
    """
    if model.config.is_encoder_decoder:
        shifted = model.prepare_decoder_input_ids_from_labels(target)
        return model(input_ids=input_ids, attention_mask=attention_mask, decoder_input_ids=shifted).logits
    prompt, mask = left_padded(input_ids, attention_mask)
    # padding comes after all scored tokens, so any token will do
    read = target[:, :-1].clamp(min=0)
    mask = torch.cat((mask, torch.ones_like(read)), dim=1)
    return model(
        input_ids=torch.cat((prompt, read), dim=1),
        attention_mask=mask,
        **position_ids_from_mask(model, mask, mask.shape[1]),
        use_cache=False,
        logits_to_keep=target.shape[1],
    ).logits


@torch.inference_mode()
def greedy_decode(
    model: Any,
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    num_steps: int,
    prefix: torch.Tensor | None = None,
    lengths: Sequence[int] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Take the most likely token `num_steps` times. A row continues after its EOS with its own tokens, while `generate`
    stops it and pads: the authors' free-running loss needs the logits of every step up to the length of the reference
    (models/transformer_enc_dec.py:109-137 of Csordas et al.).

    Args:
        model: an encoder-decoder model in evaluation mode, or a decoder that continues the source.
        input_ids: source ids (B, S); attention_mask (B, S), 1 = real.
        num_steps: T, at least 1.
        prefix: the first P < T tokens of each row (B, P), known to be the most likely ones. They are read in one pass.
        lengths: number of steps of each row, falling from T to at least P + 1; `None` for T each.

    Returns:
        ids (B, T) and their logits (B, T, V); zeros after the last step of a row.

    Raises:
        ValueError: `lengths` are not of this form.
    """
    rows, num_given = input_ids.shape[0], 0 if prefix is None else prefix.shape[1]
    lengths = [num_steps] * rows if lengths is None else list(lengths)
    falling = sorted(lengths, reverse=True) == lengths and len(lengths) == rows
    if not falling or max(lengths) != num_steps or min(lengths) <= num_given:
        raise ValueError(
            f"lengths of {rows} rows must fall from num_steps={num_steps} to more than the {num_given} given tokens, "
            f"not {lengths}"
        )
    begin = read_source if model.config.is_encoder_decoder else read_prompt
    step, fed, cache = begin(model, input_ids, attention_mask, num_steps)
    ids, logits = [], []
    if prefix is not None:
        ids.append(prefix)
        fed = torch.cat((fed, prefix), dim=1)
    for done in range(num_given, num_steps):
        active = bisect.bisect_left(lengths, -done, key=operator.neg)
        if cache is not None and active < len(fed):
            fed = fed[:active]
            keep_rows(cache, active)
        output = step(fed, cache)
        cache = output.cache
        fed = output.logits[:, -1:].argmax(dim=-1)
        ids.append(_filled(fed, rows))
        logits.append(_filled(output.logits, rows))
    return torch.cat(ids, dim=1), torch.cat(logits, dim=1)


def _filled(tensor: torch.Tensor, rows: int) -> torch.Tensor:
    """(R, ...) -> (rows, ...), filled with rows of zeros."""
    if len(tensor) == rows:
        return tensor
    return torch.cat((tensor, tensor.new_zeros(rows - len(tensor), *tensor.shape[1:])))


def keep_rows(cache: Cache, count: int) -> None:
    """Keep only the first `count` rows of a cache, as views, without a copy."""
    parts: tuple = (cache,)
    if isinstance(cache, EncoderDecoderCache):
        parts = (cache.self_attention_cache, cache.cross_attention_cache)
    for part in parts:
        part.batch_select_indices(slice(count))


# the model's output for tokens (B, N) that follow those in the cache, for its first B rows
Step = Callable[[torch.Tensor, Cache | None], Any]


def read_source(
    model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, num_steps: int
) -> tuple[Step, torch.Tensor, Cache | None]:
    """For an encoder-decoder: the step function, the start symbols (B, 1), and a cache."""
    states = model.get_encoder()(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    def step(fed: torch.Tensor, cache: Cache | None) -> Any:
        return model(
            encoder_outputs=BaseModelOutput(last_hidden_state=states[: len(fed)]),
            attention_mask=attention_mask[: len(fed)],
            decoder_input_ids=fed,
            cache=cache,
            use_cache=True,
        )

    # a model with its own kind of cache makes it at the first step
    own = is_sysgen_model(model) and model._supports_default_dynamic_cache()
    cache = preallocated_cache(model, num_steps) if own else None
    return step, input_ids.new_full((input_ids.shape[0], 1), model.config.decoder_start_token_id), cache


def read_prompt(
    model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, num_steps: int
) -> tuple[Step, torch.Tensor, Cache | None]:
    """For a decoder alone: the step function, the left-padded source (B, S), and a cache."""
    prompt, mask = left_padded(input_ids, attention_mask)
    width = prompt.shape[1]
    mask = nn.functional.pad(mask, (0, num_steps), value=1)

    def step(fed: torch.Tensor, cache: Any) -> Any:
        end = cache.get_seq_length() + fed.shape[1]
        return model(
            input_ids=fed,
            attention_mask=mask[: len(fed), :end],
            **position_ids_from_mask(model, mask[: len(fed), :end], fed.shape[1]),
            cache=cache,
            use_cache=True,
            # logits are needed from the last position of the source on
            logits_to_keep=end - width + 1,
        )

    if not is_sysgen_model(model):
        # the layers of other models may be of several kinds
        return step, prompt, DynamicCache(config=model.config)
    layers: list = [PreallocatedLayer(width + num_steps) for _ in range(model.config.num_hidden_layers)]
    return step, prompt, Cache(layers=layers)
