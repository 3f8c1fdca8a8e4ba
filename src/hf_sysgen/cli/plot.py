"""The commands `hf-sysgen plot ...`. Every command imports what it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hf_sysgen.errors import reported

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Pictures of a checkpoint: attention, biases by distance, graphs of examples.",
)

Checkpoint = Annotated[
    str,
    typer.Argument(help="a run's folder or a checkpoint's, a model of the zoo (`hf-sysgen list zoo`), or of the hub"),
]
Output = Annotated[Path, typer.Option("--output", "-o", help="file for the picture: .png, .pdf or .svg")]


@app.command()
def attention(
    checkpoint: Checkpoint,
    text: Annotated[str, typer.Argument(help='words; for CLUTRR "Ann wife Bob, Bob son Cy, Ann ? Cy"')],
    output: Output,
    target: Annotated[str | None, typer.Option(help="what the decoder is given; default: what it writes")] = None,
    positions: Annotated[bool, typer.Option("--positions", help="where positions alone would look")] = False,
) -> None:
    """Attention weights of every layer and head on an input."""
    with reported() as outcome:
        from hf_sysgen.analysis.plot import plot_attention

        print(plot_attention(checkpoint, text, output, target, positions))
    raise typer.Exit(outcome.status)


@app.command()
def biases(
    checkpoint: Checkpoint,
    output: Output,
    reach: Annotated[int, typer.Option(min=1, help="largest distance, where distances are not capped")] = 8,
) -> None:
    """The softmax of learned biases by distance, for each head and layer (Chaabouni et al. 2021, Figure 1)."""
    with reported() as outcome:
        from hf_sysgen.analysis.plot import plot_biases

        print(plot_biases(checkpoint, output, reach))
    raise typer.Exit(outcome.status)


@app.command()
def story(
    checkpoint: Checkpoint,
    text: Annotated[str, typer.Argument(help='a story, as "Ann wife Bob, Bob son Cy, Ann ? Cy"')],
    output: Output,
) -> None:
    """A graph of relations with the attention of the edge in question, layer by layer (CLUTRR)."""
    with reported() as outcome:
        from hf_sysgen.analysis.plot import plot_story

        print(plot_story(checkpoint, text, output))
    raise typer.Exit(outcome.status)


@app.command()
def example(
    run: Annotated[Path, typer.Argument(help="the folder of a run")],
    output: Output,
    split: Annotated[str, typer.Option(help="which split")] = "test",
    row: Annotated[int, typer.Option(min=0, help="which example of it")] = 0,
    data_dir: Annotated[Path | None, typer.Option(help="folder with the benchmark's files")] = None,
) -> None:
    """An example as a graph: CLUTRR's with attention, COGS' and CFQ's predicted against right."""
    with reported() as outcome:
        from hf_sysgen.analysis.plot import plot_example

        print(plot_example(run, output, split, row, data_dir))
    raise typer.Exit(outcome.status)
