"""Several runs at once on one machine: one process `python -m hf_sysgen.train` for each. All are ended together."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class TrainingProcesses:
    """
    Args:
        at_once: how many runs; by default one on each GPU or else on each core, and with `accelerate` one.
        most: how many runs there are, which bounds that.
        accelerate: configuration for `accelerate launch`, which then starts each run's processes.

    Attributes:
        at_once: how many processes.
        stopping: whether there was an interrupt, after which no run starts.
    """

    def __init__(self, at_once: int | None, most: int, accelerate: Path | None = None) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.devices = [] if accelerate else _gpus()
        self.at_once = max(1, min(at_once or (1 if accelerate else len(self.devices) or cores), most))
        # accelerate decides for its own processes
        self.threads = None if accelerate else max(1, cores // self.at_once)
        self.launcher = [sys.executable, "-m"]
        if accelerate is not None:
            self.launcher += ["accelerate.commands.launch", "--config_file", str(accelerate), "-m"]
        self.stopping = False
        self._live: set[subprocess.Popen] = set()
        self._lock = threading.Lock()

    def map(self, work: Callable[[Item, int], Outcome], items: Sequence[Item]) -> list[Outcome]:
        """
        `work(item, slot)` for all items, in threads. Slots number the processes that run at once, from 0. Ctrl-C and
        SIGTERM end all processes, and then this raises KeyboardInterrupt.
        """
        slots: queue.SimpleQueue[int] = queue.SimpleQueue()
        for slot in range(self.at_once):
            slots.put(slot)

        def in_slot(item: Item) -> Outcome:
            slot = slots.get()
            try:
                return work(item, slot)
            finally:
                slots.put(slot)

        with ThreadPoolExecutor(self.at_once) as pool, _terminated_as_interrupted():
            try:
                return [future.result() for future in [pool.submit(in_slot, item) for item in items]]
            except BaseException:
                self._stop()
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def command(self, file: Path, overrides: Iterable[str]) -> list[str]:
        return [*self.launcher, "hf_sysgen.train", str(file), *overrides]

    def train(
        self,
        file: Path,
        overrides: Iterable[str],
        slot: int,
        on_line: Callable[[str], None],
        keep_open: Sequence[int] = (),
    ) -> int:
        """
        One run.

        Args:
            file, overrides: as of `load_recipe`.
            slot: of `map`; with several GPUs it decides which one.
            on_line: called with each line that the run prints.
            keep_open: file descriptors that its process shares, so that locks on them last as long as it does.

        Returns:
            its exit status; nonzero where it was stopped.
        """
        # a user's own number of threads wins; more threads than free cores make a run many times slower
        environment = ({} if self.threads is None else {"OMP_NUM_THREADS": str(self.threads)}) | os.environ
        if len(self.devices) > 1:
            environment["CUDA_VISIBLE_DEVICES"] = self.devices[slot % len(self.devices)]
        with self._lock:
            if self.stopping:
                return 1
            process = subprocess.Popen(
                self.command(file, overrides),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=environment,
                pass_fds=keep_open,
                # Ctrl-C then reaches the run and its own processes once, through `_stop`
                start_new_session=True,
            )
            self._live.add(process)
        try:
            with process:
                for line in process.stdout or ():
                    on_line(line.rstrip())
        finally:
            with self._lock:
                self._live.discard(process)
        return process.returncode

    def _stop(self) -> None:
        """End all processes at once: a killed run resumes from its last checkpoint."""
        with self._lock:
            self.stopping = True
            for process in self._live:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)


def _gpus() -> list[str]:
    """The available GPUs by their names in CUDA_VISIBLE_DEVICES."""
    import torch

    count = torch.cuda.device_count()
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",")[:count] if named else [str(index) for index in range(count)]


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Treat SIGTERM, which Slurm sends before a time limit, like Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def exit_status(statuses: Iterable[int]) -> int:
    """The exit status of several runs: 0 if all finished, 2 if every failed one had wrong input, else 1."""
    failed = {status for status in statuses if status != 0}
    return 0 if not failed else 2 if failed == {2} else 1
