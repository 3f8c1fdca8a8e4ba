"""Float32 products by oneDNN: as exact as MKL's, and only where nothing else was chosen; memory that is kept,
in huge pages."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from hf_sysgen.cpu import fast_products

on_cpu = pytest.mark.skipif(torch.accelerator.is_available(), reason="a GPU keeps its products")


@pytest.fixture(autouse=True)
def precision() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


# of each product: odd primes, one column, a model's sizes
@on_cpu
@pytest.mark.parametrize(("rows", "inner", "columns"), [(7, 5, 3), (101, 127, 1), (257, 128, 384)])
def test_products_keep_float32(rows: int, inner: int, columns: int) -> None:
    draw = torch.Generator().manual_seed(0)
    left, right = torch.randn(3, rows, inner, generator=draw), torch.randn(3, inner, columns, generator=draw)
    left.requires_grad_(), right.requires_grad_()
    with fast_products():
        for product in (torch.bmm(left, right), left[0] @ right[0]):
            wide = left.double() @ right.double() if product.dim() == 3 else left[0].double() @ right[0].double()
            grads = torch.autograd.grad(product.square().sum(), (left, right))
            expected = torch.autograd.grad(wide.square().sum(), (left, right))
            for ours, theirs in zip((product, *grads), (wide, *expected), strict=True):
                # bfloat16 would be wrong by 1e-3
                assert (ours - theirs).norm().item() < 1e-6 * theirs.norm().item()


@on_cpu
def test_the_setting_ends_with_the_block() -> None:
    with pytest.raises(ZeroDivisionError), fast_products():
        _ = 1 // 0
    assert torch.get_float32_matmul_precision() == "highest"
    with fast_products(), fast_products():
        pass
    assert torch.get_float32_matmul_precision() == "highest"


@on_cpu
def test_a_chosen_precision_stays() -> None:
    torch.set_float32_matmul_precision("high")
    with fast_products():
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == "high"


@pytest.mark.skipif(not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="older PyTorch has no newer name")
@on_cpu
def test_a_precision_chosen_by_the_newer_name_stays() -> None:
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        with pytest.raises(RuntimeError, match="precision"):
            torch.get_float32_matmul_precision()
        with fast_products():
            assert torch.backends.cuda.matmul.fp32_precision == "tf32"
        assert torch.backends.cuda.matmul.fp32_precision == "tf32"
    finally:
        torch.backends.cuda.matmul.fp32_precision = before


@on_cpu
def test_a_processor_that_rounds_to_bfloat16_keeps_mkl(monkeypatch: pytest.MonkeyPatch) -> None:
    product = torch.Tensor.__matmul__
    monkeypatch.setattr(
        torch.Tensor, "__matmul__", lambda left, right: product(left.bfloat16(), right.bfloat16()).float()
    )
    with fast_products():
        assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_memory_is_kept() -> None:
    """Tensors as large as others that were freed take few pages of the kernel; in a process of its own."""
    script = """
import resource, torch
from hf_sysgen.cpu import keep_memory
keep_memory()
for _ in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    tensors = [torch.ones(2**20) for _ in range(50)]
    del tensors
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    # of 200 MiB, 51,200 pages; without `keep_memory` all of them
    assert int(done.stdout) < 25_600


def has_huge_pages() -> bool:
    file = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return file.exists() and "[never]" not in file.read_text()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
@pytest.mark.skipif(not has_huge_pages(), reason="the kernel gives no huge pages")
def test_tensors_are_in_huge_pages() -> None:
    """And a second call reserves no second block; in a process of its own."""
    script = """
import torch
from hf_sysgen.cpu import HUGE, keep_memory

def kilobytes(name):
    return sum(int(line.split()[1]) for line in open("/proc/self/smaps_rollup") if line.startswith(name))

def heap():
    ends = [line.split()[0].split("-") for line in open("/proc/self/maps") if "[heap]" in line]
    return sum(int(end, 16) - int(start, 16) for start, end in ends)

keep_memory()
before, reserved, resident = kilobytes("AnonHugePages"), heap(), kilobytes("Rss")
keep_memory()
assert HUGE < reserved == heap() and kilobytes("Rss") < resident + 2**16
tensors = [torch.ones(2**20) for _ in range(50)]
print(kilobytes("AnonHugePages") - before)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    # of 200 MiB
    assert int(done.stdout) > 150 * 1024
