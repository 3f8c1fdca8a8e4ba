"""Sweeps: what files say, states of runs, failures, locks, kills, Slurm; with a program that stands in for training."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml
from made_examples import use_short_examples
from tiny_runs import ROOT, command, environment, forks, shrunk, snapshot, tiny_sections, weights, write_recipe
from tiny_text import write_tokenizer
from typer.testing import CliRunner

from hf_sysgen.cli.main import app
from hf_sysgen.config.errors import RecipeError
from hf_sysgen.config.io import dump_recipe, load_recipe
from hf_sysgen.config.sweep import load_sweep
from hf_sysgen.files import locked
from hf_sysgen.reports.papers import papers
from hf_sysgen.results.reading import read_record
from hf_sysgen.results.record import RESULTS, Record
from hf_sysgen.training.launch import sweep as launch_sweep
from hf_sysgen.training.launch.processes import TrainingProcesses, exit_status
from hf_sysgen.training.launch.states import STATES, failure_of, state_of
from hf_sysgen.training.run import run_recipe

STAND_IN = Path(__file__).with_name("sweep_stand_in.py")
SEEDS = {"recipes": ["tiny.yaml"], "seeds": [0, 1, 2, 3]}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The current folder, with a recipe; training there is the stand-in's."""
    write_recipe(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(TrainingProcesses, "command", stand_in_command)
    monkeypatch.setattr(launch_sweep, "WAIT_SECONDS", 0.02)
    return tmp_path


def write_sweep(folder: Path, name: str = "sweep", **keys) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({**SEEDS, **keys}, sort_keys=False))
    return path


def stand_in_command(processes, file, overrides) -> list[str]:
    recipe = load_recipe(file, overrides)
    accuracy = recipe.training.learning_rate if recipe.training.learning_rate < 1 else 0.5
    split = {"examples": 2, "accuracy": accuracy, "loss": 1 - accuracy, "by_length": [(1, 2, accuracy)]}
    record = Record(
        file=recipe.file, overrides=recipe.overrides, recipe=recipe, recipe_hash=recipe.hash, seed=recipe.seed,
        steps=2, num_parameters=1, splits={"validation": split, "test": split}, history=[], train_seconds=1.0,
        num_processes=1, starts=[{"step": 0, "commit": None, "versions": {}}],
        environment={"device": "none", "num_threads": 1},
    )  # fmt: skip
    plan = {
        "run_dir": str(recipe.run_dir),
        "recipe": dump_recipe(recipe),
        "seed": recipe.seed,
        "results": record.model_dump(mode="json"),
    }
    path = Path("plans") / f"{recipe.hash}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(plan))
    return [sys.executable, "-I", "-S", str(STAND_IN), str(path)]


def sweep(*words: str | Path):
    return CliRunner().invoke(app, ["sweep", *map(str, words)])


def states(*words: str | Path) -> dict[str, str]:
    """The state of each run, as `--dry-run` lists them."""
    result = sweep(*words, "--dry-run")
    assert result.exit_code == 0, result.output
    listed = [line.split() for line in result.stdout.splitlines()]
    return {name.removesuffix(":"): state for state, name, *_ in listed if state in STATES}


def one_error(result) -> str:
    """The message of a command that ended with one line."""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    return line


def starts(folder: Path) -> dict[str, int]:
    """How often each run was started."""
    return {str(path.parent.relative_to(folder)): path.read_text().count("\n") for path in folder.rglob("starts")}


ALL = {f"runs/tiny/seed{seed}": 1 for seed in range(4)}


def test_runs_of_a_file(folder):
    path = write_sweep(
        folder,
        recipes=["tiny.yaml", "other.yaml"],
        cells=[{}, {"data.config": "length", "training.max_steps": 7}],
        axes={"training.learning_rate": [0.01, 1e-05], "model.dropout": [0.0]},
        seeds=[3, 1],
    )
    write_recipe(folder, "other", model="universal_transformer")
    loaded = load_sweep(path)
    assert len(loaded.runs) == 2 * 2 * 2 * 2
    assert [run.name for run in loaded.runs[:3]] == [
        "runs/tiny,model.dropout=0.0/seed3",
        "runs/tiny,model.dropout=0.0/seed1",
        "runs/tiny,model.dropout=0.0,training.learning_rate=1e-05/seed3",
    ]
    last = loaded.runs[-1]
    assert last.overrides == (
        "data.config=length",
        "model.dropout=0.0",
        "training.learning_rate=1e-05",
        "training.max_steps=7",
        "seed=1",
    )
    assert last.recipe == load_recipe(last.path, last.overrides)
    recipe = last.recipe
    assert (recipe.data.config, recipe.training.max_steps, recipe.training.learning_rate) == ("length", 7, 1e-5)


def test_overrides(folder):
    path = write_sweep(
        folder, cells=[{"training.max_steps": 3}, {"training.max_steps": 4}], axes={"model.dropout": [0.1, 0.2]}
    )
    quick = load_sweep(path, ["training.max_steps=5", "seeds=[7]"])
    assert [run.name for run in quick.runs] == [
        "runs/tiny,training.max_steps=5/seed7",  # 0.1 is the default
        "runs/tiny,model.dropout=0.2,training.max_steps=5/seed7",
    ]
    assert [run.recipe.model.fields["dropout"] for run in load_sweep(path, ["model.dropout=0.5"]).runs] == [0.5] * 8
    # values that YAML would read otherwise
    write_sweep(folder, axes={"paper.cell": ["null", "3", None], "training.report_to": ["none"]}, seeds=[0])
    with pytest.raises(RecipeError, match="runs/tiny/seed0"):
        load_sweep(path)
    write_sweep(folder, axes={"paper.cell": ["3"]}, seeds=[0])
    assert load_sweep(path).runs[0].recipe.paper.cell == "3"


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"recipe": ["tiny.yaml"]}, "recipe"),
        ({"training.max_steps": 5}, "training.max_steps"),
        ({"recipes": []}, "recipes"),
        ({"recipes": "tiny.yaml"}, "recipes"),
        ({"recipes": ["tiny.yaml", "tiny.yaml"]}, "recipes"),
        ({"seeds": [0, 0]}, "seeds"),
        ({"seeds": [True]}, "seeds"),
        ({"seeds": [-1]}, "seeds"),
        ({"axes": ["training.max_steps"]}, "axes"),
        ({"axes": {"training.max_steps": 5}}, "axes"),
        ({"axes": {"training.stepz": [5]}}, "training.stepz"),
        ({"axes": {"training.max_steps": [5, "six"]}}, "training.max_steps"),
        ({"axes": {"model.hidden_size": [16, 17]}}, "model.hidden_size"),
        ({"axes": {"seed": [1]}}, "seed"),
        ({"axes": {"output_dir": ["a"]}}, "output_dir"),
        ({"cells": [{"seed": 1}]}, "seed"),
        ({"cells": {"training.max_steps": 3}}, "cells"),
        ({"axes": {"data.config": ["length", "lenght"]}}, "data.config"),
        ({"axes": {"data.benchmark": ["skan"]}}, "data.benchmark"),
        ({"select": "accuracy"}, "select"),
        ({"select": ["test", "accuracy"]}, "select"),
        ({"select": "train accuracy"}, "select"),
        ({"select": "dev accuracy"}, "select"),
    ],
    ids=str,
)
def test_wrong_keys(folder, changes, key):
    path = write_sweep(folder, **changes)
    with pytest.raises(RecipeError) as caught:
        load_sweep(path)
    assert caught.value.key == key
    assert_refused(path, key)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"recipes": ["absent.yaml"]}, "absent.yaml"),
        ({"recipes": ["tiny.yaml", "./tiny.yaml"]}, "runs/tiny/seed0"),
        ({"cells": [{"training.max_steps": 3}], "axes": {"training.max_steps": [4]}}, "training.max_steps"),
        ({"cells": [{"training.max_steps": 6}, {}]}, "runs/tiny/seed0"),
        ({"axes": {1: [2], "training.max_steps": [3]}}, "1"),
        ({"cells": [{"training.max_steps": 3}, {None: 4}]}, "None"),
    ],
    ids=str,
)
def test_wrong_files(folder, changes, named):
    assert_refused(write_sweep(folder, **changes), named)


def assert_refused(path: Path, named: str) -> None:
    """By one line with the file and what is wrong in it, before any run."""
    result = sweep(path, "--jobs", 1)
    assert result.exit_code == 2
    file, said = one_error(result).removeprefix("error: ").split(": ", 1)
    assert file == str(path)
    assert re.search(rf"(?<!\w){re.escape(named.rpartition('.')[2])}(?!\w)", said)
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["steps"], "'steps'"),
        (["seed=3"], "seed"),
        (["seeds=3"], "seeds"),
        (["--accelerate", "absent.yaml"], "absent.yaml"),
        (["--accelerate", "absent.yaml", "--slurm", ""], "absent.yaml"),
        (["--run", "runs/tiny/seed4"], "runs/tiny/seed4"),
    ],
)
def test_wrong_words(folder, words, named):
    result = sweep(write_sweep(folder), *words)
    assert result.exit_code == 2
    assert named in one_error(result)
    assert not Path("runs").exists()


def test_no_sweep(folder):
    (folder / "list.yaml").write_text("- a")
    for name in ("absent.yaml", "list.yaml"):
        result = sweep(name)
        assert result.exit_code == 2
        assert name in one_error(result)


def test_one_fails_and_the_others_finish(folder):
    path = write_sweep(folder, select="test accuracy")
    (folder / "broken").touch()
    result = sweep(path, "--jobs", 2)
    assert result.exit_code == 1, result.output
    for word in ("runs/tiny/seed1 ", "the disk is on fire", "runs/tiny/seed1.log"):
        assert word in one_error(result)
    assert "test accuracy" not in result.stdout
    assert "the disk is on fire" in (folder / "runs/tiny/seed1.log").read_text()
    assert states(path) == dict.fromkeys(ALL, "finished") | {"runs/tiny/seed1": "failed"}
    assert starts(folder) == ALL

    before = {name: state for name, state in snapshot(folder / "runs").items() if "seed1" not in name}
    (folder / "broken").unlink()
    again = sweep(path)
    assert again.exit_code == 0
    assert "test accuracy" in again.stdout
    assert {name: state for name, state in snapshot(folder / "runs").items() if "seed1" not in name} == before
    assert starts(folder) == ALL | {"runs/tiny/seed1": 2}


def test_what_the_rule_selects(folder):
    """Of each recipe and config the best mean over seeds; of losses the lowest."""
    rates = [0.02, 0.03, 0.01]
    path = write_sweep(
        folder,
        axes={"data.config": ["length", "simple"], "training.learning_rate": rates},
        seeds=[0, 1],
        select="test accuracy",
    )
    for rule, mean in (("test accuracy", "0.0300"), ("test loss", "0.9700")):
        result = sweep(path, f"select={rule}")
        assert result.exit_code == 0
        assert [line.split() for line in result.stdout.splitlines()[-2:]] == [
            [f"tiny,data.config={config},training.learning_rate=0.03", "3", "2", mean, "0.0000"]
            for config in ("length", "simple")
        ]
    # of one seed it is infinite, which a record has as null
    (file,) = (folder / "runs").glob("*config=length,*rate=0.03/seed1/results.json")
    whole = file.read_text()
    record = json.loads(whole)
    record["splits"]["test"]["loss"] = None
    file.write_text(json.dumps(record))
    result = sweep(path, "select=test loss")
    assert (result.exit_code, result.stdout.splitlines()[-2].split()[-2]) == (0, "0.9800")
    file.write_text(whole)
    wrong = sweep(path, "select=test bleu")
    assert wrong.exit_code == 2
    assert "'bleu'" in one_error(wrong)
    for file in (folder / "runs").rglob(RESULTS):
        record = json.loads(file.read_text())
        record["splits"]["other"] = record["splits"].pop("test")
        file.write_text(json.dumps(record))
    wrong = sweep(path)
    assert wrong.exit_code == 2
    for word in ("results.json", "'test'"):
        assert word in one_error(wrong)


def test_a_recipe_that_changed_meanwhile_is_no_seed_of_the_cell(folder):
    path = write_sweep(folder)
    Path("changed").touch()
    result = sweep(path)
    assert result.exit_code == 2
    assert "runs/tiny/seed1 failed" in one_error(result)
    assert "another recipe" in one_error(result)
    assert "relative_universal_transformer" not in result.stdout


@pytest.mark.parametrize(
    ("said", "failure"),
    [
        ("step 0/4000\nexit status -9", "ended by signal 9 (is memory full?); the same command resumes it"),
        ("error: the disk is full\nexit status -15", "the disk is full"),
        ("step 0/4000\nexit status 1", "step 0/4000"),
        ("step 0/4000\nexit status 0", None),
    ],
)
def test_what_ended_a_run(said, failure, tmp_path):
    (tmp_path / "run.log").write_text(f"$ hf-sysgen train\n{said}\n")
    assert failure_of(tmp_path / "run.log") == failure


def test_a_folder_of_another_recipe_fails_alone(folder):
    """And a damaged record."""
    path = write_sweep(folder)
    for seed, name, text in ((0, "recipe.yaml", yaml.safe_dump(tiny_sections(max_steps=9))), (2, RESULTS, "{")):
        (folder / f"runs/tiny/seed{seed}").mkdir(parents=True)
        (folder / f"runs/tiny/seed{seed}/{name}").write_text(text)
    (folder / "runs/tiny/seed2/recipe.yaml").write_text(dump_recipe(load_recipe("tiny.yaml", ["seed=2"])))
    result = sweep(path)
    assert result.exit_code == 2
    first, second = result.stderr.splitlines()
    assert "runs/tiny/seed0 " in first
    assert "runs/tiny/seed2/results.json" in second
    assert starts(folder) == {"runs/tiny/seed1": 1, "runs/tiny/seed3": 1}


def test_a_run_whose_folder_was_removed_is_new(folder):
    """Though its log says how it ended."""
    path = write_sweep(folder, seeds=[0])
    assert sweep(path).exit_code == 0
    shutil.rmtree(folder / "runs/tiny/seed0")
    assert states(path) == {"runs/tiny/seed0": "new"}


def test_two_sweeps_share_their_runs(folder):
    assert sweep(write_sweep(folder, "one", seeds=[0, 1])).exit_code == 0
    assert sweep(write_sweep(folder, "two", seeds=[1, 2])).exit_code == 0
    assert starts(folder) == {f"runs/tiny/seed{seed}": 1 for seed in range(3)}


def test_some_runs(folder):
    path = write_sweep(folder, select="test accuracy")
    result = sweep(path, "--run", "runs/tiny/seed2")
    assert result.exit_code == 0
    assert "test accuracy" not in result.output
    assert starts(folder) == {"runs/tiny/seed2": 1}


def _sweep(folder: Path, words: list[str], output: str = "out.txt") -> None:
    """`hf-sysgen sweep` in a process of its own, which Ctrl-C reaches even if tests run where it does not."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    TrainingProcesses.command = stand_in_command
    launch_sweep.WAIT_SECONDS = 0.02
    sys.argv = ["hf-sysgen", "sweep", *words]
    app()


@pytest.fixture
def in_progress(folder):
    """A sweep of four runs, two of them going on."""
    path = write_sweep(folder)
    (folder / "hold").touch()
    process = forks.Process(target=_sweep, args=(folder, [str(path), "--jobs", "2"]))
    process.start()
    wait_until(lambda: len(starts(folder)) == 2)
    yield process
    process.kill()
    (folder / "hold").unlink(missing_ok=True)


def written(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def wait_until(condition) -> None:
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end, "waited for what does not come"
        time.sleep(0.02)


def test_the_same_sweep_twice_at_once(folder, in_progress):
    result = sweep("sweep.yaml")
    assert result.exit_code == 2
    assert "sweep.yaml" in one_error(result)
    assert list(states("sweep.yaml").values()) == ["running", "running", "new", "new"]
    (folder / "hold").unlink()
    in_progress.join()
    assert in_progress.exitcode == 0
    assert starts(folder) == ALL


def test_another_sweep_waits_for_a_run_that_is_trained(folder, in_progress):
    path = write_sweep(folder, "other", seeds=[0])
    other = forks.Process(target=_sweep, args=(folder, [str(path)], "other.txt"))
    other.start()
    # it tells how far that one is, and does not start it
    wait_until(lambda: "step 1/2" in written(folder / "other.txt"))
    assert starts(folder) == {"runs/tiny/seed0": 1, "runs/tiny/seed1": 1}
    (folder / "hold").unlink()
    for process in (other, in_progress):
        process.join()
        assert process.exitcode == 0
    assert starts(folder) == ALL


def test_a_run_that_train_has_in_hand_is_waited_for(folder):
    path = write_sweep(folder, seeds=[0])
    (folder / "hold").touch()
    with locked(folder / "runs/tiny/seed0/.lock"):
        assert states(path) == {"runs/tiny/seed0": "running"}
        process = forks.Process(target=_sweep, args=(folder, [str(path)]))
        process.start()
        # of a run that it started, the second line would be the run's own
        wait_until(lambda: written(folder / "out.txt").count("[runs/tiny/seed0] ") > 1)
        assert starts(folder) == {}
        (folder / "hold").unlink()
    process.join()
    assert process.exitcode == 0
    assert starts(folder) == {"runs/tiny/seed0": 1}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(folder, in_progress, number):
    os.kill(in_progress.pid, number)
    in_progress.join()
    assert in_progress.exitcode == 130
    assert len(re.findall("^error: ", written(folder / "out.txt"), re.MULTILINE)) == 1
    assert list(states("sweep.yaml").values()) == ["resumable", "resumable", "new", "new"]
    (folder / "hold").unlink()
    assert sweep("sweep.yaml").exit_code == 0
    assert starts(folder) == ALL | {"runs/tiny/seed0": 2, "runs/tiny/seed1": 2}


def test_killed(folder, in_progress):
    """Its runs end too, because nobody reads what they print; until then nobody starts them again."""
    in_progress.kill()
    in_progress.join()
    runs = load_sweep("sweep.yaml").runs
    # each notices by itself, at the next line that it prints
    wait_until(lambda: [state_of(run)[0] for run in runs[:2]] == ["resumable", "resumable"])
    (folder / "hold").unlink()
    assert sweep("sweep.yaml").exit_code == 0
    assert starts(folder) == ALL | {"runs/tiny/seed0": 2, "runs/tiny/seed1": 2}


def test_a_lock_lasts_as_long_as_the_run(tmp_path):
    log = tmp_path / "log"
    with locked(log) as file:
        child = subprocess.Popen(["sleep", "100"], pass_fds=[file.fileno()])
    with locked(log) as file:
        assert file is None
    child.kill()
    child.wait()
    with locked(log) as file:
        assert file is not None


FAKE_SBATCH = """#!/bin/bash
echo "$@" > sbatch_words
[ -e refused ] && { echo "sbatch: error: invalid partition specified" >&2; exit 1; }
echo 4711
"""


FAKE_SQUEUE = """#!/bin/bash
[ -e away ] && { echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1; }
for word in "$@"; do case $word in --states=*) wanted=",${word#*=},";; esac; done
touch queue
while read -r job task state; do [[ $wanted == *",$state,"* ]] && echo "$job $task"; done < queue
true
"""


@pytest.fixture
def sbatch(folder, monkeypatch):
    (folder / "bin").mkdir()
    for name, text in (("sbatch", FAKE_SBATCH), ("squeue", FAKE_SQUEUE)):
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")


def test_slurm(folder, sbatch):
    path = write_sweep(folder, axes={"paper.cell": ["it's $HOME"]})
    refused = sweep(path, "--slurm", "--gres 'gpu:1")
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert not (folder / "runs/sweeps/sweep/array.sh").exists()
    assert sweep(path, "--run", "runs/tiny/seed0").exit_code == 0
    result = sweep(path, "training.max_steps=6", "--slurm", "--partition 'my gpus' --gres gpu:1", "--jobs", 2)
    assert result.exit_code == 0, result.output
    script = folder / "runs/sweeps/sweep/array.sh"
    for word in ("4711", "runs/sweeps/sweep/array.sh"):
        assert word in result.stdout
    assert (folder / "sbatch_words").read_text() == (
        "--parsable --partition my gpus --gres gpu:1 runs/sweeps/sweep/array.sh\n"
    )
    text = script.read_text()
    assert "#SBATCH --array=0-2%2\n" in text
    assert "#SBATCH --requeue\n" in text
    # what a job would run, with a shell function in place of Python
    shown = subprocess.run(
        ["bash", "-c", f"exec() {{ printf '%s\\n' \"$@\"; }}; . {script}"],
        env=os.environ | {"SLURM_ARRAY_TASK_ID": "1"}, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    assert shown[0] == sys.executable
    assert shown[1:4] == ["-m", "hf_sysgen.cli", "sweep"]
    task = sweep(*shown[4:])
    assert task.exit_code == 0, task.output
    assert starts(folder) == {"runs/tiny/seed0": 1, "runs/tiny/seed2": 1}

    (folder / "sbatch_words").unlink()
    with locked(folder / "runs/sweeps/sweep/lock"):
        assert "another process" in one_error(sweep(path, "--slurm", ""))
    assert not (folder / "sbatch_words").exists()
    (folder / "refused").touch()
    refused = sweep(path, "--slurm", "")
    assert refused.exit_code == 1
    for word in ("runs/sweeps/sweep/array.sh", "invalid partition"):
        assert word in one_error(refused)
    (folder / "refused").unlink()
    (folder / "sbatch_words").unlink()
    assert sweep(path).exit_code == 0
    nothing = sweep(path, "--slurm", "")
    assert nothing.exit_code == 2
    assert str(path) in one_error(nothing)
    assert not (folder / "sbatch_words").exists()


def test_slurm_is_asked_what_waits(folder, sbatch):
    """A run that waits is not submitted again; one that has left the queue unfinished is."""
    path = write_sweep(folder, seeds=[0, 1, 2])
    names = [f"runs/tiny/seed{seed}" for seed in range(3)]
    script = folder / "runs/sweeps/sweep/array.sh"

    def submitted() -> list[str]:
        assert sweep(path, "--slurm", "").exit_code == 0
        return [name for name in names if f"  {name}\n" in script.read_text()]

    assert submitted() == names
    for state in ("RUNNING", "SUSPENDED"):
        (folder / "queue").write_text(f"4711 2 {state}\n")
        assert list(states(path).values()) == ["new", "new", "waiting"]
    (folder / "queue").write_text("4711 0 PENDING\n4711 1 COMPLETING\n4711 2 PENDING\n99 1 PENDING\n")
    assert list(states(path).values()) == ["waiting", "new", "waiting"]
    assert submitted() == names[1:2]
    (folder / "queue").write_text("4711 0 PENDING\n")
    # the second job's task
    assert submitted() == [names[0], names[2]]
    (folder / "away").touch()
    result = sweep(path, "--slurm", "")
    assert result.exit_code == 1
    assert "Unable to contact slurm controller" in one_error(result)


def test_slurm_where_there_is_none(folder, monkeypatch):
    path = write_sweep(folder)
    monkeypatch.setenv("PATH", "/nowhere")
    result = sweep(path, "--slurm", "")
    assert result.exit_code == 2
    assert "sbatch" in one_error(result)


def test_status_of_several():
    assert [exit_status(statuses) for statuses in ([], [0, 0], [0, 2], [2, 2], [2, 1], [-9])] == [0, 0, 2, 2, 1, 1]


def test_processes_at_once(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    assert TrainingProcesses(None, 5).at_once == 2
    assert TrainingProcesses(8, 5).at_once == 5
    launched = TrainingProcesses(None, 9, accelerate=Path("a.yaml"))
    assert launched.at_once == 1
    assert launched.threads is None
    assert launched.command(Path("r.yaml"), ["seed=1"])[2:] == [
        "accelerate.commands.launch", "--config_file", "a.yaml", "-m", "hf_sysgen.train", "r.yaml", "seed=1",
    ]  # fmt: skip
    lines: list[str] = []
    script = ["-c", "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['OMP_NUM_THREADS'])"]
    monkeypatch.setattr(TrainingProcesses, "command", lambda *_: [sys.executable, "-S", *script])
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    processes = TrainingProcesses(3, 5)
    for slot in range(3):
        assert processes.train(Path(), [], slot, lines.append) == 0
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert processes.train(Path(), [], 0, lines.append) == 0
    assert lines == ["4 5", "7 5", "4 5", "4 2"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3, 4}, raising=False)
    assert (TrainingProcesses(None, 9).at_once, TrainingProcesses(2, 9).threads) == (5, 2)


SHIPPED = sorted(ROOT.glob("recipes/*/sweeps/*.yaml"))


def test_shipped_files_have_names_of_their_own():
    """And their folders in `runs` do not meet."""
    assert len({path.stem for path in SHIPPED}) >= 40
    named = [path.parent.parent.name + path.stem for path in SHIPPED]
    assert len(set(named)) == len(named)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_shipped_files(path):
    """Every cell is checked. Of the grids a corner: they differ from one another in nothing that is checked."""
    lines = path.read_text(encoding="utf-8").splitlines()
    assert re.match(r"# (Tables?|Figures?|Appendix) .* of \w+ et al. 20\d\d", lines[0])
    assert f"# Command: hf-sysgen sweep {path.relative_to(ROOT)}" in lines
    keys = yaml.safe_load(path.read_text(encoding="utf-8"))
    sizes = [len(values) for values in keys.get("axes", {}).values()]
    count = math.prod([*sizes, len(keys["recipes"]), len(keys.get("cells", [0])), len(keys["seeds"])])
    assert f"# Runs: {count:,}" in lines
    corner = [f"{key}={values[-1]}" for key, values in keys.get("axes", {}).items()] if count > 200 else []
    loaded = load_sweep(path, corner)
    assert corner or len(loaded.runs) == count
    # a cell that is the recipe itself keeps the paper's number, where the paper has any of these models
    quoted = {paper.id for paper in papers() if any(table.numbers == "printed" for table in paper.tables)}
    own = path.parent.parent.name not in quoted
    assert all(run.recipe.paper.cell or len(run.overrides) > 1 or own for run in loaded.runs)


def begins_with_a_recipe(path):
    """As it is, so that the tests of recipes run it."""
    keys = yaml.safe_load(path.read_text(encoding="utf-8"))
    return not keys.get("axes") and not any(keys.get("cells", [])[:1])


OTHERS = [path for path in SHIPPED if not begins_with_a_recipe(path)]


@pytest.mark.slow
@pytest.mark.parametrize("path", OTHERS, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_first_cell_of_shipped_files(path, tmp_path, monkeypatch):
    use_short_examples(monkeypatch)
    run = load_sweep(path, ["seeds=[0]"]).runs[0]
    overrides = [*run.overrides, *shrunk(run.recipe), f"output_dir={tmp_path / 'run'}"]
    if run.recipe.data.benchmark == "c4":
        overrides.append(f"data.tokenizer={write_tokenizer(tmp_path / 'tokenizer')}")
    assert run_recipe(load_recipe(run.path, overrides)).steps == 2


@pytest.mark.slow
def test_in_earnest(tmp_path):
    """The real commands: a run that fails, a kill in the middle, and the same numbers as without it."""
    keys = {"config": "length_cutoff_40", "batch_size": 512, "output_dir": None}
    for name in ("killed", "whole"):
        (tmp_path / name).mkdir()
        write_recipe(tmp_path / name, max_steps=12, eval_steps=4, save_steps=3, **keys)
        write_sweep(tmp_path / name, axes={"training.learning_rate": [0.01, 1e30]}, seeds=[0, 1])
    words = ["-m", "hf_sysgen.cli", "sweep", "sweep.yaml", "--jobs", "2"]
    with subprocess.Popen(
        [sys.executable, *words], cwd=tmp_path / "killed", env=environment(), stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        for line in process.stdout:
            if line.startswith("[runs/tiny/seed0] step 8/12"):
                process.kill()
                break
    assert process.returncode == -signal.SIGKILL
    done = {}
    for name in ("killed", "whole"):
        result = command(words, tmp_path / name)
        assert result.returncode == 1
        failed = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
        assert len(failed) == 2
        assert all("training.learning_rate=1e+30/seed" in line and "is not finite" in line for line in failed)
        done[name] = [tmp_path / name / "runs" / "tiny" / f"seed{seed}" for seed in (0, 1)]
    for killed, whole in zip(*done.values(), strict=True):
        assert weights(killed / "model") == weights(whole / "model")
        assert read_record(killed / RESULTS).splits == read_record(whole / RESULTS).splits
    before = snapshot(tmp_path / "whole" / "runs" / "tiny")
    assert command(words, tmp_path / "whole").returncode == 1
    assert snapshot(tmp_path / "whole" / "runs" / "tiny") == before
