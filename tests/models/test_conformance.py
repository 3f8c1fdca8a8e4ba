"""
transformers' own tests for every model (ModelTesterMixin, GenerationTesterMixin and ExportTesterMixin) on our models.

The first comes from the package registry at the version that is installed; the others are not in that archive and come
from the repository, at one commit. They are kept in a cache and never stored here; without the network the first runs
alone, and `test_the_generation_tests_are_there` is skipped.
Each variant runs in a process of its own, because that suite sets its own rules for warnings and markers. Everything
that did not run is in the two tables below with its reason; anything else that is skipped is an error.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest
import transformers
from conformance_cases import left_out
from depth_width_conformance_cases import FIELDS as DECODERS
from edge_conformance_cases import CASES as EDGES
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
    r"test requires (the kernels library|deepspeed|optimum-quanto|Flash Attention( \d)?)": "no such library",
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
    r"Do not take a cache as input to forward": "models that do not generate",
    r"Not returning cache or non standard Cache": "edges are cached in a class of their own",
    r"No `_keep_in_fp32_modules_strict` defined": "no module needs float32",
    r"Model (architecture does not support|does not output) attentions": "none, or weights of triangles: "
    "our tests have them",
    r"This model doesn't support padding\.": "said where no attention weights are; "
    "test_fairseq.py::test_left_padded_targets",
    # generation
    r"This model is encoder-decoder( and has Encoder-Decoder Cache)?|No decoder-only architecture available.*": "of "
    "decoders alone",
    r"This model does(n't| not) (use|support) `(position_ids|logits_to_keep)`( argument)?\.?": "T5 has them neither",
    r"\w+ does not support new attention mask API": "masks are made without transformers.masking_utils",
    r"\w+ declares no recurrent layer types|No MTP keys registered": "no such layers",
    # names that the tests do not look for; our own tests stand in
    r"\w+ does not propagate hidden states correctly or uses another name": "encoder_hidden_states and "
    "decoder_hidden_states are the names; test_generation.py::test_hidden_states",
    r"Model does not support output_attentions": "looked for in the signature of forward, where ours is among the "
    "keywords; test_generation.py::test_attentions",
}

# neither tests/generation nor tests/exporters is in the source distribution
REPOSITORY = "https://raw.githubusercontent.com/huggingface/transformers"
COMMIT = "c49429ed1f8b89749de77c0ec930ef19685c9ae5"
FROM_REPOSITORY = {
    "generation/test_utils.py": "cfe9907eff1690b898cde061a235b8888656421f0a38bfaa4cccccff0b9e7405",
    "exporters/test_export.py": "d205f597d055c81dd892a775a727d62a51a6bbd33ff2af36fd2ff02db02e02e2",
}

STUBS = {
    "__init__.py": "",
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


def fetch_from_repository(folder: Path) -> Path:
    """
    The folder with the files of `FROM_REPOSITORY`, fetched if they are not there.

    Raises:
        OSError: one cannot be had, or is another than it was.
    """
    for name, expected in FROM_REPOSITORY.items():
        path = folder / name
        if not path.exists():
            with urllib.request.urlopen(f"{REPOSITORY}/{COMMIT}/tests/{name}", timeout=10) as answer:
                content = answer.read()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        if hashlib.sha256(path.read_bytes()).hexdigest() != expected:
            raise OSError(f"{path} is not the file of commit {COMMIT}")
    return folder


@contextmanager
def made_once(folder: Path) -> Iterator[Path | None]:
    """A folder to be filled, which is `folder` when it is finished; `None` if there is one already."""
    if folder.is_dir():
        yield None
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        ready = Path(name) / "ready"
        yield ready
        try:
            ready.rename(folder)
        except OSError:
            # another worker was faster
            assert folder.is_dir()


@pytest.fixture(scope="session")
def model_tests() -> Path:
    """A folder in which `transformers_tests` can be imported, at the version of the installed transformers."""
    version = transformers.__version__
    with made_once(CACHE / version) as ready:
        if ready:
            download = ready.parent / "download"
            # from whatever registry pip is configured for; building its metadata needs setuptools
            command = [sys.executable, "-m", "pip", "download", f"transformers=={version}", "--no-deps"]
            command += ["--dest", download, "--no-binary", ":all:", "--no-build-isolation"]
            command += ["--disable-pip-version-check"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
                pytest.skip(f"the source distribution of transformers {version} cannot be had: {reason}")
            (archive,) = download.iterdir()
            unpack_tests(archive, ready / "transformers_tests")
    return CACHE / version


@pytest.fixture(scope="session")
def generation_tests(model_tests: Path) -> Path | str:
    """The same with `GenerationTesterMixin` and `ExportTesterMixin`, or why these cannot be had."""
    folder = CACHE / f"{model_tests.name}-{COMMIT[:8]}"
    try:
        with made_once(folder) as ready:
            if ready:
                fetched = fetch_from_repository(CACHE / COMMIT)
                shutil.copytree(model_tests, ready)
                for name in FROM_REPOSITORY:
                    text = (fetched / name).read_text(encoding="utf-8")
                    text = text.replace("from tests.", "from transformers_tests.")
                    # what the exporter returns has held the program since then
                    text = text.replace("exported_program.module()", "exported_program.program.module()")
                    (ready / "transformers_tests" / name).write_text(text, encoding="utf-8")
    except OSError as error:
        return f"transformers' generation tests cannot be had: {error}"
    return folder


@pytest.fixture(scope="session")
def transformers_tests(model_tests: Path, generation_tests: Path | str) -> Path:
    """A folder in which `transformers_tests` can be imported, with all mixins that can be had."""
    return model_tests if isinstance(generation_tests, str) else generation_tests


def test_the_generation_tests_are_there(generation_tests: Path | str) -> None:
    """Where this is skipped, the tests below run without them."""
    if isinstance(generation_tests, str):
        pytest.skip(generation_tests)
    text = (generation_tests / "transformers_tests/generation/test_utils.py").read_text(encoding="utf-8")
    assert "def test_greedy_generate" in text


def run_suite(
    case: str,
    transformers_tests: Path,
    folder: Path,
    *options: str,
    cases: str = "conformance_cases",
    slow: bool = False,
) -> tuple[list[str], dict[str, str], str]:
    """
    Names that passed, (name: reason) of those that were skipped, and the log if anything failed; with `slow` also what
    transformers calls slow.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    paths = [str(transformers_tests), str(HERE), str(Path(hf_sysgen.__file__).parents[1]), str(folder)]
    environment = {
        **own,
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",
        "HF_HOME": str(folder),
        "HF_HUB_OFFLINE": "1",
        **({"RUN_SLOW": "1"} if slow else {}),
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


@pytest.mark.slow
@pytest.mark.parametrize("variant", [*VARIANTS, *BASELINES])
def test_conformance(variant: str, transformers_tests: Path, tmp_path: Path) -> None:
    # 104 of transformers 5.23.0, 26 of generation, of models without self-attention 20 fewer
    generation = transformers_tests.name != transformers.__version__
    at_least = (70 if variant in BASELINES else 95) + 20 * generation
    skips = left_out(variant, generation)
    assert_conforms(variant, transformers_tests, tmp_path, at_least=at_least, left_out=skips)


@pytest.mark.slow
def test_a_fault_is_found(transformers_tests: Path, tmp_path: Path) -> None:
    """The suite really meets our classes: where nobody starts the linear layers, it fails."""
    (tmp_path / "fault.py").write_text(
        "from hf_sysgen.models import linear\n\nlinear.uniform = lambda bound: lambda tensor: None\n"
    )
    options = ("-p", "fault", "-k", "test_can_init_all_missing_weights")
    passed, _, failures = run_suite("universal_transformer", transformers_tests, tmp_path, *options)
    assert "test_can_init_all_missing_weights" in failures
    assert not passed


EXPORTED = [
    (cases, name)
    for cases, names in {
        "conformance_cases": (*VARIANTS, *BASELINES),
        "edge_conformance_cases": EDGES,
        "depth_width_conformance_cases": DECODERS,
    }.items()
    for name in names
]


@pytest.mark.compat
@pytest.mark.parametrize(("cases", "case"), EXPORTED)
def test_torch_export(cases: str, case: str, generation_tests: Path | str, tmp_path: Path) -> None:
    """ExportTesterMixin: models, and the two stages of generation, with fixed and with dynamic shapes."""
    if isinstance(generation_tests, str):
        pytest.skip(generation_tests)
    options = ("-k", "test_torch_export")
    passed, _, failures = run_suite(case, generation_tests, tmp_path, *options, cases=cases, slow=True)
    assert not failures, failures
    assert len(passed) >= 2
