"""Recipes: reading, the schema, its errors, what other values change, and recipes of version 0.1."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_runs import SIZES, TINY, tiny_sections, write_recipe

import hf_sysgen.config.io
from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.fields import FIELDS, SECTIONS, UNDECLARED, effect_of, in_hashes, merge, nest
from hf_sysgen.config.io import (
    dump_recipe,
    load_recipe,
    parse_overrides,
    parse_recipe,
    parse_yaml,
    read_recipe,
    shipped_files,
    shipped_recipes,
    write_override,
)
from hf_sysgen.config.migrate import KEYS, migrate_file, migrate_keys, migrate_text
from hf_sysgen.config.model_fields import flat_with_defaults, from_data, names_of, own_fields
from hf_sysgen.config.recipe import build_recipe
from hf_sysgen.config.sweep import load_sweep
from hf_sysgen.config.trainer_fields import OWNED
from hf_sysgen.models import CONFIGS
from hf_sysgen.models.checked_config import CheckedConfig


def changed(**changes: Any) -> dict[str, Any]:
    """The tiny recipe's sections with other values by dotted key, in which `__` stands for a dot."""
    return merge(TINY, nest({key.replace("__", "."): value for key, value in changes.items()}))


def refused(sections: dict[str, Any]) -> RecipeError:
    with pytest.raises(RecipeError) as caught:
        parse_recipe(sections)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000
    return caught.value


# errors


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("training.learning_rat", "training.learning_rate"),
        ("training.report", "training.report_to"),
        ("training.torch_compile_mod", "training.torch_compile_mode"),
        ("model.hidden_sise", "model.hidden_size"),
        ("model.num_hidden_layers", "model.encoder_layers"),
        ("model.heads", "model.num_attention_heads"),
        ("learning_rate", "training.learning_rate"),
        ("data.seed", "seed"),
        ("trainning", "training"),
        ("schedule.warmup_stepz", "schedule.warmup_steps"),
        ("evaluation.early_stopping.patienc", "evaluation.early_stopping.patience"),
        ("training.warmup_ratios", "schedule.warmup_steps"),
        ("lr", "training.learning_rate"),
        ("training.batch_size", "batches.size"),
        ("data.name", "data.benchmark"),
        ("schedule.steps", "schedule.warmup_steps"),
    ],
)
def test_unknown_keys_name_the_closest(wrong, right):
    parts = {"evaluation": {"early_stopping": {"metric": "loss"}}, "schedule": {"type": "linear", "warmup_steps": 1}}
    sections = merge(TINY, parts)
    error = refused(merge(sections, nest({wrong: 1})))
    assert error.key == wrong
    assert f"did you mean {right!r}" in str(error)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model.type", "relative_univrsal_transformer"),
        ("model.type", 3),
        ("training.max_steps", "three"),
        ("training.max_steps", 2.5),
        ("training.max_steps", True),
        ("training.max_steps", 0),
        ("training.max_steps", 2**32),
        ("training.learning_rate", "1e-3"),
        ("training.learning_rate", 0.0),
        ("training.learning_rate", float("nan")),
        ("training.learning_rate", float("inf")),
        ("training.learning_rate", 10**400),
        ("training.adam_beta2", 1),
        ("training.label_smoothing_factor", 1.0),
        ("training.bf16", "yes"),
        ("training.bf16", 1),
        ("training.report_to", 3),
        ("training.kept_steps", [2, 1]),
        ("training.kept_steps", [7]),
        ("training.torch_compile_mode", 3),
        ("training.torch_compile_mode", "fast"),
        ("training.torch_compile_backend", "inducto"),
        ("training.warmup_steps", 3),
        ("training.optim", "adamm"),
        ("training.optim_args", "foo"),
        ("training.optim_args", "momentum=0.9,"),
        ("training.fsdp", "full_shard wrong"),
        ("training.hub_strategy", "never"),
        ("training.log_level", "loud"),
        ("training.debug", "overflow"),
        ("training.debug", "underflow_overflow"),
        ("training.hub_model_id", "me/model"),
        ("training.gradient_checkpointing_kwargs", {"use_reentrant": False}),
        ("training.eval_delay", 3),
        ("training.liger_kernel_config", {"rope": True}),
        ("training.report_to", "wandbb"),
        ("training.report_to", ["tensorboard", "wandbb"]),
        ("seed", -1),
        ("seed", 2**32),
        ("data.benchmark", "skan"),
        ("data.config", None),
        ("data.config", "length_cutoff_27.5"),
        ("data.train_eos", 1),
        ("data.streams", 2),
        ("data.subwords", 100),
        ("batches.sampling", "shuffled"),
        ("batches.length_buckets", 99),
        ("batches.max_tokens", 99),
        ("schedule.type", "cosine"),
        ("evaluation.examples", 0),
        ("evaluation.num_beams", 4),
        ("evaluation.length_penalty", 1.2),
        ("evaluation.early_stopping.metric", "perplexity"),
        ("paper.test", 98.2),
        ("model.num_attention_heads", True),
        ("model.hidden_size", 17),
        ("model.dropout", 2),
        ("model.position_scheme", "rel"),
        ("model.hidden_size", "wide"),
        ("model.vocab_size", 9),
        ("model.size_class", "41M"),
        ("model.pretrained", "somewhere"),
        ("output_dir", "a\0b"),
        ("output_dir", "\ud800"),
        ("output_dir", "caf\udce9"),
    ],
    ids=ascii,
)
def test_wrong_values_are_one_line_that_names_the_key(key, value):
    error = refused(merge(TINY, nest({key: value})))
    assert error.key == key
    assert key in str(error)


@pytest.mark.parametrize(
    ("key", "value", "right"),
    [
        ("training.optim", "adamm", "adamw_torch"),
        ("training.optim", "SGD", "sgd"),
        ("training.report_to", "wandbb", "wandb"),
        ("model.position_scheme", "rel", "relative"),
        ("batches.sampling", "epoch", "epochs"),
        ("data.tokenization", "word", "words"),
    ],
)
def test_wrong_words_name_the_closest(key, value, right):
    error = refused(merge(TINY, nest({key: value})))
    assert error.key == key
    assert f"did you mean {right!r}" in str(error)


def test_a_wrong_precision_names_the_right_ones():
    error = refused(merge(TINY, nest({"training.bf16": "maybe"})))
    assert all(f" {word}" in str(error) for word in ("true", "false", "auto"))


@pytest.mark.parametrize("load", [load_recipe, load_sweep])
def test_a_file_of_the_other_kind_or_of_none(load):
    shipped = shipped_recipes()
    other, command = {
        load_recipe: (next(shipped.glob("*/sweeps/*.yaml")), "hf-sysgen sweep"),
        load_sweep: (shipped / "csordas2021" / "scan_length26_relative.yaml", "hf-sysgen train"),
    }[load]
    with pytest.raises(RecipeError, match=command):
        load(other)
    with pytest.raises(RecipeError) as caught:
        load("scan_length26_relativ")
    assert ("csordas2021/scan_length26_relative'" in str(caught.value)) == (load is load_recipe)
    with pytest.raises(RecipeError, match="no such file; `hf-sysgen list"):
        load("nofile.yaml")


def test_an_unknown_key_comes_before_a_missing_one():
    error = refused({**TINY, "schedule": {"warmup": 3}})
    assert error.key == "schedule.warmup"
    assert "schedule.warmup_steps" in str(error)


def test_modes_of_other_compilers_are_not_known():
    other = {"training.torch_compile_backend": "cudagraphs", "training.torch_compile_mode": "fast"}
    assert parse_recipe(merge(TINY, nest(other))).training.passed_through["torch_compile_mode"] == "fast"


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"schedule__type": "noam"}, "schedule.warmup_steps"),
        ({"schedule__type": "linear", "schedule__warmup_steps": 6}, "schedule.warmup_steps"),
        ({"schedule": {"type": "constant", "warmup_steps": 5}}, "schedule.warmup_steps"),
        ({"schedule__type": "noam", "schedule__warmup_steps": 5, "schedule__warmup_init_lr": 0.5},
         "schedule.warmup_init_lr"),
        ({"batches__sampling": "epochs", "batches__epochs": 3, "schedule__type": "linear", "schedule__warmup_steps": 1},
         "batches.epochs"),
        ({"evaluation__early_stopping": {"metric": "loss"}, "training__eval_steps": None}, "evaluation.early_stopping"),
        ({"evaluation__early_stopping": "loss"}, "evaluation.early_stopping"),
        ({"evaluation__save_example_losses": True, "training__eval_steps": None}, "evaluation.save_example_losses"),
        ({"training__bf16": True, "training__fp16": True}, "training.fp16"),
        ({"training__bf16": "auto", "training__fp16": True}, "training.fp16"),
        ({"model__type": "sysgen_transformer", "model__embedding_scaling": "pad"}, "model.embedding_scaling"),
        ({"model__type": "torch_transformer"}, "model.mask_memory"),
        ({"model__revision": "v1"}, "model.revision"),
        ({"model__type": "role_filler_transformer", "data__config": "simple", "model__role_loss": False,
          "training__label_smoothing_factor": 0.1}, "training.label_smoothing_factor"),
        ({"model": 3}, "model"),
        ({"batches": [8]}, "batches"),
    ],
    ids=str,
)  # fmt: skip
def test_values_that_do_not_go_together(changes, key):
    assert refused(changed(**changes)).key == key


@pytest.mark.parametrize(
    "key",
    ["model", "model.type", "data.benchmark", "data.config", "batches.sampling", "batches.size", "training.max_steps",
     "training.learning_rate"],
)  # fmt: skip
def test_missing_keys(key):
    section, _, name = key.partition(".")
    without = {one: value for one, value in TINY[section].items() if one != name}
    sections = {**TINY, section: without} if name else {one: TINY[one] for one in TINY if one != section}
    error = refused(sections)
    assert error.key == key
    assert "missing" in str(error)


@pytest.mark.parametrize(
    ("file", "override"),
    [
        ("chaabouni2021/scan_sag", "model.attention_span=4"),
        ("chaabouni2021/scan_sag_fixed_span", "model.t5_bias_init=zeros"),
        ("chaabouni2021/scan_sag_t5", "model.convolution_groups=full"),
        ("chaabouni2021/scan_transformer", "model.encoder_gate_start=0.5"),
        ("chakravarthy2022/scan_jump_filler", "model.renormalization=each_row"),
        ("petty2023/pretrain_41M_2", "model.relative_buckets=8"),
        ("bergen2021/cfq_dependencies_bilstm", "model.attention_dropout=0.3"),
    ],
)
def test_fields_without_effect_make_no_other_cell(file, override):
    with pytest.raises(RecipeError, match="has no effect") as caught:
        load_recipe(f"{file}.yaml", [override])
    assert caught.value.key == override.partition("=")[0]


def test_fields_at_their_default_are_no_mistake():
    """A sweep may give all of its recipes what only some of them make use of, as long as it changes nothing."""
    file = "chaabouni2021/scan_sag.yaml"
    assert flat_with_defaults(load_recipe(file, ["model.attention_span=2"])) == flat_with_defaults(load_recipe(file))


def test_fields_that_another_one_gives_an_effect():
    words = ["model.renormalization=each_row", "model.attention_threshold=0.1"]
    assert load_recipe("chakravarthy2022/scan_jump_filler.yaml", words).model.fields["renormalization"] == "each_row"


def test_tables_of_fields_without_effect_are_of_fields():
    """And of values that the other one may have, which a config checks."""
    tables = {config: config.no_effect for config in CONFIGS.values() if getattr(config, "no_effect", None)}
    assert len(tables) >= 5
    for config, table in tables.items():
        for key, (other, values) in table.items():
            assert key in own_fields(config)
            for value in values:
                assert getattr(config(**{other: value, "num_labels": 3}), other) == value


# the Trainer's own fields


def test_fields_of_the_trainer_pass_through():
    given = {"torch_compile_mode": "reduce-overhead", "logging_first_step": True}
    recipe = parse_recipe(changed(**{f"training__{name}": value for name, value in given.items()}))
    assert recipe.training.passed_through == given
    assert effect_of("training.torch_compile_mode") == "rounding"
    assert effect_of("model.triangular_implementation") == "rounding"
    assert effect_of("training.logging_first_step") == "nothing"
    # nobody said otherwise
    assert effect_of("training.neftune_noise_alpha") == "result"


def test_tables_of_fields_are_of_fields():
    from fnmatch import fnmatchcase

    from transformers import Seq2SeqTrainingArguments

    known = set(Seq2SeqTrainingArguments.__dataclass_fields__)
    assert set(OWNED) <= known
    for owner in OWNED.values():
        assert owner.startswith("the ") or owner in SECTIONS or owner in {field.key for field in FIELDS}
    for config in CONFIGS.values():
        assert from_data(config).keys() - CheckedConfig.from_data.keys() <= names_of(config)
    models = {f"model.{name}" for config in CONFIGS.values() for name in own_fields(config)}
    for pattern, _ in UNDECLARED:
        assert any(fnmatchcase(key, pattern) for key in (*models, *(f"training.{name}" for name in known))), pattern
    declared = {field.key.partition(".")[2] for field in FIELDS if field.key.startswith("training.")}
    assert declared - known == {"kept_steps"}


# files


def write(folder: Path, text: str) -> Path:
    path = folder / "r.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_numbers_with_exponents_are_numbers(tmp_path):
    path = write(tmp_path, yaml.safe_dump(TINY).replace("learning_rate: 0.01", "learning_rate: 1e-3"))
    assert load_recipe(path).training.learning_rate == 1e-3
    assert load_recipe(path, ["training.adam_epsilon=1E-8", "training.max_steps=7"]).training.max_steps == 7


@pytest.mark.parametrize(
    "text",
    [
        "seed: 1\nseed: 2\n",
        "- a\n- b\n",
        "",
        "a: [1\n",
        "a: \0\n",
        "? [a]\n: 1\n",
        "model: {3: 4}\n",
        "a: &a [*a]\n",
        f"a: {'9' * 5000}\n",
        "a: 1\n---\na: 2\n",
        "a: !!python/object/apply:os.system ['true']\n",
        "a: !!timestamp a\n",
        "a: !!bool a\n",
    ],
)
def test_files_that_are_no_recipes(tmp_path, text):
    with pytest.raises(RecipeError, match=r"r\.yaml") as caught:
        load_recipe(write(tmp_path, text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"", ["empty", "hf-sysgen list recipes"]),
        (b"# later\n", ["empty"]),
        ("# é\nseed: 1\n".encode("latin-1"), ["UTF-8", "save it"]),
        (b"data: {config: a}\nseed: 1\ndata:\n  config: b\n", ["line 3", '"data" is given twice']),
    ],
)
def test_what_is_wrong_with_a_file(content, parts, tmp_path):
    path = tmp_path / "r.yaml"
    path.write_bytes(content)
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    assert all(part in str(caught.value) for part in ("r.yaml", *parts)), caught.value
    # what the YAML reader calls the values of sections
    assert "{}" not in str(caught.value)


def test_files_that_cannot_be_read_and_overrides_that_are_none(tmp_path):
    with pytest.raises(RecipeError, match=r"absent\.yaml"):
        load_recipe(tmp_path / "absent.yaml")
    path = write(tmp_path, yaml.safe_dump(TINY))
    path.with_name("binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecipeError, match=r"binary\.yaml"):
        load_recipe(path.with_name("binary.yaml"))
    for override in (
        "seed",
        "=3",
        "",
        "training.=3",
        "base=other.yaml",
        "seed=[1",
        "seed=!!timestamp a",
        "seed=!!int a",
    ):
        with pytest.raises(RecipeError):
            load_recipe(path, [override])
    with pytest.raises(RecipeError) as caught:
        load_recipe(path, ["training.max_stepz=3"])
    assert caught.value.key == "training.max_stepz"


@pytest.mark.parametrize("value", [
    "1e3", "12", "1.5e-7", "2020-01-01", "null", "a b", "a: b", "[INST] {input} [/INST]", "{input} ->", "@x",
    "\N{SLIGHTLY SMILING FACE}: {input}",
    True, None, 3, 0.5, [1],
])  # fmt: skip
def test_values_are_written_as_they_are_read(value, tmp_path):
    assert parse_overrides([write_override("data.config", value)])["data.config"] == value
    if isinstance(value, str):
        recipe = build_recipe(changed(data__config=value))
        assert read_recipe(write(tmp_path, dump_recipe(recipe))).to_dict() == recipe.to_dict()


def test_of_overrides_of_one_key_the_last_counts(tmp_path):
    path = write(tmp_path, yaml.safe_dump(TINY))
    recipe = load_recipe(path, ["training.max_steps=5", "seed=1", "training.max_steps=7"])
    assert (recipe.training.max_steps, recipe.name) == (7, load_recipe(path, ["training.max_steps=7"]).name)


@pytest.mark.parametrize("number", ["0", "0.0"])
def test_a_whole_number_and_its_float_are_one_cell(number, tmp_path):
    path = write(tmp_path, yaml.safe_dump(TINY))
    recipe, same = (load_recipe(path, [f"model.dropout={one}"]) for one in (number, "0.0"))
    assert (recipe.hash, recipe.run_dir) == (same.hash, same.run_dir)
    noisy = {load_recipe(path, [f"training.neftune_noise_alpha={one}"]).hash for one in ("5", "5.0")}
    assert len(noisy) == 1
    # only of fields that are floats
    assert type(load_recipe(path, ["model.encoder_layers=3"]).model.fields["encoder_layers"]) is int


def test_an_override_may_mend_the_file(tmp_path):
    path = write_recipe(tmp_path, hidden_size=17)
    assert load_recipe(path, ["model.hidden_size=18"]).model.fields["hidden_size"] == 18
    with pytest.raises(RecipeError):
        load_recipe(path)


# base


def test_a_recipe_may_start_from_another(tmp_path):
    write_recipe(tmp_path, "base", schedule="noam", warmup_steps=3, dropout=0.2, paper={"cell": "Table 1", "test": 0.5})
    (tmp_path / "below").mkdir()
    path = write(tmp_path / "below", "base: ../base.yaml\ntraining: {max_steps: 9}\nmodel: {dropout: 0.3}\n")
    recipe = load_recipe(path)
    assert (recipe.file, recipe.name) == ("r", "r")
    assert (recipe.training.max_steps, recipe.training.learning_rate) == (9, TINY["training"]["learning_rate"])
    assert (recipe.model.fields["dropout"], recipe.schedule.warmup_steps) == (0.3, 3)
    assert recipe.paper.cell is recipe.paper.test is None
    # and that one from a third
    last = path.with_name("last.yaml")
    last.write_text("base: r.yaml\nseed: 4\n")
    assert load_recipe(last).to_dict() == {**recipe.to_dict(), "seed": 4}


def test_a_section_of_another_kind_keeps_what_both_have(tmp_path):
    write_recipe(tmp_path, "base", schedule="inverse_sqrt", warmup_steps=3, warmup_init_lr=0.5, length_buckets=2,
                 position_scheme="relative")  # fmt: skip
    path = write(tmp_path, "base: base.yaml\nschedule: {type: noam}\nbatches: {sampling: max_tokens, max_tokens: 9}\n")
    recipe = load_recipe(path, ["model.type=fairseq_transformer"])
    assert recipe.schedule.model_dump() == {"type": "noam", "warmup_steps": 3}
    assert recipe.batches.max_tokens == 9
    assert recipe.model.fields == SIZES


@pytest.mark.parametrize("name", ["r.yaml", "none.yaml", "[r.yaml]", '"a\\0b"', "a" * 300, "."])
def test_bases_that_are_none(name, tmp_path):
    with pytest.raises(RecipeError) as caught:
        load_recipe(write(tmp_path, f"base: {name}\n"))
    assert caught.value.key == "base" or name == "."


# cells


def test_an_override_that_makes_another_cell(tmp_path):
    """It joins the name, so the folder, and the file's paper number no longer stands beside the result."""
    path = write_recipe(tmp_path, "cell", paper={"cell": "Table 1", "test": 0.5, "validation": 1.0})

    def loaded(*overrides: str) -> tuple:
        recipe = load_recipe(path, overrides)
        return recipe.name, recipe.paper.cell, recipe.paper.test, recipe.paper.validation

    same = ("cell", "Table 1", 0.5, 1.0)
    assert loaded() == same
    assert loaded("seed=3", "evaluation.examples=null", "model.attn_implementation=sdpa") == same
    assert loaded("data.config=length_cutoff_26", "model.dropout=0.1") == same  # as in the file, or by default
    assert loaded("data.config=length_cutoff_22") == ("cell,data.config=length_cutoff_22", None, None, None)
    assert loaded("data.config=length", "paper.test=0.2") == ("cell,data.config=length", None, 0.2, None)
    named = "cell,model.dropout=0.5,training.max_steps=7"
    for overrides in (("training.max_steps=7", "seed=1", "model.dropout=0.5"),
                      ("model.dropout=0.5", "training.max_steps=7")):  # fmt: skip
        recipe = load_recipe(path, overrides)
        assert (recipe.name, recipe.overrides) == (named, {"model.dropout": 0.5, "training.max_steps": 7})
    assert recipe.run_dir == Path("runs") / named / "seed0"
    # a section that is switched off
    stopped = write_recipe(tmp_path, "stopped", eval_steps=3, early_stopping={"metric": "loss"}, paper_test=0.5)
    assert load_recipe(stopped, ["evaluation.early_stopping.metric=loss"]).paper.test == 0.5
    recipe = load_recipe(stopped, ["evaluation.early_stopping=null"])
    assert (recipe.name, recipe.paper.test) == ("stopped,evaluation.early_stopping=None", None)
    roles = {**tiny_sections(model="role_filler_transformer", config="addprim_jump")}
    role_path = write(tmp_path, yaml.safe_dump(roles))
    for letter in "ab":
        scheme = tmp_path / f"{letter * 100}.yaml"
        name = load_recipe(role_path, [f"data.role_scheme={scheme}"]).name
        assert len(name) < 170
        assert "/" not in name


def test_what_a_checkpoint_decides_is_not_known(tmp_path):
    keys = dict.fromkeys(SIZES, ...) | {"joint_vocabulary": True}
    path = write_recipe(tmp_path, model="depth_width_decoder", pretrained="somewhere", **keys)
    assert load_recipe(path, ["model.dropout=0.1"]).overrides == {"model.dropout": 0.1}
    # a section at its defaults is another cell than none
    whole, adapters = load_recipe(path), load_recipe(path, ["peft={}"])
    assert adapters.overrides == {"peft": {}}
    assert whole.run_dir != adapters.run_dir


@pytest.mark.parametrize(
    ("key", "value", "change"),
    [
        ("output_dir", "x", "nothing"),
        ("training.report_to", "tensorboard", "nothing"),
        ("training.logging_steps", 9, "nothing"),
        ("evaluation.batch_size", 9, "nothing"),
        ("paper.test", 0.5, "nothing"),
        ("training.eval_steps", 2, "bits"),
        ("training.kept_steps", [2], "bits"),
        ("evaluation.examples", None, "bits"),
        ("batches.length_buckets", 2, "rounding"),
        ("training.torch_compile", True, "rounding"),
        ("model.attn_implementation", "eager", "rounding"),
        ("seed", 1, "seed"),
        ("training.max_steps", 7, "result"),
        ("model.hidden_size", 32, "result"),
        ("data.config", "simple", "result"),
    ],
    ids=str,
)
def test_hash_and_cell_derive_from_what_a_field_changes(key, value, change):
    recipe = parse_recipe(TINY)
    other = recipe.replace(**{key: value})
    assert effect_of(key) == change
    assert (other.hash == recipe.hash) == (change == "nothing")
    assert (other.cell == recipe.cell) == (change != "result")
    assert set(recipe.differences(other, change)) == {key}


def test_names_are_frozen():
    """Keys of published recipes: a change here breaks somebody's file."""
    newer = {"training.fp16", "evaluation.early_stopping", "model.revision", "data.prompt"}
    newer |= {f"peft.{name}" for name in ("r", "lora_alpha", "lora_dropout", "target_modules")}
    newer |= {f"in_context.{name}" for name in ("shots", "rule", "examples", "splits", "constrained")}
    assert {field.key for field in FIELDS} == {*KEYS.values(), *newer}
    assert all(field.meaning for field in FIELDS)


# where recipes are


def test_shipped_recipes_are_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = "csordas2021/scan_length26_relative"
    for name in (f"{file}.yaml", f"recipes/{file}.yaml"):
        recipe = load_recipe(name, ["seed=4"])
        assert recipe.run_dir == Path("runs/scan_length26_relative/seed4")
        assert recipe.file == file
    (tmp_path / "csordas2021").mkdir()
    write_recipe(tmp_path / "csordas2021", "scan_length26_relative")
    assert load_recipe(f"{file}.yaml").training.max_steps == TINY["training"]["max_steps"]
    with pytest.raises(RecipeError):
        load_recipe("csordas2021/none.yaml")


def test_installed_recipes_are_found(tmp_path, monkeypatch):
    package = tmp_path / "site-packages" / "hf_sysgen"
    monkeypatch.setattr(hf_sysgen.config.io, "__file__", str(package / "config" / "io.py"))
    with pytest.raises(RecipeError, match=re.escape(str(package))):
        shipped_files()
    recipes = package / "recipes" / "csordas2021"
    recipes.mkdir(parents=True)
    path = write_recipe(recipes)
    assert shipped_recipes().resolve() == recipes.parent
    assert {file: found.resolve() for file, found in shipped_files().items()} == {"csordas2021/tiny": path}
    assert load_recipe(path).file == "csordas2021/tiny"


# version 0.1

FLAT = """\
# A head.
#
# Command: train it
model: sag_transformer
benchmark: iwslt14                   # where from
config: de-en
tokens: bpe
subwords: 90                         # merges
seed: 2
hidden_size: 16
num_attention_heads: 2
# above the next
intermediate_size: 24
steps: 9
sampling: max_tokens
max_tokens: 400                      # per GPU
batches_per_update: 2
precision: bf16                      # half
learning_rate: 1e-3
schedule: noam
warmup_steps: 3
eval_every: 0                        # at the end
kept_steps: [1, 2,
  3]                                 # three
early_stopping: none
early_stopping_patience: 5
beams: 3
paper_cell: "Table 1: a cell"
"""


def test_a_flat_file_is_rewritten_with_its_comments(tmp_path):
    path = write(tmp_path, FLAT)
    with pytest.raises(RecipeError, match="hf-sysgen recipe migrate"):
        load_recipe(path)
    migrate_file(path)
    text, recipe = path.read_text(), load_recipe(path)
    assert text.startswith("# A head.\n#\n# Command: train it\nmodel:\n")
    for comment in ("# where from", "# merges", "# above the next", "# per GPU", "# half", "# at the end", "# three"):
        assert text.count(comment) == 1
    assert "  # above the next\n  intermediate_size: 24" in text
    assert (recipe.data.tokenization, recipe.seed, recipe.batches.per_update) == ("bpe", 2, 2)
    assert (recipe.training.bf16, recipe.training.eval_steps, recipe.training.kept_steps) == (True, None, (1, 2, 3))
    assert (recipe.schedule.type, recipe.evaluation.early_stopping) == ("noam", None)
    assert recipe.paper.cell == "Table 1: a cell"
    with pytest.raises(RecipeError, match="nothing to migrate"):
        migrate_file(path)
    assert path.read_text() == text


def test_keys_of_a_record_of_version_1():
    """All keys with their defaults, of which only those with an effect are kept."""
    flat = {"model": "lstm_seq2seq", "benchmark": "scan", "config": "simple", "steps": 5, "learning_rate": 0.1,
            "hidden_size": 16, "batch_size": 8, "sampling": "with_replacement", "length_groups": 2, "max_tokens": None,
            "batches_per_update": 1, "resample": None, "epochs": None, "static_batches": False, "schedule": "constant",
            "warmup_steps": 0, "warmup_init_lr": 0.0, "optimizer": "nesterov", "momentum": 0.99, "precision": "fp32",
            "early_stopping": "loss", "early_stopping_patience": 7, "eval_every": 5, "tracker": "none"}  # fmt: skip
    recipe = parse_recipe(migrate_keys(flat))
    assert recipe.batches.model_dump() == {"sampling": "with_replacement", "size": 8, "length_buckets": 2}
    assert (recipe.training.optim, recipe.training.optim_args) == ("sgd", "momentum=0.99,nesterov=true")
    assert recipe.evaluation.early_stopping.model_dump() == {"metric": "loss", "patience": 7}
    assert recipe.schedule.type == "constant"
    with pytest.raises(RecipeError) as caught:
        migrate_keys({**flat, "static_batches": True})
    assert caught.value.key == "static_batches"


def test_a_flat_sweep_gets_dotted_keys(tmp_path):
    path = write(tmp_path, "# head\nrecipes: [a.yaml]\naxes:\n  config: [x, y]  # which\ncells:\n  - {}\n"
                           "  - {steps: 5, share_layers: false}\nseeds: [0]\n")  # fmt: skip
    migrate_file(path)
    migrated = (
        "# head\nrecipes: [a.yaml]\naxes:\n  data.config: [x, y]  # which\ncells:\n  - {}\n"
        "  - {training.max_steps: 5, model.share_layers: false}\nseeds: [0]\n"
    )
    assert path.read_text() == migrated
    with pytest.raises(RecipeError, match="nothing to migrate"):
        migrate_file(path)
    assert path.read_text() == migrated


@pytest.mark.parametrize("settings", ["cells: [3]", "cells: [abc]", "axes: [steps]", "axes: 5"])
def test_no_sweep_is_left_as_it_is(settings, tmp_path):
    path = write(tmp_path, f"recipes: [a.yaml]\n{settings}\nseeds: [0]\n")
    before = path.read_text()
    with pytest.raises(RecipeError):
        migrate_file(path)
    assert path.read_text() == before


def test_an_optimizer_that_version_0_1_had_not_is_named():
    with pytest.raises(RecipeError, match=r"Adam.* did you mean 'adam'") as caught:
        migrate_text("model: lstm_seq2seq\nbenchmark: scan\nconfig: simple\nsteps: 3\noptimizer: Adam\n")
    assert caught.value.key == "optimizer"


def test_every_key_of_version_0_1_has_a_place():
    known = {field.key for field in FIELDS}
    assert set(KEYS.values()) <= known
    assert migrate_text(FLAT)


# any mapping

# values of every kind that YAML can give, near the right ones often enough to reach the deeper checks
scalars = st.none() | st.booleans() | st.integers(-3, 300) | st.floats() | st.text(max_size=8)
values = (
    scalars | st.lists(scalars, max_size=2) | st.sampled_from([*CONFIGS, "constant", "noam", "loss", "epochs", "eager"])
)
declared = [field.key for field in FIELDS]
derived = dict.fromkeys(name for config in CONFIGS.values() for name in from_data(config))
fields = [f"model.{key}" for key in (*SIZES, "dropout", "embedding_scaling", "share_layers", *derived)]
unknown = st.text("abcdefg_", min_size=1, max_size=12).map(lambda word: f"training.{word}")


@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from([*declared, *fields, *TINY]) | unknown, values, max_size=4))
def test_any_mapping_is_a_recipe_or_one_clear_line(changes):
    recipe, message = None, ""
    try:
        recipe = parse_recipe(merge(TINY, nest(changes)))
    except RecipeError as error:
        message = str(error)
    if recipe is None:
        assert message
        assert "\n" not in message
        return
    again = parse_recipe(yaml.safe_load(yaml.safe_dump(recipe.to_dict())), recipe.file)
    assert again.hash == recipe.hash
    assert again.to_dict() == recipe.to_dict()


def test_a_model_type_that_is_no_word():
    """Nor is it looked up as one, where an override lays it over the file's."""
    file = next(path for name, path in shipped_files().items() if name.endswith("/cogs_transformer"))
    with pytest.raises(RecipeError) as caught:
        load_recipe(file, ["model.type={a: 1}"])
    assert caught.value.key == "model.type"


@pytest.mark.parametrize(
    "text",
    [
        "a0: &a0 [x, x, x, x]\n" + "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(9)),
        "a0: &a0 {x: 1}\n" + "".join(f"a{n + 1}: &a{n + 1} {{<<: [{', '.join([f'*a{n}'] * 9)}]}}\n" for n in range(9)),
        "model: " + "[" * 5000 + "]" * 5000,
        "model: {type: " + "x" * 3_000_000 + "}",
        "seed: " + "9" * 6000,
        "a: &a [*a]",
        "seed: \0",
    ],
    ids=["aliases", "merges", "deep", "long", "digits", "itself", "nul"],
)
def test_yaml_that_is_short_and_endless(text, tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError, match=r"recipe\.yaml") as caught:
        load_recipe(path)
    assert len(str(caught.value)) < 2000


def test_brackets_are_counted_where_they_nest():
    """Up to the limit, and not in quoted text or remarks."""
    deepest = 0
    value = parse_yaml(f"x: {'[' * 100}{']' * 100}", "text")["x"]
    while value:
        deepest, (value,) = deepest + 1, value
    assert deepest == 99
    assert parse_yaml(f'x: "{"[" * 101}"  # {"]" * 101}', "text") == {"x": "[" * 101}
    for text in (f"x: {'[' * 101}{']' * 101}", f"# {']' * 101}\nx: {'[' * 3000}"):
        with pytest.raises(RecipeError, match="too deep"):
            parse_yaml(text, "text")


def test_aliases_of_a_few_values_are_read():
    assert parse_yaml("a: &x [1, {b: 2}]\nc: *x\nd: {<<: {e: 3}, f: *x}", "text") == {
        "a": [1, {"b": 2}], "c": [1, {"b": 2}], "d": {"e": 3, "f": [1, {"b": 2}]},
    }  # fmt: skip


def test_the_field_that_an_error_names_first_is_its_key():
    """Also where another one of the recipe comes before it in the alphabet."""
    fields = {"type": "edge_transformer", "attention_ablation": True, "triangular_implementation": "triton"}
    sections = tiny_sections()
    with pytest.raises(RecipeError) as caught:
        parse_recipe(sections | {"model": fields, "data": {"benchmark": "clutrr", "config": "gen_train234_test2to10"}})
    assert caught.value.key == "model.triangular_implementation"


def test_a_field_that_came_later_is_in_hashes_with_another_value_only():
    added = next(field for field in FIELDS if not in_hashes(field.key, field.default))
    assert in_hashes(added.key, "another")
    assert in_hashes("training.max_steps", 1)
