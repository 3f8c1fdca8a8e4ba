"""Low-rank adapters of the package PEFT on a pretrained model."""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from typing import Any

from transformers import PreTrainedModel

from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.sections import Peft
from hf_sysgen.errors import one_line


def with_adapters(model: PreTrainedModel, settings: Peft) -> Any:
    """
    The model with adapters, the only weights that are trained.

    Raises:
        RecipeError: PEFT is not installed, has no such layers, or a layer's weight is also that of another one: merged,
            its adapter would change both.
    """
    try:
        from peft import LoraConfig, TaskType, get_peft_model
    except ImportError as error:
        raise RecipeError("peft: the package is not installed: pip install 'hf-sysgen[peft]'", "peft") from error
    targets = settings.target_modules
    config = LoraConfig(
        r=settings.r,
        lora_alpha=settings.lora_alpha,  # type: ignore[arg-type]
        lora_dropout=settings.lora_dropout,
        target_modules=list(targets) if isinstance(targets, tuple) else targets,
        task_type=TaskType.SEQ_2_SEQ_LM if model.config.is_encoder_decoder else TaskType.CAUSAL_LM,
    )
    of_each = (module.named_parameters(recurse=False, remove_duplicate=False) for module in model.modules())
    owners = Counter(id(weight) for weights in of_each for _, weight in weights)
    try:
        with warnings.catch_warnings():
            # PEFT warns of shared weights, which are refused below, and of transformers' newer names
            warnings.simplefilter("ignore")
            adapted: Any = get_peft_model(model, config)
    except (ValueError, TypeError) as error:
        raise RecipeError(f"peft.target_modules: {one_line(error)}", "peft.target_modules") from error
    for name, module in adapted.get_base_model().named_modules():
        if hasattr(module, "base_layer") and owners[id(module.base_layer.weight)] > 1:
            raise RecipeError(
                f"peft.target_modules: the weight of {name} is also that of another layer, so that its adapter cannot "
                "be merged; name other layers",
                "peft.target_modules",
            )
    return adapted


def merged(model: Any) -> PreTrainedModel:
    """The model with its adapters, if it has any, added to the weights: a copy, which loads without PEFT."""
    return copy.deepcopy(model).merge_and_unload() if hasattr(model, "merge_and_unload") else model
