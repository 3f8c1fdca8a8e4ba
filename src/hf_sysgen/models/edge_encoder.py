"""The Edge Transformer's encoder: a state for every ordered pair of nodes, from a graph or a sequence."""

# B batch, N nodes, E edge width

import torch
from torch import nn
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .base import SysgenPreTrainedModel
from .configuration_edge_transformer import EdgeTransformerConfig
from .edge_layers import BosVector, EdgeLayer, EdgeRounds, RelationTable, WordEmbedding, add_to_loops
from .positions import TokenEmbedding
from .triangular_attention import TriangularAttention


class EdgePreTrainedModel(SysgenPreTrainedModel):
    """Shared class attributes."""

    config_class = EdgeTransformerConfig
    _no_split_modules = ["EdgeLayer"]  # noqa: RUF012

    def is_requested(self, output: str, value: bool | None) -> bool:
        """Whether a call asks for `"attentions"` or `"hidden_states"`: its argument, or else the config."""
        return bool(getattr(self.config, f"output_{output}") if value is None else value)


def length_buckets(node_mask: torch.Tensor, buckets: int) -> list[tuple[torch.Tensor, int]]:
    """
    Rows of a batch in at most `buckets` parts of similar length: (row numbers, nodes to keep) of each.

    Rows without a real node keep one.
    """
    positions = torch.arange(1, node_mask.shape[1] + 1, device=node_mask.device)
    lengths = (positions * node_mask.bool()).amax(dim=1).clamp(min=1)
    order = lengths.argsort(stable=True)
    parts = order.tensor_split(min(buckets, len(order)))
    return [(rows, length) for rows, length in zip(parts, [int(lengths[r[-1]]) for r in parts], strict=True)]


class EdgeEncoder(EdgePreTrainedModel):
    """
    State before the first round, then the rounds. `config.length_buckets`, which is not in the paper, says in how many
    parts of similar length a batch is run, and changes no number of a real edge.
    """

    _keys_to_ignore_on_load_unexpected = [r"^(decoder|lm_head|classifier|\w+_head)\."]  # noqa: RUF012
    _can_record_outputs = {  # noqa: RUF012
        "hidden_states": EdgeLayer,
        "attentions": OutputRecorder(TriangularAttention, index=1, layer_name="attention"),
    }

    def __init__(self, config):
        super().__init__(config)
        if config.input_form == "graph":
            self.main_input_name = "edge_ids"
            self.embed_edges = TokenEmbedding(config.edge_vocab_size, config.hidden_size, "glorot_uniform")
        else:
            self.embed_tokens = WordEmbedding(config)
            self.relations = RelationTable(config)
            self.bos = BosVector(config) if config.add_bos_vector else None
        self.rounds = EdgeRounds(config, config.num_hidden_layers)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embed_edges if self.config.input_form == "graph" else self.embed_tokens

    def set_input_embeddings(self, value: nn.Module):
        setattr(self, "embed_edges" if self.config.input_form == "graph" else "embed_tokens", value)

    def first_state(
        self,
        input_ids: torch.Tensor | None,
        edge_ids: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
        mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The state (B, N, N, E) before the first round; arguments as in `forward`."""
        if self.config.input_form == "graph":
            if (edge_ids is None) == (inputs_embeds is None) or input_ids is not None:
                raise ValueError("give exactly one of edge_ids and inputs_embeds: config.input_form is 'graph'")
            if edge_ids is not None and edge_ids.dim() != 3:
                raise ValueError(f"edge_ids must be labels (B, N, N) of edges, not of shape {tuple(edge_ids.shape)}")
            return self.embed_edges(edge_ids) if inputs_embeds is None else inputs_embeds
        if (input_ids is None) == (inputs_embeds is None) or edge_ids is not None:
            raise ValueError("give exactly one of input_ids and inputs_embeds: config.input_form is 'sequence'")
        embeddings = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        if self.bos is not None:
            embeddings = self.bos(embeddings, mask)
        positions = torch.arange(embeddings.shape[1], device=embeddings.device)
        return add_to_loops(self.relations.between(positions, positions), embeddings)

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        edge_ids: torch.LongTensor | None = None,
        node_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        **kwargs,
    ) -> BaseModelOutput:
        """
        Args:
            input_ids: tokens (B, N) of sequences.
            edge_ids: labels (B, N, N) of the edges of graphs.
            attention_mask, node_mask: shape (B, N), 1 = real; two names of one mask, the usual one of either input.
            inputs_embeds: instead of ids, token embeddings (B, N, E) or edge states (B, N, N, E).

        Returns:
            last_hidden_state (B, N, N, E), in which edges from or to padding mean nothing; as attentions, with
            `triangular_implementation` `"auto"` or `"plain"`, weights (B, H, N, N, N) of triangles i -> l -> j.

        Raises:
            ValueError: both or none of ids and embeddings, both masks, or labels of another shape.
        """
        if attention_mask is not None and node_mask is not None:
            raise ValueError("give one of attention_mask and node_mask: they are two names of one mask")
        mask = attention_mask if node_mask is None else node_mask
        mask = None if mask is None else mask.bool()
        state = self.first_state(input_ids, edge_ids, inputs_embeds, mask)
        with_weights = self.is_requested("attentions", output_attentions)
        recording = with_weights or self.is_requested("hidden_states", output_hidden_states)
        if self.config.length_buckets == 1 or mask is None or recording or torch.compiler.is_compiling():
            return BaseModelOutput(last_hidden_state=self.rounds(state, mask, with_weights=with_weights))
        whole = torch.zeros_like(state)
        for rows, length in length_buckets(mask, self.config.length_buckets):
            part = self.rounds(state[rows, :length, :length], mask[rows, :length])
            padding = (0, 0, 0, state.shape[1] - length, 0, state.shape[1] - length)
            whole = whole.index_copy(0, rows, nn.functional.pad(part, padding).to(whole.dtype))
        return BaseModelOutput(last_hidden_state=whole)
