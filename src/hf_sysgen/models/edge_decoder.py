"""The Edge Transformer's decoder: source and target in one state (Bergen et al. 2021, section 3; cfq/model.py)."""

# B batch, S source length, T target length, N = S + T nodes, E edge width

import torch
from torch import nn
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .edge_cache import EdgeCache
from .edge_encoder import EdgePreTrainedModel
from .edge_layers import BosVector, EdgeLayer, EdgeRounds, RelationTable, add_to_loops, loops
from .triangular_attention import TriangularAttention


class EdgeDecoder(EdgePreTrainedModel):
    """
    Rounds over source and target together: nodes are the S source tokens, then the target's. Edges inside the source
    start as the encoder left them and are updated on. There is no cross-attention.
    """

    _can_record_outputs = {  # noqa: RUF012
        "hidden_states": EdgeLayer,
        "attentions": OutputRecorder(TriangularAttention, index=1, layer_name="attention"),
    }

    def __init__(self, config):
        super().__init__(config)
        self.relations = RelationTable(config, has_source=True)
        self.bos = BosVector(config) if config.add_bos_vector else None
        self.rounds = EdgeRounds(config, config.decoder_layers)
        self.gradient_checkpointing = False
        self.post_init()

    def first_state(self, embeddings: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        """Target embeddings (B, T, E) and the encoder's states (B, S, S, E) -> (B, N, N, E)."""
        source = memory.shape[1]
        if self.bos is not None:
            embeddings = self.bos(embeddings)
        positions = torch.arange(source + embeddings.shape[1], device=embeddings.device)
        # tokens of the source would be overwritten with its edges
        embeddings = nn.functional.pad(embeddings, (0, 0, source, 0))
        state = add_to_loops(self.relations.between(positions, positions, source), embeddings)
        state[:, :source, :source] = memory.to(state.dtype)
        return state

    def last_edges(self, embedding: torch.Tensor, source: int, last: int) -> torch.Tensor:
        """What `first_state` holds for the edges from node `last`, then to it: embedding (B, E) -> (B, 2N - 1, E)."""
        positions = torch.arange(last + 1, device=embedding.device)
        from_last = self.relations.between(positions[last:], positions, source)[0]  # (N, E)
        to_last = self.relations.between(positions[:last], positions[last:], source)[:, 0]
        edges = torch.cat((from_last, to_last)).to(embedding.dtype).expand(embedding.shape[0], -1, -1).clone()
        edges[:, last] += embedding
        return edges

    @merge_with_config_defaults
    @capture_outputs(tie_last_hidden_states=False)
    def forward(
        self,
        inputs_embeds: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        encoder_attention_mask: torch.Tensor | None = None,
        cache: EdgeCache | None = None,
        output_attentions: bool | None = None,
        **kwargs,
    ) -> BaseModelOutputWithPast:
        """
        Args:
            inputs_embeds: target embeddings (B, T, E); with a cache that holds a beginning, of the new tokens only.
            encoder_hidden_states: shape (B, S, S, E); its mask (B, S), 1 = real. Padding of the target needs none: no
                state sees what comes after it.

        Returns:
            last_hidden_state: edges of the target's tokens from which they are predicted, (B, T, E). hidden_states
            that are asked for are those of all edges, (B, N, N, E), or of the new ones: before the first round and
            after each. attentions as of [`EdgeEncoder`], but none of edges after a cached beginning.
        """
        source, new = encoder_hidden_states.shape[1], inputs_embeds.shape[1]
        past = 0 if cache is None else cache.get_seq_length()
        mask = None
        if encoder_attention_mask is not None:
            mask = nn.functional.pad(encoder_attention_mask.bool(), (0, past + new), value=True)
        loop = self.config.readout == "i_to_i"
        if not past:
            state = self.first_state(inputs_embeds, encoder_hidden_states)
            if cache is not None:
                cache.source_length = source
            with_weights = self.is_requested("attentions", output_attentions)
            state = self.rounds(state, mask, source, cache, with_weights)
            read = loops(state)[:, source:] if loop else state[:, source, source:]
            return BaseModelOutputWithPast(last_hidden_state=read, cache=cache)
        read = []
        for step in range(new):
            last = source + past + step
            edges = self.last_edges(inputs_embeds[:, step], source, last)
            edges = self.rounds(edges, None if mask is None else mask[:, : last + 1], None, cache)
            # the edges of the last node are first those to nodes 0 ... last, then those from nodes 0 ...
            read.append(edges[:, last if loop else last + 1 + source])
        return BaseModelOutputWithPast(last_hidden_state=torch.stack(read, dim=1), cache=cache)
