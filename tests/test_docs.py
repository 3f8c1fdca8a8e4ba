"""The documents: what they name is there, what they print is so, and what they have a reader build is built."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import pytest
import typer
import yaml
from documents import DOCUMENTS, ROOT, blocks, commands, lines_of, written
from elsewhere import run_elsewhere
from made_records import made_record, shipped
from PIL import Image
from tiny_runs import command, environment, forked, train_process
from typer.testing import CliRunner

from hf_sysgen.cli.main import app
from hf_sysgen.config.fields import FIELDS, SECTIONS
from hf_sysgen.config.io import read_recipe
from hf_sysgen.config.sweep import load_sweep
from hf_sysgen.data import benchmark_info, list_benchmarks, load_benchmark
from hf_sysgen.extensions import EXTENSIONS_VARIABLE, own_benchmarks
from hf_sysgen.models import CONFIGS
from hf_sysgen.reports.comparison import CHOSEN, NO_NUMBER, OTHER_TASK, REACHED, SMALLER
from hf_sysgen.reports.matching import shipped_recipe
from hf_sysgen.reports.papers import Cell, papers
from hf_sysgen.results.reading import Collection, read_record
from hf_sysgen.results.record import Record

DOCS = ROOT / "docs"
ACCELERATE = ROOT / "recipes" / "accelerate"
TINY = ["training.max_steps=2", "training.eval_steps=2", "training.report_to=none", "evaluation.examples=3",
        "model.hidden_size=16", "model.intermediate_size=16", "model.num_attention_heads=2", "model.encoder_layers=1",
        "model.decoder_layers=1", "batches.size=8"]  # fmt: skip

sys.path.insert(0, str(DOCS / "_generate"))
import hook  # noqa: E402
import kept  # noqa: E402
import model_tables  # noqa: E402
import pictures  # noqa: E402
import reliability_tables  # noqa: E402
import result_tables  # noqa: E402
import speed_tables  # noqa: E402
import speedrun_tables  # noqa: E402

sys.path.pop(0)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_to_files(document):
    text = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)#]+)", text):
        drawn = "images/" in target and Path(target).name in pictures.PICTURES
        assert drawn or target.startswith("https://") or (document.parent / unquote(target)).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_files_it_names_are_there(document):
    """Those in code, from the repository's root or the package's, but placeholders such as X."""
    for named in re.findall(r"`((?:src|tests|perf|recipes|docs|results)/[\w./-]+)`", document.read_text("utf-8")):
        there = (ROOT / named).exists() or (ROOT / "src/hf_sysgen" / named).exists()
        assert there or re.search(r"(?<![A-Za-z])X(?![A-Za-z])", named), named


def test_every_page_is_in_the_navigation():
    """And nothing else is. CONTRIBUTING.md becomes a page while the site is built."""

    def listed(entry) -> set[str]:
        if isinstance(entry, str):
            return {entry}
        return set().union(*map(listed, entry.values() if isinstance(entry, dict) else entry))

    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    nav = hook.on_config(SimpleNamespace(nav=nav)).nav
    assert listed(nav) - {"contributing.md"} == {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}


def test_every_model_and_benchmark_has_a_page():
    marks = " ".join(
        mark for path in DOCS.rglob("*.md") for mark in re.findall(r"<!-- table: (.*?) -->", path.read_text("utf-8"))
    )
    families = {model_tables.family_of(name) for name in CONFIGS}
    assert sorted(families) == sorted(re.findall(r"family (\w+)", marks))
    assert all(f"## `{name}`" in model_tables.family(model_tables.family_of(name)) for name in CONFIGS)
    assert {one.name for one in list_benchmarks()} == set(re.findall(r"benchmark (\w+)", marks))


@pytest.mark.parametrize("document", sorted(DOCS.rglob("*.md")), ids=name_of)
def test_tables_are_made(document):
    """Every mark of a page becomes a table whose rows have as many cells as its head."""
    filled = hook.render(document.read_text(encoding="utf-8"))
    assert "<!-- " not in filled
    text = re.sub(r"^ *```.*?^ *```", "", filled, flags=re.M | re.S)
    for table in re.findall(r"(?:^ *\|.*\n)+", text, flags=re.M):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1, table


def test_extras_are_all_shown():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    shown = re.findall(r"^\| `(\w+)` \|", (DOCS / "index.md").read_text(encoding="utf-8"), flags=re.M)
    assert sorted(shown) == sorted(extras)


def test_fields_of_a_recipe_are_all_shown():
    shown = hook.TABLES["fields"]()
    for field in FIELDS:
        if field.key not in SECTIONS:
            assert f"| `{field.key.rpartition('.')[2]}` |" in shown


def test_formulas_become_mathml():
    content = '<p>of <span class="arithmatex">\\(a &lt; b\\)</span></p>'
    assert re.fullmatch(r"<p>of <span class=\"formula\"><math.*&#x0003C;.*</math></span></p>", hook.with_math(content))


def test_the_picture_of_the_readme_is_of_the_kept_records():
    with Image.open(pictures.README_PICTURE) as picture:
        assert picture.text["points"] == pictures.points(pictures.clutrr_figure())


def test_the_picture_of_the_readme_has_means_and_ranges(tmp_path, monkeypatch):
    def records(name: str, bf16: bool = False) -> list[Record]:
        if bf16 and "_edge_" not in name:
            return []
        accuracies = [0.5, 0.75] if name.endswith("_quick") else [0.5, 1.0]
        return [
            made_record(splits={"test": {"accuracy": one, "by_category": {"k=10": [4, one / 2], "k=6": [4, one]}}})
            for one in accuracies
        ]

    drawn = []
    monkeypatch.setattr(pictures, "records_of", records)
    monkeypatch.setattr(pictures, "save", lambda figure, path: drawn.append((figure, path)))
    pictures.clutrr_by_k(tmp_path / "picture.png")
    ((figure, path),) = drawn
    assert path == tmp_path / "picture.png"
    whole, small = (sum(len(files) > panel for files in pictures.CLUTRR.values()) for panel in (0, 1))
    dashed = [line.get_label() for axes in figure.axes for line in axes.lines if line.get_linestyle() == "--"]
    assert dashed == ["Edge Transformer, bfloat16, mean and range of 2 seeds"]
    for axes, count, means, ranges in zip(
        figure.axes,
        (whole + 1, small),
        ([75, 37.5], [62.5, 31.25]),
        ([[50, 100], [25, 50]], [[50, 75], [25, 37.5]]),
        strict=True,
    ):
        assert sum(line.get_ydata().tolist() == means for line in axes.lines) == count
        bars = [[segment[:, 1].tolist() for segment in one.get_segments()] for one in axes.collections]
        assert bars.count(ranges) == count


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_commands_are_understood(document):
    """Every option and argument; what they do is the business of the tests that run them."""
    group = typer.main.get_command(app)
    for words in commands(document):
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), flags=re.M), words
        if words[0] == "hf-sysgen":
            parser, rest = group, words[1:]
            while hasattr(parser, "commands"):
                assert rest[0] in parser.commands, words
                parser, rest = parser.commands[rest[0]], rest[1:]
            parser.make_context(words[1], [*rest])
        for word in words:
            if word.startswith("recipes/"):
                assert (ROOT / word).is_file(), words


def test_the_main_job_is_understood():
    """The commands under `run` in the Makefile; the checkpoint that the second reads is one that the first makes."""
    text = (ROOT / "Makefile").read_text()
    (job,) = re.findall(r"^run:[^\n]*\n((?:\t.*\n)+)", text, flags=re.M)
    group = typer.main.get_command(app)
    sweep, predict = (shlex.split(line)[1:] for line in job.replace("\\\n", " ").splitlines())
    for words in (sweep, predict):
        group.commands[words[0]].make_context(words[0], words[1:])
    runs = load_sweep(ROOT / sweep[1], []).runs
    assert predict[predict.index("-c") + 1] in {str(run.recipe.run_dir) for run in runs}
    assert "--isolated" in predict
    assert Path(sweep[sweep.index("--plot") + 1]).suffix == ".png"


def snippets() -> list[tuple[Path, str]]:
    """Of pages that a reader can try without having written a file before."""
    return [
        (document, block.text)
        for document in (DOCS / "index.md", DOCS / "data" / "index.md")
        for block in blocks(document)
        if block.language == "python"
    ]


@pytest.mark.parametrize(("document", "snippet"), snippets(), ids=lambda value: getattr(value, "stem", None))
def test_snippets_run(document, snippet, tmp_path):
    done = forked(["-c", snippet], tmp_path)
    assert done.returncode == 0, done.stderr


def examples(page: Path) -> list[tuple[str, str]]:
    """Calls of `load_benchmark` for one example, with the example that the page shows."""
    return re.findall(r"^`(load_benchmark\(.*)`:\n\n```json\n(.*?)^```", page.read_text("utf-8"), flags=re.M | re.S)


EXAMPLES = [
    pytest.param(*example, id=page.stem)
    for page in sorted((DOCS / "data").glob("*.md"))
    for example in examples(page)
    if page.stem != "scan"
]
# their licence or their authors do not want them here
NO_SAMPLE = ("clutrr", "slog")


def test_the_example_of_scan():
    ((call, shown),) = examples(DOCS / "data" / "scan.md")
    assert_example(eval(call, {"load_benchmark": load_benchmark}), shown)


@pytest.mark.parametrize(("call", "shown"), EXAMPLES)
def test_examples_are_of_the_data(call, shown, files, tmp_path):
    name, config, split = re.fullmatch(r'load_benchmark\("(\w+)"(?:, "([\w-]+)")?\)\["(\w+)"\]\[0\]', call).groups()
    if name in NO_SAMPLE and not files.whole:
        pytest.skip(f"no part of {name} is in this repository")
    builder = files.builder(name, config or benchmark_info(name).config(None).name, tmp_path)
    assert_example(next(iter(builder.as_streaming_dataset(split))), shown)


def assert_example(found, shown: str) -> None:
    expected = json.loads(shown)
    assert {key: found[key] for key in expected} == expected


@pytest.mark.slow
def test_the_site_is_built(tmp_path):
    """Without a warning: each is an error under --strict."""
    done = command(["-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")], ROOT)
    assert done.returncode == 0, done.stderr
    assert "hf_sysgen.models.relative_attention" in (tmp_path / "site/api/models.html").read_text("utf-8")


@pytest.mark.parametrize("name", ["mkdocs.yml", ".pre-commit-config.yaml", "CITATION.cff"])
def test_it_is_yaml(name):
    assert yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_workflow_calls_targets_of_the_makefile():
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M))
    job = workflow["jobs"]["make"]
    assert set(job["strategy"]["matrix"]["target"]) <= targets
    assert any("make ${{ matrix.target }}" in step.get("run", "") for step in job["steps"])


def test_pre_commit_has_the_pinned_ruff():
    pinned = re.search(r"^ruff==(.*)$", (ROOT / "constraints.txt").read_text(), flags=re.M)
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert pinned
    assert [one["rev"] for one in hooks if "ruff" in one["repo"]] == [f"v{pinned[1]}"]


@pytest.mark.parametrize(
    "form", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda path: path.stem
)
def test_issue_forms_have_what_github_asks(form):
    content = yaml.safe_load(form.read_text(encoding="utf-8"))
    assert content["name"]
    assert content["description"]
    assert all(part["type"] in ("textarea", "input") and part["attributes"]["label"] for part in content["body"])


def test_launchers_take_the_files_that_documents_name():
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import launch_command_parser

    launches = [
        words[words.index("accelerate") + 2 :] for words in commands(DOCS / "scaling.md") if "accelerate" in words
    ]
    assert launches
    named = set()
    for words in launches:
        arguments = launch_command_parser().parse_args(words)
        config = load_config_from_file(arguments.config_file)
        named.add(Path(arguments.config_file).name)
        assert arguments.module
        assert arguments.training_script == "hf_sysgen.train"
        assert (arguments.num_processes or config.num_processes) % config.num_machines == 0
    assert named == {path.name for path in ACCELERATE.glob("*.yaml")}


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


def test_the_slurm_script_starts_one_launcher_a_machine(tmp_path):
    """With stand-ins for Slurm and accelerate that say how they were called."""
    program(tmp_path, "scontrol", 'echo node7; echo node8; [ "$*" = "show hostnames node[7-8]" ]')
    srun = '[ "$1" = --kill-on-bad-exit ] || exit; for id in 0 1; do SLURM_NODEID=$id "${@:2}" || exit; done'
    program(tmp_path, "srun", srun)
    program(tmp_path, "accelerate", 'printf "%s " "$@"; echo')
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_NODELIST": "node[7-8]", "SLURM_NNODES": "2",
                 "SLURM_GPUS_ON_NODE": "4", "SLURM_JOB_ID": "12345"}  # fmt: skip
    script = ACCELERATE / "multi_node.sbatch"
    done = subprocess.run(
        ["bash", str(script), "a recipe.yaml", "seed=1"], cwd=ROOT, env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    started = [
        "launch --config_file recipes/accelerate/multi_node.yaml --num_machines 2 --num_processes 8 "
        f"--machine_rank {rank} --main_process_ip node7 --main_process_port 22345 "
        "-m hf_sysgen.train a recipe.yaml seed=1"
        for rank in range(2)
    ]
    assert [line.strip() for line in done.stdout.splitlines()] == started


def own_folder(document: str, folder: Path, monkeypatch) -> dict[str, Path]:
    paths = written(DOCS / document, folder)
    monkeypatch.setenv(EXTENSIONS_VARIABLE, str(folder / "my_extensions"))
    return paths


def use_own_models(folder: Path) -> None:
    from hf_sysgen.models import register_own_models

    os.environ[EXTENSIONS_VARIABLE] = str(folder)
    register_own_models()


def test_a_new_variant_is_trained_and_travels(tmp_path):
    """The document's file and recipe as they are, made small; then its snippet, where this package cannot be had."""
    paths = written(DOCS / "new_variant.md", tmp_path)
    assert {path.parent.name for path in paths.values() if path.suffix == ".py"} == {"my_extensions"}
    small = [*TINY, "output_dir=runs/linear_bias/seed0"]
    prepare = functools.partial(use_own_models, tmp_path / "my_extensions")
    done = train_process([str(paths["linear_bias.yaml"]), *small], tmp_path, prepare)
    assert done.status == 0, done.err
    assert (tmp_path / "runs/linear_bias/seed0/model/modeling_linear_bias.py").read_bytes() == paths[
        "my_extensions/modeling_linear_bias.py"
    ].read_bytes()

    snippet = next(one.text for one in blocks(DOCS / "new_variant.md") if one.language == "python" and not one.path)
    variables = environment(HF_MODULES_CACHE=str(tmp_path / "modules"), HF_HUB_OFFLINE="1")
    printed = run_elsewhere(snippet + "print(type(model).__name__)", environment=variables, folder=tmp_path)
    assert re.fullmatch(r"\['.*'\]\nLinearBiasForConditionalGeneration\n", printed)


@pytest.mark.slow
def test_the_commands_of_the_new_variant(tmp_path):
    """In processes of their own, which learn of the variant from the variable alone."""
    written(DOCS / "new_variant.md", tmp_path)
    small = [*TINY, "output_dir=runs/linear_bias/seed0"]
    for words in commands(DOCS / "new_variant.md")[1:]:
        words = [*words[1:], *(small if words[1] == "train" else [])]
        done = command(["-m", "hf_sysgen.cli", *words], tmp_path, **{EXTENSIONS_VARIABLE: "my_extensions"})
        assert done.returncode == 0, done.stderr
        if words[0] == "list":
            assert "linear_bias_transformer" in done.stdout
    words = ["-m", "hf_sysgen.cli", "publish", "runs/linear_bias/seed0", "me/linear-bias", "--folder", "copy"]
    done = command(words, tmp_path, **{EXTENSIONS_VARIABLE: "my_extensions"})
    assert done.returncode == 0, done.stderr
    assert "modeling_linear_bias.py" in done.stdout
    card = (tmp_path / "copy" / "README.md").read_text()
    # its author has not said which
    assert "license: other" in card
    assert f"there is the file of linear_bias_transformer in the folder that {EXTENSIONS_VARIABLE} names" in card


def use_own_benchmarks(folder: Path) -> None:
    import hf_sysgen.data.registry as registry
    import hf_sysgen.training.tasks.registry

    os.environ[EXTENSIONS_VARIABLE] = str(folder)
    # read anew at the next call
    registry._BENCHMARKS.clear()
    # not the few examples of other tests
    hf_sysgen.training.tasks.registry.load_benchmark = registry.load_benchmark


def test_tables_are_a_benchmark(tmp_path):
    """The document's files as they are, in a run of two updates; a table that has changed is other data."""
    paths = written(DOCS / "new_benchmark.md", tmp_path)
    prepare = functools.partial(use_own_benchmarks, tmp_path / "my_extensions")
    small = ["letters.yaml", *TINY, "output_dir=run"]
    done = train_process(small, tmp_path, prepare)
    assert done.status == 0, done.err
    record = read_record(tmp_path / "run/results.json")
    assert {name: split.examples for name, split in record.splits.items()} == {"test": 2}
    # evaluate finds the tables of the run
    words = ["-m", "hf_sysgen.cli", "evaluate", "run", "letters"]
    done = command(words, tmp_path, **{EXTENSIONS_VARIABLE: str(tmp_path / "my_extensions")})
    assert done.returncode == 0, done.stderr
    assert f"{record.splits['test'].accuracy:.4f}" in done.stdout
    (tmp_path / "run/results.json").unlink()
    table = paths["my_tables/train.csv"]
    table.write_text(table.read_text() + "d c b,b c d\n")
    done = train_process(small, tmp_path, prepare)
    assert done.status == 2
    assert "run on other examples; what data.data_dir names has changed" in done.err


def test_a_new_benchmark_is_prepared_and_proven(tmp_path, monkeypatch):
    """The document's commands in this process, and what it says that they print."""
    import hf_sysgen.data.registry as registry

    # before there is a folder of one's own
    ours = registry.benchmarks()
    own_folder("new_benchmark.md", tmp_path, monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    found = {**ours, **own_benchmarks(ours)}
    monkeypatch.setattr(registry, "benchmarks", lambda: found)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    printed = ""
    for words in commands(DOCS / "new_benchmark.md"):
        if words[:2] != ["hf-sysgen", "data"]:
            continue  # of the tables
        result = CliRunner().invoke(app, words[1:])
        assert result.exit_code == 0, result.output
        printed = result.stdout
    expected = next(block.text for block in blocks(DOCS / "new_benchmark.md") if block.language == "text")
    assert printed == expected
    del sys.modules["benchmark_reverse"]


@pytest.mark.slow
def test_the_tutorial(tmp_path):
    """From start to end, as printed, with what it prints: numbers aside, which depend on the processor."""
    tutorial = DOCS / "tutorial.md"
    written(tutorial, tmp_path)
    printed = ""
    for block in blocks(tutorial):
        if block.language == "bash":
            for line in lines_of(block.text):
                words = shlex.split(line)
                if words[0] != "hf-sysgen":
                    continue  # how it is installed
                done = command(["-m", "hf_sysgen.cli", *words[1:]], tmp_path)
                assert done.returncode == 0, done.stderr
                printed = done.stdout
        elif block.language == "python":
            done = command(["-c", block.text], tmp_path)
            assert done.returncode == 0, done.stderr
            printed = done.stdout
        elif block.language == "text":
            beginning, dots, _ = block.text.partition("...\n")
            found = "".join(printed.splitlines(keepends=True)[: beginning.count("\n")]) if dots else printed
            assert shape(found) == shape(beginning)


def shape(text: str) -> str:
    """A text without its numbers, and without the translations of a model, which depend on them."""
    text = re.sub(r"I_\w+( I_\w+)*", "ACTIONS", text)
    return re.sub(r"[\d.,]+", "0", re.sub(r" +", " ", text)).strip()


def test_the_recipe_of_the_tutorial_is_right(tmp_path):
    from hf_sysgen.config.io import load_recipe

    for path in written(DOCS / "tutorial.md", tmp_path).values():
        assert load_recipe(path).data.benchmark == "scan"


def test_the_recipe_that_starts_from_another_one_is_right(tmp_path):
    from hf_sysgen.config.io import load_recipe

    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    (path,) = written(DOCS / "recipes.md", tmp_path).values()
    recipe = load_recipe(path)
    assert (recipe.model.type, recipe.training.max_steps) == ("universal_transformer", 50_000)
    assert recipe.paper.cell is None


def test_table_of_pretraining(monkeypatch, tmp_path):
    """Both modes beside each other, and MFU where a device was measured."""
    results = [
        {
            "size_class": "41M", "layers": 1, "batch": 2, "context": 3, "precision": "bf16", "mode": mode, "name": name,
            "parameters": 1000, "tokens_per_second": speed, "seconds": [1.0] * 5, "peak_bytes": 3 * 2**20, "mfu": 0.25,
        }
        for mode, speeds in (("eager", (100, 50, 80)), ("compiled", (90, 120, 60)))
        for name, speed in zip(("depth_width_decoder", "gpt2", "llama"), speeds, strict=True)
    ]  # fmt: skip
    record = {"device": "a GPU", "num_threads": 2, "measured_peak_flops": 1.0, "results": results}
    (tmp_path / "pretraining.json").write_text(json.dumps(record))
    monkeypatch.setattr(kept, "PERF", tmp_path)
    _, _, ours, gpt2, llama, *_ = speed_tables.pretraining().splitlines()
    assert ours == "| `depth_width_decoder` | 1,000 | 100 | 1.25 | 3 | 25.0% | 90 | 0.75 | 3 | 25.0% |"
    assert gpt2 == "| `gpt2` | 1,000 | 50 | 0.62 | 3 | 25.0% | 120 | 1.00 | 3 | 25.0% |"
    assert llama == "| `llama` | 1,000 | 80 | 1.00 | 3 | 25.0% | 60 | 0.50 | 3 | 25.0% |"


def test_tables_of_what_was_tried(tmp_path, monkeypatch):
    """Sums over attacks, and mutants by folder; those that survived are listed."""
    endings = {"fine": 1, "line": 2, "traceback": 0, "slow": 0, "silent": 1, "lost": 0, "longest_seconds": 0.5}
    now = {"recipes": {"tries": 4, **endings}, "kills": {"tries": 4, **endings, "longest_seconds": 2.0}}
    (tmp_path / "attacks.json").write_text(json.dumps({"before": {"kills": "3 of 9"}, "now": now}))
    monkeypatch.setattr(kept, "PERF", tmp_path)
    _, _, *rows, _, first = reliability_tables.attacks().splitlines()
    assert "3 of 9" in first
    assert [[cell.strip() for cell in row.split("|")[2:-1]] for row in rows] == [
        ["4", "1", "2", "0", "0", "1", "0", "0.5 s"],
        ["4", "1", "2", "0", "0", "1", "0", "2.0 s"],
        ["8", "2", "4", "0", "0", "2", "0", "2.0 s"],
    ]
    ways = (("data/x.py", "caught"), ("data/y.py", "survived"), ("data/y.py", "equal"), ("z.py", "out of time"))
    mutants = [
        {"file": f"src/hf_sysgen/{file}", "line": 3, "what": "0 -> 1", "how": how, "why": f"Because of {file}."}
        for file, how in ways
    ]
    (tmp_path / "mutants.json").write_text(json.dumps({"count": 5, "mutants": mutants}))
    text = reliability_tables.mutants()
    assert "| `data/` | 3 | 1 | 1 | 1 | 0 |" in text
    assert "| together | 4 | 1 | 1 | 1 | 1 |" in text
    assert "4 were tried" in text
    assert text.count("data/y.py") == 4
    assert "data/x.py" not in text


def test_table_of_stories_by_length(monkeypatch):
    """Means and standard deviations over seeds, beside the paper's numbers."""

    def records(file: str, bf16: bool = False) -> list[Record]:
        def record(seed: int, right: float, *losses: float) -> Record:
            categories = {"k=10": [20, right - 0.25], "k=6": [40, right]}
            return made_record(
                splits={"test": {"accuracy": right, "by_category": categories}}, seed=seed, num_parameters=1234,
                history=[{"step": step, "loss": loss} for step, loss in enumerate(losses)],
            )  # fmt: skip

        if bf16:
            return [record(0, 0.75, 2.0, 0.5), record(1, 0.25, 2.0, 1.75)] if "_edge_" in file else []

        if file == "bergen2021/clutrr_gat_234":
            return [record(3, 0.5)]
        return [record(0, 0.75), record(1, 0.5)] if file.endswith("_quick") else [record(3, 1.0)]

    monkeypatch.setattr(result_tables, "records_of", records)
    lines = result_tables.stories().splitlines()
    header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    assert [cell for cell in header if cell.startswith("k")] == ["k = 6", "k = 10"]
    assert [row[1:] for row in rows if row[0].startswith("Edge Transformer")] == [
        ["10", "", "98.1 ± 0.3", "92.1 ± 1.5"],
        ["1", "1,234", "100.0", "75.0"],
        ["1", "1,234", "75.0", "50.0"],
        ["1", "1,234", "25.0", "0.0"],
        ["2", "1,234", "62.5 ± 17.7", "37.5 ± 17.7"],
    ]
    assert [row[0] for row in rows if "bfloat16" in row[0]] == [
        "Edge Transformer, ours, bfloat16",
        "Edge Transformer, ours, bfloat16, did not learn",
    ]
    assert [row[1:] for row in rows if row[0].startswith("GAT")][-1] == ["1", "1,234", "50.0", "25.0"]
    assert rows[-1][1:] == ["", "", "40", "20"]


def verdicts(text: str) -> set[str]:
    """Of all tables of a text that have some."""
    column, found = None, set()
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("| ") else []
        if "verdict" in cells or not cells:
            column = cells.index("verdict") if cells else None
        elif column is not None and not line.startswith("| ---"):
            found.add(cells[column])
    return found


def test_budgets_are_kept_apart():
    """A measurement of a smaller budget stands in no table of the paper's budget, and in one of the other kind."""
    less = {REACHED, SMALLER}
    for name in ("bergen2021", "chaabouni2021"):
        full, _, small = result_tables.paper(name).partition("## With a smaller budget")
        assert verdicts(full)
        assert not verdicts(full) & less
        small = small.partition("## Coverage")[0]
        # where the paper has no number, or one that was chosen or is of another setup, the verdict says that instead
        assert less & verdicts(small)
        assert verdicts(small) <= {*less, NO_NUMBER, CHOSEN, OTHER_TASK}
        shares = re.findall(r"\(([\d.]+)% of examples\)", full)
        assert all(float(share) >= 99 for share in shares), shares
    assert not verdicts(result_tables.full_budget()) & less


def test_every_measured_row_links_to_its_records():
    rows = [row for paper in papers() for row in result_tables.paper(paper.id).splitlines() if "of examples)" in row]
    assert rows
    for row in rows:
        links = re.findall(r"\[(\d+)\]\(([^)]+)\)", row)
        assert links, row
        for seed, path in links:
            assert read_record(ROOT / "results" / path).seed == int(seed)


def test_numbers_of_parameters_have_no_budget():
    sizes = result_tables.sizes()
    assert "992,007" in sizes
    assert "steps" not in sizes
    whole, _, rest = result_tables.paper("csordas2021").partition("## Numbers of parameters")
    assert "992,007" not in whole + result_tables.full_budget()
    assert "992,007" in rest.partition("## Coverage")[0]


def test_precisions_in_words(monkeypatch):
    """Seeds that learned are compared, in pairs and with each other; those that did not are named."""

    def runs(bf16: bool, *accuracies: float) -> list[Record]:
        return [
            made_record(
                splits={"test": one}, overrides={"training.bf16": bf16} if bf16 else {}, seed=seed,
                history=[{"step": 1, "loss": 2.0}, {"step": 2, "loss": 0.25 if one > 0.25 else 1.75}],
            )
            for seed, one in enumerate(accuracies)
        ]  # fmt: skip

    monkeypatch.setattr(
        result_tables, "_both_precisions", lambda: [(runs(False, 0.75, 0.5), runs(True, 0.5, 0.625, 0.125))]
    )
    text = result_tables.precisions()
    assert "| 0: 75.0, 1: 50.0 | 0: 50.0, 1: 62.5, 2: 12.5 |" in text
    assert "seed 2 did not learn: its training loss ended at 1.8." in text
    assert "bfloat16 minus float32 is -25.0 to +12.5 points" in text
    assert "differ by up to 25.0 points" in text


def test_the_sweep_of_the_page_on_recipes(tmp_path):
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    (words,) = [words for words in commands(DOCS / "recipes.md") if "sweep" in words]
    done = forked(["-m", "hf_sysgen.cli", *words[1:]], tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_speedrun_differs_from_the_paper_s_recipe_in_its_training_alone():
    """And fills no cell of a table."""
    runs = [cell.run for paper in papers() for table in paper.tables for cell in table if cell.run]
    paths = sorted((ROOT / "recipes" / "speedruns").glob("*.yaml"))
    assert paths
    for path in paths:
        recipe = read_recipe(path)
        assert not any(run.matches(recipe.file, {}) for run in runs)
        _, cell = speedrun_tables.target(path.stem)
        assert cell.run is not None
        own = recipe.differences(cell.run.setup(shipped_recipe(cell.run.recipe)), "result")
        assert {key.partition(".")[0] for key in own} <= {"batches", "training", "schedule"}, path
        scale = 100 if cell.unit == "percent" else 1
        assert recipe.paper.test in (None, pytest.approx((cell.mean or 0.0) / scale))


def test_the_number_that_a_speedrun_is_to_reach(monkeypatch, tmp_path):
    """A mean less one standard deviation; the mean of three seeds counts."""
    recipe = "speedrun_clutrr_edge_234"
    name, cell = speedrun_tables.target(recipe)
    assert "k=2,3,4, Base, test k=10" in name
    assert speedrun_tables.to_reach(cell) == pytest.approx(92.1 - 1.5 * 10**0.5)
    cell = Cell("row", "column", "92.7 ± 3.3", unit="percent", deviation="std", seeds=5, run=None)
    assert speedrun_tables.to_reach(cell) == pytest.approx(92.7 - 3.3)
    assert speedrun_tables.counts(cell, [89.0, 89.4, 89.8])
    assert not speedrun_tables.counts(cell, [89.4, 89.4])
    assert not speedrun_tables.counts(cell, [89.0, 89.0, 89.8])

    rows, records = [], []
    for seed, accuracy in enumerate((0.8, 0.9, 0.95)):
        category = {"k=10": [100, accuracy]}
        record = made_record(shipped(recipe), {"test": {"accuracy": 0.5, "by_category": category}}, seed=seed)
        records.append((record.kept_at(tmp_path), record))
        row = {"recipe": recipe, "seed": seed, "hash": record.recipe_hash, "seconds": 60.0 * seed}
        rows.append(row | {"date": f"2026-01-0{seed + 1}", "commit": "0123456789"})
    (tmp_path / "speedruns.json").write_text(json.dumps(rows))
    monkeypatch.setattr(kept, "PERF", tmp_path)
    monkeypatch.setattr(speedrun_tables, "kept", lambda: Collection(tuple(records), ()))
    *_, row = speedrun_tables.speedruns().splitlines()
    cells = [cell.strip() for cell in row.split("|")]
    assert cells[2:8] == ["yes", "87.4", "88.3 ± 7.6", "3", "1.0", "2026-01-03, 0123456"]

    # a number that is low in the paper is none to reach, in whatever time
    (recipe,) = speedrun_tables.BESIDE
    record = made_record(shipped(recipe).settled(True), {"test": {"accuracy": 0.3}})
    low = rows[0] | {"recipe": recipe, "hash": record.recipe_hash}
    before = speedrun_tables.speedruns()
    (tmp_path / "speedruns.json").write_text(json.dumps([*rows, low]))
    assert speedrun_tables.speedruns() == before
    monkeypatch.setattr(speedrun_tables, "records_of", lambda _: [record])
    *_, row = speedrun_tables.speedruns_beside().splitlines()
    assert [cell.strip() for cell in row.split("|")][2:5] == ["0.210", "0.300", "1"]
