"""Settings of the process with which PyTorch is faster on a CPU."""

from __future__ import annotations

import contextlib
import ctypes
import platform
from collections.abc import Iterator

import torch

# width of the matrices with which `fast_products` tests a processor
WIDTH = 128
# options of `mallopt`, from glibc's malloc.h, and its default for the second
M_TRIM_THRESHOLD, M_MMAP_MAX, M_MMAP_THRESHOLD = -1, -4, -3
MMAP_MAX = 65536
# advice of `madvise`, from Linux's mman.h; bytes of a huge page
MADV_HUGEPAGE = 14
HUGE_PAGE = 2**21
# bytes of freed memory that are kept, and of memory in huge pages
KEPT, HUGE = 2**30, 2**29


def keep_memory() -> None:
    """
    Have glibc keep up to 1 GiB of freed memory for later tensors, until the process ends. To return pages to the kernel
    and to fault them in again takes a tenth of a small model's training step. Tensors above 32 MiB, the largest limit
    that glibc sets itself, are still returned: kept, their gaps would add up. The next 512 MiB are in huge pages, whose
    addresses a processor looks up faster.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(M_TRIM_THRESHOLD, KEPT)
        _reserve_huge_pages(libc)
        libc.mallopt(M_MMAP_THRESHOLD, 2**25)


def _reserve_huge_pages(libc: ctypes.CDLL) -> None:
    """Have the heap grow into huge pages; none is taken before it is written. Without a free block, or where the kernel
    has no huge pages, nothing changes."""
    libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    # from the heap, where its memory stays after it is freed
    libc.mallopt(M_MMAP_MAX, 0)
    block = libc.malloc(HUGE)
    libc.mallopt(M_MMAP_MAX, MMAP_MAX)
    if block is None:
        return
    first = -(-block // HUGE_PAGE) * HUGE_PAGE
    libc.madvise(first, (block + HUGE - first) // HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE)
    libc.free(block)


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
