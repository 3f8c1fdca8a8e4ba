"""Sweeps and a training on two nodes under a real Slurm, whose nodes are two daemons on this machine."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from tiny_runs import ROOT, command, environment, free_port, weights, write_recipe

from hf_sysgen.results.reading import read_record
from hf_sysgen.training.checkpointing import check_intact

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("slurmctld") is None, reason="needs Slurm: apt-get install slurm-wlm"),
]

CONF = """
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/ctld
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
KillWait=5
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName={nodes[0]} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1 Gres=gpu:1 State=UNKNOWN
NodeName={nodes[1]} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1 Gres=gpu:1 State=UNKNOWN
PartitionName=main Nodes={nodes[0]},{nodes[1]} Default=YES MaxTime=INFINITE State=UP
"""
# states of a job that has not ended
ACTIVE = ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING")
# processes meet on the first one, whose name is known; Slurm sorts them
HOST = socket.gethostname().partition(".")[0]
NODES = (HOST, f"{HOST}b")
# files that nobody reads stand for GPUs
GPUS = f"NodeName={NODES[0]} Name=gpu File=/dev/zero\nNodeName={NODES[1]} Name=gpu File=/dev/null\n"


def slurm(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def wait_for(found: Callable[[], object]) -> None:
    """Up to 20 minutes, as a busy machine may need some of them."""
    end = time.monotonic() + 1200
    while not found():
        assert time.monotonic() < end, slurm("squeue") + slurm("sinfo")
        time.sleep(0.5)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in, where Slurm answers."""
    folder = tmp_path / "slurm"
    for name in ("ctld", *NODES):
        (folder / name).mkdir(parents=True)
    ports = [free_port() for _ in range(3)]
    text = CONF.format(folder=folder, user=getpass.getuser(), host=HOST, nodes=NODES, ports=ports)
    (folder / "slurm.conf").write_text(text)
    (folder / "gres.conf").write_text(GPUS)
    monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for daemon in (["slurmctld"], *(["slurmd", "-N", node] for node in NODES)):
        subprocess.run(daemon, check=True)
    try:
        wait_for(lambda: slurm("sinfo", "--noheader", "--Node", "--format=%T").split() == ["idle", "idle"])
        work = tmp_path / "work"
        work.mkdir()
        monkeypatch.chdir(work)
        yield work
    finally:
        try:
            slurm("scancel", "--me")
            # daemons that end before their jobs leave processes
            wait_for(lambda: not slurm("squeue", "--noheader").strip())
        finally:
            for pid in folder.glob("*.pid"):
                os.kill(int(pid.read_text()), signal.SIGTERM)


@pytest.fixture
def disk() -> Iterator[Callable[..., None]]:
    """Mounts a disk in a folder, or changes its size in bytes; with the prefix of `second_node`, only there."""
    mounted: dict[Path, tuple[str, ...]] = {}

    def resize(folder: Path, size: int | None = None, prefix: tuple[str, ...] = ()) -> None:
        again = folder in mounted
        options = [*(["remount"] if again else []), *([] if size is None else [f"size={size}"])]
        words = ["mount", "-t", "tmpfs", "-o", ",".join(options) or "defaults", "tmpfs", str(folder)]
        done = subprocess.run([*prefix, *words], capture_output=True, text=True)
        if done.returncode != 0 and not again:
            pytest.skip(f"needs to mount a small disk: {done.stderr.strip()}")
        assert done.returncode == 0, done.stderr
        mounted[folder] = prefix

    yield resize
    for folder, prefix in mounted.items():
        subprocess.run([*prefix, "umount", "--lazy", folder], check=True)


@pytest.fixture
def second_node(lab: Path) -> tuple[str, ...]:
    """Gives the second node disks of its own, and returns the prefix of commands that are to see them."""
    file = lab.parent / "slurm" / f"{NODES[1]}.pid"
    os.kill(int(file.read_text()), signal.SIGTERM)
    wait_for(lambda: not file.exists())
    done = subprocess.run(["unshare", "--mount", "slurmd", "-N", NODES[1]], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"needs disks that only one process sees: {done.stderr.strip()}")
    wait_for(lambda: file.exists() and file.read_text().strip())
    return ("nsenter", "--target", file.read_text().strip(), "--mount")


def size_of(folder: Path) -> int:
    """Bytes that the files below it take on a disk."""
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*"))


@pytest.fixture
def both(lab: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the run that `train_on_both` trains."""
    shutil.copytree(ROOT / "recipes" / "accelerate", lab / "recipes" / "accelerate")
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    return lab / "runs" / "tiny" / "seed0"


def train_on_both() -> str:
    """The job of `tiny.yaml` on both nodes. A high timeout, so that a stopped process does not end the other."""
    size = ("--gpus-per-node=1", "--cpus-per-task=1", "--no-requeue")
    words = ("recipes/accelerate/multi_node.sbatch", "tiny.yaml", "training.ddp_timeout=36000")
    return slurm("sbatch", "--parsable", *size, *words).strip()


def train_undisturbed(folder: Path, **steps: object) -> Path:
    """The folder of a run of the same recipe by two processes of one machine."""
    folder.mkdir()
    write_recipe(folder, **steps)
    config = ["--config_file", str(ROOT / "recipes" / "accelerate" / "cpu_two_processes.yaml")]
    done = command(["-m", "accelerate.commands.launch", *config, "-m", "hf_sysgen.train", "tiny.yaml"], folder)
    assert done.returncode == 0, done.stderr
    return folder / "runs" / "tiny" / "seed0"


def ended(job: str) -> bool:
    return not slurm("squeue", "--noheader", "--states=all", "--jobs", job, "--format=%T").startswith(ACTIVE)


def last_step(run: Path) -> int:
    """Step of the last complete checkpoint of a run; 0 without one."""
    complete = run.glob("checkpoint-*/complete")
    return max((int(path.parent.name.rpartition("-")[2]) for path in complete), default=0)


def check_no_space(lab: Path, run: Path, full: Path, step: int) -> None:
    """A training ends with a line that names the full folder, and with whole checkpoints, the last of `step`."""
    job = train_on_both()
    wait_for(lambda: ended(job))
    output = (lab / f"hf-sysgen-{job}.out").read_text()
    # the launchers add tracebacks of their own
    assert "hf_sysgen/train" not in output, output
    said = [line for line in output.splitlines() if line.startswith("error: ")]
    assert len(said) <= 2, output
    assert any("space" in line and str(full.relative_to(lab)) in line for line in said), output
    assert not (run / "results.json").exists()
    assert last_step(run) == step
    for mark in run.glob("checkpoint-*/complete"):
        check_intact(mark.parent)


def running() -> dict[str, str]:
    """The node of each task of an array that runs, by its number."""
    lines = slurm("squeue", "--noheader", "--array", "--states=RUNNING", "--format=%K %N").splitlines()
    return dict(line.split() for line in lines)


def tend() -> None:
    """
    Do what an administrator does: put nodes back into service, and release jobs that Slurm holds. The job of a node
    that is set down here is still being ended there, and when Slurm starts one before that is over, the launch fails,
    the node is drained and the job held.
    """
    for node in slurm("sinfo", "--noheader", "--Node", "--states=down,drain", "--format=%N").split():
        # it may have come back by itself
        subprocess.run(["scontrol", "update", f"nodename={node}", "state=resume"], check=False, capture_output=True)
    for line in slurm("squeue", "--noheader", "--array", "--states=PENDING", "--format=%A %r").splitlines():
        job, reason = line.split(maxsplit=1)
        if "held" in reason:
            subprocess.run(["scontrol", "release", job], check=False, capture_output=True)


def test_a_sweep_goes_on_whatever_happens_to_its_jobs(lab: Path) -> None:
    """One job is cancelled, one requeued, one loses its node; nothing is submitted twice, and all runs finish."""
    write_recipe(lab, max_steps=300, save_steps=10, eval_steps=300)
    (lab / "sweep.yaml").write_text(yaml.safe_dump({"recipes": ["tiny.yaml"], "seeds": [0, 1, 2, 3]}))
    runs = [lab / "runs" / "tiny" / f"seed{seed}" for seed in range(4)]

    def submit() -> subprocess.CompletedProcess[str]:
        return command(["-m", "hf_sysgen.cli", "sweep", "sweep.yaml", "--slurm", "--time 60", "--jobs", "2"], lab)

    first = submit()
    assert first.returncode == 0, first.stderr
    assert ": 4 of 4 runs" in first.stdout
    job = first.stdout.split()[1].rstrip(":")
    again = submit()
    assert (again.returncode, "nothing to submit" in again.stderr) == (2, True), again.stdout
    slurm("scancel", f"{job}_3")
    assert ": 1 of 4 runs" in submit().stdout

    def has_checkpoint(task: str) -> bool:
        return any((lab / "runs" / "tiny" / f"seed{task}").glob("checkpoint-*/complete"))

    wait_for(lambda: {"0", "1"} <= {task for task in running() if has_checkpoint(task)})
    node = running()["1"]
    slurm("scontrol", "requeue", f"{job}_0")
    slurm("scontrol", "update", f"nodename={node}", "state=down", "reason=trial")
    wait_for(lambda: "1" not in running() or running()["1"] != node)
    # a requeued job waits for two minutes
    slurm("scontrol", "update", f"jobid={job}", "starttime=now")

    def all_finished() -> bool:
        tend()
        return all((run / "results.json").is_file() for run in runs)

    wait_for(all_finished)
    wait_for(lambda: not slurm("squeue", "--noheader").strip())
    assert (
        command(["-m", "hf_sysgen.cli", "sweep", "sweep.yaml", "--dry-run"], lab)
        .stdout.splitlines()[-1]
        .startswith("4 runs: 4 finished")
    )

    (lab / "whole").mkdir()
    write_recipe(lab / "whole", max_steps=300, save_steps=10, eval_steps=300)
    assert command(["-m", "hf_sysgen.cli", "train", "tiny.yaml", "seed=1"], lab / "whole").returncode == 0
    assert weights(runs[1] / "model") == weights(lab / "whole" / "runs" / "tiny" / "seed1" / "model")


def test_a_training_on_two_nodes_goes_on_after_a_time_limit_and_a_kill(lab: Path, both: Path) -> None:
    """The same `sbatch` again; it ends with the weights of two processes that nothing disturbed."""
    steps = {"max_steps": 2000, "eval_steps": 2000, "learning_rate": 1e-3}
    write_recipe(lab, **steps, save_steps=20)

    def signal_worker(which: int, number: int) -> None:
        words = ["pgrep", "-f", "--", "-u -m hf_sysgen.train tiny.yaml"]
        workers = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        os.kill(sorted(map(int, workers.split()))[which], number)

    limited = train_on_both()
    wait_for(lambda: last_step(both))
    # it hangs, as the shortest time limit is a minute, in which it would end
    signal_worker(1, signal.SIGSTOP)
    slurm("scontrol", "update", f"jobid={limited}", "timelimit=1")
    wait_for(lambda: ended(limited))
    step = last_step(both)
    assert 0 < step < steps["max_steps"]
    killed = train_on_both()
    wait_for(lambda: last_step(both) > step)
    # only Slurm ends a process that does not notice
    signal_worker(0, signal.SIGSTOP)
    signal_worker(1, signal.SIGKILL)
    wait_for(lambda: ended(killed))
    assert not (both / "results.json").exists()
    last = train_on_both()
    wait_for(lambda: ended(last))
    assert read_record(both / "results.json").num_processes == 2
    whole = train_undisturbed(lab / "whole", **steps, save_steps=2000)
    assert weights(both / "model") == weights(whole / "model")


def test_a_training_on_two_nodes_goes_on_after_full_disks(lab: Path, both: Path, disk: Callable[..., None]) -> None:
    """First one with room for two checkpoints, to which both write; then one to which only the second process does."""
    shared, own, other = (lab / name for name in ("runs", "own", "other"))
    for folder in (shared, own, other):
        folder.mkdir()
    disk(shared)
    disk(own)
    steps = {"max_steps": 100, "eval_steps": 100, "save_steps": 20, "learning_rate": 1e-3}
    write_recipe(lab, **steps)
    whole = train_undisturbed(lab / "whole", **steps)

    disk(shared, 5 * size_of(whole / "checkpoint-100") // 2)
    check_no_space(lab, both, both, 40)
    # nothing was freed
    check_no_space(lab, both, both, 40)
    disk(shared, 2 * size_of(whole))
    disk(own, 4096)
    (other / "rng_state_1.pth").symlink_to(own / "state")
    (both / "checkpoint-80").symlink_to(other)
    check_no_space(lab, both, both, 60)
    disk(own, size_of(whole))
    last = train_on_both()
    wait_for(lambda: ended(last))
    assert read_record(both / "results.json").num_processes == 2
    assert weights(both / "model") == weights(whole / "model")


def test_a_training_on_two_nodes_goes_on_after_a_full_disk_of_one(
    lab: Path, both: Path, disk: Callable[..., None], second_node: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second node has no space for the prepared data, and then has; its temporary folder is always full."""
    cache, temporary = lab / "cache", lab / "tmp"
    for folder, variable in ((cache, "HF_DATASETS_CACHE"), (temporary, "TMPDIR")):
        folder.mkdir()
        disk(folder, 4096, second_node)
        monkeypatch.setenv(variable, str(folder))
    steps = {"max_steps": 20, "eval_steps": 20}
    write_recipe(lab, **steps)
    check_no_space(lab, both, cache, 0)
    disk(cache, 2 * size_of(cache), second_node)
    job = train_on_both()
    wait_for(lambda: ended(job))
    whole = train_undisturbed(lab / "whole", **steps)
    assert weights(both / "model") == weights(whole / "model")


def test_a_full_disk_ends_one_run_of_a_sweep(lab: Path, disk: Callable[..., None]) -> None:
    """The other run, on the other node, finishes; with room, the same command submits the one that failed."""
    steps = {"max_steps": 100, "eval_steps": 100, "save_steps": 20}
    full = lab / "runs" / "tiny" / "seed1"
    full.mkdir(parents=True)
    disk(full)
    (lab / "whole").mkdir()
    for folder in (lab, lab / "whole"):
        write_recipe(folder, **steps)
    assert command(["-m", "hf_sysgen.cli", "train", "tiny.yaml", "seed=1"], lab / "whole").returncode == 0
    whole = lab / "whole" / "runs" / "tiny" / "seed1"
    (lab / "sweep.yaml").write_text(yaml.safe_dump({"recipes": ["tiny.yaml"], "seeds": [0, 1]}))
    sweep = ["-m", "hf_sysgen.cli", "sweep", "sweep.yaml"]

    def submit() -> str:
        done = command([*sweep, "--slurm", "--time 60"], lab)
        assert done.returncode == 0, done.stderr
        wait_for(lambda: not slurm("squeue", "--noheader").strip())
        return done.stdout

    disk(full, 5 * size_of(whole / "checkpoint-100") // 2)
    assert ": 2 of 2 runs" in submit()
    assert (full.with_name("seed0") / "results.json").is_file()
    assert last_step(full) == 40
    (line,) = (line for line in command([*sweep, "--dry-run"], lab).stdout.splitlines() if line.startswith("failed"))
    assert "space" in line
    assert str(full.relative_to(lab)) in line
    disk(full, 2 * size_of(whole))
    assert ": 1 of 2 runs" in submit()
    assert weights(full / "model") == weights(whole / "model")
