"""Names with an underscore that belong to the libraries: they may change or go at any time, so each is listed here."""

from __future__ import annotations

import ast
import inspect
import re
from collections import defaultdict
from pathlib import Path

import datasets
import torch
from transformers import (
    AutoModel,
    GenerationMixin,
    Pipeline,
    PreTrainedConfig,
    PreTrainedModel,
    Seq2SeqTrainer,
    Trainer,
    TrainerCallback,
)

import hf_sysgen

PACKAGE = Path(hf_sysgen.__file__).parent
LIBRARIES = (
    PreTrainedModel, GenerationMixin, PreTrainedConfig(), AutoModel, Pipeline, Seq2SeqTrainer, TrainerCallback,
    datasets.GeneratorBasedBuilder, torch.nn.Linear(1, 1), torch,
)  # fmt: skip
# what the libraries' documentation tells a subclass to define
MEANT_FOR_SUBCLASSES = {
    "_init_weights", "_no_split_modules", "_tied_weights_keys", "_supports_sdpa", "_supports_flash_attn",
    "_can_compile_fullgraph", "_can_record_outputs",
    "_keys_to_ignore_on_load_unexpected",
    "_sanitize_parameters", "_forward",
    "_info", "_split_generators", "_generate_examples",
}  # fmt: skip
# the others, and where we use them
USED = {
    # the modes of torch.compile, as its documentation lists them
    "_inductor": {"config/trainer_fields.py"},
    # transformers: the attention that is in use, and the models of an Auto class
    "_attn_implementation": {
        "evaluation/evaluate.py", "models/attention.py", "models/gated_convolution.py",
        "models/modeling_depth_width_decoder.py",
    },
    "_model_mapping": {"model_types.py"},
    # attention that is not on by default
    "_supports_flex_attn": {"models/modeling_depth_width_decoder.py"},
    # decoding: a criterion of our own, and a cache that is no key-value cache
    "_get_stopping_criteria": {"models/generation.py"},
    "_prepare_cache_for_generation": {"models/modeling_edge_transformer.py"},
    "_supports_default_dynamic_cache": {"evaluation/decoding.py", "models/modeling_edge_transformer.py"},
    # resizing two tables, and heads that are not linear
    "_get_resized_embeddings": {"models/role_filler.py", "models/seq2seq.py"},
    "_get_resized_lm_head": {"models/modeling_conv_seq2seq.py"},
    "_resize_token_embeddings": {"models/seq2seq.py"},
    # what a pipeline loads
    "_load_feature_extractor": {"models/pipelines.py"},
    "_load_image_processor": {"models/pipelines.py"},
    "_load_processor": {"models/pipelines.py"},
    "_load_tokenizer": {"models/pipelines.py"},
    # datasets: where prepared data lie
    "_cache_dir": {"data/builder.py"},
    # torch
    "_forward_hooks": {"models/modeling_depth_width_decoder.py"},
    "_forward_pre_hooks": {"models/modeling_depth_width_decoder.py"},
    "_higher_order_ops": {"models/lstm.py"},
    "_weight_norm": {"models/weight_norm.py"},
}  # fmt: skip


def private_names(path: Path) -> set[str]:
    """Names with one leading underscore that a file imports, reads of an object or defines in a class."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names} | set((node.module or "").split("."))
        elif isinstance(node, ast.ClassDef):
            for one in node.body:
                if isinstance(one, ast.FunctionDef):
                    found.add(one.name)
                elif isinstance(one, ast.Assign | ast.AnnAssign):
                    targets = one.targets if isinstance(one, ast.Assign) else [one.target]
                    found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return {name for name in found if name.startswith("_") and not name.startswith("__")}


def test_every_private_name_of_a_library_is_listed():
    theirs = {name for owner in LIBRARIES for name in dir(owner)}
    for owner in (Trainer, datasets.DatasetBuilder):
        theirs |= set(re.findall(r"self\.(_\w+)(?:: \w+)? = ", inspect.getsource(owner)))
    theirs -= MEANT_FOR_SUBCLASSES
    found = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        for name in private_names(path) & theirs:
            found[name].add(str(path.relative_to(PACKAGE)))
    assert dict(found) == USED
