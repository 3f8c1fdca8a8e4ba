"""
Triangular attention in fused GPU kernels (Triton), forward and backward; without Triton or a GPU nothing here runs.

Three-way products are made in registers and never stored: the sum over l of alpha[i,l,j] u[i,l,c] w[l,j,c] is no matrix
product, whatever pair is taken first, so it runs on the ordinary cores, and only scores and their
gradients use tensor cores. The backward pass needs no atomic additions: one kernel owns edges (i, l) and runs over j,
another owns (l, j) and runs over i.
"""

# B batch, N nodes, H heads, D head width; i -> l -> j a triangle's nodes; problem = example * H + head

import contextlib
import math
import os

import torch
from torch.autograd.function import once_differentiable

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

# Triton's own switch: kernels then run on a CPU, slowly, one number after the other
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# heads wider than this would not fit into registers
WIDEST = 128


def can_run_triton(projected: torch.Tensor) -> bool:
    """Whether the kernels run for these projections (B, N, N, 4, H, D)."""
    fits = projected.dtype in DTYPES and projected.shape[-1] <= WIDEST
    return triton is not None and projected.device.type == "cuda" and fits


if triton is not None:
    # float32 numbers of a tile (BI, BJ, BD) that a thread holds without spilling registers to memory, as a rule; tiles
    # that spill take up to 14 s to compile for an H100, others about one
    FORWARD_NUMBERS, BACKWARD_NUMBERS = 64, 32

    def tiles(sizes, **options):
        """Tile shapes to choose from. The interpreter has no clock to choose by, and is to make tiles of few nodes."""
        sizes, warps = ([(2, 4)], (4,)) if INTERPRETED else (sizes, (8, 4))
        return [triton.Config({"BI": i, "BJ": j}, num_warps=w, **options) for i, j in sizes for w in warps]

    def without_spills(configs, numbers, width):
        """Those with at most so many numbers for each thread; else the first, as wide heads spill whatever the tile."""
        found = [
            config
            for config in configs
            if config.kwargs["BI"] * config.kwargs["BJ"] * width <= numbers * 32 * config.num_warps
        ]
        return found or configs[:1]

    def tuned(prune, sizes, **options):
        """Choose the fastest of a kernel's tiles at its first call for such arguments."""
        return triton.autotune(
            tiles(sizes, **options),
            key=["ROUGHLY", "BD", "CAUSAL", "DROPOUT"],
            prune_configs_by={"early_config_prune": prune},
        )

    def forward_tiles(configs, arguments, **options):
        return without_spills(configs, FORWARD_NUMBERS, options["BD"])

    def backward_tiles(configs, arguments, **options):
        return without_spills(configs, BACKWARD_NUMBERS, options["BD"])

    @triton.jit
    def tile_scores(query, key, i, j, l, lse_or_zero, scale, source, N, CAUSAL: tl.constexpr, PRECISION: tl.constexpr):
        """Scores minus `lse_or_zero` of a tile (BI, BJ) for one l; -inf where a triangle does not count."""
        scores = tl.dot(query, tl.trans(key), input_precision=PRECISION) * scale - lse_or_zero
        counts = (i[:, None] < N) & (j[None, :] < N)
        if CAUSAL:
            counts = counts & ((l < source) | (l <= tl.maximum(i[:, None], j[None, :])))
        return tl.where(counts, scores, -float("inf"))

    @triton.jit
    def kept_share(i, j, l, problem, seed, dropout, N):
        """0 with probability `dropout`, else 1 / (1 - dropout); the same in every kernel. `seed` is an address."""
        offsets = (l * N + i[:, None]) * N + j[None, :]
        return tl.where(tl.rand(tl.load(seed) + problem, offsets) >= dropout, 1.0 / (1.0 - dropout), 0.0)

    @tuned(forward_tiles, [(16, 16), (16, 32), (32, 16), (32, 32)])
    @triton.jit
    def forward_kernel(
        projected, node_mask, lengths, output, lse, scale, source, seed, dropout, N, H, D, ROUGHLY,
        MASKED: tl.constexpr, CAUSAL: tl.constexpr, DROPOUT: tl.constexpr, PRECISION: tl.constexpr, BD: tl.constexpr,
        BI: tl.constexpr, BJ: tl.constexpr,
    ):  # fmt: skip
        """Owns a tile of edges (i, j): a first pass over l finds the sum of exponentials, a second one the output."""
        problem = tl.program_id(0)
        example, head = problem // H, problem % H
        i, j = tl.program_id(1) * BI + tl.arange(0, BI), tl.program_id(2) * BJ + tl.arange(0, BJ)
        c = tl.arange(0, BD)
        edge, part = 4 * H * D, H * D
        base = projected + example.to(tl.int64) * N * N * edge + head * D
        to_first = (i[:, None] * N) * edge + c[None, :]
        to_last = j[:, None] * edge + c[None, :]
        in_first = (i[:, None] < N) & (c[None, :] < D)
        in_last = (j[:, None] < N) & (c[None, :] < D)
        end = N
        if MASKED:
            end = tl.load(lengths + example)
        if CAUSAL:
            seen = tl.maximum((tl.program_id(1) + 1) * BI, (tl.program_id(2) + 1) * BJ)
            end = tl.minimum(end, tl.maximum(seen, source))

        largest = tl.full([BI, BJ], -1e30, tl.float32)
        total = tl.zeros([BI, BJ], tl.float32)
        for l in range(0, end):
            real = 1
            if MASKED:
                real = tl.load(node_mask + example * N + l)
            if real != 0:
                query = tl.load(base + to_first + l * edge, mask=in_first, other=0.0)
                key = tl.load(base + to_last + l * N * edge + part, mask=in_last, other=0.0)
                scores = tile_scores(query, key, i, j, l, 0.0, scale, source, N, CAUSAL, PRECISION)
                larger = tl.maximum(largest, scores)
                total = total * tl.exp(largest - larger) + tl.exp(scores - larger)
                largest = larger
        # an edge that no triangle reaches gets weights of zero
        log_sum = tl.where(total > 0, largest + tl.log(tl.where(total > 0, total, 1.0)), 0.0)

        result = tl.zeros([BI, BJ, BD], tl.float32)
        for l in range(0, end):
            real = 1
            if MASKED:
                real = tl.load(node_mask + example * N + l)
            if real != 0:
                query = tl.load(base + to_first + l * edge, mask=in_first, other=0.0)
                key = tl.load(base + to_last + l * N * edge + part, mask=in_last, other=0.0)
                left = tl.load(base + to_first + l * edge + 2 * part, mask=in_first, other=0.0).to(tl.float32)
                right = tl.load(base + to_last + l * N * edge + 3 * part, mask=in_last, other=0.0).to(tl.float32)
                weights = tl.exp(tile_scores(query, key, i, j, l, log_sum, scale, source, N, CAUSAL, PRECISION))
                if DROPOUT:
                    weights = weights * kept_share(i, j, l, problem, seed, dropout, N)
                result += weights[:, :, None] * (left[:, None, :] * right[None, :, :])

        place = (example.to(tl.int64) * N + i[:, None]) * N + j[None, :]
        inside = (i[:, None] < N) & (j[None, :] < N)
        tl.store(lse + place * H + head, log_sum, mask=inside)
        to_output = output + (place * part + head * D)[:, :, None] + c[None, None, :]
        tl.store(to_output, result.to(output.dtype.element_ty), mask=inside[:, :, None] & (c[None, None, :] < D))

    @triton.jit
    def tile_gradients(
        query, key, left, right, d_output, lse, means, i, j, l, problem, example, head, c, scale, source, seed, dropout,
        N, H, D, CAUSAL: tl.constexpr, DROPOUT: tl.constexpr, PRECISION: tl.constexpr,
    ):  # fmt: skip
        """A tile for one l: weights after dropout and gradients of scores (BI, BJ), d_output (BI, BJ, BD)."""
        place = (example.to(tl.int64) * N + i[:, None]) * N + j[None, :]
        inside = (i[:, None] < N) & (j[None, :] < N)
        log_sum = tl.load(lse + place * H + head, mask=inside, other=0.0)
        mean = tl.load(means + place * H + head, mask=inside, other=0.0)
        at = d_output + (place * (H * D) + head * D)[:, :, None] + c[None, None, :]
        d_out = tl.load(at, mask=inside[:, :, None] & (c[None, None, :] < D), other=0.0).to(tl.float32)
        weights = tl.exp(tile_scores(query, key, i, j, l, log_sum, scale, source, N, CAUSAL, PRECISION))
        d_weights = tl.sum(d_out * (left[:, None, :] * right[None, :, :]), 2)
        kept = weights
        if DROPOUT:
            share = kept_share(i, j, l, problem, seed, dropout, N)
            kept, d_weights = weights * share, d_weights * share
        return kept, weights * (d_weights - mean), d_out

    # one stage: with more, wide heads need more shared memory for tiles of d_output than there is
    @tuned(backward_tiles, [(16, 16), (16, 32), (32, 16)], num_stages=1)
    @triton.jit
    def first_kernel(
        projected, node_mask, d_output, lse, means, gradient, scale, source, seed, dropout, N, H, D, ROUGHLY,
        MASKED: tl.constexpr, CAUSAL: tl.constexpr, DROPOUT: tl.constexpr, PRECISION: tl.constexpr, BD: tl.constexpr,
        BI: tl.constexpr, BJ: tl.constexpr,
    ):  # fmt: skip
        """Owns edges (i, l) of one l and runs over j: gradients of query and left."""
        problem, l = tl.program_id(0) // N, tl.program_id(0) % N
        example, head = problem // H, problem % H
        i, c = tl.program_id(1) * BI + tl.arange(0, BI), tl.arange(0, BD)
        edge, part = 4 * H * D, H * D
        start_of = example.to(tl.int64) * N * N * edge + head * D
        base = projected + start_of
        to_first = (i[:, None] * N + l) * edge + c[None, :]
        in_first = (i[:, None] < N) & (c[None, :] < D)
        d_query = tl.zeros([BI, BD], tl.float32)
        d_left = tl.zeros([BI, BD], tl.float32)
        start = 0
        if CAUSAL:
            # first nodes before l, which is a target's, need last nodes from l on
            start = tl.where((l >= source) & ((tl.program_id(1) + 1) * BI <= l), (l // BJ) * BJ, 0)
        real = 1
        if MASKED:
            real = tl.load(node_mask + example * N + l)
        if real != 0:
            query = tl.load(base + to_first, mask=in_first, other=0.0)
            left = tl.load(base + to_first + 2 * part, mask=in_first, other=0.0).to(tl.float32)
            for first in range(start, N, BJ):
                j = first + tl.arange(0, BJ)
                to_last = (l * N + j[:, None]) * edge + c[None, :]
                in_last = (j[:, None] < N) & (c[None, :] < D)
                key = tl.load(base + to_last + part, mask=in_last, other=0.0)
                right = tl.load(base + to_last + 3 * part, mask=in_last, other=0.0).to(tl.float32)
                kept, d_scores, d_out = tile_gradients(
                    query, key, left, right, d_output, lse, means, i, j, l, problem, example, head, c, scale, source,
                    seed, dropout, N, H, D, CAUSAL, DROPOUT, PRECISION,
                )  # fmt: skip
                d_query += tl.dot(d_scores.to(key.dtype), key, input_precision=PRECISION)
                d_left += tl.sum(kept[:, :, None] * (d_out * right[None, :, :]), 1)
        at = gradient + start_of + to_first
        tl.store(at, (d_query * scale).to(gradient.dtype.element_ty), mask=in_first)
        tl.store(at + 2 * part, d_left.to(gradient.dtype.element_ty), mask=in_first)

    @tuned(backward_tiles, [(16, 16), (32, 16), (16, 32)], num_stages=1)
    @triton.jit
    def last_kernel(
        projected, node_mask, d_output, lse, means, gradient, scale, source, seed, dropout, N, H, D, ROUGHLY,
        MASKED: tl.constexpr, CAUSAL: tl.constexpr, DROPOUT: tl.constexpr, PRECISION: tl.constexpr, BD: tl.constexpr,
        BI: tl.constexpr, BJ: tl.constexpr,
    ):  # fmt: skip
        """Owns edges (l, j) of one l and runs over i: gradients of key and right."""
        problem, l = tl.program_id(0) // N, tl.program_id(0) % N
        example, head = problem // H, problem % H
        j, c = tl.program_id(1) * BJ + tl.arange(0, BJ), tl.arange(0, BD)
        edge, part = 4 * H * D, H * D
        start_of = example.to(tl.int64) * N * N * edge + head * D
        base = projected + start_of
        to_last = (l * N + j[:, None]) * edge + c[None, :]
        in_last = (j[:, None] < N) & (c[None, :] < D)
        d_key = tl.zeros([BJ, BD], tl.float32)
        d_right = tl.zeros([BJ, BD], tl.float32)
        start = 0
        if CAUSAL:
            start = tl.where((l >= source) & ((tl.program_id(1) + 1) * BJ <= l), (l // BI) * BI, 0)
        real = 1
        if MASKED:
            real = tl.load(node_mask + example * N + l)
        if real != 0:
            key = tl.load(base + to_last + part, mask=in_last, other=0.0)
            right = tl.load(base + to_last + 3 * part, mask=in_last, other=0.0).to(tl.float32)
            for first in range(start, N, BI):
                i = first + tl.arange(0, BI)
                to_first = (i[:, None] * N + l) * edge + c[None, :]
                in_first = (i[:, None] < N) & (c[None, :] < D)
                query = tl.load(base + to_first, mask=in_first, other=0.0)
                left = tl.load(base + to_first + 2 * part, mask=in_first, other=0.0).to(tl.float32)
                kept, d_scores, d_out = tile_gradients(
                    query, key, left, right, d_output, lse, means, i, j, l, problem, example, head, c, scale, source,
                    seed, dropout, N, H, D, CAUSAL, DROPOUT, PRECISION,
                )  # fmt: skip
                d_key += tl.dot(tl.trans(d_scores).to(query.dtype), query, input_precision=PRECISION)
                d_right += tl.sum(kept[:, :, None] * (d_out * left[:, None, :]), 0)
        at = gradient + start_of + to_last
        tl.store(at + part, (d_key * scale).to(gradient.dtype.element_ty), mask=in_last)
        tl.store(at + 3 * part, d_right.to(gradient.dtype.element_ty), mask=in_last)


def on(device: torch.device) -> contextlib.AbstractContextManager:
    """Triton launches on the current device, which need not be that of its arguments. Compiled code sees to it."""
    if device.type != "cuda" or torch.compiler.is_compiling():
        return contextlib.nullcontext()
    return torch.cuda.device(device)


class TritonTriangularAttention(torch.autograd.Function):
    """Keeps its argument, its output and one number per edge and head for the backward pass."""

    @staticmethod
    def options(projected: torch.Tensor, source_length: int | None, dropout: float) -> tuple[tuple, dict]:
        nodes, heads, width = projected.shape[1], *projected.shape[4:]
        sizes = (nodes, heads, width, triton.next_power_of_2(nodes))
        flags = {
            "CAUSAL": source_length is not None,
            "DROPOUT": dropout > 0,
            # float32 means float32: tensor cores would round factors to 10 bits
            "PRECISION": "ieee" if projected.dtype == torch.float32 else "tf32",
            # a matrix product on tensor cores needs 16 numbers
            "BD": max(16, triton.next_power_of_2(width)),
        }
        return sizes, flags

    @staticmethod
    def forward(ctx, projected, node_mask, source_length, dropout):
        batch, nodes, _, _, heads, width = projected.shape
        output = projected.new_empty(batch, nodes, nodes, heads, width)
        lse = torch.empty(batch, nodes, nodes, heads, dtype=torch.float32, device=projected.device)
        mask = lengths = lse  # unused where all nodes are real
        if node_mask is not None:
            mask = node_mask.to(torch.int8).contiguous()
            positions = torch.arange(1, nodes + 1, dtype=torch.int32, device=mask.device)
            lengths = (positions * mask).amax(1).to(torch.int32)
        # the seed is on the device: a Python number would be the same in every run of a captured or compiled step
        seed = lse
        if dropout:
            seed = torch.randint(2**31 - batch * heads, (1,), dtype=torch.int32, device=projected.device)
        sizes, flags = TritonTriangularAttention.options(projected, source_length, dropout)
        scalars = (1 / math.sqrt(width), source_length or 0, seed, dropout)

        def grid(tile):
            return batch * heads, triton.cdiv(nodes, tile["BI"]), triton.cdiv(nodes, tile["BJ"])

        with on(projected.device):
            forward_kernel[grid](
                projected, mask, lengths, output, lse, *scalars, *sizes, MASKED=node_mask is not None, **flags
            )
        ctx.save_for_backward(projected, output, lse, None if node_mask is None else mask, seed if dropout else None)
        ctx.source_length, ctx.dropout = source_length, dropout
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx, d_output):
        projected, output, lse, mask, seed = ctx.saved_tensors
        batch, nodes, _, _, heads, width = projected.shape
        d_output = d_output.contiguous()
        means = (d_output.float() * output.float()).sum(-1)  # (B, N, N, H)
        gradient = torch.empty_like(projected)
        sizes, flags = TritonTriangularAttention.options(projected, ctx.source_length, ctx.dropout)
        scalars = (1 / math.sqrt(width), ctx.source_length or 0, lse if seed is None else seed, ctx.dropout)
        for kernel, tile_size in ((first_kernel, "BI"), (last_kernel, "BJ")):

            def grid(tile, tile_size=tile_size):
                return batch * heads * nodes, triton.cdiv(nodes, tile[tile_size])

            with on(projected.device):
                kernel[grid](
                    projected, lse if mask is None else mask, d_output, lse, means, gradient, *scalars, *sizes,
                    MASKED=mask is not None, **flags,
                )  # fmt: skip
        return gradient, None, None, None


def triton_triangular_attention(
    projected: torch.Tensor,
    node_mask: torch.Tensor | None = None,
    source_length: int | None = None,
    dropout: float = 0.0,
) -> torch.Tensor:
    """
    As [`plain_triangular_attention`] without ablations, with all gradients: output (B, N, N, H, D).

    Args:
        projected: query, key, left and right in one tensor (B, N, N, 4, H, D).

    Raises:
        RuntimeError: where the kernels cannot run.
    """
    if not can_run_triton(projected) and not INTERPRETED:
        raise RuntimeError(
            "triangular_implementation='triton' needs Triton, a CUDA device, 16 or 32 bit numbers and heads of at most "
            f"{WIDEST} channels; use 'auto'"
        )
    return TritonTriangularAttention.apply(projected.contiguous(), node_mask, source_length, dropout)
