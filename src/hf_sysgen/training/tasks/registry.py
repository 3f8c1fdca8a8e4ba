"""Which class of task a recipe runs."""

from __future__ import annotations

from typing import Any

from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.data import benchmark_info, load_benchmark
from hf_sysgen.model_types import is_transformers_model
from hf_sysgen.models import CONFIGS, MODELS, RoleFillerTransformerConfig
from hf_sysgen.training.tasks.base import Task
from hf_sysgen.training.tasks.causal import CausalSeq2SeqTask
from hf_sysgen.training.tasks.graphs import DependencyParsingTask, GraphParsingTask
from hf_sysgen.training.tasks.in_context import InContextTask
from hf_sysgen.training.tasks.pretrained import PretrainedTask
from hf_sysgen.training.tasks.pretraining import PretrainingTask
from hf_sysgen.training.tasks.relations import RelationClassificationTask
from hf_sysgen.training.tasks.roles import RoleFillerTask
from hf_sysgen.training.tasks.seq2seq import Seq2SeqTask
from hf_sysgen.training.tasks.translation import TranslationTask

# the benchmark's task, what a model of ours needs for it, and the class of the task; the first row that fits holds. A
# model needs that config class, that Auto class, or a class whose name ends so
TASKS: tuple[tuple[str, Any, type[Task]], ...] = (
    ("seq2seq", RoleFillerTransformerConfig, RoleFillerTask),
    ("seq2seq", AutoModelForSeq2SeqLM, Seq2SeqTask),
    ("translation", AutoModelForSeq2SeqLM, TranslationTask),
    ("seq2seq", AutoModelForCausalLM, CausalSeq2SeqTask),
    ("relation_classification", "ForRelationClassification", RelationClassificationTask),
    ("graph_parsing", "ForGraphParsing", GraphParsingTask),
    ("dependency_parsing", "ForDependencyParsing", DependencyParsingTask),
    ("language_modeling", AutoModelForCausalLM, PretrainingTask),
)


def has_needed(config_class: Any, needed: Any) -> bool:
    """Whether models of that config have what a row of `TASKS` says they need."""
    classes = MODELS[config_class]
    if isinstance(needed, str):
        return any(model.__name__.endswith(needed) for model in classes.values())
    return needed in (config_class, *classes)


def task_class(recipe: Recipe) -> type[Task]:
    """The class of the recipe's task. Raises RecipeError: the model has no head for the benchmark's task."""
    model, data = recipe.model.type, recipe.data
    wanted = benchmark_info(data.benchmark).task
    found = (
        (PretrainedTask if recipe.in_context is None else InContextTask)
        if is_transformers_model(model)
        else next((one for task, needed, one in TASKS if task == wanted and has_needed(CONFIGS[model], needed)), None)
    )
    if found is None:
        needs = [needed for task, needed, _ in TASKS if task == wanted]
        names = [config.model_type for config in MODELS if any(has_needed(config, needed) for needed in needs)]
        raise RecipeError(
            f"model.type={model} cannot be trained on data.benchmark={data.benchmark}, whose task is {wanted}; "
            f"models that can: {', '.join(names) or 'none yet'}",
            "model.type",
        )
    return found


def prepare_task(recipe: Recipe) -> Task:
    """
    The recipe's benchmark, as its model learns it.

    Raises:
        RecipeError: as `task_class`; or the benchmark has nothing to train on.
        DataError: see `load_benchmark`.
    """
    found, data = task_class(recipe), recipe.data
    benchmark = load_benchmark(data.benchmark, data.config, data_dir=data.data_dir)
    if "train" not in benchmark:
        about = benchmark_info(data.benchmark).config(data.config).description
        raise RecipeError(
            f"data.config={data.config} of {data.benchmark} has no split `train` to train on. {about}", "data.config"
        )
    # a stream has no length
    if empty := [split for split, examples in benchmark.items() if hasattr(examples, "__len__") and not len(examples)]:
        raise RecipeError(
            f"data.config={data.config} of {data.benchmark}: no examples in {', '.join(empty)}", "data.config"
        )
    return found(recipe, benchmark)
