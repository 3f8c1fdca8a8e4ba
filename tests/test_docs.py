"""The documents: what they name is there, what they print is so, and what they have a reader build is built."""

from __future__ import annotations

import functools
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest
import typer
import yaml
from documents import DOCUMENTS, ROOT, blocks, commands, lines_of, written
from elsewhere import run_elsewhere
from tiny_runs import command, environment, free_port, train_process
from typer.testing import CliRunner

from hf_sysgen.cli.main import app
from hf_sysgen.extensions import EXTENSIONS_VARIABLE, own_benchmarks

DOCS = ROOT / "docs"
ACCELERATE = ROOT / "recipes" / "accelerate"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(document):
    text = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)#]+)", text):
        assert target.startswith("https://") or (document.parent / unquote(target)).exists(), target


def test_every_document_is_linked_from_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in DOCS.glob("*.md") if f"](docs/{path.name})" not in readme] == []


def test_pictures_are_shown_and_small():
    texts = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *DOCS.glob("*.md")))
    pictures = {*DOCS.glob("*.png")}
    assert "](docs/scan_length26_quick.png)" in texts
    for picture in pictures:
        assert f"{picture.name})" in texts
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_size < 60_000


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_are_understood(document):
    """Every option and argument; what they do is the business of the tests that run them."""
    group = typer.main.get_command(app)
    for words in commands(document):
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), flags=re.M), words
        if words[0] == "hf-sysgen":
            parser, rest = group, words[1:]
            while hasattr(parser, "commands"):
                assert rest[0] in parser.commands, words
                parser, rest = parser.commands[rest[0]], rest[1:]
            parser.make_context(words[1], [*rest])
        for word in words:
            if word.startswith("recipes/"):
                assert (ROOT / word).is_file(), words


def test_launchers_take_the_files_that_documents_name():
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import launch_command_parser

    launches = [
        words[words.index("accelerate") + 2 :] for words in commands(DOCS / "scaling.md") if "accelerate" in words
    ]
    assert launches
    named = set()
    for words in launches:
        arguments = launch_command_parser().parse_args(words)
        config = load_config_from_file(arguments.config_file)
        named.add(Path(arguments.config_file).name)
        assert arguments.module
        assert arguments.training_script == "hf_sysgen.train"
        assert (arguments.num_processes or config.num_processes) % config.num_machines == 0
    assert named == {path.name for path in ACCELERATE.glob("*.yaml")}


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


def test_the_slurm_script_starts_one_launcher_a_machine(tmp_path):
    """With stand-ins for Slurm and accelerate that say how they were called."""
    program(tmp_path, "scontrol", 'echo node7; echo node8; [ "$*" = "show hostnames node[7-8]" ]')
    program(tmp_path, "srun", 'for id in 0 1; do SLURM_NODEID=$id "$@" || exit; done')
    program(tmp_path, "accelerate", 'printf "%s " "$@"; echo')
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_NODELIST": "node[7-8]", "SLURM_NNODES": "2",
                 "SLURM_GPUS_ON_NODE": "4", "SLURM_JOB_ID": "12345"}  # fmt: skip
    script = ACCELERATE / "multi_node.sbatch"
    done = subprocess.run(
        ["bash", str(script), "a recipe.yaml", "seed=1"], cwd=ROOT, env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    started = [
        "launch --config_file recipes/accelerate/multi_node.yaml --num_machines 2 --num_processes 8 "
        f"--machine_rank {rank} --main_process_ip node7 --main_process_port 22345 "
        "-m hf_sysgen.train a recipe.yaml seed=1"
        for rank in range(2)
    ]
    assert [line.strip() for line in done.stdout.splitlines()] == started


def own_folder(document: str, folder: Path, monkeypatch) -> dict[str, Path]:
    paths = written(DOCS / document, folder)
    monkeypatch.setenv(EXTENSIONS_VARIABLE, str(folder / "my_extensions"))
    return paths


def use_own_models(folder: Path) -> None:
    from hf_sysgen.models import register_own_models

    os.environ[EXTENSIONS_VARIABLE] = str(folder)
    register_own_models()


def test_a_new_variant_is_trained_and_travels(tmp_path):
    """The document's file and recipe as they are, made small; then its snippet, where this package cannot be had."""
    paths = written(DOCS / "new_variant.md", tmp_path)
    assert {path.parent.name for path in paths.values() if path.suffix == ".py"} == {"my_extensions"}
    small = [
        "training.max_steps=2",
        "batches.size=8",
        "training.eval_steps=2",
        "evaluation.examples=3",
        "model.hidden_size=16",
        "model.intermediate_size=16",
        "model.num_attention_heads=2",
        "model.encoder_layers=1",
        "model.decoder_layers=1",
        "output_dir=runs/linear_bias/seed0",
        "training.report_to=none",
    ]
    prepare = functools.partial(use_own_models, tmp_path / "my_extensions")
    done = train_process([str(paths["linear_bias.yaml"]), *small], tmp_path, prepare)
    assert done.status == 0, done.err
    assert (tmp_path / "runs/linear_bias/seed0/model/modeling_linear_bias.py").read_bytes() == paths[
        "my_extensions/modeling_linear_bias.py"
    ].read_bytes()

    snippet = next(one.text for one in blocks(DOCS / "new_variant.md") if one.language == "python" and not one.path)
    variables = environment(HF_MODULES_CACHE=str(tmp_path / "modules"), HF_HUB_OFFLINE="1")
    printed = run_elsewhere(snippet + "print(type(model).__name__)", environment=variables, folder=tmp_path)
    assert re.fullmatch(r"\['.*'\]\nLinearBiasForConditionalGeneration\n", printed)


@pytest.mark.slow
def test_the_commands_of_the_new_variant(tmp_path):
    """In processes of their own, which learn of the variant from the variable alone."""
    written(DOCS / "new_variant.md", tmp_path)
    small = [
        "training.max_steps=2",
        "model.hidden_size=16",
        "model.num_attention_heads=2",
        "training.report_to=none",
        "output_dir=runs/linear_bias/seed0",
    ]
    for words in commands(DOCS / "new_variant.md")[1:]:
        words = [*words[1:], *(small if words[1] == "train" else [])]
        done = command(["-m", "hf_sysgen.cli", *words], tmp_path, **{EXTENSIONS_VARIABLE: "my_extensions"})
        assert done.returncode == 0, done.stderr
        if words[0] == "list":
            assert "linear_bias_transformer" in done.stdout
    words = ["-m", "hf_sysgen.cli", "publish", "runs/linear_bias/seed0", "me/linear-bias", "--dry-run"]
    done = command(words, tmp_path, **{EXTENSIONS_VARIABLE: "my_extensions"})
    assert done.returncode == 0, done.stderr
    assert "modeling_linear_bias.py" in done.stdout


def test_a_new_benchmark_is_prepared_and_proven(tmp_path, monkeypatch):
    """The document's commands in this process, and what it says that they print."""
    import hf_sysgen.data.registry as registry

    own_folder("new_benchmark.md", tmp_path, monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(registry, "_BENCHMARKS", {**registry._BENCHMARKS, **own_benchmarks(registry._BENCHMARKS)})
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    printed = ""
    for words in commands(DOCS / "new_benchmark.md")[1:]:
        result = CliRunner().invoke(app, words[1:])
        assert result.exit_code == 0, result.output
        printed = result.stdout
    expected = next(block.text for block in blocks(DOCS / "new_benchmark.md") if block.language == "text")
    assert printed == expected
    del sys.modules["benchmark_reverse"]


@pytest.mark.slow
def test_the_tutorial(tmp_path):
    """From start to end, as printed, with what it prints: numbers aside, which depend on the processor."""
    tutorial = DOCS / "tutorial.md"
    written(tutorial, tmp_path)
    printed = ""
    for block in blocks(tutorial):
        if block.language == "bash":
            for line in lines_of(block.text):
                words = shlex.split(line)
                if words[0] != "hf-sysgen":
                    continue  # how it is installed
                done = command(["-m", "hf_sysgen.cli", *words[1:]], tmp_path)
                assert done.returncode == 0, done.stderr
                printed = done.stdout
        elif block.language == "python":
            done = command(["-c", block.text], tmp_path)
            assert done.returncode == 0, done.stderr
            printed = done.stdout
        elif block.language == "text":
            beginning, dots, _ = block.text.partition("...\n")
            found = "".join(printed.splitlines(keepends=True)[: beginning.count("\n")]) if dots else printed
            assert shape(found) == shape(beginning)


def shape(text: str) -> str:
    """A text without its numbers, and without the translations of a model, which depend on them."""
    text = re.sub(r"I_\w+( I_\w+)*", "ACTIONS", text)
    return re.sub(r"[\d.,]+", "0", re.sub(r" +", " ", text)).strip()


@pytest.mark.slow
def test_two_machines_as_documented(tmp_path):
    """Both launchers of `multi_node.yaml` on this machine's CPU, one process each."""
    from tiny_runs import write_recipe

    recipe = write_recipe(tmp_path, config="length_cutoff_40", max_steps=2, eval_steps=2, batch_size=512)
    words = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(ACCELERATE / "multi_node.yaml"),
             "--num_processes", "2", "--main_process_ip", "127.0.0.1"]  # fmt: skip
    words += ["--main_process_port", str(free_port())]
    started = [
        subprocess.Popen(
            [*words, "--machine_rank", str(rank), "-m", "hf_sysgen.train", str(recipe), "output_dir=run"],
            cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    errors = [process.communicate()[1] for process in started]
    assert [process.returncode for process in started] == [0, 0], errors
    from hf_sysgen.results.record import read_record

    assert read_record(tmp_path / "run" / "results.json").num_processes == 2


def test_the_recipe_of_the_tutorial_is_right(tmp_path):
    from hf_sysgen.config.io import load_recipe

    for path in written(DOCS / "tutorial.md", tmp_path).values():
        assert yaml.safe_load(path.read_text())["benchmark"] == load_recipe(path).benchmark


@pytest.mark.slow
def test_the_reference_is_built(tmp_path):
    """Every module is imported without a remark of pdoc, and has its page."""
    assert "\n\t$(BIN)/python docs/reference.py build/docs\n" in (ROOT / "Makefile").read_text()
    done = command(["docs/reference.py", str(tmp_path)], ROOT)
    assert done.returncode == 0, done.stderr
    assert "pdoc" not in done.stderr, "it warns of what it cannot import"
    page = (tmp_path / "hf_sysgen" / "models" / "seq2seq.html").read_text(encoding="utf-8")
    assert "Cross-entropy of logits (B, T, V)" in page
    for path in (ROOT / "src/hf_sysgen").rglob("*.py"):
        name = path.relative_to(ROOT / "src").with_suffix("")
        name = name.parent if name.name == "__init__" else name
        assert (tmp_path / f"{name}.html").is_file(), name
