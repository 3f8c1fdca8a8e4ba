"""The command line: what it prints, and one line with status 2 for everything that cannot be used."""

from __future__ import annotations

import json
import re
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest
import typer
from tiny_runs import command, forked, small_scan, snapshot, tiny_recipe, train_process, write_recipe
from typer.testing import CliRunner

import hf_sysgen.data
import hf_sysgen.training.run
import hf_sysgen.training.tasks.registry
from hf_sysgen.cli.main import app
from hf_sysgen.cli.recipe import fields_text
from hf_sysgen.results.reading import read_record
from hf_sysgen.training.run import run_recipe
from hf_sysgen.zoo import DEFAULT, ZOO, zoo_folder, zoo_names

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "transformers", "datasets", "accelerate", "matplotlib", "yaml", "numpy")


def invoke(*words: str | Path, stdin: str | None = None):
    return CliRunner().invoke(app, [str(word) for word in words], input=stdin)


def assert_one_line_error(result, *parts: str) -> None:
    """Status 2, and a single line that says what, where and what to do."""
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("error: ")
    for part in parts:
        assert part in line
    assert "Traceback" not in result.output


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory) -> Path:
    """A finished run, read only."""
    folder = tmp_path_factory.mktemp("cli")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hf_sysgen.training.tasks.registry, "load_benchmark", lambda *args, **kwargs: small_scan())
        hf_sysgen.training.run.quiet_libraries()
        run_recipe(tiny_recipe(folder))
    return folder / "run"


@pytest.fixture
def small(monkeypatch) -> None:
    import hf_sysgen.evaluation.commands

    monkeypatch.setattr(hf_sysgen.evaluation.commands, "load_benchmark", lambda *args, **kwargs: small_scan())


@pytest.fixture
def copied(run_dir, tmp_path) -> Path:
    """A copy of the checkpoint, to be changed: without the mark that would tell."""
    return Path(shutil.copytree(run_dir / "model", tmp_path / "model", ignore=shutil.ignore_patterns("complete")))


@pytest.mark.parametrize("words", [["-m", "hf_sysgen.cli", "--help"], ["-m", "hf_sysgen.train", "--help"]])
def test_help_and_import_load_nothing_heavy(words, tmp_path):
    # -X importtime names on stderr whatever is imported
    done = command(["-X", "importtime", *words], tmp_path)
    assert done.returncode == 0
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "hf_sysgen" in imported
    assert not imported & set(HEAVY)
    assert "usage" in done.stdout.lower()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["predict", "-c", "absent", "jump"], "absent: no checkpoint here"),
        (["evaluate", "absent", "clutrr", "gen_train234_test2to10"], "absent: no checkpoint here"),
        (["train", "csordas2021/cogs_relative", "traning.max_steps=5"], "did you mean 'training'?"),
        (["train", "csordas2021/cogs_relative", "data.benchmark=cosg"], "did you mean 'cogs'?"),
        (["sweep", "csordas2021/sweeps/table7_cogs", "model.type=3"], "model.type"),
        (["sweep", "csordas2021/sweeps/table7_cogs", "--accelerate", "cpuu"], "cpuu: no such file"),
    ],
)
def test_bad_input_is_told_before_torch_is_imported(words, message, tmp_path):
    done = command(["-X", "importtime", "-m", "hf_sysgen.cli", *words], tmp_path)
    assert done.returncode == 2
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert not imported & {"torch", "transformers"}
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    assert message in last


@pytest.mark.parametrize("file", ["results.json", "predictions.jsonl"])
@pytest.mark.parametrize("words", [["score"], ["publish", "me/mine", "--dry-run"]])
def test_a_record_that_its_predictions_contradict(words, file, run_dir, tmp_path):
    run = Path(shutil.copytree(run_dir, tmp_path / "run"))
    text = (run / file).read_text()
    if file == "results.json":
        accuracy = read_record(run / file).splits["test"].accuracy
        begin, end = text.split('"test": {', 1)
        (run / file).write_text(begin + '"test": {' + end.replace(f'"accuracy": {accuracy}', '"accuracy": 0.9375', 1))
    else:
        # of the test split
        (run / file).write_text(text.rstrip("\n").rpartition("\n")[0] + "\n")
    assert (run / file).read_text() != text
    command_name, *others = words
    assert_one_line_error(invoke(command_name, run, *others), "results.json: test has accuracy", "predictions.jsonl")


def test_migrate_goes_on_after_a_file_that_it_refuses(tmp_path):
    files = [tmp_path / f"{name}.yaml" for name in ("current", "old", "absent")]
    files[0].write_text("model: {type: lstm_seq2seq}\n")
    files[1].write_text("model: lstm_seq2seq\nbenchmark: scan\nconfig: simple\nsteps: 5\nhidden_size: 16\n")
    result = invoke("recipe", "migrate", *files)
    assert result.exit_code == 2
    assert result.stdout == f"rewritten: {files[1]}\n"
    refused = result.stderr.splitlines()
    assert [line.startswith("error: ") for line in refused] == [True, True]
    assert all(name in line for name, line in zip(("current", "absent"), refused, strict=True))
    assert "training:" in files[1].read_text()


def test_list(tmp_path):
    result = invoke("list", "--recipes", Path(__file__).parents[2] / "recipes")
    assert result.exit_code == 0
    for text in (
        "relative_universal_transformer",
        "365,831",
        "AutoModelForSeq2SeqLM",
        "length_cutoff_26",
        "train 16,458 / validation 1,828 / test 2,624",
        "BSD",
        "scan_length26_quick_universal.yaml",
        "134,110,464",
        "csordas2021/sweeps/table3_scan.yaml",
    ):
        assert text in result.output
    assert f"Recipes: none in {tmp_path}" in invoke("list", "recipes", "--recipes", tmp_path).output
    assert_one_line_error(invoke("list", "recipes", "--recipes", tmp_path / "nowhere"), "--recipes", "nowhere")
    assert_one_line_error(invoke("list", "models", "--recipes", "nowhere"), "--recipes")
    assert {"fruit", "models", "benchmarks", "recipes", "sweeps", "zoo"} <= set(
        re.findall(r"\w+", invoke("list", "fruit").stderr)
    )


def test_train_says_where_results_are_and_not_twice(tmp_path, few_examples, monkeypatch):
    recipe = write_recipe(tmp_path, output_dir=str(tmp_path / "run"), max_steps=2)
    result = invoke("train", recipe, "seed=3")
    assert result.exit_code == 0
    accuracy = read_record(tmp_path / "run" / "results.json").splits["test"].accuracy
    assert f"{accuracy:.4f}" in result.output
    assert result.stdout.splitlines()[-1].endswith(str(tmp_path / "run"))
    before = snapshot(tmp_path / "run")
    monkeypatch.setattr(hf_sysgen.training.run, "prepare_task", lambda recipe: pytest.fail("work was begun"))
    assert invoke("train", recipe, "seed=3").exit_code == 0
    assert snapshot(tmp_path / "run") == before


@pytest.fixture
def few_examples(monkeypatch) -> None:
    monkeypatch.setattr(hf_sysgen.training.tasks.registry, "load_benchmark", lambda *args, **kwargs: small_scan())


def test_evaluate_agrees_with_the_run(run_dir, small, tmp_path):
    result = invoke("evaluate", run_dir, "scan", "length_cutoff_26", "--output", tmp_path / "out", "--batch-size", 3)
    assert result.exit_code == 0, result.output
    measured = json.loads((tmp_path / "out" / "metrics.json").read_text())
    recorded = json.loads((run_dir / "results.json").read_text())["splits"]
    for split in ("validation", "test"):
        for key in ("examples", "accuracy", "accuracy_oracle", "by_length"):
            assert measured[split][key] == recorded[split][key]
        assert measured[split]["loss"] == pytest.approx(recorded[split]["loss"], rel=1e-5)
    assert (tmp_path / "out" / "predictions.jsonl").read_text().count("\n") == 24
    only = invoke("evaluate", run_dir / "model", "scan", "length_cutoff_26", "--split", "test")
    assert "test" in only.output
    assert "validation" not in only.output


def test_evaluate_overwrites_nothing(run_dir, small, tmp_path, monkeypatch):
    """Told before the work."""
    monkeypatch.setattr("hf_sysgen.evaluation.commands.load_checkpoint", lambda path: pytest.fail("work was begun"))
    words = ("evaluate", run_dir, "scan", "length_cutoff_26", "--output")
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "metrics.json").write_text("{}")
    assert_one_line_error(invoke(*words, kept), "metrics.json exists and is not overwritten")
    assert (kept / "metrics.json").read_text() == "{}"
    assert_one_line_error(invoke(*words, kept / "metrics.json" / "x"), "cannot be written to")
    assert_one_line_error(invoke(*words, tmp_path / "absent", "--split", "tset"), "'test'")
    assert not (tmp_path / "absent").exists()


def test_predict_from_arguments_and_standard_input(run_dir):
    result = invoke("predict", "-c", run_dir, "jump twice", "walk and run", "--max-new-tokens", 5)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) == 2
    assert (
        invoke("predict", "-c", run_dir, "--max-new-tokens", 5, stdin="jump twice\nwalk and run\n").stdout
        == result.stdout
    )
    beams = invoke("predict", "-c", run_dir, "jump twice", "--beams", 3)
    assert beams.exit_code == 0
    assert len(beams.stdout.splitlines()) == 1


def test_a_checkpoint_is_no_sentence(run_dir):
    for name in (DEFAULT, run_dir):
        assert_one_line_error(invoke("predict", name, "jump"), "--checkpoint")
    assert_one_line_error(invoke("predict", "-c", run_dir.parent, "jump"), run_dir.name)
    long = " and ".join(["jump"] * 80)
    assert invoke("predict", long).stdout == invoke("predict", stdin=f"{long}\n").stdout != ""


def test_the_zoo_answers_at_once():
    """With what it was trained for, and with a name of another model there is."""
    result = invoke("predict", "jump around left twice and walk")
    assert result.exit_code == 0, result.output
    assert result.stdout.split() == ["I_TURN_LEFT", "I_JUMP"] * 8 + ["I_WALK"]
    for name in zoo_names():
        if zoo_folder(name).parent == ZOO:
            assert invoke("predict", "walk twice", "-c", name).stdout == "I_WALK I_WALK\n"
    _, header, *rows = invoke("list", "zoo").stdout.splitlines()
    assert {row.split()[0] for row in rows} == set(zoo_names())
    # text begins below its head
    place = header.index("benchmark")
    assert all(row[place - 1] == " " != row[place] for row in rows)


def test_a_checkpoint_that_is_nowhere(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    result = invoke("predict", "walk", "-c", "org/absent")
    assert_one_line_error(result, "org/absent: ", *zoo_names())


def test_translations_cut_at_the_limit_are_counted(run_dir, monkeypatch):
    import torch
    from transformers import GenerationMixin

    def endless(self, input_ids, **kwargs):
        return torch.zeros(len(input_ids), 4, dtype=torch.int64)

    monkeypatch.setattr(GenerationMixin, "generate", endless)
    result = invoke("predict", "-c", run_dir, "jump", "walk", "--max-new-tokens", 3)
    assert "warning: 2 of 2 did not end within 3 tokens" in result.stderr


def test_every_answer_is_a_line(run_dir, monkeypatch):
    """Also one with line breaks, as decoders of running text write them."""
    answers = ["one\ntwo", "\r\nthree\n"]
    monkeypatch.setattr("hf_sysgen.evaluation.commands.predict", lambda *args, **kwargs: (answers, [True, True]))
    assert invoke("predict", "-c", run_dir, "jump", "walk").stdout == "one two\n three\n"


@pytest.mark.parametrize(
    ("texts", "parts"),
    [
        (["jump", "walc twice"], ["'walc'", "'walc twice'", "source vocabulary", "the closest: walk"]),
        (["jump " + "j" * 1_000_000], ["'jjjj", "source vocabulary"]),
        (["walk", "jump and " * 1000 + "walk"], ["sentence 2", "2,003", "2,000"]),
        (["I_JUMP"], ["'I_JUMP'", "source vocabulary"]),
        (["walk", "  "], ["sentence 2 of 2", "empty"]),
    ],
)
def test_predict_of_wrong_words(run_dir, texts, parts):
    result = invoke("predict", "-c", run_dir, *texts)
    assert_one_line_error(result, *parts)
    assert result.stdout == ""


def test_long_sentences_are_translated_in_smaller_batches(run_dir, monkeypatch):
    from hf_sysgen.evaluation import commands

    sizes = []

    def answer(model, tokenizer, texts, **options):
        sizes.append(len(texts))
        return texts, [True] * len(texts)

    monkeypatch.setattr(commands, "predict", answer)
    texts = [*["walk"] * 65, *["jump and " * 600 + "walk"] * 2, *["jump and " * 150 + "walk"] * 50]
    assert list(commands.predict_lines(str(run_dir), texts)) == texts
    assert sizes == [64, 2, 2, 45, 4]


def test_predict_of_other_encodings(run_dir):
    """Of standard input and of arguments, as Python has them."""
    parts = r"'jump\udcff twice'", "UTF-8"
    assert_one_line_error(
        CliRunner().invoke(app, ["predict", "-c", str(run_dir)], input=b"walk\njump\xff twice\n"), *parts
    )
    assert_one_line_error(invoke("predict", "-c", run_dir, "jump\udcff twice"), *parts)


def test_empty_names(run_dir, monkeypatch):
    """Are no way to ask for the default."""
    monkeypatch.chdir(run_dir)
    for words in (("predict", "walk", "-c", ""), ("evaluate", "", "scan", "length")):
        assert_one_line_error(invoke(*words), "the checkpoint's name is empty; give a run's folder")
    assert_one_line_error(invoke("score", run_dir, "--metric", "bleu", "--setup", ""), "no setup ''")
    words = ("analyse", "loss-accuracy", run_dir, "--accuracy-split", "", "--loss-split", "test")
    assert_one_line_error(invoke(*words), "no accuracy of ")


@pytest.mark.parametrize("words", [["train"], ["predict", "jump", "-c"], ["sweep"], ["score"]])
def test_names_that_no_file_can_have(words):
    assert_one_line_error(invoke(*words, "x" * 300), "xxxx")


def test_a_model_of_the_zoo_has_no_code_to_run_alone():
    assert_one_line_error(invoke("predict", "--isolated", "-c", DEFAULT, "jump"), DEFAULT, "run's folder")


def test_predict_of_nothing(run_dir):
    assert_one_line_error(invoke("predict", "-c", run_dir, stdin=""), "nothing to translate")


def test_checkpoints_that_cannot_be_used(copied, tmp_path):
    assert_one_line_error(invoke("predict", "-c", tmp_path / "nothing", "jump"), "nothing", "config.json is missing")
    assert_one_line_error(invoke("predict", "-c", f"{DEFAULT}x", "jump"), f"{DEFAULT!r}")

    weights = copied / "model.safetensors"
    whole = weights.read_bytes()
    for size in (0, 5, 100, len(whole) // 2, len(whole) - 1):
        weights.write_bytes(whole[:size])
        assert_one_line_error(invoke("predict", "-c", copied, "jump"), str(copied))
    weights.unlink()
    assert_one_line_error(invoke("predict", "-c", copied, "jump"), "model.safetensors is missing")
    weights.write_bytes(whole)

    tokenizer = copied / "tokenizer.json"
    text = tokenizer.read_text()
    tokenizer.write_text(text[: len(text) // 2])
    assert_one_line_error(invoke("predict", "-c", copied, "jump"), str(copied))
    tokenizer.unlink()
    assert_one_line_error(invoke("predict", "-c", copied, "jump"), "tokenizer.json is missing")
    # the Trainer keeps weights alone
    (copied / "trainer_state.json").write_text("{}")
    assert_one_line_error(invoke("predict", "-c", copied, "jump"), "a finished run")
    tokenizer.write_text(text)

    config = copied / "config.json"
    keys = json.loads(config.read_text())
    config.write_text(json.dumps(keys | {"model_type": "vit"}))
    assert_one_line_error(
        invoke("predict", "-c", copied, "jump"), "model_type is 'vit'", "relative_universal_transformer"
    )
    # a model type of transformers, whose weights these are not
    config.write_text(json.dumps(keys | {"model_type": "t5"}))
    assert_one_line_error(invoke("predict", "-c", copied, "jump"), "model.safetensors lacks")
    others = ({"model_type": "relation_aware_transformer"}, {"architectures": ["EdgeTransformerForGraphParsing"]})
    for changes in others:
        config.write_text(json.dumps(keys | {"architectures": []} | changes))
        assert_one_line_error(invoke("predict", "-c", copied, "jump"), "config.json: ", "is not text-to-text")
    # a model of another kind, whose fields these are not
    config.write_text(json.dumps(keys | {"architectures": [], "model_type": "depth_width_decoder"}))
    assert_one_line_error(invoke("predict", "-c", copied, "jump"), "not a depth_width_decoder's", "position_scheme")
    config.write_text(json.dumps(keys)[:-30])
    assert_one_line_error(invoke("predict", "-c", copied, "jump"), "config.json", "cannot be read")
    config.write_text(json.dumps(keys | {"hidden_size": 18}))
    assert_one_line_error(invoke("predict", "-c", copied, "jump"), str(copied))
    config.write_text(json.dumps(keys))
    assert invoke("predict", "-c", copied, "jump", "--max-new-tokens", 3).exit_code == 0


@pytest.mark.parametrize(
    ("name", "change", "part"),
    [
        ("config.json", {"intermediate_size": 48}, "fc1"),
        ("config.json", {"architectures": [None]}, "architectures"),
        ("config.json", {"architectures": {"a": 1}}, "architectures"),
        ("tokenizer.json", {"post_processor": {"special_tokens": {}}}, "tokenizer"),
    ],
)
def test_one_line_and_nothing_of_the_libraries(copied, name, change, part, capfd):
    """Transformers prints a table of weights of another size, the tokenizers library a backtrace of Rust."""
    content = json.loads((copied / name).read_text())
    for key, value in change.items():
        content[key] = content[key] | value if key == "post_processor" else value
    (copied / name).write_text(json.dumps(content))
    result = invoke("predict", "-c", copied, "jump")
    assert_one_line_error(result, part)
    assert capfd.readouterr() == ("", "")


def test_weights_that_the_config_has_no_place_for(copied):
    from safetensors.torch import load_file, save_file

    tensors = load_file(copied / "model.safetensors")
    more = {"model.decoder.layers.1.norm.weight": tensors["lm_head.bias"].clone()}
    save_file(tensors | more, copied / "model.safetensors", {"format": "pt"})
    assert_one_line_error(invoke("predict", "-c", copied, "jump"), "model.decoder.layers.1.norm.weight")


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_flipped_bit_in_a_checkpoint_is_noticed(name, run_dir, tmp_path):
    model = Path(shutil.copytree(run_dir / "model", tmp_path / "model"))
    content = bytearray((model / name).read_bytes())
    # in a file of text a letter becomes another one
    place = content.index(b"hidden_size") if name == "config.json" else len(content) - 200
    content[place] ^= 1
    (model / name).write_bytes(content)
    assert_one_line_error(invoke("predict", "-c", model, "jump"), str(model / name), "is damaged", "complete")


def test_a_pickled_checkpoint_is_not_read(copied):
    import torch
    from safetensors.torch import load_file

    torch.save(load_file(copied / "model.safetensors"), copied / "pytorch_model.bin")
    (copied / "model.safetensors").unlink()
    assert_one_line_error(invoke("predict", "-c", copied, "jump"), "model.safetensors is missing")


def test_code_of_a_checkpoint_is_not_run(copied, tmp_path):
    """Not even on a yes that is among the sentences."""
    (copied / "own.py").write_text(
        f"open({str(tmp_path / 'ran')!r}, 'w')\nfrom transformers import PreTrainedTokenizerFast\n"
        "class Own(PreTrainedTokenizerFast): pass\n"
    )
    config = json.loads((copied / "tokenizer_config.json").read_text())
    own = {"auto_map": {"AutoTokenizer": [None, "own.Own"]}, "tokenizer_class": "Own"}
    (copied / "tokenizer_config.json").write_text(json.dumps(config | own))
    result = invoke("predict", "-c", copied, stdin="y\njump\n")
    assert_one_line_error(result, "auto_map")
    assert result.stdout == ""
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("text", ["[]", "{}", '{"model": {}}', "null", "\x00", '{"version": "1.0", "model": 3}'])
def test_a_tokenizer_that_is_none(copied, text):
    (copied / "tokenizer.json").write_text(text)
    assert_one_line_error(invoke("predict", "-c", copied, "jump"), "tokenizer.json")


def test_wrong_benchmarks(run_dir, small, tmp_path, monkeypatch):
    monkeypatch.undo()
    assert_one_line_error(invoke("evaluate", run_dir, "scann"), "unknown benchmark 'scann'", "'scan'")
    assert_one_line_error(invoke("evaluate", run_dir, "scan", "lenght"), "'lenght'", "'length'")
    assert_one_line_error(invoke("evaluate", run_dir, "scan"), "several configs")
    result = invoke("evaluate", run_dir, "scan", "length_cutoff_26", "--split", "dev")
    assert_one_line_error(result, "unknown split 'dev'", "train, validation, test")


def test_evaluate_on_the_benchmark_of_another_task(run_dir, copied, monkeypatch):
    """Told before data is made."""
    for place in ("evaluation.commands", "training.tasks.registry"):
        monkeypatch.setattr(f"hf_sysgen.{place}.load_benchmark", lambda *a, **k: pytest.fail("data was made"))
    result = invoke("evaluate", run_dir, "cogs_graph", "current")
    assert_one_line_error(result, "trained on scan", "cogs_graph", "graph_parsing")
    config = copied / "config.json"
    keys = json.loads(config.read_text())
    config.write_text(json.dumps(keys | {"architectures": ["EdgeTransformerForGraphParsing"]}))
    result = invoke("evaluate", copied, "scan", "length_cutoff_26")
    assert_one_line_error(result, "EdgeTransformerForGraphParsing", "text-to-text")


def test_missing_and_altered_data_files(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    recipe = write_recipe(tmp_path, output_dir=str(tmp_path / "run"), config="mcd1", data_dir=str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    assert_one_line_error(invoke("train", recipe), "mcd1")
    file = tmp_path / "data" / "scan_mcd" / "tasks_train_mcd1.txt"
    file.parent.mkdir()
    file.write_text("IN: jump OUT: I_WALK\n")
    assert_one_line_error(invoke("train", recipe), "sha256", "tasks_train_mcd1.txt")


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("training.stepz=3", ["'training.stepz'"]),
        ("model.type=univrsal", ["model.type", "'universal_transformer'"]),
        ("training.max_steps=many", ["training.max_steps"]),
        ("data.config=length_cutoff_23", ["data.config", "length_cutoff_23"]),
        ("data.benchmark=skan", ["data.benchmark", "skan"]),
        ("batches.length_buckets=3", ["batches.size=8", "batches.length_buckets=3"]),
        ("training.report_to=trackio", ["training.report_to", "trackio is not installed"]),
        (f"output_dir={'a' * 300}", ["aaaa"]),
    ],
)
def test_recipes_that_cannot_run(tmp_path, word, parts, monkeypatch):
    monkeypatch.setattr("hf_sysgen.training.checks.get_available_reporting_integrations", list)
    recipe = write_recipe(tmp_path, output_dir=str(tmp_path / "run"))
    assert_one_line_error(invoke("train", recipe, word), *parts)
    assert not list(tmp_path.glob("run/*.json"))


def test_fields_of_recipes_and_what_they_mean():
    result = invoke("recipe", "fields", "training")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert any(line.startswith("  max_steps: ") for line in lines)
    assert "batches.length_buckets" not in result.stdout
    assert max(map(len, lines)) <= 120
    # fields of one kind alone stand below it
    kinds = invoke("recipe", "fields", "schedule").stdout.splitlines()
    assert kinds.index("  type: noam") < kinds.index("  type: inverse_sqrt")
    assert any(line.startswith("    warmup_init_lr: number; ") for line in kinds)
    assert_one_line_error(invoke("recipe", "fields", "trainings"), "trainings", "training")
    # all of them stand in the help of `train` too
    assert fields_text() in invoke("train", "--help").stdout


def test_output_directory_of_something_else(tmp_path, run_dir):
    before = snapshot(run_dir)
    other = write_recipe(tmp_path, output_dir=str(run_dir), seed=5)
    assert_one_line_error(invoke("train", other), "another recipe", "seed: 0 there, 5 here", "another output_dir")
    assert snapshot(run_dir) == before

    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("important")
    recipe = write_recipe(tmp_path, output_dir=str(foreign))
    assert_one_line_error(invoke("train", recipe), "output_dir", str(foreign))
    assert [path.name for path in foreign.iterdir()] == ["thesis.tex"]

    (run_copy := tmp_path / "broken").mkdir()
    shutil.copy(run_dir / "recipe.yaml", run_copy)
    (run_copy / "results.json").write_text("{")
    recipe = write_recipe(tmp_path, output_dir=str(run_copy))
    assert_one_line_error(invoke("train", recipe), "results.json", "cannot read")


def test_the_module_gives_the_same_statuses(tmp_path):
    recipe = write_recipe(tmp_path, output_dir=str(tmp_path / "run"), max_steps=2)
    assert train_process([str(recipe)], tmp_path).status == 0
    wrong = train_process([str(recipe), "stepz=1"], tmp_path)
    assert wrong.status == 2
    assert wrong.err.splitlines()[-1].startswith("error: ")


@pytest.mark.slow
def test_a_sweep_ends_with_its_results_beside_the_paper_and_loads_elsewhere(tmp_path):
    """With the package's real data, because the runs are processes of their own."""
    for name, model in (("one", "relative_universal_transformer"), ("two", "universal_transformer")):
        # with a small test split
        keys = {"config": "length_cutoff_40", "max_steps": 2, "output_dir": None, "examples": 3, "paper_test": 0.5}
        write_recipe(tmp_path, name=name, model=model, **keys)
    (tmp_path / "both.yaml").write_text("recipes: [one.yaml, two.yaml]\nseeds: [0]\n")
    words = ["-m", "hf_sysgen.cli", "sweep", "both.yaml", "evaluation.batch_size=512"]
    done = forked([*words, "--plot", "plots/a.png"], tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = (line.split() for line in done.stdout.splitlines() if line.startswith("relative_universal_transformer"))
    (run,) = tmp_path.glob("runs/one*/seed0")
    scores = json.loads((run / "results.json").read_text())["splits"]
    assert row[1:5] == [f"{scores['validation']['accuracy']:.4f}", "-", f"{scores['test']['accuracy']:.4f}", "0.50"]
    assert (tmp_path / "plots" / "a.png").stat().st_size > 10_000
    assert forked([*words, "--plot", "plots/a.txt"], tmp_path).returncode == 2
    texts = ["jump around left thrice and walk opposite right thrice", "walk"]
    here = invoke("predict", "-c", run, *texts)
    elsewhere = invoke("predict", "-c", run, "--isolated", *texts)
    assert (elsewhere.exit_code, elsewhere.stdout) == (0, here.stdout)
    assert [("did not end" in one.stderr) for one in (here, elsewhere)] in ([True] * 2, [False] * 2)
    assert_one_line_error(invoke("predict", "-c", run, "--isolated", "foo jump"), "'foo'")
    assert_one_line_error(invoke("predict", "-c", run, "--isolated", "--beams", "2", "jump"), "--beams")


def test_a_picture_of_a_part_of_a_sweep(tmp_path):
    (tmp_path / "sweep.yaml").write_text(f"recipes: [{write_recipe(tmp_path)}]\nseeds: [0]\n")
    for option in (["--dry-run"], ["--slurm", "--time 1:00"], ["--run", "runs/tiny/seed0"]):
        assert_one_line_error(invoke("sweep", tmp_path / "sweep.yaml", *option, "--plot", "a.png"), "--plot")


@pytest.mark.slow
def test_a_sweep_where_a_run_fails_or_cannot_be(tmp_path):
    write_recipe(tmp_path, name="one", output_dir=None)
    (tmp_path / "sweep.yaml").write_text("recipes: [one.yaml]\nseeds: [0]\n")
    words = ["-m", "hf_sysgen.cli", "sweep", "sweep.yaml"]
    failing = forked([*words, "training.learning_rate=1e30"], tmp_path)
    assert failing.returncode == 1
    assert "one,training.learning_rate=1e+30/seed0 failed" in failing.stderr
    assert forked([*words, "batches.length_buckets=3"], tmp_path).returncode == 2


def test_options_of_another_analysis_or_plot(tmp_path):
    assert_one_line_error(invoke("analyse", "convergnce", tmp_path), "'convergence'")
    assert_one_line_error(invoke("analyse", "iid-table", tmp_path, "--patience", 3), "--patience")
    assert_one_line_error(invoke("plot", "biases", "model", "jump", "-o", "a.png"), "TEXT")
    assert_one_line_error(invoke("plot", "attention", "model", "-o", "a.png"), "TEXT")


def test_version() -> None:
    found = invoke("--version")
    assert (found.exit_code, found.stdout) == (0, f"hf-sysgen {version('hf-sysgen')}\n")


def test_every_argument_and_option_says_what_it_is():
    def commands(group, name=""):
        for word, one in getattr(group, "commands", {}).items():
            yield from commands(one, f"{name} {word}")
        if not hasattr(group, "commands"):
            yield name, group

    found = dict(commands(typer.main.get_command(app)))
    assert len(found) > 15
    silent = [(name, one.name) for name, each in found.items() for one in each.params if not getattr(one, "help", "")]
    assert not silent


def test_a_launch_file_that_exists_is_accepted(tmp_path):
    launch = ROOT / "recipes" / "accelerate" / "cpu.yaml"
    (tmp_path / "sweep.yaml").write_text(f"recipes: [{write_recipe(tmp_path)}]\nseeds: [0]\n")
    words = ("sweep", tmp_path / "sweep.yaml", "--dry-run", "--accelerate")
    assert invoke(*words, launch).exit_code == 0
    # the package's own launch files are found from any folder
    assert invoke(*words, "accelerate/cpu").exit_code == 0
    assert_one_line_error(invoke(*words, tmp_path / "none.yaml"), "none.yaml")


def test_what_is_no_list_or_needs_shots():
    assert_one_line_error(invoke("list", "modles"), "'models'")
    refused = invoke("evaluate", "any", "scan", "--seed", 3)
    assert_one_line_error(refused, "--seed", "--shots")
    assert "--prompt" not in refused.stderr
