"""Baselines of the Edge Transformer: their parts equal loops, outputs and all gradients; their starts and errors."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from edge_tiny import NODES, edge_batch, tiny_edge
from huggingface_hub.errors import StrictDataclassClassValidationError
from reference.clipped_relative_attention import clipped_relative_attention, distance_score
from reference.dependency_parser import biaffine, head_and_label_loss
from reference.graph_attention import graph_attention
from tiny import scatter_weights
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from hf_sysgen.models import (
    BiaffineDependencyParserConfig,
    BiaffineForDependencyParsing,
    EdgeDependencyParserConfig,
    EdgeTransformerConfig,
    GraphAttentionNetworkConfig,
    TransformerGraphParserConfig,
)
from hf_sysgen.models.dependency_scores import arc_scores, head_losses
from hf_sysgen.models.modeling_graph_attention_network import GraphAttentionLayer
from hf_sysgen.models.modeling_sentence_parser import Biaffine
from hf_sysgen.models.sentence_encoder import BiLstmLayer, ClippedDistances, ClippedRelativeSelfAttention, SentenceInput

CLOSE = {"rtol": 1e-11, "atol": 1e-12}
SENTENCE = {"hidden_size": 22, "num_attention_heads": 2, "max_relative_distance": 3, "vocab_size": 17}


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def assert_same_gradients(ours: torch.Tensor, theirs: torch.Tensor, inputs: dict[str, torch.Tensor]) -> None:
    """Of both numbers, with respect to every input."""
    torch.testing.assert_close(ours, theirs, **CLOSE)
    for name, one, other in zip(
        inputs,
        torch.autograd.grad(ours, list(inputs.values())),
        torch.autograd.grad(theirs, list(inputs.values())),
        strict=True,
    ):
        assert one.abs().max() > 1e-6, name
        torch.testing.assert_close(one, other, **CLOSE, msg=lambda text, name=name: f"{name}: {text}")


# graph attention


@pytest.mark.parametrize("is_last", [False, True])
def test_graph_attention_by_loops(is_last: bool) -> None:
    """Of two graphs, of which one has padding, a node without edges, and edges both ways between two."""
    config = GraphAttentionNetworkConfig(hidden_size=7, edge_size=3, num_attention_heads=2, dropout=0.0)
    layer = scatter_weights(GraphAttentionLayer(config, is_last).double())
    nodes, vectors, weight = drawn(2, 5, 7), drawn(2, 5, 5, 3, seed=1), drawn(2, 5, 7, seed=2).detach()
    given = [{(0, 1), (1, 0), (1, 3), (4, 2), (2, 0), (0, 4)}, {(0, 1), (0, 2)}]
    sizes = [5, 4]
    is_edge = torch.zeros(2, 5, 5, dtype=torch.bool)
    for graph, pairs in enumerate(given):
        for pair in pairs:
            is_edge[(graph, *pair)] = True
    output, weights = layer(nodes, vectors * is_edge[..., None], is_edge | torch.eye(5, dtype=torch.bool))
    assert weights.shape == (2, 1 if is_last else 2, 5, 5)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert weights[0, :, 0, 3].abs().max() == 0, "no edge"

    maps = list(layer.node_proj.weight.split(7))
    expected = []
    for graph, size in enumerate(sizes):
        edges = {pair: vectors[(graph, *pair)] for pair in given[graph]}
        states = list(nodes[graph, :size])
        expected += graph_attention(
            states, edges, maps, list(layer.attention), layer.o_proj.weight, layer.o_proj.bias, 0.2
        )
    kept = torch.cat([output[graph, :size] for graph, size in enumerate(sizes)])
    wanted = torch.stack(expected)
    torch.testing.assert_close(kept, wanted, **CLOSE)
    scale = torch.cat([weight[graph, :size] for graph, size in enumerate(sizes)])
    inputs = {"nodes": nodes, "vectors": vectors, **dict(layer.named_parameters())}
    assert_same_gradients((kept * scale).sum(), (wanted * scale).sum(), inputs)


def test_nodes_have_fixed_vectors_that_training_deals_out() -> None:
    model, batch = tiny_edge("gat", dropout=0.0), edge_batch("gat", labels=False)
    assert torch.equal(model(**batch).logits, model(**batch).logits)
    table, nodes = model.model.embed_nodes, NODES
    assert torch.equal(table(2, nodes)[1], table.weight[:nodes])
    table.train()
    torch.manual_seed(0)
    dealt = table(97, nodes)
    rows = (dealt[:, :, None] == table.weight).all(-1).int().argmax(-1)
    assert torch.equal(table.weight[rows], dealt)
    assert all(len(set(graph)) == nodes for graph in rows.tolist()), "no two nodes of a graph have one vector"
    assert set(rows.flatten().tolist()) == set(range(13))
    with pytest.raises(ValueError, match=r"\b14 .*config\.max_nodes=13"):
        model(torch.zeros(1, 14, 14, dtype=torch.long), query=torch.zeros(1, 2, dtype=torch.long))


def test_fixed_vectors_stay_fixed_when_loaded(tmp_path: Path) -> None:
    model = tiny_edge("gat")
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    for one in (model, loaded):
        assert not one.model.embed_nodes.weight.requires_grad
    assert loaded.num_parameters(only_trainable=True) == model.num_parameters() == model.num_parameters(True)
    assert torch.equal(loaded.model.embed_nodes.weight, model.model.embed_nodes.weight)


def test_nodes_may_start_from_zeros() -> None:
    model, batch = tiny_edge("gat", node_init="zeros"), edge_batch("gat", labels=False)
    logits = model(**batch).logits
    assert model.model.embed_nodes is None
    # nodes are what their edges make them: their order means nothing
    order = torch.randperm(NODES, generator=torch.Generator().manual_seed(0))
    place = order.argsort()
    moved = {
        "edge_ids": batch["edge_ids"][:, order][:, :, order], "node_mask": batch["node_mask"][:, order],
        "query": place[batch["query"]],
    }  # fmt: skip
    torch.testing.assert_close(model(**moved).logits, logits, **CLOSE)


# words


def test_clipped_relative_attention_by_loops() -> None:
    config = TransformerGraphParserConfig(**SENTENCE, attention_dropout=0.0)
    config._attn_implementation = "eager"
    layer = scatter_weights(ClippedRelativeSelfAttention(config, False).double())
    words, weight, sizes = drawn(2, 7, 22), drawn(2, 7, 22, seed=1).detach(), [7, 3]
    mask = (torch.arange(7) < torch.tensor(sizes)[:, None])[:, None, None]
    output, _ = layer(words, mask)
    parts = list(zip(layer.qkv_proj.weight.split(22), layer.qkv_proj.bias.split(22), strict=True))
    expected = []
    for row, size in enumerate(sizes):
        merge = (layer.o_proj.weight, layer.o_proj.bias)
        expected += clipped_relative_attention(list(words[row, :size]), parts, merge, layer.distances.weight, 3, 2)
    kept = torch.cat([output[row, :size] for row, size in enumerate(sizes)])
    scale = torch.cat([weight[row, :size] for row, size in enumerate(sizes)])
    torch.testing.assert_close(kept, torch.stack(expected), **CLOSE)
    inputs = {"words": words, **dict(layer.named_parameters())}
    assert_same_gradients((kept * scale).sum(), (torch.stack(expected) * scale).sum(), inputs)


def test_parents_are_scored_by_attention() -> None:
    model = tiny_edge("graph of words")
    states = drawn(1, 5, 6)
    words, scores = model.read(states)
    assert words is states
    for child in range(5):
        query = model.parent_query(states[0, child])
        for parent in range(5):
            score = query @ model.parent_key(states[0, parent])
            score = score + distance_score(query, child - parent, model.parent_distances.weight, 3)
            torch.testing.assert_close(scores[0, child, parent], score / math.sqrt(6), **CLOSE)


def test_input_of_a_sentence() -> None:
    words = drawn(2, 5, 22).detach()
    for scheme in ("absolute", "clipped_relative"):
        config = TransformerGraphParserConfig(**SENTENCE, position_scheme=scheme, dropout=0.0)
        found = SentenceInput(config)(words)
        for position in range(5):
            for channel in range(22):
                angle = position / 10000 ** (2 * (channel // 2) / 22)
                added = 0.0 if scheme != "absolute" else math.cos(angle) if channel % 2 else math.sin(angle)
                expected = words[:, position, channel] * math.sqrt(22) + added
                # sinusoids are made in float32
                torch.testing.assert_close(found[:, position, channel], expected, rtol=0, atol=1e-6)


def test_lstm_layers_both_ways_are_pytorch_s() -> None:
    """On sentences of different lengths, packed there and masked here."""
    layer = scatter_weights(BiLstmLayer(22).double())
    library = nn.LSTM(22, 11, bidirectional=True, batch_first=True).double()
    with torch.no_grad():
        for cell, ending in ((layer.forwards.cell, "l0"), (layer.backwards.cell, "l0_reverse")):
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                getattr(library, f"{name}_{ending}").copy_(getattr(cell, name))
    words, lengths = drawn(3, 7, 22), torch.tensor([7, 2, 5])
    real = torch.arange(7) < lengths[:, None]
    found = layer(words, real)[real]
    packed = pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)
    expected = pad_packed_sequence(library(packed)[0], batch_first=True)[0][real]
    torch.testing.assert_close(found, expected, **CLOSE)
    scale = drawn(*found.shape, seed=1).detach()
    ours, theirs = (torch.autograd.grad((out * scale).sum(), words)[0] for out in (found, expected))
    torch.testing.assert_close(ours, theirs, **CLOSE)


# biaffine scores


def test_biaffine_by_loops() -> None:
    config = BiaffineDependencyParserConfig(**SENTENCE, biaffine_size=3, biaffine_dropout=0.0)
    module = scatter_weights(Biaffine(config, 2).double())
    words, weight = drawn(1, 5, 22), drawn(5, 5, 2, seed=1).detach()
    found = module(words)[0]
    layers = [(layer.weight, layer.bias) for layer in (module.dependent_proj, module.head_proj)]
    by_loops = biaffine(list(words[0]), *layers, module.bilinear.weight)
    expected = torch.stack([by_loops[i, j, k] for i in range(5) for j in range(5) for k in range(2)]).view(5, 5, 2)
    torch.testing.assert_close(found, expected, **CLOSE)
    inputs = {"words": words, **dict(module.named_parameters())}
    assert_same_gradients((found * weight).sum(), (expected * weight).sum(), inputs)


def test_heads_and_labels_are_learnt_by_loops() -> None:
    """The loss of a parser that chooses heads, with a padded word, from the scores of both of its biaffine parts."""
    model = tiny_edge("bilstm", biaffine_size=5)
    words = drawn(1, 5, 6)
    labels = torch.full((1, 5, 5), -100)
    gold = {1: (2, 3), 2: (0, 1), 3: (2, 4)}
    for word, (head, label) in gold.items():
        labels[0, word, head] = label
    mask = torch.tensor([[1, 1, 1, 1, 0]])
    logits = model.pair_logits(words, mask)
    scores = []
    for module in (model.arcs, model.labels):
        layers = [(layer.weight, layer.bias) for layer in (module.dependent_proj, module.head_proj)]
        scores.append(biaffine(list(words[0, :4]), *layers, module.bilinear.weight))
    expected = head_and_label_loss(*scores, gold, 4)
    found = head_losses(logits, labels)
    assert ((found != 0) == (labels > 0)).all()
    inputs = {"words": words, **{f"arcs {n}": p for n, p in model.arcs.named_parameters()}}
    inputs |= {f"labels {n}": p for n, p in model.labels.named_parameters()}
    assert_same_gradients(found.sum() / 3, expected, inputs)
    # the tree is made from the scores of arcs alone
    arcs = arc_scores(logits)[0]
    for (dependent, head, _), score in scores[0].items():
        if dependent != head:
            torch.testing.assert_close(arcs[dependent, head], score, **CLOSE)
    assert arcs[1, 4] < -1e30
    assert arcs[1, 1] < -1e30


def test_all_pairs_score_alike_at_the_start() -> None:
    torch.manual_seed(0)
    config = BiaffineDependencyParserConfig(**SENTENCE, num_hidden_layers=1, num_labels=5)
    model = BiaffineForDependencyParsing(config).eval()
    assert model(torch.tensor([[1, 2, 3]])).logits.abs().max() == 0
    assert model.labels.dependent_proj.weight.abs().max() > 0.9 / math.sqrt(22)
    table = ClippedDistances(16, 97)
    table.reset_weights()
    assert 0.049 < table.weight.abs().max() <= 0.05


# configurations


def test_label_sets_of_cogs_are_declared_alike() -> None:
    """Padding counts, `cogs_vocabulary.py` of the authors."""
    sizes = {"num_roles": 9, "num_categories": 5, "num_noun_types": 4, "num_verbs": 136}
    for config_class in (TransformerGraphParserConfig, EdgeTransformerConfig):
        config = config_class()
        assert {name: getattr(config, name) for name in sizes} == sizes


@pytest.mark.parametrize(
    ("config_class", "changes", "message"),
    [
        (BiaffineDependencyParserConfig, {"encoder": "bilstm", "share_layers": True}, "share_layers=True .*'bilstm'"),
        (BiaffineDependencyParserConfig, {"encoder": "bilstm", "hidden_size": 9}, "hidden_size=9 .*'bilstm'"),
        (BiaffineDependencyParserConfig, {"hidden_size": 7, "num_attention_heads": 2}, "hidden_size=7 .*heads=2"),
        (BiaffineDependencyParserConfig, {"hidden_size": 7, "num_attention_heads": 7}, "hidden_size=7 must be even"),
        (BiaffineDependencyParserConfig, {"biaffine_size": 0}, "biaffine_size=0 must be at least 1"),
        (BiaffineDependencyParserConfig, {"biaffine_dropout": 1.0}, r"biaffine_dropout=1.0 must be in \[0, 1\)"),
        (BiaffineDependencyParserConfig, {"num_labels": 1}, "num_labels=1 must be at least 2"),
        (TransformerGraphParserConfig, {"num_verbs": 0}, "num_verbs=0 must be at least 1"),
        (TransformerGraphParserConfig, {"attention_dropout": -0.1}, r"attention_dropout=-0.1 must be in \[0, 1\)"),
        (GraphAttentionNetworkConfig, {"edge_size": 0}, "edge_size=0 must be at least 1"),
        (GraphAttentionNetworkConfig, {"dropout": 1}, r"dropout=1 must be in \[0, 1\)"),
        (EdgeDependencyParserConfig, {"input_form": "graph"}, "input_form='graph', but sentences need"),
    ],
)
def test_contradictions(config_class, changes: dict, message: str) -> None:
    with pytest.raises(StrictDataclassClassValidationError, match=message):
        config_class(**changes)


@pytest.mark.parametrize(
    ("config_class", "fields", "other", "free", "bound"),
    [
        (BiaffineDependencyParserConfig, {"hidden_size": 10, "num_attention_heads": 4}, "encoder",
         "bilstm", "transformer"),
        (TransformerGraphParserConfig, {"hidden_size": 7, "num_attention_heads": 7}, "position_scheme",
         "clipped_relative", "absolute"),
    ],
)  # fmt: skip
def test_only_what_applies_is_checked(config_class, fields: dict, other: str, free: str, bound: str) -> None:
    assert getattr(config_class(**fields, **{other: free}), other) == free
    with pytest.raises(StrictDataclassClassValidationError, match="hidden_size"):
        config_class(**fields, **{other: bound})


def test_graphs_need_their_edges_and_their_query() -> None:
    with pytest.raises(ValueError, match="give edge_ids"):
        tiny_edge("gat").model()
    with pytest.raises(ValueError, match="give query"):
        tiny_edge("gat")(edge_ids=torch.zeros(1, 2, 2, dtype=torch.long))
