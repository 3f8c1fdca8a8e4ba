"""The role-filler Transformer of Chakravarthy et al. 2022."""

# B batch, S source length, T target length, E width of one stream, V words, R roles

from dataclasses import dataclass

import torch
from torch import nn
from transformers.cache_utils import Cache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput
from transformers.utils import can_return_tuple, logging

from .base import accept_past_key_values
from .configuration_role_filler_transformer import RoleFillerTransformerConfig
from .registry import register
from .role_filler import RoleFillerModel
from .seq2seq import Seq2SeqLM, other_outputs, table_head, token_loss

logger = logging.get_logger(__name__)


@dataclass
class RoleFillerLMOutput(Seq2SeqLMOutput):
    """
    [`Seq2SeqLMOutput`], and `role_logits` (B, T, R); `loss` is the sum of `filler_loss` and, where the config says so,
    `role_loss`.
    """

    role_logits: torch.FloatTensor | None = None
    filler_loss: torch.FloatTensor | None = None
    role_loss: torch.FloatTensor | None = None


@register
class RoleFillerTransformerModel(RoleFillerModel):
    """Two streams: queries and keys come from roles, values from fillers. Without a head; states are (B, L, 2E)."""

    config_class = RoleFillerTransformerConfig


@register
class RoleFillerTransformerForConditionalGeneration(Seq2SeqLM):
    """
    Identical to [`Seq2SeqLM`] except:

    - words are read from the filler stream and roles from the role stream, each with the stream's own table. Where
      the config swaps the streams and has no role loss, words are read from the role stream, with the filler's table.
    - the loss of the roles is added. Its labels are the roles of the labels.

    `generate` takes `role_ids` of the source, by default those of `config.source_role_map`; roles of generated words
    are those of `config.role_map`.
    """

    config_class = RoleFillerTransformerConfig
    model_class = RoleFillerTransformerModel

    def __init__(self, config):
        if config.swap_streams:
            self._tied_weights_keys = {"lm_head.weight": "model.decoder.embed_roles.weight"}
        super().__init__(config)

    def make_head(self, config) -> nn.Module:
        return table_head(config, bias=None)

    def role_scores(self, roles: torch.Tensor) -> torch.Tensor:
        """Logits (B, T, R) of states of the role stream (B, T, E)."""
        table = self.model.decoder.embed_tokens if self.config.swap_streams else self.model.decoder.embed_roles
        weight = table.weight
        if weight.is_meta:
            # an offloaded weight is there only while the layer is called
            weight = table(torch.arange(table.num_embeddings, device=roles.device))
        return nn.functional.linear(roles, weight.to(roles.device))

    @accept_past_key_values
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        role_ids: torch.LongTensor | None = None,
        decoder_role_ids: torch.LongTensor | None = None,
        encoder_outputs: BaseModelOutput | tuple | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        labels: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **kwargs,
    ) -> RoleFillerLMOutput:
        """
        Arguments as in [`Seq2SeqLM`], and:

        Args:
            role_ids: roles of the source (B, S); by default those of `config.source_role_map`, or the words themselves
                where there is no `config.role_map` either.
            decoder_role_ids: roles of the decoder's input (B, T); by default those of `config.role_map`.
            role_labels: a keyword: roles of the labels (B, T), -100 where there is no loss; by default those of
                `config.role_map`. It is not in the signature, because transformers' Trainer requires every label in
                the signature in every batch. If a data set has the column, give the Trainer
                `TrainingArguments(label_names=["labels", "role_labels"])`, or it drops the column.

        Returns:
            logits (B, T, V), role_logits (B, T, R) and, with labels, the losses: each a mean over labels in nats.

        Raises:
            ValueError: labels with `decoder_role_ids` but without `role_labels`, where the config has a role loss and
                no `role_map`.
        """
        role_labels = kwargs.pop("role_labels", None)
        needs_roles = labels is not None and self.config.role_loss and self.config.role_map is None
        if needs_roles and decoder_role_ids is not None and role_labels is None:
            raise ValueError(
                "decoder_role_ids without role_labels: the role loss needs the roles of the labels; give role_labels "
                '(the Trainer keeps them under label_names=["labels", "role_labels"]), or set role_loss=False'
            )
        outputs = self.states(
            labels,
            use_cache,
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            role_ids=role_ids,
            decoder_role_ids=decoder_role_ids,
            encoder_outputs=encoder_outputs,
            cache=cache,
            inputs_embeds=inputs_embeds,
            decoder_inputs_embeds=decoder_inputs_embeds,
            **kwargs,
        )
        roles, fillers = outputs.last_hidden_state.chunk(2, dim=-1)
        reads_roles = self.config.swap_streams and not self.config.role_loss
        logits = all_logits = self.lm_head(roles if reads_roles else fillers)
        if self.config.decoder_rows > self.config.vocab_size:
            logits = all_logits[..., : self.config.vocab_size]
        role_logits = self.role_scores(roles)
        loss = filler_loss = role_loss = None
        if labels is not None:
            loss = filler_loss = token_loss(all_logits, labels, num_items_in_batch)
            if self.config.role_loss:
                if role_labels is None:
                    real = labels != -100
                    role_labels = self.model.decoder.default_roles(labels.where(real, 0)).where(real, -100)
                role_loss = token_loss(role_logits, role_labels, num_items_in_batch)
                loss = filler_loss + role_loss
        elif self.training and self.config.role_loss and num_items_in_batch is not None:
            # a Trainer with label smoothing takes the labels away, and then smooths `logits` alone
            logger.warning_once("role_loss=True has no effect without labels: label smoothing leaves it out")
        return RoleFillerLMOutput(
            loss=loss,
            logits=logits,
            role_logits=role_logits,
            filler_loss=filler_loss,
            role_loss=role_loss,
            **other_outputs(outputs),
        )


__all__ = ["RoleFillerTransformerForConditionalGeneration", "RoleFillerTransformerModel"]
