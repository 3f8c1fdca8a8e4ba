"""User errors: one line and an exit status."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

INTERRUPTED = 130


class UserError(ValueError):
    """Input that cannot be used. The message is one line that says what, where, and what to do."""

    status = 2


class RunFailed(RuntimeError):
    """Work that has started and cannot continue. The message is one line."""

    status = 1


@dataclass
class Outcome:
    """Exit status of a command: 0 done, 2 bad input, 1 failed later."""

    status: int = 0


def one_line(error: BaseException) -> str:
    """Type and message of an error in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, its cause, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def no_space(error: BaseException) -> bool:
    """Whether a file could not be written because the disk or the user's quota is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def reported(interrupted: str = "interrupted") -> Iterator[Outcome]:
    """
    Print user errors as one line on standard error and set the exit status. Other errors keep their traceback.

    Args:
        interrupted: the message after Ctrl-C.
    """
    outcome = Outcome()
    try:
        yield outcome
    except KeyboardInterrupt:
        _tell(interrupted)
        outcome.status = INTERRUPTED
    except (UserError, RunFailed) as error:
        _tell(str(error))
        outcome.status = error.status


def _tell(message: str) -> None:
    print("error:", " ".join(message.split()), file=sys.stderr)
