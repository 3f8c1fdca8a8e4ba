"""The small trained models of this package: names, and folders with weights, record and card."""

from __future__ import annotations

from pathlib import Path

from hf_sysgen.data.info import unknown

ZOO = Path(__file__).parent
# the default model of `hf-sysgen predict`
DEFAULT = "scan_length26_quick_relative_universal"


def zoo_names() -> list[str]:
    """The models of the zoo, sorted."""
    return sorted(path.parent.name for path in ZOO.glob("*/config.json"))


def zoo_folder(name: str) -> Path:
    """The folder of a model of the zoo, for `from_pretrained` after `import hf_sysgen.models`.

    Raises:
        DataError: the zoo has no such model.
    """
    if name not in zoo_names():
        raise unknown("model of the zoo", name, zoo_names())
    return ZOO / name
