"""The commands `hf-sysgen analyse ...`. Every command imports what it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hf_sysgen.errors import reported

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Analyses of the papers, from the folders of runs, as tables and figures.",
)

Paths = Annotated[list[Path], typer.Argument(metavar="RUN...", help="folders of finished runs, or folders of such")]
Output = Annotated[Path, typer.Option("--output", "-o", help="folder for the table (.csv) and the figure (.png)")]
AsWorded = Annotated[bool, typer.Option("--as-worded", help="as the paper words it, where its code differs")]
Split = Annotated[str, typer.Option(help="which split")]
HERE = Path("analyses")


def _run(name: str, runs: list[Path], output: Path, **options: Any) -> None:
    with reported() as outcome:
        from hf_sysgen.analysis import commands as analyse

        print(analyse.analyse(runs, output, lambda found: getattr(analyse, name)(found, **options)))
    raise typer.Exit(outcome.status)


@app.command()
def early_stopping(
    runs: Paths,
    output: Output = HERE,
    patience: Annotated[int, typer.Option(min=1, help="steps without a better loss on validation")] = 2500,
    split: Split = "test",
    as_worded: AsWorded = False,
) -> None:
    """What early stopping would have chosen (Csordas et al. 2021, Figure 1)."""
    _run("early_stopping", runs, output, patience=patience, as_worded=as_worded, split=split)


@app.command()
def loss_accuracy(
    runs: Paths,
    output: Output = HERE,
    loss_split: Annotated[str | None, typer.Option(help="default: validation, test, validation")] = None,
    accuracy_split: Annotated[str | None, typer.Option(help="default: validation, test, test")] = None,
    first_step: Annotated[int, typer.Option(min=0, help="evaluations before it are left out")] = 1000,
) -> None:
    """Loss against accuracy, coloured by step (Csordas et al. 2021, Figures 2 and 4)."""
    _run("loss_accuracy", runs, output, loss_split=loss_split, accuracy_split=accuracy_split, first_step=first_step)


@app.command()
def double_descent(runs: Paths, output: Output = HERE, split: Split = "test") -> None:
    """Accuracy and loss over training (Csordas et al. 2021, Figure 3)."""
    _run("double_descent", runs, output, split=split)


@app.command()
def good_bad_loss(runs: Paths, output: Output = HERE, split: Split = "test") -> None:
    """Losses of examples that were ever right, and of the others (Csordas et al. 2021, Figure 5), of the first run.

    It must have been trained with evaluation.save_example_losses=true.
    """
    _run("good_bad_loss", runs, output, split=split)


@app.command()
def convergence(
    runs: Paths,
    output: Output = HERE,
    share: Annotated[float, typer.Option(min=0.0, max=1.0, help="of the accuracy that is to be reached")] = 0.8,
    as_worded: AsWorded = False,
) -> None:
    """How much faster relative positions learn (Csordas et al. 2021, Figure 6)."""
    _run("convergence", runs, output, share=share, as_worded=as_worded)


@app.command()
def iid_table(runs: Paths, output: Output = HERE) -> None:
    """IID accuracies beside those of generalization (Csordas et al. 2021, Table 8)."""
    _run("iid_table", runs, output)


@app.command()
def batch_table(runs: Paths, output: Output = HERE) -> None:
    """Accuracies with a big and with a small batch (Csordas et al. 2021, Table 9)."""
    _run("batch_table", runs, output)


@app.command()
def perplexity_depth(runs: Paths, output: Output = HERE) -> None:
    """Perplexity against depth and against d_model / d_ff (Petty et al. 2023, Figures 2 and 3)."""
    _run("perplexity_depth", runs, output)


@app.command()
def generalization_depth(runs: Paths, output: Output = HERE) -> None:
    """Generalization against depth (Petty et al. 2023, Figure 4)."""
    _run("generalization_depth", runs, output)


@app.command()
def lexical_structural(runs: Paths, output: Output = HERE) -> None:
    """Lexical against structural cases of COGS (Petty et al. 2023, Figure 5)."""
    _run("lexical_structural", runs, output)


@app.command()
def matched_perplexity(
    runs: Paths,
    output: Output = HERE,
    recipe: Annotated[str, typer.Option(help="recipe of the fine-tuning")] = "recipes/petty2023/cogs.yaml",
) -> None:
    """Checkpoints of equal perplexity, and commands that fine-tune them (Petty et al. 2023, Figure 6).

    Give the runs of pretraining. With runs of fine-tuning, their accuracies are printed and plotted too. Steps are
    those of kept_steps, whose weights can be fine-tuned, and the last.
    """
    _run("matched_perplexity", runs, output, recipe=recipe)


@app.command()
def equal_loss(
    runs: Paths,
    output: Output = HERE,
    loss: Annotated[
        float | None, typer.Option(help="on validation; default: the smallest that all have; the paper's: 0.0002")
    ] = None,
) -> None:
    """Generalization at equal in-distribution loss (Petty et al. 2023, Figure 7)."""
    _run("equal_loss", runs, output, loss=loss)


@app.command()
def ranks(runs: Paths, output: Output = HERE) -> None:
    """Singular values and effective ranks of feed-forward blocks (Petty et al. 2023, Figures 9 and 10)."""
    _run("feed_forward_ranks", runs, output)
