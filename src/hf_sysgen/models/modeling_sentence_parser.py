"""Parsers of one sentence, baselines of Bergen et al. 2021: semantic graphs, and dependencies with a biaffine head."""

# B batch, N words, the root first where there is one, E model width, D width before words meet, L labels of a pair

import math

import torch
from torch import nn
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutput, TokenClassifierOutput
from transformers.utils import can_return_tuple

from .base import SysgenPreTrainedModel
from .configuration_sentence_parser import BiaffineDependencyParserConfig, TransformerGraphParserConfig
from .dependency_scores import head_losses
from .dropout import dropout
from .linear import uniform_linear
from .readout import mean_cross_entropy
from .registry import register
from .sentence_encoder import BiLstmEncoder, ClippedDistances, SentenceTransformer
from .word_graph import WordGraphHeads


@register
class TransformerGraphParserModel(SentenceTransformer):
    """The encoder without a head."""

    config_class = TransformerGraphParserConfig
    _keys_to_ignore_on_load_unexpected = [r"^\w+_(head|query|key|distances)\."]  # noqa: RUF012


@register
class TransformerForGraphParsing(WordGraphHeads, SysgenPreTrainedModel):
    """
    Semantic graphs over tokens (COGS): role, category, noun type and verb from a token's state; its parent has the
    largest weight of one attention head, which has distances of its own ("attention decoder").
    """

    config_class = TransformerGraphParserConfig
    _no_split_modules = ["SentenceLayer"]  # noqa: RUF012
    _supports_sdpa = True

    def __init__(self, config):
        super().__init__(config)
        self.model = TransformerGraphParserModel(config)
        self.add_heads(config)
        width = config.hidden_size
        self.parent_query = uniform_linear(width, width, math.sqrt(3 / width), zero_bias=True)
        self.parent_key = uniform_linear(width, width, math.sqrt(3 / width), zero_bias=True)
        is_relative = config.position_scheme == "clipped_relative"
        self.parent_distances = ClippedDistances(config.max_relative_distance, width) if is_relative else None
        self.post_init()

    def read(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        query, key = self.parent_query(states), self.parent_key(states)  # (B, N, E)
        scores = query @ key.transpose(1, 2)  # (B, child, parent)
        if self.parent_distances is not None:
            scores = scores + self.parent_distances(query, key.shape[1])
        return states, scores / math.sqrt(states.shape[-1])


class Bilinear(nn.Module):
    """`[x; 1] U_l [y; 1]` for every x, y and l: a bilinear form, and with the ones two linear ones and a bias."""

    def __init__(self, width: int, outputs: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs, width + 1, width + 1))

    def reset_weights(self):
        # all pairs score alike at the start, as in Stanza's parser
        init.zeros_(self.weight)

    def forward(self, first: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        """(B, N, D) twice -> (B, N, N, L)."""
        first, last = (nn.functional.pad(states, (0, 1), value=1.0) for states in (first, last))
        return torch.einsum("bid,lde,bje->bijl", first, self.weight, last)


class Biaffine(nn.Module):
    """Words as dependents and as heads, each by a linear layer, ReLU and dropout, then [`Bilinear`]."""

    def __init__(self, config, outputs: int):
        super().__init__()
        width, size = config.hidden_size, config.biaffine_size
        self.dropout = config.biaffine_dropout
        self.dependent_proj = uniform_linear(width, size, 1 / math.sqrt(width))
        self.head_proj = uniform_linear(width, size, 1 / math.sqrt(width))
        self.bilinear = Bilinear(size, outputs)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """(B, N, E) -> (B, dependent, head, L)."""
        dependents, heads = (
            dropout(nn.functional.relu(proj(words)), self.dropout, self.training)
            for proj in (self.dependent_proj, self.head_proj)
        )
        return self.bilinear(dependents, heads)


class BiaffinePreTrainedModel(SysgenPreTrainedModel):
    """Shared class attributes."""

    config_class = BiaffineDependencyParserConfig
    _no_split_modules = ["SentenceLayer", "BiLstmLayer"]  # noqa: RUF012
    _supports_sdpa = True


@register
class BiaffineDependencyParserModel(BiaffinePreTrainedModel):
    """The encoder without a head."""

    _keys_to_ignore_on_load_unexpected = [r"^(arcs|labels)\."]  # noqa: RUF012

    def __init__(self, config):
        super().__init__(config)
        self.encoder = (BiLstmEncoder if config.encoder == "bilstm" else SentenceTransformer)(config)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.encoder.embed_tokens

    def set_input_embeddings(self, value: nn.Module):
        self.encoder.embed_tokens = value

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> BaseModelOutput:
        """ids or embeddings of (B, N), mask (B, N) with 1 = real -> last_hidden_state (B, N, E)."""
        return self.encoder(input_ids, attention_mask, inputs_embeds=inputs_embeds, **kwargs)


@register
class BiaffineForDependencyParsing(BiaffinePreTrainedModel):
    """
    Labelled arcs between tokens (CFQ): a pair of dependent and head carries one of `config.num_labels` labels, of which
    0 means "no arc". A sentence's root is a token of its own, which the caller puts first.

    Under `objective="heads"` the logit of a label is the arc's score plus the label's log-probability given the arc,
    and that of "no arc" is 0, so that [`dependency_scores.arc_scores`] gives the arc's score under either objective.
    Stanza's terms for the order and the distance of words are left out, and its LSTM is no highway network here.
    """

    def __init__(self, config):
        super().__init__(config)
        self.model = BiaffineDependencyParserModel(config)
        chooses_heads = config.objective == "heads"
        self.arcs = Biaffine(config, 1) if chooses_heads else None
        self.labels = Biaffine(config, config.num_labels - 1 if chooses_heads else config.num_labels)
        self.post_init()

    def pair_logits(self, words: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
        """(B, N, E), and which words are real (B, N) -> (B, N, N, L); heads that are padding or the word itself have
        the lowest score there is where words choose their heads."""
        logits = self.labels(words)
        if self.arcs is None:
            return logits
        arcs = self.arcs(words)  # (B, N, N, 1)
        barred = torch.eye(words.shape[1], dtype=torch.bool, device=words.device)[None]
        if attention_mask is not None:
            barred = barred | ~attention_mask.bool()[:, None]
        arcs = arcs.masked_fill(barred[..., None], torch.finfo(arcs.dtype).min)
        return torch.cat((torch.zeros_like(arcs), arcs + logits.log_softmax(-1)), dim=-1)

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.LongTensor | None = None,
        **kwargs,
    ) -> TokenClassifierOutput:
        """
        Args:
            input_ids: tokens (B, N); attention_mask (B, N), 1 = real; or inputs_embeds, their embeddings (B, N, E).
            labels: (B, N, N) by dependent and head, -100 where there is no loss, as at padding. Under
                `objective="heads"` only labels above 0 count, one for each word with a head.

        Returns:
            logits (B, N, N, num_labels) and, with labels, loss in nats: the mean cross-entropy over pairs, or under
            `objective="heads"` over words, of head and label.
        """
        outputs = self.model(input_ids, attention_mask, inputs_embeds=inputs_embeds, **kwargs)
        logits = self.pair_logits(outputs.last_hidden_state, attention_mask)
        loss = None
        if labels is not None and self.arcs is not None:
            loss = head_losses(logits, labels).sum() / (labels > 0).sum()
        elif labels is not None:
            loss = mean_cross_entropy(logits, labels)
        return TokenClassifierOutput(loss, logits, outputs.hidden_states, outputs.attentions)


__all__ = [
    "BiaffineDependencyParserModel",
    "BiaffineForDependencyParsing",
    "TransformerForGraphParsing",
    "TransformerGraphParserModel",
]
