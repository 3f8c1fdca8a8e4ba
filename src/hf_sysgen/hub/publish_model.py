"""Publishing trained checkpoints with their code, record and card: a repository a cell, a tag a seed and step."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from safetensors import safe_open

from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.checkpoint_folders import check_unchanged, weight_files
from hf_sysgen.files import file_name
from hf_sysgen.hub.model_card import cell_tag, citations, leaderboard_entries, model_card
from hf_sysgen.hub.repository import CARD, CITATION, Published, Repository, check_repo_id, check_tag_names, space_for
from hf_sysgen.results.predictions import check_agree, read_predictions
from hf_sysgen.results.reading import KEPT, read_record
from hf_sysgen.results.record import MODEL, PREDICTIONS, RESULTS, Record, write_record
from hf_sysgen.zoo import zoo_folder, zoo_names

if TYPE_CHECKING:
    from huggingface_hub import HfApi


@dataclass(frozen=True)
class Checkpoint:
    """A trained model on this machine.

    Attributes:
        folder: its config and weights.
        last: those of its run's last step, beside which the tokenizer is.
        record: of its run.
        step: its update.
    """

    folder: Path
    last: Path
    record: Record
    step: int

    @property
    def tag(self) -> str:
        return f"seed{self.record.seed}-step{self.step}"

    @property
    def is_last(self) -> bool:
        return self.step == self.record.steps


def publish_model(
    run: str | Path,
    repo_id: str,
    *,
    private: bool = False,
    dry_run: bool = False,
    folder: Path | None = None,
    checkpoints: bool = False,
    tags: Sequence[str] = (),
    collection: str | None = None,
    dataset: str | None = None,
    api: HfApi | None = None,
) -> list[Published]:
    """Push the checkpoints of a run, or of a cell's runs over seeds, to a model repository of the hub.

    Each checkpoint is a commit, tagged `seed<seed>-step<step>`. `main` shows the last commit, which has the lowest seed
    of this call. A commit has weights, config, code that loads them without this package, tokenizer, record, card and
    citation. The repository is made if it does not exist; one that exists must be empty or hold checkpoints of the same
    cell. Repeat the call to continue an interrupted upload: files that the hub has are not sent again.

    Args:
        run: a run's folder, a folder with runs `seed*`, or the name of a model of the zoo.
        repo_id: "owner/name".
        private: whether a new repository is private; an existing one must be what is asked for.
        dry_run: make and list the files without contacting the hub.
        folder: a new folder for the files, without contacting the hub.
        checkpoints: also those of earlier steps that are in the folders of the runs.
        tags: further names for the last commit.
        collection: a paper's name, e.g. csordas2021: the repository joins its owner's collection of that paper.
        dataset: "owner/name" of the benchmark on the hub: the card links to it, and the scores are there for its page.
        api: the hub and the token to use, default that of HF_ENDPOINT with the token of HF_TOKEN or of the login.

    Returns:
        the commits, in their order.

    Raises:
        UserError: no finished run there, or runs of several cells; a record that its predictions contradict; weights or
            config that cannot be read; a tag that stands for other weights; no space for the files; see also
            `Repository`.
    """
    runs = find_runs(run)
    records = sibling_records(runs)
    if records[0].recipe.in_context is not None:
        raise UserError(
            f"{run}: an evaluation with examples in the prompt trains nothing, so there are no weights to publish; "
            "give the folder of a training run"
        )
    for path in runs:
        # the zoo keeps no predictions
        if (file := path / PREDICTIONS).exists():
            check_agree(read_record(path / RESULTS), read_predictions(file), file)
    found = [one for path in reversed(runs) for one in _checkpoints(path, checkpoints)]
    check_tag_names(tags)
    if dataset is not None:
        check_repo_id(dataset)
    repository = Repository(repo_id, "model", cell_tag(records[0]), private, collection, dry_run, folder, api)
    names = {one.tag: _what(one) for one in reversed(found)}
    for tag in sorted(repository.tags):
        if re.fullmatch(r"seed\d+-step\d+", tag):
            names.setdefault(tag, "uploaded earlier")
    done = []
    for one in found:
        with tempfile.TemporaryDirectory(prefix="hf-sysgen-publish-") as text, space_for("the checkpoint", text):
            staged = Path(text)
            _write_files(one, staged, dataset)
            rounded = _is_float16(one.folder)
            card = model_card(records, one.record, _named(repo_id), names, one.step, dataset, rounded)
            (staged / CARD).write_text(card, encoding="utf-8")
            is_main = one is found[-1]
            its_tags = [one.tag, *(tags if is_main else [])]
            if repository.check_tags(its_tags, staged) and not is_main:
                continue
            done.append(repository.push(staged, f"{one.record.name}: {names[one.tag]}", its_tags, delete=["*"]))
    repository.collect()
    return done


def run_card(run: str | Path) -> str:
    """
    The card of a run, of the lowest seed of a cell's runs, or of a model of the zoo; or, given the file of a record, of
    a run whose weights are elsewhere, with the scores of all seeds that have a file beside it (NAME-seedN.json). Errors
    as `publish_model`.
    """
    file = Path(run)
    if file.is_file():
        record = read_record(file)
        name = file.name.rpartition("-seed")[0]
        seeds = (path for path in file.parent.glob(KEPT) if path != file and path.name.rpartition("-seed")[0] == name)
        same = (one for one in map(read_record, seeds) if one.cell_key == record.cell_key)
        folder = _checkpoint(record, Path("runs") / file_name(record.name) / f"seed{record.seed}")
        return model_card(one_cell([record, *same], file.parent), record, _named(folder))
    runs = find_runs(run)
    record = read_record(runs[0] / RESULTS)
    if str(run) in zoo_names():
        imports = "import hf_sysgen.models  # registers its models\nfrom hf_sysgen.zoo import zoo_folder"
        load = f'{imports}\n\ncheckpoint = zoo_folder("{run}")'
        return model_card(sibling_records(runs), record, load, is_rounded=_is_float16(runs[0]))
    return model_card(sibling_records(runs), record, _named(_checkpoint(record, runs[0])))


def _named(checkpoint: str) -> str:
    """A line of Python; folders may have quotes in their names."""
    return f"checkpoint = {json.dumps(checkpoint, ensure_ascii=False)}"


def _is_float16(folder: Path) -> bool:
    """Whether all weights of a checkpoint are float16, whatever the model computes in."""
    types: set[str] = set()
    for file in weight_files(folder):
        with safe_open(file, "pt") as tensors:
            types |= {tensors.get_slice(name).get_dtype() for name in tensors.keys()}  # noqa: SIM118
    return types == {"F16"}


def _checkpoint(record: Record, run: Path) -> str:
    """The folder or hub id of a run's model: of one that was judged as it is, what it was read from."""
    return str(run / MODEL) if record.recipe.in_context is None else str(record.recipe.model.pretrained)


def find_runs(run: str | Path) -> list[Path]:
    """
    The folders of finished runs that a name means, by seed: a run's own, those of a cell's folder, or the zoo's.

    Raises:
        UserError: there is none.
    """
    if str(run) in zoo_names():
        return [zoo_folder(str(run))]
    folder = Path(run)
    if (folder / RESULTS).exists():
        return [folder]
    runs = [path.parent for path in folder.glob(f"seed*/{RESULTS}")]
    if not runs:
        raise UserError(
            f"{run}: no finished run here, {RESULTS} is missing; give the folder of a run or of its seeds, or a model "
            f"of the zoo ({', '.join(zoo_names())})"
        )
    return sorted(runs, key=lambda path: read_record(path / RESULTS).seed)


def sibling_records(runs: Sequence[Path]) -> list[Record]:
    """
    The records of these runs, and of other seeds beside them (in the zoo, below them), by seed.

    Raises:
        UserError: they are not of one cell.
    """
    folders = {run.resolve() for run in runs}
    others = {path.parent for run in folders for at in (run, run.parent) for path in at.glob(f"seed*/{RESULTS}")}
    return one_cell([read_record(path / RESULTS) for path in folders | others], runs[0].parent)


def one_cell(records: Iterable[Record], where: Path) -> list[Record]:
    """
    These records by seed.

    Raises:
        UserError: they are not of one cell; names `where` they are.
    """
    records = sorted(records, key=lambda record: record.seed)
    for before, record in itertools.combinations(records, 2):
        if record.cell_key != before.cell_key or record.seed == before.seed:
            differing = ["file"] if record.file != before.file else []
            differing += record.recipe.differences(before.recipe, "result")
            raise UserError(
                f"{where}: the runs {before.title} and {record.title} are not one cell over seeds (they differ in "
                f"{', '.join(differing) or 'no key'}); keep them in folders of their own"
            )
    return records


def _checkpoints(run: Path, earlier: bool) -> Iterator[Checkpoint]:
    """The checkpoints of a run, by step; the last is its result."""
    record = read_record(run / RESULTS)
    last = run / MODEL if (run / MODEL).exists() else run
    if earlier:
        # a run resumes from `checkpoint-N`, and its recipe keeps `step-N`
        names = (re.fullmatch(r"(?:checkpoint|step)-(\d+)", path.name) for path in sorted(run.iterdir()))
        folders = {int(found[1]): run / found[0] for found in names if found}
        # of adapters, `checkpoint-N` has no whole model
        folders = {step: folder for step, folder in folders.items() if (folder / "config.json").exists()}
        for step in sorted(folders):
            if step < record.steps:
                yield Checkpoint(folders[step], last, record, step)
    yield Checkpoint(last, last, record, record.steps)


def _what(one: Checkpoint) -> str:
    """One line: seed, step, and the accuracy there."""
    if one.is_last:
        scores, some = {name: split.accuracy for name, split in one.record.splits.items()}, ""
    else:
        logged = [entry.evaluations for entry in one.record.history if entry.step == one.step]
        scores = {name: metrics.get("accuracy") for found in logged for name, metrics in found.items()}
        count = one.record.recipe.evaluation.examples
        some = f" of {count} examples" if count else ""
    shares = ", ".join(f"{name} {score:.4f}" for name, score in scores.items() if score is not None)
    return f"seed {one.record.seed}, step {one.step:,}" + (f": accuracy{some} {shares}" if shares else "")


def _write_files(one: Checkpoint, folder: Path, dataset: str | None) -> None:
    """Weights, config and code as `save_pretrained` writes them, tokenizer, record, citation, scores."""
    from hf_sysgen.evaluation.checkpoints import load_any_checkpoint

    check_unchanged(one.last)
    model, _ = load_any_checkpoint(one.folder, dtype="auto")
    model.save_pretrained(folder)
    for path in (*one.last.glob("*token*.json"), *one.last.glob("chat_template.jinja")):
        shutil.copy(path, folder)
    (folder / CITATION).write_text(citations(one.record), encoding="utf-8")
    if dataset is not None and one.is_last:
        entries = leaderboard_entries(one.record, dataset)
        path = folder / ".eval_results" / f"{one.record.recipe.data.benchmark}.yaml"
        path.parent.mkdir()
        path.write_text(yaml.safe_dump(entries, sort_keys=False), encoding="utf-8")
    write_record(folder / RESULTS, one.record.without_local_paths())
