"""Semantic graphs over the words of a sentence (COGS): what is predicted of each word, whatever the encoder."""

# B batch, N words, E width of a word's state

from dataclasses import dataclass

import torch
from torch import nn
from transformers.utils import ModelOutput, can_return_tuple

from .readout import linear_readout, mean_cross_entropy


@dataclass
class GraphParserOutput(ModelOutput):
    """`loss`, and logits: of four label sets for every token (B, N, labels), and of every token's parent (B, N, N)."""

    loss: torch.FloatTensor | None = None
    role_logits: torch.FloatTensor | None = None
    category_logits: torch.FloatTensor | None = None
    noun_type_logits: torch.FloatTensor | None = None
    verb_logits: torch.FloatTensor | None = None
    parent_logits: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


class WordGraphHeads:
    """
    Mixin of a model over `self.model`: role, category, noun type and verb of every word, each from one linear layer on
    its state, and its parent, which is the word itself if it has none.
    """

    model: nn.Module

    def add_heads(self, config):
        """The layers of the four label sets, with PyTorch's default start."""
        self.role_head = linear_readout(config, config.num_roles)
        self.category_head = linear_readout(config, config.num_categories)
        self.noun_type_head = linear_readout(config, config.num_noun_types)
        self.verb_head = linear_readout(config, config.num_verbs)

    def read(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What `self.model` returned -> words (B, N, E), and scores (B, N, N) of each word's parents."""
        raise NotImplementedError

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        role_labels: torch.LongTensor | None = None,
        category_labels: torch.LongTensor | None = None,
        noun_type_labels: torch.LongTensor | None = None,
        verb_labels: torch.LongTensor | None = None,
        parent_labels: torch.LongTensor | None = None,
        **kwargs,
    ) -> GraphParserOutput:
        """
        Args:
            input_ids: tokens (B, N); attention_mask (B, N), 1 = real; or inputs_embeds, their embeddings (B, N, E).
            role_labels, category_labels, noun_type_labels, verb_labels: (B, N), -100 at padding.
            parent_labels: (B, N), position of the parent, the token's own where it has none, -100 at padding.

        Where only some of the label sets are given, transformers' Trainer evaluates a loss only under
        `TrainingArguments(label_names=...)`, their names.

        Returns:
            logits, where a padded parent has the lowest number there is; with labels, loss: the sum over the given
            label sets of the mean cross-entropy in nats.
        """
        outputs = self.model(input_ids, attention_mask, inputs_embeds=inputs_embeds, **kwargs)
        words, parents = self.read(outputs.last_hidden_state)
        if attention_mask is not None:
            parents = parents.masked_fill(~attention_mask.bool()[:, None], torch.finfo(parents.dtype).min)
        logits = {
            "role_logits": self.role_head(words),
            "category_logits": self.category_head(words),
            "noun_type_logits": self.noun_type_head(words),
            "verb_logits": self.verb_head(words),
            "parent_logits": parents,
        }
        labels = (role_labels, category_labels, noun_type_labels, verb_labels, parent_labels)
        losses = [
            mean_cross_entropy(scores, right)
            for scores, right in zip(logits.values(), labels, strict=True)
            if right is not None
        ]
        return GraphParserOutput(
            loss=sum(losses) if losses else None,
            **logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )
