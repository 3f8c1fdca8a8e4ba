"""The API reference of every module, as HTML: `python docs/reference.py FOLDER`."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import warnings
from pathlib import Path

import pdoc

import hf_sysgen


def main(folder: Path) -> None:
    names = ["hf_sysgen", *(module.name for module in pkgutil.walk_packages(hf_sysgen.__path__, "hf_sysgen."))]
    for name in names:
        module = importlib.import_module(name)
        for public in getattr(module, "__all__", ()):
            # what a package imports on first use is looked for in it
            setattr(module, public, getattr(module, public))
    # of names that are imported for type checkers alone it shows the text
    warnings.filterwarnings("ignore", "Error parsing type annotation")
    pdoc.render.configure(docformat="google", show_source=False)
    # a package without a list of its names brings its modules along
    listed = [name for name in names if hasattr(sys.modules.get(name.rpartition(".")[0]), "__all__")]
    pdoc.pdoc("hf_sysgen", *listed, output_directory=folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
