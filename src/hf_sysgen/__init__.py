"""
Models, benchmarks and training recipes for systematic generalization, for Hugging Face Transformers.

Importing the package loads nothing heavy; `hf_sysgen.models` registers the models with the Auto classes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.2.0.dev0"

if TYPE_CHECKING:
    from hf_sysgen.config.io import load_recipe as load_recipe
    from hf_sysgen.config.recipe import Recipe as Recipe
    from hf_sysgen.convert.authors import from_authors as from_authors
    from hf_sysgen.data import benchmark_info as benchmark_info
    from hf_sysgen.data import list_benchmarks as list_benchmarks
    from hf_sysgen.data import load_benchmark as load_benchmark

_LAZY = {
    "benchmark_info": "hf_sysgen.data",
    "from_authors": "hf_sysgen.convert.authors",
    "list_benchmarks": "hf_sysgen.data",
    "load_benchmark": "hf_sysgen.data",
    "load_recipe": "hf_sysgen.config.io",
    "Recipe": "hf_sysgen.config.recipe",
}

__all__ = [
    "Recipe",
    "__version__",
    "benchmark_info",
    "from_authors",
    "list_benchmarks",
    "load_benchmark",
    "load_recipe",
]


def __getattr__(name: str):
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
