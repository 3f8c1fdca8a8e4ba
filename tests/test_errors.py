"""Errors of the operating system are one line and a status."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from hf_sysgen.errors import RunFailed, UserError, handle_user_errors, writing_to

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
    with pytest.raises(RunFailed, match="place: "), writing_to(Path("place")):
        save()


def test_other_errors_do_not_name_a_folder() -> None:
    """Whatever has no file: a connection, or a file of torch that cannot be read."""
    with pytest.raises(OSError, match="refused") as caught, writing_to(Path("place")):
        raise OSError(errno.ECONNREFUSED, "refused")
    assert "place" not in str(caught.value)


def test_a_damaged_file_of_torch_is_no_full_disk(tmp_path: Path) -> None:
    torch.save(torch.ones(9), tmp_path / "file")
    (tmp_path / "file").write_bytes((tmp_path / "file").read_bytes()[:200])
    with pytest.raises(RuntimeError, match="Pytorch"), handle_user_errors():
        torch.load(tmp_path / "file")


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
def test_a_copy_onto_a_full_disk_names_what_is_written(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "source").write_text("x")
    status, line = told(lambda: shutil.copyfile(tmp_path / "source", FULL), capsys)
    assert status == 1
    assert "no space" in line

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
