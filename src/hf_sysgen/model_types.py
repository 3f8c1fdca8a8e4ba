"""Model types by name: this package's, and those of transformers itself that write text."""

from typing import Any

from transformers import AutoModel, AutoModelForCausalLM, AutoModelForSeq2SeqLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
)

from hf_sysgen.models.registry import CONFIGS, MODELS

# the Auto classes of models that write text; a model type with both is taken as the first
WRITERS = (AutoModelForSeq2SeqLM, AutoModelForCausalLM)


def is_other(model_type: str) -> bool:
    """Whether transformers itself has models of this type that write text."""
    names = {**MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES, **MODEL_FOR_CAUSAL_LM_MAPPING_NAMES}
    return model_type not in CONFIGS and model_type in names and model_type in CONFIG_MAPPING


def config_class_of(model_type: str) -> Any:
    """The config class of a model type. Raises KeyError: there is none."""
    return CONFIG_MAPPING[model_type] if is_other(model_type) else CONFIGS[model_type]


def heads_of(model_type: str) -> dict[Any, Any]:
    """The model classes of a type by Auto class. Raises KeyError: there is no such type."""
    config_class = config_class_of(model_type)
    if config_class in MODELS:
        return MODELS[config_class]
    found = {}
    for auto_class in (*WRITERS, AutoModel):
        if config_class in (mapping := auto_class._model_mapping):
            one = mapping[config_class]
            found[auto_class] = one[0] if isinstance(one, tuple) else one
    return found


def writer_of(model_type: str) -> Any:
    """The Auto class with which a model of this type writes text; `None` if it writes none."""
    heads = heads_of(model_type)
    return next((one for one in WRITERS if one in heads), None)
