"""Reverse: its split by its definition."""

from __future__ import annotations

from pathlib import Path

from hf_sysgen.data import load_benchmark
from hf_sysgen.data.reverse.builder import Reverse


def test_split(tmp_path: Path) -> None:
    data = load_benchmark("reverse", cache_dir=tmp_path)
    assert [check.fact for check in Reverse(cache_dir=tmp_path).checks(data) if not check.holds] == []
    assert {"input": "a a b c", "target": "c b a a"} in list(data["train"])
