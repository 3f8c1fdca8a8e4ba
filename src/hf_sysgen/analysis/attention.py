"""What a checkpoint attends to: attention on an input, attention from positions alone, and biases by distance."""

# H heads, Q queries, K keys, N nodes, R distances

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from hf_sysgen.analysis.stories import Story, parse_story
from hf_sysgen.data.text.vocabulary import encode_sources, encode_targets
from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.checkpoints import encoded_sources, most_new_tokens
from hf_sysgen.evaluation.evaluate import with_attention
from hf_sysgen.models.positions import sinusoids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

# name of each stack's attention in model outputs -> name for people
KINDS = {
    "encoder_attentions": "encoder",
    "decoder_attentions": "decoder",
    "cross_attentions": "decoder to encoder",
    "attentions": "self-attention",
}


@dataclass(frozen=True)
class Maps:
    """
    One kind of attention in all layers.

    Attributes:
        kind: e.g. "encoder".
        layers: weights (H, Q, K) of each layer; NaN where a key is out of reach.
        queries, keys: labels of rows and columns, Q and K words.
        meaning: what rows and columns mean, in one line.
    """

    kind: str
    layers: list[torch.Tensor]
    queries: list[str]
    keys: list[str]
    meaning: str


@dataclass(frozen=True)
class Preferences:
    """
    What the heads of a stack prefer by distance alone.

    Attributes:
        kind: e.g. "encoder".
        distances: position of the key minus that of the query, R of them.
        layers: for each distinct layer (H, R), the softmax of the biases over all distances. For a decoder, `distances`
            have no masked positions, so its rows sum to less than 1; to 1 where distances share biases in buckets, as
            those have none for masked positions.
        capped: whether the first and the last distance stand for all farther ones too.
    """

    kind: str
    distances: list[int]
    layers: list[torch.Tensor]
    capped: bool = False


@dataclass(frozen=True)
class Reading:
    """
    An input for a model.

    Attributes:
        inputs: keywords of `forward`.
        read: the words (or people) that it reads; for an encoder the source.
        decoded: the words that a decoder reads, with the start symbol first.
        written: the word that it predicts after each of them.
        story: the graph of relations, if it is one.
    """

    inputs: dict[str, torch.Tensor]
    read: list[str]
    decoded: list[str]
    written: list[str]
    story: Story | None = None


def read_input(model: Any, tokenizer: PreTrainedTokenizerFast | None, text: str, target: str | None = None) -> Reading:
    """
    An input for a model of this package.

    Args:
        tokenizer: `None` for a model of relation graphs.
        text: words; for a model of relation graphs a story, see `parse_story`.
        target: the decoder's input; `None` to decode greedily.

    Raises:
        DataError: a word is unknown. UserError: there is no decoder for a target; see also `parse_story`.
    """
    if tokenizer is None:
        _no_target(model, target)
        return read_story(model, parse_story(text))
    if not hasattr(model, "generate"):
        _no_target(model, target)
        ids = encode_sources(tokenizer, [text])[0]
        return Reading({"input_ids": _batch(model, ids)}, _words(tokenizer, ids), [], [])
    ids = encoded_sources(model, tokenizer, [text])[0]
    source = _batch(model, ids)
    if target is None:
        options = {"attention_mask": torch.ones_like(source), "num_beams": 1}
        skipped = 1 if model.config.is_encoder_decoder else len(ids)
        labels = model.generate(source, max_new_tokens=most_new_tokens(model), **options)[0, skipped:].tolist()
        if tokenizer.eos_token_id in labels:
            labels = labels[: labels.index(tokenizer.eos_token_id) + 1]
    else:
        labels = encode_targets(tokenizer, [target], range(model.config.vocab_size))[0]
    words = _words(tokenizer, labels)
    if not model.config.is_encoder_decoder:
        whole = [*ids, *labels[:-1]]
        return Reading({"input_ids": _batch(model, whole)}, _words(tokenizer, whole), [], words)
    fed = [model.config.decoder_start_token_id, *labels[:-1]]
    return Reading(
        {"input_ids": source, "attention_mask": torch.ones_like(source), "decoder_input_ids": _batch(model, fed)},
        _words(tokenizer, ids),
        _words(tokenizer, fed),
        words,
    )


def read_story(model: Any, story: Story) -> Reading:
    """
    The input of a model for a graph of relations.

    Raises:
        UserError: a relation that the model does not know, or a model that reads no graph of relations.
    """
    labels = getattr(model.config, "edge_labels", None)
    if not labels:
        raise UserError(f"a {type(model).__name__} reads no graph of relations")
    size = len(story.people)
    edge_ids = torch.zeros(1, size, size, dtype=torch.int64)
    for (first, last), relation in zip(story.edges, story.relations, strict=True):
        if relation not in labels:
            raise UserError(f"{relation!r} is not a relation that the model knows: {', '.join(filter(None, labels))}")
        edge_ids[0, first, last] = labels.index(relation)
    inputs = {
        "edge_ids": edge_ids,
        "node_mask": torch.ones(1, size, dtype=torch.int64),
        "query": torch.tensor([story.query]),
    }
    return Reading({key: value.to(model.device) for key, value in inputs.items()}, story.people, [], [], story)


@torch.inference_mode()
def attention_maps(model: Any, reading: Reading) -> list[Maps]:
    """
    The attention weights of each layer and head, for an example. An Edge Transformer has weights for triangles i -> l
    -> j. Shown are those of loop edges (i = j), from which words are predicted; for a graph of relations, those from
    the first node of the query.

    Raises:
        UserError: the model records no attention.
    """
    outputs = record(model, reading)
    found = []
    for name, kind in KINDS.items():
        layers = [weights for weights in getattr(outputs, name, None) or () if weights is not None]
        if layers:
            found.append(_maps(kind, [_heads(weights) for weights in layers], reading))
    if not found:
        raise UserError(f"a {type(model).__name__} has no attention to look at")
    return found


@torch.inference_mode()
def record(model: Any, reading: Reading) -> Any:
    """The outputs of the model for an example, with the attention of its layers."""
    with recording(model):
        return model(**reading.inputs, output_attentions=True)


@contextlib.contextmanager
def recording(model: Any) -> Iterator[None]:
    """Switch the model to attention implementations that return weights."""
    triangular = getattr(model.config, "triangular_implementation", None)
    with with_attention(model, "eager"):
        if triangular is not None:
            model.config.triangular_implementation = "plain"
        try:
            yield
        finally:
            if triangular is not None:
                model.config.triangular_implementation = triangular


def _heads(weights: torch.Tensor) -> torch.Tensor:
    """The attention of the only example of a batch; (1, Q, K) is a single head."""
    return (weights if weights.dim() == 3 else weights[0]).float().cpu()


def _maps(kind: str, layers: list[torch.Tensor], reading: Reading) -> Maps:
    read, decoded, written = reading.read, reading.decoded, reading.written
    if layers[0].dim() == 3:
        sides = {
            "encoder": (read, read),
            "decoder": (written, decoded),
            "decoder to encoder": (written, read),
            "self-attention": (read, read),
        }
        meaning = "rows: the next word" if kind.startswith("decoder") else "rows: the attending word"
        return Maps(kind, layers, *sides[kind], f"{meaning}; columns: the attended words")
    nodes = [*read, *decoded] if kind == "decoder" else read
    if reading.story is not None:
        first = reading.story.query[0]
        edges = [f"{nodes[first]} → {name}" for name in nodes]
        from_first = [weights[:, first].transpose(1, 2) for weights in layers]
        return Maps(kind, from_first, edges, nodes, "rows: the updated edge; columns: the node in between")
    loops = [weights.diagonal(dim1=1, dim2=3).transpose(1, 2) for weights in layers]
    meaning = "rows: the word whose loop edge is updated; columns: the word in between"
    return Maps(kind, loops, nodes, nodes, meaning)


@torch.inference_mode()
def position_maps(model: Any, reading: Reading) -> list[Maps]:
    """
    Attention from positions alone, for an example: the softmax, over the visible keys, of the position terms of the
    scores. Biases by distance are the same in every example. In relative attention (Dai et al. 2019) the position term
    depends on the query.

    Raises:
        UserError: positions add nothing to the model's scores.
    """
    found = []
    with contextlib.ExitStack() as stack:
        added: dict[str, list[torch.Tensor]] = {}
        for kind, layers in _stacks(model).items():
            for layer in layers:
                if getattr(layer.self_attn, "has_position_bias", False):
                    stack.enter_context(_kept(layer.self_attn, added.setdefault(kind, [])))
        record(model, reading)
    for kind, bias in _common_biases(model).items():
        added[kind] = [bias(len(reading.decoded if kind == "decoder" else reading.read))]
    for kind, scores in added.items():
        words = reading.decoded if kind == "decoder" else reading.read
        layers = [_reachable_softmax(one.float().cpu(), causal=kind != "encoder") for one in scores]
        rows = reading.written if kind == "decoder" else words
        found.append(Maps(f"{kind}, positions alone", layers, rows, words, "softmax of the position terms of scores"))
    if not found:
        raise UserError(f"there is no position term in the scores of a {type(model).__name__}")
    return found


@contextlib.contextmanager
def _kept(attention: Any, scores: list[torch.Tensor]) -> Iterator[None]:
    """Within this context, record the position terms (H, Q, K) of the scores, once for each depth."""
    position_bias = attention.position_bias

    def keep(*args):
        query, bias = position_bias(*args)
        kept = bias[0] if bias.dtype != torch.bool else torch.zeros(bias.shape).masked_fill(~bias.cpu(), -torch.inf)[0]
        scores.append(kept.expand(attention.num_heads, -1, -1))
        return query, bias

    attention.position_bias = keep
    try:
        yield
    finally:
        del attention.position_bias


def _reachable_softmax(scores: torch.Tensor, causal: bool) -> torch.Tensor:
    """Softmax of scores (H, Q, K) over the visible keys; NaN for the others."""
    out = torch.isinf(scores)
    if causal:
        out = out | torch.ones(scores.shape[1:], dtype=torch.bool).triu(1)
    return scores.masked_fill(out, -torch.inf).softmax(-1).masked_fill(out, torch.nan)


@torch.inference_mode()
def distance_preferences(model: Any, reach: int = 8) -> list[Preferences]:
    """
    Appendix C of Chaabouni et al. 2021: for each head the softmax of its biases over all signed distances.

    Biases are: those of T5 attention, learned for each head and layer; those by bucket, shared by all layers of a
    stack; for relative attention (Csordas et al. 2021) the part that does not depend on the query, `v r_d / sqrt(D)`.

    Args:
        reach: largest distance to show if distances are not capped.

    Raises:
        UserError: the model has no biases by distance.
    """
    found = []
    for kind, layers in _stacks(model).items():
        biases = [_distance_bias(layer.self_attn, reach) for layer in layers]
        if biases and biases[0] is not None:
            stacked = torch.stack([bias for bias in biases if bias is not None])
            found.append(_preferences(kind, stacked, hasattr(layers[0].self_attn, "distance_bias")))
    for kind, bias in _common_biases(model).items():
        after = reach if kind == "encoder" else 0
        weights = bias(reach + 1 + after)[:, reach]
        distances, layers = list(range(-reach, after + 1)), [weights.float().cpu().softmax(-1)]
        found.append(Preferences("encoder" if kind == "encoder" else "decoder", distances, layers))
    if not found:
        raise UserError(
            f"a {type(model).__name__} has no biases by distance; such that have: sag_t5_transformer, "
            "relative_transformer, relative_universal_transformer, transformer_graph_parser, universal_t5_transformer, "
            "depth_width_decoder (position_scheme=relative_bias)"
        )
    return found


def _distance_bias(attention: Any, reach: int) -> torch.Tensor | None:
    """Biases (H, R) of distances -(R - 1) / 2 ... (R - 1) / 2, or `None`."""
    if hasattr(attention, "distance_bias"):
        return attention.distance_bias.float().cpu()
    if hasattr(attention, "distances"):
        # the same for all heads, by the distance from key to query
        numbers = attention.distances.weight[:, -1].float().cpu().flip(0) * attention.scaling
        return numbers.expand(attention.num_heads, -1)
    if not hasattr(attention, "pos_proj"):
        return None
    table = sinusoids(torch.arange(-reach, reach + 1, device=attention.v.device), attention.width)
    keys = attention.pos_proj(table.to(attention.v.dtype)).view(-1, attention.num_heads, attention.head_dim)
    return (torch.einsum("rhd,hd->hr", keys, attention.v) * attention.scaling).float().cpu()


def _preferences(kind: str, biases: torch.Tensor, capped: bool) -> Preferences:
    """Preferences from biases (layers, H, R)."""
    reach = biases.shape[-1] // 2
    shown = reach + 1 if kind == "decoder" else 2 * reach + 1
    layers = list(biases.softmax(-1)[..., :shown])
    return Preferences(kind, list(range(-reach, reach + 1))[:shown], layers, capped)


def _stacks(model: Any) -> dict[str, Sequence[Any]]:
    """Stack -> its layers with self-attention."""
    inner = getattr(model, "model", model)
    # a model that labels words has only an encoder
    stacks = {"encoder": getattr(inner, "encoder", inner), "decoder": getattr(inner, "decoder", None)}
    return {
        kind: [layer for layer in stack.layers if hasattr(layer, "self_attn")]
        for kind, stack in stacks.items()
        if stack is not None and hasattr(stack, "layers")
    }


def _common_biases(model: Any) -> dict[str, Callable[[int], torch.Tensor]]:
    """Kind of attention with shared biases -> a function from length L to the biases (H, L, L)."""
    bias = getattr(getattr(model, "model", model), "relative_bias", None)
    if bias is not None:
        return {"self-attention": lambda length: bias(torch.arange(length), torch.arange(length))[0]}
    # T5's stacks
    stacks = {kind: getattr(model, kind) for kind in ("encoder", "decoder") if hasattr(model, kind)}
    # a list of blocks, or the one block of all depths
    blocks = {kind: next(stack.block.children()) for kind, stack in stacks.items() if hasattr(stack, "block")}
    return {kind: partial(_bias_of_block, block) for kind, block in blocks.items()}


def _bias_of_block(block: Any, length: int) -> torch.Tensor:
    return block.layer[0].SelfAttention.compute_bias(length, length)[0]


def story_attention(model: Any, reading: Reading) -> tuple[list[torch.Tensor], torch.Tensor]:
    """
    The attention of the query edge, layer by layer. For an Edge Transformer: the weights of the nodes between its two
    nodes. For a relation-aware Transformer: the mean weights from its two nodes.

    Returns:
        weights (H, N) for each layer, and the probability of each label (num_labels,).
    """
    outputs = record(model, reading)
    assert reading.story is not None
    first, last = reading.story.query
    layers = []
    for weights in outputs.attentions or ():
        heads = _heads(weights)
        layers.append(heads[:, first, :, last] if heads.dim() == 4 else heads[:, [first, last]].mean(1))
    if not layers:
        raise UserError(f"a {type(model).__name__} has no attention to look at")
    return layers, outputs.logits[0].softmax(-1).float().cpu()


def _words(tokenizer: PreTrainedTokenizerFast, ids: list[int]) -> list[str]:
    return [str(word) for word in tokenizer.convert_ids_to_tokens(ids)]


def _batch(model: Any, ids: list[int]) -> torch.Tensor:
    return torch.tensor([ids], device=model.device)


def _no_target(model: Any, target: str | None) -> None:
    if target is not None:
        raise UserError(f"a {type(model).__name__} has no decoder; do not give a target")
