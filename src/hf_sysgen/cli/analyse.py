"""`hf-sysgen analyse` and `hf-sysgen plot`. Each imports what it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hf_sysgen.analysis import FIRST_STEP, PATIENCE, SHARE
from hf_sysgen.cli.commands import chosen, command, listed

# the analyses are functions of analysis/commands.py, by these names
ANALYSES = {
    "early-stopping": "what early stopping would have chosen (Csordas et al. 2021, Figure 1)",
    "loss-accuracy": "loss against accuracy, coloured by step (Csordas et al. 2021, Figures 2 and 4)",
    "double-descent": "accuracy and loss over training (Csordas et al. 2021, Figure 3)",
    "good-bad-loss": "losses of examples ever predicted correctly, and of the others (Csordas et al. 2021, Figure 5)",
    "convergence": "how much faster relative positions learn (Csordas et al. 2021, Figure 6)",
    "iid-table": "IID and generalization accuracies (Csordas et al. 2021, Table 8)",
    "batch-table": "accuracies with a big and with a small batch (Csordas et al. 2021, Table 9)",
    "relations": "accuracy on CLUTRR by the number of relations in a story (Bergen et al. 2021, Figure 3)",
    "role-entropy": "accuracy by the abstractness of the roles (Chakravarthy et al. 2022, Figure 3)",
    "perplexity-depth": "perplexity against depth and d_model / d_ff (Petty et al. 2023, Figures 2 and 3)",
    "generalization-depth": "generalization against depth (Petty et al. 2023, Figure 4)",
    "lexical-structural": "lexical against structural cases of COGS (Petty et al. 2023, Figure 5)",
    "matched-perplexity": "checkpoints of equal perplexity, and how to fine-tune them (Petty et al. 2023, Figure 6)",
    "equal-loss": "generalization at equal in-distribution loss (Petty et al. 2023, Figure 7)",
    "ranks": "singular values and effective ranks of feed-forward blocks (Petty et al. 2023, Figures 9 and 10)",
}
# the plots are functions plot_NAME of analysis/plot.py
PLOTS = {
    "attention": "attention weights of every layer and head on TEXT",
    "biases": "the softmax of learned biases by distance (Chaabouni et al. 2021, Figure 1)",
    "story": "a story of CLUTRR as a graph, with the attention of the query edge in each layer",
    "example": "an example of a run: CLUTRR with attention, COGS and CFQ with predicted and gold graph",
}


def add_to(app: typer.Typer) -> None:
    """Add both commands."""
    runs = "Compute one of a paper's analyses from finished runs, as a table and a figure."
    command(app, text=runs + listed(ANALYSES))(analyse)
    command(app, text="Plot a checkpoint or an example." + listed(PLOTS))(plot)


def analyse(
    name: Annotated[str, typer.Argument(help="which analysis")],
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="finished runs, kept records, or folders that contain them")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="folder for .csv and .png")] = Path("analyses"),
    split: Annotated[
        str | None,
        typer.Option(help="early-stopping, double-descent, good-bad-loss, convergence: which split; default: test"),
    ] = None,
    patience: Annotated[
        int | None, typer.Option(min=1, help=f"early-stopping: steps without a better loss; default: {PATIENCE}")
    ] = None,
    as_worded: Annotated[
        bool | None,
        typer.Option("--as-worded", help="early-stopping, convergence: follow the paper's text instead of its code"),
    ] = None,
    loss_split: Annotated[str | None, typer.Option(help="loss-accuracy: default: validation, test, validation")] = None,
    accuracy_split: Annotated[str | None, typer.Option(help="loss-accuracy: default: validation, test, test")] = None,
    first_step: Annotated[
        int | None, typer.Option(min=0, help=f"loss-accuracy: skip evaluations before this step; default: {FIRST_STEP}")
    ] = None,
    share: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help=f"convergence: share of the best accuracy; default: {SHARE}")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="matched-perplexity: fine-tuning recipe; default: recipes/petty2023/cogs.yaml")
    ] = None,
    loss: Annotated[
        float | None, typer.Option(help="equal-loss: validation loss; default: the smallest that all runs reach")
    ] = None,
) -> None:
    from hf_sysgen.analysis import commands, finding

    functions = {one: getattr(commands, one.replace("-", "_")) for one in ANALYSES}
    options = {
        "split": split, "patience": patience, "as_worded": as_worded, "loss_split": loss_split,
        "accuracy_split": accuracy_split, "first_step": first_step, "share": share, "recipe": recipe, "loss": loss,
    }  # fmt: skip
    print(finding.analyse(runs, output, chosen(name, functions, options)))


def plot(
    name: Annotated[str, typer.Argument(help="which picture")],
    checkpoint: Annotated[
        str, typer.Argument(help="a run's folder or a checkpoint's, a model of the zoo, or of the hub; example: a run")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="file for the picture: .png, .pdf or .svg")],
    text: Annotated[
        str | None, typer.Argument(help='attention, story: words; for CLUTRR "Bob wife Ann, Ann son Cy, Bob ? Cy"')
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="attention: decoder input; default: the model's own prediction")
    ] = None,
    positions: Annotated[
        bool | None, typer.Option("--positions", help="attention: from the position terms only")
    ] = None,
    reach: Annotated[
        int | None, typer.Option(min=1, help="biases: largest distance, if the model sets none; default: 8")
    ] = None,
    split: Annotated[str | None, typer.Option(help="example: which split; default: test")] = None,
    row: Annotated[int | None, typer.Option(min=0, help="example: which one of the split; default: 0")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="example: folder with the benchmark's files")] = None,
) -> None:
    from hf_sysgen.analysis import plot as plots

    functions = {one: getattr(plots, f"plot_{one}") for one in PLOTS}
    options = {
        "text": text, "target": target, "positions": positions, "reach": reach, "split": split, "row": row,
        "data_dir": data_dir,
    }  # fmt: skip
    print(chosen(name, functions, options)(checkpoint, output))
