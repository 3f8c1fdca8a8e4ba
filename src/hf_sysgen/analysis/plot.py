"""The commands `hf-sysgen plot ...`: a plot of a checkpoint or of an example, as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hf_sysgen.analysis.graphs import READERS, QueryGraph
from hf_sysgen.analysis.plotting import check_picture, save
from hf_sysgen.analysis.stories import Story, parse_story, story_of
from hf_sysgen.config.recipe import Recipe
from hf_sysgen.data import load_benchmark
from hf_sysgen.errors import UserError
from hf_sysgen.results.predictions import Row, read_predictions
from hf_sysgen.results.reading import read_record
from hf_sysgen.results.record import PREDICTIONS, RESULTS


def plot_attention(
    checkpoint: str | Path, output: Path, text: str, target: str | None = None, positions: bool = False
) -> str:
    """
    Plot the attention maps of an input. Raises UserError, DataError.

    Args:
        target: what the decoder is given; default: what it writes.
        positions: where positions alone would look.
    """
    check_picture(output)
    from hf_sysgen.analysis.attention import attention_maps, position_maps, read_input
    from hf_sysgen.analysis.attention_plots import draw_maps

    model, tokenizer = _load(checkpoint)
    reading = read_input(model, tokenizer, text, target)
    maps = (position_maps if positions else attention_maps)(model, reading)
    title = f"{model.config.model_type.replace('_', ' ')}: {text}"
    if reading.decoded:
        words = [word for word in reading.written if word != tokenizer.eos_token]
        title += f"\n{'given' if target is not None else 'written'}: {' '.join(words)}"
    save(draw_maps(maps, title), output)
    return f"{', '.join(f'{one.kind}: {len(one.layers)} x {len(one.layers[0])}' for one in maps)} -> {output}"


def plot_biases(checkpoint: str | Path, output: Path, reach: int = 8) -> str:
    """
    Plot Figure 1 of Chaabouni et al. 2021 for a checkpoint. Raises UserError.

    Args:
        reach: the largest distance, where distances are not capped.
    """
    check_picture(output)
    from hf_sysgen.analysis.attention import distance_preferences
    from hf_sysgen.analysis.attention_plots import draw_preferences

    model, _ = _load(checkpoint)
    found = distance_preferences(model, reach)
    title = f"{model.config.model_type.replace('_', ' ')}: what heads prefer by distance"
    save(draw_preferences(found, title), output)
    return f"{', '.join(f'{one.kind}: {len(one.layers)} layers' for one in found)} -> {output}"


def plot_example(run: str | Path, output: Path, split: str = "test", row: int = 0, data_dir: Path | None = None) -> str:
    """
    Plot an example of a run as a graph: for CLUTRR the story with the model's attention, for COGS and CFQ the gold and
    the predicted graph from `predictions.jsonl`.

    Raises:
        UserError: the output is not a picture file, the folder is not a run, or the example is missing or not a graph;
            see also `plot_story`.
    """
    check_picture(output)
    run = Path(run)
    recipe = read_record(run / RESULTS).recipe
    benchmark = recipe.data.benchmark
    if benchmark == "clutrr":
        return plot_story(run, output, _story(recipe, split, row, data_dir))
    from hf_sysgen.analysis.graph_plots import draw_queries, draw_words

    if benchmark not in READERS:
        raise UserError(f"{run}: examples of {benchmark} are not graphs; those of clutrr, {', '.join(READERS)} are")
    found = _prediction(run / PREDICTIONS, split, row)
    gold, predicted = READERS[benchmark](found)
    said = "right" if found.exact else "wrong"
    category = f" ({found.category})" if found.category else ""
    title = f"{benchmark} {split} {row}{category}, {said}: {found.input}"
    save((draw_queries if isinstance(gold, QueryGraph) else draw_words)(gold, predicted, title), output)
    return f"{said}: {found.input} -> {output}"


def plot_story(checkpoint: str | Path, output: Path, text: Story | str) -> str:
    """Plot a story with the attention of its query, layer by layer. Raises UserError."""
    check_picture(output)
    story = parse_story(text) if isinstance(text, str) else text
    from hf_sysgen.analysis.attention import read_story, story_attention
    from hf_sysgen.analysis.attention_plots import draw_story

    model, _ = _load(checkpoint)
    layers, probabilities = story_attention(model, read_story(model, story))
    best = int(probabilities.argmax())
    first, last = (story.people[node] for node in story.query)
    answer = f"{first} → {last}: {model.config.id2label[best]} ({float(probabilities[best]):.2f})"
    if story.answer is not None:
        answer += f", gold: {story.answer}"
    save(draw_story(story, layers, f"{model.config.model_type.replace('_', ' ')}, {answer}"), output)
    return f"{answer} -> {output}"


def _load(checkpoint: str | Path) -> tuple[Any, Any]:
    import transformers

    from hf_sysgen.evaluation.checkpoints import load_any_checkpoint

    transformers.utils.logging.disable_progress_bar()
    return load_any_checkpoint(checkpoint)


def _story(recipe: Recipe, split: str, row: int, data_dir: Path | None) -> Story:
    data = load_benchmark(recipe.data.benchmark, recipe.data.config, data_dir=data_dir or recipe.data.data_dir)
    if split not in data or not 0 <= row < len(data[split]):
        sizes = ", ".join(f"{name} has {len(examples):,}" for name, examples in data.items())
        raise UserError(f"no example {row} of the split {split!r}: {sizes}")
    return story_of(data[split][row])


def _prediction(path: Path, split: str, row: int) -> Row:
    found = next((one for one in read_predictions(path, split) if one.row == row), None)
    if found is None:
        raise UserError(f"{path}: has no example {row} of the split {split!r}")
    return found
