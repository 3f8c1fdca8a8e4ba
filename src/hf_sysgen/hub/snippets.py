"""Python that loads a checkpoint and uses it, for its card."""

from __future__ import annotations

import json
from typing import NamedTuple

from hf_sysgen.data.info import BenchmarkInfo
from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.prompts import prompt_text
from hf_sysgen.results.record import Record


class Use(NamedTuple):
    """
    What a model of a task is for.

    Attributes:
        hub_task: the hub's name of the task.
        auto_class: finds the model.
        code: uses `model`, and, except for relation classification, `tokenizer` and `text`.
    """

    hub_task: str
    auto_class: str
    code: str


WRITE = """\
generated = model.generate(**tokenizer([text], return_tensors="pt"))
print(tokenizer.batch_decode(generated, skip_special_tokens=True)[0])"""
# task of a benchmark -> use; `decoder` is for a model that writes the target after its prompt
USES = {
    "seq2seq": Use(
        "text-generation",
        "AutoModelForSeq2SeqLM",
        WRITE,
    ),
    "translation": Use(
        "translation",
        "AutoModelForSeq2SeqLM",
        WRITE,
    ),
    "decoder": Use(
        "text-generation",
        "AutoModelForCausalLM",
        """\
batch = tokenizer([model.config.prompt_template.replace("{input}", text)], return_tensors="pt")
generated = model.generate(**batch)[:, batch["input_ids"].shape[1] :]
print(tokenizer.batch_decode(generated, skip_special_tokens=True)[0])""",
    ),
    "language_modeling": Use(
        "text-generation",
        "AutoModelForCausalLM",
        """\
batch = tokenizer([text], return_tensors="pt")
generated = model.generate(**batch, max_new_tokens=20)[:, batch["input_ids"].shape[1] :]
print(tokenizer.batch_decode(generated)[0])""",
    ),
    "relation_classification": Use(
        "graph-ml",
        "AutoModelForSequenceClassification",
        """\
# person 1 is the daughter of person 0, and person 2 the brother of person 1: what is 2 of 0?
labels = {label: index for index, label in enumerate(model.config.edge_labels)}
edge_ids = torch.zeros(1, 3, 3, dtype=torch.long)
edge_ids[0, 0, 1], edge_ids[0, 1, 2] = labels["daughter"], labels["brother"]
logits = model(edge_ids=edge_ids, query=torch.tensor([[0, 2]])).logits
print(model.config.id2label[int(logits.argmax())])""",
    ),
    "graph_parsing": Use(
        "token-classification",
        "AutoModelForTokenClassification",
        """\
outputs = model(**tokenizer(text, return_tensors="pt"))
for kind, names in model.config.label_names.items():
    print(kind, [names[label] for label in outputs[f"{kind}_logits"][0].argmax(-1).tolist()])
print("parent", outputs.parent_logits[0].argmax(-1).tolist())""",
    ),
    "dependency_parsing": Use(
        "token-classification",
        "AutoModelForTokenClassification",
        """\
logits = model(**tokenizer(text, return_tensors="pt")).logits[0, :, :, 1:]  # label 0 is "no arc"
heads = logits.amax(-1).argmax(-1).tolist()  # the best head of each word; a tree needs more
labels = 1 + logits.argmax(-1)
print([(head, model.config.id2label[int(labels[word, head])]) for word, head in enumerate(heads)][1:])""",
    ),
}


def is_decoder(record: Record) -> bool:
    """Whether the model writes on from its prompt, without an encoder."""
    from hf_sysgen import model_types

    return model_types.is_decoder(record.recipe.model.type)


def snippet(record: Record, benchmark: BenchmarkInfo, load: str) -> str:
    """Python that loads the checkpoint and uses it on an example."""
    use: str = benchmark.task
    if use == "seq2seq" and is_decoder(record):
        # the config of a model that is judged as it is has no template
        use = "decoder" if record.recipe.in_context is None else "language_modeling"
    auto_class = USES[use].auto_class
    from hf_sysgen.model_types import is_transformers_model

    other = is_transformers_model(record.recipe.model.type)
    is_graph = use == "relation_classification"
    # the models of this package need no code of the checkpoint's
    trust = "" if "import hf_sysgen" in load or other else ", trust_remote_code=True"
    lines = [
        "import torch\n" * is_graph + f"from transformers import {auto_class}{', AutoTokenizer' * (not is_graph)}",
        f"{load}\nmodel = {auto_class}.from_pretrained(checkpoint{trust}).eval()",
    ]
    if not is_graph:
        lines[1] += f"\ntokenizer = AutoTokenizer.from_pretrained(checkpoint{trust})"
        lines.append(f"text = {_quoted(record)}")
        if use == "seq2seq" and record.recipe.data.prompt is not None and record.recipe.in_context is None:
            lines[-1] += '\ntext = model.config.prompt_template.replace("{input}", text)'
    return "\n\n".join([*lines[:2], "\n".join([*lines[2:], USES[use].code])])


def _quoted(record: Record) -> str:
    if not record.example:
        raise UserError(f"the record of {record.title} has no example, as an older version wrote it; train it again")
    text = record.example
    if record.recipe.in_context is not None:
        text = prompt_text(text, is_decoder(record), record.recipe.data.prompt)
    return json.dumps(text, ensure_ascii=False)
