"""Triangular attention in fused GPU kernels (Triton)."""

import torch


def can_run_triton(query: torch.Tensor) -> bool:
    return False


def triton_triangular_attention(query, key, left, right, node_mask=None, source_length=None, dropout=0.0):
    raise NotImplementedError
