"""
transformers' own tests for every model (ModelTesterMixin), from its source distribution, on our models.

The tests are fetched from the package registry at the version that is installed, kept in a cache and never stored here.
Each variant runs in a process of its own, because that suite sets its own rules for warnings and markers. Everything
that did not run is in the two tables below with its reason; anything else that is skipped is an error.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest
import transformers
from conformance_cases import left_out
from tiny import BASELINES, VARIANTS

import hf_sysgen

HERE = Path(__file__).parent
CACHE = Path(
    os.environ.get("HF_SYSGEN_CONFORMANCE_DIR")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hf_sysgen" / "conformance"
)

# what transformers skips by itself: its message, and why that is right
SKIPPED_BY_TRANSFORMERS = {
    # machines and libraries that are not here
    r"test is slow": "off in its default run, and needs an accelerator",
    r"test requires (an )?(multiple )?accelerators?": "no accelerator",
    r"test requires MPS": "no Apple device",
    r"test requires (the kernels library|deepspeed|Flash Attention( \d)?)": "no such library",
    # parts that these models do not have
    r"Model does not have a TP plan\.": "tensor parallelism is not offered",
    r"Model does not have position embeddings": "positions are computed, nothing is there to resize",
    r"Model does not support sliding window mask": "attention is full",
    r"Model is not a composite model\.|This model is not composite|No subconfigs so the test.*": "one config",
    r"\w+ does not support SDPA": "said of parts of composite models; sdpa is compared with eager in 24 other tests",
    r"No conversion found for .*": "weights keep their names",
    r"No decoder-only language modeling head to check": "encoder-decoder",
    r"\w+ (class )?has no _keep_in_fp32_modules (n?or) _keep_in_fp32_modules_strict.*": "every part may be half",
    r"\w+ does not support grouped_mm|This model has no (sparse experts|`output_router_logits`).*": "no experts",
    r".*RoPE.*": "positions are sinusoids",
    # names that the tests do not look for; our own tests stand in
    r"\w+ does not propagate hidden states correctly or uses another name": "encoder_hidden_states and "
    "decoder_hidden_states are the names; test_generation.py::test_hidden_states",
    r"Model does not support output_attentions": "looked for in the signature of forward, where ours is among the "
    "keywords; test_generation.py::test_attentions",
}

STUBS = {
    "__init__.py": "",
    # neither tests/generation nor tests/exporters is in the source distribution
    "generation/__init__.py": "",
    "generation/test_utils.py": "class GenerationTesterMixin:\n    pass\n",
    "exporters/__init__.py": "",
    "exporters/test_export.py": "class ExportTesterMixin:\n    pass\n",
    "utils/__init__.py": "",
    "utils/test_configuration_utils.py": "config_common_kwargs = {\n"
    '    "output_hidden_states": True,\n    "dtype": "float16",\n    "architectures": ["Tiny"],\n'
    '    "chunk_size_feed_forward": 5,\n    "problem_type": "regression",\n}\n',
}


def unpack_tests(archive: Path, package: Path) -> None:
    """The two files that are needed, and stubs for what they import."""
    root = archive.name.removesuffix(".tar.gz")
    with tarfile.open(archive) as members, tempfile.TemporaryDirectory() as unpacked:
        for name in ("test_modeling_common.py", "test_configuration_common.py"):
            member = f"{root}/tests/{name}"
            members.extract(member, unpacked, filter="data")
            package.mkdir(parents=True, exist_ok=True)
            (package / name).write_bytes((Path(unpacked) / member).read_bytes())
    for name, text in STUBS.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture(scope="session")
def transformers_tests() -> Path:
    """A folder in which `transformers_tests` can be imported, at the version of the installed transformers."""
    version = transformers.__version__
    folder = CACHE / version
    if (folder / "transformers_tests").is_dir():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        download = Path(name) / "download"
        # from whatever registry pip is configured for; building its metadata needs setuptools
        command = [sys.executable, "-m", "pip", "download", f"transformers=={version}", "--no-deps", "--dest", download]
        command += ["--no-binary", ":all:", "--no-build-isolation", "--disable-pip-version-check"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
            pytest.skip(f"the source distribution of transformers {version} cannot be had: {reason}")
        (archive,) = download.iterdir()
        ready = Path(name) / "ready"
        unpack_tests(archive, ready / "transformers_tests")
        try:
            ready.rename(folder)
        except OSError:
            # another worker was faster
            assert (folder / "transformers_tests").is_dir()
    return folder


def run_suite(
    case: str, transformers_tests: Path, folder: Path, *options: str, cases: str = "conformance_cases"
) -> tuple[list[str], dict[str, str], str]:
    """Names that passed, (name: reason) of those that were skipped, and the log if anything failed."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    paths = [str(transformers_tests), str(HERE), str(Path(hf_sysgen.__file__).parents[1]), str(folder)]
    environment = {
        **own,
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",
        "HF_HOME": str(folder),
        "HF_HUB_OFFLINE": "1",
    }
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", f"{HERE / cases}.py::Test_{case}", "-q", "-ra", "--noconftest"]
    command += ["-c", os.devnull, f"--rootdir={folder}", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += [f"--junitxml={report}", *options]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900)
    passed, skipped = [], {}
    if report.exists():
        for test in ElementTree.parse(report).iter("testcase"):
            skip = test.find("skipped")
            if skip is not None:
                skipped[test.get("name")] = skip.get("message")
            elif test.find("failure") is None and test.find("error") is None:
                passed.append(test.get("name"))
    return passed, skipped, "" if done.returncode == 0 else done.stdout[-8000:] + done.stderr[-2000:]


def assert_conforms(
    case: str, transformers_tests: Path, folder: Path, *, at_least: int, left_out: Mapping[str, str],
    skipped_too: Mapping[str, str] | None = None, cases: str = "conformance_cases",
) -> None:  # fmt: skip
    """
    No test fails, `at_least` so many pass, and of the others one reason is known each.

    Args:
        case: of those that the file `cases` makes.
        left_out: tests that this file skips, and why.
        skipped_too: messages of transformers that belong to these cases alone, and why they are right.
    """
    passed, skipped, failures = run_suite(case, transformers_tests, folder, cases=cases)
    assert not failures, failures
    assert len(passed) >= at_least, "the suite hardly ran"
    assert {name: skipped.pop(name, None) for name in left_out} == left_out
    patterns = [*SKIPPED_BY_TRANSFORMERS, *(skipped_too or {})]
    unexpected = {name: why for name, why in skipped.items() if not any(re.fullmatch(one, why) for one in patterns)}
    assert not unexpected


# the others take 10 seconds each
DEFAULT = "relative_universal_transformer"
CASES = [name if name == DEFAULT else pytest.param(name, marks=pytest.mark.slow) for name in (*VARIANTS, *BASELINES)]


@pytest.mark.parametrize("variant", CASES)
def test_conformance(variant: str, transformers_tests: Path, tmp_path: Path) -> None:
    # 104 of transformers 5.23.0
    assert_conforms(variant, transformers_tests, tmp_path, at_least=95, left_out=left_out(variant))


def test_a_fault_is_found(transformers_tests: Path, tmp_path: Path) -> None:
    """The suite really meets our classes: where nobody starts the linear layers, it fails."""
    (tmp_path / "fault.py").write_text(
        "from hf_sysgen.models import linear\n\nlinear.uniform = lambda bound: lambda tensor: None\n"
    )
    options = ("-p", "fault", "-k", "test_can_init_all_missing_weights")
    passed, _, failures = run_suite("universal_transformer", transformers_tests, tmp_path, *options)
    assert "test_can_init_all_missing_weights" in failures
    assert not passed
