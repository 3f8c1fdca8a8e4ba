"""What a checkpoint looks at: attention on an input, what positions alone would attend to, and biases by distance."""

# H heads, Q queries, K keys, N nodes, R distances

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from hf_sysgen.analysis.stories import Story
from hf_sysgen.data.text.vocabulary import encode_sources, encode_targets
from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.checkpoints import source_ids
from hf_sysgen.models.positions import sinusoids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

# how outputs call the attention of each stack, and how a person does
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
        queries, keys: what rows and columns stand for, Q and K words.
        meaning: of rows and columns, in a line.
    """

    kind: str
    layers: list[torch.Tensor]
    queries: list[str]
    keys: list[str]
    meaning: str


@dataclass(frozen=True)
class Preferences:
    """
    What a stack's heads prefer by distance alone.

    Attributes:
        kind: e.g. "encoder".
        distances: position of the key minus that of the query, R of them.
        layers: for each distinct layer (H, R), the softmax of the biases over all distances. A decoder's `distances`
            leave out what is masked, so that its rows sum to less than 1.
    """

    kind: str
    distances: list[int]
    layers: list[torch.Tensor]


@dataclass(frozen=True)
class Reading:
    """
    An input as a model takes it.

    Attributes:
        inputs: keywords of `forward`.
        read: the words (or people) that it reads; of an encoder the source.
        decoded: the words that a decoder reads, the start first.
        written: the word that it writes after each of them.
        story: of a graph of relations.
    """

    inputs: dict[str, torch.Tensor]
    read: list[str]
    decoded: list[str]
    written: list[str]
    story: Story | None = None


def read_input(model: Any, tokenizer: PreTrainedTokenizerFast | None, text: str, target: str | None = None) -> Reading:
    """
    An input as a model of this package takes it.

    Args:
        tokenizer: `None` for a model of graphs of relations.
        text: words; or for such a model a story, see `parse_story`.
        target: what the decoder is given; `None` for what the model writes by itself, greedily.

    Raises:
        DataError: a word is unknown. UserError: there is no decoder for a target; see also `parse_story`.
    """
    if tokenizer is None:
        from hf_sysgen.analysis.stories import parse_story

        _no_target(model, target)
        return read_story(model, parse_story(text))
    if not hasattr(model, "generate"):
        _no_target(model, target)
        ids = encode_sources(tokenizer, [text])[0]
        return Reading({"input_ids": _batch(model, ids)}, _words(tokenizer, ids), [], [])
    ids = encode_sources(tokenizer, [text], source_ids(model))[0]
    source = _batch(model, ids)
    if target is None:
        options = {"attention_mask": torch.ones_like(source), "num_beams": 1}
        skipped = 1 if model.config.is_encoder_decoder else len(ids)
        labels = model.generate(source, **options)[0, skipped:].tolist()
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
    A graph of relations as the model takes it.

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
            raise UserError(f"{relation!r} is no relation that the model knows: {', '.join(filter(None, labels))}")
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
    The attention weights of every layer and head, of an example.

    Of the triangles i -> l -> j of an Edge Transformer's layers, three indices, those of loop edges are taken (i = j),
    from which words are labelled and written; of a graph of relations those from the query's first node.

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
    """The model's outputs for an example, with the attentions of its layers."""
    with recording(model):
        return model(**reading.inputs, output_attentions=True)


@contextlib.contextmanager
def recording(model: Any) -> Iterator[None]:
    """The model with the implementations of attention that keep their weights."""
    before = model.config._attn_implementation, getattr(model.config, "triangular_implementation", None)
    model.set_attn_implementation("eager")
    if before[1] is not None:
        model.config.triangular_implementation = "plain"
    try:
        yield
    finally:
        model.set_attn_implementation(before[0])
        if before[1] is not None:
            model.config.triangular_implementation = before[1]


def _heads(weights: torch.Tensor) -> torch.Tensor:
    """Of the only example of a batch: (1, Q, K) is one head's."""
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
        meaning = "rows: the word that is written next" if kind.startswith("decoder") else "rows: the word that looks"
        return Maps(kind, layers, *sides[kind], f"{meaning}; columns: the words looked at")
    nodes = [*read, *decoded] if kind == "decoder" else read
    if reading.story is not None:
        first = reading.story.query[0]
        edges = [f"{nodes[first]} → {name}" for name in nodes]
        from_first = [weights[:, first].transpose(1, 2) for weights in layers]
        return Maps(kind, from_first, edges, nodes, "rows: the edge that is updated; columns: the node on the way")
    loops = [weights.diagonal(dim1=1, dim2=3).transpose(1, 2) for weights in layers]
    meaning = "rows: the word whose loop edge is updated; columns: the word on the way"
    return Maps(kind, loops, nodes, nodes, meaning)


@torch.inference_mode()
def position_maps(model: Any, reading: Reading) -> list[Maps]:
    """
    Where positions alone would look in an example: the softmax over the keys in reach of what they add to scores.
    Biases by distance add the same in every example; the distances of relative attention (Dai et al. 2019) meet the
    query.

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
        found.append(Maps(f"{kind}, positions alone", layers, rows, words, "softmax of what positions add to scores"))
    if not found:
        raise UserError(f"positions add nothing to the scores of a {type(model).__name__}")
    return found


@contextlib.contextmanager
def _kept(attention: Any, scores: list[torch.Tensor]) -> Iterator[None]:
    """For a while, what positions add to an attention's scores (H, Q, K) is kept, once for each depth."""
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
    """Softmax of scores (H, Q, K) over the keys in reach, NaN for the others."""
    out = torch.isinf(scores)
    if causal:
        out = out | torch.ones(scores.shape[1:], dtype=torch.bool).triu(1)
    return scores.masked_fill(out, -torch.inf).softmax(-1).masked_fill(out, torch.nan)


@torch.inference_mode()
def distance_preferences(model: Any, reach: int = 8) -> list[Preferences]:
    """
    Appendix C of Chaabouni et al. 2021: for each head the softmax of its biases over all signed distances.

    Biases are those of T5 attention, learned for each head and layer; those by bucket that all layers of a stack share;
    and of relative attention (Csordas et al. 2021) what does not depend on the query, `v r_d / sqrt(D)`.

    Args:
        reach: largest distance shown where distances are not capped.

    Raises:
        UserError: the model has no biases by distance.
    """
    found = []
    for kind, layers in _stacks(model).items():
        biases = [_distance_bias(layer.self_attn, reach) for layer in layers]
        if biases and biases[0] is not None:
            found.append(_preferences(kind, torch.stack([bias for bias in biases if bias is not None])))
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
        # of all heads alike, and by the distance of the query from the key
        numbers = attention.distances.weight[:, -1].float().cpu().flip(0) * attention.scaling
        return numbers.expand(attention.num_heads, -1)
    if not hasattr(attention, "pos_proj"):
        return None
    table = sinusoids(torch.arange(-reach, reach + 1, device=attention.v.device), attention.width)
    keys = attention.pos_proj(table.to(attention.v.dtype)).view(-1, attention.num_heads, attention.head_dim)
    return (torch.einsum("rhd,hd->hr", keys, attention.v) * attention.scaling).float().cpu()


def _preferences(kind: str, biases: torch.Tensor) -> Preferences:
    """Of biases (layers, H, R)."""
    reach = biases.shape[-1] // 2
    shown = reach + 1 if kind == "decoder" else 2 * reach + 1
    layers = list(biases.softmax(-1)[..., :shown])
    return Preferences(kind, list(range(-reach, reach + 1))[:shown], layers)


def _stacks(model: Any) -> dict[str, Sequence[Any]]:
    """The layers, by stack, that have self-attention."""
    inner = getattr(model, "model", model)
    # what labels the words of a sentence is an encoder alone
    stacks = {"encoder": getattr(inner, "encoder", inner), "decoder": getattr(inner, "decoder", None)}
    return {
        kind: [layer for layer in stack.layers if hasattr(layer, "self_attn")]
        for kind, stack in stacks.items()
        if stack is not None and hasattr(stack, "layers")
    }


def _common_biases(model: Any) -> dict[str, Callable[[int], torch.Tensor]]:
    """What makes the biases (H, L, L) by distance of a length L, by the kind of attention whose layers share them."""
    bias = getattr(getattr(model, "model", model), "relative_bias", None)
    if bias is not None:
        return {"self-attention": lambda length: bias(length, length, 0)[0]}
    # T5's stacks
    stacks = {kind: getattr(model, kind) for kind in ("encoder", "decoder") if hasattr(model, kind)}
    return {kind: partial(_bias_of_block, stack.block[0]) for kind, stack in stacks.items() if hasattr(stack, "block")}


def _bias_of_block(block: Any, length: int) -> torch.Tensor:
    return block.layer[0].SelfAttention.compute_bias(length, length)[0]


def story_attention(model: Any, reading: Reading) -> tuple[list[torch.Tensor], torch.Tensor]:
    """
    Where the edge in question looks, layer by layer: of an Edge Transformer the weights of the nodes on the way from
    the first to the last one, of a relation-aware one the mean of those with which its two nodes look at nodes.

    Returns:
        weights (H, N) for every layer, and the probability of each label (num_labels,).
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
        raise UserError(f"a {type(model).__name__} writes nothing; leave the target out")
