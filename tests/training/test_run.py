"""What a run leaves behind, what it makes of a folder that is not empty, and what it refuses."""

from __future__ import annotations

import contextlib
import errno
import platform
import re
import shutil

import numpy
import pytest
import torch
import transformers
from made_examples import any_benchmark
from sharded import shard
from tiny_runs import read_lines, short_scan, snapshot, tiny_recipe, train_process, write_recipe
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from typer.testing import CliRunner

import hf_sysgen.training.run
import hf_sysgen.training.tasks.registry
from hf_sysgen.cli.main import app
from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.io import dump_recipe, load_recipe
from hf_sysgen.config.sweep import load_sweep
from hf_sysgen.data.text.vocabulary import encode_sources
from hf_sysgen.evaluation.metrics.summary import summarize
from hf_sysgen.files import locked
from hf_sysgen.results.evaluations import read_evaluations
from hf_sysgen.results.predictions import read_predictions
from hf_sysgen.results.reading import read_record
from hf_sysgen.train import main
from hf_sysgen.training.run import WAIT_SECONDS, attention_of, run_recipe
from hf_sysgen.training.tasks.registry import prepare_task
from hf_sysgen.training.trainer import SysgenTrainer

COLUMNS = {"split", "row", "input", "target", "prediction", "exact", "loss", "loss_teacher", "target_length",
           "oracle_exact"}  # fmt: skip


def test_files(learned):
    assert {path.name for path in learned.iterdir()} == {
        ".lock", "recipe.yaml", "results.json", "predictions.jsonl", "starts.json", "model", "checkpoint-300",
    }  # fmt: skip
    saved = {path.name for path in (learned / "model").iterdir()}
    assert {"config.json", "generation_config.json", "model.safetensors"} <= saved
    assert {"tokenizer.json", "tokenizer_config.json"} <= saved


def test_recipe_copy(learned):
    record = read_record(learned / "results.json")
    copy = load_recipe(learned / "recipe.yaml")
    assert copy.hash == record.recipe_hash
    assert copy.to_dict() == record.recipe.to_dict()


def test_record(learned):
    record = read_record(learned / "results.json")
    assert record.name == "tiny"
    assert record.seed == 0
    assert record.steps == 300
    assert record.num_processes == 1
    assert record.environment.num_threads == torch.get_num_threads()
    assert record.train_seconds > 0
    versions = record.versions
    assert versions["python"] == platform.python_version()
    assert (versions["torch"], versions["transformers"], versions["numpy"]) == (
        torch.__version__, transformers.__version__, numpy.__version__,
    )  # fmt: skip
    assert set(versions) == {
        "python", "hf_sysgen", "torch", "transformers", "datasets", "accelerate", "tokenizers", "numpy",
    }  # fmt: skip
    assert list(record.splits) == ["validation", "test"]
    assert [start.step for start in record.starts] == [0]


def test_history(learned):
    history = read_record(learned / "results.json").history
    evaluated = [entry for entry in history if entry.evaluations]
    assert [entry.step for entry in evaluated] == [100, 200, 300]
    for entry in evaluated:
        for split in ("validation", "test"):
            # shares of the 7 examples that were evaluated
            right = entry.evaluations[split]["accuracy"] * 7
            assert right == pytest.approx(round(right))
            assert {"loss", "loss_teacher"} <= entry.evaluations[split].keys()
    losses = [entry.loss for entry in history if entry.loss is not None]
    assert len(losses) == 30
    assert losses[-1] < losses[0] / 2


def test_one_prediction_for_every_example(learned):
    rows = read_lines(learned / "predictions.jsonl")
    expected = [
        (split, row, example["input"], example["target"])
        for split in ("validation", "test")
        for row, example in enumerate(short_scan()[split])
    ]
    assert [(row["split"], row["row"], row["input"], row["target"]) for row in rows] == expected
    assert all(set(row) == COLUMNS for row in rows)
    for row in rows:
        assert row["target_length"] == len(row["target"].split())
        if row["exact"]:
            assert row["prediction"] == row["target"]
    assert 0 < sum(row["exact"] for row in rows) < len(rows)


def test_metrics_follow_from_predictions(learned):
    """So a metric can be changed without running a model again."""
    record = read_record(learned / "results.json")
    for name, metrics in record.splits.items():
        summary = summarize(read_predictions(learned / "predictions.jsonl", name))
        assert summary == metrics


def test_checkpoint_translates_like_the_run(learned):
    model = AutoModelForSeq2SeqLM.from_pretrained(learned / "model")
    tokenizer = AutoTokenizer.from_pretrained(learned / "model")
    longest = max(len(text.split()) for split in short_scan().values() for text in split["target"])
    assert model.generation_config.max_new_tokens == longest + 1
    rows = read_lines(learned / "predictions.jsonl")
    batch = tokenizer([row["input"] for row in rows], padding=True, return_tensors="pt")
    words = tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)
    whole = 0
    for row, translation in zip(rows, words, strict=True):
        # a prediction ends one word after its reference's length at the latest
        assert row["prediction"].split() == translation.split()[: row["target_length"] + 1]
        whole += row["prediction"] == translation
    assert whole > len(rows) / 2
    (ids,) = encode_sources(tokenizer, [rows[0]["input"]])
    assert batch["input_ids"][0][batch["attention_mask"][0] == 1].tolist() == ids


def test_second_start_changes_no_file(tmp_path, few_examples, monkeypatch):
    words = [str(write_recipe(tmp_path, output_dir=str(tmp_path / "run")))]
    assert main(words) == 0
    before = snapshot(tmp_path / "run")
    monkeypatch.setattr(hf_sysgen.training.run, "prepare_task", lambda recipe: pytest.fail("work was begun"))
    # keys that only place a run do not make it another one
    for more in ([], ["training.logging_steps=7"]):
        assert main([*words, *more]) == 0
        assert snapshot(tmp_path / "run") == before


def test_two_runs_in_one_folder(tmp_path, few_examples, capsys):
    run_dir = tmp_path / "run"
    words = [str(write_recipe(tmp_path, output_dir=str(run_dir)))]
    with locked(run_dir / ".lock"):
        for folder in ("new", "begun"):
            before = snapshot(run_dir)
            assert main(words) == 2
            error = capsys.readouterr().err
            assert error.startswith(f"error: {words[0]}: output_dir: ")
            assert str(run_dir) in error
            assert error.count("\n") == 1
            assert snapshot(run_dir) == before
            if folder == "new":
                (run_dir / "checkpoint-2").mkdir()
                (run_dir / "checkpoint-2" / "model.safetensors").touch()
                (run_dir / "recipe.yaml").write_text(dump_recipe(load_recipe(words[0])), encoding="utf-8")
    assert main(words) == 0


def test_a_look_at_a_run_does_not_keep_it_from_starting(tmp_path, few_examples, monkeypatch):
    recipe = tiny_recipe(tmp_path)
    with contextlib.ExitStack() as looking:
        looking.enter_context(locked(recipe.run_dir / ".lock"))
        waits = []

        def wait(seconds):
            waits.append(seconds)
            if seconds:
                looking.close()

        monkeypatch.setattr(hf_sysgen.training.run.time, "sleep", wait)
        run_recipe(recipe)
    assert waits[:2] == [0, WAIT_SECONDS]


def test_a_run_that_another_process_has_just_finished(tmp_path, few_examples, monkeypatch):
    recipe = tiny_recipe(tmp_path)
    prepare, snapshots = hf_sysgen.training.run.prepare_task, []

    def slowly(recipe):
        monkeypatch.undo()
        monkeypatch.setattr(hf_sysgen.training.tasks.registry, "load_benchmark", any_benchmark)
        run_recipe(recipe)
        snapshots.append(snapshot(tmp_path / "run"))
        return prepare(recipe)

    monkeypatch.setattr(hf_sysgen.training.run, "prepare_task", slowly)
    assert run_recipe(recipe) == read_record(tmp_path / "run" / "results.json")
    assert [snapshot(tmp_path / "run")] == snapshots


def test_losses_of_every_example(tmp_path, few_examples):
    """They make the means that are logged, of the examples that evaluations look at."""
    record = run_recipe(tiny_recipe(tmp_path, max_steps=4, eval_steps=2, examples=5, save_example_losses=True))
    logged = {entry.step: entry.evaluations for entry in record.history if entry.evaluations}
    for split in ("validation", "test"):
        found = read_evaluations(tmp_path / "run", split)
        assert [one.step for one in found] == [2, 4] == list(logged)
        for one in found:
            assert len(one.losses) == len(one.exact) == 5
            assert sum(one.losses) / 5 == pytest.approx(logged[one.step][split]["loss"], abs=1e-6)
            assert sum(one.exact) / 5 == logged[one.step][split]["accuracy"]


def test_losses_that_a_run_has_not_kept(tmp_path, few_examples, capsys):
    """Nothing brings them back; the other way round there is nothing to miss."""
    path = str(write_recipe(tmp_path, output_dir=str(tmp_path / "run"), max_steps=2, eval_steps=1))
    assert main([path]) == 0
    before = snapshot(tmp_path)
    capsys.readouterr()
    assert "evaluation.save_example_losses=true" in refused([path, "evaluation.save_example_losses=true"], capsys)
    assert snapshot(tmp_path) == before
    words = [path, f"output_dir={tmp_path / 'other'}"]
    for kept in ("true", "false"):
        assert main([*words, f"evaluation.save_example_losses={kept}"]) == 0


def test_a_default_that_is_given_outright_is_the_same_run(tmp_path, few_examples):
    words = [str(write_recipe(tmp_path, output_dir=str(tmp_path / "run"), max_steps=1))]
    assert main(words) == 0
    before = snapshot(tmp_path / "run")
    assert main([*words, "model.dropout=0.1"]) == 0
    assert snapshot(tmp_path / "run") == before


def test_fields_whose_effect_a_checkpoint_decides(tmp_path):
    words = ["model.pretrained=x", "model.relative_max_distance=64"]
    assert load_recipe("petty2023/cogs_vf.yaml", words).model.fields["relative_max_distance"] == 64
    with pytest.raises(RecipeError, match=r"model\.relative_max_distance=64.*model\.position_scheme=rotary"):
        load_recipe("petty2023/cogs_vf.yaml", [*words, "model.position_scheme=rotary"])


def test_losses_of_examples_that_are_never_right(tmp_path):
    keys = {"benchmark": "iwslt14", "config": "de-en", "tokenization": "bpe", "subwords": 90}
    with pytest.raises(RecipeError, match=r"evaluation\.save_example_losses"):
        tiny_recipe(tmp_path, **keys, save_example_losses=True)


def test_the_record_tells_of_the_checkout_that_the_process_began_with(tmp_path, few_examples, monkeypatch):
    recipe = tiny_recipe(tmp_path)
    commits = iter(["first", "second"])
    begun = hf_sysgen.training.run.start_after(0)
    monkeypatch.setattr(
        hf_sysgen.training.run, "start_after", lambda step, data: begun.model_copy(update={"commit": next(commits)})
    )
    train = SysgenTrainer.train

    def begin(*args, **kwargs):
        assert next(commits) == "second"
        return train(*args, **kwargs)

    monkeypatch.setattr(SysgenTrainer, "train", begin)
    assert run_recipe(recipe).commit == "first"


def test_run_dir(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipe = load_recipe(write_recipe(tmp_path, "length26", seed=3))
    assert str(recipe.run_dir) == "runs/length26/seed3"


def refused(words: list[str], capsys) -> str:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("error: ")
    return lines[0]


def test_folder_of_another_recipe(learned, tmp_path, capsys):
    shutil.copytree(learned, tmp_path / "run")
    before = snapshot(tmp_path)
    path = write_recipe(tmp_path / "run" / "model", output_dir=str(tmp_path / "run"))
    message = refused([str(path)], capsys)
    path.unlink()
    assert re.match(r"error: \S+\.yaml: output_dir: ", message)
    for word in ("training.max_steps", "300", "6"):
        assert word in message
    assert "logging_steps" not in message
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("name", ["notes.txt", "results.json", "checkpoint-2", ".recipe.yml.abc"])
def test_folder_with_foreign_files(name, tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).write_text("mine")
    before = snapshot(tmp_path)
    message = refused([str(write_recipe(tmp_path)), f"output_dir={tmp_path / 'run'}"], capsys)
    (tmp_path / "tiny.yaml").unlink()
    assert re.match(r"error: \S+\.yaml: output_dir: ", message)
    assert snapshot(tmp_path) == before


def test_folder_that_is_a_file(tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("mine")
    path = str(write_recipe(tmp_path))
    for output_dir in (tmp_path / "file" / "below", tmp_path / "file"):
        message = refused([path, f"output_dir={output_dir}"], capsys)
        assert re.match(r"error: \S+\.yaml: output_dir: ", message)
        assert str(output_dir) in message
        # the file itself is refused before any work
        monkeypatch.setattr(hf_sysgen.training.run, "prepare_task", lambda recipe: pytest.fail("work was begun"))
    assert (tmp_path / "file").read_text() == "mine"


def test_empty_folder_is_taken(tmp_path, few_examples):
    (tmp_path / "run").mkdir()
    run_recipe(tiny_recipe(tmp_path, max_steps=1))
    assert (tmp_path / "run" / "results.json").exists()


@pytest.mark.parametrize("text", ['{"schema_version": 1', "[]", ""])
def test_damaged_results(text, tmp_path, few_examples, capsys):
    path = str(write_recipe(tmp_path, max_steps=1, output_dir=str(tmp_path / "run")))
    assert main([path]) == 0
    capsys.readouterr()
    (tmp_path / "run" / "results.json").write_text(text)
    assert "results.json" in refused([path], capsys)


def test_damaged_recipe_copy(tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.yaml").write_text("model: [")
    path = str(write_recipe(tmp_path, output_dir=str(tmp_path / "run")))
    assert str(tmp_path / "run" / "recipe.yaml") in refused([path], capsys)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"size": 9, "length_buckets": 2}, ["batches.size=9", "batches.length_buckets=2"]),
        ({"size": 62, "sampling": "epochs"}, ["batches.size=62", "61"]),
        # of no extra of ours, so that it is absent
        ({"report_to": "comet_ml"}, ["training.report_to=comet_ml"]),
        (
            {"sampling": "epochs", "epochs": 1, "max_steps": 100, "kept_steps": [5, 50]},
            ["training.kept_steps=[5, 50]", "step 8", "batches.epochs=1"],
        ),
    ],
)
def test_what_shows_only_with_the_data(changes, named, tmp_path, few_examples, capsys):
    path = str(write_recipe(tmp_path, output_dir=str(tmp_path / "run"), **changes))
    message = refused([path], capsys)
    for words in named:
        assert words in message
    # nothing that the corrected recipe would stumble on
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["training.optim=adamm"], "training.optim"),
        (["training.optim_args=foo"], "training.optim_args"),
        (["training.torch_compile=true", "training.torch_compile_mode=fast"], "training.torch_compile_mode"),
        (["training.fsdp=wrong"], "training.fsdp"),
        (["training.hub_strategy=never"], "training.hub_strategy"),
        (["training.report_to=wandbb"], "training.report_to"),
    ],
    ids=str,
)
def test_wrong_words_of_the_trainer_are_refused_by_all_commands(overrides, key, tmp_path, capsys):
    path = write_recipe(tmp_path)
    assert str(path) in refused([str(path), f"output_dir={tmp_path / 'run'}", *overrides], capsys)
    (tmp_path / "sweep.yaml").write_text("recipes: [tiny.yaml]\nseeds: [0]\n")
    for load, file in ((load_recipe, path), (load_sweep, tmp_path / "sweep.yaml")):
        with pytest.raises(RecipeError) as caught:
            load(file, overrides)
        assert caught.value.key == key
    result = CliRunner().invoke(app, ["sweep", str(tmp_path / "sweep.yaml"), "--dry-run", *overrides])
    assert result.exit_code == 2
    assert not (tmp_path / "run").exists()


def test_errors_of_the_folder_name_no_field(tmp_path, few_examples, monkeypatch):
    """The folder is named after an overridden field, which is not to blame."""
    run_dir = tmp_path / "runs" / "tiny,training.max_steps=4" / "seed0"

    def refuse(self, first_step):
        raise PermissionError(errno.EACCES, "Permission denied", str(run_dir))

    monkeypatch.setattr(SysgenTrainer, "step_batches", refuse)
    with pytest.raises(RecipeError) as caught:
        run_recipe(load_recipe(write_recipe(tmp_path), ["training.max_steps=4", f"output_dir={run_dir}"]))
    assert caught.value.key == "output_dir"


def test_sharded_weights_are_for_pretraining(tmp_path):
    done = train_process([str(write_recipe(tmp_path, output_dir="run"))], tmp_path, shard, processes=2)
    assert done.status == 2
    assert "sharded weights" in done.err


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        # packages that no extra of ours has
        (["training.optim=galore_adamw"], "training.optim"),
        (["training.use_liger_kernel=true"], "training.use_liger_kernel"),
        (["training.deepspeed=/nope.json"], "training.deepspeed"),
        (["training.optim=sgd", 'training.optim_args="nesterov=true"'], "training.optim_args"),
        (["training.optim=sgd", 'training.optim_args="momentum=fast"'], "training.optim_args"),
        (["training.optim=sgd", "training.adam_beta1=0.8"], "training.adam_beta1"),
        (["training.optim=adafactor", "training.adam_beta2=0.5"], "training.adam_beta2"),
        (['training.optim_args="momentum=0.9"'], "training.optim_args"),
        (["training.optim_target_modules=all-linear"], "training.optim_target_modules"),
        (["training.neftune_noise_alpha=-1.0"], "training.neftune_noise_alpha"),
        (["batches.length_buckets=3"], "batches.size"),
    ],
    ids=str,
)
def test_what_the_trainer_refuses_names_its_field(overrides, key, tmp_path, few_examples, capsys):
    words = [str(write_recipe(tmp_path, max_steps=1)), f"output_dir={tmp_path / 'run'}"]
    with pytest.raises(RecipeError) as caught:
        run_recipe(load_recipe(words[0], [*words[1:], *overrides]))
    assert caught.value.key == key
    message = refused([*words, *overrides], capsys)
    assert message.startswith(f"error: {words[0]}: {key}=")
    assert not (tmp_path / "run").exists()
    # nothing that the corrected command would stumble on
    assert main(words) == 0


@pytest.mark.parametrize("model", ["edge_transformer", "graph_attention_network", "relation_aware_transformer"])
def test_attention_that_a_model_does_not_have(model, tmp_path):
    keys = {"model": model, "benchmark": "clutrr", "config": "gen_train234_test2to10"}
    with pytest.raises(RecipeError, match=r"model\.attn_implementation=sdpa"):
        attention_of(tiny_recipe(tmp_path, **keys, attn_implementation="sdpa"))
    assert attention_of(tiny_recipe(tmp_path, **keys, attn_implementation="eager")) == "eager"


def test_a_decoder_reads_its_prompt_without_a_start(tmp_path):
    with pytest.raises(RecipeError, match=r"data\.source_start=True"):
        tiny_recipe(tmp_path, model="depth_width_decoder", source_start=True, joint_vocabulary=True)


@pytest.mark.parametrize("model", ["universal_transformer", "sag_transformer", "role_filler_transformer"])
@pytest.mark.parametrize("start", [True, False])
def test_a_recipe_may_say_how_sources_start(model, start, tmp_path, few_examples):
    recipe = tiny_recipe(tmp_path, model=model, source_start=start)
    ids = prepare_task(recipe).splits["train"][numpy.arange(3)]["input_ids"]
    assert run_recipe(recipe).steps == recipe.training.max_steps
    tokenizer = AutoTokenizer.from_pretrained(recipe.run_dir / "model")
    assert (tokenizer.convert_ids_to_tokens(ids[:, 0].tolist()) == ["<s>"] * 3) == start


@pytest.mark.parametrize(
    ("model", "start"),
    [
        ("universal_transformer", ["<s>"]),
        ("torch_transformer", ["<s>"]),
        ("role_filler_transformer", ["<s>"]),
        ("sag_t5_transformer", []),
        ("conv_seq2seq", []),
        ("lstm_seq2seq", []),
    ],
)
def test_sources_start_as_those_of_the_authors(model, start, tmp_path, few_examples):
    task = prepare_task(tiny_recipe(tmp_path, model=model))
    tokenizer = task.vocabulary.tokenizer
    words = task.benchmark["train"]["input"][0].split()
    ids = task.splits["train"][numpy.arange(1)]["input_ids"][0]
    assert tokenizer.convert_ids_to_tokens(ids.tolist()) == [*start, *words, "</s>"]
    known = {word for split in task.benchmark.values() for text in split["input"] for word in text.split()}
    assert task.build_model("sdpa").config.source_vocab_size == len({*known, *start, "</s>"})


def test_early_stopping_needs_a_validation_split(tmp_path, monkeypatch):
    # told before the data is prepared
    monkeypatch.delattr(hf_sysgen.training.tasks.registry, "load_benchmark")
    with pytest.raises(RecipeError, match=r"evaluation\.early_stopping.*validation"):
        run_recipe(tiny_recipe(tmp_path, config="addprim_jump", early_stopping={"metric": "loss"}))


def test_a_wrong_recipe_does_not_hold_its_folder(tmp_path, few_examples):
    """A folder belongs to a recipe only once data and model have shown that it can run."""
    with pytest.raises(RecipeError, match="length_buckets=3"):
        run_recipe(tiny_recipe(tmp_path, length_buckets=3))
    assert run_recipe(tiny_recipe(tmp_path, length_buckets=2, max_steps=2)).steps == 2


TEXT = {"model": "depth_width_decoder", "benchmark": "c4", "config": "en", "tokenizer": "words"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"dropout": 0.1}, "eager"),
        ({}, "eager"),
        ({"dropout": 0.0}, "eager"),
        ({"model": "fairseq_transformer", "dropout": 0.3, "attention_dropout": 0.0}, "eager"),
        ({"model": "fairseq_transformer", "attention_dropout": 0.1}, "eager"),
        ({"model": "depth_width_decoder", "joint_vocabulary": True}, "eager"),
        ({**TEXT, "context_length": 512}, "sdpa"),
        ({**TEXT, "context_length": 511}, "eager"),
        ({**TEXT, "context_length": 512, "dropout": 0.1}, "eager"),
        ({"model": "depth_width_decoder", "joint_vocabulary": True, "dropout": 0.1}, "eager"),
        ({"model": "depth_width_decoder", "pretrained": "nowhere", "joint_vocabulary": True}, "eager"),
        ({"dropout": 0.0, "attn_implementation": "eager"}, "eager"),
    ],
    ids=str,
)
def test_attention_of_training_on_a_cpu(changes, expected, tmp_path, monkeypatch):
    """The fused form is the faster one without dropout on its weights, if sequences are long."""
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    assert attention_of(tiny_recipe(tmp_path, **changes)) == expected


def test_other_values_that_round_otherwise_are_another_run(tmp_path, few_examples):
    """Which ends with other bits; only pretraining may go on with them."""
    run_recipe(tiny_recipe(tmp_path, max_steps=2))
    before = snapshot(tmp_path / "run")
    with pytest.raises(RecipeError) as caught:
        run_recipe(tiny_recipe(tmp_path, max_steps=2, length_buckets=2))
    assert caught.value.key == "output_dir"
    assert snapshot(tmp_path / "run") == before
