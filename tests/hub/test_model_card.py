"""Cards of all kinds of tasks: their code runs without our package, and they say what is true of each."""

from __future__ import annotations

import ast
import functools
import shutil
from pathlib import Path

import pytest
import yaml
from card_code import as_stranger, code_of
from huggingface_hub import ModelCard, parse_eval_result_entries
from made_examples import any_benchmark
from tiny_runs import environment, tiny_recipe
from tiny_text import write_tokenizer
from transformers import AutoTokenizer
from typer.testing import CliRunner

import hf_sysgen.training.run
import hf_sysgen.training.tasks.registry
from hf_sysgen.cli.main import app
from hf_sysgen.data.clutrr.kinship import TARGETS
from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.checkpoints import encoded_sources, load_checkpoint
from hf_sysgen.hub.model_card import model_card
from hf_sysgen.hub.publish_model import publish_model, run_card
from hf_sysgen.reports.comparison import DIFFERS, RULE, SMALLER
from hf_sysgen.results.reading import read_record
from hf_sysgen.results.record import LogEntry
from hf_sysgen.training.run import run_recipe
from hf_sysgen.training.tasks import translation as translation_task
from hf_sysgen.zoo import zoo_folder

EDGE = {"model": "edge_transformer", "num_hidden_layers": 2}
CASES = {
    "relations": {**EDGE, "benchmark": "clutrr", "config": "gen_train234_test2to10"},
    "graphs": {**EDGE, "benchmark": "cogs_graph", "config": "gen_2020"},
    "trees": {**EDGE, "model": "edge_dependency_parser", "benchmark": "cfq_dependencies", "config": "mcd1_own_heads"},
    "decoder": {"model": "depth_width_decoder", "num_hidden_layers": 1, "joint_vocabulary": True},
    "roles": {"model": "role_filler_transformer", "role_scheme": "scan_prim"},
    "translation": {
        "model": "sag_t5_transformer", "benchmark": "noun_adjective", "config": "modified", "tokenization": "bpe",
        "subwords": 90, "sampling": "max_tokens", "max_tokens": 400, "num_beams": 2,
    },
    "text": {
        "model": "depth_width_decoder", "num_hidden_layers": 1, "benchmark": "c4", "config": "en", "context_length": 8,
        "streams": 2, "validation_examples": 5,
    },
}  # fmt: skip
# the pipelines of that name run these models
PIPELINES = {"relations": "graph-ml", "decoder": "text-generation", "text": "text-generation"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of runs of two steps."""
    folders = {name: tmp_path_factory.mktemp(name) for name in CASES}
    hf_sysgen.training.run.quiet_libraries()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hf_sysgen.training.tasks.registry, "load_benchmark", any_benchmark)
        search = functools.partial(translation_task.fairseq_generation_kwargs, max_length=8)
        patch.setattr(translation_task, "fairseq_generation_kwargs", search)
        for name, folder in folders.items():
            own = {"tokenizer": str(write_tokenizer(folder / "tokenizer"))} if name == "text" else {}
            run_recipe(tiny_recipe(folder, **CASES[name], **own, max_steps=2, eval_steps=None))
    return {name: folder / "run" for name, folder in folders.items()}


def test_code_without_our_package(runs: dict[str, Path], tmp_path: Path) -> None:
    """Each prints its answers, which for relations, words and trees are of the right kind and number."""
    mark = 'print("---")\n'
    codes = [code_of(run_card(run)) + mark for run in runs.values()]
    out = as_stranger(environment(HF_HOME=str(tmp_path), HF_HUB_OFFLINE="1"), *codes)
    found = dict(zip(runs, out.split("---\n"), strict=False))
    words = {name: read_record(run / "results.json").example.split() for name, run in runs.items()}
    assert found["relations"].strip() in TARGETS
    kinds = {line.split()[0]: ast.literal_eval(line.partition(" ")[2]) for line in found["graphs"].splitlines()}
    assert set(kinds) == {"role", "category", "noun_type", "verb", "parent"}
    assert {len(labels) for labels in kinds.values()} == {len(words["graphs"])}
    assert len(ast.literal_eval(found["trees"])) == len(words["trees"])
    for name in ("decoder", "roles", "translation"):
        assert len(found[name].splitlines()) == 1
    assert found["text"].strip()


def test_what_the_hub_is_told(runs: dict[str, Path]) -> None:
    for name, run in runs.items():
        data = ModelCard(run_card(run)).data
        assert data.pipeline_tag == PIPELINES.get(name)
        # CLUTRR is not for commerce; of the trees of CFQ no licence is known
        assert data.license == ("other" if name in ("relations", "trees") else "apache-2.0")
        splits = {"validation"} if name == "text" else {"validation", "test"}
        assert {result.dataset_split for result in data.eval_results} == splits
    assert "CC-BY-NC-4.0: no commercial use." in run_card(runs["relations"])
    assert "k=2" in run_card(runs["relations"])
    assert "| test: LAS | " in run_card(runs["trees"])
    translation = run_card(runs["translation"])
    for score in ("BLEU", "COMP", "COMP, form of the reference"):
        assert f"| test: {score} | " in translation
    # a count is no score
    assert "other_references" not in translation


def test_what_the_hub_shows_beside_a_decoder(runs: dict[str, Path], tmp_path: Path) -> None:
    """An input to try, links and scores by the data's repository, and a chat that is what the model reads."""
    run, record = runs["decoder"], read_record(runs["decoder"] / "results.json")
    data = ModelCard(model_card([record], record, 'checkpoint = "x"', dataset="org/scan")).data
    assert [one["text"] for one in data.widget] == [record.example]
    assert data.datasets == ["org/scan"]
    assert {result.dataset_type for result in data.eval_results} == {"org/scan"}
    assert "widget" not in ModelCard(run_card(runs["roles"])).data.to_dict()

    folder = tmp_path / "out"
    publish_model(run, "owner/name", folder=folder, dataset="org/scan")
    (path,) = (folder / ".eval_results").iterdir()
    entries = parse_eval_result_entries(yaml.safe_load(path.read_text()))
    scores = {(one.dataset_id, one.task_id): one.value for one in entries}
    config = record.recipe.data.config
    expected = {("org/scan", f"{config}_{name}"): round(split.accuracy, 4) for name, split in record.splits.items()}
    assert scores == expected
    assert "@inproceedings{lake" in (folder / "CITATION.bib").read_text()
    model, _ = load_checkpoint(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    said = [{"role": "user", "content": record.example}]
    read = encoded_sources(model, tokenizer, [record.example])[0]
    assert tokenizer.apply_chat_template(said)["input_ids"] == read


def test_what_a_model_goes_on_from(runs: dict[str, Path]) -> None:
    """The hub links to what is on the hub; a folder it would refuse."""
    record = read_record(runs["decoder"] / "results.json")
    for pretrained, link in (("runs/pretrain_41M_2/seed0/model", None), ("someone/decoder", "someone/decoder")):
        made = record.model_copy(update={"recipe": record.recipe.replace(**{"model.pretrained": pretrained})})
        card = model_card([made], made, 'checkpoint = "x"')
        assert ModelCard(card).data.base_model == link
        assert (f"where there is `{pretrained}`" in card) == (link is None)
        assert f"trained from the pretrained `{pretrained}` for 2 steps on `scan`" in " ".join(card.split())


def test_what_would_be_published_is_written_to_a_folder(runs: dict[str, Path], tmp_path: Path) -> None:
    """The files of the dry run, with the card; a folder that cannot be made, or holds something, is refused."""
    words = ["publish", str(runs["decoder"]), "owner/name"]
    listed = CliRunner().invoke(app, [*words, "--dry-run"])
    done = CliRunner().invoke(app, [*words, "--folder", str(tmp_path / "out")])
    assert done.exit_code == 0
    *listed_files, _ = listed.stdout.splitlines()
    *written, total = done.stdout.splitlines()
    assert written == listed_files
    assert total.endswith(f"to {tmp_path / 'out'}")
    files = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert files == {line.split()[1] for line in written}
    assert ModelCard.load(tmp_path / "out" / "README.md").data.library_name == "transformers"
    (tmp_path / "file").write_text("")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "results.json").write_text("mine")
    for folder in (tmp_path / "out", tmp_path / "file" / "out", tmp_path / "mine"):
        done = CliRunner().invoke(app, [*words, "--folder", str(folder)])
        assert done.exit_code == 2
        (line,) = done.stderr.splitlines()
        assert str(folder) in line


def test_seeds_that_did_not_learn_are_named(runs: dict[str, Path]) -> None:
    """Among all of a cell; a fine-tuned model starts with a low loss, so that nothing is said of it."""
    record = read_record(runs["relations"] / "results.json")
    made = [
        record.model_copy(update={"seed": seed, "history": [LogEntry(step=1, loss=2.0), LogEntry(step=9, loss=last)]})
        for seed, last in ((3, 0.25), (4, 1.75))
    ]
    limits = model_card(made, made[0], 'checkpoint = "x"').partition("## Limits")[2].partition("\n## ")[0]
    assert [line for line in limits.splitlines() if "Seed" in line] == [
        "- Seed 4 did not learn: its training loss went from 2.00 to 1.75."
    ]
    tuned = made[1].model_copy(update={"recipe": made[1].recipe.replace(**{"model.pretrained": "someone/model"})})
    assert "did not learn" not in model_card([tuned], tuned, 'checkpoint = "x"')


def test_a_score_that_a_seed_lacks(runs: dict[str, Path]) -> None:
    """Every other one stays in the column of its seed."""
    record = read_record(runs["relations"] / "results.json")
    made = []
    for seed, accuracy in ((1, 0.5), (2, None), (3, 0.25)):
        split = record.splits["test"].model_copy(update={"accuracy": accuracy})
        made.append(record.model_copy(update={"seed": seed, "splits": {"test": split}}))
    card = model_card(made, made[0], 'checkpoint = "x"')
    (row,) = (line for line in card.splitlines() if line.startswith("| test: exact match |"))
    assert [cell.strip() for cell in row.split("|")][3:7] == ["0.5000", "-", "0.2500", "0.3750 ± 0.1768"]


def test_weights_of_others_keep_their_licence(runs: dict[str, Path]) -> None:
    record = read_record(runs["decoder"] / "results.json")
    model = record.recipe.model.model_copy(update={"type": "t5", "pretrained": "someone/model", "fields": {}})
    recipe = record.recipe.model_copy(update={"model": model})
    tuned = record.model_copy(update={"recipe": recipe})
    for one, licence in ((record, "apache-2.0"), (tuned, "other")):
        card = model_card([one], one, 'checkpoint = "x"')
        assert ModelCard(card).data.license == licence
        assert ("weights: Apache-2.0" in card) == (licence == "apache-2.0")


def test_an_earlier_checkpoint_has_not_the_scores_of_the_last(runs: dict[str, Path]) -> None:
    record = read_record(runs["relations"] / "results.json").model_copy(update={"best_step": 2})
    for step, said in ((1, False), (None, True)):
        limits = model_card([record], record, 'checkpoint = "x"', step=step).partition("## Limits")[2]
        assert ("These are the weights of step 2" in limits) == said
        assert ("Accuracy of these weights" in limits) == said


@pytest.mark.parametrize("name", ["hf_sysgen_runs", 'a"; print("ran"); x="', "b\\"])
def test_any_name_of_a_folder(name: str, runs: dict[str, Path], tmp_path: Path) -> None:
    run = shutil.copytree(runs["relations"], tmp_path / name / "run")
    (line,) = (line for line in run_card(run).splitlines() if line.startswith("checkpoint = "))
    (assigned,) = ast.parse(line).body
    assert ast.literal_eval(assigned.value) == str(run / "model")
    assert "trust_remote_code=True" in run_card(run)


def test_what_verdicts_mean() -> None:
    """Of those that the card has, and of no other; a commit that a run went on from is named once."""
    record = read_record(zoo_folder("scan_length26_quick_universal") / "results.json")
    start = record.starts[0]
    card = model_card([record.model_copy(update={"starts": (start, start)})], record, "checkpoint = ''")
    assert SMALLER in card
    assert f"- {SMALLER}: {RULE[SMALLER]}." in card
    assert RULE[DIFFERS] not in card
    assert card.count(f"`{start.commit[:7]}`") == 1


def test_a_record_without_an_example(runs: dict[str, Path]) -> None:
    record = read_record(runs["decoder"] / "results.json").model_copy(update={"example": None})
    with pytest.raises(UserError, match="tiny seed 0 has no example"):
        model_card([record], record, 'checkpoint = "x"')


def test_a_record_of_an_unknown_model(runs: dict[str, Path]) -> None:
    record = read_record(runs["decoder"] / "results.json")
    model = record.recipe.model.model_copy(update={"type": "unheard_of"})
    record = record.model_copy(update={"recipe": record.recipe.model_copy(update={"model": model})})
    with pytest.raises(UserError, match="unheard_of"):
        model_card([record], record, 'checkpoint = "x"')
