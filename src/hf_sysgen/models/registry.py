"""`@register` above a model class makes it known to transformers' Auto classes, once its module is imported."""

from typing import Any, TypeVar

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
)
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils import TRANSFORMERS_DYNAMIC_MODULE_NAME

# how the name of a model class ends, and the Auto class that finds it
AUTO_CLASSES: dict[str, Any] = {
    "ForConditionalGeneration": AutoModelForSeq2SeqLM,
    "ForCausalLM": AutoModelForCausalLM,
    "ForGraphParsing": AutoModelForTokenClassification,
    "ForDependencyParsing": AutoModelForTokenClassification,
    "ForRelationClassification": AutoModelForSequenceClassification,
    "Model": AutoModel,
}

# filled by `register`: the model classes of each config class by Auto class, and the config class of each model type
MODELS: dict[Any, dict[Any, Any]] = {}
CONFIGS: dict[str, Any] = {}

Model = TypeVar("Model", bound=type[PreTrainedModel])


def register(model: Model) -> Model:
    """
    Class decorator: the Auto class that the end of the class name selects (`AUTO_CLASSES`) finds the model,
    `AutoConfig` finds its `config_class`, and `save_pretrained` puts the code of both into the checkpoint.

    Raises:
        TypeError: the class name ends otherwise, `config_class` is missing or lacks `@strict`, or `model_class` has
            another `config_class`.
        ValueError: the model type, or this Auto class of the config, belongs to another class.
    """
    name, config = model.__name__, model.config_class
    ending = next((ending for ending in AUTO_CLASSES if name.endswith(ending)), None)
    if ending is None:
        raise TypeError(f"{name}: the name of a registered class must end in one of {', '.join(AUTO_CLASSES)}")
    if config is None:
        raise TypeError(f"{name} needs a config_class")
    if "__validators__" not in vars(config):
        raise TypeError(f"{config.__name__} lacks @strict, without which wrong values pass")
    headless = getattr(model, "model_class", model)
    if getattr(headless, "config_class", None) is not config:
        raise TypeError(f"{name}: model_class must be a class with config_class = {config.__name__}")
    auto_class, known = AUTO_CLASSES[ending], CONFIGS.get(config.model_type, config)
    if config.model_type in CONFIG_MAPPING_NAMES or not _same(known, config):
        raise ValueError(f"model_type {config.model_type!r} of {config.__name__} is taken; choose another")
    classes = MODELS.get(config, {})
    if not _same(other := classes.get(auto_class, model), model):
        raise ValueError(f"{auto_class.__name__} finds one class of {config.__name__}, not {other.__name__} and {name}")

    if known is not config:
        # the file was imported again
        MODELS.pop(known, None)
    CONFIGS[config.model_type] = config
    MODELS[config] = {**classes, auto_class: model}
    config.register_for_auto_class()
    model.register_for_auto_class(auto_class.__name__)
    if __name__.startswith(TRANSFORMERS_DYNAMIC_MODULE_NAME):
        # this copy came with a checkpoint, and must not answer for other checkpoints of the same model type
        return model
    AutoConfig.register(config.model_type, config, exist_ok=True)
    auto_class.register(config, model, exist_ok=True)
    if auto_class is AutoModelForCausalLM:
        # the Trainer reads it to know whether labels are shifted before they are smoothed
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[config.model_type] = name
    return model


def _same(one: type, other: type) -> bool:
    """Whether these are one class, perhaps from two imports of its file."""
    return (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)
