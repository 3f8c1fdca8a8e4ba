"""Settings of the process with which PyTorch is faster on a CPU."""

from __future__ import annotations

import contextlib
import ctypes
import platform
from collections.abc import Iterator

import torch

# width of the matrices with which `fast_products` tests a processor
WIDTH = 128
# options of `mallopt`, from glibc's malloc.h
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


def keep_memory() -> None:
    """
    Have glibc keep up to 1 GiB of freed memory for later tensors, until the process ends. To return pages to the kernel
    and to fault them in again takes a tenth of a small model's training step. Tensors above 32 MiB, the largest limit
    that glibc sets itself, are still returned: kept, their gaps would add up.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, 2**25)
        libc.mallopt(M_TRIM_THRESHOLD, 2**30)


@contextlib.contextmanager
def fast_products() -> Iterator[None]:
    """
    Float32 products by oneDNN in place of MKL, which on AMD processors leaves half of the vector width unused. For
    training and for passes over whole sequences: steps of decoding differ in shape, each of which oneDNN prepares, and
    SDPA becomes slower.

    PyTorch chooses oneDNN where it may compute with bfloat16 inside. Only AMX does that; other processors stay with
    float32. So a processor on which a product is not float32's own keeps MKL. So does a machine with a GPU, whose
    products the setting would change, and whoever has chosen a precision already.
    """
    try:
        chosen = torch.get_float32_matmul_precision()
    except RuntimeError:
        # somebody has chosen by PyTorch's newer names, as the Trainer does for `training.tf32`; then the older name
        # cannot be read
        chosen = None
    if chosen != "highest" or torch.accelerator.is_available():
        yield
        return
    torch.set_float32_matmul_precision("medium")
    try:
        # 1 + 2^-20 times 1 is 1 in bfloat16 and in TF32
        numbers = torch.full((WIDTH, WIDTH), 1 + 2**-20, dtype=torch.float32)
        if not torch.equal(numbers @ torch.eye(WIDTH, dtype=torch.float32), numbers):
            torch.set_float32_matmul_precision(chosen)
        yield
    finally:
        torch.set_float32_matmul_precision(chosen)
