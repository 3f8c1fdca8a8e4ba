"""Triangular attention in blocks that stay in a cache: no tensor holds a number for every triangle of many nodes."""

# G problems (an example's head each), B batch, N nodes, H heads, D head width; i -> l -> j a triangle's nodes, I of
# the first ones at a time

import math
import re
from collections.abc import Iterator, Sequence

import torch

# numbers in a block of three-way products, and of scores: both should stay in a processor's last cache; a GPU wants
# few large kernels instead. With the plain version an update takes 1.27 (CLUTRR) and 1.98 (COGS) times as long
PRODUCTS = {"cpu": 1 << 19, "cuda": 1 << 26}
SCORES = {"cpu": 1 << 20, "cuda": 1 << 26}


class Workspace:
    """Buffers that every chunk reuses: allocating new memory takes longer than the computation."""

    def __init__(self, dtype: torch.dtype, device: torch.device):
        self.dtype, self.device = dtype, device
        self.memory: dict[str, torch.Tensor] = {}

    def take(self, name: str, *shape: int) -> torch.Tensor:
        """Uninitialized numbers."""
        count = math.prod(shape)
        if name not in self.memory or len(self.memory[name]) < count:
            self.memory[name] = torch.empty(count, dtype=self.dtype, device=self.device)
        return self.memory[name][:count].view(shape)

    def gather(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """A contiguous copy."""
        return self.take(name, *tensor.shape).copy_(tensor)

    def working(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor in the workspace's type; copied only if it has another one."""
        return tensor if tensor.dtype == self.dtype else self.gather(name, tensor)

    def total(self, name: str, summand: torch.Tensor, first: slice, nodes: int) -> torch.Tensor:
        """The summand, added to those of earlier first nodes of these examples, in the workspace's type."""
        if first.stop - first.start == nodes:
            return summand
        total = self.take(name, *summand.shape)
        return total.copy_(summand) if first.start == 0 else total.add_(summand)


def blocks(tensors: Sequence[torch.Tensor], shared: torch.Tensor, nodes: int) -> Iterator[tuple[torch.Tensor, ...]]:
    """
    Tensors (b, I, ...) in pieces of at most so many nodes: of whole examples, or of some nodes of one example, but at
    least one. With every piece comes what its examples share, of (b, ...).
    """
    whole = tensors[0].shape[1]
    examples, some = (nodes // whole, whole) if nodes >= whole else (1, max(nodes, 1))
    for *groups, common in zip(*(tensor.split(examples) for tensor in (*tensors, shared)), strict=True):
        for piece in zip(*(group.split(some, 1) for group in groups), strict=True):
            yield *piece, common


def chunks(batch: int, nodes: int, heads: int, size: int) -> Iterator[tuple[slice, slice]]:
    """
    Slices of examples and of their first nodes: whole examples with at most `size` scores. An example with more is cut
    into some first nodes, at least one, with twice as many, because every slice prepares keys and right values again.
    """
    scores = heads * nodes**2
    examples, first = max(size // (scores * nodes), 1), min(max(2 * size // scores, 1), nodes)
    for start in range(0, batch, examples):
        for i in range(0, nodes, first):
            yield slice(start, min(start + examples, batch)), slice(i, min(i + first, nodes))


def factors(
    workspace: Workspace, part: torch.Tensor, first: slice, alpha: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """alpha (b, H, l, I, j) as (b, I, l, j, H, 1), and of part (b, N, N, 4, H, D) left (b, I, l, H, D) and right."""
    left, right = workspace.working("left", part[:, first, :, 2]), workspace.working("right", part[:, :, :, 3])
    return workspace.gather("alpha", alpha.permute(0, 3, 2, 4, 1))[..., None], left, right


def by_middle(
    alpha: torch.Tensor, left: torch.Tensor, right: torch.Tensor
) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """The `factors` of every l, which make products (b, I, j, H, D)."""
    return zip(alpha.unbind(2), left.unsqueeze(2).unbind(3), right.unsqueeze(1).unbind(2), strict=True)


def add_up(workspace: Workspace, part: torch.Tensor, first: slice, alpha: torch.Tensor, size: int) -> torch.Tensor:
    """
    Sum alpha (b, H, l, I, j) times both values of part (b, N, N, 4, H, D) over l: (b, I, j, H, D). A block has at most
    `size` numbers, or one i if that has more.
    """
    batch, nodes, _, _, heads, width = part.shape
    alpha, left, right = factors(workspace, part, first, alpha)
    sums = workspace.take("sums", batch, left.shape[1], nodes, heads, width)
    for a, u, o, w in blocks((alpha, left, sums), right, size // (nodes * heads * width)):
        product = workspace.take("product", *o.shape)
        for middle, (a_l, u_l, w_l) in enumerate(by_middle(a, u, w)):
            torch.mul(u_l, w_l, out=product)
            if middle:
                o.addcmul_(product, a_l)
            else:
                torch.mul(product, a_l, out=o)
    return sums


def gradients_of(
    workspace: Workspace, part: torch.Tensor, first: slice, alpha: torch.Tensor, d_output: torch.Tensor, size: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """
    Gradients of left (b, I, l, H, D), of right (b, l, j, H, D) as far as these i go, and alpha dalpha (b, H, l, I, j).

    With s = alpha dO, those of right are left s summed over i. With t = s right, those of left are t summed over j, and
    alpha dalpha is left t summed over channels.

    Args:
        part: shape (b, N, N, 4, H, D).
        alpha, d_output: shape (b, H, l, I, j) and (b, I, j, H, D).
        size: maximum numbers in a block, but a block has at least one l.
    """
    batch, some, nodes, heads, width = d_output.shape
    alpha, left, right = factors(workspace, part, first, alpha)
    d_left = workspace.take("d_left", batch, some, nodes, heads, width)
    d_right = workspace.take("d_right", batch, nodes, nodes, heads, width)
    d_alpha = workspace.take("d_alpha", batch, nodes, some, nodes, heads)
    tensors = (alpha, left, right, d_output, d_left, d_right, d_alpha)
    rows = max(size // (some * nodes * heads * width), 1)
    for a, u, w, d_o, d_u, d_w, d_a in zip(*(tensor.split(rows) for tensor in tensors), strict=True):
        s, product = workspace.take("s", *d_o.shape), workspace.take("product", *d_o.shape)  # each (b, i, j, H, D)
        sums = zip(d_u.unbind(2), d_w.unbind(1), d_a.unbind(1), strict=True)  # for every l
        for (a_l, u_l, w_l), (d_u_l, d_w_l, d_a_l) in zip(by_middle(a, u, w), sums, strict=True):
            torch.mul(d_o, a_l, out=s)
            torch.sum(torch.mul(s, u_l, out=product), 1, out=d_w_l)
            torch.sum(s.mul_(w_l), 2, out=d_u_l)
            torch.sum(s.mul_(u_l), -1, out=d_a_l)
    return d_left, d_right, workspace.gather("d_scores", d_alpha.permute(0, 4, 1, 2, 3))


def plan(projected: torch.Tensor) -> tuple[list[tuple[slice, slice]], int]:
    """The `chunks`, and numbers in a block of three-way products."""
    batch, nodes, heads = (projected.shape[axis] for axis in (0, 1, 4))
    kind = "cpu" if projected.device.type == "cpu" else "cuda"
    return list(chunks(batch, nodes, heads, SCORES[kind])), PRODUCTS[kind]


def scores_of(
    workspace: Workspace, part: torch.Tensor, first: slice, node_mask: torch.Tensor | None, source_length: int | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scaled queries (G, I, D) and keys (G, j, D) of every l, and scores (b, H, l, I, j), of b examples."""
    nodes, heads, width = part.shape[1], *part.shape[4:]
    query = workspace.gather("query", part[:, first, :, 0].permute(0, 3, 2, 1, 4)).mul_(1 / math.sqrt(width))
    key = workspace.gather("key", part[:, :, :, 1].permute(0, 3, 1, 2, 4)).view(-1, nodes, width)
    some = query.shape[3]
    query = query.view(-1, some, width)
    scores = workspace.take("scores", len(query), some, nodes)
    torch.bmm(query, key.transpose(1, 2), out=scores)
    scores = scores.view(-1, heads, nodes, some, nodes)
    if node_mask is not None:
        scores.masked_fill_(~node_mask[:, None, :, None, None], -math.inf)
    if source_length is not None:
        for middle in range(source_length, nodes):
            scores[:, :, middle, : max(middle - first.start, 0), :middle] = -math.inf
    return query, key, scores


def drop_mask(workspace: Workspace, weights: torch.Tensor, dropout: float, seed: int) -> torch.Tensor:
    """0 with probability `dropout`, rounded to a multiple of 2^-16, else 1 / the probability of the rest."""
    generator = torch.Generator(weights.device).manual_seed(seed)
    dropped, count = min(round(dropout * 65536), 65535), weights.numel()
    draws = torch.empty((count + 3) // 4, dtype=torch.int64, device=weights.device)
    draws = draws.random_(-(2**63), None, generator=generator).view(torch.int16)[:count]
    kept = workspace.take("kept", *weights.shape).copy_((draws >= dropped - 32768).view(weights.shape))
    return kept.mul_(65536 / (65536 - dropped))


def empty_results(projected: torch.Tensor, *others) -> tuple[torch.Tensor, torch.Tensor]:
    """What `run_forward` returns, uninitialized."""
    batch, nodes, _, _, heads, width = projected.shape
    work = torch.promote_types(projected.dtype, torch.float32)
    output = projected.new_empty(batch, nodes, nodes, heads, width)
    return output, projected.new_empty(batch, heads, 1, nodes, nodes, dtype=work)


def run_forward(
    projected: torch.Tensor,
    node_mask: torch.Tensor | None,
    source_length: int | None,
    dropout: float,
    seed: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Output (B, N, N, H, D), and of every edge and head the logarithm of its sum of exponentials, (B, H, 1, N, N).

    Args:
        projected, node_mask, source_length, dropout: as in [`blocked_triangular_attention`].
        seed: with dropout, an integer from which its masks are drawn, in either pass.
    """
    output, log_sums = empty_results(projected)
    batch = projected.shape[0]
    workspace = Workspace(log_sums.dtype, projected.device)
    steps, size = plan(projected)
    with torch.autocast(projected.device.type, enabled=False):
        for some, first in steps:
            part, mask = projected[some], None if node_mask is None else node_mask[some]
            _, _, alpha = scores_of(workspace, part, first, mask, source_length)
            largest = alpha.amax(2, keepdim=True)
            largest.masked_fill_(largest == -math.inf, 0)
            sums = alpha.sub_(largest).exp_().sum(2, keepdim=True)
            sums.masked_fill_(sums == 0, 1)
            log_sums[some, :, :, first] = largest.add_(sums.log())
            alpha.div_(sums)
            if dropout:
                alpha.mul_(drop_mask(workspace, alpha, dropout, int(seed) + some.start + batch * first.start))
            output[some, first] = add_up(workspace, part, first, alpha, size)
    return output, log_sums


def run_backward(
    d_output: torch.Tensor,
    output: torch.Tensor,
    log_sums: torch.Tensor,
    projected: torch.Tensor,
    node_mask: torch.Tensor | None,
    source_length: int | None,
    dropout: float,
    seed: torch.Tensor | None,
) -> torch.Tensor:
    """The gradient of `projected`; arguments and results as of `run_forward`. Scores are computed again."""
    batch, nodes, _, _, heads, width = projected.shape
    workspace = Workspace(log_sums.dtype, projected.device)
    gradient = torch.empty_like(projected)
    steps, size = plan(projected)
    with torch.autocast(projected.device.type, enabled=False):
        for some, first in steps:
            part, target, mask = projected[some], gradient[some], None if node_mask is None else node_mask[some]
            query, key, alpha = scores_of(workspace, part, first, mask, source_length)
            alpha.sub_(log_sums[some, :, :, first]).exp_()
            kept = alpha
            if dropout:
                kept = drop_mask(workspace, alpha, dropout, int(seed) + some.start + batch * first.start).mul_(alpha)
            d_out = workspace.gather("d_out", d_output[some, first])
            d_left, d_right, d_scores = gradients_of(workspace, part, first, kept, d_out, size)
            means = (d_out * output[some, first]).sum(-1).permute(0, 3, 1, 2)[:, :, None]
            d_scores = d_scores.sub_(alpha.mul_(means)).view(-1, d_out.shape[1], nodes)
            d_query = torch.bmm(d_scores, key, out=workspace.take("d_query", *query.shape))
            d_key = torch.bmm(d_scores.transpose(1, 2), query, out=workspace.take("d_key", *key.shape))
            shape = (len(part), heads, nodes, -1, width)
            target[:, first, :, 0] = d_query.mul_(1 / math.sqrt(width)).view(shape).permute(0, 3, 2, 1, 4)
            target[:, first, :, 2] = d_left
            target[:, :, :, 1] = workspace.total("keys", d_key.view(shape).permute(0, 2, 3, 1, 4), first, nodes)
            target[:, :, :, 3] = workspace.total("rights", d_right, first, nodes)
    return gradient


def free_namespace(name: str) -> str:
    """
    A name for operators that no other copy of this file in the process has: `name`, or that with a number. Replaced
    operators would be gone for models that still call them.
    """
    number = 0
    while hasattr(getattr(torch.ops, found := f"{name}_{number}" if number else name), "forward"):
        number += 1
    return found


# Operators, which a compiler calls as they are, where it would unroll loops over blocks. They are named after the
# module, as a checkpoint may bring another copy of this file into the process.
NAMESPACE = free_namespace(re.sub(r"\W", "_", __name__, flags=re.ASCII))
forward_operator = torch.library.custom_op(f"{NAMESPACE}::forward", run_forward, mutates_args=())
backward_operator = torch.library.custom_op(f"{NAMESPACE}::backward", run_backward, mutates_args=())
forward_operator.register_fake(empty_results)
backward_operator.register_fake(lambda d_output, output, log_sums, projected, *others: torch.empty_like(projected))


def setup_context(ctx, inputs: tuple, output: tuple) -> None:
    """Keeps the tensors among the arguments, the output, and one number per edge and head."""
    projected, node_mask, ctx.source_length, ctx.dropout, seed = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*output, projected, node_mask, seed)


def backward(ctx, d_output: torch.Tensor, _) -> tuple[torch.Tensor | None, ...]:
    *tensors, seed = ctx.saved_tensors
    return backward_operator(d_output, *tensors, ctx.source_length, ctx.dropout, seed), None, None, None, None


forward_operator.register_autograd(backward, setup_context=setup_context)


def blocked_triangular_attention(
    projected: torch.Tensor,
    node_mask: torch.Tensor | None = None,
    source_length: int | None = None,
    dropout: float = 0.0,
) -> torch.Tensor:
    """
    As [`plain_triangular_attention`] without ablations, with all gradients: output (B, N, N, H, D). Scores are those of
    a few examples at a time, or of some first nodes of one.

    Args:
        projected: query, key, left and right in one tensor (B, N, N, 4, H, D).
    """
    if not projected.shape[1]:
        return projected[:, :, :, 0]
    seed = torch.randint(2**62, ()) if dropout else None
    return forward_operator(projected.contiguous(), node_mask, source_length, dropout, seed)[0]
