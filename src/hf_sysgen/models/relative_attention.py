"""Self-attention that scores signed distances (Dai et al. 2019; Csordas et al. 2021, Appendix C)."""

# B batch, Q query length, K key length, H heads, D head width, E = H * D model width, R number of distances

import math

import torch
from torch import nn
from transformers import initialization as init

from .attention import SelfAttention
from .linear import uniform_linear
from .positions import sinusoids


def align_distances(scores: torch.Tensor, key_length: int) -> torch.Tensor:
    """
    From scores by distance to scores by key: `out[..., i, j] = scores[..., i, j + Q - 1 - i]`.

    Dropping the first Q - 1 numbers of each flattened (Q, R) block and folding it again into rows one number shorter
    moves row i left by Q - 1 - i, without copying.

    Args:
        scores: shape (B, H, Q, R), column r for key position minus query position = r - (Q - 1) + constant. R must be
            at least key_length + Q - 1, or key_length + 1 where keys after the query are masked anyway (their
            numbers then belong to other rows).
        key_length: K.

    Returns:
        shape (B, H, Q, K), a view where nothing is exported.
    """
    batch, heads, queries, distances = scores.shape
    if torch.compiler.is_exporting():
        # an exported program must work for any number of queries, and the rows of a single one cannot be made shorter
        columns = torch.arange(key_length, device=scores.device) + (queries - 1)
        columns = columns - torch.arange(queries, device=scores.device)[:, None]
        return scores.gather(3, columns.clamp(max=distances - 1).expand(batch, heads, -1, -1))
    if queries == 1:
        return scores[..., :key_length]
    row = distances - 1
    flat = scores.flatten(2)[..., queries - 1 : queries - 1 + queries * row]
    return flat.view(batch, heads, queries, row)[..., :key_length]


class RelativeSelfAttention(SelfAttention):
    """
    Identical to [`SelfAttention`] except:

    - the score of query i and key j is `((q_i + u) k_j + (q_i + v) r_{j-i}) / sqrt(D)` with `r = W S(j - i)`, W one
      matrix per layer, S sinusoids of the signed distance, u and v learned per head from 0
      (multi_head_relative_pos_attention.py:52-98; the paper writes the distance as i - j).
    - projections start at U(+-1/sqrt(E)), as the authors' do (their Glorot reset is never called).
    """

    def __init__(self, config, is_causal: bool):
        super().__init__(config, is_causal)
        # there is no bias: it would add the same to all scores of a query
        self.pos_proj = uniform_linear(self.width, self.width, self.weight_bound(), bias=False)
        self.u = nn.Parameter(torch.zeros(self.num_heads, self.head_dim))
        self.v = nn.Parameter(torch.zeros(self.num_heads, self.head_dim))

    def weight_bound(self) -> float:
        return 1 / math.sqrt(self.width)

    def reset_weights(self):
        init.zeros_(self.u)
        init.zeros_(self.v)

    def position_keys(
        self, hidden_states: torch.Tensor, key_length: int, first_position: int | torch.Tensor
    ) -> torch.Tensor:
        """
        Projected sinusoids r of every distance between the queries and the keys.

        Returns:
            shape (H, D, R): R = K + 1 for causal attention of a whole sequence, else K + Q - 1.
        """
        queries = hidden_states.shape[1]
        # a causal layer needs half of the distances, plus one so that rows can be aligned
        whole_causal = self.is_causal and queries == key_length
        distances = key_length + 1 if whole_causal else key_length + queries - 1
        positions = torch.arange(distances, device=hidden_states.device) - (queries - 1) - first_position
        table = sinusoids(positions, self.width).to(hidden_states.dtype)  # (R, E)
        return self.pos_proj(table).view(distances, self.num_heads, self.head_dim).permute(1, 2, 0)

    def position_bias(
        self, query: torch.Tensor, position_keys: torch.Tensor, key_length: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        batch, heads, queries, _ = query.shape
        # one product per head for the whole batch: broadcasting over B would copy the position keys B times
        by_head = ((query + self.v[:, None, :]) * self.scaling).transpose(0, 1).flatten(1, 2)  # (H, B * Q, D)
        scores = torch.bmm(by_head, position_keys).view(heads, batch, queries, -1).transpose(0, 1)  # (B, H, Q, R)
        return query + self.u[:, None, :], align_distances(scores, key_length)
