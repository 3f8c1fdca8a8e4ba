"""Which library computes float32 matrix products on a CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

# of the matrices on which `fast_products` tests a processor
WIDTH = 128


@contextlib.contextmanager
def fast_products() -> Iterator[None]:
    """
    Float32 products by oneDNN in place of MKL, which on AMD processors leaves half of the vector width unused.

    PyTorch chooses oneDNN where it may compute with bfloat16 inside. Only AMX does that; other processors stay with
    float32. So a processor on which a product is not float32's own keeps MKL. So does a machine with a GPU, whose
    products the setting would change, and whoever has chosen a precision already.
    """
    chosen = torch.get_float32_matmul_precision()
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
