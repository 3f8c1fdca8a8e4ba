"""Benchmarks: frozen, verified by checksum, with the papers' split names.

A benchmark is a folder: `info.yaml` says what it is, `builder.py` prepares it. The folder's `__init__.py` does not
import the builder, so a grammar or a reader works without `datasets`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hf_sysgen.data.errors import DataError as DataError
    from hf_sysgen.data.fetch import locate as locate
    from hf_sysgen.data.info import BenchmarkInfo as BenchmarkInfo
    from hf_sysgen.data.info import ConfigInfo as ConfigInfo
    from hf_sysgen.data.info import Source as Source
    from hf_sysgen.data.registry import benchmark_info as benchmark_info
    from hf_sysgen.data.registry import list_benchmarks as list_benchmarks
    from hf_sysgen.data.registry import load_benchmark as load_benchmark
    from hf_sysgen.data.text.roles import RoleScheme as RoleScheme
    from hf_sysgen.data.text.roles import role_scheme as role_scheme
    from hf_sysgen.data.text.roles import role_schemes as role_schemes

# public name: module that defines it, imported on first use
_MODULES = {
    "BenchmarkInfo": "info",
    "ConfigInfo": "info",
    "DataError": "errors",
    "RoleScheme": "text.roles",
    "Source": "info",
    "benchmark_info": "registry",
    "list_benchmarks": "registry",
    "load_benchmark": "registry",
    "locate": "fetch",
    "role_scheme": "text.roles",
    "role_schemes": "text.roles",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
