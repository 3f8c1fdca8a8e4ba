"""The README of a checkpoint, made from the records of its runs and from what is known of its data and its paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from inspect import getfile
from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub import EvalResult, EvalResultEntry, ModelCardData, eval_result_entries_to_yaml

from hf_sysgen.config.io import dump_recipe
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.data.info import BenchmarkInfo, ConfigInfo
from hf_sysgen.data.registry import benchmark_info
from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.checkpoint_folders import HUB_ID, is_hub_id
from hf_sysgen.extensions import EXTENSIONS_VARIABLE
from hf_sysgen.files import file_name
from hf_sysgen.hub.dataset_card import count_rows, errata_lines
from hf_sysgen.hub.repository import TAG
from hf_sysgen.hub.snippets import USES, is_decoder, snippet
from hf_sysgen.hub.templates import render
from hf_sysgen.reports.comparison import INTERVAL, RULE, compare_with_papers
from hf_sysgen.reports.papers import Paper, paper_of
from hf_sysgen.reports.report import HEADER, rows_of, title
from hf_sysgen.results.record import CategoryScore, Record, SplitMetrics
from hf_sysgen.tables import mean_and_deviation

# the scores in a split's summary: key to name
SCORES = {
    "accuracy": "exact match",
    "accuracy_oracle": "exact match, oracle length",
    "exact_teacher": "exact match, teacher forcing",
    "las": "LAS",
    "uas": "UAS",
    "bleu": "BLEU",
    "comp": "COMP",
    "comp_same_form": "COMP, form of the reference",
    "perplexity": "perplexity",
}
# columns of a report
BESIDE = ("cell", "paper", "ours", "runs", "budget", "verdict")
# rows of a table over lengths; more lengths are joined
LENGTHS = 12


class Table(NamedTuple):
    """A table of a card."""

    header: list[str]
    rows: Sequence[tuple[str, ...]]
    title: str = ""


def cell_tag(record: Record) -> str:
    """The tag of a repository with the checkpoints of this record's cell."""
    return f"{TAG}-{file_name(record.name)}"


def model_card(
    records: Sequence[Record],
    main: Record,
    load: str,
    names: Mapping[str, str] | None = None,
    step: int | None = None,
    dataset: str | None = None,
    is_rounded: bool = False,
) -> str:
    """
    The README's text.

    Args:
        records: of the runs of one cell over seeds, `main` among them.
        main: of the run whose checkpoint this is.
        load: how the snippet begins: lines of Python that define `checkpoint`.
        names: the repository's tags: tag to a sentence on its meaning.
        step: of these weights, the last one by default; the scores are those of the last.
        dataset: "owner/name" of the benchmark on the hub.
        is_rounded: whether the weights are stored in float16, with the same scores.

    Raises:
        UserError: a record of another version, without an example for the snippet, or of an unknown model.
        DataError: a benchmark that this version does not have.
    """
    recipe = main.recipe
    benchmark = benchmark_info(recipe.data.benchmark)
    config, paper = benchmark.config(recipe.data.config), _paper(recipe.model.type)
    # it raises for an unknown model type; what follows expects a known one
    about = _about(main, benchmark, config)
    beside = _beside(records)
    found = {row[-1] for row in beside.rows} if beside else set()
    is_last = step in (None, main.steps)
    is_open = not (benchmark.restriction or _is_of_others(recipe) or _is_own_variant(recipe.model.type))
    data = ModelCardData(
        license="apache-2.0" if is_open else "other",
        license_name=None if is_open else "see-below",
        library_name="transformers",
        pipeline_tag=_pipeline(main, benchmark),
        base_model=_base_model(recipe),
        tags=[TAG, cell_tag(main), recipe.model.type, "systematic-generalization", "compositional-generalization"],
        model_name=main.name,
        eval_results=list(eval_results(main, benchmark, dataset)) if is_last else None,
        datasets=[dataset] if dataset else None,
        widget=[{"text": main.example, "example_title": config.name}] if is_decoder(main) and main.example else None,
    )
    return render(
        "model_card.md.jinja",
        data.to_yaml(),
        name=main.name,
        about=about,
        step=None if is_last else step,
        snippet=snippet(main, benchmark, load),
        revisions=[(f"`{name}`", text) for name, text in (names or {}).items()],
        scores=_scores(records, benchmark, with_paper=beside is None),
        beside=beside,
        interval=INTERVAL,
        verdicts=[(name, text) for name, text in RULE.items() if name in found],
        cell=recipe.paper.cell,
        cases=list(_cases(records)),
        config=config,
        counted="examples" if recipe.in_context is None else "examples scored",
        counts=count_rows(config, {name: split.examples for name, split in main.splits.items()}),
        limits=list(_limits(records, main, benchmark, config, is_rounded, is_last)),
        runs=_runs(records),
        batch=_batch(recipe),
        versions=", ".join(f"{name} {version}" for name, version in records[0].versions.items()),
        hash=main.recipe_hash,
        recipe=dump_recipe(main.without_local_paths().recipe),
        needs=_needs(recipe, benchmark),
        licences=_licences(recipe, benchmark, config),
        origin=f"as in {paper.authors}, {paper.title}" if paper else "of no paper that this package has",
        homepage=benchmark.homepage,
        citations=citations(main),
        package_version=main.versions.get("hf_sysgen", "of an unknown version"),
    )


def _needs(recipe: Recipe, benchmark: BenchmarkInfo) -> str:
    """What must be there to train the recipe, in words; empty if it needs nothing."""
    names = (recipe.model.pretrained, recipe.data.tokenizer)
    needed = [f"`{name}`" for name in names if name and "/" in name and not HUB_ID.fullmatch(name)]
    has_own_data = not benchmark.builder.startswith("hf_sysgen.")
    own = [recipe.model.type] * _is_own_variant(recipe.model.type) + [benchmark.name] * has_own_data
    if own:
        needed.append(f"the file of {' and of '.join(own)} in the folder that {EXTENSIONS_VARIABLE} names")
    if has_own_data:
        needed.append("the benchmark's files in `data.data_dir`")
    return " and ".join(needed)


def _is_own_variant(model_type: str) -> bool:
    """Whether it is a user's, from the folder of extensions."""
    import hf_sysgen.models as ours

    package = Path(ours.__file__).parent
    return model_type in ours.CONFIGS and not Path(getfile(ours.CONFIGS[model_type])).is_relative_to(package)


def citations(record: Record) -> str:
    """BibTeX of the papers of a model and of its data."""
    benchmark = benchmark_info(record.recipe.data.benchmark)
    paper = _paper(record.recipe.model.type)
    found = _citations(paper.citation if paper else "", benchmark, benchmark.config(record.recipe.data.config))
    return "\n".join(dict.fromkeys(filter(None, found)))


def _paper(model_type: str) -> Paper | None:
    """The paper that a model type is from; `None` for a user's own."""
    from hf_sysgen.models import CONFIGS

    # declared by the class itself: a user's variant may extend a config of a paper
    name = vars(CONFIGS[model_type]).get("paper") if model_type in CONFIGS else None
    return None if name is None else paper_of(name)


def leaderboard_entries(record: Record, dataset: str) -> list[dict[str, Any]]:
    """
    The record's first score of each split, as the hub reads them in `.eval_results/*.yaml`, for the page of the data.

    Args:
        dataset: "owner/name" of the benchmark on the hub. A task is called CONFIG_SPLIT.
    """
    benchmark = benchmark_info(record.recipe.data.benchmark)
    scores = {split: next(iter(_scores_of(found).items()), None) for split, found in record.splits.items()}
    return eval_result_entries_to_yaml(
        [
            EvalResultEntry(
                dataset_id=dataset,
                task_id=f"{record.recipe.data.config}_{split}",
                value=round(score[1], 4),
                notes=f"{_called(score[0], benchmark)}, seed {record.seed}",
            )
            for split, score in scores.items()
            if score is not None
        ]
    )


def eval_results(record: Record, benchmark: BenchmarkInfo, dataset: str | None = None) -> Iterator[Any]:
    """The record's scores as the hub's model-index has them, each a `huggingface_hub.EvalResult`."""
    for split, found in record.splits.items():
        for key, value in _scores_of(found).items():
            yield EvalResult(
                task_type=USES[benchmark.task].hub_task,
                task_name=benchmark.task,
                dataset_type=dataset or benchmark.name,
                dataset_name=benchmark.title,
                dataset_config=record.recipe.data.config,
                dataset_split=split,
                metric_type="exact_match" if _called(key, benchmark) == SCORES["accuracy"] else key,
                metric_name=f"{_called(key, benchmark)} (seed {record.seed})",
                metric_value=round(value, 4),
            )


def _pipeline(record: Record, benchmark: BenchmarkInfo) -> str | None:
    """The hub's name for what the model does, unless transformers has a pipeline of that name that cannot run it."""
    if is_decoder(record):
        return "text-generation"
    return USES[benchmark.task].hub_task if benchmark.task == "relation_classification" else None


def _base_model(recipe: Recipe) -> str | None:
    """The checkpoint on the hub that was fine-tuned, which the hub links to."""
    pretrained = recipe.model.pretrained
    return pretrained if pretrained and is_hub_id(pretrained) else None


def describe_model_type(model_type: str) -> str:
    """
    What the config class of a model type says that it is, in its `title`; for a user's own model without one, its
    model type. Raises UserError: no such model is known.
    """
    from hf_sysgen.evaluation.checkpoints import unknown_model_type
    from hf_sysgen.model_types import is_transformers_model
    from hf_sysgen.models import CONFIGS

    if is_transformers_model(model_type):
        return f"the model type {model_type} of transformers"
    if model_type not in CONFIGS:
        raise UserError(f"the model is a {unknown_model_type(model_type)}")
    # declared by the class itself: a user's variant may extend a config of a paper
    return vars(CONFIGS[model_type]).get("title", f"the model type {model_type}")


def _about(record: Record, benchmark: BenchmarkInfo, config: ConfigInfo) -> str:
    what, pretrained = describe_model_type(record.recipe.model.type), record.recipe.model.pretrained
    origin = f" from the pretrained `{pretrained}`" if pretrained else ""
    if (kept := record.pretrained) is not None:
        commit = f"commit {kept.commit}, " if kept.commit else ""
        origin += f" ({commit}weights of sha256 {kept.sha256[:16]})"
    if (peft := record.recipe.peft) is not None:
        origin += f", with only adapters of rank {peft.r} trained ({record.trained_parameters:,} parameters),"
    if (how := record.recipe.in_context) is not None:
        return (
            f"{what[0].upper()}{what[1:]},{origin}, with {record.num_parameters:,} parameters, judged as it is on "
            f"`{benchmark.name}` `{config.name}` ({benchmark.title}), with {how.shots} "
            f"examples of train in each prompt (rule: {how.rule}{', words of targets alone' * how.constrained}), "
            f"seed {record.seed}."
        )
    return (
        f"{what[0].upper()}{what[1:]}, with {record.num_parameters:,} parameters, trained{origin} for "
        f"{record.steps:,} steps on `{benchmark.name}` `{config.name}` ({benchmark.title}), "
        f"seed {record.seed}. It is meant for research on systematic generalization."
    )


def _scores_of(split: SplitMetrics) -> dict[str, float]:
    return {key: value for key, value in split.metrics.items() if value is not None and not key.startswith("loss")}


def _called(key: str, benchmark: BenchmarkInfo) -> str:
    """The name of a score; for a language model an example is a token."""
    if key == "accuracy" and benchmark.task == "language_modeling":
        return "accuracy of the next token"
    return SCORES.get(key, key)


def _scores(records: Sequence[Record], benchmark: BenchmarkInfo, with_paper: bool) -> Table:
    """The scores of every split, with the recipe's numbers of a paper if it has any and they are wanted."""
    rows: list[list[str]] = []
    about = records[0].recipe.paper
    printed = {"validation": about.validation, "test": about.test} if with_paper else {}
    has_paper = any(number is not None for number in printed.values())
    for split, found in records[0].splits.items():
        for key in _scores_of(found):
            by_seed = [one.splits[split].metrics.get(key) for one in records]
            row = [f"{split}: {_called(key, benchmark)}", f"{found.examples:,}"]
            row += ["-" if value is None else f"{value:.4f}" for value in by_seed]
            if len(records) > 1:
                values = [value for value in by_seed if value is not None]
                row.append(mean_and_deviation(values) if len(values) > 1 else "-")
            if has_paper:
                paper = printed.get(split) if key == about.metric else None
                row.append("-" if paper is None else f"{paper:.2f}")
            rows.append(row)
    seeds = [f"seed {one.seed}" for one in records] + ["mean ± sd"] * (len(records) > 1) + ["paper"] * has_paper
    return Table(["split: score", "examples", *seeds], [tuple(row) for row in rows])


def _beside(records: Sequence[Record]) -> Table | None:
    """The cells of the papers' tables that these runs make; None if there are none."""
    shown = [HEADER.index(column) for column in BESIDE]
    rows = [
        (title(report), *(row[place] for place in shown))
        for report in compare_with_papers("all", records)
        if report.table.compared and report.table.kind != "count"
        for row in rows_of(report, measured_only=True)
    ]
    return Table(["table", *BESIDE], rows) if rows else None


def _cases(records: Sequence[Record]) -> Iterator[Table]:
    """A table for each split by category, and by length where it has several."""
    for split in records[0].splits:
        for by, what in ((_by_category, "category"), (_by_length, "length of the target")):
            cases = [by(record.splits[split]) for record in records]
            if len(cases[0]) < 2:
                continue
            rows: list[tuple[str, ...]] = []
            for case, (count, _) in cases[0].items():
                values = [by_case[case][1] for by_case in cases if case in by_case]
                rows.append(
                    (case, f"{count:,}", f"{values[0]:.4f}" if len(values) == 1 else mean_and_deviation(values))
                )
            score = "exact match" + (f", {len(records)} seeds: mean ± sd" if len(records) > 1 else "")
            yield Table([what, "examples", score], rows, f"{split}, by {what}")


def _by_category(split: SplitMetrics) -> dict[str, CategoryScore]:
    return split.by_category


def _by_length(split: SplitMetrics) -> dict[str, CategoryScore]:
    """By length; neighbours are joined where there are many."""
    lengths = split.by_length
    size = -(-len(lengths) // LENGTHS)
    found = {}
    for start in range(0, len(lengths), size or 1):
        part = lengths[start : start + size]
        count = sum(one.examples for one in part)
        name = str(part[0].length) if len(part) == 1 else f"{part[0].length} to {part[-1].length}"
        found[name] = CategoryScore(count, sum(one.examples * one.accuracy for one in part) / count)
    return found


def _limits(
    records: Sequence[Record],
    main: Record,
    benchmark: BenchmarkInfo,
    config: ConfigInfo,
    is_rounded: bool,
    is_last: bool,
) -> Iterator[str]:
    recipe = main.recipe
    if is_rounded:
        yield "The weights are rounded to float16. All accuracies were measured again with them and are the same."
    if recipe.model.pretrained is None and recipe.data.tokenization == "words" and benchmark.task == "seq2seq":
        yield "It knows only the words of its benchmark; hf-sysgen refuses a sentence with an unknown word."
    weak = [
        f"{split} {what}{case} ({100 * share:.0f} % of {count:,})"
        for split, found in main.splits.items()
        for by, what in ((_by_category, ""), (_by_length, "length "))
        for case, (count, share) in by(found).items()
        if share < 0.5 and split != "train"
    ]
    if weak:
        yield f"Accuracy of {'these' if is_last else 'the last'} weights is below 50 % on: {', '.join(weak)}."
    if benchmark.task == "language_modeling" and recipe.data.data_dir:
        yield "It was trained on the text of a folder (`data.data_dir`), which may be a small part of the benchmark."
    if len(records) == 1:
        yield "Only one seed was trained, so the variance over seeds is not known."
    for one in (one for one in records if not one.learned):
        first, *_, last = one.losses
        yield f"Seed {one.seed} did not learn: its training loss went from {first:.2f} to {last:.2f}."
    if recipe.paper.cell:
        yield (
            f"The paper's numbers are for its own budget ({recipe.paper.cell}); this model was trained for "
            f"{main.steps:,} steps of {_batch(recipe)}."
        )
    if main.best_step is not None and is_last:
        yield f"These are the weights of step {main.best_step:,}, which scored best on the split `validation`."
    yield from errata_lines(benchmark, [config])


def _batch(recipe: Recipe) -> str:
    batches = recipe.batches
    if batches.sampling == "max_tokens":
        return f"{batches.per_update} x {batches.max_tokens:,} tokens"
    return f"{batches.size} examples"


def _runs(records: Sequence[Record]) -> Table:
    rows = [
        (
            str(record.seed),
            f"{record.steps:,}",
            f"{record.train_seconds:,.0f} s",
            record.environment.device,
            f"{record.num_processes} x {record.environment.num_threads}",
            ", ".join(f"`{one}`" for one in dict.fromkeys(_short(start.commit) for start in record.starts)),
        )
        for record in records
    ]
    return Table(["seed", "steps", "time", "device", "processes x threads", "commit"], rows)


def _short(commit: str | None) -> str:
    return "unknown" if commit is None else commit[:7] + "+" * commit.endswith("+")


def _is_of_others(recipe: Recipe) -> bool:
    """Whether the weights were trained from a checkpoint that is no model of this package."""
    from hf_sysgen.model_types import is_transformers_model

    return recipe.model.pretrained is not None and is_transformers_model(recipe.model.type)


def _licences(recipe: Recipe, benchmark: BenchmarkInfo, config: ConfigInfo) -> str:
    if _is_of_others(recipe):
        lines = [f"The weights: see the licence of `{recipe.model.pretrained}`, from which they were trained."]
    elif _is_own_variant(recipe.model.type):
        lines = [f"The code of `{recipe.model.type}` and these weights: as their author says. The rest: Apache-2.0."]
    else:
        lines = ["The code and these weights: Apache-2.0." if not benchmark.restriction else "The code: Apache-2.0."]
    lines.append(f"The data it was trained on, `{benchmark.name}` `{config.name}`: {config.licence}.")
    if benchmark.restriction:
        lines.append(f"**{benchmark.restriction}** Whether this also binds weights trained on the data is not settled.")
    return " ".join(lines)


def _citations(paper: str, benchmark: BenchmarkInfo, config: ConfigInfo) -> list[str]:
    # a benchmark's text may hold several papers, the model's among them
    entries = "\n".join((paper, benchmark.citation, config.citation)).split("\n@")
    return [entry if entry.startswith("@") else f"@{entry}" for entry in entries if entry.strip()]
