"""A checkpoint brings its pipeline, which answers elsewhere too."""

from __future__ import annotations

import json
from pathlib import Path

import edge_tiny
import pytest
import torch
from saved_elsewhere import use_elsewhere
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

from hf_sysgen.data.text.vocabulary import sentence_tokenizer
from hf_sysgen.zoo import zoo_folder

TEXTS = ["jump twice", "walk around left"]
SENTENCE = " ".join(f"w{index}" for index in range(15))


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model of the zoo, saved with its code."""
    folder = tmp_path_factory.mktemp("writer")
    checkpoint = zoo_folder("scan_length26_quick_relative_universal")
    AutoModelForSeq2SeqLM.from_pretrained(checkpoint).save_pretrained(folder)
    AutoTokenizer.from_pretrained(checkpoint).save_pretrained(folder)
    return folder


def parser(name: str, folder: Path, **changes) -> Path:
    model = edge_tiny.tiny_edge(name, **changes).float()
    model.save_pretrained(folder)
    sentence_tokenizer([SENTENCE], root="ROOT").save_pretrained(folder)
    return folder


def test_sequences(writer: Path) -> None:
    answers = pipeline(model=str(writer), trust_remote_code=True)(TEXTS)
    assert answers == [
        [{"generated_text": "I_JUMP I_JUMP"}], [{"generated_text": " ".join(["I_TURN_LEFT I_WALK"] * 4)}]
    ]  # fmt: skip
    short = pipeline(model=str(writer), trust_remote_code=True)(TEXTS[0], max_new_tokens=1)
    assert short == [{"generated_text": "I_JUMP"}]


def test_a_batch_of_texts_has_the_answers_of_each(writer: Path) -> None:
    answer = pipeline(model=str(writer), trust_remote_code=True)
    options = {"num_beams": 2, "num_return_sequences": 2}
    assert answer(TEXTS, batch_size=2, **options) == [answer(text, **options) for text in TEXTS]


@pytest.mark.parametrize("name", [*edge_tiny.SEMANTIC_GRAPH, *edge_tiny.DEPENDENCIES])
def test_a_batch_of_sentences_has_the_graph_of_each(name: str, tmp_path: Path) -> None:
    answer = pipeline(model=str(parser(name, tmp_path)), trust_remote_code=True)
    sentences = [SENTENCE, "w1 w2 w3", "w5", "w4 w7"]
    assert answer(sentences, batch_size=3) == [answer(sentence) for sentence in sentences]


@pytest.mark.parametrize("name", edge_tiny.SEMANTIC_GRAPH)
def test_semantic_graphs(name: str, tmp_path: Path) -> None:
    answer = pipeline(model=str(parser(name, tmp_path)), trust_remote_code=True)(SENTENCE)
    assert [row["word"] for row in answer] == ["ROOT", *SENTENCE.split()]
    assert all(row["parent"] in range(16) and row["verb"] in range(11) for row in answer)
    assert {"role", "category", "noun_type"} < set(answer[0])


@pytest.mark.parametrize("name", edge_tiny.DEPENDENCIES)
def test_dependencies(name: str, tmp_path: Path) -> None:
    answer = pipeline(model=str(parser(name, tmp_path)), trust_remote_code=True)(SENTENCE)
    assert [row["word"] for row in answer] == SENTENCE.split()
    assert all(
        row["head"] in range(16) and row["label"] in [f"LABEL_{label}" for label in range(1, 5)] for row in answer
    )


def test_without_the_package(writer: Path, tmp_path: Path) -> None:
    graph = parser("semantic graph", tmp_path / "graph")
    (tmp_path / "home").mkdir()
    torch.save([pipeline(model=str(folder), trust_remote_code=True)("w1 w2" if folder == graph else TEXTS[0])
                for folder in (writer, graph)], tmp_path / "expected.pt")  # fmt: skip
    code = """
from transformers import pipeline

writer, graph, expected = sys.argv[1:]
found = [pipeline(model=writer, trust_remote_code=True)("jump twice")]
found.append(pipeline(model=graph, trust_remote_code=True)("w1 w2"))
assert found == torch.load(expected), found
"""
    use_elsewhere(code, [writer, graph, tmp_path / "expected.pt"], tmp_path / "home")
    tasks = json.loads((graph / "config.json").read_text())["custom_pipelines"]
    assert list(tasks) == ["semantic-graph"]
