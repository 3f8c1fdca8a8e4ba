"""Run `isolated.py` in a process of its own. Light to import: the process is started before torch is imported here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

from hf_sysgen.errors import RunFailed, UserError, printable
from hf_sysgen.evaluation import isolated
from hf_sysgen.evaluation.checkpoint_folders import checkpoint_folder
from hf_sysgen.zoo import zoo_names


def predict_isolated(checkpoint: str, texts: list[str]) -> list[str]:
    """
    As `predict_lines`, by a process that has transformers and the checkpoint's own code and cannot import this package.

    Raises:
        UserError, DataError: the checkpoint or a text cannot be used; a model of the zoo, which has no code beside it.
        RunFailed: the checkpoint does not load there.
    """
    if checkpoint in zoo_names():
        raise UserError(f"{checkpoint}: the zoo's models have no code beside them; give a run's folder, or publish it")
    folder = checkpoint_folder(checkpoint).resolve()
    with (
        tempfile.TemporaryDirectory() as elsewhere,
        subprocess.Popen(
            [sys.executable, "-I", isolated.__file__, str(folder)],
            cwd=elsewhere,
            env=os.environ | {"HF_MODULES_CACHE": elsewhere, "HF_HUB_OFFLINE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        try:
            # both processes import torch at the same time
            from hf_sysgen.evaluation.commands import load_to_predict

            # wrong input is an error here, and the other process has not begun to read the checkpoint
            load_to_predict(checkpoint, texts)
            output, errors = process.communicate(json.dumps(texts))
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        last = (errors.strip().splitlines() or ["no message"])[-1]
        raise RunFailed(f"{checkpoint} does not load without this package: {printable(last)}")
    try:
        # the checkpoint's code may have written lines before
        predictions, cut = json.loads(output.splitlines()[-1])
    except (ValueError, IndexError, TypeError) as error:
        raise RunFailed(f"{checkpoint}: its code writes to standard output while it predicts: {error}") from error
    if cut:
        print(f"warning: {cut} of {len(texts)} did not end within the checkpoint's limit of tokens", file=sys.stderr)
    return [" ".join(text.splitlines()) for text in predictions]
