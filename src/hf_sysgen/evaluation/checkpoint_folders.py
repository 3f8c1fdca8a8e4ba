"""Where a checkpoint is, and what is in its folder; nothing of it is loaded."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from huggingface_hub import snapshot_download

from hf_sysgen.errors import UserError, closest, one_line, shorten
from hf_sysgen.files import COMPLETE, first_difference_from_manifest, read_whole
from hf_sysgen.results.reading import read_record
from hf_sysgen.results.record import MODEL, RESULTS, Record
from hf_sysgen.zoo import zoo_folder, zoo_names

HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


def checkpoint_folder(path: str | Path, revision: str | None = None) -> Path:
    """The checkpoint folder for a name; for a run, its folder `model`. Raises UserError if it has no config.json."""
    path = local_folder(path, revision)
    if (path / MODEL / "config.json").exists():
        path = path / MODEL
    if not (path / "config.json").exists():
        advice = "give the folder of a run that has finished"
        if not path.exists() and (near := closest(str(path), zoo_names())) is not None:
            advice = f"did you mean {near!r} of the zoo?"
        elif seeds := sorted(one.parent.name for one in path.glob(f"*/{MODEL}")):
            advice = f"it holds runs, give one of them: {shorten(', '.join(seeds))}"
        raise UserError(f"{path}: no checkpoint here, config.json is missing; {advice}")
    return path


def local_folder(name: str | Path, revision: str | None = None) -> Path:
    """
    The folder of a checkpoint's name: a model of the zoo, a folder, or a model of the hub, whose config, weights and
    tokenizer are downloaded to the hub's cache.

    Args:
        revision: commit, tag or branch of a model of the hub; None for the newest.

    Raises:
        UserError: it is none of these, or cannot be downloaded.
    """
    if name == "":
        # an empty path would mean the current folder
        raise UserError(
            f"the checkpoint's name is empty; give a run's folder, a model of the zoo ({', '.join(zoo_names())}) or "
            "owner/name on the hub"
        )
    if str(name) in zoo_names():
        return zoo_folder(str(name))
    if not is_hub_id(name):
        return Path(name)
    try:
        # without tokenizer.json, a tokenizer is made from other files; some repositories have the weights twice
        wanted, twice = ["*.json", "*.safetensors", "*.model", "*.txt"], ["*/*", "consolidated*"]
        return Path(snapshot_download(str(name), revision=revision, allow_patterns=wanted, ignore_patterns=twice))
    # errors of the hub and of the layers below: no such host, refused, timed out, offline
    except Exception as error:
        raise UserError(
            f"{name}: neither a folder here nor available from the hub ({one_line(error)}); give a run's folder, a "
            f"model of the zoo ({', '.join(zoo_names())}) or owner/name on the hub"
        ) from error


def is_hub_id(name: str | Path) -> bool:
    """Whether a name is a checkpoint on the hub: "owner/name", and not a folder here."""
    return not Path(name).exists() and HUB_ID.fullmatch(str(name)) is not None


def is_checkpoint(name: str) -> bool:
    """Whether it is a checkpoint's folder or a run's; a name that no folder can have is none."""
    return any(os.path.isfile(os.path.join(name, inner, "config.json")) for inner in ("", MODEL))


def run_folder(checkpoint: str | Path) -> Path:
    """The folder with record and predictions, of a model of the zoo, a run or its checkpoint. Raises UserError."""
    folder = checkpoint_folder(checkpoint)
    return folder if (folder / RESULTS).exists() else folder.absolute().parent


def record_of(checkpoint: str | Path) -> Record | None:
    """The record of the run that made the checkpoint, if it is beside it. Raises UserError."""
    path = run_folder(checkpoint) / RESULTS
    return read_record(path) if path.exists() else None


def data_folder(checkpoint: str | Path, benchmark: str) -> Path | None:
    """
    The folder of files (`data.data_dir`) of the run that made the checkpoint, where it was trained on that benchmark
    and the folder is still here. Raises UserError: the run's record is damaged.
    """
    record = record_of(checkpoint)
    if record is None or record.recipe.data.benchmark != benchmark or record.recipe.data.data_dir is None:
        return None
    folder = Path(record.recipe.data.data_dir)
    return folder if folder.is_dir() else None


def weight_files(folder: Path) -> list[Path]:
    """The files of a checkpoint's weights: model.safetensors, or the parts that an index lists; none if one lacks."""
    index = folder / "model.safetensors.index.json"
    names = ["model.safetensors"]
    if index.exists() and not (folder / names[0]).exists():
        try:
            names = sorted(set(json.loads(read_whole(index))["weight_map"].values()))
        except (OSError, ValueError, KeyError, AttributeError) as error:
            raise UserError(f"{index}: cannot be read: {one_line(error)}") from error
    return [folder / name for name in names] if all((folder / name).exists() for name in names) else []


def check_unchanged(folder: Path) -> None:
    """
    Compare config, weights and tokenizer with the folder's mark, if it has one.

    Raises:
        UserError: one is absent or has another content.
    """
    if (found := first_difference_from_manifest(folder, (".json", ".safetensors"))) is not None:
        name, what = found
        raise UserError(
            f"{folder / name} {what}: copy the whole folder again; if you changed it yourself, remove "
            f"{folder / COMPLETE}"
        )


def missing_file(folder: Path, name: str) -> UserError:
    """The error that a checkpoint lacks a file, and what to do."""
    is_for_resuming = (folder / "trainer_state.json").exists()
    advice = "give the folder of a finished run" if is_for_resuming else "copy the whole folder"
    return UserError(f"{folder}: {name} is missing; {advice}")
