"""The Edge Transformer as a dependency parser (Bergen et al. 2021, section 4.2)."""

# B batch, N words

import torch
from transformers.modeling_outputs import TokenClassifierOutput
from transformers.utils import can_return_tuple

from .configuration_edge_dependency_parser import EdgeDependencyParserConfig
from .edge_encoder import EdgeEncoder, EdgePreTrainedModel
from .readout import linear_readout, mean_cross_entropy


class EdgeDependencyParserModel(EdgeEncoder):
    """The encoder without a head."""

    config_class = EdgeDependencyParserConfig


class EdgeTransformerForDependencyParsing(EdgePreTrainedModel):
    """
    Labelled arcs between tokens (CFQ): edge (dependent, head) carries one of `config.num_labels` labels, of which 0
    means "no arc". A sentence's root is a token of its own, which the caller puts first.

    The released code has no dependency parser. The direction of edges and the score of an arc
    ([`dependency_scores.arc_scores`]), which the paper leaves open, are ours.
    """

    config_class = EdgeDependencyParserConfig

    def __init__(self, config):
        super().__init__(config)
        self.model = EdgeDependencyParserModel(config)
        self.label_head = linear_readout(config, config.num_labels)
        self.post_init()

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
        Arguments as in [`EdgeEncoder`], and:

        Args:
            labels: (B, N, N) by dependent and head, -100 where nothing is to be learned, as at padding.

        Returns:
            logits (B, N, N, num_labels) and, with labels, loss: mean cross-entropy in nats over pairs.
        """
        outputs = self.model(input_ids, attention_mask, inputs_embeds=inputs_embeds, **kwargs)
        logits = self.label_head(outputs.last_hidden_state)
        loss = None if labels is None else mean_cross_entropy(logits, labels)
        return TokenClassifierOutput(loss, logits, outputs.hidden_states, outputs.attentions)


__all__ = ["EdgeDependencyParserModel", "EdgeTransformerForDependencyParsing"]
