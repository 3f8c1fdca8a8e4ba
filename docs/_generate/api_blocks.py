"""The API reference: the modules of each package, for mkdocstrings."""

from __future__ import annotations

from kept import ROOT

SOURCE = ROOT / "src" / "hf_sysgen"


def modules(package: str) -> str:
    """A block for each module of a package; of hf_sysgen, for the modules at the top."""
    if package == "hf_sysgen":
        paths = sorted(path for path in SOURCE.glob("*.py") if path.name != "__main__.py")
    else:
        paths = sorted(path for path in (SOURCE / package).rglob("*.py") if path.name != "__main__.py")
    names = [
        ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__") for path in paths
    ]
    return "\n\n".join(f"::: {name}" for name in names)


TABLES = (modules,)
