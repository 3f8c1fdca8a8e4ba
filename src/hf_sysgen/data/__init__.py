"""Benchmarks: frozen, checksummed, with the papers' split names."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hf_sysgen.data.c4.builder import C4 as C4
    from hf_sysgen.data.cfq.builder import Cfq as Cfq
    from hf_sysgen.data.cfq.dependencies import CfqDependencies as CfqDependencies
    from hf_sysgen.data.clutrr.builder import Clutrr as Clutrr
    from hf_sysgen.data.cogs.builder import Cogs as Cogs
    from hf_sysgen.data.cogs.graph import CogsGraph as CogsGraph
    from hf_sysgen.data.cogs.variable_free import CogsVf as CogsVf
    from hf_sysgen.data.english_passivization.builder import EnglishPassivization as EnglishPassivization
    from hf_sysgen.data.flores.builder import Flores as Flores
    from hf_sysgen.data.geoquery.builder import Geoquery as Geoquery
    from hf_sysgen.data.info import BenchmarkInfo as BenchmarkInfo
    from hf_sysgen.data.info import ConfigInfo as ConfigInfo
    from hf_sysgen.data.iwslt14.builder import Iwslt14 as Iwslt14
    from hf_sysgen.data.mathematics.builder import Mathematics as Mathematics
    from hf_sysgen.data.noun_adjective.builder import NounAdjective as NounAdjective
    from hf_sysgen.data.pcfg_set.builder import PcfgSet as PcfgSet
    from hf_sysgen.data.registry import benchmark_info as benchmark_info
    from hf_sysgen.data.registry import list_benchmarks as list_benchmarks
    from hf_sysgen.data.registry import load_benchmark as load_benchmark
    from hf_sysgen.data.scan.builder import Scan as Scan
    from hf_sysgen.data.sources import DataError as DataError
    from hf_sysgen.data.sources import Source as Source
    from hf_sysgen.data.sources import locate as locate
    from hf_sysgen.data.text.roles import RoleScheme as RoleScheme
    from hf_sysgen.data.text.roles import role_scheme as role_scheme
    from hf_sysgen.data.text.roles import role_schemes as role_schemes

# public name: module that defines it, imported on first use, since a builder's module takes a second for `datasets`
_MODULES = {
    "BenchmarkInfo": "info",
    "C4": "c4.builder",
    "Cfq": "cfq.builder",
    "CfqDependencies": "cfq.dependencies",
    "Clutrr": "clutrr.builder",
    "Cogs": "cogs.builder",
    "CogsGraph": "cogs.graph",
    "CogsVf": "cogs.variable_free",
    "ConfigInfo": "info",
    "DataError": "sources",
    "EnglishPassivization": "english_passivization.builder",
    "Flores": "flores.builder",
    "Geoquery": "geoquery.builder",
    "Iwslt14": "iwslt14.builder",
    "Mathematics": "mathematics.builder",
    "NounAdjective": "noun_adjective.builder",
    "PcfgSet": "pcfg_set.builder",
    "RoleScheme": "text.roles",
    "Scan": "scan.builder",
    "Source": "sources",
    "benchmark_info": "registry",
    "list_benchmarks": "registry",
    "load_benchmark": "registry",
    "locate": "sources",
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
