"""What `@register` does, and which names the package exports."""

from __future__ import annotations

import pytest
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM

import hf_sysgen.models
from hf_sysgen.models import CONFIGS, MODELS, SysgenTransformerConfig, SysgenTransformerModel
from hf_sysgen.models.registry import AUTO_CLASSES, register

MODEL_TYPES = {
    "biaffine_dependency_parser", "conv_seq2seq", "depth_width_decoder", "edge_dependency_parser", "edge_transformer",
    "fairseq_transformer", "graph_attention_network", "lstm_seq2seq", "relation_aware_transformer",
    "relative_transformer", "relative_universal_transformer", "role_filler_transformer", "sag_conv_transformer",
    "sag_fixed_span_transformer", "sag_t5_transformer", "sag_transformer", "sysgen_transformer", "torch_transformer",
    "transformer_graph_parser", "universal_t5_transformer", "universal_transformer",
}  # fmt: skip


def test_model_types_are_frozen():
    """Recipes and checkpoints have these names. New ones may be added."""
    assert set(CONFIGS) >= MODEL_TYPES


def test_everything_registered_is_found_and_exported():
    assert set(CONFIGS.values()) == set(MODELS)
    for config, classes in MODELS.items():
        assert type(AutoConfig.for_model(config.model_type)) is config
        assert getattr(hf_sysgen.models, config.__name__) is config
        assert len(classes) > 1
        for auto, model in classes.items():
            assert auto._model_mapping[config] is model
            assert getattr(hf_sysgen.models, model.__name__) is model
        assert next(iter(classes)) is AutoModel


def test_each_auto_class_of_a_name_s_end():
    assert set(AUTO_CLASSES.values()) == {auto for classes in MODELS.values() for auto in classes}


@pytest.mark.parametrize(
    ("name", "fields", "error", "words"),
    [
        ("Head", {}, TypeError, "Head"),
        ("OtherModel", {"config_class": None}, TypeError, "config_class"),
        ("OtherModel", {}, ValueError, "SysgenTransformerModel and OtherModel"),
        ("OtherForConditionalGeneration", {"model_class": AutoModel}, TypeError, "model_class"),
        (
            "OtherForConditionalGeneration",
            {"model_class": hf_sysgen.models.UniversalTransformerModel},
            TypeError,
            "model_class",
        ),
        ("OtherModel", {"config_class": type("LooseConfig", (SysgenTransformerConfig,), {})}, TypeError, "@strict"),
    ],
    ids=str,
)
def test_what_is_refused(name, fields, error, words):
    before = {config: dict(classes) for config, classes in MODELS.items()}
    with pytest.raises(error, match=words):
        register(type(name, (SysgenTransformerModel,), fields))
    assert before == MODELS
    assert AutoModelForSeq2SeqLM in MODELS[SysgenTransformerConfig]
