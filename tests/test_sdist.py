"""The source distribution can be tested, its site can be built, and its wheel has the recipes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def built(kind: str, source: Path, folder: Path) -> Path:
    """The `sdist` or `wheel` of a source folder, made in `folder`."""
    pytest.importorskip("setuptools")
    code = f"import sys, setuptools.build_meta; setuptools.build_meta.build_{kind}(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, folder], cwd=source, capture_output=True, check=True, timeout=300)
    (archive,) = folder.iterdir()
    return archive


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a copy without what an earlier build left, which would say what belongs to it."""
    source = tmp_path_factory.mktemp("source") / "copy"
    source.mkdir()
    for path in ROOT.iterdir():
        if path.name in ("src", "tests", "docs", "recipes", "perf"):
            ignored = shutil.ignore_patterns("*.egg-info", "__pycache__")
            shutil.copytree(path, source / path.name, symlinks=True, ignore=ignored)
        elif path.is_file():
            shutil.copy(path, source)
    return built("sdist", source, tmp_path_factory.mktemp("sdist"))


def test_tests_and_docs_are_in_it(sdist: Path) -> None:
    with tarfile.open(sdist) as members:
        found = {name.partition("/")[2] for name in members.getnames()}
    wanted = {"mkdocs.yml", "constraints.txt", "CITATION.cff"}
    for folder in ("tests", "docs", "recipes", "perf"):
        paths = {path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts}
        assert paths
        wanted |= {path.relative_to(ROOT).as_posix() for path in paths}
    assert wanted <= found


def test_an_installed_wheel_of_it_has_the_recipes(sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as members:
        members.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    (tmp_path / "wheel").mkdir()
    with zipfile.ZipFile(built("wheel", source, tmp_path / "wheel")) as members:
        members.extractall(tmp_path / "installed")
    installed, shipped = tmp_path / "installed" / "hf_sysgen" / "recipes", ROOT / "recipes"
    files = {path.relative_to(shipped) for path in shipped.rglob("*") if path.is_file()}
    assert {path.relative_to(installed) for path in installed.rglob("*") if path.is_file()} == files
    code = "from hf_sysgen.config.io import *; print(read_recipe('csordas2021/scan_length26_relative').file)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["csordas2021/scan_length26_relative"], done.stderr
