"""User errors: one line and an exit status."""

from __future__ import annotations

import difflib
import errno
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

INTERRUPTED = 130
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_LOST_PROCESS = re.compile(r"gloo/transport.*(Connection (?:closed|reset) by peer|Broken pipe)")
# of torch, on a CPU and on a GPU
_NO_MEMORY = re.compile(r"can't allocate memory|out of memory|CUBLAS_STATUS_ALLOC_FAILED")
# maximum characters of a message; it may quote a very long value
LONGEST = 1500
# maximum characters of a value in a message
LONGEST_VALUE = 80
# a word must be more like another than this (`difflib`) to be suggested
ALIKE = 0.6


class _OneLine(Exception):
    def __str__(self) -> str:
        return printable(super().__str__())


class UserError(_OneLine, ValueError):
    """Input that cannot be used. The message is one line that says what, where, and what to do."""

    status = 2


class RunFailed(_OneLine, RuntimeError):
    """Work that has started and cannot continue. The message is one line."""

    status = 1


@dataclass
class ExitStatus:
    """Exit status of a command: 0 done, 2 bad input, 1 failed later."""

    status: int = 0


def printable(text: str) -> str:
    """The text as one line: without line breaks, valid UTF-8, and cut in the middle if it is longer than `LONGEST`."""
    half = LONGEST // 2
    text = text if len(text) <= LONGEST else f"{text[:half]} ... {text[-half:]}"
    # other spaces stay: two in a row may be the mistake
    return re.sub(
        r"\s*[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]\s*", " ", text.encode("utf-8", "backslashreplace").decode()
    ).strip()


def one_line(error: BaseException) -> str:
    """
    Type and message of an error in one line; of an error of the operating system only what it says, e.g. `Permission
    denied`, for a message that names the file.
    """
    return printable(_said(error) or f"{type(error).__name__}: {error}")


def _said(error: Any) -> str | None:
    """What an error of the operating system says; None for anything else."""
    return error.strerror if isinstance(error, OSError) else None


def shorten(value: Any, quoted: bool = False) -> str:
    """A value or an error for a message: one line, cut. Text has quotes only with `quoted`, where its type matters."""
    try:
        plain = isinstance(value, Exception) or (isinstance(value, str) and not quoted)
        text = " ".join(str(_said(value) or value).split()) if plain else repr(value)
    except ValueError:
        # Python does not print integers with thousands of digits
        text = f"a {type(value).__name__}"
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


def closest(word: str, known: Iterable[str]) -> str | None:
    """
    The known word that is most like it, as a whole, at its beginning or its end; None if none is. Among equals it is
    the one with the longest common beginning, then the first.
    """
    word = word.casefold()
    found, most = None, (ALIKE, len(word))
    for one in known:
        parts = (part.casefold() for part in (one, one[: len(word)], one[-len(word) :]))
        ratio = max(difflib.SequenceMatcher(None, part, word).ratio() for part in parts)
        alike = ratio, sum(takewhile(bool, map(str.__eq__, one.casefold(), word)))
        if alike > most:
            found, most = one, alike
    return found


def did_you_mean(word: str, known: Iterable[str], otherwise: str = ".") -> str:
    """The end of a sentence: `, did you mean 'x'?` with the known word most like it; `otherwise` where none is."""
    found = closest(word, known)
    return otherwise if found is None else f", did you mean {found!r}?"


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, its cause, and so on: what Python would print above its traceback."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def is_disk_full(error: BaseException) -> bool:
    """Whether a file could not be written because the disk or the user's quota is full."""
    return isinstance(error, OSError) and error.errno in _NO_SPACE


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the machine, or its GPU, has not enough memory."""
    return (found := _os_error(error)) is not None and found[0] == errno.ENOMEM


def _os_error(error: BaseException) -> tuple[int, str, str | None] | None:
    """Number, text and file of the first error of the operating system among the causes; number 0 if not known."""
    for one in causes(error):
        said = str(one)
        if isinstance(one, MemoryError) or getattr(one, "errno", None) == errno.ENOMEM or _NO_MEMORY.search(said):
            why = f" ({one_line(one)})" if said else ""
            return errno.ENOMEM, f"not enough memory{why}; process less at once, e.g. with a smaller batch size", None
        if isinstance(one, OSError) and one.errno is not None:
            # the error of a copy has two names, and the second is the file that is written
            return one.errno, one.strerror or said, one.filename2 or one.filename
        if found := re.search(r"\(os error (\d+)\)", said):
            # safetensors and tokenizers report errors this way
            return int(found[1]), os.strerror(int(found[1])), None
        if "iostream error" in said or ("inline_container" in said and "PytorchStreamReader" not in said):
            # torch does not give the cause
            return 0, "a checkpoint cannot be written, perhaps as the disk is full", None
        if found := _LOST_PROCESS.search(said):
            lost = f"the connection to another process of this run broke ({found[1]})"
            return errno.ECONNRESET, f"{lost}: see that one's error; the same command resumes the run", None
    return None


def _in_words(number: int, said: str, where: str | Path | None) -> str:
    if where is not None:
        said = f"{where}: {said}"
    if number in (0, *_NO_SPACE):
        return f"{said}; free some space, then give the same command again"
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{said}: correct its permissions, or give another place"
    return said


def describe_os_error(error: BaseException) -> str | None:
    """One line for an error of the operating system, e.g. a full disk; None for any other error."""
    return None if (found := _os_error(error)) is None else _in_words(*found)


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Raises RunFailed: a disk is full. It names the folder where the error, e.g. of torch, names no file."""
    try:
        yield
    except (UserError, RunFailed):
        raise
    except Exception as error:
        if (found := _os_error(error)) is None or found[0] not in (0, *_NO_SPACE):
            raise
        number, said, name = found
        raise RunFailed(_in_words(number, said, name or f"{folder} or a temporary folder")) from error


@contextmanager
def handle_user_errors(interrupted: str = "interrupted") -> Iterator[ExitStatus]:
    """
    Print user errors, and those of the system, as one line on standard error and set the exit status. Other errors keep
    their traceback.

    Args:
        interrupted: the message after Ctrl-C.
    """
    exit_status = ExitStatus()
    try:
        yield exit_status
    except KeyboardInterrupt:
        tell_error(interrupted)
        exit_status.status = INTERRUPTED
    except (UserError, RunFailed) as error:
        tell_error(str(error))
        exit_status.status = error.status
    except BrokenPipeError:
        # the reader of the output has closed it, e.g. `head`
        raise
    except Exception as error:
        if (said := describe_os_error(error)) is None:
            raise
        tell_error(said)
        long = any(isinstance(one, OSError) and one.errno == errno.ENAMETOOLONG for one in causes(error))
        exit_status.status = UserError.status if long else RunFailed.status


def tell_error(message: str) -> None:
    """Print an error as one line on standard error."""
    print("error:", printable(message), file=sys.stderr)
