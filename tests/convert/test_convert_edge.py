"""The checkpoints of Bergen et al. 2021 give the authors' numbers, and so do their tokenizer and their batches."""

from __future__ import annotations

import copy
import inspect
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from datasets import Dataset, DatasetDict
from safetensors.torch import load_file
from tiny_runs import tiny_recipe
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from hf_sysgen.convert.authors import from_authors
from hf_sysgen.convert.edge import cfq_tokenizer
from hf_sysgen.data.clutrr.kinship import EDGE_TYPES, TARGETS
from hf_sysgen.models.triangular_attention import mask_scores
from hf_sysgen.training.tasks.graphs import COLUMNS, GraphParsingTask
from hf_sysgen.training.tasks.relations import RelationSplit

# an independent re-implementation reached 1e-14 on every file
CLOSE = {"rtol": 1e-11, "atol": 1e-12}
CLUTRR = ["clutrr_edge", "clutrr_edge_value_ablation", "clutrr_edge_attention_ablation"]
RELATION_AWARE = ["clutrr_rat", "clutrr_rrat"]
COGS = ["cogs_edge", "cogs_edge_value_ablation"]
CFQ = ["cfq_encdec"]
FAMILY = {
    **dict.fromkeys(CLUTRR, "edge_clutrr"),
    **dict.fromkeys(RELATION_AWARE, "rat"),
    **dict.fromkeys(COGS, "edge_cogs"),
    **dict.fromkeys(CFQ, "edge_cfq"),
}
SETS = ("role", "category", "noun_type", "verb", "parent")
IMPLEMENTATIONS = ["plain", "blocked"]


def load_golden(golden_dir: Path, name: str) -> SimpleNamespace:
    described = json.loads((golden_dir / "edge" / f"{name}.json").read_text())
    path = golden_dir / "edge" / f"{name}.safetensors"
    # examples of the tokenizer are in the description itself
    tensors = load_file(path) if path.exists() else {}
    starts = {start: {key[2:]: t for key, t in tensors.items() if key.startswith(f"{start}.")} for start in "wg"}
    return SimpleNamespace(
        name=name, tensors=tensors, config=described.get("config", described), weights=starts["w"],
        gradients=starts["g"],
    )  # fmt: skip


@pytest.fixture
def golden(golden_dir: Path, request: pytest.FixtureRequest) -> SimpleNamespace:
    return load_golden(golden_dir, request.param)


def model_of(golden: SimpleNamespace, implementation: str | None = None):
    model = from_authors(FAMILY[golden.name], golden.weights, golden.config)
    if implementation is not None:
        model.config.triangular_implementation = implementation
    return model


def inputs_of(golden: SimpleNamespace, labels: bool = True) -> dict[str, torch.Tensor]:
    tensors = golden.tensors
    if golden.name in CLUTRR + RELATION_AWARE:
        batch = {"edge_ids": tensors["in.batched_graphs"], "node_mask": 1 - tensors["in.masks"].long(),
                 "query": tensors["in.query_edges"][:, 1:], "labels": tensors["in.query_labels"]}  # fmt: skip
    elif golden.name in COGS:
        padding = tensors["in.mask"].bool()
        batch = {"input_ids": tensors["in.tokens"], "attention_mask": (~padding).long()}
        batch |= {f"{name}_labels": tensors[f"in.{name}"].masked_fill(padding, -100) for name in SETS}
    else:
        batch = {"input_ids": tensors["in.input_ids"], "attention_mask": tensors["in.attention_mask"]}
        batch["labels"] = tensors["in.labels"]
    return batch if labels else {name: value for name, value in batch.items() if "labels" not in name}


def real_nodes(golden: SimpleNamespace) -> torch.Tensor:
    batch = inputs_of(golden)
    return (batch["node_mask"] if "node_mask" in batch else batch["attention_mask"]).bool()


def pairs(nodes: torch.Tensor) -> torch.Tensor:
    return nodes[:, :, None] & nodes[:, None]


def close(found: torch.Tensor, expected: torch.Tensor, what: str = "") -> None:
    torch.testing.assert_close(found, expected, **CLOSE, msg=lambda text: f"{what}: {text}")


def triangles_are_theirs(golden: SimpleNamespace, nodes: torch.Tensor, source: int | None = None) -> None:
    """The triangles that an edge between real nodes may attend to."""
    forbidden = golden.tensors["in.mask4"].bool()
    allowed = mask_scores(torch.zeros(forbidden.shape)[:, None], nodes, source)[:, 0] == 0
    edges = pairs(nodes)
    assert torch.equal(allowed.transpose(2, 3)[edges], ~forbidden.transpose(2, 3)[edges])


def ours_for(name: str, named: dict[str, torch.Tensor]) -> torch.Tensor:
    """The tensor of ours that their `name` stands for, in their layout, as far as we have it."""
    tables = {
        "encoder.embedding.weight": "model.embed_edges.weight", "word_emb.weight": "model.embed_tokens.weight",
        "emb.weight": "model.embed_tokens.weight", "decode_parent.weight": "parent_head.weight",
        "encoder.bos_vector": "model.bos.weight", "decoder.bos_vector": "decoder.bos.weight",
        "encoder.spatial_relations_builder.rel_embeddings.weight": "model.relations.weight",
        "decoder.spatial_relations_builder.rel_embeddings.weight": "decoder.relations.weight",
    }  # fmt: skip
    if name in tables:
        return named[tables[name]]
    if found := re.fullmatch(r"(encoder|decoder)\.layers\.(\d)\.edge_attention\.linears\.(\d)\.(weight|bias)", name):
        side, layer, part, kind = found.groups()
        root = {"encoder": "model", "decoder": "decoder"}[side]
        joined = named[f"{root}.rounds.layers.{layer}.attention.in_proj.{kind}"]
        width = named[f"{root}.rounds.layers.{layer}.attention.o_proj.weight"].shape[0]
        return joined[int(part) * width : (int(part) + 1) * width]
    if found := re.fullmatch(r"encoder\.layers\.0\.rel_attention\.linears\.(\d)\.weight", name):
        return named["model.layers.0.mixing.qkv_proj.weight"].chunk(3)[int(found[1])]
    others = {
        "encoder.relation_value_map.weight": ("model.relation_maps.proj.weight", 1),
        "encoder.layers.0.rel_attention.left_linear.weight": ("model.layers.0.first_proj.weight", None),
    }
    if name in others:
        ours, half = others[name]
        return named[ours] if half is None else named[ours].chunk(2)[half]
    assert name == "encoder.layers.0.norm1.weight", name
    edge = "model.rounds.layers.0.attention_norm.weight"
    return named[edge if edge in named else "model.layers.0.node_update.norm.weight"]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("golden", FAMILY, indirect=True)
def test_loss_and_gradients(golden: SimpleNamespace, implementation: str) -> None:
    model = model_of(golden, implementation)
    assert not model.training
    out = model(**inputs_of(golden))
    close(out.loss, golden.tensors["out.loss"])
    out.loss.backward()
    named = {name: p.grad for name, p in model.named_parameters()}
    assert golden.gradients
    for name, theirs in golden.gradients.items():
        # the value ablation's dead matrix has a gradient of zero, and does not exist here
        ours = ours_for(name, named)
        close(ours, theirs[: len(ours)], name)
        assert theirs[len(ours) :].abs().sum() == 0, f"{name}: rows that are used are missing"
        if not ours.numel():
            assert golden.config["lesion_values"]
            assert name.endswith("linears.3.weight")


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("golden", CLUTRR, indirect=True)
def test_clutrr(golden: SimpleNamespace, implementation: str) -> None:
    model, tensors, batch = model_of(golden, implementation), golden.tensors, inputs_of(golden)
    real = pairs(real_nodes(golden))
    with torch.no_grad():
        out = model(**batch, output_hidden_states=True)
        close(out.logits, tensors["out.logits"])
        assert ((out.logits.argmax(-1) == batch["labels"]).double().mean() - tensors["out.acc"]).abs() < 1e-12
        # what enters the first round, then what leaves each
        states = (model.model.first_state(None, batch["edge_ids"], None), *out.hidden_states[1:])
        for depth in range(golden.config["num_message_rounds"] + 1):
            close(states[depth][real], tensors[f"out.state{depth}"][real], f"state {depth}")
        close(states[-1][real], tensors["out.final_state"][real])
        attention = model.model.rounds.layers[0].attention
        update, _ = attention(tensors["out.attn_in"], batch["node_mask"].bool())
        close(update[real], tensors["out.attn_out"][real])
    triangles_are_theirs(golden, real_nodes(golden))


@pytest.mark.parametrize("golden", RELATION_AWARE, indirect=True)
def test_relation_aware(golden: SimpleNamespace) -> None:
    model, tensors, batch = model_of(golden), golden.tensors, inputs_of(golden)
    nodes = real_nodes(golden)
    with torch.no_grad():
        out = model(**batch)
        close(out.logits, tensors["out.logits"])
        assert ((out.logits.argmax(-1) == batch["labels"]).double().mean() - tensors["out.acc"]).abs() < 1e-12
        state = model.model(batch["edge_ids"], batch["node_mask"]).last_hidden_state
        real = pairs(nodes) if golden.config["update_relations"] else nodes
        close(state[real], tensors["out.final_state"][real])
        if golden.config["update_relations"]:
            kept = []
            model.model.layers[0].register_forward_hook(lambda module, args, output: kept.append(output[0]))
            model(**batch)
            close(kept[-1][nodes], tensors["out.node_state"][nodes])


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("golden", COGS, indirect=True)
def test_cogs(golden: SimpleNamespace, implementation: str) -> None:
    model, tensors, batch = model_of(golden, implementation), golden.tensors, inputs_of(golden)
    nodes = real_nodes(golden)
    with torch.no_grad():
        out = model(**batch)
        encoder = model.model
        close(encoder.first_state(batch["input_ids"], None, None), tensors["out.state0"])
        state = encoder(batch["input_ids"], batch["attention_mask"]).last_hidden_state
    close(state[pairs(nodes)], tensors["out.final_state"][pairs(nodes)])
    for name in SETS[:4]:
        close(out[f"{name}_logits"][nodes], tensors[f"out.{name}_logits"][nodes], name)
    close(out.parent_logits[pairs(nodes)], tensors["out.parent_scores"][pairs(nodes)])
    parts = []
    right = torch.ones(len(nodes), dtype=torch.bool)
    for name in SETS:
        with torch.no_grad():
            one = {key: value for key, value in batch.items() if "labels" not in key or key.startswith(name)}
            parts.append(model(**one).loss)
        right &= ((out[f"{name}_logits"].argmax(-1) == tensors[f"in.acc.{name}"]) | ~nodes).all(1) \
            if f"in.acc.{name}" in tensors else False  # fmt: skip
    close(torch.stack(parts).sum(), tensors["out.loss"])
    close(torch.stack(parts).sort().values, tensors["out.loss_parts"].sort().values)
    if "in.acc.role" in tensors:
        assert (right.double().mean() - tensors["out.acc"]).abs() < 1e-12
    # clipped distances
    positions = torch.arange(20)
    table = encoder.relations
    table.weight.data = torch.arange(float(len(table.weight)))[:, None].double()
    assert torch.equal(table.between(positions, positions)[..., 0].long(), tensors["in.relations20"])


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("golden", CFQ, indirect=True)
def test_cfq(golden: SimpleNamespace, implementation: str) -> None:
    model, tensors, batch = model_of(golden, implementation), golden.tensors, inputs_of(golden)
    labels = batch.pop("labels")
    assert torch.equal(model.prepare_decoder_input_ids_from_labels(labels), tensors["out.decoder_input_ids"])
    source = batch["input_ids"].shape[1]
    nodes = torch.cat((batch["attention_mask"].bool(), torch.ones_like(labels).bool()), dim=1)
    states = []
    model.decoder.rounds.register_forward_hook(lambda module, args, output: states.append((args[0], output)))
    with torch.no_grad():
        out = model(**batch, decoder_input_ids=tensors["out.decoder_input_ids"])
    close(out.logits, tensors["out.logits"])
    real = pairs(nodes)
    close(
        out.encoder_last_hidden_state[real[:, :source, :source]],
        tensors["out.encoder_state"][real[:, :source, :source]],
    )
    close(states[0][0][real], tensors["out.decoder_state0"][real])
    close(states[0][1][real], tensors["out.decoder_state"][real])
    triangles_are_theirs(golden, nodes, source)
    for use_cache in (True, False):
        how = {"use_cache": use_cache, "return_dict_in_generate": True, "output_logits": True}
        written = model.generate(**batch, max_length=golden.config["max_length"], **how)
        assert torch.equal(written.sequences, tensors["out.generated"])
        best, second = torch.stack(written.logits).topk(2).values.unbind(-1)
        # it hands out logits in float32
        torch.testing.assert_close((best - second).min(), tensors["out.gen_margin"].float())
    # relations in the decoder
    first, last = golden.config["relations_for"]
    positions = torch.arange(first + last)
    table = model.decoder.relations
    table.weight.data = torch.arange(float(len(table.weight)))[:, None].double()
    assert torch.equal(table.between(positions, positions, first)[..., 0].long(), tensors["out.relations"])


@pytest.mark.parametrize("golden", ["clutrr_collate"], indirect=True)
def test_batches_of_graphs(golden: SimpleNamespace) -> None:
    config, expected = golden.config, golden.tensors
    assert config["edge_label_vocab"] == list(EDGE_TYPES)
    assert config["query_label_vocab"] == list(TARGETS)
    columns = {"edges": "edges", "edge_types": "edge_labels", "query_edge": "query_edge", "target": "query_label"}
    split = RelationSplit(
        Dataset.from_list([{ours: row[theirs] for ours, theirs in columns.items()} for row in config["raw"]])
    )
    batch = split[np.arange(4)]
    assert torch.equal(batch["edge_ids"], expected["in.batched_graphs"])
    assert torch.equal(batch["node_mask"], 1 - expected["in.masks"].long())
    # theirs begin with the number of the graph
    query = torch.column_stack((torch.arange(4), batch["query"]))
    assert torch.equal(query, expected["in.query_edges"])
    assert torch.equal(batch["labels"], expected["in.query_labels"])


@pytest.mark.parametrize("golden", ["cogs_batch"], indirect=True)
def test_batches_of_sentences(golden: SimpleNamespace, tmp_path: Path) -> None:
    config, expected = golden.config, golden.tensors
    theirs = {"role": "role", "category": "category", "noun_type": "noun_type", "verb": "verb_name", "parent": "parent"}
    rows = [
        {COLUMNS[kind]: row[name] for kind, name in theirs.items()} | {"input": " ".join(row["tokens"])}
        for row in config["examples"]
    ]
    recipe = tiny_recipe(tmp_path, benchmark="cogs_graph", config="gen_2020", model="edge_transformer")
    task = GraphParsingTask(recipe, DatasetDict({"train": Dataset.from_list(rows)}))
    assert task.names == {kind: config["vocabs"][theirs[kind]] for kind in task.names}
    assert task.tokenizer.convert_ids_to_tokens(range(len(task.tokenizer))) == config["vocabs"]["tokens"]
    batch = task.splits["train"][np.arange(4)]
    assert torch.equal(batch["input_ids"], expected["in.tokens"])
    padding = expected["in.mask"].bool()
    assert torch.equal(batch["attention_mask"], (~padding).long())
    for index, kind in enumerate(COLUMNS):
        assert torch.equal(batch["labels"][..., index], expected[f"in.{kind}"].masked_fill(padding, -100)), kind


SYMBOLS = {"[PAD]": 0, "[UNK]": 1, "[EOS]": 2}


def their_words(golden: SimpleNamespace) -> dict[str, int]:
    """The ids of all words: known from the examples, and made-up words for the rest."""
    known = {
        word: index
        for example in golden.config["examples"]
        for word, index in zip(example["tokens"], example["ids"], strict=True)
        if word not in SYMBOLS
    } | SYMBOLS
    left = set(range(golden.config["vocab_size"])) - set(known.values())
    return known | {f"made{index}": index for index in left}


def their_tokenizer_file(words: dict[str, int], folder: Path) -> Path:
    """A file as their training writes it."""
    theirs = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    theirs.add_special_tokens(list(SYMBOLS))
    theirs.normalizer = normalizers.Sequence([normalizers.Lowercase()])
    theirs.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    theirs.post_processor = processors.TemplateProcessing(single="$A [EOS]", special_tokens=[("[EOS]", 2)])
    theirs.save(str(folder / "theirs.json"))
    return folder / "theirs.json"


@pytest.mark.parametrize("form", ["file", "table"])
@pytest.mark.parametrize("golden", ["cfq_tokenizer"], indirect=True)
def test_tokenizer(golden: SimpleNamespace, form: str, tmp_path: Path) -> None:
    words = their_words(golden)
    made = cfq_tokenizer(words if form == "table" else their_tokenizer_file(words, tmp_path))
    made.save_pretrained(tmp_path / "checkpoint")
    for tokenizer in (made, AutoTokenizer.from_pretrained(tmp_path / "checkpoint")):
        assert len(tokenizer) == golden.config["vocab_size"]
        assert [tokenizer.pad_token_id, tokenizer.unk_token_id, tokenizer.eos_token_id] == list(SYMBOLS.values())
        assert len(golden.config["examples"]) == 3
        for example in golden.config["examples"]:
            encoded = tokenizer(example["text"])
            assert encoded["input_ids"] == example["ids"]
            assert encoded.tokens() == example["tokens"]
            # the text again, in lower case and on one line, but for what is unknown
            known = " ".join(word for word in example["tokens"] if word not in SYMBOLS)
            assert tokenizer.decode(example["ids"], skip_special_tokens=True) == known
        batch = tokenizer([example["text"] for example in golden.config["examples"]], padding=True)
        assert set(batch) == {"input_ids", "attention_mask"}
        assert batch["input_ids"][2] == golden.config["examples"][2]["ids"] + [0] * 14
        assert sum(batch["attention_mask"][2]) == 6


@pytest.mark.parametrize("golden", ["cfq_encdec"], indirect=True)
def test_a_checkpoint_travels_with_its_tokenizer(golden: SimpleNamespace, tmp_path: Path) -> None:
    words = SYMBOLS | {f"word{index}": index for index in range(3, golden.config["vocab_size"])}
    model_of(golden).save_pretrained(tmp_path)
    cfq_tokenizer(words).save_pretrained(tmp_path)
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, dtype=torch.float64)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    texts = tokenizer.batch_decode(golden.tensors["in.input_ids"], skip_special_tokens=True)
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    assert torch.equal(batch["input_ids"], golden.tensors["in.input_ids"])
    written = model.generate(**batch, max_length=golden.config["max_length"])
    assert tokenizer.batch_decode(written) == tokenizer.batch_decode(golden.tensors["out.generated"])


def test_bad_vocabularies(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(ValueError, match=r"tokenizer\.json: "):
        cfq_tokenizer(path)
    path.write_text('{"did": 33}')
    with pytest.raises(ValueError, match=r"tokenizer\.json: "):
        cfq_tokenizer(str(path))
    with pytest.raises(ValueError, match=r"'edge_cfq'.*\[EOS\], \[UNK\]"):
        cfq_tokenizer({"[PAD]": 0, "did": 1})
    with pytest.raises(ValueError, match=r"'edge_cfq'.*'did'.*'was'.*3"):
        cfq_tokenizer({**SYMBOLS, "did": 3, "was": 3})


# file: the tests that compare it
COMPARED: dict[str, tuple[Callable[..., None], ...]] = {
    **dict.fromkeys(CLUTRR, (test_loss_and_gradients, test_clutrr)),
    **dict.fromkeys(RELATION_AWARE, (test_loss_and_gradients, test_relation_aware)),
    **dict.fromkeys(COGS, (test_loss_and_gradients, test_cogs)),
    **dict.fromkeys(CFQ, (test_loss_and_gradients, test_cfq)),
    "clutrr_collate": (test_batches_of_graphs,),
    "cogs_batch": (test_batches_of_sentences,),
    "cfq_tokenizer": (test_tokenizer,),
}


def spoiled(golden: SimpleNamespace) -> Iterator[tuple[str, SimpleNamespace]]:
    """The file with one changed number at a time, among those that are not weights or model inputs."""
    for key, tensor in golden.tensors.items():
        if key.startswith(("g.", "out.", "in.mask4", "in.acc.", "in.relations")) or golden.name not in FAMILY:
            other = copy.copy(golden)
            other.tensors = {**golden.tensors, key: tensor + 1}
            other.gradients = {**golden.gradients, key[2:]: tensor + 1} if key.startswith("g.") else golden.gradients
            yield key, other
    if golden.name == "cfq_tokenizer":
        for row, one in enumerate(golden.config["examples"]):
            # its words' ids are what the test makes their file of, but for the end's
            wrong = {
                "text": f"was {one['text']}",
                "tokens": ["other", *one["tokens"][1:]],
                "ids": [*one["ids"][:-1], 0],
            }
            for field, value in wrong.items():
                other = copy.deepcopy(golden)
                other.config["examples"][row][field] = value
                yield f"{field} of example {row}", other


def test_every_file_is_known(golden_dir: Path) -> None:
    assert {path.stem for path in (golden_dir / "edge").glob("*.json")} == set(COMPARED)


@pytest.mark.parametrize("golden", COMPARED, indirect=True)
def test_every_number_is_compared(golden: SimpleNamespace, tmp_path: Path) -> None:
    given = {"implementation": "plain", "form": "table", "tmp_path": tmp_path}

    def compare(golden: SimpleNamespace) -> None:
        for test in COMPARED[golden.name]:
            test(golden, **{name: given[name] for name in inspect.signature(test).parameters if name in given})

    compare(golden)
    unseen, count = [], 0
    for what, other in spoiled(golden):
        count += 1
        try:
            compare(other)
        except AssertionError:
            continue
        unseen.append(what)
    assert not unseen
    assert count >= 4


def test_all_their_layers_may_be_there(golden_dir: Path) -> None:
    """Their checkpoints have unused copies of a shared layer."""
    golden = load_golden(golden_dir, "clutrr_edge")
    copies = {k.replace("layers.0", "layers.2"): v + 1 for k, v in golden.weights.items() if ".layers.0." in k}
    model = from_authors("edge_clutrr", {**golden.weights, **copies}, golden.config)
    close(model(**inputs_of(golden)).loss, golden.tensors["out.loss"])
    untied = {**golden.config, "share_layers": False}
    with pytest.raises(ValueError, match=r"'encoder\.layers\.1\.norm1\.weight'"):
        from_authors("edge_clutrr", golden.weights, untied)
    first = {name: weight for name, weight in golden.weights.items() if ".layers.0." in name}
    layers = {name.replace("layers.0", f"layers.{i}"): weight for name, weight in first.items() for i in (1, 2)}
    model = from_authors("edge_clutrr", {**golden.weights, **layers}, untied)
    assert len(model.model.rounds.layers) == 3
    close(model(**inputs_of(golden)).loss, golden.tensors["out.loss"])


def test_bad_checkpoints(golden_dir: Path) -> None:
    golden = load_golden(golden_dir, "cogs_edge")
    with pytest.raises(ValueError, match=r"'encoder\.other'.*'edge_cogs'"):
        from_authors("edge_cogs", {**golden.weights, "encoder.other": torch.zeros(1)}, golden.config)
    with pytest.raises(ValueError, match="edge_attention_flat=True"):
        from_authors("edge_cogs", golden.weights, {**golden.config, "edge_attention_flat": True})
    with pytest.raises(ValueError, match="input_encoding='absolute'"):
        from_authors("edge_cogs", golden.weights, {**golden.config, "input_encoding": "absolute"})
    with pytest.raises(ValueError, match=r"'edge_cogs'.*'dim'"):
        from_authors("edge_cogs", golden.weights, {k: v for k, v in golden.config.items() if k != "dim"})
