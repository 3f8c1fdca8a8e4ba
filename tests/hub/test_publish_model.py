"""Checkpoints on the hub: pushed by us, used by a process that has none of our code."""

from __future__ import annotations

import functools
import json
import re
import shutil
from pathlib import Path

import huggingface_hub
import pytest
import torch
from card_code import as_stranger, code_of
from fake_hub import CLIENT_WARNING, FakeHub, Repo, api, command
from huggingface_hub import ModelCard
from huggingface_hub.repocard_data import model_index_to_eval_results
from safetensors.torch import load, load_file, save_file
from tiny_runs import learned_run
from typer.testing import CliRunner

from hf_sysgen.cli.main import app
from hf_sysgen.config.io import parse_recipe, parse_yaml
from hf_sysgen.data import load_benchmark
from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.checkpoint_folders import checkpoint_folder
from hf_sysgen.evaluation.checkpoints import load_checkpoint, predict
from hf_sysgen.hub.model_card import model_card
from hf_sysgen.hub.publish_model import find_runs, publish_model, run_card
from hf_sysgen.models import CONFIGS
from hf_sysgen.reports.papers import papers
from hf_sysgen.results.reading import read_record
from hf_sysgen.results.record import Record, write_record
from hf_sysgen.zoo import CHECKPOINTS, DEFAULT, ZOO, zoo_folder, zoo_names

pytestmark = pytest.mark.filterwarnings(f"{CLIENT_WARNING}:DeprecationWarning")
CARDS = Path(__file__).parents[2] / "model_cards"


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs of one cell for the seeds 0 and 1. Of the latter also an earlier step."""
    folder = tmp_path_factory.mktemp("cell")
    learned_run(folder)
    (folder / "run").rename(folder / "seed0")
    for path in folder.glob("seed0/checkpoint-*"):
        shutil.rmtree(path)
    shutil.copytree(folder / "seed0", folder / "seed1")
    path = folder / "seed1" / "results.json"
    record = json.loads(path.read_text())
    record["seed"] = record["recipe"]["seed"] = 1
    record["recipe"]["output_dir"] = str(folder / "seed1")
    for split in record["splits"].values():
        split["accuracy"] /= 2
    path.write_text(json.dumps(record))
    # they would contradict the record
    (folder / "seed1" / "predictions.jsonl").unlink()
    shift_weights(folder / "seed1" / "model")
    shutil.copytree(folder / "seed1" / "model", folder / "seed1" / "step-100")
    for tokenizer in folder.glob("seed1/step-100/*token*.json"):
        tokenizer.unlink()
    shift_weights(folder / "seed1" / "step-100")
    return folder


def shift_weights(folder: Path) -> None:
    # an earlier step's folder has no mark
    (folder / "complete").unlink(missing_ok=True)
    weights = load_file(folder / "model.safetensors")
    save_file(
        {name: tensor + 0.001 for name, tensor in weights.items()}, folder / "model.safetensors", {"format": "pt"}
    )


# two processes that import transformers
@pytest.mark.slow
def test_published_then_used_without_our_code(hub: FakeHub, cell: Path, tmp_path: Path) -> None:
    """The command in one process; in another the code of the card as it stands, then every tag by `revision`."""
    words = [str(cell), "org/model", "--checkpoints", "--tag", "v1", "--collection", "csordas2021"]
    done = command(hub, tmp_path / "ours", *words)
    assert done.returncode == 0, done.stderr
    repo = hub.repos["model", "org/model"]
    tags = ["seed1-step100", "seed1-step300", "seed0-step300", "v1"]
    assert list(repo.tags) == tags
    assert repo.state("v1").sha == repo.state("seed0-step300").sha == repo.sha
    assert [len(repo.state(tag).commits) for tag in tags] == [1, 2, 3, 3]
    for line, names in zip(
        [line for line in done.stdout.splitlines() if line.startswith("published")],
        ["seed1-step100", "seed1-step300", "seed0-step300, v1"],
        strict=True,
    ):
        assert f" as {names}: {hub.endpoint}/" in line
    for path, content in repo.files.items():
        assert path == ".gitattributes" or f"{len(content):>12,}  {path}\n" in done.stdout
        # neither a secret nor a place of this machine
        assert b"hf_writer" not in content
        assert str(cell).encode() not in content
    assert not [path for path in (tmp_path / "ours").rglob("*") if path.is_file() and b"hf_writer" in path.read_bytes()]
    assert "hf_writer" not in done.stdout + done.stderr
    assert [item["id"] for item in next(iter(hub.collections.values()))["items"]] == ["org/model"]

    codes = [code_of(repo.files["README.md"].decode())]
    codes += [codes[0].replace("(checkpoint,", f"(checkpoint, revision='{tag}',") for tag in tags[:3]]
    lines = as_stranger(hub.environment(tmp_path / "theirs", token=None), *codes).splitlines()
    record = read_record(cell / "seed0" / "results.json")
    rows = [json.loads(line) for line in (cell / "seed0" / "predictions.jsonl").read_text().splitlines()]
    (expected,) = {row["prediction"] for row in rows if row["input"] == record.example and row["split"] == "test"}
    assert lines[0] == lines[3] == expected
    assert len(lines) == 4
    for tag, folder in zip(tags, ("seed1/step-100", "seed1/model", "seed0/model"), strict=False):
        ours, theirs = (
            load((cell / folder / "model.safetensors").read_bytes()),
            repo.state(tag).files["model.safetensors"],
        )
        assert all(torch.equal(tensor, ours[name]) for name, tensor in load(theirs).items())


def test_a_checkpoint_of_the_hub_predicts_here(hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_model(DEFAULT, "org/zoo", api=api(hub))
    # whose address is read from the environment on import
    download = functools.partial(huggingface_hub.snapshot_download, endpoint=hub.endpoint, cache_dir=tmp_path)
    monkeypatch.setattr("hf_sysgen.evaluation.checkpoint_folders.snapshot_download", download)
    result = CliRunner().invoke(app, ["predict", "-c", "org/zoo", "walk left"])
    assert result.stdout == "I_TURN_LEFT I_WALK\n", result.output
    assert not list(tmp_path.rglob("*.py")), "only our own code is run"
    result = CliRunner().invoke(app, ["predict", "-c", "org/absent", "walk left"])
    assert result.stderr.startswith("error: org/absent: ")


def test_a_revision_of_a_checkpoint(hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_model(DEFAULT, "org/zoo", tags=["v1"], api=api(hub))
    api(hub).upload_file(path_or_fileobj=b"{}", path_in_repo="later.json", repo_id="org/zoo")
    download = functools.partial(huggingface_hub.snapshot_download, endpoint=hub.endpoint, cache_dir=tmp_path)
    monkeypatch.setattr("hf_sysgen.evaluation.checkpoint_folders.snapshot_download", download)
    for revision, is_there in ((None, True), ("v1", False)):
        folder = checkpoint_folder("org/zoo", revision)
        assert (folder / "later.json").exists() == is_there
        # its name is the commit, which a record keeps
        assert folder.name == hub.repos["model", "org/zoo"].state(revision).sha


def test_dry_run_lists_every_file(cell: Path) -> None:
    result = CliRunner().invoke(app, ["publish", str(cell / "seed0"), "org/model", "--dry-run"])
    assert result.exit_code == 0, result.output
    *files, total = result.stdout.splitlines()
    names = {line.split()[1] for line in files}
    assert {"README.md", "config.json", "model.safetensors", "results.json", "tokenizer.json", "seq2seq.py"} <= names
    sizes = sum(int(line.split()[0].replace(",", "")) for line in files)
    assert total == f"would publish {sizes:,} bytes in {len(files)} files to org/model as seed0-step300"


def test_interrupted_between_commits_and_within(hub: FakeHub, cell: Path) -> None:
    hub.puts_before_failure = 1
    with pytest.raises(UserError, match=r"org/model.*413"):
        publish_model(cell, "org/model", api=api(hub))
    repo = hub.repos["model", "org/model"]
    assert list(repo.tags) == ["seed1-step300"]
    hub.puts_before_failure = None
    commits = publish_model(cell, "org/model", api=api(hub))
    # the first is there already
    assert [one.tags for one in commits] == [("seed0-step300",)]
    assert hub.count("PUT") == 3, "one that was refused, and one of each weights"
    assert len(repo.commits) == 2
    before = repo.state("seed0-step300").sha
    publish_model(cell, "org/model", api=api(hub))
    assert repo.tags["seed0-step300"] == before


@pytest.mark.parametrize("wrong", ["", "a b", "v1.", "a..b", "x.lock", "-v1", "é/"])
def test_a_tag_that_git_refuses_is_told_before_the_upload(wrong: str, hub: FakeHub, cell: Path) -> None:
    for how in ({"api": api(hub)}, {"dry_run": True}):
        with pytest.raises(UserError, match="tag"):
            publish_model(cell, "org/model", tags=[wrong], **how)
    with pytest.raises(UserError, match="'nonsense'"):
        publish_model(cell / "seed0", "org/model", dataset="nonsense", dry_run=True)
    assert ("model", "org/model") not in hub.repos


def test_tags_do_not_move(hub: FakeHub, cell: Path, tmp_path: Path) -> None:
    publish_model(cell / "seed0", "org/model", api=api(hub))
    shutil.copytree(cell / "seed0", tmp_path / "seed0")
    shift_weights(tmp_path / "seed0" / "model")
    with pytest.raises(UserError, match="'seed0-step300'"):
        publish_model(tmp_path / "seed0", "org/model", api=api(hub))
    assert len(hub.repos["model", "org/model"].commits) == 1


def test_repository_of_something_else(hub: FakeHub, cell: Path) -> None:
    publish_model(DEFAULT, "org/model", private=True, api=api(hub))
    with pytest.raises(UserError, match=r"org/model .*\btiny\b"):
        publish_model(cell, "org/model", private=True, api=api(hub))
    with pytest.raises(UserError, match=r"org/model .*private"):
        publish_model(DEFAULT, "org/model", api=api(hub))
    hub.repos["model", "org/broken"] = Repo("model", "org/broken", files={"README.md": b"---\na: [\n---\n"})
    with pytest.raises(UserError, match="org/broken"):
        publish_model(cell, "org/broken", api=api(hub))
    assert hub.repos["model", "org/broken"].commits == []


@pytest.mark.parametrize(
    ("token", "message"),
    [("hf_nobody", "the token is wrong or has expired"), ("hf_reader", "the token may not write to org")],
)
def test_wrong_token(hub: FakeHub, cell: Path, token: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        publish_model(cell / "seed0", "org/model", api=api(hub, token))
    assert token not in str(caught.value)
    assert hub.repos == {}


def test_what_cannot_be_published(cell: Path, tmp_path: Path) -> None:
    for words, pattern in (
        (["scam", "org/model"], r"'scam'.*'scan'"),
        (["scan", "org/scan", "--checkpoints"], r"--checkpoints.*\bscan\b"),
        ([DEFAULT, "org/scan", "--config", "length"], r"--config\b"),
    ):
        result = CliRunner().invoke(app, ["publish", *words])
        assert result.exit_code == 2
        assert re.search(pattern, result.output)
    with pytest.raises(UserError, match=r"results\.json"):
        publish_model(tmp_path, "org/model")
    shutil.copytree(cell, tmp_path / "cell")
    weights = tmp_path / "cell" / "seed0" / "model" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(UserError, match=r"seed0/model/model\.safetensors"):
        publish_model(tmp_path / "cell" / "seed0", "org/model", dry_run=True)
    path = tmp_path / "cell" / "seed1" / "results.json"
    path.write_text(path.read_text().replace('"size": 32', '"size": 64'))
    with pytest.raises(UserError, match=r"\bbatches\.size\b"):
        publish_model(tmp_path / "cell", "org/model", dry_run=True)


# cards


@pytest.fixture(scope="module")
def records(cell: Path) -> list[Record]:
    return [read_record(cell / seed / "results.json") for seed in ("seed0", "seed1")]


def test_card_says_what_was_measured(cell: Path, records: list[Record]) -> None:
    card = run_card(cell)
    first, second = (record.splits["test"] for record in records)
    mean, gap = (first.accuracy + second.accuracy) / 2, abs(first.accuracy - second.accuracy)
    cells = [f"{first.accuracy:.4f}", f"{second.accuracy:.4f}", f"{mean:.4f} ± {gap / 2**0.5:.4f}"]
    assert f"| test: exact match | {first.examples} | {' | '.join(cells)} |" in card
    assert f"| {first.by_length[0].length} | " in card
    for fact in ("BSD-3-Clause (brendenlake/SCAN)", "csordas2021devil", "lake2018generalization", "32 examples"):
        assert fact in card
    assert f"`{records[0].recipe_hash}`" in card
    (recipe,) = re.findall(r"^```yaml\n(.*?)^```", card, flags=re.MULTILINE | re.DOTALL)
    assert parse_recipe(parse_yaml(recipe, "card")).hash == records[0].recipe_hash


def test_model_index_is_what_the_hub_reads(records: list[Record]) -> None:
    head = ModelCard(model_card(records, records[1], 'checkpoint = "x"')).data.to_dict()
    name, results = model_index_to_eval_results(head["model-index"])
    assert name == "tiny"
    found = {(result.dataset_split, result.metric_type): result for result in results}
    splits = records[1].splits
    assert set(found) == {(split, key) for split in splits for key in ("exact_match", "accuracy_oracle")}
    for split, summary in splits.items():
        assert found[split, "exact_match"].metric_value == round(summary.accuracy, 4)
        assert found[split, "exact_match"].metric_name == "exact match (seed 1)"
        assert (found[split, "exact_match"].dataset_type, found[split, "exact_match"].dataset_config) == (
            "scan",
            "length_cutoff_26",
        )
    # of an earlier step there is no such measurement
    assert "model-index" not in ModelCard(model_card(records, records[1], "", step=100)).data.to_dict()


def test_every_variant_is_from_a_paper() -> None:
    quoted = {paper.id for paper in papers() if any(table.numbers == "printed" for table in paper.tables)}
    assert {vars(config).get("paper") for config in CONFIGS.values()} == quoted


@pytest.mark.parametrize("name", zoo_names())
def test_cards_of_the_zoo_are_those_of_its_records(name: str) -> None:
    card = run_card(name)
    assert (zoo_folder(name) / "README.md").read_text(encoding="utf-8") == card, "python perf/kept_records.py"
    assert (CARDS / f"{name}.md").resolve() == (zoo_folder(name) / "README.md").resolve()


def test_card_of_kept_records_has_their_seeds(tmp_path: Path) -> None:
    record = read_record(CARDS.parent / "results/bergen2021/clutrr_edge_234_quick-seed0.json")

    def kept(seed: int, accuracy: float, **changes) -> Path:
        test = record.splits["test"].model_copy(update={"accuracy": accuracy})
        splits = {**record.splits, "test": test}
        one = record.model_copy(update={"seed": seed, "splits": splits, **changes})
        path = one.kept_at(tmp_path)
        write_record(path, one)
        return path

    first = kept(0, 0.5)
    kept(7, 0.75)
    kept(1, 0.0, file="bergen2021/another")
    card = run_card(first)
    assert "0.6250" in card
    assert "another" not in card
    write_record(first.with_name("copy-seed8.json"), read_record(first).model_copy(update={"seed": 8}))
    assert run_card(first) == card
    # two records of one seed
    write_record(first.with_name(first.name.replace("-seed0", "-seed9")), read_record(first))
    with pytest.raises(UserError, match="not one cell"):
        run_card(first)


def test_a_card_has_the_papers_numbers(records: list[Record]) -> None:
    """Those of every cell that the runs make, also of one that an override names; else what the recipe says."""
    record = read_record(
        CARDS.parent / "results/csordas2021/cogs_quick_transformer,model.embedding_scaling=teu-seed0.json"
    )
    card = model_card([record], record, 'checkpoint = "x"')
    accuracy = f"{record.splits['test'].accuracy:.3f}"
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in card.splitlines() if line[:1] == "|"]
    (row,) = (row for row in rows if row[:2] == ["Csordás et al. 2021, Table 2", "COGS, TEU, Gen. Test"])
    assert row[2:5] == ["0.78 ± 0.03", accuracy, "1"]
    own = records[0].model_copy(
        update={"recipe": records[0].recipe.replace(**{"paper.cell": "T", "paper.test": 0.125})}
    )
    card = model_card([own], own, 'checkpoint = "x"')
    assert "Paper: T." in card
    assert re.search(r"^\| test: exact match .*\| 0\.1[23] \|$", card, flags=re.MULTILINE)


HOSTILE = "<script>alert(1)</script> | a\n```\n<b>"


def test_what_a_record_says_is_text_on_its_card(records: list[Record]) -> None:
    """Of every text in a record and its recipe: no tag opens, no table row and no block of code ends."""
    paper = {"paper.cell": HOSTILE, "data.data_dir": HOSTILE}
    recipe = records[0].recipe.replace(**paper)
    hostile = records[0].model_copy(
        update={
            "file": f"x{HOSTILE}", "overrides": {"model.note": HOSTILE}, "recipe": recipe, "example": HOSTILE,
            "environment": records[0].environment.model_copy(update={"device": HOSTILE}),
            "starts": [records[0].starts[0].model_copy(update={"commit": HOSTILE, "versions": {HOSTILE: HOSTILE}})],
        }
    )  # fmt: skip
    card = model_card([hostile], hostile, 'checkpoint = "x"', {HOSTILE: HOSTILE})
    body = card.partition("\n---\n")[2]
    prose = re.sub(r"^(`{3,})\w*\n.*?^\1$", "", body, flags=re.MULTILINE | re.DOTALL)
    assert "<script>" not in prose
    assert "<b>" not in prose
    assert "&lt;script&gt;" in prose
    assert "tags:" in card.partition("\n---\n")[0]
    assert ModelCard(card).data.library_name == "transformers"
    for block in re.findall(r"^(\|.*\|\n(?:\|.*\|\n)+)", prose, flags=re.MULTILINE):
        rows = [re.sub(r"\\\|", "", line).count("|") for line in block.splitlines()]
        assert len(set(rows)) == 1, block


# those that come with the package
SMALL = [name for name in zoo_names() if zoo_folder(name).parent == ZOO]


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_the_zoo_is_small_and_shows_the_effect() -> None:
    assert size(ZOO) < 3_000_000
    assert size(CHECKPOINTS) < 60_000_000
    better, worse = (read_record(zoo_folder(name) / "results.json").splits["test"] for name in SMALL)
    assert better.accuracy > worse.accuracy + 0.5
    assert find_runs(DEFAULT) == [zoo_folder(DEFAULT)]


def test_the_zoo_gets_right_what_its_records_say() -> None:
    """As far as every 40th example can tell."""
    rows = load_benchmark("scan", "length_cutoff_26")["test"].select(range(0, 2624, 40))
    for name in SMALL:
        answers, _ = predict(*load_checkpoint(name), rows["input"][:])
        share = sum(answer == target for answer, target in zip(answers, rows["target"][:], strict=True)) / len(rows)
        recorded = read_record(zoo_folder(name) / "results.json").splits["test"].accuracy
        assert abs(share - recorded) < 3 * (recorded * (1 - recorded) / len(rows)) ** 0.5


@pytest.mark.slow
def test_code_of_the_zoos_cards(hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """It prints the same with this package as in a process without it, from what would be published."""
    codes, printed = [], []
    for name in zoo_names():
        exec(code_of(run_card(name)), {})
        printed.append(capsys.readouterr().out.strip())
        publish_model(name, f"org/{name}", api=api(hub))
        codes.append(code_of(hub.repos["model", f"org/{name}"].files["README.md"].decode()))
    capsys.readouterr()
    lines = as_stranger(hub.environment(tmp_path, token=None), *codes).splitlines()
    assert lines == [line for text in printed for line in text.splitlines()]
    for name in SMALL:
        target = printed[zoo_names().index(name)].split()
        assert len(target) > 26
        assert set(target) <= {"I_TURN_LEFT", "I_TURN_RIGHT", "I_WALK", "I_LOOK", "I_RUN", "I_JUMP"}


def test_publish_pushes_in_the_open_unless_told_otherwise(hub: FakeHub) -> None:
    publish_model(DEFAULT, "org/open", api=api(hub))
    publish_model(DEFAULT, "org/closed", private=True, api=api(hub))
    publish_model(DEFAULT, "org/none", dry_run=True, api=api(hub))
    assert {name: repo.private for (_, name), repo in hub.repos.items()} == {"org/open": False, "org/closed": True}
