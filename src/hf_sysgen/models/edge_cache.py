"""The exact cache of the Edge Transformer's decoder."""

# B batch, N nodes so far, C nodes there is room for, H heads, D head width

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

# the cache grows by so many nodes at once, so that it is copied rarely
GROWTH = 16


class EdgeCacheSlot(CacheLayerMixin):
    """
    The projections of all edges in one round.

    The state of edge (i, j) depends on no node after max(i, j) and the source, so a new node changes none of the
    states that are there: it adds the edges from it and to it, 2N - 1 of them.
    """

    is_croppable = True

    def __init__(self):
        super().__init__()
        self.length = 0
        self.buffers: list[torch.Tensor | None] = []  # query, key, left, right: (B, C, C, H, D)

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        raise NotImplementedError("use fill")

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args, **kwargs):
        raise NotImplementedError("use fill, then extend")

    def grow(self, nodes: int):
        """Makes room for `nodes` nodes."""
        for index, buffer in enumerate(self.buffers):
            if buffer is not None and buffer.shape[1] < nodes:
                room = nodes + GROWTH
                larger = buffer.new_zeros(buffer.shape[0], room, room, *buffer.shape[3:])
                larger[:, : self.length, : self.length] = buffer[:, : self.length, : self.length]
                self.buffers[index] = larger

    def fill(self, projected: tuple[torch.Tensor | None, ...]):
        """Takes the projections (B, N, N, H, D) of all edges."""
        self.length = projected[0].shape[1]
        self.buffers = list(projected)
        self.is_initialized = True

    def extend(self, projected: tuple[torch.Tensor | None, ...]) -> tuple[torch.Tensor | None, ...]:
        """Adds a node by the projections (B, 2N - 1, H, D) of the edges from it, then to it, and returns all."""
        last = self.length
        self.grow(last + 1)
        views = []
        for buffer, part in zip(self.buffers, projected, strict=True):
            if buffer is not None and part is not None:
                buffer[:, last, : last + 1] = part[:, : last + 1]
                buffer[:, :last, last] = part[:, last + 1 :]
                buffer = buffer[:, : last + 1, : last + 1]
            views.append(buffer)
        self.length = last + 1
        return tuple(views)

    def get_seq_length(self) -> int:
        return self.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def get_max_length(self) -> int:
        return -1

    def crop(self, tokens_to_remove: int):
        """Forgets the last `-tokens_to_remove` nodes, a number that is not positive, as transformers' caches do."""
        if tokens_to_remove > 0:
            raise ValueError(f"crop({tokens_to_remove}): give minus the number of nodes to forget")
        self.length = max(self.length + tokens_to_remove, 0)

    def reset(self):
        self.length = 0

    def index(self, rows: torch.Tensor | slice):
        self.buffers = [None if buffer is None else buffer[rows] for buffer in self.buffers]

    def reorder_cache(self, beam_idx: torch.LongTensor):
        self.index(beam_idx)

    def batch_repeat_interleave(self, repeats: int):
        self.buffers = [None if b is None else b.repeat_interleave(repeats, dim=0) for b in self.buffers]

    def batch_select_indices(self, indices: torch.Tensor | slice):
        self.index(indices)


class EdgeCache(Cache):
    """A slot for every round of the decoder. Lengths count target nodes; the source's come before them."""

    def __init__(self, rounds: int):
        super().__init__(layers=[EdgeCacheSlot() for _ in range(rounds)])
        self.source_length = 0

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return max(self.layers[layer_idx].length - self.source_length, 0)
