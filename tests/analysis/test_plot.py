"""Plots of checkpoints and examples: their numbers, and the output of the commands."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from unittest import mock

import pytest
import torch
from made_examples import any_benchmark, made_examples
from made_records import made_record, made_rows
from tiny_runs import SMALL, read_lines, tiny_recipe
from transformers import GenerationConfig
from typer.testing import CliRunner

import hf_sysgen.analysis.plot
import hf_sysgen.training.tasks.registry
from hf_sysgen.analysis.attention import (
    Maps,
    attention_maps,
    distance_preferences,
    position_maps,
    read_input,
    read_story,
    record,
    story_attention,
)
from hf_sysgen.analysis.attention_plots import draw_maps, draw_story
from hf_sysgen.analysis.graph_plots import draw_queries, draw_words
from hf_sysgen.analysis.graphs import QueryGraph, WordGraph, cogs_forms, cogs_labels, parse_query, trees
from hf_sysgen.analysis.plotting import BLUE, GREY, ORANGE
from hf_sysgen.analysis.stories import Story, parse_story
from hf_sysgen.cli.main import app
from hf_sysgen.data.cogs.graph_forms import to_graph
from hf_sysgen.data.text.vocabulary import build_vocabulary, sentence_tokenizer
from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.checkpoints import load_any_checkpoint
from hf_sysgen.models import CONFIGS, MODELS
from hf_sysgen.models.positions import sinusoids
from hf_sysgen.results.record import write_record
from hf_sysgen.training.run import run_recipe

VOCABULARY = build_vocabulary(["jump left twice", "walk and look"], ["I_JUMP I_LEFT", "I_WALK I_LOOK"])
JOINT = build_vocabulary(["jump left twice"], ["I_JUMP"], joint=True, start=False)
STORY = Story(["Ann", "Bob", "Cy"], [(0, 1), (1, 2)], ["wife", "son"], (0, 2))
HEADS, WIDTH = 2, 8


def tiny(model_type: str, number: int = -1, **fields):
    """A model with distinct weights; `number` selects one of its classes."""
    shared = {"num_attention_heads": HEADS, "hidden_size": WIDTH, "intermediate_size": 5}
    sizes = {**shared, "encoder_layers": 2, "decoder_layers": 3, "num_hidden_layers": 3}
    config_class = CONFIGS[model_type]
    if "source_vocab_size" in config_class.__dataclass_fields__:
        sizes |= {
            "vocab_size": VOCABULARY.vocab_size,
            "source_vocab_size": VOCABULARY.source_vocab_size,
            "source_id_offset": VOCABULARY.source_id_offset,
        }
    eos = VOCABULARY.tokenizer.eos_token_id
    ids = dict.fromkeys(("pad_token_id", "eos_token_id", "decoder_start_token_id"), eos)
    sizes = {key: size for key, size in (sizes | ids).items() if key in config_class.__dataclass_fields__}
    torch.manual_seed(3)
    classes = [
        one for heads in MODELS[config_class].values() for one in (heads if isinstance(heads, tuple) else (heads,))
    ]
    model = classes[number](config_class(**{**sizes, **fields})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.4 * torch.randn_like(parameter))
    model.generation_config = GenerationConfig(max_new_tokens=4, **ids)
    return model


def edge_on_stories(**fields):
    return tiny("edge_transformer", edge_vocab_size=5, edge_labels=["", "son", "wife"], num_labels=4, **fields)


ENCODER_DECODERS = [
    ("relative_universal_transformer", {"encoder": 2, "decoder": 3, "decoder to encoder": 3}),
    ("sag_conv_transformer", {"decoder to encoder": 3}),
    ("lstm_seq2seq", {"decoder to encoder": 1}),
    ("conv_seq2seq", {"decoder to encoder": 3}),
]


@pytest.mark.parametrize(("model_type", "expected"), ENCODER_DECODERS)
def test_every_layer_and_head(model_type, expected):
    """Layers that share weights appear once for each depth; rows are distributions."""
    fields = {"decoder_layers": 2} if model_type == "lstm_seq2seq" else {}
    model = tiny(model_type, **fields)
    reading = read_input(model, VOCABULARY.tokenizer, "jump left", "I_JUMP I_LOOK")
    maps = attention_maps(model, reading)
    assert {one.kind: len(one.layers) for one in maps} == expected
    assert (reading.decoded, reading.written) == (["</s>", "I_JUMP", "I_LOOK"], ["I_JUMP", "I_LOOK", "</s>"])
    for one in maps:
        for weights in one.layers:
            assert weights.shape[1:] == (len(one.queries), len(one.keys))
            torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:2]))
    cross = maps[-1]
    assert cross.queries == reading.written
    # a convolutional encoder has its own symbols
    assert cross.keys == reading.read
    assert cross.keys[-3:-1] == ["jump", "left"]


def test_weights_are_those_of_the_model_and_it_is_put_back():
    model = tiny("relative_transformer")
    before = model.config._attn_implementation
    reading = read_input(model, VOCABULARY.tokenizer, "walk", "I_WALK")
    _, decoder, _ = attention_maps(model, reading)
    assert model.config._attn_implementation == before
    model.set_attn_implementation("eager")
    outputs = model(**reading.inputs, output_attentions=True)
    torch.testing.assert_close(decoder.layers[1], outputs.decoder_attentions[1][0].detach())


def test_what_a_model_writes_is_what_it_is_shown_to_read():
    model = tiny("relative_transformer")
    reading = read_input(model, VOCABULARY.tokenizer, "walk and look")
    logits = model(**reading.inputs).logits[0]
    assert VOCABULARY.tokenizer.convert_ids_to_tokens(logits.argmax(-1)) == reading.written
    assert reading.decoded[1:] == reading.written[:-1]


def test_a_decoder_alone_reads_prompt_and_answer():
    model = tiny("depth_width_decoder", vocab_size=JOINT.vocab_size)
    reading = read_input(model, JOINT.tokenizer, "jump left", "I_JUMP")
    assert reading.read == ["jump", "left", "</s>", "I_JUMP"]
    (maps,) = attention_maps(model, reading)
    assert [weights.shape for weights in maps.layers] == [(HEADS, 4, 4)] * 3
    assert not maps.layers[0].triu(1).any()


def test_loop_edges_of_sentences():
    tokenizer = sentence_tokenizer(["a cat saw"])
    model = tiny("edge_transformer", 2, input_form="sequence", vocab_size=len(tokenizer), max_relative_distance=2)
    assert type(model).__name__ == "EdgeTransformerForGraphParsing"
    reading = read_input(model, tokenizer, "a cat saw")
    (maps,) = attention_maps(model, reading)
    weights = record(model, reading).attentions[1][0]
    for head in range(HEADS):
        for node in range(3):
            for way in range(3):
                assert maps.layers[1][head, node, way] == weights[head, node, way, node]
    assert maps.queries == maps.keys == ["a", "cat", "saw"]


def test_the_edge_in_question():
    model = edge_on_stories()
    reading = read_story(model, STORY)
    assert reading.inputs["edge_ids"].tolist() == [[[0, 2, 0], [0, 0, 1], [0, 0, 0]]]
    layers, probabilities = story_attention(model, reading)
    outputs = record(model, reading)
    for ours, weights in zip(layers, outputs.attentions, strict=True):
        assert ours.tolist() == [[weights[0, head, 0, way, 2].item() for way in range(3)] for head in range(HEADS)]
        torch.testing.assert_close(ours.sum(1), torch.ones(HEADS))
    torch.testing.assert_close(probabilities, outputs.logits[0].softmax(-1))
    (maps,) = attention_maps(model, reading)
    assert maps.queries[2] == "Ann → Cy"
    torch.testing.assert_close(maps.layers[1][:, 2], layers[1])


def test_both_nodes_in_question():
    model = tiny("relation_aware_transformer", edge_vocab_size=5, edge_labels=["", "son", "wife"])
    reading = read_input(model, None, "Ann wife Bob, Bob son Cy, Ann ? Cy")
    layers, _ = story_attention(model, reading)
    weights = record(model, reading).attentions[2][0]
    torch.testing.assert_close(layers[2], (weights[:, 0] + weights[:, 2]) / 2)


def test_stories():
    assert parse_story("Ann wife Bob, Bob son Cy , Ann ? Cy") == STORY
    for text in ("Ann wife", "Ann wife Ann, Ann ? Bob", "Ann wife Bob", "Ann ? Bob", "A son B, A ? B, B ? A"):
        with pytest.raises(UserError, match="expected"):
            parse_story(text)
    with pytest.raises(UserError, match="two relations of Ann to Bob"):
        parse_story("Bob wife Ann, Bob son Ann, Bob ? Ann")
    with pytest.raises(UserError, match="Dan has no relation"):
        parse_story("Bob wife Ann, Dan ? Ann")
    with pytest.raises(UserError, match=r"'friend'.*son, wife"):
        read_input(edge_on_stories(), None, "Ann friend Bob, Ann ? Bob")


def test_layers_that_do_not_fill_the_rows_of_a_story():
    layers = [torch.rand(2, len(STORY.people)) for _ in range(7)]
    titles = [axes.get_title() for axes in draw_story(STORY, layers, "").axes]
    assert [title for title in titles if title] == [f"layer {index}" for index in range(7)]


def test_large_stories_stand_below_each_other():
    """No picture is wider than a page or one graph."""
    story = Story([f"p{index}" for index in range(71)], [(0, 1)], ["wife"], (0, 1))
    figures = [draw_story(story, [torch.rand(1, 71)] * count, "") for count in (1, 3)]
    assert figures[0].get_figwidth() == figures[1].get_figwidth()
    assert figures[1].get_figheight() > figures[0].get_figheight()


def test_layers_may_have_fewer_heads():
    maps = Maps("nodes", [torch.rand(heads, 2, 3) for heads in (3, 1)], ["a", "b"], ["c", "d", "e"], "")
    titles = [axes.get_title() for axes in draw_maps([maps], "").axes if axes.axison]
    assert titles == [*(f"layer 0, head {head}" for head in range(3)), "layer 1, head 0", ""]


def test_figure_1():
    """Appendix C: exp(b_d) / sum_d exp(b_d) over all distances; the decoder's plot has no future positions."""
    model = tiny("sag_t5_transformer", attention_span=2)
    encoder, decoder = distance_preferences(model)
    assert (encoder.distances, decoder.distances) == ([-2, -1, 0, 1, 2], [-2, -1, 0])
    for found, stack in ((encoder, model.model.encoder), (decoder, model.model.decoder)):
        for layer, preferences in zip(stack.layers, found.layers, strict=True):
            for head in range(HEADS):
                exponentials = [math.exp(bias) for bias in layer.self_attn.distance_bias[head].tolist()]
                expected = [value / sum(exponentials) for value in exponentials][: len(found.distances)]
                assert preferences[head].tolist() == pytest.approx(expected, rel=1e-5)


def test_biases_of_relative_attention():
    """v r_d / sqrt(D), with r_d the projected sinusoids of the distance; one layer if depths share it."""
    model = tiny("relative_universal_transformer")
    encoder, decoder = distance_preferences(model, reach=3)
    assert (len(encoder.layers), len(decoder.layers), decoder.distances) == (1, 1, [-3, -2, -1, 0])
    attention = model.model.encoder.layers[0].self_attn
    for head in range(HEADS):
        scores = []
        for distance in range(-3, 4):
            projected = attention.pos_proj.weight.detach() @ sinusoids(torch.tensor([distance]), WIDTH)[0]
            score = attention.v[head].detach() @ projected.view(HEADS, -1)[head]
            scores.append(float(score) / math.sqrt(WIDTH / HEADS))
        expected = torch.tensor(scores).softmax(0)
        torch.testing.assert_close(encoder.layers[0][head], expected, atol=1e-5, rtol=1e-4)


def test_positions_on_an_input():
    """For T5 the same biases by distance, over visible keys; far distances have the bias of the last one."""
    model = tiny("sag_t5_transformer", attention_span=1)
    reading = read_input(model, VOCABULARY.tokenizer, "jump left twice", "I_JUMP I_LEFT")
    encoder, decoder = position_maps(model, reading)
    for found, stack, reach in ((encoder, model.model.encoder, 9), (decoder, model.model.decoder, 0)):
        for layer, weights in zip(stack.layers, found.layers, strict=True):
            bias = layer.self_attn.distance_bias.tolist()
            for head, rows in enumerate(weights.tolist()):
                for query, row in enumerate(rows):
                    keys = [key for key in range(len(row)) if key - query <= reach]
                    scores = [math.exp(bias[head][max(-1, min(1, key - query)) + 1]) for key in keys]
                    assert row[: len(keys)] == pytest.approx([score / sum(scores) for score in scores], rel=1e-5)
                    assert all(math.isnan(weight) for weight in row[len(keys) :])
    assert "position_bias" not in vars(model.model.encoder.layers[0].self_attn)


def test_positions_of_spans_and_shared_biases():
    (encoder, _) = position_maps(
        span := tiny("sag_fixed_span_transformer", attention_span=1),
        read_input(span, VOCABULARY.tokenizer, "jump left twice", "I_JUMP"),
    )
    torch.testing.assert_close(encoder.layers[0][0, 0, :2], torch.tensor([0.5, 0.5]))
    assert encoder.layers[0][0, 0, 2:].isnan().all()
    model = tiny("depth_width_decoder", vocab_size=JOINT.vocab_size, position_scheme="relative_bias")
    (maps,) = position_maps(model, read_input(model, JOINT.tokenizer, "jump left", "I_JUMP"))
    bias = model.model.relative_bias.weight[1, :3].detach()
    torch.testing.assert_close(maps.layers[0][1, 2, :3], bias.flip(0).softmax(0))
    (found,) = distance_preferences(model, reach=2)
    torch.testing.assert_close(found.layers[0][1], bias.flip(0).softmax(0))


def test_t5_with_one_block():
    buckets = {"relative_attention_num_buckets": 6, "relative_attention_max_distance": 4}
    model = tiny("universal_t5_transformer", vocab_size=JOINT.vocab_size, **buckets)
    reading = read_input(model, JOINT.tokenizer, "jump left twice", "I_JUMP I_JUMP")
    assert {one.kind: len(one.layers) for one in attention_maps(model, reading)} == {
        "encoder": 2, "decoder": 3, "decoder to encoder": 3,
    }  # fmt: skip
    encoder, decoder = position_maps(model, reading)
    tables = [
        stack.block.block.layer[0].SelfAttention.relative_attention_bias.weight.detach().T
        for stack in (model.encoder, model.decoder)
    ]
    # of six buckets the first three are of what stands before: 0, 1, further; the others of what follows
    expected = tables[0][:, [1, 0, 4, 5]].softmax(-1)
    torch.testing.assert_close(encoder.layers[0][:, 1], expected)
    assert encoder.queries == ["jump", "left", "twice", "</s>"]
    torch.testing.assert_close(decoder.layers[0][:, 2], tables[1][:, [2, 1, 0]].softmax(-1))
    assert decoder.layers[0][:, 1, 2].isnan().all()
    assert decoder.queries == ["I_JUMP", "I_JUMP", "</s>"]
    encoder, decoder = distance_preferences(model, reach=2)
    assert (encoder.distances, decoder.distances) == ([-2, -1, 0, 1, 2], [-2, -1, 0])
    torch.testing.assert_close(encoder.layers[0], tables[0][:, [2, 1, 0, 4, 5]].softmax(-1))
    torch.testing.assert_close(decoder.layers[0], tables[1][:, [2, 1, 0]].softmax(-1))


def test_sentences_that_are_labelled():
    """An encoder alone. Its biases are by query minus key, the figure's by key minus query."""
    tokenizer = sentence_tokenizer(["a cat saw"])
    model = tiny("transformer_graph_parser", vocab_size=len(tokenizer), max_relative_distance=1, share_layers=False)
    reading = read_input(model, tokenizer, "a cat saw")
    (maps,) = attention_maps(model, reading)
    (positions,) = position_maps(model, reading)
    assert len(maps.layers) == len(positions.layers) == 3
    assert maps.layers[0].shape == positions.layers[0].shape == (HEADS, 3, 3)
    (found,) = distance_preferences(model)
    numbers = model.model.layers[2].self_attn.distances.weight[:, -1].detach() / math.sqrt(WIDTH / HEADS)
    assert found.distances == [-1, 0, 1]
    torch.testing.assert_close(found.layers[2][0], numbers.softmax(0).flip(0))


def test_what_a_model_has_not():
    model = tiny("sysgen_transformer")
    reading = read_input(model, VOCABULARY.tokenizer, "jump", "I_JUMP")
    name = type(model).__name__
    with pytest.raises(UserError, match=name):
        distance_preferences(model)
    with pytest.raises(UserError, match=name):
        position_maps(model, reading)
    stories = edge_on_stories()
    with pytest.raises(UserError, match=type(stories).__name__):
        read_input(stories, None, "Ann wife Bob, Ann ? Bob", "son")


def test_graphs_of_cogs():
    sentence, form = (
        "Emma saw the cat .",
        "* cat ( x _ 3 ) ; see . agent ( x _ 1 , Emma ) AND see . theme ( x _ 1 , x _ 3 )",
    )
    graph = to_graph(sentence, form)._asdict()
    wrong = {**graph, "roles": ["theme", "", "", "theme", ""]}
    gold, predicted = cogs_labels(*made_rows([{"input": sentence, **graph, "prediction": wrong, "exact": False}]))
    assert gold.words == sentence.split()
    assert (gold.parents, gold.roles) == ([1, -1, -1, 1, -1], ["agent", "", "", "theme", ""])
    assert gold.labels == ["PNOUN", "VERB see", "", "CNOUN DEF", ""]
    assert predicted.roles[0] == "theme"
    texts = [text.get_text() for text in draw_words(gold, predicted, "").axes[0].texts]
    assert (texts.count("agent"), texts.count("theme")) == (1, 3)
    text = {"input": sentence, "target": form, "exact": False}
    right, malformed = made_rows([{**text, "prediction": form}, {**text, "prediction": "see . agent ("}])
    assert cogs_forms(right) == (gold, gold)
    assert cogs_forms(malformed) == (gold, None)


def test_arcs_have_the_colour_of_what_they_are():
    """Grey: right; blue: missed; orange: wrong."""
    gold = WordGraph(["a", "b", "c"], [1, -1, 1], ["subject", "root", "object"], ["", "", ""])
    predicted = replace(gold, parents=[1, -1, 0], roles=["subject", "root", "time"])
    (axes,) = draw_words(gold, predicted, "").axes
    colours = {(text.get_text(), text.get_color()) for text in axes.texts if text.get_text() in [*gold.roles, "time"]}
    assert colours == {("subject", GREY), ("root", GREY), ("object", BLUE), ("time", ORANGE)}


def test_words_stand_beside_each_other():
    (axes,) = draw_words(WordGraph(["a", "b", "c"], [1, -1, 1], ["s", "r", "o"], ["", "", ""]), None, "").axes
    places = [text.get_position() for text in axes.texts if text.get_text() in ("a", "b", "c")]
    assert len({height for _, height in places}) == 1
    assert places == sorted(places)


def test_trees_count_from_one():
    counts = {"exact": False, "tokens": 3, "correct_heads": 0, "correct_arcs": 0}
    texts = {"input": "did M0 act", "target": "3:AUX 3:NSUBJ 0:ROOT", "prediction": "2:AUX 0:ROOT 2:OBJ"}
    gold, predicted = trees(*made_rows([texts | counts]))
    assert (gold.parents, predicted.parents) == ([2, 2, -1], [1, -1, 1])
    assert predicted.roles == ["AUX", "ROOT", "OBJ"]


def test_queries():
    text = "SELECT DISTINCT ?x0 WHERE { ?x0 a film.actor . ?x0 people.person.gender M1 . FILTER ( ?x0 != M2 ) }"
    graph = QueryGraph(
        frozenset({"?x0"}), {"?x0": frozenset({"film.actor"})}, frozenset({("?x0", "people.person.gender", "M1")}),
        frozenset({frozenset({"?x0", "M2"})}),
    )  # fmt: skip
    assert parse_query(text) == graph
    assert parse_query("SELECT count ( * ) WHERE { M0 a b }").selected == frozenset()
    # as the Edge Transformer's targets have them
    assert parse_query(text.lower()) == replace(
        graph, edges=frozenset({("?x0", "people.person.gender", "m1")}), filters=frozenset({frozenset({"?x0", "m2"})})
    )
    assert parse_query("select count(*) where { M0 a b }").types == {"M0": frozenset({"b"})}
    for wrong in ("SELECT DISTINCT ?x0 WHERE { ?x0 a film.actor", "", "SELECT count ( * ) WHERE { M0 a b c }"):
        with pytest.raises(UserError):
            parse_query(wrong)
    # what both have is grey, also a filter
    for other, colour in ((graph, GREY), (replace(graph, filters=frozenset()), BLUE)):
        (filters,) = (one for one in draw_queries(graph, other, "").axes[0].texts if one.get_text() == "≠")
        assert filters.get_color() == colour
    right, predicted = draw_queries(graph, None, "").axes
    assert "gender" in [text.get_text() for text in right.texts]
    assert not predicted.texts


def invoke(*words):
    return CliRunner().invoke(app, ["plot", *map(str, words)])


@pytest.fixture
def checkpoint(tmp_path):
    tiny("sag_t5_transformer").save_pretrained(tmp_path / "t5")
    VOCABULARY.tokenizer.save_pretrained(tmp_path / "t5")
    return tmp_path / "t5"


def test_commands_write_pictures(checkpoint, tmp_path):
    done = invoke("attention", checkpoint, "jump left", "-o", tmp_path / "new" / "maps.png")
    assert done.exit_code == 0, done.output
    assert str(tmp_path / "new" / "maps.png") in done.stdout
    assert invoke("attention", checkpoint, "jump", "--positions", "-o", tmp_path / "maps.svg").exit_code == 0
    assert invoke("biases", checkpoint, "-o", tmp_path / "biases.png").exit_code == 0
    edge_on_stories(id2label={0: "son", 1: "wife", 2: "a", 3: "b"}).save_pretrained(tmp_path / "edge")
    done = invoke("story", tmp_path / "edge", "Ann wife Bob, Bob son Cy, Ann ? Cy", "-o", tmp_path / "story.png")
    assert done.stdout.startswith("Ann → Cy: ")
    for name in ("new/maps.png", "biases.png", "story.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_commands_say_in_a_line_what_is_wrong(checkpoint, tmp_path):
    picture = tmp_path / "a.png"
    wrong = {
        (checkpoint, "jump", "-o", tmp_path / "a.txt"): "a.txt",
        (checkpoint, "fly", "-o", picture): "'fly'",
        (checkpoint, "jump", "--target", "I_FLY", "-o", picture): "'I_FLY'",
        (tmp_path, "jump", "-o", picture): "config.json",
    }
    for words, message in wrong.items():
        done = invoke("attention", *words)
        assert (done.exit_code, message in done.stderr, len(done.stderr.splitlines())) == (2, True, 1), done.output
    assert not picture.exists()


def test_examples_of_runs(tmp_path):
    row = {"split": "test", "row": 4, "exact": False, "input": "did M0 act", "target": "3:AUX 3:NSUBJ 0:ROOT",
           "prediction": "2:AUX 0:ROOT 2:OBJ"}  # fmt: skip
    (tmp_path / "predictions.jsonl").write_text(json.dumps(row) + "\n")
    benchmark = {"data.benchmark": "cfq_dependencies"}
    write_record(tmp_path / "results.json", made_record(recipe_values=benchmark))
    done = invoke("example", tmp_path, "--row", 4, "-o", tmp_path / "tree.png")
    assert "did M0 act" in done.stdout, done.output
    missing = invoke("example", tmp_path, "--row", 3, "-o", tmp_path / "b.png")
    assert (missing.exit_code, "example 3" in missing.stderr) == (2, True)
    write_record(tmp_path / "results.json", made_record(recipe_values={"data.benchmark": "scan"}))
    other = invoke("example", tmp_path, "-o", tmp_path / "b.png")
    assert (other.exit_code, "scan" in other.stderr) == (2, True)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Benchmark -> folder of a run on made graphs that has learnt a part of them."""
    folders = {}
    for benchmark, config in (("clutrr", "gen_train234_test2to10"), ("cogs_graph", "gen_2020")):
        folder = tmp_path_factory.mktemp(benchmark)
        recipe = tiny_recipe(
            folder, model="edge_transformer", benchmark=benchmark, config=config, max_steps=30, size=16,
            eval_steps=None, save_steps=30, num_hidden_layers=2, dropout=0.0, learning_rate=0.005,
        )  # fmt: skip
        with mock.patch.object(hf_sysgen.training.tasks.registry, "load_benchmark", any_benchmark):
            run_recipe(recipe)
        folders[benchmark] = folder / "run"
    return folders


@pytest.fixture
def drawn(monkeypatch):
    """The figures that are saved."""
    figures = []
    monkeypatch.setattr(hf_sysgen.analysis.plot, "save", lambda figure, path: figures.append((figure, path)))
    return figures


@pytest.mark.parametrize("row", [0, 1, 2])
def test_a_story_of_a_run(row, runs, drawn, tmp_path, monkeypatch):
    """People, relations and question in each layer, with the attention weights of the run's model."""
    monkeypatch.setattr(hf_sysgen.analysis.plot, "load_benchmark", any_benchmark)
    example = made_examples("clutrr")["test"][row]
    done = invoke("example", runs["clutrr"], "--row", row, "-o", tmp_path / "story.png")
    assert done.exit_code == 0, done.output
    ((figure, path),) = drawn
    assert path == tmp_path / "story.png"
    people = example["names"][: 1 + max(map(max, example["edges"]))]
    first, last = (people[node] for node in example["query_edge"])
    (record,) = (one for one in read_lines(runs["clutrr"] / "predictions.jsonl") if _is_row(one, row))
    answer = rf"{first} → {last}: {record['prediction']} .*{example['target']}"
    assert re.search(answer, figure.get_suptitle())
    assert re.match(answer, done.stdout)

    model, _ = load_any_checkpoint(runs["clutrr"])
    story = Story(people, [tuple(edge) for edge in example["edges"]], example["edge_types"], example["query_edge"])
    expected, _ = story_attention(model, read_story(model, story))
    *panels, _ = figure.axes
    above, below = panels[: len(expected)], panels[len(expected) :]
    for axes, maps, weights in zip(above, below, expected, strict=True):
        texts = [text.get_text() for text in axes.texts]
        means = [f"{float(weight):.2f}".lstrip("0") for weight in weights.mean(0)]
        relations = dict(zip(story.edges, story.relations, strict=True))
        assert sorted(texts) == sorted([*people, *means, *relations.values(), "?"])
        torch.testing.assert_close(torch.tensor(maps.images[0].get_array()), weights)
    missing = invoke("example", runs["clutrr"], "--row", SMALL["test"], "-o", tmp_path / "b.png")
    assert (missing.exit_code, "example 13" in missing.stderr) == (2, True)


def _is_row(record, row):
    return (record["split"], record["row"]) == ("test", row)


@pytest.mark.parametrize("row", range(6))
def test_a_graph_of_a_run(row, runs, drawn, tmp_path):
    """Gold arcs above the words, predicted ones below, in the colours of right, missed and wrong ones."""
    example = made_examples("cogs_graph")["test"][row]
    (record,) = (one for one in read_lines(runs["cogs_graph"] / "predictions.jsonl") if _is_row(one, row))
    done = invoke("example", runs["cogs_graph"], "--row", row, "-o", tmp_path / "graph.png")
    said = "right" if record["exact"] else "wrong"
    assert done.stdout.startswith(f"{said}: {example['input']}"), done.output
    ((figure, _),) = drawn
    assert figure.get_suptitle().endswith(f"{said}: {example['input']}")
    (axes,) = figure.axes
    shown = [(text.get_text(), text.get_color()) for text in axes.texts]
    assert {word for word, _ in shown} >= set(example["input"].split())
    # what both agree on is grey above and below; else the right arc is blue and the predicted one orange
    arcs = [
        set(zip(range(99), graph["parents"], graph["roles"], strict=False)) for graph in (example, record["prediction"])
    ]
    for ours, other, wrong in ((*arcs, BLUE), (*reversed(arcs), ORANGE)):
        for child, parent, role in ours:
            if parent >= 0 or role:
                assert (role, GREY if (child, parent, role) in other else wrong) in shown


def test_the_plotted_runs_have_right_and_wrong_examples(runs):
    """Otherwise the test above checks no colour."""
    rows = [row for row in read_lines(runs["cogs_graph"] / "predictions.jsonl") if row["split"] == "test"][:6]
    assert {row["exact"] for row in rows} == {True, False}
