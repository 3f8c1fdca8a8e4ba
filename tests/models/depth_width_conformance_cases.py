"""
transformers' own model tests on the depth-width decoders. Not collected by name: `test_depth_width_conformance.py` runs
this file in processes of its own, as `test_conformance.py` does.
"""

from __future__ import annotations

import importlib.util
import unittest

import torch

from hf_sysgen.models import DepthWidthConfig, DepthWidthForCausalLM, DepthWidthModel

# what we skip, and why
LEFT_OUT: dict[str, str] = {}
WORDS = 97
FIELDS = {
    "rotary": {},
    "relative_bias_shared": {"position_scheme": "relative_bias", "share_layers": True},
}


class Sizes:
    """Sizes, a configuration and a batch, under the names that the tests expect."""

    batch_size = 13
    seq_length = key_length = encoder_seq_length = 7
    hidden_size = 36
    num_attention_heads = 2
    num_hidden_layers = 2
    vocab_size = WORDS
    is_training = True
    base_model_class = DepthWidthModel
    causal_lm_class = DepthWidthForCausalLM

    def __init__(self, fields: dict):
        self.fields = fields

    def get_config(self):
        return DepthWidthConfig(
            vocab_size=WORDS,
            hidden_size=self.hidden_size,
            intermediate_size=37,
            num_attention_heads=self.num_attention_heads,
            num_hidden_layers=self.num_hidden_layers,
            pad_token_id=1,
            eos_token_id=2,
            **self.fields,
        )

    def prepare_config_and_inputs_for_common(self):
        shape = (self.batch_size, self.seq_length)
        mask = torch.randint(2, shape)
        # every row has a real first word
        mask[:, 0] = 1
        return self.get_config(), {"input_ids": torch.randint(4, WORDS, shape), "attention_mask": mask}

    prepare_config_and_inputs = prepare_config_and_inputs_for_common


def conformance_class(variant: str) -> type[unittest.TestCase]:
    from transformers.models.auto import modeling_auto
    from transformers_tests.generation.test_utils import GenerationTesterMixin
    from transformers_tests.test_configuration_common import ConfigTester
    from transformers_tests.test_modeling_common import ModelTesterMixin

    # labels are made for the classes whose names transformers knows
    modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[DepthWidthConfig.model_type] = "DepthWidthForCausalLM"
    modeling_auto.MODEL_MAPPING_NAMES[DepthWidthConfig.model_type] = "DepthWidthModel"

    def set_up(self) -> None:
        self.model_tester = Sizes(FIELDS[variant])
        self.config_tester = ConfigTester(self, DepthWidthConfig, hidden_size=36, num_attention_heads=2)

    body = {
        "all_model_classes": (DepthWidthModel, DepthWidthForCausalLM),
        # transformers spares models without a date from this test
        "test_can_init_all_missing_weights_before_2023": True,
        "setUp": set_up,
        "test_config": lambda self: self.config_tester.run_common_tests(),
    }
    for name, reason in LEFT_OUT.items():
        assert hasattr(ModelTesterMixin, name), f"{name} is no test any more"
        body[name] = lambda self, reason=reason: self.skipTest(reason)
    return type(f"Test_{variant}", (GenerationTesterMixin, ModelTesterMixin, unittest.TestCase), body)


# `test_depth_width_conformance.py` itself only reads the tables above
if importlib.util.find_spec("transformers_tests"):
    for name in FIELDS:
        globals()[f"Test_{name}"] = conformance_class(name)
