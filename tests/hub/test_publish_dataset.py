"""A benchmark on the hub: pushed by us, loaded by a process that has none of our code."""

from __future__ import annotations

import hashlib
import inspect
import json
from dataclasses import replace
from pathlib import Path

import datasets
import pytest
import yaml
from elsewhere import run_elsewhere
from fake_hub import CLIENT_WARNING, FakeHub, Repo, api, command
from huggingface_hub import HfApi
from typer.testing import CliRunner

from hf_sysgen.cli.main import app
from hf_sysgen.data import DataError, benchmark_info, list_benchmarks, load_benchmark
from hf_sysgen.data.info import BenchmarkInfo
from hf_sysgen.data.registry import benchmarks
from hf_sysgen.errors import UserError
from hf_sysgen.hub.dataset_card import dataset_card, hub_licence
from hf_sysgen.hub.publish_dataset import publish_dataset

pytestmark = pytest.mark.filterwarnings(f"{CLIENT_WARNING}:DeprecationWarning")
CONFIGS = ["length", "length_cutoff_40"]
SCAN = benchmark_info("scan")
STRANGER = """
import sys
from datasets import load_dataset
found = {config: load_dataset(sys.argv[1], config) for config in sys.argv[2:]}
print(json.dumps({config: seen(parts) for config, parts in found.items()}))
"""


def seen(parts: dict[str, datasets.Dataset]) -> dict[str, list]:
    """By split: number of examples, columns with their types, the first example, and a digest of all."""
    digests = {name: hashlib.sha256(json.dumps(part.to_dict()).encode()).hexdigest() for name, part in parts.items()}
    return {name: [len(part), str(part.features), part[0], digests[name]] for name, part in parts.items()}


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def load_as_stranger(hub: FakeHub, home: Path, repo: str, *configs: str) -> dict[str, dict[str, list]]:
    """By config what that process has `seen`."""
    program = f"from __future__ import annotations\nimport hashlib, json\n{inspect.getsource(seen)}{STRANGER}"
    return json.loads(run_elsewhere(program, repo, *configs, environment=hub.environment(home, token=None)))


def test_prepared_data_that_has_changed_is_not_published(tmp_path: Path) -> None:
    words = ["publish", "scan", "org/scan", "--config", "length", "--dry-run", "--cache-dir", str(tmp_path)]
    assert CliRunner().invoke(app, words).exit_code == 0
    path = max(tmp_path.rglob("*-test*.arrow"), key=lambda one: one.stat().st_size)
    content = bytearray(path.read_bytes())
    at = content.index(b"I_JUMP")
    content[at : at + 6] = b"I_WALK"
    path.write_bytes(content)
    done = CliRunner().invoke(app, words)
    assert done.exit_code != 0
    assert len(done.stderr.splitlines()) == 1
    assert path.name in done.stderr


def test_published_then_loaded_without_our_code(hub: FakeHub, cache: Path, tmp_path: Path) -> None:
    """The command in one process, `load_dataset` in another, for every config that was named."""
    words = ["scan", "org/scan", *(word for config in CONFIGS for word in ("--config", config))]
    done = command(hub, tmp_path / "ours", *words, "--cache-dir", str(cache))
    assert done.returncode == 0, done.stderr
    repo = hub.repos["dataset", "org/scan"]
    expected = {"length": ["test", "train"], "length_cutoff_40": ["test", "train", "validation"]}
    paths = [f"{config}/{split}.parquet" for config, splits in expected.items() for split in splits]
    assert sorted(repo.files) == [".gitattributes", "CITATION.bib", "README.md", *paths]
    assert not repo.private
    # every file with its size, then the address
    lines = done.stdout.splitlines()
    assert lines[:-1] == [f"{len(repo.files[path]):>12,}  {path}" for path in ["CITATION.bib", "README.md", *paths]]
    assert lines[-1].startswith("published ")
    assert f"{hub.endpoint}/" in lines[-1]
    # no secret in what was written or said
    assert not [path for path, content in repo.files.items() if b"hf_writer" in content]
    assert "hf_writer" not in done.stdout + done.stderr
    theirs = load_as_stranger(hub, tmp_path / "theirs", "org/scan", *CONFIGS)
    for config in CONFIGS:
        ours = load_benchmark("scan", config, cache_dir=cache)
        assert list(theirs[config]) == list(ours)
        assert theirs[config] == seen(ours)


# columns of lists, of lists of lists, and a restricted licence
@pytest.mark.parametrize(
    ("name", "config", "options"),
    [
        pytest.param("cogs_graph", "gen_2020", [], marks=pytest.mark.slow),
        ("geoquery", "standard", []),
        ("clutrr", "gen_train23_test2to10", ["--allow-restricted"]),
    ],
)
def test_nested_columns(
    hub: FakeHub,
    cache: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    name: str,
    config: str,
    options: list[str],
) -> None:
    # the command takes nothing for upstream's file that is a part of it
    data_dir = request.getfixturevalue("sample").folder if name == "geoquery" else request.getfixturevalue("data_dir")
    ours = load_benchmark(name, config, data_dir=data_dir, cache_dir=cache)
    words = [name, "org/data", "--config", config, "--cache-dir", str(cache), "--data-dir", str(data_dir)]
    done = command(hub, tmp_path / "ours", *words, *options)
    assert done.returncode == 0, done.stderr
    theirs = load_as_stranger(hub, tmp_path / "theirs", "org/data", config)[config]
    assert list(theirs) == list(ours)
    assert theirs == seen(ours)


def test_streamed_is_not_published(hub: FakeHub) -> None:
    with pytest.raises(UserError, match=r"^c4 .*https://"):
        publish_dataset("c4", "org/c4", dry_run=True, api=api(hub))


def test_dry_run(hub: FakeHub, cache: Path) -> None:
    published = publish_dataset("scan", "org/scan", ["length"], dry_run=True, cache_dir=cache, api=api(hub))
    assert list(published.files) == ["CITATION.bib", "README.md", "length/test.parquet", "length/train.parquet"]
    assert published.url == ""
    assert hub.requests == []
    sent = publish_dataset("scan", "org/scan", ["length"], cache_dir=cache, api=api(hub))
    assert sent.files == published.files
    files = hub.repos["dataset", "org/scan"].files
    assert sent.files == {path: len(files[path]) for path in sent.files}


def test_interrupted_upload_is_gone_on_with(hub: FakeHub, cache: Path) -> None:
    hub.puts_before_failure = 3
    with pytest.raises(UserError, match=r"org/scan.*413"):
        publish_dataset("scan", "org/scan", CONFIGS, cache_dir=cache, api=api(hub))
    assert len(hub.objects) == 3
    # nothing is seen before all is there
    assert list(hub.repos["dataset", "org/scan"].files) == [".gitattributes"]
    hub.puts_before_failure = None
    before = hub.count("PUT")
    published = publish_dataset("scan", "org/scan", CONFIGS, cache_dir=cache, api=api(hub))
    assert hub.count("PUT") - before == 2
    assert set(hub.repos["dataset", "org/scan"].files) == {".gitattributes", *published.files}


def test_a_benchmark_whose_name_begins_alike_is_a_clash(hub: FakeHub, cache: Path) -> None:
    publish_dataset("scan", "org/scan", ["length"], cache_dir=cache, api=api(hub))
    card = hub.repos["dataset", "org/scan"].files["README.md"]
    hub.repos["dataset", "org/scan"].files["README.md"] = card.replace(b"- hf-sysgen-scan\n", b"- hf-sysgen-scan_two\n")
    with pytest.raises(UserError, match=r"org/scan .*\bscan\b"):
        publish_dataset("scan", "org/scan", ["length"], cache_dir=cache, api=api(hub))


def test_tags_and_collection(hub: FakeHub, cache: Path) -> None:
    options = {"cache_dir": cache, "api": api(hub), "tags": ["v1"], "collection": "csordas2021"}
    for _ in range(2):
        publish_dataset("scan", "org/scan", ["length"], **options)
    repo = hub.repos["dataset", "org/scan"]
    ((title, items),) = ((one["title"], one["items"]) for one in hub.collections.values())
    assert title == "hf-sysgen: Csordás et al. 2021"
    assert [(item["type"], item["id"]) for item in items] == [("dataset", "org/scan")]
    with pytest.raises(UserError, match=r"org/scan .*'v1'"):
        publish_dataset("scan", "org/scan", CONFIGS, **options)
    assert sorted(repo.state("v1").files) == [
        ".gitattributes",
        "CITATION.bib",
        "README.md",
        "length/test.parquet",
        "length/train.parquet",
    ]
    # nor on part of what is published: the tag would have more
    publish_dataset("scan", "org/both", CONFIGS, **options)
    with pytest.raises(UserError, match=r"org/both .*'v1'"):
        publish_dataset("scan", "org/both", ["length"], **options)
    with pytest.raises(UserError, match=r"'devil'.*csordas2021"):
        publish_dataset("scan", "org/scan", ["length"], collection="devil", api=api(hub))


def test_again(hub: FakeHub, cache: Path) -> None:
    publish_dataset("scan", "org/scan", CONFIGS, cache_dir=cache, api=api(hub))
    before = hub.count("PUT")
    publish_dataset("scan", "org/scan", CONFIGS, cache_dir=cache, api=api(hub))
    assert hub.count("PUT") == before
    # fewer configs: the others' files go
    publish_dataset("scan", "org/scan", ["length"], cache_dir=cache, api=api(hub))
    files = sorted(hub.repos["dataset", "org/scan"].files)
    assert files == [".gitattributes", "CITATION.bib", "README.md", "length/test.parquet", "length/train.parquet"]
    assert b"length_cutoff_40" not in hub.repos["dataset", "org/scan"].files["README.md"]


def test_private(hub: FakeHub, cache: Path) -> None:
    publish_dataset("scan", "org/scan", ["length"], private=True, cache_dir=cache, api=api(hub))
    assert hub.repos["dataset", "org/scan"].private
    with pytest.raises(UserError, match=r"org/scan .*private"):
        publish_dataset("scan", "org/scan", ["length"], cache_dir=cache, api=api(hub))


@pytest.mark.parametrize("files", [{"README.md": b"# mine"}, {"data.csv": b"mine"}], ids=list)
def test_name_clash(hub: FakeHub, files: dict[str, bytes], cache: Path) -> None:
    hub.repos["dataset", "org/scan"] = Repo("dataset", "org/scan", files=dict(files))
    with pytest.raises(UserError, match=rf"org/scan .*{next(iter(files))}"):
        publish_dataset("scan", "org/scan", ["length"], cache_dir=cache, api=api(hub))
    assert hub.repos["dataset", "org/scan"].files == files


def test_a_model_of_that_name_is_no_clash(hub: FakeHub, cache: Path) -> None:
    hub.repos["model", "org/scan"] = Repo("model", "org/scan", files={"README.md": b"a model"})
    publish_dataset("scan", "org/scan", ["length"], cache_dir=cache, api=api(hub))
    assert hub.repos["model", "org/scan"].files == {"README.md": b"a model"}


@pytest.mark.parametrize(
    ("token", "message"),
    [("hf_nobody", "the token is wrong or has expired"), ("hf_reader", "the token may not write to org")],
)
def test_wrong_token(hub: FakeHub, cache: Path, token: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        publish_dataset("scan", "org/scan", ["length"], cache_dir=cache, api=api(hub, token))
    assert token not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert hub.repos == {}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["scan", "org/scan", "--config", "length"], "no token of the hub: run `hf auth login`, or set HF_TOKEN to"),
        (["clutrr", "org/clutrr", "--dry-run"], "clutrr is restricted: CC-BY-NC-4.0"),
        (["scan", "scan"], "'scan' is "),
    ],
)
def test_command_line_errors(hub: FakeHub, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str) -> None:
    monkeypatch.setattr("hf_sysgen.hub.repository.get_token", lambda: None)
    result = CliRunner().invoke(app, ["publish", *words])
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"error: {message}")
    assert hub.requests == []


def test_dry_run_on_the_command_line(cache: Path) -> None:
    words = ["scan", "org/scan", "--config", "length", "--dry-run", "--cache-dir", str(cache)]
    result = CliRunner().invoke(app, ["publish", *words])
    assert result.exit_code == 0, result.output
    *files, total = result.stdout.splitlines()
    assert [line.split()[1] for line in files] == [
        "CITATION.bib",
        "README.md",
        "length/test.parquet",
        "length/train.parquet",
    ]
    sizes = sum(int(line.split()[0].replace(",", "")) for line in files)
    assert total == f"would publish {sizes:,} bytes in 4 files to org/scan"


def test_no_hub(cache: Path) -> None:
    nowhere = HfApi(endpoint="http://127.0.0.1:9", token="hf_secret")
    with pytest.raises(UserError, match=r"org/scan.*http://127\.0\.0\.1:9") as caught:
        publish_dataset("scan", "org/scan", cache_dir=cache, api=nowhere)
    assert "hf_secret" not in str(caught.value)


@pytest.mark.parametrize("repo", ["", "scan", "org/", "a/b/c", "org/sc an", "org/..scan"])
def test_wrong_name(hub: FakeHub, repo: str) -> None:
    with pytest.raises(UserError, match=f"'{repo}'"):
        publish_dataset("scan", repo, api=api(hub))


def test_wrong_benchmark(hub: FakeHub) -> None:
    with pytest.raises(DataError, match="did you mean 'scan'"):
        publish_dataset("scam", "org/scan", api=api(hub))
    with pytest.raises(DataError, match="did you mean 'length'"):
        publish_dataset("scan", "org/scan", ["lenght"], api=api(hub))


def test_restricted(hub: FakeHub, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(benchmarks(), "scan", replace(SCAN, restriction="No commercial use."))
    with pytest.raises(UserError, match=r"scan.*No commercial use\..*--allow-restricted"):
        publish_dataset("scan", "org/scan", ["length"], cache_dir=cache, api=api(hub))
    assert hub.requests == []
    publish_dataset("scan", "org/scan", ["length"], allow_restricted=True, cache_dir=cache, api=api(hub))
    assert b"**Restriction.** No commercial use." in hub.repos["dataset", "org/scan"].files["README.md"]


def test_a_withheld_split_is_not_published(hub: FakeHub, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = replace(SCAN.config("length"), withheld={"test": "it is kept in an archive"})
    monkeypatch.setitem(benchmarks(), "scan", replace(SCAN, configs={"length": info}))
    done = publish_dataset("scan", "org/scan", ["length"], cache_dir=cache, api=api(hub))
    assert list(done.files) == ["CITATION.bib", "README.md", "length/train.parquet"]
    card = hub.repos["dataset", "org/scan"].files["README.md"].decode()
    assert "it is kept in an archive" in card
    (entry,) = yaml.safe_load(card.split("---\n")[1])["configs"]
    assert [file["split"] for file in entry["data_files"]] == ["train"]


def test_full_disk(hub: FakeHub, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(datasets.Dataset, "to_parquet", full)
    with pytest.raises(UserError, match=r"no space left in .* set TMPDIR"):
        publish_dataset("scan", "org/scan", ["length"], cache_dir=cache, api=api(hub))
    assert hub.repos == {}


@pytest.mark.parametrize("benchmark", list_benchmarks(), ids=lambda benchmark: benchmark.name)
def test_card(benchmark: BenchmarkInfo) -> None:
    """It says everything that is known, and its head is what `load_dataset` reads."""
    configs = list(benchmark.configs.values())
    counts = {config.name: {split: 7 + row for row, split in enumerate(config.splits)} for config in configs}
    card = dataset_card(benchmark, configs, counts, "org/name")
    head = yaml.safe_load(card.split("---\n")[1])
    assert {entry["config_name"]: entry["data_files"] for entry in head["configs"]} == {
        config.name: [{"split": split, "path": f"{config.name}/{split}.parquet"} for split in config.splits]
        for config in configs
    }
    assert head["license"] in {"other", *(hub_licence(config.licence) for config in configs)}
    facts = [benchmark.citation, benchmark.homepage, benchmark.restriction, *benchmark.errata]
    for config in configs:
        facts += [
            config.description,
            config.citation,
            config.licence,
            *config.errata,
            *map(config.meaning, config.splits),
        ]
        facts += [text for source in config.sources.values() for text in (source.url, source.checksum)]
    for fact in facts:
        assert fact in card


@pytest.mark.parametrize(
    ("licence", "name"),
    [
        ("BSD-3-Clause (brendenlake/SCAN)", "bsd-3-clause"),
        ("CC-BY-NC-4.0 (facebookresearch/clutrr)", "cc-by-nc-4.0"),
        ("MIT (a copy); none stated (the original)", "other"),
        ("none stated (someone)", "other"),
        ("Unheard-of-1.0 (someone)", "other"),
    ],
)
def test_hub_licence(licence: str, name: str) -> None:
    assert hub_licence(licence) == name
