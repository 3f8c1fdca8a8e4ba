"""
transformers' own model tests on the Edge Transformer. Not collected by name: `test_edge_conformance.py` runs this file
in a process of its own, as `test_conformance.py` does.
"""

from __future__ import annotations

import importlib.util
import unittest

import torch
from edge_tiny import MODELS, SEQUENCE

# what we skip, and why
LEFT_OUT = {
    "test_attention_outputs": "weights are of triangles, (B, H, N, N, N): test_edge_models.py tests them",
    "test_hidden_states_output": "states are of edges, (B, N, N, E): test_edge_models.py tests them",
}
NAMES = ("sequence", "semantic graph")


class Sizes:
    """Sizes, a configuration and a batch, under the names that the tests expect."""

    batch_size, seq_length, key_length, encoder_seq_length = 7, 5, 5, 5
    hidden_size = SEQUENCE["hidden_size"]
    num_hidden_layers = 2
    num_attention_heads = SEQUENCE["num_attention_heads"]
    vocab_size = 97
    is_training = False

    def __init__(self, config_class):
        self.config_class = config_class

    def get_config(self):
        return self.config_class(**{**SEQUENCE, "vocab_size": self.vocab_size, "num_hidden_layers": 2})

    def prepare_config_and_inputs_for_common(self):
        shape = (self.batch_size, self.seq_length)
        mask = torch.randint(2, shape)
        mask[:, 0] = 1
        return self.get_config(), {"input_ids": torch.randint(4, self.vocab_size, shape), "attention_mask": mask}

    prepare_config_and_inputs = prepare_config_and_inputs_for_common


def conformance_class() -> type[unittest.TestCase]:
    from transformers_tests.test_configuration_common import ConfigTester
    from transformers_tests.test_modeling_common import ModelTesterMixin

    config_class = MODELS["sequence"][1]

    def set_up(self) -> None:
        self.model_tester = Sizes(config_class)
        self.config_tester = ConfigTester(self, config_class, hidden_size=34, num_attention_heads=2, vocab_size=97)

    body = {
        "all_model_classes": tuple(MODELS[name][0] for name in NAMES),
        "test_can_init_all_missing_weights_before_2023": True,
        "setUp": set_up,
        "test_config": lambda self: self.config_tester.run_common_tests(),
    }
    for name, reason in LEFT_OUT.items():
        assert hasattr(ModelTesterMixin, name), f"{name} is no test any more"
        body[name] = lambda self, reason=reason: self.skipTest(reason)
    return type("Test_edge_transformer", (ModelTesterMixin, unittest.TestCase), body)


# `test_edge_conformance.py` itself only reads the table above
if importlib.util.find_spec("transformers_tests"):
    Test_edge_transformer = conformance_class()
