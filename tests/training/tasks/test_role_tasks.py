"""Training of the role/filler Transformer: its batches, its loss, what a run leaves, and that it travels."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from datasets import Dataset, DatasetDict
from invariance import (
    SHARED_BATCHES,
    SMOOTH,
    assert_a_kill_leaves_no_trace,
    assert_a_lost_end_comes_back,
    assert_losses_are_the_same,
    assert_two_processes_train_as_one,
)
from tiny_runs import (
    read_lines,
    short_scan,
    small_scan,
    snapshot,
    tiny_recipe,
    write_recipe,
)

import hf_sysgen.evaluation.commands
import hf_sysgen.training.run
import hf_sysgen.training.tasks.registry
from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.io import load_recipe, shipped_recipes
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.data import benchmark_info
from hf_sysgen.data.errors import DataError
from hf_sysgen.data.text.roles import role_scheme
from hf_sysgen.evaluation.checkpoints import load_checkpoint, predict
from hf_sysgen.evaluation.commands import evaluate_checkpoint
from hf_sysgen.evaluation.isolated_process import predict_isolated
from hf_sysgen.evaluation.metrics.summary import summarize
from hf_sysgen.results.predictions import read_predictions
from hf_sysgen.results.reading import read_record
from hf_sysgen.training.run import run_recipe
from hf_sysgen.training.tasks.registry import prepare_task
from hf_sysgen.training.tasks.roles import RoleFillerTask, TableRows, frequency_ranks

MODEL = {"model": "role_filler_transformer"}
ROLES = {**MODEL, "role_scheme": "scan_prim"}
FILLER = {**ROLES, "role_loss": False}
# what each row of the paper's tables is, by its recipe's name
ROWS = {
    "role_loss_threshold": ("scan_prim", True, 0.08, 0.927),
    "role_loss": ("scan_prim", True, None, 0.874),
    "filler_threshold": ("scan_prim", False, 0.08, 0.856),
    "filler": ("scan_prim", False, None, 0.162),
    "words": (None, False, None, 0.028),
    "roles_fillers": ("scan_prim", False, None, 0.0022),
}


def tiny_task(folder: Path, **keys) -> RoleFillerTask:
    task = prepare_task(tiny_recipe(folder, **{**ROLES, **keys}))
    assert isinstance(task, RoleFillerTask)
    return task


@pytest.mark.parametrize("train_eos", [True, False])
@pytest.mark.parametrize("separate", [True, False], ids=["separate", "shared"])
def test_batches_against_a_loop(separate, train_eos, tmp_path, few_examples):
    task = tiny_task(tmp_path, train_eos=train_eos, separate_tables=separate)
    scheme, rows = role_scheme("scan_prim"), np.array([7, 0, 40, 3])
    # after the words' roles, in both languages
    source_end, start, target_end = len(scheme.source_names), len(scheme.source_names) + 1, len(scheme.target_names)
    placed = list(range(start + 1))
    if not separate:
        names = [*scheme.source_names, "</s>", "<s>"], [*scheme.target_names, "</s>"]
        placed = TableRows.of(*names, task.ranks(scheme, [])).source
    examples, batch = small_scan()["train"], task.splits["train"][rows]
    width, longest = batch["input_ids"].shape[1], batch["labels"].shape[1]
    assert len({len(examples[int(row)]["target"]) for row in rows}) > 1
    for index, row in enumerate(rows.tolist()):
        source = [scheme.source_roles[word] for word in examples[row]["input"].split()]
        target = [scheme.target_roles[word] for word in examples[row]["target"].split()]
        expected = [placed[role] for role in (start, *source, source_end)]
        assert batch["role_ids"][index].tolist() == expected + [placed[source_end]] * (width - len(expected))
        expected = [target_end, *target]
        assert batch["decoder_role_ids"][index][: len(expected)].tolist() == expected
        expected = [*target, target_end if train_eos else -100]
        assert batch["role_labels"][index].tolist() == expected + [-100] * (longest - len(expected))
    assert torch.equal(batch["role_labels"] == -100, batch["labels"] == -100)


def test_who_is_as_common_shares_a_row():
    counts = {"run": 3, "left": 2, "walk": 1, "jump": 1}
    counted = frequency_ranks(counts, {"run": "verb", "walk": "verb", "left": "left"})
    # twice two left, four verbs, three run, one jump, one walk; the end before all
    assert list(counted) == ["</s>", "left", "verb", "run", "jump", "walk"]
    assert list(frequency_ranks(counts, {})) == ["</s>", "run", "left", "jump", "walk"]
    target = {"</s>": 0, "LEFT": 1, "VERB": 2, "RUN": 3, "WALK": 4, "JUMP": 5}
    source = ["</s>", "jump", "left", "run", "unseen", "<s>"]
    words = TableRows.of(source, ["JUMP", "LEFT", "WALK", "</s>"], (counted, target))
    # `run` is as common as RUN, which is no word here
    assert words == TableRows([3, 2, 1, 4, 5, 6], 7, 7)
    assert TableRows.of(source, ["JUMP"], None) == TableRows([0, 1, 2, 3, 4, 5], 6, 1)


def test_what_is_common_is_counted_in_tokens(tmp_path, few_examples):
    """Of the training texts alone, without the symbols around them."""
    for tokens, of in (("words", str.split), ("characters", list)):
        task = tiny_task(tmp_path, role_scheme=None, tokenization=tokens)
        texts = small_scan()["train"]
        for ids, column in ((task.splits["train"].sources, "input"), (task.splits["train"].targets, "target")):
            expected: dict[str, int] = {}
            for text in texts[column]:
                for token in of(text):
                    expected[token] = expected.get(token, 0) + 1
            assert task.counts(ids) == expected


def test_rows_of_add_jump():
    """
    As the authors' data has it (17 source and 10 target numbers, of which three and one are specials), but for words
    that are equally common in all of the training examples, which they split by chance.
    """
    task = prepare_task(recipe_of("role_loss_threshold"))
    config, tokenizer, scheme = task.build_model("eager").config, task.vocabulary.tokenizer, role_scheme("scan_prim")
    # 13 words in 10 roles, two symbols; what the target has shares rows with them
    assert (config.source_vocab_size, config.decoder_rows, config.role_vocab_size) == (15, 15, 12)
    targets = [*tokenizer.convert_ids_to_tokens(list(range(task.vocabulary.vocab_size))), *[None] * 8]
    sources = tokenizer.convert_ids_to_tokens(
        list(range(config.source_id_offset, config.source_id_offset + config.source_vocab_size))
    )
    shared = {word: targets[row] for word, row in zip(sources, config.source_row_map, strict=True)}
    assert {word: shared[word] for word in ("right", "left", "opposite", "</s>")} == {
        "right": "I_TURN_RIGHT", "left": "I_TURN_LEFT", "opposite": "I_JUMP", "</s>": "</s>",
    }  # fmt: skip
    assert {shared[word] for word in ("twice", "thrice", "around")} == {"I_WALK", "I_LOOK", "I_RUN"}
    assert {shared[word] for word in ("walk", "look", "run", "jump", "turn", "and", "after", "<s>")} == {None}
    names = [*scheme.target_names, "</s>", *[None] * 8]
    roles = {word: names[row] for word, row in zip(sources, config.source_role_map, strict=True)}
    assert {word: role for word, role in roles.items() if role} == {
        "right": "I_TURN_RIGHT", "left": "I_TURN_LEFT", "</s>": "</s>",
        **dict.fromkeys(("walk", "look", "run", "jump"), "PRIM"),
    }  # fmt: skip


def test_rows_of_swapped_streams():
    """Words and roles have one vocabulary, in both tables; a role with the name of a word is that word."""
    task = prepare_task(recipe_of("roles_fillers"))
    model, tokenizer = task.build_model("eager"), task.vocabulary.tokenizer
    config, words = model.config, task.vocabulary.vocab_size
    assert config.role_vocab_size == config.source_role_vocab_size == config.decoder_rows
    assert model.lm_head.weight is model.model.decoder.embed_roles.weight
    roles = dict(zip(tokenizer.convert_ids_to_tokens(list(range(words))), config.role_map, strict=True))
    own = {word: tokenizer.convert_tokens_to_ids(word) for word in ("I_TURN_LEFT", "I_TURN_RIGHT", "</s>")}
    assert own == {word: roles[word] for word in own}
    assert {roles[verb] for verb in ("I_WALK", "I_LOOK", "I_RUN", "I_JUMP")} == {words}
    ids = range(config.source_id_offset, config.source_id_offset + config.source_vocab_size)
    sources = tokenizer.convert_ids_to_tokens(list(ids))
    for word, row, role in zip(sources, config.source_row_map, config.source_role_map, strict=True):
        assert (role == row) == (word not in ("walk", "look", "run", "jump")), word
    assert len({config.source_role_map[sources.index(verb)] for verb in ("walk", "look", "run", "jump")}) == 1


def test_one_row_a_word_of_a_joint_vocabulary(tmp_path, few_examples):
    config = tiny_task(tmp_path, role_scheme=None, joint_vocabulary=True).build_model("eager").config
    assert config.source_row_map == list(range(config.source_vocab_size)) == list(range(config.decoder_rows))


@pytest.mark.parametrize(
    "keys",
    [ROLES, {**MODEL, "role_scheme": None}, {**ROLES, "separate_tables": True}],
    ids=["scheme", "words", "separate"],
)
def test_the_model_knows_the_roles_by_itself(keys, tmp_path, few_examples):
    """Generation and strangers rely on it; a batch says them only so that nothing has to be looked up."""
    task = tiny_task(tmp_path, **keys)
    model = task.build_model("eager").eval()
    batch = task.splits["train"][np.arange(9)]
    bare = {key: tensor for key, tensor in batch.items() if "role" not in key}
    assert len(batch) == len(bare) + 3
    told, alone = model(**batch), model(**bare)
    for name in ("logits", "role_logits", "filler_loss", "role_loss", "loss"):
        assert torch.equal(told[name], alone[name]), name
    other = batch | {"role_ids": batch["role_ids"].roll(1, dims=1)}
    assert not torch.equal(model(**other).logits, told.logits)


def test_of_no_rows_a_batch_without_labels(tmp_path, few_examples):
    batch = tiny_task(tmp_path).splits["train"][np.empty(0, np.int64)]
    assert (batch["labels"] == -100).all()
    assert (batch["role_labels"] == -100).all()
    assert {len(tensor) for tensor in batch.values()} == {1}


@pytest.mark.parametrize("keys", [ROLES, FILLER], ids=["role loss", "filler loss"])
def test_a_gradient_comes_for_every_weight(keys, tmp_path, few_examples):
    """Several processes wait for each. Those behind the last attention that reads roles are zero without role loss."""
    task = tiny_task(tmp_path, **keys)
    model = task.build_model("eager")
    model(**task.splits["train"][np.arange(5)]).loss.backward()
    left = {name for name, parameter in model.named_parameters() if not parameter.grad.any()}
    # two LayerNorms, an output projection and a feed-forward block
    assert len(left) == (0 if keys is ROLES else 12)
    assert all(".decoder.layers.0." in name and ".role." in name for name in left)


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    """A run that gets some examples right."""
    folder = tmp_path_factory.mktemp("roles")
    hf_sysgen.training.run.quiet_libraries()
    recipe = tiny_recipe(
        folder, **ROLES, max_steps=60, size=32, hidden_size=32, learning_rate=0.01, eval_steps=30, save_steps=60,
        dropout=0.0,
    )  # fmt: skip
    with mock.patch.object(hf_sysgen.training.tasks.registry, "load_benchmark", return_value=short_scan()):
        run_recipe(recipe)
    return folder / "run"


def test_records(run_dir):
    record, rows = read_record(run_dir / "results.json"), read_lines(run_dir / "predictions.jsonl")
    for split, metrics in record.splits.items():
        summary = summarize(read_predictions(run_dir / "predictions.jsonl", split))
        assert summary == metrics
        assert metrics.metrics["exact_teacher"] == metrics.accuracy
    # gold words before each label, or the model's own: what is right is right both ways
    assert [row["exact_teacher"] for row in rows] == [row["exact"] for row in rows]
    assert 0 < sum(row["exact"] for row in rows) < len(rows)
    assert [step for step, _ in record.curve("test", "accuracy")] == [30, 60]
    assert record.recipe.data.role_scheme == "scan_prim"


def test_evaluate_counts_both_ways(run_dir, tmp_path, monkeypatch):
    """The command finds what the run's record has, without the scheme."""
    monkeypatch.setattr(hf_sysgen.evaluation.commands, "load_benchmark", lambda *args, **kwargs: short_scan())
    output = tmp_path / "out"
    text = evaluate_checkpoint(str(run_dir), "scan", "length_cutoff_26", None, None, output, 7)
    assert text.split()[:4] == ["split", "examples", "accuracy", "exact_teacher"]
    measured, record = json.loads((output / "metrics.json").read_text()), read_record(run_dir / "results.json")
    for split, metrics in record.splits.items():
        assert measured[split]["exact_teacher"] == metrics.metrics["exact_teacher"]
        assert measured[split]["accuracy"] == metrics.accuracy
    assert all(row["exact_teacher"] == row["exact"] for row in read_lines(output / "predictions.jsonl"))


def test_teacher_forcing_reads_the_roles_it_is_given(run_dir, tmp_path):
    """Wrong roles of right words make wrong choices; the model's own words have the roles of its map."""
    with mock.patch.object(hf_sysgen.training.tasks.registry, "load_benchmark", return_value=short_scan()):
        task = tiny_task(tmp_path)
    model, _ = load_checkpoint(run_dir)
    rows = np.arange(len(task.splits["train"]))
    task.splits["train"].target_roles = task.splits["train"].target_roles.flip(0)
    records = task.evaluate(model, "train", rows, True, 0, 1)
    hits, exact = (sum(getattr(record, key) for record in records) for key in ("exact_teacher", "exact"))
    assert hits < exact


def test_a_stranger_generates(run_dir):
    """By `generate`, token by token, without references or the scheme."""
    model, tokenizer = load_checkpoint(run_dir)
    rows = read_lines(run_dir / "predictions.jsonl")
    texts, _ = predict(model, tokenizer, [row["input"] for row in rows])
    for row, text in zip(rows, texts, strict=True):
        assert text.split()[: row["target_length"] + 1] == row["prediction"].split()
    scheme = role_scheme("scan_prim")
    config = model.config
    source = tokenizer.convert_ids_to_tokens(
        range(config.source_id_offset, config.source_id_offset + config.source_vocab_size)
    )
    known = {word: scheme.source_names[role] for word, role in scheme.source_roles.items()}
    # a row for each role
    rows = dict(zip((known.get(word, word) for word in source), config.source_role_map, strict=True))
    assert [rows[known.get(word, word)] for word in source] == config.source_role_map
    assert len(set(rows.values())) == len(rows) == len(scheme.source_names) + 2
    targets = tokenizer.convert_ids_to_tokens(range(config.vocab_size))
    names = [*scheme.target_names, "</s>"]
    known = {word: scheme.target_names[role] for word, role in scheme.target_roles.items()}
    assert [names[role] for role in config.role_map] == [known.get(word, word) for word in targets]


@pytest.mark.slow
def test_a_checkpoint_travels(run_dir):
    """Its own code, in a process that cannot import this package."""
    text = "jump and walk left"
    model, tokenizer = load_checkpoint(run_dir)
    (expected,), _ = predict(model, tokenizer, [text])
    assert predict_isolated(str(run_dir), [text]) == [expected]


def test_resumed(tmp_path, few_examples):
    assert_a_lost_end_comes_back(tiny_recipe(tmp_path, **FILLER, sampling="epochs", length_buckets=2, eval_steps=None))


@pytest.mark.slow
def test_killed_once(tmp_path):
    assert_a_kill_leaves_no_trace(write_recipe(tmp_path, **FILLER, sampling="epochs", length_buckets=2), tmp_path)


@pytest.mark.parametrize("keys", [FILLER, pytest.param(ROLES, marks=pytest.mark.slow)], ids=["filler", "role"])
def test_two_processes_make_the_updates_of_one(keys, tmp_path, few_examples):
    keys = {**keys, **SHARED_BATCHES}
    alone = run_recipe(tiny_recipe(tmp_path / "one", **keys))
    assert_two_processes_train_as_one(alone, write_recipe(tmp_path, **keys), tmp_path)


def test_the_same_updates_in_buckets(tmp_path, few_examples):
    """The loss is a mean over the labels of an update, and so is that of the roles."""
    keys = {**ROLES, **SMOOTH, "size": 20, "max_steps": 4, "eval_steps": None}
    assert_losses_are_the_same(
        *(
            tiny_recipe(tmp_path / name, **{**keys, **more})
            for name, more in (("plain", {}), ("other", {"length_buckets": 4}))
        )
    )


def test_a_scheme_from_a_file(tmp_path, few_examples):
    path = tmp_path / "mine.yaml"
    words = role_scheme("scan_words")
    sides = {
        "source": dict.fromkeys(words.source_roles, "word"),
        "target": {word: f"R{role}" for word, role in words.target_roles.items()},
    }
    path.write_text(str(sides).replace("'", '"'), encoding="utf-8")
    config = tiny_task(tmp_path, role_scheme=str(path), separate_tables=True).build_model("eager").config
    assert (config.source_role_vocab_size, config.role_vocab_size) == (1 + 2, len(words.target_roles) + 1)
    assert set(config.source_role_map) == {0, 1, 2}
    path.write_text(str({**sides, "target": {"I_JUMP": "</s>"}}).replace("'", '"'), encoding="utf-8")
    with pytest.raises(DataError, match=r"mine.*'</s>'"):
        tiny_task(tmp_path, role_scheme=str(path))
    sides["source"].pop("jump")
    path.write_text(str(sides).replace("'", '"'), encoding="utf-8")
    with pytest.raises(DataError, match=r"'jump'.*mine"):
        tiny_task(tmp_path, role_scheme=str(path))


def test_a_scheme_that_has_changed_since_the_run_began(tmp_path, few_examples):
    path, words = tmp_path / "mine.yaml", role_scheme("scan_words")
    roles = dict.fromkeys(words.target_roles, "a")
    sides = {"source": dict.fromkeys(words.source_roles, "word"), "target": roles}
    path.write_text(json.dumps(sides), encoding="utf-8")
    recipe = tiny_recipe(tmp_path, **MODEL, role_scheme=str(path))
    begun = run_recipe(recipe)
    before = snapshot(recipe.run_dir)
    (recipe.run_dir / "results.json").unlink()
    path.write_text(json.dumps({**sides, "target": {**roles, "I_JUMP": "b"}}), encoding="utf-8")
    with pytest.raises(RecipeError, match=r"data\.role_scheme.* other examples") as refusal:
        run_recipe(recipe)
    assert refusal.value.key == "data.role_scheme"
    path.write_text(json.dumps(sides), encoding="utf-8")
    assert [start.data_sha256 for start in run_recipe(recipe).starts] == [begun.starts[0].data_sha256] * 2
    assert snapshot(recipe.run_dir).keys() == before.keys()


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        ({"model": "torch_transformer"}, "data.role_scheme"),
        ({"joint_vocabulary": True}, "data.role_scheme"),
        ({"tokenization": "characters"}, "data.role_scheme"),
        ({"label_smoothing_factor": 0.1}, "training.label_smoothing_factor"),
        ({"role_map": [1]}, "model.role_map"),
        ({"source_row_map": [1]}, "model.source_row_map"),
    ],
)
def test_keys_that_do_not_go_with_roles(keys, wrong, tmp_path):
    with pytest.raises(RecipeError) as caught:
        tiny_recipe(tmp_path, **{**ROLES, **keys})
    assert caught.value.key == wrong


COGS = [
    ("A shark was helped .", "shark ( x _ 1 ) AND help . theme ( x _ 3 , x _ 1 )"),
    ("The cake rolled .", "* cake ( x _ 1 ) ; roll . theme ( x _ 2 , x _ 1 )"),
    ("Paula crawled .", "crawl . agent ( x _ 1 , Paula )"),
    ("shark", "LAMBDA a . shark ( a )"),
]  # fmt: skip


@pytest.mark.parametrize("name", ["cogs_category", "cogs_pos"])
def test_roles_of_cogs(name, tmp_path, monkeypatch):
    """A scheme that is made from the benchmark's splits, from batches to both ways of counting."""
    columns = dict(zip(("input", "target"), map(list, zip(*COGS, strict=True)), strict=True))
    examples = DatasetDict({split: Dataset.from_dict(columns) for split in ("train", "validation", "test")})
    monkeypatch.setattr(hf_sysgen.training.tasks.registry, "load_benchmark", lambda *args, **kwargs: examples)
    task = tiny_task(tmp_path, benchmark="cogs", config="gen_2020", role_scheme=name, size=2)
    scheme = role_scheme(name, examples)
    batch = task.splits["train"][np.arange(4)]
    for row, ids in enumerate(batch["decoder_role_ids"].tolist()):
        roles = scheme.roles(examples["train"][row]["target"], "target")
        assert ids[1 : len(roles) + 1] == roles
    model = task.build_model("eager")
    model(**batch).loss.backward()
    assert model.get_parameter("model.decoder.embed_roles.weight").grad.isfinite().all()
    records = task.evaluate(model, "test", np.arange(4), True, 0, 1)
    assert [record.exact_teacher for record in records] == [record.exact for record in records]


def test_no_such_scheme(tmp_path, few_examples):
    with pytest.raises(DataError, match=r"'prim'.*scan_prim"):
        tiny_task(tmp_path, role_scheme="prim")


# the paper's cells


def recipe_of(name: str, *changes: str) -> Recipe:
    return load_recipe(f"chakravarthy2022/scan_jump_{name}.yaml", changes)


def test_every_row_has_a_recipe():
    for name, row in ROWS.items():
        recipe = recipe_of(name)
        fields = recipe.model.fields
        assert (recipe.data.role_scheme, fields["role_loss"], fields["attention_threshold"], recipe.paper.test) == row
        assert fields.get("swap_streams", False) == (name == "roles_fillers")
        training = recipe.training
        assert (training.learning_rate, training.max_grad_norm, recipe.schedule.type) == (2.5e-4, 0.0, "constant")
    names = {path.stem for path in Path(shipped_recipes(), "chakravarthy2022").glob("*.yaml")}
    assert {name.removesuffix("_quick") for name in names} == {f"scan_jump_{name}" for name in (*ROWS, "transformer")}


def test_the_paper_s_sizes(few_examples):
    """
    The authors' counts, but for rows: they have 17 in each table (without roles 16), for padding, a start of targets
    and, in both tables, words and roles.
    """
    for name, theirs in (("role_loss_threshold", 4_165_888 - 2 * 17 * 256), ("words", 4_165_376 - 2 * 16 * 256)):
        model = prepare_task(recipe_of(name)).build_model("eager")
        assert model.num_parameters() == theirs + 256 * (model.config.decoder_rows + model.config.role_vocab_size)
    config = prepare_task(recipe_of("role_loss_threshold", "model.separate_tables=true")).build_model("eager").config
    tables = (config.source_vocab_size, config.vocab_size, config.source_role_vocab_size, config.role_vocab_size)
    assert tables == (15, 7, 12, 4)
    task = prepare_task(recipe_of("transformer"))
    assert not isinstance(task, RoleFillerTask)
    # rows of the source, and of the target's table and output
    assert task.build_model("eager").num_parameters() == 2_645_513 - 256 - 2 * (256 + 256 + 1)


def test_the_paper_s_epochs():
    examples = benchmark_info("scan").configs["addprim_jump_chakravarthy2022"].num_examples["train"]
    for name, epochs in (*((name, 400) for name in ROWS), ("transformer", 200)):
        recipe = recipe_of(name)
        assert recipe.training.max_steps == epochs * -(-examples // recipe.batches.size)
