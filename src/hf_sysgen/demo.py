"""The page of `hf-sysgen demo`: two checkpoints side by side, on an input that is typed or sampled."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib.figure import Figure

from hf_sysgen.analysis.attention import attention_maps, read_input, story_attention
from hf_sysgen.analysis.attention_plots import draw_layer, draw_story
from hf_sysgen.data.english_passivization import grammar as english_passivization
from hf_sysgen.data.pcfg_set import grammar as pcfg_set
from hf_sysgen.data.scan import grammar as scan
from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.checkpoint_folders import is_hub_id, record_of, run_folder
from hf_sysgen.evaluation.checkpoints import load_any_checkpoint
from hf_sysgen.evaluation.in_context import Shots
from hf_sysgen.files import write_atomic
from hf_sysgen.models.pipelines import DependencyPipeline, GraphPipeline
from hf_sysgen.results.predictions import Row, read_predictions
from hf_sysgen.results.record import PREDICTIONS, new_folder
from hf_sysgen.zoo import DEFAULT, ZOO, zoo_names

if TYPE_CHECKING:
    import gradio

# benchmarks whose grammar knows the answer
GRAMMARS: dict[str, Callable[[str], str]] = {
    "scan": scan.interpret,
    "pcfg_set": pcfg_set.interpret,
    "english_passivization": lambda source: english_passivization.parse(source).target,
}
STORY = "Bob wife Ann, Ann daughter Cy, Cy brother Di, Bob ? Di"
# rows of examples that are shown at once
ROWS = 20


class Bar(NamedTuple):
    """Accuracy on the examples of a split that have one length, or are of one category."""

    split: str
    group: int | str
    examples: int
    accuracy: float

    @property
    def label(self) -> str:
        kind = "length " if isinstance(self.group, int) else ""
        return f"{self.split}, {kind}{self.group}: {self.accuracy:.1%} of {self.examples:,}"


@functools.lru_cache(maxsize=4)
def rows_of(checkpoint: str) -> list[Row]:
    """The run's predictions, if they are beside the checkpoint."""
    path = run_folder(checkpoint) / PREDICTIONS
    return read_predictions(path) if path.exists() else []


@functools.lru_cache(maxsize=4)
def loaded(checkpoint: str) -> tuple[Any, Any]:
    """Model and tokenizer. Raises UserError."""
    return load_any_checkpoint(checkpoint)


def sample(checkpoint: str) -> str:
    """An input for a checkpoint: one of its run's examples, one that a grammar has, or its record's example."""
    record = record_of(checkpoint)
    if inputs := [row.input for row in rows_of(checkpoint) if row.input]:
        return random.choice(inputs)
    if record is not None and record.recipe.data.benchmark == "scan":
        return random.choice(list(scan.commands()))
    if record is None or record.recipe.data.benchmark == "clutrr" or not record.example:
        return STORY
    return record.example


def right_answer(checkpoint: str, text: str) -> str | None:
    """What the benchmark's grammar, or else the run's predictions, say about an input; `None` if neither knows it."""
    grammar = GRAMMARS.get(_benchmark(checkpoint) or "")
    if grammar is not None:
        try:
            return grammar(text)
        except ValueError:
            return None
    found = (getattr(row, "target", None) for row in rows_of(checkpoint) if row.input == text)
    return next(filter(None, found), None)


def nearest(checkpoint: str, text: str) -> tuple[str, str] | None:
    """The input among the run's predictions that shares most words with a text, and its right answer."""
    answers = {row.input: found for row in rows_of(checkpoint) if row.input and (found := getattr(row, "target", None))}
    if not answers:
        return None
    known = list(answers)
    best = known[int(Shots(known, "similar", 1, 0).similarity(text).argmax())]
    return best, answers[best]


@functools.lru_cache(maxsize=8)
def read(checkpoint: str, text: str) -> Any:
    """What a model reads and writes, a `Reading`. Raises UserError, DataError."""
    return read_input(*loaded(checkpoint), text)


def answer(checkpoint: str, text: str) -> str:
    """
    What a model says to an input.

    Raises:
        UserError, DataError: the checkpoint cannot be loaded, or not read the input.
    """
    (model, tokenizer), reading = loaded(checkpoint), read(checkpoint, text)
    if reading.story is not None:
        _, probabilities = story_attention(model, reading)
        best = int(probabilities.argmax())
        return f"{model.config.id2label[best]} ({float(probabilities[best]):.2f})"
    if hasattr(model, "generate"):
        return tokenizer.convert_tokens_to_string([one for one in reading.written if one != tokenizer.eos_token])
    kind = DependencyPipeline if type(model).__name__.endswith("ForDependencyParsing") else GraphPipeline
    parsed: Any = kind(model=model, tokenizer=tokenizer)(text)
    return "\n".join(", ".join(f"{key} {value}" for key, value in word.items()) for word in parsed)


@functools.lru_cache(maxsize=8)
def layers(checkpoint: str, text: str) -> dict[str, tuple[Any, int]]:
    """
    The layers whose attention can be drawn, by name: their `Maps` and number; none for a story.

    Raises:
        UserError: the model has no attention; see also `answer`.
    """
    (model, _), reading = loaded(checkpoint), read(checkpoint, text)
    maps = attention_maps(model, reading) if reading.story is None else []
    return {f"{one.kind}, layer {layer}": (one, layer) for one in maps for layer in range(len(one.layers))}


def draw_attention(checkpoint: str, text: str, layer: str | None = None) -> Figure:
    """
    What the heads of a layer attend to; for a story its graph.

    Args:
        layer: a name of `layers`; the last one if not given.

    Raises:
        UserError: as `layers`.
    """
    (model, _), reading = loaded(checkpoint), read(checkpoint, text)
    if reading.story is not None:
        return draw_story(reading.story, story_attention(model, reading)[0], checkpoint)
    found = layers(checkpoint, text)
    maps, number = found[layer or [*found][-1]]
    return draw_layer(maps, number, checkpoint)


def bars(checkpoint: str) -> list[Bar]:
    """The run's accuracy by category, of splits without categories by length of the reference."""
    record = record_of(checkpoint)
    found = []
    for split, scores in record.splits.items() if record is not None else ():
        cases = [Bar(split, name, *one) for name, one in scores.by_category.items()]
        found += cases or [Bar(split, *one) for one in scores.by_length]
    return found


def draw_bars(found: Sequence[Bar], title: str) -> Figure:
    """A bar for each length or category, a row for each split."""
    splits = list(dict.fromkeys(bar.split for bar in found))
    figure = Figure(figsize=(6, 2.4 * len(splits)), layout="constrained")
    for axes, split in zip(figure.subplots(len(splits), squeeze=False)[:, 0], splits, strict=True):
        some = [bar for bar in found if bar.split == split]
        axes.bar([str(bar.group) for bar in some], [bar.accuracy for bar in some], color="tab:blue")
        axes.set_ylim(0, 1)
        axes.set_ylabel(split)
        axes.tick_params(axis="x", labelrotation=90, labelsize=7)
    figure.suptitle(title, fontsize=10)
    return figure


def examples(checkpoint: str, label: str | None) -> list[list[str]]:
    """Input, prediction and right answer of examples behind a bar, wrong ones first."""
    bar = next((one for one in bars(checkpoint) if one.label == label), None)
    rows: list[Any] = [row for row in rows_of(checkpoint) if bar is not None and row.split == bar.split]
    rows = [row for row in rows if bar.group in (row.category, getattr(row, "target_length", None))] if bar else []
    rows.sort(key=lambda row: getattr(row, "exact", False))
    return [
        [row.input or "", getattr(row, "prediction", ""), getattr(row, "target", None) or ""] for row in rows[:ROWS]
    ]


def zoo_checkpoints() -> list[str]:
    """All models of the zoo, first those of the benchmark of its default model, which answer the same inputs."""
    return sorted(zoo_names(), key=lambda name: _benchmark(name) != _benchmark(DEFAULT))


def _benchmark(checkpoint: str) -> str | None:
    record = record_of(checkpoint)
    return record.recipe.data.benchmark if record is not None else None


def page(checkpoints: Sequence[str], any_checkpoint: bool = True) -> gradio.Blocks:
    """
    The page.

    Args:
        checkpoints: names of the zoo and folders, to choose from; the first two are shown first.
        any_checkpoint: whether who sees the page may name others.
    """
    import gradio

    def on_answer(checkpoint: str, text: str) -> str:
        try:
            found, right = answer(checkpoint, text), right_answer(checkpoint, text)
        except UserError as error:
            return str(error)
        if right is None:
            near = nearest(checkpoint, text)
            return found if near is None else f"{found}\n\nnearest known input: {near[0]}\nits answer: {near[1]}"
        return f"{found}\n\nright" if found == right else f"{found}\n\nwrong; the target is: {right}"

    def on_attention(checkpoint: str, text: str) -> tuple[Any, Any]:
        try:
            names = [*layers(checkpoint, text)]
            chosen = gradio.Dropdown(choices=names, value=names[-1] if names else None, visible=bool(names))
            return chosen, draw_attention(checkpoint, text)
        except UserError:
            return gradio.Dropdown(visible=False), None

    def on_checkpoint(checkpoint: str) -> tuple[Any, Any]:
        found = bars(checkpoint)
        drawing = draw_bars(found, "accuracy of its run by length or case") if found else None
        labels = [bar.label for bar in found] if rows_of(checkpoint) else []
        about = None if labels else f"there is no {PREDICTIONS} beside this checkpoint"
        return drawing, gradio.Dropdown(choices=labels, value=None, info=about)

    names = [*dict.fromkeys(checkpoints)]
    with gradio.Blocks(title="hf-sysgen", analytics_enabled=False) as blocks:
        gradio.Markdown("# hf-sysgen\nTwo checkpoints on one input.")
        text = gradio.Textbox(label="input", elem_id="input")
        with gradio.Row():
            sampled = gradio.Button("Sample", elem_id="sample")
            asked = gradio.Button("Answer", variant="primary", elem_id="answer")
        with gradio.Row():
            for side, name in enumerate((names * 2)[:2]):
                with gradio.Column(min_width=320):
                    chosen = gradio.Dropdown(names, value=name, label="checkpoint", allow_custom_value=any_checkpoint)
                    written = gradio.Textbox(label="prediction", lines=3, elem_id=f"prediction{side}")
                    layer = gradio.Dropdown([], label="attention", visible=False, elem_id=f"layer{side}")
                    attention = gradio.Plot(show_label=False, elem_id=f"attention{side}")
                    scores = gradio.Plot(show_label=False, elem_id=f"scores{side}")
                    bar = gradio.Dropdown([], label="examples behind a bar", elem_id=f"bar{side}")
                    table = gradio.Dataframe(headers=["input", "prediction", "right"], wrap=True)
                # drawing takes longer
                told = gradio.on([asked.click, text.submit], on_answer, [chosen, text], written)
                told.then(on_attention, [chosen, text], [layer, attention])
                layer.input(draw_attention, [chosen, text, layer], attention)
                gradio.on([blocks.load, chosen.change], on_checkpoint, chosen, [scores, bar])
                bar.change(examples, [chosen, bar], table)
                if side == 0:
                    sampled.click(sample, chosen, text)
    return blocks


def launch(checkpoints: Sequence[str], port: int | None = None, block: bool = True) -> Any:
    """Serve the page on this machine; returns its address where it does not `block`."""
    import gradio

    # fonts of the machine: none is fetched
    theme = gradio.themes.Base(font=["sans-serif"], font_mono=["monospace"])
    _, address, _ = page(checkpoints or zoo_checkpoints()).launch(
        server_port=port, theme=theme, prevent_thread_lock=not block, quiet=not block, show_error=True
    )
    return address


SPACE_CARD = """---
title: hf-sysgen
sdk: gradio
app_file: app.py
---

Two checkpoints of hf-sysgen side by side. For a wheel that no index has, name its file in `requirements.txt`.
"""


def write_space(folder: Path, checkpoints: Sequence[str]) -> list[Path]:
    """
    The page as a Space of the hub: `hf upload OWNER/NAME FOLDER --repo-type space`. Its visitors choose among the
    checkpoints.

    Returns:
        the files.

    Raises:
        UserError: a checkpoint is neither in the package nor on the hub; the folder has one of the files already, or
            cannot be written to.
    """
    for name in checkpoints:
        if not (ZOO / name / "config.json").exists() and not is_hub_id(name):
            raise UserError(f"{name}: a Space has no such folder; publish it, and give its owner/name")
    names = ", ".join(map(repr, checkpoints))
    imports = "from hf_sysgen.demo import page, zoo_checkpoints\n\n"
    app = f"{imports}page([{names}] or zoo_checkpoints(), any_checkpoint=False).launch()\n"
    files = {"app.py": app, "README.md": SPACE_CARD, "requirements.txt": "hf-sysgen[demo]\n"}
    new_folder(folder, files)
    for name, content in files.items():
        write_atomic(folder / name, content)
    return [folder / name for name in files]
