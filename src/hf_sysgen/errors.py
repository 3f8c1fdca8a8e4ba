"""How this package's errors reach a person: one line, and an exit status."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

INTERRUPTED = 130


@dataclass
class Outcome:
    """Exit status of a command: 0 done, 2 input that cannot be used, 1 failed on the way."""

    status: int = 0


@contextmanager
def reported() -> Iterator[Outcome]:
    """Turn errors that a user can mend into one line on standard error and a status; others keep their traceback."""
    outcome = Outcome()
    try:
        yield outcome
    except KeyboardInterrupt:
        _tell("interrupted; the same command goes on from the last checkpoint")
        outcome.status = INTERRUPTED
    except Exception as error:
        status = _status(error)
        if status is None:
            raise
        _tell(str(error))
        outcome.status = status


def _status(error: Exception) -> int | None:
    # looked up by name, so that reporting an error of one module does not import all the others
    names = {base.__name__ for base in type(error).__mro__}
    if names & {"RecipeError", "DataError", "ResultsError", "CheckpointError"}:
        return 2
    return 1 if "TrainingDiverged" in names else None


def _tell(message: str) -> None:
    print("error:", " ".join(message.split()), file=sys.stderr)
