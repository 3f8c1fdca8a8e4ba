"""C4 in upstream's layout, with its first documents: streaming, sharing among processes, packing, resuming."""

from __future__ import annotations

import gzip
import http.server
import json
import random
import shutil
import threading
import zipfile
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
from datasets.distributed import split_dataset_by_node
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.utils.data import DataLoader
from transformers import PreTrainedTokenizerFast
from upstream_files import Files

from hf_sysgen.data import DataError, benchmark_info, load_benchmark
from hf_sysgen.data.c4.builder import C4, PackedTokens
from hf_sysgen.data.c4.files import NUM_SHARDS, read_documents, shard_addresses, shard_names, write_shards

INFO = benchmark_info("c4")
REVISION = "1ddc917116b730e1859edef32896ec5c16be51d0"

SHARDS = 7
FIRST_SHARD = "c4/c4-train.00000-of-01024.json.gz"
Document = dict[str, str]


@pytest.fixture(scope="session")
def documents(sample: Files) -> list[Document]:
    """Documents of C4, and passages of their words."""
    found = [json.loads(line) for line in sample.lines(FIRST_SHARD)]
    words = " ".join(document["text"] for document in found).split(" ")
    draw = random.Random(0)
    words += ["naïve", "Übung\n", "東京", "🙂"]
    passages = [" ".join(draw.choices(words, k=draw.randint(40, 400))) for _ in range(120)]
    found += [
        {"text": text, "timestamp": "2019-04-25T12:57:54Z", "url": f"https://example.com/{number}"}
        for number, text in enumerate(passages)
    ]
    return found


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, documents: list[Document]) -> Path:
    folder = tmp_path_factory.mktemp("c4_mirror")
    (folder / "c4" / "en").mkdir(parents=True)
    parts = {name: documents[number::SHARDS] for number, name in enumerate(shard_names("train")[:SHARDS])}
    for name, part in {**parts, shard_names("validation")[0]: documents[:5]}.items():
        with gzip.open(folder / "c4" / "en" / name, "wt", compresslevel=1) as lines:
            lines.writelines(json.dumps(document) + "\n" for document in part)
    return folder


@pytest.fixture(scope="session")
def tokenizer(documents: list[Document]) -> PreTrainedTokenizerFast:
    model = Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.ByteLevel()
    model.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=["</s>"], show_progress=False)
    model.train_from_iterator((document["text"] for document in documents[:50]), trainer)
    return PreTrainedTokenizerFast(tokenizer_object=model, eos_token="</s>")


@pytest.fixture
def train(folder: Path) -> datasets.IterableDataset:
    return load_benchmark("c4", "en", data_dir=folder)["train"]


def in_order(documents: list[Document]) -> list[Document]:
    return [document for shard in range(SHARDS) for document in documents[shard::SHARDS]]


def blocks(stream: PackedTokens) -> list[list[int]]:
    return [block["input_ids"].tolist() for block in stream]


def tokens_of(documents: list[Document], tokenizer: PreTrainedTokenizerFast) -> list[int]:
    """The tokens of the documents in order, from the tokenizer's other interface."""
    end = tokenizer.eos_token_id
    return [
        token
        for document in documents
        for token in [*tokenizer.backend_tokenizer.encode(document["text"], add_special_tokens=False).ids, end]
    ]


def test_stream(folder: Path, documents: list[Document]) -> None:
    dataset = load_benchmark("c4", data_dir=folder)
    assert isinstance(dataset, datasets.IterableDatasetDict)
    assert list(dataset) == ["train", "validation"] == list(INFO.configs["en"].splits)
    assert dataset["train"].num_shards == SHARDS
    assert list(dataset["train"]) == in_order(documents)
    assert list(dataset["validation"]) == documents[:5]


def test_nothing_is_kept(folder: Path, tmp_path: Path) -> None:
    next(iter(load_benchmark("c4", data_dir=folder, cache_dir=tmp_path)["train"]))
    assert {path.suffix for path in tmp_path.rglob("*") if path.is_file()} <= {".lock"}


def test_real_shard_is_upstreams(sample: Files) -> None:
    # the archive of Hugging Face's former loader holds the same first documents
    with zipfile.ZipFile(sample.path("c4/hf_dummy_en.zip")) as archive:
        [member] = [name for name in archive.namelist() if name.endswith("c4-train.00000-of-01024.json.gz")]
        records = [json.loads(line) for line in gzip.decompress(archive.read(member)).splitlines()]
    found = list(read_documents(str(sample.path(FIRST_SHARD))))
    assert found == records
    assert found[0]["url"] == "https://klyq.com/beginners-bbq-class-taking-place-in-missoula/"


def test_shard_names() -> None:
    names = shard_names("train")
    assert len(names) == 1_024
    assert names[0] == "c4-train.00000-of-01024.json.gz"
    assert names[-1] == "c4-train.01023-of-01024.json.gz"
    assert shard_names("validation")[-1] == "c4-validation.00007-of-00008.json.gz"


@pytest.mark.parametrize("count", [0, 9])
def test_shards_that_a_split_has_not(tmp_path: Path, count: int) -> None:
    with pytest.raises(DataError, match="1 to 8 shards"):
        write_shards(tmp_path, "validation", ["a"] * 10, count)
    assert list(tmp_path.iterdir()) == []


def test_where_shards_are(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = shard_addresses("train")
    assert len(hub) == 1_024
    assert hub[5] == f"hf://datasets/allenai/c4@{REVISION}/en/c4-train.00005-of-01024.json.gz"
    assert (
        shard_addresses("validation", "http://host/a/")[7] == "http://host/a/c4/en/c4-validation.00007-of-00008.json.gz"
    )
    monkeypatch.setenv("HF_SYSGEN_DATA_DIR", str(folder))
    assert shard_addresses("train") == [str(folder / "c4" / "en" / name) for name in shard_names("train")[:SHARDS]]
    # a mirror of other benchmarks
    monkeypatch.setenv("HF_SYSGEN_DATA_DIR", str(tmp_path))
    assert shard_addresses("train") == hub
    monkeypatch.setenv("HF_SYSGEN_DATA_DIR", str(tmp_path / "absent"))
    with pytest.raises(DataError, match=r"^c4 en: .*absent.*HF_SYSGEN_DATA_DIR"):
        shard_addresses("train")
    with pytest.raises(DataError, match="data_dir"):
        load_benchmark("c4", data_dir=tmp_path)
    # one split is enough where no other is asked for
    write_shards(tmp_path, "train", ["a", "b"], 2)
    assert [document["text"] for document in load_benchmark("c4", split="train", data_dir=tmp_path)] == ["a", "b"]
    with pytest.raises(DataError, match=r"of validation in .*--data-dir"):
        load_benchmark("c4", data_dir=tmp_path)


def test_only_text_is_written(tmp_path):
    with pytest.raises(DataError, match="document 1 is not text but None"):
        write_shards(tmp_path, "train", ["a", None], 2)
    assert not list(tmp_path.iterdir())


class Server(http.server.SimpleHTTPRequestHandler):
    """Serves the files of a folder, whole or by range, like the hub's storage."""

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        content = path.read_bytes()
        start, _, end = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
        part = content[int(start) : int(end or len(content)) + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{int(start) + len(part) - 1}/{len(content)}")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address(folder: Path) -> Iterator[str]:
    def handler(*arguments: Any) -> Server:
        return Server(*arguments, directory=str(folder))

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_over_http(address: str, documents: list[Document]) -> None:
    stream = load_benchmark("c4", data_dir=address)["train"]
    # what a server has is not asked for before it is read
    assert stream.num_shards == 1_024
    length = len(in_order(documents))
    running = iter(stream)
    assert list(islice(running, length)) == in_order(documents)
    with pytest.raises(DataError, match=r"c4-train\.00007-of-01024\.json\.gz.* line 0"):
        next(running)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_every_document_once(train: datasets.IterableDataset, documents: list[Document], num_workers: int) -> None:
    # three processes of two workers over seven shards: nothing divides anything
    seen = []
    for rank in range(3):
        part = split_dataset_by_node(train, rank, 3, strategy="shards")
        own = [document["url"] for document in DataLoader(part, batch_size=None, num_workers=num_workers)]
        assert len(own) > len(documents) // 4
        seen += own
    assert Counter(seen) == Counter(document["url"] for document in documents)
    assert set(Counter(seen).values()) == {1}


def test_every_token_once(
    train: datasets.IterableDataset, documents: list[Document], tokenizer: PreTrainedTokenizerFast
) -> None:
    found: Counter[int] = Counter()
    for rank in range(3):
        part = PackedTokens(split_dataset_by_node(train, rank, 3, strategy="shards"), tokenizer, 128)
        for block in DataLoader(part, batch_size=None, num_workers=2):
            found.update(block["input_ids"].tolist())
    assert found == Counter(tokens_of(documents, tokenizer))
    assert found[tokenizer.eos_token_id] == len(documents)


@pytest.mark.parametrize("length", [1_024, 97])
def test_packing_loses_nothing(
    train: datasets.IterableDataset, documents: list[Document], tokenizer: PreTrainedTokenizerFast, length: int
) -> None:
    packed = blocks(PackedTokens(train, tokenizer, length))
    assert {len(block) for block in packed[:-1]} == {length}
    assert 0 < len(packed[-1]) <= length
    flat = [token for block in packed for token in block]
    assert flat == tokens_of(in_order(documents), tokenizer)
    # an EOS ends each document and stands nowhere else
    ends = [position for position, token in enumerate(flat) if token == tokenizer.eos_token_id]
    assert len(ends) == len(documents)
    first = tokenizer.decode(flat[: ends[0]]).strip()
    assert first == in_order(documents)[0]["text"].strip()
    assert blocks(PackedTokens(train, tokenizer, length, drop_last=True)) == packed[: len(flat) // length]


def test_blocks_are_tensors(train: datasets.IterableDataset, tokenizer: PreTrainedTokenizerFast) -> None:
    batch = next(iter(DataLoader(PackedTokens(train, tokenizer, drop_last=True), batch_size=2)))
    assert batch.keys() == {"input_ids"}
    assert batch["input_ids"].shape == (2, 1_024)
    assert batch["input_ids"].dtype == torch.int64


@pytest.mark.parametrize("taken", [0, 1, 40, 200])
def test_goes_on(folder: Path, train: datasets.IterableDataset, tokenizer: PreTrainedTokenizerFast, taken: int) -> None:
    whole = blocks(PackedTokens(train, tokenizer, 211))
    assert taken < len(whole)
    stream = PackedTokens(train, tokenizer, 211)
    running = iter(stream)
    before = [next(running)["input_ids"].tolist() for _ in range(taken)]
    state = json.loads(json.dumps(stream.state_dict()))
    # another process, with the documents opened anew; how many are tokenized at a time does not matter
    again = PackedTokens(load_benchmark("c4", data_dir=folder)["train"], tokenizer, 211, batch_size=5)
    again.load_state_dict(state)
    after = blocks(again)
    assert before + after == whole
    # the pass after it is a whole one
    assert blocks(again) == whole


def test_goes_on_from_the_end(train: datasets.IterableDataset, tokenizer: PreTrainedTokenizerFast) -> None:
    stream = PackedTokens(train, tokenizer)
    assert len(blocks(stream)) > 1
    stream.load_state_dict(stream.state_dict())
    assert blocks(stream) == []


def test_starts_at_the_beginning(train: datasets.IterableDataset, tokenizer: PreTrainedTokenizerFast) -> None:
    whole = blocks(PackedTokens(train, tokenizer))
    next(iter(train))
    assert blocks(PackedTokens(train, tokenizer)) == whole


def letters(texts: list[str]) -> PackedTokens:
    model = Tokenizer(models.WordLevel({"a": 0, "b": 1, "</s>": 2}, unk_token="b"))
    model.pre_tokenizer = pre_tokenizers.Whitespace()
    documents = datasets.Dataset.from_dict({"text": texts}).to_iterable_dataset()
    return PackedTokens(documents, PreTrainedTokenizerFast(tokenizer_object=model, eos_token="</s>"), 3, batch_size=2)


def test_packing_by_hand() -> None:
    assert blocks(letters(["a b", "", "a a a a", "b"])) == [[0, 1, 2], [2, 0, 0], [0, 0, 2], [1, 2]]


@settings(max_examples=30)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.integers(0, 30))
def test_any_lengths(lengths: list[int], taken: int) -> None:
    texts = [" ".join("a" * length) for length in lengths]
    whole = blocks(letters(texts))
    assert [token for block in whole for token in block] == [t for n in lengths for t in [*[0] * n, 2]]
    stream, again = letters(texts), letters(texts)
    before = [block["input_ids"].tolist() for block in islice(stream, taken)]
    again.load_state_dict(stream.state_dict())
    assert before + blocks(again) == whole


@pytest.mark.parametrize(("length", "batch_size"), [(0, 1), (1, 0)])
def test_wrong_sizes(
    train: datasets.IterableDataset, tokenizer: PreTrainedTokenizerFast, length: int, batch_size: int
) -> None:
    with pytest.raises(ValueError, match=f"length {length} .*batch_size {batch_size} "):
        PackedTokens(train, tokenizer, length, batch_size=batch_size)


def test_no_eos(train: datasets.IterableDataset, tokenizer: PreTrainedTokenizerFast) -> None:
    bare = PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer)
    with pytest.raises(ValueError, match="eos_token"):
        PackedTokens(train, bare)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no gzip", r"line 0 \(BadGzipFile"),
        (gzip.compress(b'{"text": "a", "timestamp": "b", "url": "c"}\n{"text"'), r"line 2 \(JSONDecodeError"),
        (gzip.compress(b'{"text": "a", "url": "c"}\n'), r"line 1 \(KeyError: 'timestamp'"),
        (gzip.compress(b"[]\n"), r"line 1 \(TypeError"),
        (gzip.compress(b'{"text": "a"}\n' * 100)[:-9], "line 1 "),
    ],
    # gzip writes the time of day, and the processes that share the tests must see the same names
    ids=["no gzip", "no JSON", "no timestamp", "no object", "cut off"],
)
def test_damaged_shard(tmp_path: Path, folder: Path, content: bytes, message: str) -> None:
    shutil.copytree(folder / "c4", tmp_path / "c4")
    (tmp_path / "c4" / "en" / shard_names("train")[0]).write_bytes(content)
    stream = load_benchmark("c4", data_dir=tmp_path)["train"]
    with pytest.raises(DataError, match=message) as caught:
        list(stream)
    assert "\n" not in str(caught.value)


def test_checks(folder: Path) -> None:
    builder = C4(config_name="en", data_dir=folder)
    checks = {check.fact: check for check in builder.checks(builder.as_dataset())}
    # a part of C4 is told from all of it
    assert checks[f"train has {NUM_SHARDS['train']:,} shards"].found == str(SHARDS)
    assert not checks["train has 1,024 shards"].holds
    assert checks["the first document of train has text, time and address"].holds
