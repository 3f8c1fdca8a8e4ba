"""The source distribution can be tested, and its site can be built."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_tests_and_docs_are_in_it(tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    code = "import sys, setuptools.build_meta; setuptools.build_meta.build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, tmp_path], cwd=ROOT, capture_output=True, check=True, timeout=300)
    (archive,) = tmp_path.iterdir()
    with tarfile.open(archive) as members:
        found = {name.partition("/")[2] for name in members.getnames()}
    wanted = {"mkdocs.yml", "constraints.txt", "CITATION.cff"}
    for folder in ("tests", "docs", "recipes", "perf"):
        paths = {path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts}
        assert paths
        wanted |= {path.relative_to(ROOT).as_posix() for path in paths}
    assert wanted <= found
