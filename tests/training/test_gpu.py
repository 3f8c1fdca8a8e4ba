"""What only a GPU can show: whole updates as CUDA graphs, their resumption, and numbers equal to the CPU's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_runs import tiny_recipe

from hf_sysgen.results.reading import read_record
from hf_sysgen.training.run import run_recipe

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    # torch's own while it compiles; the advice to use TF32 is of no use where float32 is compared
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::FutureWarning",
        "ignore:TensorFloat32 tensor cores:UserWarning",
        r"ignore:\s*Online softmax is disabled:UserWarning",
        # its first graph, which only starts the memory pool of the others
        "ignore:The CUDA Graph is empty:UserWarning",
        # in a thread of the backward pass, which then sets it up
        "ignore:Attempting to run cuBLAS, but there was no current CUDA context:UserWarning",
    ),
]
# an epsilon above the gradients keeps Adam from dividing rounding errors
EXACT = {"dropout": 0.0, "adam_epsilon": 1.0, "learning_rate": 4.0, "schedule": "noam", "warmup_steps": 3,
         "max_grad_norm": 1.0, "max_steps": 12, "eval_steps": 6, "save_steps": 5}  # fmt: skip


def losses(record) -> list[float]:
    return [entry.loss for entry in record.history if entry.loss is not None]


def weights_of(folder) -> dict[str, torch.Tensor]:
    return load_file(folder / "run" / "model" / "model.safetensors")


MODELS = [
    {"model": "relative_universal_transformer"},
    {"model": "sysgen_transformer"},
    {"model": "role_filler_transformer", "role_scheme": "scan_prim"},
    {"model": "edge_transformer", "num_hidden_layers": 2, "decoder_layers": 2, "joint_vocabulary": True},
]


@pytest.mark.parametrize("model", MODELS, ids=lambda keys: keys["model"])
@pytest.mark.parametrize(
    "changes",
    [
        {"torch_compile": True},
        {"torch_compile": True, "training": {"torch_compile_mode": "reduce-overhead"}},
        {"torch_compile": True, "training": {"torch_compile_mode": "reduce-overhead"}, "length_buckets": 2},
    ],
    ids=["compiled", "with CUDA graphs", "with CUDA graphs, in parts"],
)
def test_same_updates_in_another_way(model, changes, tmp_path, few_examples):
    # here, as it takes time to load
    from torch._inductor import config

    plain = run_recipe(tiny_recipe(tmp_path / "plain", **model, **EXACT))
    # as by TORCHINDUCTOR_COALESCE_TILING_ANALYSIS=0: with this analysis PyTorch 2.11 cannot compile the model for
    # lengths that vary (pytorch/pytorch#197077)
    analysis = model["model"] != "edge_transformer"
    with config.patch("triton.coalesce_tiling_analysis", analysis):
        other = run_recipe(tiny_recipe(tmp_path / "other", **model, **EXACT, **changes))
    assert plain.environment.device == torch.cuda.get_device_name()
    assert losses(other) == pytest.approx(losses(plain), rel=1e-4)
    ours, theirs = weights_of(tmp_path / "other"), weights_of(tmp_path / "plain")
    for name, weight in theirs.items():
        torch.testing.assert_close(ours[name], weight, rtol=0, atol=1e-4)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_autocast(precision, tmp_path, few_examples):
    # dropout draws other numbers in another precision
    record = run_recipe(tiny_recipe(tmp_path, **EXACT, **{precision: True}))
    plain = run_recipe(tiny_recipe(tmp_path / "plain", **EXACT))
    assert losses(record)[0] == pytest.approx(losses(plain)[0], rel=2e-2)


def test_triangular_kernels():
    """Outputs, gradients and dropout of the Triton kernels, in every type, beside the plain version in float64."""
    script = Path(__file__).parents[2] / "perf" / "gpu_triangular_attention.py"
    done = subprocess.run([sys.executable, str(script), "--check-only"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_cpu_and_gpu_evaluate_alike(tmp_path, few_examples, monkeypatch):
    run_recipe(tiny_recipe(tmp_path / "gpu", **EXACT))
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    record = run_recipe(tiny_recipe(tmp_path / "cpu", **EXACT))
    on_gpu = read_record(tmp_path / "gpu" / "run" / "results.json")
    for name, split in record.splits.items():
        assert split.loss_teacher == pytest.approx(on_gpu.splits[name].loss_teacher, rel=1e-3)
