"""
Every model of the package, registered with transformers' Auto classes.

One flat folder: a saved checkpoint carries these files, so they import siblings, torch, transformers and the standard
library only.
"""

from pathlib import Path
from typing import Any

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

# this file is the one that no checkpoint carries
from hf_sysgen.extensions import own_models

from .configuration_biaffine_dependency_parser import (
    BiaffineDependencyParserConfig as BiaffineDependencyParserConfig,
)
from .configuration_conv_seq2seq import ConvSeq2SeqConfig as ConvSeq2SeqConfig
from .configuration_depth_width_decoder import DepthWidthConfig as DepthWidthConfig
from .configuration_edge_dependency_parser import EdgeDependencyParserConfig as EdgeDependencyParserConfig
from .configuration_edge_transformer import EdgeTransformerConfig as EdgeTransformerConfig
from .configuration_fairseq_transformer import FairseqTransformerConfig as FairseqTransformerConfig
from .configuration_graph_attention_network import GraphAttentionNetworkConfig as GraphAttentionNetworkConfig
from .configuration_lstm_seq2seq import LstmSeq2SeqConfig as LstmSeq2SeqConfig
from .configuration_relation_aware_transformer import (
    RelationAwareTransformerConfig as RelationAwareTransformerConfig,
)
from .configuration_relative_transformer import RelativeTransformerConfig as RelativeTransformerConfig
from .configuration_relative_universal_transformer import (
    RelativeUniversalTransformerConfig as RelativeUniversalTransformerConfig,
)
from .configuration_role_filler_transformer import RoleFillerTransformerConfig as RoleFillerTransformerConfig
from .configuration_sag_conv_transformer import SagConvTransformerConfig as SagConvTransformerConfig
from .configuration_sag_fixed_span_transformer import SagFixedSpanTransformerConfig as SagFixedSpanTransformerConfig
from .configuration_sag_t5_transformer import SagT5TransformerConfig as SagT5TransformerConfig
from .configuration_sag_transformer import SagTransformerConfig as SagTransformerConfig
from .configuration_sysgen_transformer import SysgenTransformerConfig as SysgenTransformerConfig
from .configuration_torch_transformer import TorchTransformerConfig as TorchTransformerConfig
from .configuration_transformer_graph_parser import TransformerGraphParserConfig as TransformerGraphParserConfig
from .configuration_universal_t5_transformer import UniversalT5TransformerConfig as UniversalT5TransformerConfig
from .configuration_universal_transformer import UniversalTransformerConfig as UniversalTransformerConfig
from .modeling_biaffine_dependency_parser import BiaffineDependencyParserModel as BiaffineDependencyParserModel
from .modeling_biaffine_dependency_parser import BiaffineForDependencyParsing as BiaffineForDependencyParsing
from .modeling_conv_seq2seq import ConvSeq2SeqForConditionalGeneration as ConvSeq2SeqForConditionalGeneration
from .modeling_conv_seq2seq import ConvSeq2SeqModel as ConvSeq2SeqModel
from .modeling_depth_width_decoder import DepthWidthForCausalLM as DepthWidthForCausalLM
from .modeling_depth_width_decoder import DepthWidthModel as DepthWidthModel
from .modeling_edge_dependency_parser import EdgeDependencyParserModel as EdgeDependencyParserModel
from .modeling_edge_dependency_parser import (
    EdgeTransformerForDependencyParsing as EdgeTransformerForDependencyParsing,
)
from .modeling_edge_transformer import (
    EdgeTransformerForConditionalGeneration as EdgeTransformerForConditionalGeneration,
)
from .modeling_edge_transformer import (
    EdgeTransformerForGraphParsing as EdgeTransformerForGraphParsing,
)
from .modeling_edge_transformer import (
    EdgeTransformerForRelationClassification as EdgeTransformerForRelationClassification,
)
from .modeling_edge_transformer import (
    EdgeTransformerModel as EdgeTransformerModel,
)
from .modeling_fairseq_transformer import (
    FairseqTransformerForConditionalGeneration as FairseqTransformerForConditionalGeneration,
)
from .modeling_fairseq_transformer import FairseqTransformerModel as FairseqTransformerModel
from .modeling_graph_attention_network import (
    GraphAttentionNetworkForRelationClassification as GraphAttentionNetworkForRelationClassification,
)
from .modeling_graph_attention_network import GraphAttentionNetworkModel as GraphAttentionNetworkModel
from .modeling_lstm_seq2seq import LstmSeq2SeqForConditionalGeneration as LstmSeq2SeqForConditionalGeneration
from .modeling_lstm_seq2seq import LstmSeq2SeqModel as LstmSeq2SeqModel
from .modeling_relation_aware_transformer import (
    RelationAwareTransformerForRelationClassification as RelationAwareTransformerForRelationClassification,
)
from .modeling_relation_aware_transformer import (
    RelationAwareTransformerModel as RelationAwareTransformerModel,
)
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
from .modeling_role_filler_transformer import (
    RoleFillerTransformerForConditionalGeneration as RoleFillerTransformerForConditionalGeneration,
)
from .modeling_role_filler_transformer import RoleFillerTransformerModel as RoleFillerTransformerModel
from .modeling_sag_conv_transformer import (
    SagConvTransformerForConditionalGeneration as SagConvTransformerForConditionalGeneration,
)
from .modeling_sag_conv_transformer import SagConvTransformerModel as SagConvTransformerModel
from .modeling_sag_fixed_span_transformer import (
    SagFixedSpanTransformerForConditionalGeneration as SagFixedSpanTransformerForConditionalGeneration,
)
from .modeling_sag_fixed_span_transformer import SagFixedSpanTransformerModel as SagFixedSpanTransformerModel
from .modeling_sag_t5_transformer import (
    SagT5TransformerForConditionalGeneration as SagT5TransformerForConditionalGeneration,
)
from .modeling_sag_t5_transformer import SagT5TransformerModel as SagT5TransformerModel
from .modeling_sag_transformer import (
    SagTransformerForConditionalGeneration as SagTransformerForConditionalGeneration,
)
from .modeling_sag_transformer import SagTransformerModel as SagTransformerModel
from .modeling_sysgen_transformer import (
    SysgenTransformerForConditionalGeneration as SysgenTransformerForConditionalGeneration,
)
from .modeling_sysgen_transformer import SysgenTransformerModel as SysgenTransformerModel
from .modeling_torch_transformer import (
    TorchTransformerForConditionalGeneration as TorchTransformerForConditionalGeneration,
)
from .modeling_torch_transformer import TorchTransformerModel as TorchTransformerModel
from .modeling_transformer_graph_parser import TransformerForGraphParsing as TransformerForGraphParsing
from .modeling_transformer_graph_parser import TransformerGraphParserModel as TransformerGraphParserModel
from .modeling_universal_t5_transformer import (
    UniversalT5TransformerForConditionalGeneration as UniversalT5TransformerForConditionalGeneration,
)
from .modeling_universal_t5_transformer import UniversalT5TransformerModel as UniversalT5TransformerModel
from .modeling_universal_transformer import (
    UniversalTransformerForConditionalGeneration as UniversalTransformerForConditionalGeneration,
)
from .modeling_universal_transformer import UniversalTransformerModel as UniversalTransformerModel

# each config's classes by the Auto class that finds them: the single list that registration, recipes and the CLI read
MODELS: dict[Any, dict[Any, Any]] = {
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
    FairseqTransformerConfig: {
        AutoModel: FairseqTransformerModel,
        AutoModelForSeq2SeqLM: FairseqTransformerForConditionalGeneration,
    },
    SagTransformerConfig: {
        AutoModel: SagTransformerModel,
        AutoModelForSeq2SeqLM: SagTransformerForConditionalGeneration,
    },
    SagConvTransformerConfig: {
        AutoModel: SagConvTransformerModel,
        AutoModelForSeq2SeqLM: SagConvTransformerForConditionalGeneration,
    },
    SagFixedSpanTransformerConfig: {
        AutoModel: SagFixedSpanTransformerModel,
        AutoModelForSeq2SeqLM: SagFixedSpanTransformerForConditionalGeneration,
    },
    SagT5TransformerConfig: {
        AutoModel: SagT5TransformerModel,
        AutoModelForSeq2SeqLM: SagT5TransformerForConditionalGeneration,
    },
    RoleFillerTransformerConfig: {
        AutoModel: RoleFillerTransformerModel,
        AutoModelForSeq2SeqLM: RoleFillerTransformerForConditionalGeneration,
    },
    TorchTransformerConfig: {
        AutoModel: TorchTransformerModel,
        AutoModelForSeq2SeqLM: TorchTransformerForConditionalGeneration,
    },
    EdgeTransformerConfig: {
        AutoModel: EdgeTransformerModel,
        AutoModelForSeq2SeqLM: EdgeTransformerForConditionalGeneration,
        AutoModelForTokenClassification: EdgeTransformerForGraphParsing,
        AutoModelForSequenceClassification: EdgeTransformerForRelationClassification,
    },
    EdgeDependencyParserConfig: {
        AutoModel: EdgeDependencyParserModel,
        AutoModelForTokenClassification: EdgeTransformerForDependencyParsing,
    },
    RelationAwareTransformerConfig: {
        AutoModel: RelationAwareTransformerModel,
        AutoModelForSequenceClassification: RelationAwareTransformerForRelationClassification,
    },
    GraphAttentionNetworkConfig: {
        AutoModel: GraphAttentionNetworkModel,
        AutoModelForSequenceClassification: GraphAttentionNetworkForRelationClassification,
    },
    TransformerGraphParserConfig: {
        AutoModel: TransformerGraphParserModel,
        AutoModelForTokenClassification: TransformerForGraphParsing,
    },
    BiaffineDependencyParserConfig: {
        AutoModel: BiaffineDependencyParserModel,
        AutoModelForTokenClassification: BiaffineForDependencyParsing,
    },
    UniversalT5TransformerConfig: {
        AutoModel: UniversalT5TransformerModel,
        AutoModelForSeq2SeqLM: UniversalT5TransformerForConditionalGeneration,
    },
    LstmSeq2SeqConfig: {
        AutoModel: LstmSeq2SeqModel,
        AutoModelForSeq2SeqLM: LstmSeq2SeqForConditionalGeneration,
    },
    ConvSeq2SeqConfig: {
        AutoModel: ConvSeq2SeqModel,
        AutoModelForSeq2SeqLM: ConvSeq2SeqForConditionalGeneration,
    },
    DepthWidthConfig: {
        AutoModel: DepthWidthModel,
        AutoModelForCausalLM: DepthWidthForCausalLM,
    },
}
CONFIGS = {config.model_type: config for config in MODELS}


def _register(config: Any, classes: dict[Any, Any]) -> None:
    AutoConfig.register(config.model_type, config, exist_ok=True)
    config.register_for_auto_class()
    if AutoModelForCausalLM in classes:
        # where the Trainer looks whether labels are to be moved before they are smoothed
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[config.model_type] = classes[AutoModelForCausalLM].__name__
    for auto_class, model in classes.items():
        auto_class.register(config, model, exist_ok=True)
        model.register_for_auto_class(auto_class.__name__)


def register_own_models() -> None:
    """Adds the variants of HF_SYSGEN_EXTENSIONS, as importing this does. Errors as `own_models`."""
    for config, classes in own_models(Path(__file__).parent, CONFIGS):
        MODELS[config] = classes
        CONFIGS[config.model_type] = config
        _register(config, classes)


for _config, _classes in MODELS.items():
    _register(_config, _classes)
register_own_models()
