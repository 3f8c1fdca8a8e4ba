"""Trained models: names, and folders with weights, record and card. Small ones come with the package."""

from __future__ import annotations

from pathlib import Path

from hf_sysgen.data.info import unknown_name_error

ZOO = Path(__file__).parent
# larger ones, in a checkout of the repository only
CHECKPOINTS = ZOO.parents[2] / "checkpoints"
# the default model of `hf-sysgen predict`
DEFAULT = "scan_length26_quick_relative_universal"


def _folders() -> dict[str, Path]:
    return {path.parent.name: path.parent for folder in (CHECKPOINTS, ZOO) for path in folder.glob("*/config.json")}


def zoo_names() -> list[str]:
    """The models of the zoo, sorted; in a checkout also those of its folder `checkpoints`."""
    return sorted(_folders())


def zoo_folder(name: str) -> Path:
    """The folder of a model of the zoo, for `from_pretrained` after `import hf_sysgen.models`.

    Raises:
        DataError: the zoo has no such model.
    """
    folders = _folders()
    if name not in folders:
        raise unknown_name_error("model of the zoo", name, sorted(folders))
    return folders[name]
