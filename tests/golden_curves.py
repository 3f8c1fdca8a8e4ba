"""
Golden training curves: loss, gradient norm and learning rate of the first updates of shipped recipes, made tiny.

They go the package's own way: a recipe file, its task, its model, `SysgenTrainer`. So they hold what those decide: the
optimizer and its arguments, the schedule, the batches, dropout, label smoothing, clipping, the loss. All is in float64,
the drawing of weights included: in float32 that alone differs between processors by 1e-7.

`python tests/golden_curves.py [NAME ...]` writes tests/golden/curves/NAME.json anew, without a name of all curves. A
new file is a claim that training changed on purpose: say why in the commit.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import tokenizers
import torch
import transformers
from made_examples import any_benchmark
from tiny_text import write_tokenizer
from transformers import PreTrainedModel, T5Config, T5ForConditionalGeneration

import hf_sysgen.training.tasks.registry
from hf_sysgen.config.io import load_recipe
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.models import DepthWidthConfig, DepthWidthForCausalLM
from hf_sysgen.training.adapters import with_adapters
from hf_sysgen.training.run import attention_of, quiet_libraries
from hf_sysgen.training.tasks.registry import prepare_task
from hf_sysgen.training.trainer import SysgenTrainer

FOLDER = Path(__file__).parent / "golden" / "curves"
UPDATES = 20
DIGITS = 12


# Everything that knows how a recipe file is written stands from here to `tiny_recipe`.


class Curve(NamedTuple):
    """A shipped recipe, and what makes it tiny beside `EVERY`."""

    recipe: str
    overrides: Mapping[str, Any]


# of every curve: no part of a run but its updates, which are in float64
EVERY = {
    "training.max_steps": UPDATES, "training.eval_steps": None, "training.save_steps": 1000,
    "training.report_to": "none", "training.bf16": False, "training.fp16": False,
}  # fmt: skip
# of most: 61 training examples make five full batches and one of a single example
BATCH = {"batches.size": 12}
SIZES = {"model.hidden_size": 16, "model.intermediate_size": 24, "model.num_attention_heads": 2}
BOTH_SIDES = {**SIZES, "model.encoder_layers": 2, "model.decoder_layers": 2}
ONE_SIDE = {**SIZES, "model.num_hidden_layers": 2}
# both its parts within the updates
WARMUP = {"schedule.warmup_steps": 5}
NO_EARLY_STOPPING = {"evaluation.early_stopping": None}
TRANSLATION = {**BOTH_SIDES, **WARMUP, **NO_EARLY_STOPPING, "data.subwords": 60, "batches.max_tokens": 60}
T5 = {**BATCH, "model.pretrained": "{t5}"}

CURVES = {
    "csordas2021_transformer_noam": Curve("csordas2021/cogs_noam_transformer.yaml", {**BATCH, **BOTH_SIDES, **WARMUP}),
    "csordas2021_universal_characters": Curve("csordas2021/math_universal.yaml", {**BATCH, **BOTH_SIDES}),
    "csordas2021_relative": Curve("csordas2021/pcfg_relative.yaml", {**BATCH, **BOTH_SIDES}),
    "csordas2021_relative_universal": Curve(
        "csordas2021/scan_length26_relative_universal.yaml", {**BATCH, **BOTH_SIDES}
    ),
    "chaabouni2021_transformer": Curve("chaabouni2021/scan_transformer.yaml", {**BATCH, **BOTH_SIDES}),
    "chaabouni2021_sag": Curve("chaabouni2021/scan_sag.yaml", {**BATCH, **BOTH_SIDES}),
    "chaabouni2021_sag_convolution": Curve("chaabouni2021/scan_sag_convolution.yaml", {**BATCH, **BOTH_SIDES}),
    "chaabouni2021_sag_fixed_span": Curve("chaabouni2021/scan_sag_fixed_span.yaml", {**BATCH, **BOTH_SIDES}),
    "chaabouni2021_sag_t5": Curve("chaabouni2021/scan_sag_t5.yaml", {**BATCH, **BOTH_SIDES}),
    "chaabouni2021_translation_bpe": Curve("chaabouni2021/iwslt14_sag.yaml", TRANSLATION),
    "chaabouni2021_translation_sentencepiece": Curve("chaabouni2021/flores_sag.yaml", TRANSLATION),
    "chaabouni2021_lstm": Curve("chaabouni2021/scan_jump_lstm.yaml", {**BATCH, "model.hidden_size": 16}),
    "chaabouni2021_conv": Curve(
        "chaabouni2021/scan_jump_conv.yaml",
        {
            "model.hidden_size": 16, "model.encoder_layers": 2, "model.decoder_layers": 2, "batches.max_tokens": 60,
            "batches.resample": 300,
        },
    ),
    "bergen2021_clutrr_edge": Curve("bergen2021/clutrr_edge_234.yaml", {**BATCH, **ONE_SIDE, **WARMUP}),
    "bergen2021_clutrr_rat": Curve("bergen2021/clutrr_rat_234.yaml", {**BATCH, **ONE_SIDE, **WARMUP}),
    "bergen2021_clutrr_rrat": Curve("bergen2021/clutrr_rrat_234.yaml", {**BATCH, **ONE_SIDE, **WARMUP}),
    "bergen2021_clutrr_gat": Curve(
        "bergen2021/clutrr_gat_234.yaml", {**BATCH, **NO_EARLY_STOPPING, "model.hidden_size": 16, "model.edge_size": 6}
    ),
    "bergen2021_cogs_graph_edge": Curve("bergen2021/cogs_graph_edge.yaml", {**BATCH, **ONE_SIDE, **WARMUP}),
    "bergen2021_cogs_graph_universal": Curve("bergen2021/cogs_graph_universal.yaml", {**BATCH, **ONE_SIDE, **WARMUP}),
    "bergen2021_cfq_dependencies_edge": Curve(
        "bergen2021/cfq_dependencies_edge.yaml", {**ONE_SIDE, "batches.max_tokens": 60}
    ),
    "bergen2021_cfq_dependencies_bilstm": Curve(
        "bergen2021/cfq_dependencies_bilstm.yaml",
        {"model.hidden_size": 16, "model.num_hidden_layers": 2, "model.biaffine_size": 12, "batches.max_tokens": 60},
    ),
    "bergen2021_cfq_edge": Curve("bergen2021/cfq_edge.yaml", {**BATCH, **ONE_SIDE, **WARMUP}),
    "bergen2021_cfq_universal_t5": Curve("bergen2021/cfq_sparql_universal.yaml", {**BATCH, **BOTH_SIDES, **WARMUP}),
    "chakravarthy2022_role_filler": Curve(
        "chakravarthy2022/scan_jump_role_loss_threshold.yaml", {**BATCH, **BOTH_SIDES}
    ),
    "chakravarthy2022_transformer": Curve("chakravarthy2022/scan_jump_transformer.yaml", {**BATCH, **BOTH_SIDES}),
    "petty2023_pretraining": Curve(
        "petty2023/pretrain_41M_2.yaml",
        {
            **ONE_SIDE, **WARMUP, "batches.size": 12, "model.size_class": None, "data.context_length": 13,
            "data.streams": 6, "training.torch_compile": False, "data.validation_examples": 11,
            "training.kept_steps": [], "data.tokenizer": "{tokenizer}",
        },
    ),
    "petty2023_fine_tuning": Curve("petty2023/cogs_vf.yaml", {**BATCH, "model.pretrained": "{pretrained}"}),
    "raffel2020_fine_tuning": Curve("raffel2020/scan_length26_random_t5.yaml", T5),
    "raffel2020_adapters": Curve(
        "raffel2020/scan_length26_random_t5.yaml", {**T5, "peft.r": 4, "peft.target_modules": "all-linear"}
    ),
}  # fmt: skip


def tiny_recipe(name: str, folder: Path) -> Recipe:
    """The recipe of a curve, which reads and writes in that folder."""
    curve = CURVES[name]
    made = {
        "tokenizer": lambda: write_tokenizer(folder / "tokenizer"),
        "pretrained": lambda: pretrained(folder),
        "t5": lambda: small_t5(folder / "t5"),
    }
    overrides = {**EVERY, **curve.overrides, "output_dir": str(folder / "run")}
    for key, value in overrides.items():
        if str(value).strip("{}") in made:
            overrides[key] = str(made[value.strip("{}")]())
    return load_recipe(Path("recipes") / curve.recipe, [f"{key}={json.dumps(overrides[key])}" for key in overrides])


# The rest knows recipes only as what the package takes.


def pretrained(folder: Path) -> Path:
    """A decoder of random weights with its tokenizer."""
    path = folder / "pretrained"
    write_tokenizer(path)
    torch.manual_seed(0)
    config = DepthWidthConfig(
        vocab_size=300, hidden_size=16, intermediate_size=24, num_attention_heads=2, num_hidden_layers=2
    )
    DepthWidthForCausalLM(config).float().save_pretrained(path)
    return path


def small_t5(path: Path) -> Path:
    """A T5 of random weights with its tokenizer."""
    write_tokenizer(path)
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=300, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2, decoder_start_token_id=0
    )  # fmt: skip
    T5ForConditionalGeneration(config).float().save_pretrained(path)
    return path


class CurveTrainer(SysgenTrainer):
    """Identical to [`SysgenTrainer`] except that it keeps `curve`: loss, gradient norm and learning rate by update."""

    def __init__(self, recipe: Recipe, model: PreTrainedModel, task: Any):
        super().__init__(recipe, model, task)
        self.curve: dict[int, dict[str, float]] = {}

    def training_step(self, model, inputs, *args, **kwargs):
        loss = super().training_step(model, inputs, *args, **kwargs)
        # of several parts of an update the losses add up, and the last one has the whole gradient, before clipping
        at = self.curve.setdefault(self.state.global_step, {"loss": 0.0})
        at["loss"] += float(loss)
        at["gradient_norm"] = (
            float(sum(parameter.grad.pow(2).sum() for parameter in model.parameters() if parameter.grad is not None))
            ** 0.5
        )
        at["learning_rate"] = float(self.optimizer.param_groups[0]["lr"])
        return loss


@contextlib.contextmanager
def in_this_way() -> Iterator[None]:
    """In float64, on the CPU in one thread, with made examples in place of the benchmarks."""
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    quiet_libraries()
    try:
        with (
            mock.patch.dict(os.environ, {"ACCELERATE_USE_CPU": "true"}),
            mock.patch.object(hf_sysgen.training.tasks.registry, "load_benchmark", any_benchmark),
        ):
            yield
    finally:
        torch.set_num_threads(threads)
        torch.set_default_dtype(dtype)


def train(name: str, folder: Path) -> dict[str, list[float]]:
    """Loss, gradient norm before clipping, and learning rate of each update of a curve."""
    with in_this_way():
        recipe = tiny_recipe(name, folder)
        task = prepare_task(recipe)
        # which a checkpoint to go on from is not
        model = task.build_model(attention_of(recipe)).double()
        if recipe.peft is not None:
            model = with_adapters(model, recipe.peft)
        trainer = CurveTrainer(recipe, model, task)
        trainer.train()
    updates = [trainer.curve[step] for step in sorted(trainer.curve)]
    return {key: [float(f"{update[key]:.{DIGITS - 1}e}") for update in updates] for key in updates[0]}


def draws() -> str:
    """
    What this build of PyTorch draws from a seed, as 8 hex digits. Builds for other processors draw other weights and
    other dropout, and so make other curves.
    """
    generator = torch.Generator().manual_seed(0)
    masks = torch.empty(100, dtype=torch.float64).bernoulli_(0.9, generator=generator)
    weights = torch.empty(100).normal_(generator=generator)
    content = masks.numpy().tobytes() + np.round(weights.numpy(), 4).tobytes()
    return hashlib.sha256(content).hexdigest()[:8]


def versions() -> dict[str, str]:
    modules = (torch, transformers, tokenizers, np)
    return {"python": platform.python_version(), **{module.__name__: module.__version__ for module in modules}}


def write(name: str, commit: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        curve = train(name, Path(folder))
    made_with = {"commit": commit, "draws": draws(), "versions": versions()}
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**made_with, "curve": curve}, indent=1)
    (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def main(names: list[str]) -> None:
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
    ).stdout.strip()
    for name in names or CURVES:
        write(name, commit)
        print(name)


if __name__ == "__main__":
    main(sys.argv[1:])
