"""One id space for two tables: layout, round trips, errors."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from hf_sysgen.data import DataError, load_benchmark
from hf_sysgen.data.text.vocabulary import (
    EOS,
    SOS,
    Vocabulary,
    build_vocabulary,
    encode_sources,
    encode_targets,
    sentence_tokenizer,
)

# blanks of any kind separate words; what else Unicode has may be part of one
words = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1, max_size=6).filter(
    lambda word: len(word.split()) == 1 and word not in (EOS, SOS)
)


def source_range(vocabulary: Vocabulary) -> range:
    return range(vocabulary.source_id_offset, vocabulary.source_id_offset + vocabulary.source_vocab_size)


def test_separate_vocabularies_have_the_authors_sizes():
    scan = load_benchmark("scan", "length_cutoff_26")
    vocabulary = build_vocabulary(
        (text for split in scan.values() for text in split["input"]),
        (text for split in scan.values() for text in split["target"]),
    )
    # n_out + 1 rows and n_in + 2 rows, for 6 actions and 13 words
    assert (vocabulary.vocab_size, vocabulary.source_vocab_size, vocabulary.source_id_offset) == (7, 15, 6)
    actions = ["I_JUMP", "I_LOOK", "I_RUN", "I_TURN_LEFT", "I_TURN_RIGHT", "I_WALK"]
    assert vocabulary.tokenizer.convert_ids_to_tokens(range(7)) == [*actions, EOS]
    assert len(vocabulary.tokenizer) == 21


def test_words_of_both_sides_have_one_id_and_lie_in_both_ranges():
    vocabulary = build_vocabulary(["who directed M0", "M1"], ["SELECT M0 M1 end"])
    tokens = vocabulary.tokenizer.convert_ids_to_tokens(range(len(vocabulary.tokenizer)))
    assert tokens == ["SELECT", "end", "M0", "M1", EOS, "directed", "who", SOS]
    assert (vocabulary.vocab_size, vocabulary.source_vocab_size, vocabulary.source_id_offset) == (5, 6, 2)


def test_joint_vocabulary_is_the_authors_own_layout():
    vocabulary = build_vocabulary(["a cat"], ["* cat ( x )"], joint=True)
    assert vocabulary.source_id_offset == 0
    assert vocabulary.tokenizer.convert_ids_to_tokens(range(8)) == ["(", ")", "*", "a", "cat", "x", EOS, SOS]
    assert (vocabulary.vocab_size, vocabulary.source_vocab_size) == (7, 8)


def test_a_saved_tokenizer_is_the_stock_one_and_decodes_words(tmp_path):
    vocabulary = build_vocabulary(["do n't jump , 's . ?"], ["I_JUMP I_JUMP"])
    vocabulary.tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert not list(tmp_path.glob("*.py"))
    batch = loaded(["jump , 's", "?"], padding=True)
    assert batch["attention_mask"] == [[1] * 5, [1, 1, 1, 0, 0]]
    ids = batch["input_ids"]
    assert [ids[0][0], ids[0][-1]] == loaded.convert_tokens_to_ids([SOS, EOS])
    assert loaded.batch_decode(ids, skip_special_tokens=True) == ["jump , 's", "?"]
    (target,) = encode_targets(loaded, ["I_JUMP I_JUMP"])
    assert target == [0, 0, loaded.eos_token_id]
    assert loaded.decode(target, skip_special_tokens=True) == "I_JUMP I_JUMP"
    with pytest.raises(Exception, match="UNK"):
        loaded("hop")


@pytest.mark.parametrize(
    ("text", "word"), [("jump hop", "'hop' in 'jump hop'"), ("walk I_JUMP", "'I_JUMP' in 'walk I_JUMP'")]
)
def test_words_that_the_source_does_not_have(text, word):
    vocabulary = build_vocabulary(["jump walk"], ["I_JUMP I_WALK"])
    with pytest.raises(DataError, match=word) as caught:
        encode_sources(vocabulary.tokenizer, ["walk", text], source_range(vocabulary))
    assert str(caught.value).endswith("; the closest: jump, walk")
    assert "\n" not in str(caught.value)


def test_of_a_long_vocabulary_the_closest_words_are_named():
    vocabulary = build_vocabulary([" ".join(f"w{i:03}" for i in range(100))], ["x"])
    with pytest.raises(DataError, match="w073") as caught:
        encode_sources(vocabulary.tokenizer, ["w73 " * 60])
    assert "w000" not in str(caught.value)
    vocabulary = build_vocabulary(["after and around jump walk"], ["x"])
    with pytest.raises(DataError, match="walc") as caught:
        encode_sources(vocabulary.tokenizer, ["walc"])
    assert str(caught.value).endswith("closest: walk")


def test_empty_texts():
    vocabulary = build_vocabulary(["jump"], ["I_JUMP"])
    for empty in ("", "  \t"):
        with pytest.raises(DataError, match="input"):
            encode_sources(vocabulary.tokenizer, ["jump", empty])
    assert encode_targets(vocabulary.tokenizer, [""]) == [[vocabulary.tokenizer.eos_token_id]]
    assert encode_sources(vocabulary.tokenizer, []) == []
    with pytest.raises(DataError, match="no words"):
        build_vocabulary(["jump"], [""])


def test_a_word_called_unk_does_not_swallow_unknown_words():
    vocabulary = build_vocabulary(["<unk> jump"], ["I_JUMP"])
    assert len(encode_sources(vocabulary.tokenizer, ["<unk> jump"])[0]) == 4
    with pytest.raises(DataError, match="'hop'"):
        encode_sources(vocabulary.tokenizer, ["hop"])


@pytest.mark.parametrize("symbol", [EOS, SOS])
def test_special_symbols_are_no_words(symbol):
    with pytest.raises(DataError, match=f"{symbol}"):
        build_vocabulary([f"jump {symbol}"], ["I_JUMP"])


@pytest.mark.parametrize("text", ["jump </s>", "<s>", "jump<s>jump"])
def test_special_symbols_in_a_text(text):
    """Otherwise the tokenizer would read them as its symbols, also inside a word."""
    vocabulary = build_vocabulary(["jump"], ["jump"])
    for encode in (encode_sources, encode_targets):
        with pytest.raises(DataError, match="</s> and <s>"):
            encode(vocabulary.tokenizer, ["jump", text])


def test_text_that_is_no_utf8():
    vocabulary = build_vocabulary(["jump walk"], ["I_JUMP"])
    for encode in (encode_sources, encode_targets):
        with pytest.raises(DataError, match=r"^'jump\\udcff walk': "):
            encode(vocabulary.tokenizer, ["jump", "jump\udcff walk"])


@settings(max_examples=60)
@given(st.data(), st.sets(words, min_size=1, max_size=12), st.sets(words, min_size=1, max_size=12), st.booleans())
def test_ranges_and_round_trips(data, source_words, target_words, joint):
    vocabulary = build_vocabulary([" ".join(source_words)], [" ".join(target_words)], joint)
    if joint:
        source_words = target_words = source_words | target_words
    assert vocabulary.vocab_size == len(target_words) + 1
    assert vocabulary.source_vocab_size == len(source_words) + 2
    # no id without a table, and the two ranges share the common words and EOS
    shared = set(range(vocabulary.vocab_size)) & set(source_range(vocabulary))
    assert len(shared) == len(source_words & target_words) + 1
    assert set(range(vocabulary.vocab_size)) | set(source_range(vocabulary)) == set(range(len(vocabulary.tokenizer)))

    sentence = data.draw(st.lists(st.sampled_from(sorted(source_words)), min_size=1, max_size=9))
    (ids,) = encode_sources(vocabulary.tokenizer, [" ".join(sentence)], source_range(vocabulary))
    assert len(ids) == len(sentence) + 2
    assert set(ids) <= set(source_range(vocabulary))
    assert vocabulary.tokenizer.convert_ids_to_tokens(ids[1:-1]) == sentence
    assert vocabulary.tokenizer.decode(ids, skip_special_tokens=True) == " ".join(sentence)

    sentence = data.draw(st.lists(st.sampled_from(sorted(target_words)), max_size=9))
    (ids,) = encode_targets(vocabulary.tokenizer, [" ".join(sentence)], range(vocabulary.vocab_size))
    assert ids[-1] == vocabulary.tokenizer.eos_token_id
    assert vocabulary.tokenizer.decode(ids, skip_special_tokens=True) == " ".join(sentence)


def test_characters_keep_their_blanks(tmp_path):
    """As in the mathematics tasks, also through a saved tokenizer."""
    question, answer = "Total of  0.06 and -1977321735.", "-1977321734.94"
    vocabulary = build_vocabulary([question], [answer], joint=True, characters=True)
    assert vocabulary.vocab_size == len(set(question + answer)) + 1
    vocabulary.tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    (ids,) = encode_sources(loaded, [question], source_range(vocabulary))
    assert len(ids) == len(question) + 2
    assert loaded.decode(ids, skip_special_tokens=True) == question
    (ids,) = encode_targets(loaded, [answer], range(vocabulary.vocab_size))
    assert loaded.decode(ids, skip_special_tokens=True) == answer
    with pytest.raises(DataError, match=r"'b' in 'Total b'.*source"):
        encode_sources(loaded, ["Total", "Total b"])


def test_without_a_start_one_table_is_enough(tmp_path):
    vocabulary = build_vocabulary(["b a"], ["c a"], joint=True, start=False)
    assert vocabulary.tokenizer.convert_ids_to_tokens(range(4)) == ["a", "b", "c", EOS]
    assert vocabulary.vocab_size == vocabulary.source_vocab_size == len(vocabulary.tokenizer) == 4
    assert vocabulary.source_id_offset == 0
    vocabulary.tokenizer.save_pretrained(tmp_path)
    for tokenizer in (vocabulary.tokenizer, AutoTokenizer.from_pretrained(tmp_path)):
        assert encode_sources(tokenizer, ["c b"]) == [[2, 1, 3]]
        assert tokenizer.bos_token is None


@pytest.mark.parametrize("root", [None, "[ROOT]"])
def test_words_that_are_labelled(root, tmp_path):
    """In order of first occurrence; no word is split or unknown."""
    tokenizer = sentence_tokenizer(["The cat 's .", "A cat saw"], root)
    symbols = ["[PAD]"] + ([root] if root else [])
    words = [*symbols, "The", "cat", "'s", ".", "A", "saw"]
    tokenizer.save_pretrained(tmp_path)
    for one in (tokenizer, AutoTokenizer.from_pretrained(tmp_path)):
        assert one.convert_ids_to_tokens(range(len(one))) == words
        first = [1] if root else []
        ids = [len(symbols) + place for place in (4, 1)]
        batch = one(["A cat", "saw"], padding=True)
        assert batch["input_ids"] == [[*first, *ids], [*first, len(symbols) + 5, 0]]
        assert batch["attention_mask"] == [[1] * (len(first) + 2), [1] * (len(first) + 1) + [0]]
        with pytest.raises(Exception, match="WordLevel error"):
            one("dog")


def test_sentences_of_no_words_or_of_symbols():
    with pytest.raises(DataError, match="no words"):
        sentence_tokenizer(["", " "])
    with pytest.raises(DataError, match=r"\[PAD\]"):
        sentence_tokenizer(["a [PAD]"])
