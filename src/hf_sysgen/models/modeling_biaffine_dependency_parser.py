"""Dependency parsers with a biaffine head over a Transformer or a bidirectional LSTM."""

# B batch, N words, the root first, E model width, L labels

import torch
from transformers.modeling_outputs import BaseModelOutput, TokenClassifierOutput
from transformers.utils import can_return_tuple

from .base import SysgenPreTrainedModel
from .biaffine import Biaffine
from .configuration_biaffine_dependency_parser import BiaffineDependencyParserConfig
from .dependency_scores import head_losses
from .readout import mean_cross_entropy
from .sentence_encoder import BiLstmEncoder, SentenceTransformer


class BiaffinePreTrainedModel(SysgenPreTrainedModel):
    """Capabilities."""

    config_class = BiaffineDependencyParserConfig
    _no_split_modules = ["SentenceLayer", "BiLstmLayer"]  # noqa: RUF012
    _supports_sdpa = True


class BiaffineDependencyParserModel(BiaffinePreTrainedModel):
    """The encoder without a head."""

    _keys_to_ignore_on_load_unexpected = [r"^(arcs|labels)\."]  # noqa: RUF012

    def __init__(self, config):
        super().__init__(config)
        self.encoder = (BiLstmEncoder if config.encoder == "bilstm" else SentenceTransformer)(config)
        self.post_init()

    def get_input_embeddings(self) -> torch.nn.Module:
        return self.encoder.embed_tokens

    def set_input_embeddings(self, value: torch.nn.Module):
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
            labels: (B, N, N) by dependent and head, -100 where nothing is to be learned, as at padding. Under
                `objective="heads"` only labels above 0 are looked at, one for each word that has a head.

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


__all__ = ["BiaffineDependencyParserModel", "BiaffineForDependencyParsing"]
