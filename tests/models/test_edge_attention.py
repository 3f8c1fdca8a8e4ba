"""Triangular attention: every implementation equals loops over triangles, outputs and all gradients."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import torch
from edge_tiny import SIZES
from reference import triangular_attention as reference
from tiny import scatter_weights
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from hf_sysgen.models import EdgeTransformerConfig, triangular_blocked
from hf_sysgen.models.edge_layers import EdgeLayer
from hf_sysgen.models.triangular_attention import (
    TriangularAttention,
    chosen_implementation,
    plain_triangular_attention,
)
from hf_sysgen.models.triangular_blocked import blocked_triangular_attention
from hf_sysgen.models.triangular_kernels import can_run_triton, triton_triangular_attention

CLOSE = {"rtol": 1e-11, "atol": 1e-12}
BATCH, HEADS, SIZE = 3, 2, 5
ABLATIONS = {"none": {}, "value": {"value_ablation": True}, "attention": {"attention_ablation": True},
             "both": {"value_ablation": True, "attention_ablation": True}}  # fmt: skip


@pytest.fixture(params=["plain", "blocked"])
def implementation(request: pytest.FixtureRequest) -> str:
    return request.param


# of 3 examples of 11 nodes: one block of all; blocks of two nodes; of two examples; chunks of two examples; and of four
# first nodes of one
BLOCKS = {
    "one block": (1 << 19, 1 << 20), "nodes": (300, 1), "examples": (3000, 1 << 20), "chunks": (1200, 4 * 11**3),
    "first nodes": (650, 4 * 11**2),
}  # fmt: skip


@pytest.fixture(params=list(BLOCKS))
def small_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    products, scores = BLOCKS[request.param]
    monkeypatch.setitem(triangular_blocked.PRODUCTS, "cpu", products)
    monkeypatch.setitem(triangular_blocked.SCORES, "cpu", scores)


def config_of(implementation: str, **changes) -> EdgeTransformerConfig:
    fields = {**SIZES, "attention_bias": True, "dropout": 0.0, "layer_norm_eps": 1e-2, **changes}
    return EdgeTransformerConfig(triangular_implementation=implementation, **fields)


def weights_of(module: torch.nn.Module, named: dict, prefix: str = "") -> dict:
    parts = ["query", "key", "left", "right"][: module.parts]
    matrices = named[f"{prefix}in_proj.weight"].chunk(module.parts)
    biases = named[f"{prefix}in_proj.bias"].chunk(module.parts)
    weights = {name: pair for name, *pair in zip(parts, matrices, biases, strict=True)}
    return weights | {"merge": (named[f"{prefix}o_proj.weight"], named[f"{prefix}o_proj.bias"])}


def loops(state: torch.Tensor) -> dict:
    return {(i, j): state[i, j] for i in range(len(state)) for j in range(len(state))}


def stacked(edges: dict, nodes: int) -> torch.Tensor:
    return torch.stack([torch.stack([edges[i, j] for j in range(nodes)]) for i in range(nodes)])


def compare(module: torch.nn.Module, state: torch.Tensor, ours: torch.Tensor, run_reference) -> None:
    """Outputs (BATCH, N, N, E), and gradients of one random direction for every parameter and the state."""
    named = {name: p.detach().clone().requires_grad_() for name, p in module.named_parameters()}
    other = state.detach().clone().requires_grad_()
    theirs = torch.stack(
        [stacked(run_reference(row, example, named), state.shape[1]) for row, example in enumerate(other)]
    )
    torch.testing.assert_close(ours, theirs, **CLOSE)
    direction = torch.randn(ours.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    (ours * direction).sum().backward()
    (theirs * direction).sum().backward()
    pairs = [(name, p.grad, named[name].grad) for name, p in module.named_parameters()]
    for name, mine, expected in [*pairs, ("state", state.grad, other.grad)]:
        torch.testing.assert_close(mine, expected, **CLOSE, msg=lambda text, n=name: f"{n}: {text}")


def random_state(nodes: int, width: int = SIZES["hidden_size"]) -> torch.Tensor:
    generator = torch.Generator().manual_seed(nodes)
    return torch.randn(BATCH, nodes, nodes, width, generator=generator, dtype=torch.float64, requires_grad=True)


def random_mask(nodes: int) -> torch.Tensor:
    """One example whole, one without a single real node, one with holes."""
    mask = torch.ones(BATCH, nodes, dtype=torch.bool)
    mask[1] = False
    mask[2, ::2] = False
    return mask


@pytest.mark.parametrize("ablation", ABLATIONS)
@pytest.mark.parametrize("nodes", [1, 2, 5])
def test_loops(implementation: str, nodes: int, ablation: str) -> None:
    module = scatter_weights(TriangularAttention(config_of(implementation, **ABLATIONS[ablation])).double())
    state, mask = random_state(nodes), random_mask(nodes)
    ours, _ = module(state, mask)
    compare(module, state, ours, lambda row, example, named: reference.triangular_attention(
        loops(example), nodes, weights_of(module, named), 2, lambda i, l, j: mask[row, l], **ABLATIONS[ablation]
    ))  # fmt: skip


@pytest.mark.parametrize("source", [0, 2, 5])
def test_loops_with_a_target_after_the_source(implementation: str, source: int) -> None:
    module = scatter_weights(TriangularAttention(config_of(implementation)).double())
    state, mask = random_state(5), random_mask(5)
    mask[:, source:] = True
    ours, _ = module(state, mask, source)
    compare(module, state, ours, lambda row, example, named: reference.triangular_attention(
        loops(example), 5, weights_of(module, named), 2, lambda i, l, j: mask[row, l] and (l < source or l <= max(i, j))
    ))  # fmt: skip


@pytest.mark.parametrize("ablation", ABLATIONS)
@pytest.mark.parametrize("form", ["released", "paper"])
def test_layer(form: str, ablation: str) -> None:
    config = config_of("auto", layer_form=form, **ABLATIONS[ablation])
    module, state = scatter_weights(EdgeLayer(config).double()), random_state(3)
    options = {"heads": 2, "epsilon": 1e-2, "form": form, **ABLATIONS[ablation]}

    def run_reference(row, example, named):
        weights = {ours: (named[f"{name}.weight"], named[f"{name}.bias"]) for ours, name in (
            ("norm1", "attention_norm"), ("norm2", "feed_forward_norm"), ("in", "feed_forward.fc1"),
            ("out", "feed_forward.fc2"),
        )}  # fmt: skip
        weights["attention"] = weights_of(module.attention, named, "attention.")
        return reference.layer(loops(example), 3, weights, options)

    compare(module, state, module(state, None), run_reference)


def test_by_hand() -> None:
    """One head of one channel, two nodes: scores 0 and ln 3 give weights 1/4 and 3/4."""
    query = torch.tensor([[1.0, 1.0], [0.0, 0.0]]).view(1, 2, 2, 1, 1)
    key = torch.tensor([[0.0, 0.0], [torch.log(torch.tensor(3.0)), 0.0]]).view(1, 2, 2, 1, 1)
    left = torch.tensor([[2.0, 5.0], [0.0, 0.0]]).view(1, 2, 2, 1, 1)
    right = torch.tensor([[10.0, 0.0], [100.0, 0.0]]).view(1, 2, 2, 1, 1)
    output, weights = plain_triangular_attention(query, key, left, right)
    assert weights[0, 0, 0, :, 0].tolist() == pytest.approx([0.25, 0.75])
    assert output[0, 0, 0].item() == pytest.approx(0.25 * 2 * 10 + 0.75 * 5 * 100)
    # the released code divides by the root of a head's width, equation 5 by that of the whole
    wide = [part.expand(1, 2, 2, 1, 4) for part in (query, key, left, right)]
    _, weights = plain_triangular_attention(*wide)
    assert weights[0, 0, 0, :, 0].tolist() == pytest.approx([1 / 10, 9 / 10])


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("source", [None, 0, 3])
@pytest.mark.parametrize("nodes", [1, 3, 11, 23])
def test_blocks(nodes: int, source: int | None) -> None:
    if source is not None and source > nodes:
        source = nodes
    generator = torch.Generator().manual_seed(nodes)
    shape = (BATCH, nodes, nodes, 4, HEADS, SIZE)
    projected = torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
    direction = torch.randn(BATCH, nodes, nodes, HEADS, SIZE, generator=generator, dtype=torch.float64)
    mask = random_mask(nodes)
    expected, _ = plain_triangular_attention(*projected.unbind(3), mask, source)
    (gradient,) = torch.autograd.grad(expected, projected, direction)
    found = blocked_triangular_attention(projected, mask, source)
    torch.testing.assert_close(found, expected, **CLOSE)
    torch.testing.assert_close(torch.autograd.grad(found, projected, direction)[0], gradient, **CLOSE)
    assert found[1].abs().max() == 0, "no triangle reaches an edge of padding alone"


@pytest.mark.usefixtures("small_blocks")
def test_dropout_of_blocks() -> None:
    """Masks are drawn again in the backward pass: numerical derivatives see the same ones."""
    projected = torch.randn(2, 3, 3, 4, 1, 2, dtype=torch.float64, requires_grad=True)

    def run(projected):
        torch.manual_seed(3)
        return blocked_triangular_attention(projected, None, None, 0.3)

    assert torch.autograd.gradcheck(run, (projected,))
    # with scores of 0 and values of 1, an output is the sum of what was kept of 1/n each
    ones = torch.zeros(40, 7, 7, 4, 1, 1).index_fill(3, torch.tensor([2, 3]), 1.0)
    counts = (run(ones) * 7 * 0.7).round()
    torch.testing.assert_close(run(ones) * 7 * 0.7, counts, rtol=1e-4, atol=1e-4)
    assert counts.mean().item() == pytest.approx(7 * 0.7, abs=0.15)
    assert set(counts.unique().tolist()) >= {3.0, 4.0, 5.0, 6.0}
    assert not torch.equal(run(ones), blocked_triangular_attention(ones, None, None, 0.3))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("small_blocks", ["one block", "nodes", "first nodes"], indirect=True)
@pytest.mark.parametrize("source", [None, 5])
@pytest.mark.parametrize("nodes", [1, 13, 31])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_rounding_of_blocks(dtype: torch.dtype, nodes: int, source: int | None) -> None:
    """At most twice the error of the plain version, in outputs and gradients."""
    generator = torch.Generator().manual_seed(nodes)
    projected = torch.randn(BATCH, nodes, nodes, 4, HEADS, SIZE, generator=generator).to(dtype).requires_grad_()
    direction = torch.randn(BATCH, nodes, nodes, HEADS, SIZE, generator=generator).to(dtype)
    exact = projected.detach().double().requires_grad_()
    rules = (random_mask(nodes), None if source is None else min(source, nodes))

    def run(function, argument, direction):
        output = function(argument)
        return output, torch.autograd.grad(output, argument, direction)[0]

    truth = run(lambda p: plain_triangular_attention(*p.unbind(3), *rules)[0], exact, direction.double())
    plain = run(lambda p: plain_triangular_attention(*p.unbind(3), *rules)[0], projected, direction)
    ours = run(lambda p: blocked_triangular_attention(p, *rules), projected, direction)
    for true, rough, found in zip(truth, plain, ours, strict=True):
        assert found.dtype == dtype
        assert true.norm() > 0
        assert (found - true).norm() <= 2 * (rough - true).norm()


def test_blocks_hold_no_number_per_triangle() -> None:
    """What is kept for the backward pass is a few times the state, where the plain version keeps all products."""
    kept = {}
    for name in ("plain", "blocked"):
        projected = torch.randn(2, 29, 29, 4, HEADS, SIZE, requires_grad=True)
        sizes: list[int] = []

        def pack(tensor, sizes=sizes):
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            if name == "plain":
                plain_triangular_attention(*projected.unbind(3))
            else:
                blocked_triangular_attention(projected)
        kept[name] = max(sizes)
    assert kept["blocked"] == 2 * 29**2 * 4 * HEADS * SIZE
    assert kept["plain"] >= 2 * 29**3 * HEADS * SIZE


class Largest(TorchDispatchMode):
    """Numbers in the largest memory that any operation returns a part of."""

    numbers = 0

    def __torch_dispatch__(self, function, kinds, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.numbers = max(self.numbers, leaf.untyped_storage().nbytes() // leaf.element_size())
        return result


def test_blocks_hold_less_than_a_number_per_triangle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one example, in either pass, while they work."""
    nodes = 29
    monkeypatch.setitem(triangular_blocked.SCORES, "cpu", 3 * nodes**2)
    monkeypatch.setitem(triangular_blocked.PRODUCTS, "cpu", 6 * nodes**2)
    largest = {}
    mask = torch.ones(1, nodes, dtype=torch.bool)
    for name, source in (("plain", None), ("blocked", None), ("blocked, causal", 5)):
        projected = torch.randn(1, nodes, nodes, 4, 1, 1, requires_grad=True)
        with Largest() as found:
            if name == "plain":
                output, _ = plain_triangular_attention(*projected.unbind(3))
                output.sum().backward()
            else:
                # called as operators, both would hide what happens in them
                rules = (mask, source, 0.1, torch.tensor(3))
                output, log_sums = triangular_blocked.run_forward(projected.detach(), *rules)
                triangular_blocked.run_backward(output, output, log_sums, projected.detach(), *rules)
        largest[name] = found.numbers
    assert largest["plain"] >= nodes**3
    assert max(largest["blocked"], largest["blocked, causal"]) < nodes**3 / 4


@pytest.mark.parametrize("source", [None, 2])
def test_operators(source: int | None) -> None:
    """What PyTorch asks of an operator: its shapes without data and its gradients are those that a compiler needs."""
    for shape, dtype in (((BATCH, 3, 3, 4, HEADS, SIZE), torch.float64), ((1, 1, 1, 4, 1, 3), torch.bfloat16)):
        projected = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()
        mask = None if source is None else random_mask(3)[: shape[0], : shape[1]]
        dropout, seed = (0.0, None) if source is None else (0.25, torch.tensor(7))
        torch.library.opcheck(triangular_blocked.forward_operator, (projected, mask, source, dropout, seed))


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_compiled_blocks(dropout: float) -> None:
    """One graph for several sizes, with eager mode's random numbers."""
    torch.compiler.reset()
    compiled = torch.compile(blocked_triangular_attention, fullgraph=True, dynamic=True, backend="aot_eager")
    for nodes in (5, 7, 11):
        projected = torch.randn(2, nodes, nodes, 4, HEADS, SIZE, dtype=torch.float64, requires_grad=True)
        found = []
        for function in (blocked_triangular_attention, compiled):
            torch.manual_seed(nodes)
            output = function(projected, random_mask(nodes)[1:], 3, dropout)
            found.append((output, *torch.autograd.grad(output.square().sum(), projected)))
        assert all(map(torch.equal, *found))
    torch.compiler.reset()


def test_copies_in_one_process() -> None:
    """A checkpoint's copy of the file beside the package's registers operators too, also when it is loaded again."""
    name = "transformers_modules.some run.c0ffee.triangular_blocked"
    spec = spec_from_file_location(name, triangular_blocked.__file__)
    copies = [module_from_spec(spec) for _ in range(2)]
    for copy in copies:
        spec.loader.exec_module(copy)
    # what an operator of the same name replaced could be called no more
    assert len({module.NAMESPACE for module in (triangular_blocked, *copies)}) == 3
    projected = torch.randn(2, 3, 3, 4, HEADS, SIZE, dtype=torch.float64, requires_grad=True)
    results = []
    for module in (triangular_blocked, *copies):
        output = module.blocked_triangular_attention(projected)
        results.append((output, *torch.autograd.grad(output.square().sum(), projected)))
    for result in results[1:]:
        assert all(map(torch.equal, result, results[0]))


def test_graphs_without_nodes() -> None:
    projected = torch.randn(2, 0, 0, 4, 3, 5, requires_grad=True)
    output = blocked_triangular_attention(projected)
    assert output.shape == (2, 0, 0, 3, 5)
    output.sum().backward()


@pytest.mark.parametrize("source", [None, 0, 2, 5])
def test_weights_by_the_rule(source: int | None) -> None:
    """Of every triangle that counts a share, of the others none; also where an edge has no triangle that counts."""
    nodes = 5
    mask = torch.tensor([
        [True, False, True, True, True], [False, False, False, True, False], [False, True, False, False, False],
        [False] * nodes,
    ])  # fmt: skip
    projected = torch.randn(len(mask), nodes, nodes, 4, HEADS, SIZE, generator=torch.Generator().manual_seed(0))
    _, weights = plain_triangular_attention(*projected.unbind(3), mask, source)
    for row, real in enumerate(mask):
        for i in range(nodes):
            for j in range(nodes):
                counts = [bool(real[l]) and (source is None or l < source or l <= max(i, j)) for l in range(nodes)]
                assert (weights[row, :, i, :, j] > 0).tolist() == [counts] * HEADS
                torch.testing.assert_close(weights[row, :, i, :, j].sum(1), torch.full((HEADS,), float(any(counts))))


class LargestMask(TorchDispatchMode):
    """Elements of the largest boolean tensor, in memory of its own or not, that any operation takes or returns."""

    elements = 0

    def __torch_dispatch__(self, function, kinds, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        for leaf in tree_leaves((arguments, options, result)):
            if isinstance(leaf, torch.Tensor) and leaf.dtype == torch.bool:
                self.elements = max(self.elements, leaf.numel())
        return result


def test_no_mask_of_triangles() -> None:
    """Of the plain version; what is inside the blocked one's operators cannot be seen so."""
    nodes = 13
    module = TriangularAttention(config_of("plain")).double()
    with LargestMask() as found:
        output, _ = module(random_state(nodes), random_mask(nodes), 5)
        output.sum().backward()
    assert 0 < found.elements < nodes**3


def test_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = torch.zeros(1, 3, 3, 4, 1, 1), torch.zeros(1, 13, 13, 4, 1, 1)
    assert chosen_implementation("auto", small, False) == "blocked"
    assert chosen_implementation("auto", large, False) == "blocked"
    assert chosen_implementation("auto", small, True) == "plain"
    assert chosen_implementation("auto", large, True) == "blocked"
    assert chosen_implementation("auto", large.to("meta"), False) == "plain"
    # a compiled graph should be the fast one; an exported one is read by those who do not have our operators
    for ablated, is_exporting, expected in ((False, False, "blocked"), (True, False, "plain"), (False, True, "plain")):
        with monkeypatch.context() as patch:
            if is_exporting:
                patch.setattr("hf_sysgen.models.triangular_attention.can_run_triton", lambda projected: True)
            patch.setattr(torch.compiler, "is_compiling", lambda: True)
            patch.setattr(torch.compiler, "is_exporting", lambda found=is_exporting: found)
            assert chosen_implementation("auto", large, ablated) == expected
    assert chosen_implementation("auto", large, False, with_weights=True) == "plain"
    assert chosen_implementation("plain", large, False) == "plain"
    assert not can_run_triton(large)
    with pytest.raises(RuntimeError, match="triangular_implementation='triton'"):
        triton_triangular_attention(large)


# (training, ablation): both, only the first, only the second, neither
@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 13, 13, 4, 1, 32), ("plain", "triton", "plain", "triton")),
        ((1, 13, 13, 4, 1, 33), ("plain", "plain", "plain", "triton")),
        ((2000, 13, 13, 4, 1, 33), ("blocked", "triton", "blocked", "triton")),
        # wider than the kernels take
        ((1, 13, 13, 4, 1, 129), ("plain", "plain", "plain", "plain")),
        ((2000, 13, 13, 4, 1, 129), ("blocked", "blocked", "blocked", "blocked")),
    ],
)
def test_choice_on_a_gpu(shape: tuple[int, ...], expected: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hf_sysgen.models.triangular_kernels.triton", object())
    cases = [(True, True), (True, False), (False, True), (False, False)]
    # such tensors are on a GPU in name only
    with FakeTensorMode():
        projected = torch.empty(shape, device="cuda")
        found = [chosen_implementation("auto", projected, ablated, training) for training, ablated in cases]
    assert tuple(found) == expected


needs_triton = pytest.mark.skipif(
    find_spec("triton") is None, reason="Triton is not installed; the extra dev has it on Linux x86_64"
)


@pytest.mark.parametrize("strict", [True, False])
def test_an_exported_graph_holds_no_operator_of_ours(strict: bool) -> None:
    module = TriangularAttention(config_of("auto")).eval()
    state, mask = random_state(13).detach().float(), random_mask(13)
    program = torch.export.export(module, (state, mask), strict=strict)
    targets = [str(node.target) for node in program.graph.nodes]
    assert not [target for target in targets if "triangular" in target]
    torch.testing.assert_close(program.module()(state, mask)[0], module(state, mask)[0])


@needs_triton
@pytest.mark.slow
def test_kernels_in_the_interpreter() -> None:
    """Triton's interpreter runs the kernels on a CPU; it is switched on before they are compiled."""
    script = Path(__file__).parents[2] / "perf" / "gpu_triangular_attention.py"
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, str(script), "--check-only", "--interpreted"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all within twice the plain version's error" in done.stdout


COMPILED = """
import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from hf_sysgen.models import triangular_kernels as kernels

TENSORS = {"projected", "output", "d_output", "gradient", "lse", "means"}
KINDS = {"node_mask": "*i8", "lengths": "*i32", "seed": "*i32", "scale": "fp32", "dropout": "fp32"}
FLAGS = {"MASKED": True, "CAUSAL": True, "DROPOUT": True, "PRECISION": "ieee", "BD": 128}
for name in ("forward_kernel", "first_kernel", "last_kernel"):
    kernel = getattr(kernels, name)
    # no tile of so wide heads fits into registers; the one that is left has the least numbers for each thread
    (config,) = kernel.early_config_prune(kernel.configs, {}, **FLAGS)
    fixed = {**FLAGS, **config.kwargs}
    names = kernel.fn.arg_names
    signature = {
        argument: "constexpr" if argument in fixed else "*fp32" if argument in TENSORS else KINDS.get(argument, "i32")
        for argument in names
    }
    source = ASTSource(kernel.fn, signature, {(names.index(argument),): value for argument, value in fixed.items()})
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    print(name, compiled.metadata.shared)
"""


@needs_triton
@pytest.mark.parametrize(("width", "forward", "backward"), [(16, 7, 4), (32, 4, 1), (64, 1, 1), (128, 1, 1)])
def test_tiles_that_spill_are_not_tried(width: int, forward: int, backward: int) -> None:
    from hf_sysgen.models import triangular_kernels as kernels

    for kernel, count in (
        (kernels.forward_kernel, forward), (kernels.first_kernel, backward), (kernels.last_kernel, backward)
    ):  # fmt: skip
        assert len(kernel.early_config_prune(kernel.configs, {}, BD=width)) == count


@pytest.mark.slow
@needs_triton
def test_wide_heads_fit_into_shared_memory() -> None:
    """Compiling needs no GPU. Heads of 90 channels in float32 are those of the paper's dependency parser."""
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    needed = {name: int(size) for name, size in (line.split() for line in done.stdout.splitlines())}
    assert len(needed) == 3
    # bytes of a block on the GPUs of several generations; Hopper has more
    assert max(needed.values()) <= 99 * 1024, needed
