# ruff: noqa: F403
"""
Every model of the package, registered with transformers' Auto classes.

One flat folder: a checkpoint carries these files, so they import siblings, torch, transformers, huggingface_hub and the
standard library only. This file is the one that no checkpoint carries.
"""

from hf_sysgen.extensions import register_own_models as register_own_models

from .configuration_conv_seq2seq import *
from .configuration_depth_width_decoder import *
from .configuration_edge_transformer import *
from .configuration_fairseq_transformer import *
from .configuration_graph_attention_network import *
from .configuration_lstm_seq2seq import *
from .configuration_relation_aware_transformer import *
from .configuration_role_filler_transformer import *
from .configuration_sentence_parser import *
from .configuration_sysgen_transformer import *
from .configuration_torch_transformer import *
from .configuration_universal_t5_transformer import *
from .modeling_conv_seq2seq import *
from .modeling_depth_width_decoder import *
from .modeling_edge_transformer import *
from .modeling_fairseq_transformer import *
from .modeling_graph_attention_network import *
from .modeling_lstm_seq2seq import *
from .modeling_relation_aware_transformer import *
from .modeling_role_filler_transformer import *
from .modeling_sentence_parser import *
from .modeling_sysgen_transformer import *
from .modeling_torch_transformer import *
from .modeling_universal_t5_transformer import *
from .registry import CONFIGS as CONFIGS
from .registry import MODELS as MODELS

# files of the user's own
register_own_models()
