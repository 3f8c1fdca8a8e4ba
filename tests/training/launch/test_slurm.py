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


def wait_for(found: Callable[[], object], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
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
        wait_for(lambda: slurm("sinfo", "--noheader", "--Node", "--format=%T").split() == ["idle", "idle"], 60)
        work = tmp_path / "work"
        work.mkdir()
        monkeypatch.chdir(work)
        yield work
    finally:
        subprocess.run(["scancel", "--me"], check=False)
        for pid in folder.glob("*.pid"):
            os.kill(int(pid.read_text()), signal.SIGTERM)


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

    wait_for(all_finished, 900)
    wait_for(lambda: not slurm("squeue", "--noheader").strip(), 60)
    assert (
        command(["-m", "hf_sysgen.cli", "sweep", "sweep.yaml", "--dry-run"], lab)
        .stdout.splitlines()[-1]
        .startswith("4 runs: 4 finished")
    )

    (lab / "whole").mkdir()
    write_recipe(lab / "whole", max_steps=300, save_steps=10, eval_steps=300)
    assert command(["-m", "hf_sysgen.cli", "train", "tiny.yaml", "seed=1"], lab / "whole").returncode == 0
    assert weights(runs[1] / "model") == weights(lab / "whole" / "runs" / "tiny" / "seed1" / "model")


def test_a_training_on_two_nodes_goes_on_after_a_time_limit_and_a_kill(
    lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same `sbatch` again; it ends with the weights of two processes that nothing disturbed."""
    steps = {"max_steps": 2000, "eval_steps": 2000, "learning_rate": 1e-3}
    write_recipe(lab, **steps, save_steps=20)
    shutil.copytree(ROOT / "recipes" / "accelerate", lab / "recipes" / "accelerate")
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    run = lab / "runs" / "tiny" / "seed0"

    def submit() -> str:
        size = ("--gpus-per-node=1", "--cpus-per-task=1", "--no-requeue")
        return slurm("sbatch", "--parsable", *size, "recipes/accelerate/multi_node.sbatch", "tiny.yaml").strip()

    def last_step() -> int:
        complete = run.glob("checkpoint-*/complete")
        return max((int(path.parent.name.rpartition("-")[2]) for path in complete), default=0)

    def ended(job: str) -> bool:
        return not slurm("squeue", "--noheader", "--states=all", "--jobs", job, "--format=%T").startswith(ACTIVE)

    def signal_worker(number: int) -> None:
        workers = subprocess.run(["pgrep", "-f", "hf_sysgen.train tiny.yaml"], capture_output=True, text=True).stdout
        os.kill(max(map(int, workers.split())), number)

    limited = submit()
    wait_for(last_step)
    # it hangs, as the shortest time limit is a minute, in which it would end
    signal_worker(signal.SIGSTOP)
    slurm("scontrol", "update", f"jobid={limited}", "timelimit=1")
    wait_for(lambda: ended(limited))
    step = last_step()
    assert 0 < step < steps["max_steps"]
    killed = submit()
    wait_for(lambda: last_step() > step)
    signal_worker(signal.SIGKILL)
    wait_for(lambda: ended(killed))
    assert not (run / "results.json").exists()
    last = submit()
    wait_for(lambda: ended(last))
    assert read_record(run / "results.json").num_processes == 2
    (lab / "whole").mkdir()
    write_recipe(lab / "whole", **steps, save_steps=2000)
    config = ["--config_file", str(ROOT / "recipes" / "accelerate" / "cpu_two_processes.yaml")]
    whole = command(["-m", "accelerate.commands.launch", *config, "-m", "hf_sysgen.train", "tiny.yaml"], lab / "whole")
    assert whole.returncode == 0, whole.stderr
    assert weights(run / "model") == weights(lab / "whole" / "runs" / "tiny" / "seed0" / "model")
