"""A tokenizer trained on text: any text round-trips, training is deterministic, the command."""

from __future__ import annotations

import json

import datasets
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tiny_runs import command
from tiny_text import text_benchmark, texts, write_text
from transformers import AutoTokenizer
from typer.testing import CliRunner

import hf_sysgen.data.registry
import hf_sysgen.data.text.byte_pairs
from hf_sysgen.cli.main import app
from hf_sysgen.data import DataError
from hf_sysgen.data.c4.packing import PackedTokens
from hf_sysgen.data.text.byte_pairs import save_byte_pairs, train_byte_pairs

TOKENIZER = train_byte_pairs(texts(), 300)


def test_ids():
    vocabulary = TOKENIZER.get_vocab()
    assert sorted(vocabulary.values()) == list(range(300))
    assert TOKENIZER.eos_token_id == vocabulary["</s>"] == 0
    # merges were learned: a frequent word is one subword
    assert len(TOKENIZER(" small")["input_ids"]) == 1
    assert len(TOKENIZER(" grxq")["input_ids"]) == 5


@settings(max_examples=30)
@given(st.text())
@example("the </s> cat</s>")
def test_any_text_is_written_and_read_back(text):
    assert TOKENIZER.decode(TOKENIZER(text)["input_ids"]) == text


def test_line_ends_and_blanks_are_kept():
    text = "  two  blanks\n\n\ttab é 漢字 \U0001f600\r\n "
    assert TOKENIZER.decode(TOKENIZER(text)["input_ids"]) == text


def test_a_symbol_in_a_text_is_text(tmp_path):
    """Also after saving; the end of a document is still the symbol."""
    TOKENIZER.save_pretrained(tmp_path)
    text = "the cat</s> sees </s>"
    documents = datasets.Dataset.from_dict({"text": [text]}).to_iterable_dataset()
    for tokenizer in (TOKENIZER, AutoTokenizer.from_pretrained(tmp_path)):
        ids = tokenizer(text)["input_ids"]
        assert tokenizer.eos_token_id not in ids
        assert tokenizer.decode(ids) == tokenizer.decode(ids, skip_special_tokens=True) == text
        (block,) = PackedTokens(documents, tokenizer)
        assert block["input_ids"].tolist() == [*ids, tokenizer.eos_token_id]


def test_the_same_texts_give_the_same_tokenizer(tmp_path):
    """In another process too, whose hashes of strings differ."""
    code = (
        "import json; from hf_sysgen.data.text.byte_pairs import train_byte_pairs as train; "
        "train(json.load(open('texts.json')), 300).save_pretrained('there')"
    )
    (tmp_path / "texts.json").write_text(json.dumps(texts()))
    done = command(["-c", code], tmp_path)
    assert done.returncode == 0, done.stderr
    TOKENIZER.save_pretrained(tmp_path / "here")
    files = [(tmp_path / name / "tokenizer.json").read_bytes() for name in ("here", "there")]
    assert files[0] == files[1]
    assert AutoTokenizer.from_pretrained(tmp_path / "there").get_vocab() == TOKENIZER.get_vocab()


def test_command(tmp_path):
    data, folder = write_text(tmp_path / "text"), tmp_path / "tokenizer"
    words = ["data", "tokenizer", str(folder), "--vocab-size", "290", "--documents", "100", "--data-dir", str(data)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("290 subwords from 100 documents, ")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert len(tokenizer) == 290
    documents = text_benchmark()["validation"]
    assert len(next(iter(PackedTokens(documents, tokenizer, 5)))["input_ids"]) == 5
    again = CliRunner().invoke(app, words)
    assert again.exit_code == 2
    assert str(tmp_path / "tokenizer") in again.stderr


def test_errors(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="vocab_size 256"):
        train_byte_pairs(["a"], 256)
    with pytest.raises(DataError, match="258 subwords, not 300"):
        train_byte_pairs(["ab"], 300)
    with pytest.raises(DataError, match=r"scan .*seq2seq"):
        save_byte_pairs(tmp_path, "scan")
    patched = hf_sysgen.data.text.byte_pairs
    monkeypatch.setattr(patched, "load_benchmark", lambda *_, **__: text_benchmark()["train"])
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "new", tmp_path / "empty"):
        with pytest.raises(DataError, match="subwords, not 100,000"):
            save_byte_pairs(folder, vocab_size=100_000)
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(patched, "train_byte_pairs", None)
    for folder in (tmp_path / "file", tmp_path / "file" / "folder"):
        with pytest.raises(DataError, match=f"{folder}: "):
            save_byte_pairs(folder)
