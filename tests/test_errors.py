"""Errors of the operating system are one line and a status."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from hf_sysgen.errors import (
    RunFailed,
    UserError,
    closest,
    describe_os_error,
    handle_user_errors,
    is_out_of_memory,
    one_line,
    shorten,
    writing_to,
)
from hf_sysgen.evaluation.checkpoints import wrap_library_errors

FULL = Path("/dev/full")


def told(work: Callable[[], object], capsys: pytest.CaptureFixture) -> tuple[int, str]:
    with handle_user_errors() as outcome:
        work()
    (line,) = capsys.readouterr().err.splitlines()
    return outcome.status, line


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("size", [1, 100_000])
def test_torch_on_a_full_disk(size: int, capsys: pytest.CaptureFixture) -> None:
    """Where the last bytes do not fit, torch raises another error than before them."""
    status, line = told(lambda: torch.save(torch.ones(size), FULL), capsys)
    assert status == 1
    assert "disk" in line


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("save", [lambda: torch.save(torch.ones(9), FULL), lambda: FULL.write_text("x")])
def test_a_full_disk_is_named_where_its_error_names_no_file(save: Callable[[], object]) -> None:
    with pytest.raises(RunFailed, match="place"), writing_to(Path("place")):
        save()


def test_a_full_disk_is_one_error_whether_it_names_its_file_or_not() -> None:
    with pytest.raises(RunFailed, match="file") as caught, writing_to(Path("place")):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "file")
    assert "place" not in str(caught.value)


def test_other_errors_stay_as_they_are(tmp_path: Path) -> None:
    """A connection, and a file of torch that cannot be read: the disk is not full."""
    with pytest.raises(ConnectionRefusedError, match="refused"), writing_to(Path("place")):
        raise OSError(errno.ECONNREFUSED, "refused")
    torch.save(torch.ones(9), tmp_path / "file")
    (tmp_path / "file").write_bytes((tmp_path / "file").read_bytes()[:200])
    for part in (writing_to(Path("place")), handle_user_errors()):
        with pytest.raises(RuntimeError, match="Pytorch"), part:
            torch.load(tmp_path / "file")


def test_a_message_that_names_the_file_does_not_name_it_twice(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        (tmp_path / "absent").read_bytes()
    for said in (one_line(caught.value), shorten(caught.value)):
        assert said == os.strerror(errno.ENOENT)
    # transformers raises such errors with a text only
    assert "no weights" in one_line(OSError("no weights"))
    assert shorten(OSError("no weights")) == "no weights"


@pytest.mark.parametrize(
    ("said", "lost"),
    [
        ("[gloo/transport/tcp/pair.cc:538] Connection closed by peer [127.0.0.1]:1234", True),
        ("[gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 5000ms for recv operation to complete", False),
        ("[gloo/transport/tcp/device.cc:137] Unable to find interface for: eth99", False),
    ],
    ids=["a process that has ended", "a slow one", "no network"],
)
def test_a_lost_process_is_told_apart_from_other_errors_of_the_network(said: str, lost: bool) -> None:
    assert (describe_os_error(RuntimeError(said)) is not None) == lost


@pytest.mark.parametrize("ask", [lambda: torch.empty(2**50), lambda: bytearray(2**60)], ids=["torch", "python"])
def test_full_memory_is_said_in_a_line(ask: Callable[[], object], capsys: pytest.CaptureFixture) -> None:
    """Also where it shows while a checkpoint is read, which is then not called damaged."""

    def reading() -> None:
        with wrap_library_errors():
            ask()

    for action in (ask, reading):
        status, line = told(action, capsys)
        assert status == RunFailed.status
        assert line.startswith("error: not enough memory")
    for said in ("CUDA out of memory. Tried to allocate 2.00 GiB.", "CUDA error: out of memory", "HIP out of memory"):
        assert is_out_of_memory(torch.OutOfMemoryError(said))
    assert is_out_of_memory(OSError(errno.ENOMEM, "Cannot allocate memory"))
    assert not is_out_of_memory(OSError(errno.ENOSPC, "full"))


def test_what_was_handled_counts_unless_the_new_error_hides_it():
    error = ValueError("new")
    error.__context__ = MemoryError()
    assert is_out_of_memory(error)
    # as `raise ... from None` does
    error.__suppress_context__ = True
    assert not is_out_of_memory(error)


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
def test_a_copy_onto_a_full_disk_names_what_is_written(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "source").write_text("x")
    status, line = told(lambda: shutil.copyfile(tmp_path / "source", FULL), capsys)
    assert status == 1
    assert os.strerror(errno.ENOSPC) in line

    def copied() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "source", None, "copy")

    assert "copy" in told(copied, capsys)[1]
    assert "source" not in told(copied, capsys)[1]


def test_a_name_that_no_file_can_have_is_bad_input(capsys: pytest.CaptureFixture) -> None:
    status, line = told(lambda: Path("x" * 300).read_bytes(), capsys)
    assert status == UserError.status
    assert "xxx" in line


def test_other_errors_keep_their_traceback() -> None:
    with pytest.raises(KeyError), handle_user_errors():
        {}["x"]


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR])
def test_advice_about_permissions_where_they_are_the_cause(number: int, capsys: pytest.CaptureFixture) -> None:
    def refused() -> None:
        raise OSError(number, os.strerror(number), "place")

    status, line = told(refused, capsys)
    assert status == 1
    assert line.partition(": ")[2].startswith(f"place: {os.strerror(number)}")
    assert ("permissions" in line) == (number != errno.ENOTDIR)


@pytest.mark.parametrize("known", [["cutoff_24", "cutoff_40"], ["cutoff_40", "cutoff_24"]])
def test_of_words_equally_alike_the_one_that_begins_alike_is_the_closest(known: list[str]) -> None:
    assert closest("cutoff_41", known) == "cutoff_40"
