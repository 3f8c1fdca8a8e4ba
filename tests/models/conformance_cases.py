"""
transformers' own model tests on our models. Not collected by name: `test_conformance.py` runs this file in processes of
its own, where `transformers_tests` is the unpacked source distribution, and reads `LEFT_OUT` from it.
"""

from __future__ import annotations

import copy
import importlib.util
import unittest
from collections.abc import Callable
from typing import Any

import torch
from tiny import BASELINES, WRAPPED
from transformers import PreTrainedConfig
from transformers.cache_utils import Cache, EncoderDecoderCache

# what we skip, and why
LEFT_OUT = {
    "test_inputs_embeds_matches_input_ids": "embeds source and target with one table, ours are two: "
    "test_generation.py::test_embeddings_instead_of_ids does the same with both",
}

NO_SELF_ATTENTION = "a convolution stands where self-attention stood: it has no weights to record"
SOURCE_ATTENTION = "attention is to the source only, in the decoder: test_baselines.py::test_attention_to_the_source"
LEFT_OUT_OF = {
    "lstm_seq2seq": {
        "test_attention_outputs": SOURCE_ATTENTION,
        "test_retain_grad_hidden_states_attentions": SOURCE_ATTENTION,
    },
    "conv_seq2seq": {
        "test_attention_outputs": SOURCE_ATTENTION,
        "test_retain_grad_hidden_states_attentions": SOURCE_ATTENTION,
        "test_model_get_set_embeddings": "expects logits of an nn.Linear, these have directions and lengths: "
        "test_loading.py::test_resizing_a_joint_vocabulary",
    },
    "sag_conv_transformer": {
        "test_attention_outputs": NO_SELF_ATTENTION,
        "test_retain_grad_hidden_states_attentions": NO_SELF_ATTENTION,
    },
    "role_filler_transformer": {
        "test_attention_outputs": "counts the outputs, of which there is one more, role_logits: "
        "test_generation.py::test_attentions",
        "test_hidden_states_output": "states hold two streams: test_generation.py::test_hidden_states",
        "test_inputs_embeds": "embeddings hold two streams: test_generation.py::test_embeddings_instead_of_ids",
        "test_load_save_without_tied_weights": "logits are made with the tables, tie_word_embeddings=False is refused",
    },
}


# of GenerationTesterMixin
LEFT_OUT_OF_GENERATION = {
    "test_generate_without_input_ids": "starts from bos_token_id, these start from decoder_start_token_id",
    "test_inherits_generation_mixin": "asks for the class itself among a model's bases, ours is one class further up",
}


def left_out(variant: str, generation: bool = False) -> dict[str, str]:
    return LEFT_OUT | LEFT_OUT_OF.get(variant, {}) | (LEFT_OUT_OF_GENERATION if generation else {})


# one vocabulary for both sides, as the tests that resize the embeddings and feed ids need
WORDS = 97


class Sizes:
    """Sizes, a configuration and a batch, under the names that the tests expect."""

    batch_size = 13
    seq_length = decoder_seq_length = 5
    encoder_seq_length = key_length = 7
    hidden_size = 34
    num_attention_heads = 2
    # the tests expect two stacks of one depth, and not more
    num_hidden_layers = 2
    vocab_size = WORDS
    is_training = True

    def __init__(self, config_class):
        self.config_class = config_class

    def get_config(self):
        is_attention = "num_attention_heads" in self.config_class.__dataclass_fields__
        return self.config_class(
            vocab_size=WORDS,
            source_vocab_size=WORDS,
            hidden_size=self.hidden_size,
            **({"intermediate_size": 37, "num_attention_heads": self.num_attention_heads} if is_attention else {}),
            encoder_layers=self.num_hidden_layers,
            decoder_layers=self.num_hidden_layers,
            pad_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=3,
        )

    def prepare_config_and_inputs_for_common(self):
        source, target = (self.batch_size, self.encoder_seq_length), (self.batch_size, self.decoder_seq_length)
        # every row has a real first word
        mask = torch.randint(2, source)
        mask[:, 0] = 1
        inputs = {
            "input_ids": torch.randint(4, WORDS, source),
            "attention_mask": mask,
            "decoder_input_ids": torch.randint(4, WORDS, target),
            "decoder_attention_mask": torch.ones(target, dtype=torch.long),
        }
        return self.get_config(), inputs

    prepare_config_and_inputs = prepare_config_and_inputs_for_common


def has_generation(mixin: type) -> bool:
    """Whether it is transformers' own, and not the stub that stands in where that cannot be had."""
    return hasattr(mixin, "test_greedy_generate")


def check_cache(self, batch_size: int, cache: Cache, seq_length: int | None, config) -> None:
    """As transformers checks it, but a shared layer has one slot of keys and values of the source for all depths."""
    from transformers_tests.generation.test_utils import GenerationTesterMixin

    if isinstance(cache, EncoderDecoderCache):
        cache = copy.copy(cache)
        cross = cache.cross_attention_cache = copy.copy(cache.cross_attention_cache)
        filled = [layer for layer in cross.layers if layer.keys is not None]
        cross.layers = [filled[depth % len(filled)] for depth in range(len(cross.layers))]
    GenerationTesterMixin._check_past_key_values_for_generate(self, batch_size, cache, seq_length, config)


def check_two_streams(name: str) -> Callable:
    """As transformers checks states, but fillers and roles stand side by side."""

    def check(self, *args: Any, config: PreTrainedConfig, **kwargs: Any) -> None:
        from transformers_tests.generation.test_utils import GenerationTesterMixin

        config = copy.deepcopy(config)
        config.hidden_size *= 2
        getattr(GenerationTesterMixin, name)(self, *args, config=config, **kwargs)

    return check


def generation_checks(variant: str) -> dict[str, Any]:
    """What GenerationTesterMixin asks of states and caches, where ours have other shapes."""
    if variant in (*BASELINES, "sag_conv_transformer"):
        # what a recurrent network or a convolution keeps; test_generation.py compares with and without it
        return {"_check_past_key_values_for_generate": lambda *args, **kwargs: None}
    names = ("_check_hidden_states_for_generate", "_check_encoder_hidden_states_for_generate")
    two = {name: check_two_streams(name) for name in names} if variant == "role_filler_transformer" else {}
    return {"_check_past_key_values_for_generate": check_cache, **two}


def conformance_class(variant: str) -> type[unittest.TestCase]:
    from transformers.models.auto import modeling_auto
    from transformers_tests.generation.test_utils import GenerationTesterMixin
    from transformers_tests.test_configuration_common import ConfigTester
    from transformers_tests.test_modeling_common import ModelTesterMixin

    config_class, base_class, head_class = WRAPPED[variant]
    # labels are made for the classes whose names transformers knows
    modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES[variant] = head_class.__name__
    modeling_auto.MODEL_MAPPING_NAMES[variant] = base_class.__name__

    def set_up(self) -> None:
        self.model_tester = Sizes(config_class)
        heads: dict = {"num_attention_heads": 2}
        if variant in BASELINES:
            heads = {"common_properties": ["hidden_size", "num_hidden_layers", "vocab_size"]}
        self.config_tester = ConfigTester(self, config_class, hidden_size=34, vocab_size=WORDS, source_vocab_size=WORDS,
                                          **heads)  # fmt: skip

    body = {
        "all_model_classes": (base_class, head_class),
        "is_encoder_decoder": True,
        # transformers spares models without a date from this test
        "test_can_init_all_missing_weights_before_2023": True,
        "setUp": set_up,
        "has_attentions": variant not in BASELINES,
        **generation_checks(variant),
        "test_config": lambda self: self.config_tester.run_common_tests(),
    }
    bases = (GenerationTesterMixin, ModelTesterMixin, unittest.TestCase)
    for name, reason in left_out(variant, has_generation(GenerationTesterMixin)).items():
        assert any(hasattr(base, name) for base in bases), f"{name} is no test any more"
        body[name] = lambda self, reason=reason: self.skipTest(reason)
    return type(f"Test_{variant}", bases, body)


# `test_conformance.py` itself only reads the table above
if importlib.util.find_spec("transformers_tests"):
    for name in WRAPPED:
        globals()[f"Test_{name}"] = conformance_class(name)
