"""Two processes share each update and each evaluation; the result is that of one."""

from __future__ import annotations

import functools
import signal
from pathlib import Path

import kills
import pytest
import yaml
from safetensors.torch import load_file
from tiny_runs import ROOT, SMALL, command, read_lines, train_process, weights, write_recipe

from hf_sysgen.files import locked
from hf_sysgen.results.reading import read_record

ACCELERATE = ROOT / "recipes" / "accelerate"
# an epsilon above the gradients makes Adam momentum, so that rounding errors stay what they are
KEYS = {"dropout": 0.0, "adam_epsilon": 1.0, "max_grad_norm": 1.0, "size": 24, "sampling": "epochs"}
CONSTANT = {"learning_rate": 1.0}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    return write_recipe(tmp_path_factory.mktemp("recipe"), **KEYS, **CONSTANT, length_buckets=2)


def run_with(processes: int, recipe: Path, folder: Path) -> Path:
    done = train_process([str(recipe), "output_dir=run"], folder, processes=processes)
    assert done.status == 0, done.err
    return folder / "run"


@pytest.fixture(scope="module")
def one(recipe, tmp_path_factory):
    return run_with(1, recipe, tmp_path_factory.mktemp("one"))


@pytest.fixture(scope="module")
def two(recipe, tmp_path_factory):
    return run_with(2, recipe, tmp_path_factory.mktemp("two"))


def test_there_are_two(one, two):
    """Everything else here would hold for two processes that each train alone."""
    assert read_record(one / "results.json").num_processes == 1
    assert read_record(two / "results.json").num_processes == 2
    assert {path.name for path in (two / "checkpoint-6").glob("rng_state*")} == {"rng_state_0.pth", "rng_state_1.pth"}


def test_all_processes_end_where_another_run_is(recipe, tmp_path):
    with locked(tmp_path / "run" / ".lock"):
        done = train_process([str(recipe), "output_dir=run"], tmp_path, processes=2)
    assert done.status == 2
    lines = [line for line in done.err.splitlines() if "error" in line.lower()]
    assert len(lines) == 2
    assert all(line.startswith(f"error: {recipe}: output_dir: ") for line in lines)
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]


def test_one_loss_curve(one, two):
    """
    The batch is cut into four parts instead of two and its gradient summed in another order, in float32: that is all.
    An update that, say, weighs processes equally whatever their labels would differ by a hundredth. Epochs end on a
    batch of 13, which neither two parts nor two processes divide.
    """
    curves = []
    for run_dir in (one, two):
        history = read_record(run_dir / "results.json").history
        curves.append([value for entry in history if entry.loss is not None for value in (entry.loss, entry.grad_norm)])
    assert len(curves[0]) == 12
    assert curves[1] == pytest.approx(curves[0], rel=1e-5)
    models = [load_file(run_dir / "model" / "model.safetensors") for run_dir in (one, two)]
    assert max(float((models[1][name] - weight).abs().max()) for name, weight in models[0].items()) < 1e-5


def test_one_evaluation(one, two):
    """Over exactly the examples of each split, an odd number that two processes cannot share evenly."""
    records = [read_record(run_dir / "results.json") for run_dir in (one, two)]
    for split in ("validation", "test"):
        assert records[1].splits[split].examples == SMALL[split]
        assert records[1].splits[split].by_length == records[0].splits[split].by_length
        for key in ("accuracy", "accuracy_oracle"):
            assert records[1].splits[split].metrics[key] == records[0].splits[split].metrics[key]
        for key in ("loss", "loss_teacher"):
            assert records[1].splits[split].metrics[key] == pytest.approx(
                records[0].splits[split].metrics[key], rel=1e-4
            )
    evaluated = [
        {
            (entry.step, split, key): value
            for entry in record.history
            for split, metrics in entry.evaluations.items()
            for key, value in metrics.items()
        }
        for record in records
    ]
    assert len(evaluated[0]) == 2 * 6
    assert evaluated[1] == pytest.approx(evaluated[0], rel=1e-4)


def test_one_file_of_predictions(one, two):
    rows = [read_lines(run_dir / "predictions.jsonl") for run_dir in (one, two)]
    expected = [(split, row) for split in ("validation", "test") for row in range(SMALL[split])]
    assert [(row["split"], row["row"]) for row in rows[1]] == expected
    for alone, shared in zip(*rows, strict=True):
        for key in ("input", "target", "prediction", "exact", "oracle_exact"):
            assert shared[key] == alone[key]


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(functools.partial(kills.after_step, 5), id="between checkpoints", marks=pytest.mark.slow),
        pytest.param(functools.partial(kills.inside_model_file, 4), id="inside a checkpoint"),
    ],
)
def test_both_killed(moment, recipe, two, tmp_path):
    arguments = [str(recipe), "output_dir=run"]
    assert train_process(arguments, tmp_path, moment, processes=2).status == -signal.SIGKILL
    again = train_process(arguments, tmp_path, processes=2)
    assert again.status == 0, again.err
    assert weights(tmp_path / "run" / "model") == weights(two / "model")
    assert (tmp_path / "run" / "predictions.jsonl").read_bytes() == (two / "predictions.jsonl").read_bytes()


def test_a_finished_run_is_said_to_be_so_once(recipe, two):
    done = train_process([str(recipe), "output_dir=run"], two.parent, processes=2)
    assert done.status == 0
    assert done.out.count("is finished already") == 1


def test_what_two_processes_cannot_share(tmp_path):
    done = train_process([str(write_recipe(tmp_path, size=9)), "output_dir=run"], tmp_path, processes=2)
    assert done.status == 2
    assert "batches.size=9 " in done.err


def test_divergence_ends_both(tmp_path):
    path = write_recipe(tmp_path, learning_rate=1e30, max_steps=50, save_steps=1)
    done = train_process([str(path), "output_dir=run"], tmp_path, processes=2)
    assert done.status == 1
    assert "is not finite" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("rank", "size"),
    [
        pytest.param(0, 25_000, id="safetensors", marks=pytest.mark.slow),
        pytest.param(0, 40_000, id="torch", marks=pytest.mark.slow),
        pytest.param(1, 10_000, id="the other's state"),
    ],
)
def test_a_full_disk_of_one_ends_both(rank, size, recipe, two, tmp_path):
    """Each process ends with one line, which names the full folder. Once there is space, the same command resumes."""
    arguments = [str(recipe), "output_dir=place"]
    full = train_process(arguments, tmp_path, functools.partial(kills.with_little_room, size, rank), processes=2)
    assert full.status == 1
    assert "Traceback" not in full.err
    said = [(tmp_path / f"err{one}.txt").read_text().splitlines() for one in (rank, 1 - rank)]
    (own,), (other,) = ([line for line in lines if line.startswith("error: ")] for lines in said)
    assert "place" in own
    assert "process" in other
    assert "place" not in other
    assert not list((tmp_path / "place").glob("*/complete"))
    again = train_process(arguments, tmp_path, processes=2)
    assert again.status == 0, again.err
    assert weights(tmp_path / "place" / "model") == weights(two / "model")


# the launchers themselves, with the real data


def real_recipe(folder: Path) -> Path:
    return write_recipe(folder, config="length_cutoff_40", max_steps=2, eval_steps=2, batch_size=512)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "processes"), [("cpu_two_processes", 2), ("cpu", 1)])
def test_accelerate_starts_what_its_config_says(name, processes, tmp_path):
    config = ACCELERATE / f"{name}.yaml"
    assert yaml.safe_load(config.read_text())["num_processes"] == processes
    words = ["-m", "accelerate.commands.launch", "--config_file", str(config), "-m", "hf_sysgen.train"]
    done = command([*words, str(real_recipe(tmp_path)), "output_dir=run"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert_shared(tmp_path / "run", processes)


@pytest.mark.slow
def test_accelerate_flags(tmp_path):
    words = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1",
             "--mixed_precision", "no", "--dynamo_backend", "no", "-m", "hf_sysgen.train"]  # fmt: skip
    done = command([*words, str(real_recipe(tmp_path)), "output_dir=run"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert_shared(tmp_path / "run", 2)


@pytest.mark.slow
def test_torchrun(tmp_path):
    words = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "-m", "hf_sysgen.train"]
    done = command([*words, str(real_recipe(tmp_path)), "output_dir=run"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert_shared(tmp_path / "run", 2)
    # no remarks of the libraries about how we use them
    assert "[transformers]" not in done.stderr
    assert "find_unused_parameters" not in done.stderr


def assert_shared(run_dir: Path, processes: int) -> None:
    record = read_record(run_dir / "results.json")
    assert record.num_processes == processes
    counts = {"validation": 2078, "test": 128}
    assert {name: split.examples for name, split in record.splits.items()} == counts
    rows = read_lines(run_dir / "predictions.jsonl")
    assert [(row["split"], row["row"]) for row in rows] == [(name, i) for name, n in counts.items() for i in range(n)]


@pytest.mark.parametrize("path", sorted(ACCELERATE.glob("*.yaml")), ids=lambda path: path.stem)
def test_configs_say_what_they_are(path):
    from accelerate.commands.config.config_args import load_config_from_file

    text = path.read_text()
    assert text.startswith("# ")
    config = load_config_from_file(str(path))
    assert config.num_processes >= 1
    assert config.num_processes % config.num_machines == 0
    # autocast is the recipe's business, or its hash would not tell a run
    assert config.mixed_precision == "no"


def test_config_names():
    assert {path.stem for path in ACCELERATE.glob("*.yaml")} == {
        "cpu", "cpu_two_processes", "one_gpu", "multi_gpu", "multi_node", "fsdp",
    }  # fmt: skip
