"""Small depth-width decoders and batches. Sizes differ from each other, so that a swapped axis cannot pass."""

from __future__ import annotations

import torch
from tiny import scatter_weights

from hf_sysgen.models import DepthWidthConfig, DepthWidthForCausalLM, DepthWidthModel

BATCH, LENGTH, WORDS = 5, 11, 17
HEADS, HEAD_DIM, DEPTH, FF = 3, 4, 2, 13
SIZES = {
    "vocab_size": WORDS,
    "hidden_size": HEADS * HEAD_DIM,
    "num_attention_heads": HEADS,
    "intermediate_size": FF,
    "num_hidden_layers": DEPTH,
    # so that short sequences reach every kind of bucket
    "relative_buckets": 6,
    "relative_max_distance": 7,
}
# the axes that change what is computed
VARIANTS = {
    "rotary": {},
    "relative bias": {"position_scheme": "relative_bias"},
    "rotary shared": {"share_layers": True, "num_hidden_layers": 3},
    "relative bias shared": {"position_scheme": "relative_bias", "share_layers": True, "num_hidden_layers": 3},
}
LENGTHS = [LENGTH, 2, 5, 3, 7]


def tiny_config(variant: str, **changes) -> DepthWidthConfig:
    return DepthWidthConfig(**{**SIZES, **VARIANTS[variant], **changes})


def tiny_decoder(variant: str, *, head: bool = True, seed: int = 0, spread: float = 0.3, **changes):
    """A model in evaluation mode and float64, always the same one."""
    model_class = DepthWidthForCausalLM if head else DepthWidthModel
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = model_class(tiny_config(variant, **changes))
    return scatter_weights(model.double(), seed, spread).eval()


def random_ids(seed: int = 0, shape: tuple[int, ...] = (BATCH, LENGTH)) -> torch.Tensor:
    return torch.randint(WORDS, shape, generator=torch.Generator().manual_seed(seed))


def ragged_mask(side: str) -> torch.Tensor:
    """(BATCH, LENGTH), 1 = real, padding on that side."""
    real = (torch.arange(LENGTH) < torch.tensor(LENGTHS)[:, None]).long()
    return real.flip(1) if side == "left" else real


def ragged_labels(ids: torch.Tensor) -> torch.Tensor:
    """The ids with -100 where padding on the right would be."""
    return ids.masked_fill(ragged_mask("right") == 0, -100)


def gradients(model, batch: dict[str, torch.Tensor], seed: int = 0) -> dict[str, torch.Tensor]:
    model.zero_grad()
    torch.manual_seed(seed)
    model(**batch).loss.backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
