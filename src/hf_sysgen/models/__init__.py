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

# model class of each head, by config: the single list that registration, remote code and the CLI read
SEQ2SEQ = {
    SysgenTransformerConfig: (SysgenTransformerModel, SysgenTransformerForConditionalGeneration),
    UniversalTransformerConfig: (UniversalTransformerModel, UniversalTransformerForConditionalGeneration),
    RelativeTransformerConfig: (RelativeTransformerModel, RelativeTransformerForConditionalGeneration),
    RelativeUniversalTransformerConfig: (
        RelativeUniversalTransformerModel,
        RelativeUniversalTransformerForConditionalGeneration,
    ),
}

for _config, (_model, _seq2seq) in SEQ2SEQ.items():
    AutoConfig.register(_config.model_type, _config, exist_ok=True)
    AutoModel.register(_config, _model, exist_ok=True)
    AutoModelForSeq2SeqLM.register(_config, _seq2seq, exist_ok=True)
    _config.register_for_auto_class()
    _model.register_for_auto_class("AutoModel")
    _seq2seq.register_for_auto_class("AutoModelForSeq2SeqLM")
