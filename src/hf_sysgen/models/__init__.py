# ruff: noqa: F403
"""
Every model of the package, registered with transformers' Auto classes.

One flat folder: a checkpoint carries these files, so they import siblings, torch, transformers, huggingface_hub and the
standard library only. This file is the one that no checkpoint carries.
"""

from pathlib import Path

from hf_sysgen.extensions import import_own_models

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


def register_own_models() -> None:
    """Register the models in the user's own files. Errors as [`hf_sysgen.extensions.import_own_models`]."""
    import_own_models(__name__, Path(__file__).parent, MODELS)


register_own_models()
