"""The Edge Transformer family as models: decoding with a cache, padding, training, Auto classes, errors."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from documents import ROOT, blocks
from edge_tiny import (
    BATCH,
    LENGTHS,
    MODELS,
    NODES,
    RELATION,
    SEMANTIC_GRAPH,
    SEQUENCE,
    TARGET,
    WRITERS,
    edge_batch,
    node_mask,
    tiny_edge,
)
from huggingface_hub.errors import StrictDataclassClassValidationError, StrictDataclassFieldValidationError
from reference import triangular_attention as reference
from safetensors.torch import load_file, save_file
from saved_elsewhere import assert_same_files, use_elsewhere
from tiny import assert_same_loss_offloaded
from transformers import (
    AutoModel,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    Trainer,
    TrainingArguments,
)
from transformers.modeling_layers import GradientCheckpointingLayer

from hf_sysgen.models import MODELS as REGISTERED
from hf_sysgen.models import (
    EdgeTransformerConfig,
    EdgeTransformerForConditionalGeneration,
    EdgeTransformerForGraphParsing,
    EdgeTransformerForRelationClassification,
    RelationAwareTransformerConfig,
    RelationAwareTransformerForRelationClassification,
)
from hf_sysgen.models.dependency_scores import arc_scores
from hf_sysgen.models.edge_cache import GROWTH, EdgeCache
from hf_sysgen.models.edge_encoder import length_buckets

WITH_LOSS = [name for name in MODELS if name not in ("graph", "sequence", "rat nodes")]
EDGE = [name for name, (_, config_class, _) in MODELS.items() if issubclass(config_class, EdgeTransformerConfig)]
AUTO = {
    "graph": AutoModel,
    "sequence": AutoModel,
    "relation": AutoModelForSequenceClassification,
    "semantic graph": AutoModelForTokenClassification,
    "dependencies": AutoModelForTokenClassification,
    "translation": AutoModelForSeq2SeqLM,
    "rat nodes": AutoModel,
    "rat": AutoModelForSequenceClassification,
    "rrat": AutoModelForSequenceClassification,
    "gat": AutoModelForSequenceClassification,
    "graph of words": AutoModelForTokenClassification,
    "biaffine": AutoModelForTokenClassification,
    "bilstm": AutoModelForTokenClassification,
    "universal t5": AutoModelForSeq2SeqLM,
}
FIRST_OUTPUT = ("logits", "role_logits", "last_hidden_state")


def first_output(outputs) -> torch.Tensor:
    return next(outputs[name] for name in FIRST_OUTPUT if name in outputs)


def gradients(model, batch: dict) -> dict[str, torch.Tensor]:
    model.zero_grad()
    model(**batch).loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.requires_grad}


# decoding


@pytest.fixture
def translation():
    return tiny_edge("translation", max_relative_distance=4)


def decode_step_by_step(model, batch: dict, target: torch.Tensor, first: int = 1) -> torch.Tensor:
    """Logits of all positions, `first` tokens at once, the rest one at a time with the cache."""
    out = model(**batch, decoder_input_ids=target[:, :first], use_cache=True)
    cache, logits, encoded = out.cache, [out.logits], (out.encoder_last_hidden_state,)
    mask = {"attention_mask": batch["attention_mask"]}
    for step in range(first, target.shape[1]):
        out = model(**mask, encoder_outputs=encoded, decoder_input_ids=target[:, step : step + 1], cache=cache)
        logits.append(out.logits)
    assert cache.get_seq_length() == target.shape[1]
    return torch.cat(logits, dim=1)


@pytest.mark.parametrize(
    "changes",
    [
        {}, {"readout": "start_to_i"}, {"value_ablation": True}, {"attention_ablation": True}, {"layer_form": "paper"},
        {"share_layers": False}, {"add_bos_vector": False}, {"triangular_implementation": "blocked"},
    ],
    ids=str,
)  # fmt: skip
@torch.no_grad()
def test_cache_is_exact(changes: dict) -> None:
    model, batch = tiny_edge("translation", **changes), edge_batch("translation", labels=False)
    # long enough that room is made anew
    target = torch.randint(17, (BATCH, GROWTH + 7), generator=torch.Generator().manual_seed(3))
    whole = model(**batch, decoder_input_ids=target).logits
    for first in (1, 3):
        torch.testing.assert_close(decode_step_by_step(model, batch, target, first), whole, rtol=0, atol=1e-12)
    # several tokens at once, after a beginning
    out = model(**batch, decoder_input_ids=target[:, :4], use_cache=True)
    rest = model(
        attention_mask=batch["attention_mask"],
        encoder_outputs=(out.encoder_last_hidden_state,),
        decoder_input_ids=target[:, 4:],
        cache=out.cache,
    )
    torch.testing.assert_close(rest.logits, whole[:, 4:], rtol=0, atol=1e-12)


@torch.no_grad()
def test_a_step_computes_only_new_edges(translation) -> None:
    batch = edge_batch("translation", labels=False)
    seen = []
    for layer in translation.decoder.rounds.layers:
        layer.register_forward_pre_hook(lambda module, args: seen.append(tuple(args[0].shape[1:-1])))
    decode_step_by_step(translation, batch, torch.zeros(BATCH, 3, dtype=torch.long))
    # 2 rounds each: 8 nodes at once, then the edges of the ninth and of the tenth
    assert seen == [(8, 8)] * 2 + [(2 * 9 - 1,)] * 2 + [(2 * 10 - 1,)] * 2


@torch.no_grad()
def test_states_do_not_see_what_comes_after(translation) -> None:
    batch = edge_batch("translation", labels=False)
    target = torch.randint(17, (BATCH, TARGET), generator=torch.Generator().manual_seed(1))
    changed = target.clone()
    changed[:, 3:] = (changed[:, 3:] + 1) % 17
    one, other = (translation(**batch, decoder_input_ids=ids).logits for ids in (target, changed))
    torch.testing.assert_close(one[:, :3], other[:, :3], rtol=0, atol=1e-13)
    assert (one[:, 3:] - other[:, 3:]).abs().amin(dim=(0, 2)).max() > 1e-6


@pytest.mark.parametrize("beams", [1, 3])
def test_generate(translation, beams: int) -> None:
    batch = edge_batch("translation", labels=False)
    options = {"max_new_tokens": 9, "num_beams": beams, "do_sample": False}
    cached, plain = (translation.generate(**batch, **options, use_cache=use) for use in (True, False))
    assert torch.equal(cached, plain)
    for row, length in enumerate(LENGTHS):
        alone = {name: value[row : row + 1, :length] for name, value in batch.items()}
        words = translation.generate(**alone, **options)[0]
        assert torch.equal(cached[row, : len(words)], words)
        assert (cached[row, len(words) :] == translation.config.pad_token_id).all()


def test_cache_operations() -> None:
    cache = EdgeCache(1)
    cache.source_length = 2
    (slot,) = cache.layers
    parts = torch.arange(2.0 * 3 * 3 * 4).view(2, 3, 3, 4, 1, 1)
    slot.fill((*parts.unbind(3)[:3], None))
    assert cache.get_seq_length() == 1
    new = torch.arange(100.0, 100 + 2 * 7 * 3).view(2, 7, 3, 1, 1)
    query, _, _, right = slot.extend((*new.unbind(2), None))
    assert right is None
    assert cache.get_seq_length() == 2
    assert torch.equal(query[:, :3, :3], parts[:, :, :, 0])
    assert torch.equal(query[:, 3].flatten(1), new[:, :4, 0].flatten(1))
    assert torch.equal(query[:, :3, 3].flatten(1), new[:, 4:, 0].flatten(1))
    kept = query.clone()
    cache.reorder_cache(torch.tensor([1, 1]))
    assert torch.equal(slot.buffers[0][:, :4, :4], kept[[1, 1]])
    cache.batch_repeat_interleave(2)
    cache.batch_select_indices(torch.tensor([3]))
    assert torch.equal(slot.buffers[0][:, :4, :4], kept[[1]])
    cache.crop(0)
    assert (cache.get_seq_length(), slot.length) == (2, 4)
    cache.crop(-1)
    assert (cache.get_seq_length(), slot.length) == (1, 3)
    with pytest.raises(ValueError, match=r"crop\(1\)"):
        cache.crop(1)


@torch.no_grad()
def test_a_given_cache_is_read(translation) -> None:
    """Whether or not the call keeps one, and with labels."""
    batch = edge_batch("translation", labels=False)
    target = torch.randint(17, (BATCH, TARGET), generator=torch.Generator().manual_seed(1))
    whole = translation(**batch, decoder_input_ids=target, use_cache=False)
    assert whole.cache is None
    for options in ({"use_cache": False}, {"use_cache": True}, {"labels": target[:, 2:]}):
        cache = translation(**batch, decoder_input_ids=target[:, :2], use_cache=True).cache
        rest = translation(**batch, decoder_input_ids=target[:, 2:], cache=cache, **options)
        torch.testing.assert_close(rest.logits, whole.logits[:, 2:], rtol=0, atol=1e-12)


@torch.no_grad()
def test_generation_goes_on_from_a_cache(translation) -> None:
    batch = edge_batch("translation", labels=False)
    options = {"do_sample": False, "eos_token_id": 16, "suppress_tokens": [16]}
    whole = translation.generate(**batch, **options, max_new_tokens=6)
    begun = translation.generate(**batch, **options, max_new_tokens=3, return_dict_in_generate=True)
    mask = torch.ones_like(begun.sequences)
    rest = translation.generate(
        **batch, **options, max_new_tokens=3, decoder_input_ids=begun.sequences, decoder_attention_mask=mask,
        cache=begun.cache,
    )  # fmt: skip
    assert torch.equal(rest, whole)


# padding and groups


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_padding_changes_nothing(name: str) -> None:
    model, batch = tiny_edge(name), edge_batch(name, labels=False)
    if name in WRITERS:
        batch["decoder_input_ids"] = torch.randint(17, (BATCH, TARGET), generator=torch.Generator().manual_seed(2))
    whole = first_output(model(**batch))
    for row, length in enumerate(LENGTHS):
        if name in RELATION and batch["query"][row].max() >= length:
            continue
        alone = {}
        for key, value in batch.items():
            short = value[row : row + 1]
            if key == "edge_ids":
                short = short[:, :length, :length]
            elif key not in ("query", "decoder_input_ids"):
                short = short[:, :length]
            alone[key] = short
        found = first_output(model(**alone))[0]
        expected = whole[row]
        for dim in range(found.dim() - 1):
            expected = expected.narrow(dim, 0, found.shape[dim])
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("buckets", [2, 3, 7])
@pytest.mark.parametrize("name", [name for name in EDGE if name in WITH_LOSS])
def test_length_buckets_are_exact(name: str, buckets: int) -> None:
    batch = edge_batch(name)
    if name == "relation":
        batch["query"] = torch.tensor([[0, 6], [1, 0], [2, 4]])
    whole, grouped = tiny_edge(name), tiny_edge(name, length_buckets=buckets)
    torch.testing.assert_close(grouped(**batch).loss, whole(**batch).loss, rtol=0, atol=1e-13)
    expected = gradients(whole, batch)
    for parameter, gradient in gradients(grouped, batch).items():
        torch.testing.assert_close(gradient, expected[parameter], rtol=0, atol=1e-12)


def test_recorded_states_of_length_buckets_are_of_the_whole_batch() -> None:
    model, batch = tiny_edge("sequence", length_buckets=2), edge_batch("sequence")
    model.config.output_hidden_states = True
    with torch.no_grad():
        states = model(**batch).hidden_states
    assert [state.shape for state in states] == [(BATCH, NODES, NODES, 6)] * 4


def test_length_buckets_are_sorted() -> None:
    mask = node_mask()
    mask[0, 0] = 0
    buckets = [(rows.tolist(), length) for rows, length in length_buckets(mask, 2)]
    assert buckets == [([1, 2], 5), ([0], 7)]
    assert [length for _, length in length_buckets(torch.zeros(2, 3), 5)] == [1, 1]


def test_rows_of_padding_alone_stay_finite() -> None:
    for name in (*SEMANTIC_GRAPH, *RELATION, "biaffine", "bilstm"):
        model, batch = tiny_edge(name), edge_batch(name)
        mask = "node_mask" if name in RELATION else "attention_mask"
        batch[mask] = batch[mask].clone()
        batch[mask][1] = 0
        for key, value in batch.items():
            if "labels" in key:
                value[1] = -100
        loss = model(**batch).loss
        assert loss.isfinite()
        assert all(gradient.isfinite().all() for gradient in gradients(model, batch).values())


@torch.no_grad()
def test_one_node() -> None:
    model = tiny_edge("sequence")
    state = model(input_ids=torch.tensor([[4]])).last_hidden_state
    assert state.shape == (1, 1, 1, SEQUENCE["hidden_size"])
    assert state.isfinite().all()


# states and outputs


@torch.no_grad()
def test_first_state_by_loops() -> None:
    model = tiny_edge("sequence")
    tokens = [3, 16, 0, 5, 5, 9]
    state = model.first_state(torch.tensor([tokens]), None, None)[0]
    expected = reference.first_state(tokens, model.embed_tokens.weight, model.relations.weight, 3)
    for (i, j), vector in expected.items():
        assert torch.equal(state[i, j], vector)


@torch.no_grad()
def test_recorded_states_and_weights() -> None:
    model, batch = tiny_edge("sequence"), edge_batch("sequence")
    out = model(**batch, output_hidden_states=True, output_attentions=True)
    assert len(out.attentions) == 3
    assert out.attentions[0].shape == (BATCH, 2, NODES, NODES, NODES)
    sums = out.attentions[1].sum(3)
    torch.testing.assert_close(sums, torch.ones_like(sums))
    assert out.attentions[0].transpose(1, 3)[1, 2:].abs().max() == 0, "padding in the middle has no weight"
    torch.testing.assert_close(out.hidden_states[-1], out.last_hidden_state)
    out = tiny_edge("translation")(**edge_batch("translation"), output_attentions=True)
    assert (len(out.encoder_attentions), len(out.decoder_attentions)) == (3, 2)
    nodes = NODES + TARGET
    assert out.decoder_attentions[0].shape == (BATCH, 2, nodes, nodes, nodes)


@torch.no_grad()
def test_recorded_states_of_one_model_are_of_one_kind() -> None:
    for name in ("rat", "rrat"):
        states = tiny_edge(name)(**edge_batch(name), output_hidden_states=True).hidden_states
        assert [state.shape for state in states] == [(BATCH, NODES, 6)] * 4, name
    states = tiny_edge("translation")(**edge_batch("translation"), output_hidden_states=True).decoder_hidden_states
    nodes = NODES + TARGET
    assert [state.shape for state in states] == [(BATCH, nodes, nodes, 6)] * 3


@torch.no_grad()
def test_source_padded_on_the_left() -> None:
    """The learned vector of the first token is that of the first real one."""
    model, batch = tiny_edge("translation"), edge_batch("translation")
    assert model.model.bos.weight.abs().min() > 0
    left = dict(batch)
    for key in ("input_ids", "attention_mask"):
        rows = [torch.cat((row[size:], row[:size])) for row, size in zip(batch[key], LENGTHS, strict=True)]
        left[key] = torch.stack(rows)
    found = model.model(**{key: left[key] for key in ("input_ids", "attention_mask")}).last_hidden_state
    expected = model.model(**{key: batch[key] for key in ("input_ids", "attention_mask")}).last_hidden_state
    for row, size in enumerate(LENGTHS):
        torch.testing.assert_close(found[row, NODES - size :, NODES - size :], expected[row, :size, :size])


@torch.no_grad()
def test_dependency_scores() -> None:
    logits = torch.tensor([[[[0.0, 1.0, 2.0]]]])
    arcs = arc_scores(logits)
    assert arcs.item() == pytest.approx(torch.tensor([1.0, 2.0]).exp().sum().log().item())


def test_frozen_token() -> None:
    model, batch = tiny_edge("semantic graph", frozen_token_id=4), edge_batch("semantic graph")
    batch["input_ids"][0, 0] = 4
    assert gradients(model, batch)["model.embed_tokens.weight"][4].abs().max() == 0
    fresh = EdgeTransformerForGraphParsing(EdgeTransformerConfig(**{**SEQUENCE, "frozen_token_id": 4}))
    assert fresh.model.embed_tokens.weight[4].abs().max() == 0


def test_random_first_nodes_of_rat() -> None:
    model, batch = tiny_edge("rat", node_init="uniform"), edge_batch("rat")
    torch.manual_seed(0)
    one = model(**batch).logits
    assert not torch.equal(one, model(**batch).logits)
    torch.manual_seed(0)
    assert torch.equal(one, model(**batch).logits)
    nodes = model.model.first_nodes(torch.zeros(50, 7, 7, 6))
    assert 0 <= nodes.min() < 0.05
    assert 0.95 < nodes.max() < 1


# training


@pytest.mark.parametrize("name", WITH_LOSS)
def test_every_parameter_learns(name: str) -> None:
    found = gradients(tiny_edge(name), edge_batch(name))
    # a constant on all parents' scores is invisible to their softmax, in the authors' model too
    for name in ("parent_head.bias", "parent_key.bias"):
        found.pop(name, None)
    assert all(gradient.abs().max() > 1e-8 for gradient in found.values()), found


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("name", WITH_LOSS)
def test_checkpointed_activations(name: str, reentrant: bool) -> None:
    model, batch = tiny_edge(name, dropout=0.25).train(), edge_batch(name)
    torch.manual_seed(0)
    expected = gradients(model, batch)
    model.activation_checkpointing_enable({"use_reentrant": reentrant})
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    assert layers
    assert all(layer.gradient_checkpointing for layer in layers)
    torch.manual_seed(0)
    for parameter, gradient in gradients(model, batch).items():
        # layers' parts of a gradient are summed in another order; another dropout mask would change digits that count
        torch.testing.assert_close(gradient, expected[parameter], rtol=0, atol=1e-13, msg=parameter)


@pytest.mark.parametrize("name", WITH_LOSS)
def test_autocast(name: str) -> None:
    model, batch = (
        tiny_edge(name, triangular_implementation="blocked") if name in EDGE else tiny_edge(name),
        edge_batch(name),
    )
    exact = model(**batch).loss
    model.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(**batch).loss
    loss.backward()
    assert loss.item() == pytest.approx(exact.item(), rel=0.1)
    assert loss.dtype == torch.float32
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.requires_grad)


@pytest.mark.parametrize(
    ("name", "changes", "operator"),
    [
        *((name, {}, True) for name in WITH_LOSS if name in EDGE), ("translation", {"dropout": 0.25}, True),
        ("relation", {"value_ablation": True}, False), ("translation", {"triangular_implementation": "plain"}, False),
    ],
    ids=str,
)  # fmt: skip
def test_compiles_without_a_break(name: str, changes: dict, operator: bool) -> None:
    """Forward and backward in training mode; backend aot_eager, which traces both graphs and generates no code."""
    torch.compiler.reset()
    model, batch = tiny_edge(name, **{"dropout": 0.0, **changes}).train(), edge_batch(name)
    loss, expected = model(**batch).loss.item(), gradients(model, batch)
    operations = []

    def backend(graph, arguments):
        operations.extend(str(node.target) for node in graph.graph.nodes)
        return torch._dynamo.lookup_backend("aot_eager")(graph, arguments)

    # a break in the graph raises
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    compiled_loss = compiled(**batch).loss
    model.zero_grad()
    compiled_loss.backward()
    assert any("triangular_blocked" in operation for operation in operations) == operator
    found = {key: parameter.grad for key, parameter in model.named_parameters() if parameter.requires_grad}
    assert all(gradient.isfinite().all() for gradient in found.values())
    if "dropout" in changes:
        # another random stream, the same dropout
        assert compiled_loss.item() != model.eval()(**batch).loss.item()
    else:
        assert compiled_loss.item() == pytest.approx(loss, rel=1e-12)
        for key, gradient in expected.items():
            torch.testing.assert_close(found[key], gradient, rtol=1e-9, atol=1e-12, msg=key)
    torch.compiler.reset()


def test_two_halves_with_the_number_of_items_are_the_batch(translation) -> None:
    batch = edge_batch("translation")
    whole = gradients(translation, batch)
    items = int((batch["labels"] != -100).sum())
    translation.zero_grad()
    for part in (slice(0, 1), slice(1, None)):
        half = {name: value[part] for name, value in batch.items()}
        translation(**half, num_items_in_batch=items).loss.backward()
    for name, parameter in translation.named_parameters():
        torch.testing.assert_close(parameter.grad, whole[name], rtol=1e-9, atol=1e-13)


def test_initial_weights() -> None:
    config = EdgeTransformerConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_labels=3, attention_bias=True,
        input_form="sequence", vocab_size=300, add_bos_vector=True,
    )  # fmt: skip
    torch.manual_seed(0)
    model = EdgeTransformerForConditionalGeneration(config)
    layer = model.model.rounds.layers[0]
    bounds = {
        layer.attention.in_proj.weight: (3 / 64) ** 0.5, layer.attention.o_proj.weight: (3 / 64) ** 0.5,
        layer.attention.in_proj.bias: 1 / 8, layer.feed_forward.fc1.weight: (6 / 192) ** 0.5,
        layer.feed_forward.fc2.weight: (6 / 192) ** 0.5, layer.feed_forward.fc2.bias: 128**-0.5,
        model.lm_head.weight: 1 / 8, model.decoder.relations.weight: (6 / (67 + 64)) ** 0.5,
        model.model.relations.weight: (6 / (65 + 64)) ** 0.5,
    }  # fmt: skip
    for weight, bound in bounds.items():
        assert 0.9 * bound < weight.abs().max() <= bound
        assert abs(weight.std().item() / bound - 3**-0.5) < 0.12
    assert model.model.embed_tokens.weight.std().item() == pytest.approx(1, abs=0.02)
    assert model.model.bos.weight.abs().max() == model.decoder.bos.weight.abs().max() == 0


# configuration and Auto classes


def test_sizes_of_the_paper() -> None:
    """The authors count 608,818 on CLUTRR, of which 40,000 are a projection that is thrown away."""
    relation = EdgeTransformerForRelationClassification(EdgeTransformerConfig(num_labels=18))
    assert relation.num_parameters() == 608_818 - 200**2
    rat = RelationAwareTransformerForRelationClassification(RelationAwareTransformerConfig(num_labels=18))
    assert rat.config.hidden_size == 320


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 7}, "hidden_size=7 is not a multiple of num_attention_heads=2"),
        ({"num_hidden_layers": 0}, "num_hidden_layers=0 must be at least 1"),
        ({"dropout": 1.0}, r"dropout=1.0 must be in \[0, 1\)"),
    ],
)
@pytest.mark.parametrize("config_class", [EdgeTransformerConfig, RelationAwareTransformerConfig])
def test_contradictions(config_class, changes: dict, message: str) -> None:
    with pytest.raises(StrictDataclassClassValidationError, match=message):
        config_class(**{"num_attention_heads": 2, "hidden_size": 6, **changes})


@pytest.mark.parametrize("name", ["graph", "sequence", "rat", "gat", "graph of words", "biaffine"])
def test_logits_have_a_matrix_of_their_own(name: str) -> None:
    with pytest.raises(StrictDataclassClassValidationError, match="tie_word_embeddings=True"):
        MODELS[name][1](**MODELS[name][2], tie_word_embeddings=True)


def test_more_contradictions() -> None:
    with pytest.raises(StrictDataclassClassValidationError, match=r"frozen_token_id=17.*vocab_size=17"):
        EdgeTransformerConfig(vocab_size=17, frozen_token_id=17)
    with pytest.raises(StrictDataclassClassValidationError, match="'triton' has no ablations"):
        EdgeTransformerConfig(triangular_implementation="triton", value_ablation=True)
    with pytest.raises(StrictDataclassFieldValidationError, match="triangular_implementation"):
        EdgeTransformerConfig(triangular_implementation="fast")
    with pytest.raises(ValueError, match="input_form='sequence'"):
        EdgeTransformerForConditionalGeneration(EdgeTransformerConfig())


def test_missing_and_superfluous_inputs() -> None:
    graph, sequence, words = tiny_edge("relation"), tiny_edge("sequence"), tiny_edge("translation")
    batch = edge_batch("relation")
    ids = torch.zeros(1, 2, dtype=torch.long)
    for model in (graph, tiny_edge("rat")):
        with pytest.raises(ValueError, match="query"):
            model(edge_ids=batch["edge_ids"])
    with pytest.raises(ValueError, match=r"edge_ids.*inputs_embeds.*input_form.*'graph'"):
        graph(input_ids=ids, query=batch["query"])
    with pytest.raises(ValueError, match=r"input_ids.*inputs_embeds.*input_form.*'sequence'"):
        sequence(edge_ids=batch["edge_ids"])
    with pytest.raises(ValueError, match=r"edge_ids.*inputs_embeds"):
        tiny_edge("rat nodes")()
    with pytest.raises(ValueError, match=r"decoder_input_ids.*decoder_inputs_embeds"):
        words(input_ids=ids)
    with pytest.raises(ValueError, match=r"edge_ids.*\(B, N, N\).*\(5, 5\)"):
        graph(edge_ids=torch.zeros(5, 5, dtype=torch.long), query=ids)
    with pytest.raises(ValueError, match=r"attention_mask.*node_mask"):
        graph(**batch, attention_mask=torch.ones_like(batch["node_mask"]))


def test_padding_before_target_words_is_refused() -> None:
    """Behind them it is harmless, and a mask that says so changes nothing."""
    words, batch = tiny_edge("translation"), edge_batch("translation")
    given = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    target = torch.tensor([[0, 3, 4]]).expand(len(batch["input_ids"]), 3)
    mask = torch.ones_like(target)
    expected = words(**given, decoder_input_ids=target).logits
    mask[:, 2] = 0
    masked = words(**given, decoder_input_ids=target, decoder_attention_mask=mask).logits
    assert torch.equal(masked, expected)
    with pytest.raises(ValueError, match="decoder_attention_mask"):
        words(**given, decoder_input_ids=target, decoder_attention_mask=mask.flip(1))


def test_embeddings_instead_of_ids() -> None:
    for name in ("graph", "sequence", "rat nodes", *WRITERS, "graph of words", "biaffine", "bilstm"):
        model, batch = tiny_edge(name), edge_batch(name)
        ids = "edge_ids" if "edge_ids" in batch else "input_ids"
        other = {key: value for key, value in batch.items() if key != ids}
        embeds = model.get_input_embeddings()(batch[ids])
        torch.testing.assert_close(first_output(model(**other, inputs_embeds=embeds)), first_output(model(**batch)))


@pytest.mark.parametrize("name", WITH_LOSS)
def test_loss_of_offloaded_weights(name: str) -> None:
    assert_same_loss_offloaded(tiny_edge(name), edge_batch(name))


@pytest.mark.parametrize("name", ["relation", "semantic graph", "dependencies", "rat", "gat", "biaffine"])
def test_accumulated_gradients_under_transformers_trainer(name: str, tmp_path: Path) -> None:
    """Two equal examples make the update of one."""
    batch = edge_batch(name)
    example = {key: tensor[0] for key, tensor in batch.items()}
    changes = {"dropout": 0.0, **({"node_init": "zeros"} if name == "gat" else {})}
    if name == "biaffine":
        changes["biaffine_dropout"] = 0.0
    weights = []
    for parts in (1, 2):
        model = tiny_edge(name, **changes)
        args = TrainingArguments(
            str(tmp_path), per_device_train_batch_size=1, gradient_accumulation_steps=parts, max_steps=1, optim="sgd",
            learning_rate=0.1, max_grad_norm=0.0, lr_scheduler_type="constant", remove_unused_columns=False,
            use_cpu=True, report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True,
        )  # fmt: skip
        Trainer(model, args, train_dataset=[example] * parts).train()
        weights.append(dict(model.named_parameters()))
    start = dict(tiny_edge(name, **changes).named_parameters())
    assert any(not torch.equal(start[key], weights[0][key]) for key in start)
    for key, weight in weights[0].items():
        torch.testing.assert_close(weights[1][key], weight, rtol=0, atol=1e-12)


def test_transformers_trainer_predicts(translation, tmp_path: Path) -> None:
    """Also where two batches have sources of two lengths."""
    args = TrainingArguments(str(tmp_path), per_device_eval_batch_size=2, use_cpu=True, report_to=[], disable_tqdm=True)
    rows = [{"input_ids": torch.arange(2, 2 + length), "labels": torch.arange(2, 5)} for length in (5, 5, 4, 4)]
    found = Trainer(translation, args).predict(rows)
    expected = [
        translation(input_ids=row["input_ids"][None], labels=row["labels"][None]).logits[0].detach() for row in rows
    ]
    torch.testing.assert_close(torch.tensor(found.predictions), torch.stack(expected))


@pytest.mark.parametrize("name", [*SEMANTIC_GRAPH, "dependencies", "biaffine"])
def test_transformers_trainer_predicts_parses(name: str, tmp_path: Path) -> None:
    """With the functions of the page, from batches of different lengths; each word has the answer that it has alone."""
    (page,) = (block.text for block in blocks(ROOT / "docs/models/parsers.md") if block.language == "python")
    functions: dict = {}
    exec(page, functions)
    best = functions["best_of_graph" if name in SEMANTIC_GRAPH else "best_heads"]
    model = tiny_edge(name)
    args = TrainingArguments(str(tmp_path), per_device_eval_batch_size=1, use_cpu=True, report_to=[], disable_tqdm=True)
    rows = [{"input_ids": torch.arange(2, 2 + length), "attention_mask": torch.ones(length)} for length in (3, 5, 2)]
    found = Trainer(model, args, preprocess_logits_for_metrics=best).predict(rows).predictions
    for index, row in enumerate(rows):
        with torch.no_grad():
            outputs = model(**{key: tensor[None] for key, tensor in row.items()})
        count = len(row["input_ids"])
        if name in SEMANTIC_GRAPH:
            kinds = [key for key in outputs if key.endswith("_logits")]
            assert len(found) == len(kinds) == 5
            for kind, answers in zip(kinds, found, strict=True):
                assert answers[index, :count].tolist() == outputs[kind][0].argmax(-1).tolist()
        else:
            assert found[index, :count].tolist() == outputs.logits[0, :, :, 1:].amax(-1).argmax(-1).tolist()


def test_more_words(translation) -> None:
    translation.resize_token_embeddings(23)
    assert translation.config.vocab_size == 23
    out = translation(input_ids=torch.tensor([[22]]), labels=torch.tensor([[21, 2]]))
    assert out.logits.shape == (1, 2, 23)


@pytest.mark.parametrize("name", ["graph", "relation", "rat", "rrat", "gat"])
def test_more_edge_labels(name: str, tmp_path: Path) -> None:
    model = tiny_edge(name)
    model.resize_token_embeddings(23)
    assert model.config.edge_vocab_size == 23
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    assert torch.equal(loaded.get_input_embeddings().weight, model.get_input_embeddings().weight)


@pytest.mark.parametrize("name", MODELS)
def test_saved_and_found_by_its_auto_class(name: str, tmp_path: Path) -> None:
    model, batch = tiny_edge(name), edge_batch(name, labels=False)
    if name in WRITERS:
        batch["decoder_input_ids"] = torch.zeros(BATCH, 2, dtype=torch.long)
    model.save_pretrained(tmp_path)
    loaded = AUTO[name].from_pretrained(tmp_path)
    assert type(loaded) is MODELS[name][0]
    with torch.no_grad():
        torch.testing.assert_close(first_output(loaded(**batch)), first_output(model(**batch)), rtol=0, atol=1e-14)
    base, loading = AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not loading["missing_keys"]
    assert not loading["unexpected_keys"]
    stored = load_file(tmp_path / "model.safetensors")
    vectors = sum(buffer.numel() for buffer in model.buffers())
    assert vectors == (13 * 6 if name == "gat" else 0)
    assert sum(tensor.numel() for tensor in stored.values()) == model.num_parameters() + vectors
    assert type(base) is REGISTERED[MODELS[name][1]][AutoModel]


STRANGER = """
for folder in sys.argv[1:]:
    batch = load_file(f"{folder}/batch.safetensors")
    auto = globals()[open(f"{folder}/auto").read()]
    model = copy.deepcopy(auto.from_pretrained(f"{folder}/saved", trust_remote_code=True))
    assert type(model).__module__.startswith("transformers_modules."), type(model)
    with torch.no_grad():
        out = model(**batch)
        found = {name: out[name].contiguous() for name in ("logits", "role_logits", "last_hidden_state") if name in out}
        if auto.__name__.endswith("Seq2SeqLM"):
            source = {name: batch[name] for name in ("input_ids", "attention_mask")}
            found["greedy"] = model.generate(**source, max_new_tokens=7)
            found["beam"] = model.generate(**source, max_new_tokens=7, num_beams=2).contiguous()
    save_file(found, f"{folder}/found.safetensors")
    AutoModel.from_pretrained(f"{folder}/saved", trust_remote_code=True)
    model.save_pretrained(f"{folder}/again")
"""


@pytest.fixture(scope="module")
def travelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every model, saved here and used by a process that cannot import the package."""
    folder = tmp_path_factory.mktemp("travel")
    for name in MODELS:
        (folder / name).mkdir()
        batch = edge_batch(name, labels=False)
        if name in WRITERS:
            batch["decoder_input_ids"] = torch.zeros(BATCH, 2, dtype=torch.long)
        save_file(batch, folder / name / "batch.safetensors")
        (folder / name / "auto").write_text(AUTO[name].__name__)
        tiny_edge(name).save_pretrained(folder / name / "saved")
    use_elsewhere(STRANGER, [folder / name for name in MODELS], tmp_path_factory.mktemp("elsewhere"))
    return folder


@pytest.mark.parametrize("name", MODELS)
def test_checkpoint_travels(name: str, travelled: Path) -> None:
    model, folder = tiny_edge(name), travelled / name
    batch, found = load_file(folder / "batch.safetensors"), load_file(folder / "found.safetensors")
    with torch.no_grad():
        expected = first_output(copy.deepcopy(model)(**batch))
    # where a file's tensors begin in memory decides the last bit of a matrix product
    travelled_output = next(found[key] for key in FIRST_OUTPUT if key in found)
    torch.testing.assert_close(travelled_output, expected, rtol=0, atol=1e-14)
    if name in WRITERS:
        source = {key: batch[key] for key in ("input_ids", "attention_mask")}
        assert torch.equal(found["greedy"], model.generate(**source, max_new_tokens=7))
        assert torch.equal(found["beam"], model.generate(**source, max_new_tokens=7, num_beams=2))
    assert_same_files(folder / "saved", folder / "again")
