"""The generated SCAN files are the upstream files."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from upstream_files import Files

from hf_sysgen.data import benchmark_info
from hf_sysgen.data.fetch import locate
from hf_sysgen.data.info import Source
from hf_sysgen.data.scan.files import ORDER_FILE, SHUFFLES, main, num_actions, parse, rebuild
from hf_sysgen.data.scan.grammar import commands, interpret

SCAN = benchmark_info("scan")

SOURCES = {source.path: source for config in SCAN.configs.values() for source in config.sources.values()}
REMADE = [source for source in SOURCES.values() if source.rebuild]


def by_path(source: Source) -> str:
    return source.path


def test_all_of_brendenlake_scan_is_remade() -> None:
    assert len(REMADE) == 17
    assert {source.repository for source in REMADE} == {"brendenlake/SCAN"}
    assert {source.repository for source in SOURCES.values() if not source.rebuild} == {"microsoft/ContextualSP"}


@pytest.mark.parametrize("source", REMADE, ids=by_path)
def test_remade_file_has_the_upstream_checksum(source: Source) -> None:
    content = rebuild(source.path)
    assert len(content) == source.num_bytes
    assert hashlib.sha256(content).hexdigest() == source.sha256


@pytest.mark.parametrize("source", SOURCES.values(), ids=by_path)
def test_upstream_file(source: Source, sample: Files) -> None:
    # what is remade has upstream's checksum, by the test above
    content = source.rebuild() if source.rebuild else sample.read(locate(source, data_dir=sample.folder))
    assert len(content) == source.num_bytes
    # the line format is exactly as parsed, without doubled or trailing spaces
    pairs = parse(content)
    assert content.decode().splitlines() == [f"IN: {command} OUT: {actions}" for command, actions in pairs]
    assert all(interpret(command) == actions for command, actions in pairs)


def test_tasks_are_all_commands() -> None:
    pairs = parse(rebuild("tasks.txt"))
    assert len(pairs) == 20_910
    assert {command for command, _ in pairs} == set(commands())


def test_num_actions() -> None:
    assert [num_actions(pair) for pair in parse(b"IN: jump OUT: I_JUMP\nIN: jump left OUT: I_TURN_LEFT I_JUMP\n")] == [
        1,
        2,
    ]


def test_no_other_file() -> None:
    with pytest.raises(KeyError, match="tasks_train_mcd1"):
        rebuild("tasks_train_mcd1.txt")


def test_order_file_is_reproducible(tmp_path: Path) -> None:
    for source in REMADE:
        path = tmp_path / "scan" / source.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rebuild(source.path))
    main(["--write-order", str(tmp_path / "scan"), str(tmp_path / "order.npz")])
    with np.load(tmp_path / "order.npz") as written, np.load(ORDER_FILE) as shipped:
        assert set(written.files) == set(shipped.files) == set(SHUFFLES)
        for name in SHUFFLES:
            np.testing.assert_array_equal(written[name], shipped[name])


def test_script_starts_without_warnings() -> None:
    command = [sys.executable, "-W", "error", "-m", "hf_sysgen.data.scan.files", "--help"]
    assert "--write-order" in subprocess.run(command, check=True, capture_output=True, text=True).stdout
