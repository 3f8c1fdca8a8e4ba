"""
transformers' own model tests on the Edge Transformer and its baselines. Not collected by name:
`test_edge_conformance.py` runs this file in processes of its own, as `test_conformance.py` does.
"""

from __future__ import annotations

import importlib.util
import unittest
from typing import Any

import torch
from conformance_cases import check_cache, has_generation
from edge_tiny import MODELS, WRITERS
from transformers import AutoModel

from hf_sysgen.models import MODELS as REGISTERED

# what transformers' tests run on, by the name of the case: the models of `edge_tiny`, without and with their heads
CASES = {
    "edge_transformer": ("sequence", "semantic graph"),
    "edge_dependency_parser": ("dependencies",),
    "edge_graph": ("graph", "relation"),
    "edge_translation": ("translation",),
    "relation_aware_transformer": ("rat nodes", "rat"),
    "relation_updating_transformer": ("rrat",),
    "graph_attention_network": ("gat",),
    "transformer_graph_parser": ("graph of words",),
    "biaffine_dependency_parser": ("biaffine",),
    "biaffine_bilstm": ("bilstm",),
    "universal_t5_transformer": ("universal t5",),
}
WRITING = tuple(case for case, names in CASES.items() if names[0] in WRITERS)
# what we skip, and why
OF_EDGES = {
    "test_attention_outputs": "weights are of triangles, (B, H, N, N, N): test_edge_models.py tests them",
    "test_hidden_states_output": "states are of edges, (B, N, N, E): test_edge_models.py tests them",
}
OF_GRAPHS = {
    "test_inputs_embeds": "asks for input_ids, graphs have edge_ids: test_edge_models.py::"
    "test_embeddings_instead_of_ids",
    "test_resize_tokens_embeddings": "ids are labels of edges, not tokens",
}
OF_NODES = {
    "test_retain_grad_hidden_states_attentions": "nodes start from constants, whose gradient nobody can ask for: "
    "test_edge_models.py::test_every_parameter_learns",
    "test_resize_tokens_embeddings": OF_GRAPHS["test_resize_tokens_embeddings"],
}
OF_LSTMS = "there is no attention"
LEFT_OUT: dict[str, dict[str, str]] = {
    "edge_transformer": OF_EDGES,
    "edge_dependency_parser": OF_EDGES,
    "edge_graph": OF_EDGES | OF_GRAPHS,
    "edge_translation": OF_EDGES
    | {
        "test_retain_grad_hidden_states_attentions": "asks for cross-attentions, but source and target are attended to "
        "at once: test_edge_models.py::test_recorded_states_and_weights",
    },
    "relation_aware_transformer": OF_NODES | {"test_inputs_embeds": OF_GRAPHS["test_inputs_embeds"]},
    "relation_updating_transformer": OF_NODES | {"test_inputs_embeds": OF_GRAPHS["test_inputs_embeds"]},
    "graph_attention_network": OF_NODES
    | {"test_init_weights_can_init_buffers": "asks for buffers that are not random, the vectors of nodes are"},
    "biaffine_bilstm": {
        "test_attention_outputs": OF_LSTMS,
        "test_retain_grad_hidden_states_attentions": OF_LSTMS,
    },
    "universal_t5_transformer": {
        "test_load_save_without_tied_weights": "logits are made with the table of words, tie_word_embeddings=False is "
        "refused",
        "test_model_base_model_prefix": "T5 with its head has the stacks itself, not the model without: "
        "test_edge_models.py::test_saved_and_found_by_its_auto_class loads the one's weights into the other",
    },
}


# of GenerationTesterMixin
LEFT_OUT_OF_GENERATION = {
    "test_generate_without_input_ids": "starts from bos_token_id, these start from decoder_start_token_id",
}


def left_out(case: str, generation: bool = False) -> dict[str, str]:
    return LEFT_OUT.get(case, {}) | (LEFT_OUT_OF_GENERATION if generation else {})


def generation_checks(case: str) -> dict[str, Any]:
    """What GenerationTesterMixin asks of weights and caches, where ours have other shapes."""
    if case != "edge_translation":
        return {"_check_past_key_values_for_generate": check_cache}
    # weights of triangles, states and a cache of edges: test_edge_models.py tests them, and decoding with the cache
    names = ("hidden_states_for_generate", "encoder_hidden_states_for_generate", "past_key_values_for_generate")
    return {"has_attentions": False, **{f"_check_{name}": lambda *args, **kwargs: None for name in names}}


class Sizes:
    """Sizes, a configuration and a batch, under the names that the tests expect."""

    batch_size, seq_length, key_length, encoder_seq_length, decoder_seq_length = 7, 5, 5, 5, 5
    num_hidden_layers = 2
    vocab_size = 97
    is_training = False

    def __init__(self, case: str):
        _, self.config_class, sizes = MODELS[CASES[case][0]]
        # of labels there are as many as transformers takes without being told
        self.sizes = {key: value for key, value in sizes.items() if key != "num_labels"}
        depths = ("encoder_layers", "decoder_layers") if "encoder_layers" in sizes else ("num_hidden_layers",)
        self.sizes |= dict.fromkeys(depths, self.num_hidden_layers)
        self.writes = CASES[case][0] in WRITERS
        self.reads_graphs = "edge_vocab_size" in sizes
        self.sizes["edge_vocab_size" if self.reads_graphs else "vocab_size"] = self.vocab_size
        self.hidden_size, self.num_attention_heads = sizes["hidden_size"], sizes["num_attention_heads"]

    def get_config(self):
        config = self.config_class(**self.sizes)
        config.is_encoder_decoder = self.writes
        return config

    def prepare_config_and_inputs_for_common(self):
        shape = (self.batch_size, self.seq_length)
        mask = torch.randint(2, shape)
        mask[:, 0] = 1
        if self.reads_graphs:
            edges = torch.randint(self.vocab_size, (*shape, self.seq_length))
            return self.get_config(), {"edge_ids": edges, "node_mask": mask}
        inputs = {"input_ids": torch.randint(4, self.vocab_size, shape), "attention_mask": mask}
        if self.writes:
            inputs["decoder_input_ids"] = torch.randint(4, self.vocab_size, shape)
            inputs["decoder_attention_mask"] = torch.ones(shape, dtype=torch.long)
        return self.get_config(), inputs

    prepare_config_and_inputs = prepare_config_and_inputs_for_common


def conformance_class(case: str) -> type[unittest.TestCase]:
    from transformers_tests.generation.test_utils import GenerationTesterMixin
    from transformers_tests.test_configuration_common import ConfigTester
    from transformers_tests.test_modeling_common import ModelTesterMixin

    config_class = MODELS[CASES[case][0]][1]
    classes = {REGISTERED[config_class][AutoModel], *(MODELS[name][0] for name in CASES[case])}
    if "translation" in CASES[case]:
        # without it there is no decoder
        classes = {MODELS["translation"][0]}

    def set_up(self) -> None:
        self.model_tester = Sizes(case)
        has_words = not self.model_tester.reads_graphs
        self.config_tester = ConfigTester(self, config_class, has_text_modality=has_words, **self.model_tester.sizes)

    def prepare(self, inputs: dict[str, Any], model_class: type, return_labels: bool = False) -> dict[str, Any]:
        """What heads read beside the model's own inputs."""
        inputs = ModelTesterMixin._prepare_for_class(self, inputs, model_class, return_labels)
        batch = len(next(iter(inputs.values())))
        if model_class.__name__.endswith("ForRelationClassification"):
            inputs["query"] = torch.tensor([[0, 1]] * batch, device=next(iter(inputs.values())).device)
        return inputs

    body = {
        "all_model_classes": tuple(sorted(classes, key=lambda one: one.__name__)),
        "is_encoder_decoder": case in WRITING,
        "test_can_init_all_missing_weights_before_2023": True,
        "setUp": set_up,
        "_prepare_for_class": prepare,
        **generation_checks(case),
        "test_config": lambda self: self.config_tester.run_common_tests(),
    }
    generates = (GenerationTesterMixin,) if case in WRITING else ()
    bases = (*generates, ModelTesterMixin, unittest.TestCase)
    for name, reason in left_out(case, bool(generates) and has_generation(GenerationTesterMixin)).items():
        assert any(hasattr(base, name) for base in bases), f"{name} is no test any more"
        body[name] = lambda self, reason=reason: self.skipTest(reason)
    return type(f"Test_{case}", bases, body)


# `test_edge_conformance.py` itself only reads the tables above
if importlib.util.find_spec("transformers_tests"):
    for name in CASES:
        globals()[f"Test_{name}"] = conformance_class(name)
