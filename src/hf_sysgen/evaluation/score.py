"""Score the predictions of a run again, with any metric: from predictions.jsonl alone, without torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.metrics.bleu import bleu, bleu_setup
from hf_sysgen.evaluation.metrics.cogs_match import renaming_match, semantic_match
from hf_sysgen.evaluation.metrics.comp import comp
from hf_sysgen.evaluation.metrics.sequences import exact_match, perplexity, shares
from hf_sysgen.evaluation.metrics.summary import grouped, scores, summarize, summarize_text, summarize_translations
from hf_sysgen.files import read_whole
from hf_sysgen.results.predictions import ModelingRow, Row, check_agree, column, read_predictions, texts
from hf_sysgen.results.reading import read_record
from hf_sysgen.results.record import METRICS, PREDICTIONS, RESULTS, Record
from hf_sysgen.tables import table

Rows = Sequence[Row]


def _exact(rows: Rows, setup: str | None) -> dict[str, float]:
    return shares({"exact_match": exact_match}, *texts(rows))


def _recorded(rows: Rows, setup: str | None) -> dict[str, float]:
    modeling = [row for row in rows if isinstance(row, ModelingRow)]
    for name in ("nats", "correct", "tokens") if modeling else ("exact", *rows[0].numbers()):
        column(rows, name)
    return scores(summarize_text(modeling) if modeling else summarize(rows))


def _recorded_translations(rows: Rows, setup: str, has_comp: bool) -> dict[str, float]:
    _, references = texts(rows)
    for name in ("exact", "target_length", "loss", "loss_teacher"):
        column(rows, name)
    pairs = column(rows, "pairs") if has_comp else None
    # the references of these rows
    numbered: list[Any] = [row.model_copy(update={"row": index}) for index, row in enumerate(rows)]
    return scores(summarize_translations(numbered, references, setup, pairs))


def _oracle(rows: Rows, setup: str | None) -> dict[str, float]:
    # the text ends at EOS; the choices up to the reference's length were scored during evaluation
    hits = column(rows, "oracle_exact")
    return {"oracle_length": sum(hits) / len(hits)}


def _cogs(rows: Rows, setup: str | None) -> dict[str, float]:
    matches = {"exact_match": exact_match, "renaming_match": renaming_match, "semantic_match": semantic_match}
    return shares(matches, *texts(rows))


def _comp(rows: Rows, setup: str | None) -> dict[str, float]:
    return {rule: comp(*texts(rows), column(rows, "pairs"), rule)["comp"] for rule in ("any_inflection", "same_form")}


def _bleu(rows: Rows, setup: str | None) -> dict[str, float]:
    return {"bleu": bleu(*texts(rows), "tokenized" if setup is None else setup)["bleu"]}


def _perplexity(rows: Rows, setup: str | None) -> dict[str, float]:
    if isinstance(rows[0], ModelingRow):
        lengths = column(rows, "tokens")
        losses = [nats / tokens for nats, tokens in zip(column(rows, "nats"), lengths, strict=True)]
    else:
        # the tokens of a reference are its words, or their pieces, and EOS
        words = zip(rows, column(rows, "target_length"), strict=True)
        lengths = [(getattr(row, "tokens", None) or length) + 1 for row, length in words]
        losses = column(rows, "loss_teacher")
    found = perplexity(losses, lengths)
    return {"perplexity": found["perplexity"], "loss": found["loss"]}


def _attachment(rows: Rows, setup: str | None) -> dict[str, float]:
    tokens = sum(column(rows, "tokens"))
    exact = column(rows, "exact")
    return {
        "las": sum(column(rows, "correct_arcs")) / tokens,
        "uas": sum(column(rows, "correct_heads")) / tokens,
        "exact_match": sum(exact) / len(exact),
    }


# functions of `hf_sysgen.evaluation.metrics.modules` by their names; `recorded` is what results.json has
SCORES: dict[str, Callable[[Rows, str | None], dict[str, float]]] = {
    "recorded": _recorded,
    "sequence_exact_match": _exact,
    "oracle_length": _oracle,
    "cogs_match": _cogs,
    "comp": _comp,
    "bleu": _bleu,
    "perplexity": _perplexity,
    "dependency_parsing": _attachment,
}


def score_predictions(path: Path, metric: str = "recorded", setup: str | None = None) -> str:
    """
    Tables of a metric for each split of a run, also by category and by length of the reference.

    Args:
        path: a run's folder, or its predictions.jsonl; the results.json next to it says whether BLEU was recorded.
        metric: one of `SCORES`.
        setup: of `bleu`, one of `hf_sysgen.evaluation.metrics.bleu.SETUPS`; by default that of the run's benchmark.

    Raises:
        UserError: no such metric, no predictions, a damaged line of them, or they lack what the metric needs; or they
            do not agree with the results.json.
    """
    if metric not in SCORES:
        raise UserError(f"no metric {metric!r}; there are {', '.join(SCORES)}")
    if setup is not None and metric != "bleu":
        raise UserError(f"setup={setup} has no effect on {metric}, only on bleu")
    path = path / PREDICTIONS if path.is_dir() else path
    rows = read_predictions(path)
    results = path.with_name(RESULTS)
    needed = metric == "bleu" and setup is None
    record = read_record(results) if needed or (metric == "recorded" and results.exists()) else None
    if metric == "recorded" and record is not None:
        check_agree(record, rows, path)
    metrics = path.with_name(METRICS)
    if metric == "recorded" and record is None and metrics.exists() and b'"bleu"' in read_whole(metrics):
        raise UserError(
            f"{path}: are translations, scored in {metrics.name} beside it; or give metric bleu and a setup"
        )
    splits: dict[str, list[Row]] = {}
    for row in rows:
        splits.setdefault(row.split, []).append(row)

    def measured(what: str, groups: Mapping[Any, Rows], split: str | None = None) -> str:
        found = {}
        for name, group in groups.items():
            of = name if split is None else split
            used = _setup_of(record, of) if setup is None and record is not None else setup
            recorded = record.splits[of].metrics if record is not None and of in record.splits else {}
            if metric == "recorded" and used is not None and "bleu" in recorded:
                found[name] = _recorded_translations(group, used, "comp" in recorded)
            else:
                found[name] = SCORES[metric](group, used)
        names = list(dict.fromkeys(key for values in found.values() for key in values))
        lines = [
            [name, f"{len(groups[name]):,}", *(f"{values[key]:.4f}" if key in values else "-" for key in names)]
            for name, values in found.items()
        ]
        return table((what, "examples", *names), lines)

    parts = [measured("split", splits)]
    for split, members in splits.items():
        for what, field in (("category", "category"), ("output length", "target_length")):
            groups = grouped(members, field)
            if len(groups) > 1:
                parts.append(measured(f"{split}, {what}", groups, split))
    return "\n\n".join(parts)


def _setup_of(record: Record, split: str) -> str:
    return bleu_setup(record.recipe.data.benchmark, record.recipe.data.config, split)
