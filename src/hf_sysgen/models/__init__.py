"""
Every model of the package, registered with transformers' Auto classes.

One flat folder: a saved checkpoint carries these files, so they import siblings, torch, transformers and the standard
library only.
"""

from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM

from .configuration_relative_transformer import RelativeTransformerConfig as RelativeTransformerConfig
from .configuration_relative_universal_transformer import (
    RelativeUniversalTransformerConfig as RelativeUniversalTransformerConfig,
)
from .configuration_sysgen_transformer import SysgenTransformerConfig as SysgenTransformerConfig
from .configuration_universal_transformer import UniversalTransformerConfig as UniversalTransformerConfig
from .modeling_relative_transformer import (
    RelativeTransformerForConditionalGeneration as RelativeTransformerForConditionalGeneration,
)
from .modeling_relative_transformer import RelativeTransformerModel as RelativeTransformerModel
from .modeling_relative_universal_transformer import (
    RelativeUniversalTransformerForConditionalGeneration as RelativeUniversalTransformerForConditionalGeneration,
)
from .modeling_relative_universal_transformer import (
    RelativeUniversalTransformerModel as RelativeUniversalTransformerModel,
)
from .modeling_sysgen_transformer import (
    SysgenTransformerForConditionalGeneration as SysgenTransformerForConditionalGeneration,
)
from .modeling_sysgen_transformer import SysgenTransformerModel as SysgenTransformerModel
from .modeling_universal_transformer import (
    UniversalTransformerForConditionalGeneration as UniversalTransformerForConditionalGeneration,
)
from .modeling_universal_transformer import UniversalTransformerModel as UniversalTransformerModel

# each config's classes by the Auto class that finds them: the single list that registration, recipes and the CLI read
MODELS = {
    SysgenTransformerConfig: {
        AutoModel: SysgenTransformerModel,
        AutoModelForSeq2SeqLM: SysgenTransformerForConditionalGeneration,
    },
    UniversalTransformerConfig: {
        AutoModel: UniversalTransformerModel,
        AutoModelForSeq2SeqLM: UniversalTransformerForConditionalGeneration,
    },
    RelativeTransformerConfig: {
        AutoModel: RelativeTransformerModel,
        AutoModelForSeq2SeqLM: RelativeTransformerForConditionalGeneration,
    },
    RelativeUniversalTransformerConfig: {
        AutoModel: RelativeUniversalTransformerModel,
        AutoModelForSeq2SeqLM: RelativeUniversalTransformerForConditionalGeneration,
    },
}
CONFIGS = {config.model_type: config for config in MODELS}

for _config, _classes in MODELS.items():
    AutoConfig.register(_config.model_type, _config, exist_ok=True)
    _config.register_for_auto_class()
    for _auto_class, _model in _classes.items():
        _auto_class.register(_config, _model, exist_ok=True)
        _model.register_for_auto_class(_auto_class.__name__)
