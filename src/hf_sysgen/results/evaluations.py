"""Loss and correctness of each example at each evaluation of a run. The results record has only their means."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from hf_sysgen.errors import UserError, one_line
from hf_sysgen.files import read_whole, write_atomic
from hf_sysgen.results.predictions import Judged
from hf_sysgen.results.record import first_error

EVALUATIONS = "evaluations"


@dataclass(frozen=True)
class Evaluation:
    """
    All examples of a split at one evaluation of a run.

    Attributes:
        step: the update after which it ran.
        losses: loss of each example, as its task reports it: for texts mean nats per token of the reference,
            free-running (dataset/sequence.py:82-91 of Csordas et al. 2021).
        exact: whether each example was right.
    """

    step: int
    losses: list[float]
    exact: list[bool]


_EVALUATION = TypeAdapter(Evaluation)


def write_evaluation(run_dir: Path, split: str, step: int, records: Iterable[Judged]) -> None:
    """Write one file for each split and evaluation, so that a resumed run writes the same files."""
    measured = [record.numbers() for record in records]
    content = {
        "step": step,
        "losses": [round(one["loss"], 6) for one in measured],
        "exact": [int(one["exact"]) for one in measured],
    }
    write_atomic(run_dir / EVALUATIONS / f"{split}-{step:08}.json", json.dumps(content) + "\n")


def read_evaluations(run_dir: Path, split: str) -> list[Evaluation]:
    """
    The evaluations of a split that `write_evaluation` wrote, in order of steps.

    Raises:
        UserError: there is nothing, or a file cannot be read.
    """
    files = sorted((run_dir / EVALUATIONS).glob(f"{split}-*.json"))
    if not files:
        raise UserError(
            f"{run_dir}: no losses of the examples of {split}; train with evaluation.save_example_losses=true"
        )
    found = []
    for file in files:
        try:
            found.append(_EVALUATION.validate_json(read_whole(file)))
        except ValidationError as error:
            raise UserError(f"{file}: {first_error(error)}") from error
        except OSError as error:
            raise UserError(f"{file}: cannot be read: {one_line(error)}") from error
    return found
