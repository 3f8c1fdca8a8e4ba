"""Checkpoints as ONNX graphs, with a batch and lengths of any size."""

from __future__ import annotations

import inspect
import shutil
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import Dim

from hf_sysgen.errors import UserError, one_line
from hf_sysgen.evaluation.checkpoint_folders import checkpoint_folder
from hf_sysgen.evaluation.checkpoints import read_checkpoint, source_ids

GRAPH = "model.onnx"
# what a killed export leaves; the next one begins anew
UNFINISHED = ".unfinished"
# sizes of the example that is traced; 0 and 1 would be taken as fixed
BATCH, LENGTH, TARGET = 2, 5, 3


class Positional(nn.Module):
    """A model whose inputs have places, as the exporter needs them, and of whose outputs the named ones are left."""

    def __init__(self, model: nn.Module, inputs: list[str], outputs: list[str]):
        super().__init__()
        self.model, self.inputs, self.outputs = model, inputs, outputs
        self.options = {"use_cache": False} if hasattr(model.config, "use_cache") else {}

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = self.model(**dict(zip(self.inputs, tensors, strict=True)), **self.options)
        return tuple(found[name] for name in self.outputs)


def example_inputs(model: Any) -> dict[str, torch.Tensor]:
    """A batch of what the model reads; every axis but that of `query` (B, 2) may have any size."""
    mask = torch.ones(BATCH, LENGTH, dtype=torch.long)
    if model.main_input_name == "edge_ids":
        inputs = {"edge_ids": torch.zeros(BATCH, LENGTH, LENGTH, dtype=torch.long), "node_mask": mask}
        if "query" in inspect.signature(model.forward).parameters:
            inputs["query"] = torch.arange(2).expand(BATCH, 2).contiguous()
        return inputs
    inputs = {"input_ids": torch.full((BATCH, LENGTH), source_ids(model).start), "attention_mask": mask}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.full((BATCH, TARGET), model.config.decoder_start_token_id or 0)
    return inputs


def onnx_program(model: Any) -> tuple[Any, list[str], list[str]]:
    """
    A model in evaluation mode as an ONNX program, with the names of its inputs and outputs.

    Outputs are all logits, or the last hidden states of a model without a head. No cache is read or made: each call
    computes the whole of what it is given.
    """
    inputs = example_inputs(model)
    with torch.no_grad():
        found = model(**inputs)
        outputs = [name for name in found if name.endswith("logits")] or ["last_hidden_state"]
        shapes = tuple(
            dict.fromkeys(range(1 if name == "query" else tensor.dim()), Dim.DYNAMIC) for name, tensor in inputs.items()
        )
        with warnings.catch_warnings():
            # the exporter warns of its own code
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                Positional(model, list(inputs), outputs), tuple(inputs.values()), dynamo=True,
                dynamic_shapes={"tensors": shapes}, input_names=list(inputs), output_names=outputs, optimize=False,
                verbose=False,
            )  # fmt: skip
    return program, list(inputs), outputs


def export_onnx(checkpoint: str | Path, output: Path) -> str:
    """
    Write a checkpoint as an ONNX graph in float32, beside its tokenizer and configs, and tell its inputs and outputs.

    Args:
        checkpoint: see [`read_checkpoint`].
        output: folder to write to, which is made.

    Raises:
        UserError: a package that the exporter needs is absent, the folder is in use, or see [`read_checkpoint`].
    """
    if missing := [name for name in ("onnx", "onnxscript") if find_spec(name) is None]:
        raise UserError(f"{' and '.join(missing)} not installed: pip install 'hf-sysgen[onnx]'")
    if output.exists() and (not output.is_dir() or any(path.name != UNFINISHED for path in output.iterdir())):
        raise UserError(f"{output}: is there and not an empty folder; give another name")
    model, tokenizer = read_checkpoint(checkpoint)
    try:
        program, inputs, outputs = onnx_program(model)
    except (ValueError, torch.onnx.OnnxExporterError) as error:
        raise UserError(f"{checkpoint}: cannot be exported: {one_line(error)}") from error
    unfinished = output / UNFINISHED
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    if tokenizer is not None:
        tokenizer.save_pretrained(unfinished)
    for name in ("config.json", "generation_config.json"):
        if (path := checkpoint_folder(checkpoint) / name).exists():
            shutil.copyfile(path, unfinished / name)
    program.save(unfinished / GRAPH)
    # a folder without the graph is no export, so that comes last
    for path in sorted(unfinished.iterdir(), key=lambda path: path.name.startswith(GRAPH)):
        path.replace(output / path.name)
    unfinished.rmdir()
    return f"{output / GRAPH}: {', '.join(inputs)} -> {', '.join(outputs)}"
