"""The README of a checkpoint, made from the records of its runs and from what is known of its data and its paper."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hf_sysgen.data.info import BenchmarkInfo, ConfigInfo
from hf_sysgen.data.registry import benchmark_info
from hf_sysgen.hub.dataset_card import counts_table, errata_lines
from hf_sysgen.hub.papers import paper_of
from hf_sysgen.hub.repository import TAG, PublishError
from hf_sysgen.reports.report import markdown

Record = Mapping[str, Any]

# of a split's summary, what is a score: key to what it is called
SCORES = {
    "accuracy": "exact match",
    "accuracy_oracle": "exact match, length given",
    "las": "LAS",
    "uas": "UAS",
    "bleu": "BLEU",
    "comp": "COMP",
    "comp_same_form": "COMP, form of the reference",
    "perplexity": "perplexity",
}
# numbers of a split's summary that are none
COUNTS = ("examples", "tokens", "comp_other_references")
# key of a recipe with the paper's number for a split, which is of the recipe's `paper_metric`
PAPER = {"validation": "paper_validation", "test": "paper_test"}
# rows of a table over lengths; more lengths are joined
LENGTHS = 12
# places of this machine, which mean nothing on another one
PLACES = ("output_dir", "data_dir")

# task of the benchmark: what the hub calls it
PIPELINES = {
    "seq2seq": "text-generation",
    "translation": "translation",
    "language_modeling": "text-generation",
    "relation_classification": "graph-ml",
    "graph_parsing": "token-classification",
    "dependency_parsing": "token-classification",
}
AUTO_CLASSES = {
    "relation_classification": "AutoModelForSequenceClassification",
    "graph_parsing": "AutoModelForTokenClassification",
    "dependency_parsing": "AutoModelForTokenClassification",
    "language_modeling": "AutoModelForCausalLM",
}
# what to do with `model`, and but for the first with `tokenizer` and `text`
USES = {
    "relation_classification": """\
# person 1 is the daughter of person 0, and person 2 the brother of person 1: what is 2 of 0?
labels = {label: index for index, label in enumerate(model.config.edge_labels)}
edge_ids = torch.zeros(1, 3, 3, dtype=torch.long)
edge_ids[0, 0, 1], edge_ids[0, 1, 2] = labels["daughter"], labels["brother"]
logits = model(edge_ids=edge_ids, query=torch.tensor([[0, 2]])).logits
print(model.config.id2label[int(logits.argmax())])""",
    "graph_parsing": """\
outputs = model(**tokenizer(text, return_tensors="pt"))
for kind, names in model.config.label_names.items():
    print(kind, [names[label] for label in outputs[f"{kind}_logits"][0].argmax(-1).tolist()])
print("parent", outputs.parent_logits[0].argmax(-1).tolist())""",
    "dependency_parsing": """\
logits = model(**tokenizer(text, return_tensors="pt")).logits[0, :, :, 1:]  # of label 0, "no arc", nothing is wanted
heads = logits.amax(-1).argmax(-1).tolist()  # the best head of each word; a tree needs more
labels = 1 + logits.argmax(-1)
print([(head, model.config.id2label[int(labels[word, head])]) for word, head in enumerate(heads)][1:])""",
    "seq2seq": """\
generated = model.generate(**tokenizer([text], return_tensors="pt"))
print(tokenizer.batch_decode(generated, skip_special_tokens=True)[0])""",
    "language_modeling": """\
batch = tokenizer([text], return_tensors="pt")
generated = model.generate(**batch, max_new_tokens=20)[:, batch["input_ids"].shape[1] :]
print(tokenizer.batch_decode(generated)[0])""",
    "decoder": """\
batch = tokenizer([text], return_tensors="pt")
generated = model.generate(**batch)[:, batch["input_ids"].shape[1] :]
print(tokenizer.batch_decode(generated, skip_special_tokens=True)[0])""",
}


def cell_mark(record: Record) -> str:
    """The tag of a repository with the checkpoints of this record's cell."""
    return f"{TAG}-{record['name']}"


def model_card(
    records: Sequence[Record], main: Record, load: str, names: Mapping[str, str] | None = None, step: int | None = None
) -> str:
    """
    The README's text.

    Args:
        records: of the runs of one cell over seeds, `main` among them.
        main: of the run whose checkpoint this is.
        load: how the snippet begins: lines of Python that define `checkpoint`.
        names: what the repository's tags stand for: tag to a sentence.
        step: of these weights, the last one by default; the scores are those of the last.

    Raises:
        ResultsError: a record of another version, without an example for the snippet.
        DataError: a benchmark that this version does not have.
        PublishError: a model that it does not have.
    """
    from huggingface_hub import ModelCardData

    recipe = main["recipe"]
    benchmark = benchmark_info(recipe["benchmark"])
    config, paper = benchmark.config(recipe["config"]), paper_of(recipe["model"])
    origin = f"from {paper.authors}, {paper.title}" if paper else "of no paper that this package has"
    is_last = step in (None, main["steps"])
    data = ModelCardData(
        license="other" if benchmark.restriction else "apache-2.0",
        license_name="see-below" if benchmark.restriction else None,
        library_name="transformers",
        pipeline_tag=PIPELINES[benchmark.task],
        base_model=_base_model(recipe),
        tags=[TAG, cell_mark(main), recipe["model"], "systematic-generalization", "compositional-generalization"],
        model_name=main["name"],
        eval_results=list(eval_results(main, benchmark)) if is_last else None,
    )
    parts = [
        f"---\n{data.to_yaml()}\n---",
        f"# {main['name']}",
        _about(main, benchmark, config),
        "" if is_last else f"**These weights are those of step {step:,}.** All scores below are of the last step.",
        f"```python\n{snippet(main, benchmark, load)}\n```",
        _revisions(names or {}),
        "## Results",
        _scores(records, benchmark),
        *_cases(records),
        "## What the splits test",
        f"{config.description}\n\n" + counts_table(config, {name: s["examples"] for name, s in main["splits"].items()}),
        "## Limits",
        "\n".join(f"- {line}" for line in _limits(records, main, benchmark, config)),
        "## Training",
        _budget(records),
        f"The recipe, whose hash is `{main['recipe_hash']}` (`hf-sysgen train` takes it as a file):",
        f"```yaml\n{_recipe_yaml(recipe)}```",
        "## Data and licences",
        _licences(benchmark, config),
        "## Citation",
        f"The model is {origin}; the data from {benchmark.homepage}.",
        "```bibtex\n"
        + "\n".join(dict.fromkeys(filter(None, _citations(paper.citation if paper else "", benchmark, config))))
        + "\n```",
        f"Made by hf-sysgen {main['versions']['hf_sysgen']} from the records of the runs.",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def eval_results(record: Record, benchmark: BenchmarkInfo) -> Iterator[Any]:
    """The record's scores as the hub's model-index has them, each a `huggingface_hub.EvalResult`."""
    from huggingface_hub import EvalResult

    for split, summary in record["splits"].items():
        for key in _scores_of(summary):
            yield EvalResult(
                task_type=PIPELINES[benchmark.task],
                task_name=benchmark.task,
                dataset_type=benchmark.name,
                dataset_name=benchmark.description.partition(":")[0],
                dataset_config=record["recipe"]["config"],
                dataset_split=split,
                metric_type="exact_match" if _called(key, benchmark) == SCORES["accuracy"] else key,
                metric_name=f"{_called(key, benchmark)} (seed {record['seed']})",
                metric_value=round(summary[key], 4),
            )


def snippet(record: Record, benchmark: BenchmarkInfo, load: str) -> str:
    """Python that loads the checkpoint and uses it on an example."""
    from transformers import AutoModelForSeq2SeqLM

    from hf_sysgen.models import CONFIGS, MODELS

    use: str = benchmark.task
    auto_class = AUTO_CLASSES.get(use)
    if auto_class is None:
        alone = AutoModelForSeq2SeqLM not in MODELS[CONFIGS[record["recipe"]["model"]]]
        auto_class, use = ("AutoModelForCausalLM", "decoder") if alone else ("AutoModelForSeq2SeqLM", "seq2seq")
    is_graph = use == "relation_classification"
    # the models of this package need no code of the checkpoint's
    trust = "" if "hf_sysgen" in load else ", trust_remote_code=True"
    lines = [
        "import torch\n" * is_graph + f"from transformers import {auto_class}{', AutoTokenizer' * (not is_graph)}",
        f"{load}\nmodel = {auto_class}.from_pretrained(checkpoint{trust}).eval()",
    ]
    if not is_graph:
        lines[1] += f"\ntokenizer = AutoTokenizer.from_pretrained(checkpoint{trust})"
        lines.append(f"text = {_quoted(record)}")
    return "\n\n".join([*lines[:2], "\n".join([*lines[2:], USES[use]])])


def _base_model(recipe: Mapping[str, Any]) -> str | None:
    """What the hub links to: the checkpoint on it that the model goes on from."""
    from hf_sysgen.evaluation.checkpoints import is_hub_id

    pretrained = recipe.get("pretrained")
    return pretrained if pretrained and is_hub_id(pretrained) else None


def what_is(model_type: str) -> str:
    """What the configuration of a model type says that it is. Raises PublishError: no such model is known."""
    from hf_sysgen.evaluation.checkpoints import unknown_model_type
    from hf_sysgen.models import CONFIGS

    if model_type not in CONFIGS:
        raise PublishError(f"the model is a {unknown_model_type(model_type)}")
    about = " ".join((sys.modules[CONFIGS[model_type].__module__].__doc__ or "").split())
    return about.removeprefix("Configuration of ").rstrip(".")


def _quoted(record: Record) -> str:
    from hf_sysgen.results.record import ResultsError

    if not record.get("example"):
        raise ResultsError(
            f"the record of {record['name']} seed {record['seed']} has no example, as an older version wrote it; train "
            "it again"
        )
    return '"' + record["example"].replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _about(record: Record, benchmark: BenchmarkInfo, config: ConfigInfo) -> str:
    what = what_is(record["recipe"]["model"])
    pretrained = record["recipe"].get("pretrained")
    origin = f" from the pretrained `{pretrained}`" if pretrained else ""
    return (
        f"{what[0].upper()}{what[1:]}, with {record['num_parameters']:,} parameters, trained{origin} for "
        f"{record['steps']:,} steps on `{benchmark.name}` `{config.name}` ({benchmark.description.partition(':')[0]}), "
        f"seed {record['seed']}. It is here to study systematic generalization, not to be used for anything else."
    )


def _revisions(names: Mapping[str, str]) -> str:
    if not names:
        return ""
    rows = [(f"`{name}`", text) for name, text in names.items()]
    return "Give one of these as `revision`:\n\n" + markdown(("revision", "what it is"), rows, numbers=False)


def _scores_of(summary: Mapping[str, Any]) -> list[str]:
    return [
        key
        for key, value in summary.items()
        if isinstance(value, int | float) and key not in COUNTS and not key.startswith("loss")
    ]


def _called(key: str, benchmark: BenchmarkInfo) -> str:
    """What a score is called; of a language model a token is an example."""
    if key == "accuracy" and benchmark.task == "language_modeling":
        return "accuracy of the next token"
    return SCORES.get(key, key)


def _scores(records: Sequence[Record], benchmark: BenchmarkInfo) -> str:
    rows = []
    for split, summary in records[0]["splits"].items():
        for key in _scores_of(summary):
            values = [record["splits"][split][key] for record in records]
            recipe = records[0]["recipe"]
            paper = recipe.get(PAPER.get(split, "")) if key == recipe.get("paper_metric", "accuracy") else None
            rows.append(
                (
                    f"{split}: {_called(key, benchmark)}",
                    f"{summary['examples']:,}",
                    *(f"{value:.4f}" for value in values),
                    *([_spread(values)] if len(records) > 1 else []),
                    "-" if paper is None else f"{paper:.2f}",
                )
            )
    seeds = [f"seed {record['seed']}" for record in records]
    spread = ["mean ± sd"] if len(records) > 1 else []
    table = markdown(("split: score", "examples", *seeds, *spread, "paper"), rows)
    cell = records[0]["recipe"].get("paper_cell")
    return f"{table}\n\nPaper: {cell}." if cell else table


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.4f} ± {statistics.stdev(values):.4f}"


def _cases(records: Sequence[Record]) -> Iterator[str]:
    """A table for each split by category, and by length where it has several."""
    for split in records[0]["splits"]:
        for key, title in (("by_category", "category"), ("by_length", "length of the target")):
            cases = [_by_case(record["splits"][split], key) for record in records]
            if len(cases[0]) < 2:
                continue
            rows = []
            for case, (count, _) in cases[0].items():
                values = [by_case[case][1] for by_case in cases if case in by_case]
                one = f"{values[0]:.4f}" if len(values) == 1 else _spread(values)
                rows.append((case, f"{count:,}", one))
            score = "exact match" + (f", {len(records)} seeds: mean ± sd" if len(records) > 1 else "")
            yield f"### {split}, by {title}\n\n" + markdown((title, "examples", score), rows)


def _by_case(summary: Mapping[str, Any], key: str) -> dict[str, tuple[int, float]]:
    """Case to number of examples and exact match; neighbouring lengths joined where there are many."""
    if key == "by_category":
        return {name: (count, share) for name, (count, share) in summary.get(key, {}).items()}
    lengths = summary[key]
    size = -(-len(lengths) // LENGTHS)
    found = {}
    for start in range(0, len(lengths), size or 1):
        part = lengths[start : start + size]
        count = sum(number for _, number, _ in part)
        name = str(part[0][0]) if len(part) == 1 else f"{part[0][0]} to {part[-1][0]}"
        found[name] = (count, sum(number * share for _, number, share in part) / count)
    return found


def _limits(records: Sequence[Record], main: Record, benchmark: BenchmarkInfo, config: ConfigInfo) -> Iterator[str]:
    recipe = main["recipe"]
    if not recipe.get("pretrained") and recipe.get("tokens") == "words" and benchmark.task == "seq2seq":
        yield (
            "It knows the words of its benchmark and no others: hf-sysgen refuses a sentence with another word; the "
            "tokenizer alone turns it into `<unk>` and the model answers all the same."
        )
    weak = [
        f"{split} {what}{case} ({share:.2f} of {count:,})"
        for split, summary in main["splits"].items()
        for key, what in (("by_category", ""), ("by_length", "length "))
        for case, (count, share) in _by_case(summary, key).items()
        if share < 0.5 and split != "train"
    ]
    if weak:
        yield f"It is wrong more often than right on: {', '.join(weak)}."
    if benchmark.task == "language_modeling" and recipe.get("data_dir"):
        yield f"It has read the text in `{recipe['data_dir']}`, which may be a small part of the benchmark's."
    if len(records) == 1:
        yield "One seed was trained: how much results vary from seed to seed is not known."
    if recipe.get("paper_cell"):
        yield (
            f"The paper's numbers are of its own budget ({recipe['paper_cell']}); this one had {main['steps']:,} steps "
            f"of {_batch(recipe)}."
        )
    if main.get("best_step") is not None:
        yield f"The weights are those of step {main['best_step']:,}, chosen on the split `validation`."
    yield from errata_lines(benchmark, [config])


def _batch(recipe: Mapping[str, Any]) -> str:
    if recipe.get("batch_size"):
        return f"{recipe['batch_size']} examples"
    return f"{recipe['batches_per_update']} x {recipe['max_tokens']:,} tokens"


def _budget(records: Sequence[Record]) -> str:
    rows = [
        (
            str(record["seed"]),
            f"{record['steps']:,}",
            f"{record['train_seconds']:,.0f} s",
            record["device"],
            f"{record['num_processes']} x {record['num_threads']}",
            f"`{(record['git_commit'] or 'unknown')[:7]}{'+' * (record['git_commit'] or '').endswith('+')}`",
        )
        for record in records
    ]
    header = ("seed", "steps", "time", "device", "processes x threads", "commit")
    versions = ", ".join(f"{name} {version}" for name, version in records[0]["versions"].items())
    return f"{markdown(header, rows)}\n\nUpdates of {_batch(records[0]['recipe'])}; {versions}."


def _recipe_yaml(recipe: Mapping[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(without_places(recipe), sort_keys=False, allow_unicode=True)


def without_places(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe without folders of this machine; its hash does not depend on them."""
    return {**recipe, **{key: None for key in PLACES if key in recipe}}


def _licences(benchmark: BenchmarkInfo, config: ConfigInfo) -> str:
    lines = ["The code and these weights: Apache-2.0." if not benchmark.restriction else "The code: Apache-2.0."]
    lines.append(f"The data it was trained on, `{benchmark.name}` `{config.name}`: {config.licence}.")
    if benchmark.restriction:
        lines.append(f"**{benchmark.restriction}** Whether that holds for weights made from the data is not settled.")
    return " ".join(lines)


def _citations(paper: str, benchmark: BenchmarkInfo, config: ConfigInfo) -> list[str]:
    # a benchmark's text may hold several papers, the model's among them
    entries = "\n".join((paper, benchmark.citation, config.citation)).split("\n@")
    return [entry if entry.startswith("@") else f"@{entry}" for entry in entries if entry.strip()]
