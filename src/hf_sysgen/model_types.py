"""Model types by name: the models of this package and the text models of transformers."""

from typing import Any

from transformers import AutoModel, AutoModelForCausalLM, AutoModelForSeq2SeqLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
)

from hf_sysgen.models.registry import CONFIGS, MODELS

# the Auto classes of text models; if a model type has both, the first one is used
TEXT_AUTO_CLASSES = (AutoModelForSeq2SeqLM, AutoModelForCausalLM)


def is_transformers_model(model_type: str) -> bool:
    """Whether it is a type of text models of transformers, and not of this package."""
    names = {**MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES, **MODEL_FOR_CAUSAL_LM_MAPPING_NAMES}
    return model_type not in CONFIGS and model_type in names and model_type in CONFIG_MAPPING


def config_class_of(model_type: str) -> Any:
    """The config class of a model type. Raises KeyError: there is none."""
    return CONFIG_MAPPING[model_type] if is_transformers_model(model_type) else CONFIGS[model_type]


def model_classes(model_type: str) -> dict[Any, Any]:
    """The model classes of a type by Auto class. Raises KeyError: there is no such type."""
    config_class = config_class_of(model_type)
    if config_class in MODELS:
        return MODELS[config_class]
    found = {}
    for auto_class in (*TEXT_AUTO_CLASSES, AutoModel):
        if config_class in (mapping := auto_class._model_mapping):
            one = mapping[config_class]
            found[auto_class] = one[0] if isinstance(one, tuple) else one
    return found


def text_auto_class(model_type: str) -> Any:
    """The Auto class of this type's text model; `None` if it has none."""
    classes = model_classes(model_type)
    return next((one for one in TEXT_AUTO_CLASSES if one in classes), None)


def is_decoder(model_type: str) -> bool:
    """Whether this type's text model has no encoder, and writes on from its prompt."""
    return text_auto_class(model_type) is AutoModelForCausalLM
