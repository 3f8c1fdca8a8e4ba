"""Small models and batches. Sizes are distinct primes, so that a swapped axis cannot pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from accelerate import cpu_offload
from torch import nn
from transformers import AutoModel, AutoModelForSeq2SeqLM

from hf_sysgen.models import MODELS, FairseqTransformerConfig, SysgenTransformerConfig
from hf_sysgen.models.configuration_encoder_decoder import EncoderDecoderConfig
from hf_sysgen.models.seq2seq import Seq2SeqLM

# of the one encoder-decoder wrapper, by model type: (config class, headless class, class with logits)
WRAPPED = {
    config.model_type: (config, classes[AutoModel], classes[AutoModelForSeq2SeqLM])
    for config, classes in MODELS.items()
    if issubclass(classes.get(AutoModelForSeq2SeqLM, object), Seq2SeqLM)
}
# those with stacks of attention layers, and those without
VARIANTS = {name: classes for name, classes in WRAPPED.items() if issubclass(classes[0], EncoderDecoderConfig)}
BASELINES = {name: classes for name, classes in WRAPPED.items() if name not in VARIANTS}

# those of Csordas et al. 2021, and fairseq's with the changes of Chaabouni et al. 2021
CSORDAS = [name for name, classes in VARIANTS.items() if issubclass(classes[0], SysgenTransformerConfig)]
FAIRSEQ = [name for name, classes in VARIANTS.items() if issubclass(classes[0], FairseqTransformerConfig)]

BATCH, SOURCE, TARGET = 5, 7, 11
SIZES: Mapping[str, Any] = {
    "vocab_size": 17,
    "source_vocab_size": 19,
    "hidden_size": 6,  # 2 heads of 3
    "num_attention_heads": 2,
    "intermediate_size": 13,
    "encoder_layers": 2,
    "decoder_layers": 3,
}


def tiny_config(variant: str, **changes):
    """`dropout` is that of every place."""
    if variant in FAIRSEQ and "dropout" in changes:
        changes = {"attention_dropout": changes["dropout"], "activation_dropout": changes["dropout"], **changes}
    if variant == "role_filler_transformer":
        # each side has a vocabulary of its own; a row does not depend on the rest of its batch
        changes = {"separate_tables": True, "renormalization": "each_row", **changes}
    if variant == "torch_transformer":
        changes = {"mask_memory": True, **changes}
    if variant == "lstm_seq2seq":
        changes = {"decoder_layers": changes.get("encoder_layers", SIZES["encoder_layers"]), **changes}
    config_class = WRAPPED[variant][0]
    sizes = {name: size for name, size in SIZES.items() if name in config_class.__dataclass_fields__}
    return config_class(**{**sizes, **changes})


def scatter_weights(model: nn.Module, seed: int = 0, spread: float = 0.5) -> nn.Module:
    """Moves every parameter off its start, zeros and ones included: a bias of 0 hides whether it is used."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(spread * noise.to(parameter.dtype))
    return model


def tiny_model(variant: str, *, head: bool = True, seed: int = 0, spread: float = 0.5, **changes):
    """A model in evaluation mode and float64, always the same one."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = WRAPPED[variant][2 if head else 1](tiny_config(variant, **changes))
    return scatter_weights(model.double(), seed, spread).eval()


def assert_same_loss_offloaded(model: nn.Module, batch: Mapping[str, torch.Tensor]) -> None:
    """With all weights elsewhere, which hooks fetch for the length of each module's `forward`."""
    with torch.no_grad():
        expected = model(**batch).loss
        cpu_offload(model, torch.device("cpu"))
        assert all(parameter.is_meta for parameter in model.parameters())
        torch.testing.assert_close(model(**batch).loss, expected, rtol=0, atol=1e-12)


def ragged_batch(config, seed: int = 0, target: int = TARGET) -> dict[str, torch.Tensor]:
    """Source rows of different lengths, right-padded with a real word's id; masks have 1 = real."""
    generator = torch.Generator().manual_seed(seed)
    low = config.source_id_offset
    input_ids = torch.randint(low, low + config.source_vocab_size, (BATCH, SOURCE), generator=generator)
    lengths = torch.tensor([SOURCE, 2, 5, 3, 1])
    decoder_input_ids = torch.randint(config.vocab_size, (BATCH, target), generator=generator)
    decoder_input_ids[:, 0] = config.decoder_start_token_id
    return {
        "input_ids": input_ids,
        "attention_mask": (torch.arange(SOURCE) < lengths[:, None]).long(),
        "decoder_input_ids": decoder_input_ids,
    }


def ragged_labels(config, seed: int = 0) -> torch.Tensor:
    """Target ids (BATCH, TARGET), each row with its own number of -100 at the end."""
    generator = torch.Generator().manual_seed(seed + 1)
    labels = torch.randint(config.vocab_size, (BATCH, TARGET), generator=generator)
    lengths = torch.tensor([3, TARGET, 1, 7, 5])
    return labels.masked_fill(torch.arange(TARGET) >= lengths[:, None], -100)
