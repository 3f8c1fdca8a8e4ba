"""Models exported to ONNX, with a batch and lengths of any size, in onnxruntime."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
import torch
from documents import ROOT, blocks, lines_of
from every_model import DECODERS, NAMES, model_and_batch
from tiny_runs import command

from hf_sysgen.convert.onnx import GRAPH, onnx_program
from hf_sysgen.evaluation.commands import predict_lines
from hf_sysgen.zoo import DEFAULT

TOOL = "onnxruntime"
AXES = {
    "input_ids": ("batch", "source"), "attention_mask": ("batch", "source"), "decoder_input_ids": ("batch", "target"),
    "edge_ids": ("batch", "source", "source"), "node_mask": ("batch", "source"), "query": ("batch",),
}  # fmt: skip


def resized(batch: dict[str, torch.Tensor], sizes: dict[str, int]) -> dict[str, torch.Tensor]:
    """The batch with axes of other sizes, from its own rows and columns, the first one padded if there is room."""
    changed = {}
    for name, tensor in batch.items():
        for axis, size in enumerate(AXES[name]):
            tensor = tensor.index_select(axis, torch.arange(sizes[size]) % tensor.shape[axis])
        changed[name] = tensor
    for name in {"attention_mask", "node_mask"} & set(changed):
        changed[name] = torch.ones_like(changed[name])
        changed[name][0, 1:][-1:] = 0
    if "query" in changed:
        changed["query"] = changed["query"] % sizes["source"]
    return changed


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_exported(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """hf-sysgen export, dynamic batch and lengths; as near to float64 as PyTorch"""
    import onnxruntime

    model, batch = model_and_batch(name)
    exact = copy.deepcopy(model.float()).double()
    if name in DECODERS:
        batch["attention_mask"] = torch.ones_like(batch["input_ids"])
    program, inputs, outputs = onnx_program(model)
    assert capfd.readouterr().out == ""
    assert set(inputs) == set(batch) - {"labels"}
    program.save(tmp_path / GRAPH)
    session = onnxruntime.InferenceSession(tmp_path / GRAPH, providers=["CPUExecutionProvider"])
    for sizes in ((3, 5, 4), (1, 1, 1), (2, 4, 7), (5, 11, 3)):
        given = resized(
            {key: batch[key] for key in inputs}, dict(zip(("batch", "source", "target"), sizes, strict=True))
        )
        exactly, rounded = exact(**given), model(**given)
        results = session.run(None, {key: value.numpy() for key, value in given.items()})
        for key, result in zip(outputs, results, strict=True):
            # the least number is where a mask says that nothing may be said
            found, right, ours = (
                scores.double().masked_fill(scores < -1e30, 0.0)
                for scores in (torch.from_numpy(result), exactly[key], rounded[key])
            )
            # as near to float64 as PyTorch's own float32, twice
            limit = 1e-5 + 2 * (ours - right).abs().max().item()
            torch.testing.assert_close(found, right, rtol=0, atol=limit, msg=f"{key} of {sizes}")


def test_greedy_decoding_as_documented(tmp_path: Path) -> None:
    """The command and the code of the page write what the checkpoint does in PyTorch."""
    page = blocks(ROOT / "docs" / "compatibility.md")
    (made,) = (lines_of(block.text) for block in page if "--onnx" in block.text)
    (code,) = (block.text for block in page if "onnxruntime" in block.text and block.language == "python")
    done = [command(["-m", "hf_sysgen.cli", *made[0].split()[1:]], tmp_path), command(["-c", code], tmp_path)]
    assert [one.returncode for one in done] == [0, 0], [one.stderr for one in done]
    (text,) = re.findall(r'encode\("(.*?)"\)', code)
    assert done[1].stdout.strip() == next(predict_lines(DEFAULT, [text]))
