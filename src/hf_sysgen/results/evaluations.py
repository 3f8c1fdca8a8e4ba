"""Loss and exactness of every example at each evaluation of a run, which its results record has only means of."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_sysgen.files import write_whole
from hf_sysgen.results.record import ResultsError

EVALUATIONS = "evaluations"


@dataclass(frozen=True)
class Evaluation:
    """
    Each example of a split at one evaluation of a run.

    Attributes:
        step: after which it was.
        losses: of each example, as the task reports it: of texts mean nats per token of the reference, free-running
            (dataset/sequence.py:82-91 of Csordas et al. 2021).
        exact: whether each was right.
    """

    step: int
    losses: Sequence[float]
    exact: Sequence[bool]


def write_evaluation(run_dir: Path, split: str, step: int, records: Iterable[Mapping[str, Any]]) -> None:
    """One file for each split and evaluation, so that a run that is killed and goes on writes the same files."""
    records = list(records)
    content = {
        "step": step,
        "losses": [round(record["loss"], 6) for record in records],
        "exact": [int(record["exact"]) for record in records],
    }
    write_whole(run_dir / EVALUATIONS / f"{split}-{step:08}.json", json.dumps(content) + "\n")


def read_evaluations(run_dir: Path, split: str) -> list[Evaluation]:
    """
    What `write_evaluation` wrote of a split, in order of steps.

    Raises:
        ResultsError: there is nothing, or a file cannot be read.
    """
    files = sorted((run_dir / EVALUATIONS).glob(f"{split}-*.json"))
    if not files:
        raise ResultsError(
            f"{run_dir}: no losses of the examples of {split}; train with evaluation.save_example_losses=true"
        )
    found = []
    for file in files:
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            found.append(Evaluation(content["step"], content["losses"], [bool(hit) for hit in content["exact"]]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ResultsError(f"{file}: cannot be read: {error}") from error
    return found
