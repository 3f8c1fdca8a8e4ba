"""The command line: `hf-sysgen --help`. Every command imports what it needs when it runs."""

from __future__ import annotations

import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hf_sysgen.analysis.plotting import check_picture
from hf_sysgen.cli import analyse as analyse_cli
from hf_sysgen.cli import data as data_cli
from hf_sysgen.cli import listing
from hf_sysgen.cli import recipe as recipe_cli
from hf_sysgen.cli.commands import command
from hf_sysgen.errors import UserError
from hf_sysgen.train import INTERRUPTED
from hf_sysgen.train import train as train_recipe

if TYPE_CHECKING:
    from hf_sysgen.config.sweep import Sweep

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Models, benchmarks and training recipes for systematic generalization.",
)
app.add_typer(data_cli.app, name="data")
app.add_typer(recipe_cli.app, name="recipe")

RecipeFile = Annotated[Path, typer.Argument(help="a recipe file, see `hf-sysgen list recipes`")]
CHECKPOINT_HELP = "folder of a run or checkpoint, a model of the zoo (`hf-sysgen list zoo`), or a hub id"


def _print_version(asked: bool) -> None:
    if asked:
        print(f"hf-sysgen {version('hf-sysgen')}")
        raise typer.Exit


@app.callback()
def main_options(
    asked: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Models, benchmarks and training recipes for systematic generalization."""


@command(app, "list")
def list_command(
    kind: Annotated[str, typer.Argument(help="models, benchmarks, recipes, sweeps, zoo or all")] = "all",
    recipes: Annotated[Path | None, typer.Option(help="folder of the recipe files; default: the package's")] = None,
) -> None:
    """List models, benchmarks with their splits and licences, recipes, sweeps, and trained checkpoints."""
    kinds = ("models", "benchmarks", "recipes", "sweeps", "zoo")
    if kind not in (*kinds, "all"):
        from hf_sysgen.data.info import unknown_name_error

        raise unknown_name_error("kind", kind, [*kinds, "all"])
    if recipes is not None and kind not in ("recipes", "sweeps", "all"):
        raise UserError(f"--recipes has no effect on the list of {kind}; remove it")
    if recipes is not None and not recipes.is_dir():
        raise UserError(f"--recipes {recipes}: there is no such folder; give one that holds PAPER/RECIPE.yaml")
    texts = {
        "models": listing.list_models_text,
        "benchmarks": listing.list_benchmarks_text,
        "recipes": lambda: listing.list_recipes_text(recipes),
        "sweeps": lambda: listing.list_sweeps_text(recipes),
        "zoo": listing.list_zoo_text,
    }
    print("\n\n".join(texts[name]() for name in (kinds if kind == "all" else (kind,))))


@command(app, interrupted=INTERRUPTED, below=lambda: f"Fields of recipes:\n\n{recipe_cli.fields_text()}")
def train(
    recipe: RecipeFile,
    overrides: Annotated[
        list[str] | None, typer.Argument(help="dotted.key=value, e.g. training.max_steps=100 seed=1")
    ] = None,
) -> None:
    """Train a recipe in this process. Several processes: accelerate launch -m hf_sysgen.train RECIPE."""
    train_recipe(str(recipe), overrides or [])


# options of `evaluate` that need --shots, and the fields of a recipe that they give
WITH_SHOTS = {
    "shot-rule": "in_context.rule",
    "examples": "in_context.examples",
    "constrained": "in_context.constrained",
    "prompt": "data.prompt",
    "seed": "seed",
}


@command(app, below=lambda: f"With --shots:\n\n{recipe_cli.options_text(WITH_SHOTS)}")
def evaluate(
    checkpoint: Annotated[str, typer.Argument(help=CHECKPOINT_HELP)],
    benchmark: Annotated[str, typer.Argument(help="a benchmark, see `hf-sysgen list benchmarks`")],
    config: Annotated[str | None, typer.Argument(help="its config; may be left out where there is only one")] = None,
    split: Annotated[list[str] | None, typer.Option(help="only this split; may be repeated")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="folder with the benchmark's files")] = None,
    output: Annotated[Path | None, typer.Option(help="new folder for metrics.json and predictions.jsonl")] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(min=1, help="examples evaluated together; default: 256, with --shots 16, for graphs the run's"),
    ] = None,
    shots: Annotated[
        int | None, typer.Option(min=0, help="training examples in the prompt of any model of transformers")
    ] = None,
    shot_rule: Annotated[str | None, typer.Option(help="with --shots: how these are chosen")] = None,
    examples: Annotated[int | None, typer.Option(min=1, help="with --shots: at most this many of each split")] = None,
    constrained: Annotated[
        bool | None,
        typer.Option("--constrained", help="with --shots: allow only words that occur in the benchmark's targets"),
    ] = None,
    prompt: Annotated[str | None, typer.Option(help="with --shots: the template, with {input} in it")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="with --shots: random seed")] = None,
) -> None:
    """Evaluate a checkpoint on a benchmark.

    Text is decoded greedily, and exact match printed with and without oracle output length. Translation uses the
    checkpoint's beam search and prints BLEU. Models of graphs, parsers and language models need the results.json of
    their run beside them, and are evaluated as at the end of that run. With --shots, any model of transformers is
    evaluated without training, and the output folder gets a results.json as a run's folder does.
    """
    options = zip(WITH_SHOTS.values(), (shot_rule, examples, constrained, prompt, seed), strict=True)
    given: dict[str, Any] = {key: value for key, value in options if value is not None}
    if shots is None and given:
        raise UserError(f"{', '.join(f'--{name}' for name, key in WITH_SHOTS.items() if key in given)}: needs --shots")
    if shots is not None:
        from hf_sysgen.training.in_context import evaluate_in_context

        given |= {
            "in_context.shots": shots,
            "in_context.splits": split or None,
            "evaluation.batch_size": batch_size or 16,
            "data.data_dir": data_dir and str(data_dir),
            "output_dir": output and str(output),
        }
        print(evaluate_in_context(checkpoint, benchmark, config, given))
    else:
        from hf_sysgen.data.registry import benchmark_info

        task = benchmark_info(benchmark).task
        _require_checkpoint(checkpoint)
        from hf_sysgen.evaluation.commands import TEXT_TASKS, evaluate_checkpoint

        measure = evaluate_checkpoint
        if task not in TEXT_TASKS:
            from hf_sysgen.training.evaluate import evaluate_by_task as measure
        with data_cli.quiet():
            print(measure(checkpoint, benchmark, config, split, data_dir, output, batch_size))


def _require_checkpoint(name: str) -> None:
    """
    Raises UserError before torch is imported, which takes seconds: there is no such checkpoint. One on the hub is
    looked up later, once.
    """
    from hf_sysgen.evaluation.checkpoint_folders import checkpoint_folder, is_hub_id

    if not is_hub_id(name):
        checkpoint_folder(name)


@command(app)
def predict(
    texts: Annotated[list[str] | None, typer.Argument(help="sentences; none: one per line of standard input")] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", "-c", help=f"{CHECKPOINT_HELP}; default: its relative universal one for SCAN"),
    ] = None,
    beams: Annotated[int | None, typer.Option(min=1, help="width, 1 is greedy; default: the checkpoint's")] = None,
    max_new_tokens: Annotated[int | None, typer.Option(min=1, help="length limit, EOS included")] = None,
    isolated: Annotated[
        bool, typer.Option("--isolated", help="use only transformers and the checkpoint's own code, without hf_sysgen")
    ] = False,
) -> None:
    """Translate sentences, one line each."""
    from hf_sysgen.evaluation.checkpoint_folders import is_checkpoint
    from hf_sysgen.zoo import DEFAULT, zoo_names

    if isolated and (beams is not None or max_new_tokens is not None):
        raise UserError(
            "--beams and --max-new-tokens have no effect with --isolated, which decodes as the checkpoint has it"
        )
    if checkpoint is None and texts and texts[0] and (texts[0] in zoo_names() or is_checkpoint(texts[0])):
        raise UserError(f"{texts[0]}: a checkpoint, not a sentence; give it with --checkpoint")
    checkpoint = DEFAULT if checkpoint is None else checkpoint
    _require_checkpoint(checkpoint)
    stdin: Any = sys.stdin
    if not texts and stdin is not None:
        # a text that is not UTF-8 is then refused later, where its number is known
        stdin.reconfigure(errors="surrogateescape")
        texts = [line.rstrip("\n") for line in stdin]
    if isolated:
        from hf_sysgen.evaluation.isolated_process import predict_isolated

        print("\n".join(predict_isolated(checkpoint, texts or [])))
    else:
        from hf_sysgen.evaluation.commands import predict_lines

        for line in predict_lines(checkpoint, texts or [], beams, max_new_tokens):
            print(line)


@command(app, interrupted="interrupted; repeat the command to continue the upload")
def publish(
    what: Annotated[
        str, typer.Argument(help="a run's folder, a folder with its seeds, a model of the zoo, or a benchmark")
    ],
    repo: Annotated[str, typer.Argument(help="owner/name on the hub")],
    *,
    private: Annotated[bool, typer.Option("--private", help="make a private repository")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="list the files with their sizes, send nothing")] = False,
    folder: Annotated[
        Path | None, typer.Option(help="write the files, card and code included, into this new folder; send nothing")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(help="additional tag; may be repeated")] = None,
    collection: Annotated[
        str | None, typer.Option(help="put it into the owner's collection of this paper, e.g. csordas2021")
    ] = None,
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="of a run: also the earlier steps in its folder")
    ] = False,
    dataset: Annotated[
        str | None, typer.Option(help="of a run: owner/name of its benchmark on the hub, for links and scores there")
    ] = None,
    config: Annotated[list[str] | None, typer.Option(help="of a benchmark: only this config; may be repeated")] = None,
    allow_restricted: Annotated[
        bool, typer.Option("--allow-restricted", help="of a benchmark: publish even if its licence is restricted")
    ] = False,
    data_dir: Annotated[Path | None, typer.Option(help="of a benchmark: folder with its files")] = None,
    cache_dir: Annotated[Path | None, typer.Option(help="of a benchmark: root of the cache")] = None,
) -> None:
    """Push a trained model with its code and card to the hub, or a benchmark as parquet files with its card.

    The published model loads without this package and has the tag seed<seed>-step<step>. The token comes from HF_TOKEN
    or `hf auth login`. Repeat an interrupted command to continue it.
    """
    from hf_sysgen.data.info import unknown_name_error
    from hf_sysgen.data.registry import list_benchmarks
    from hf_sysgen.hub.publish_dataset import publish_dataset
    from hf_sysgen.hub.publish_model import publish_model
    from hf_sysgen.zoo import zoo_names

    benchmarks = [benchmark.name for benchmark in list_benchmarks()]
    is_data = what in benchmarks
    if not is_data and what not in zoo_names() and not Path(what).is_dir():
        raise unknown_name_error("benchmark, model of the zoo or folder of runs", what, [*benchmarks, *zoo_names()])
    for_models: dict[str, Any] = {"--checkpoints": checkpoints, "--dataset": dataset}
    for_data: dict[str, Any] = {
        "--config": config,
        "--allow-restricted": allow_restricted,
        "--data-dir": data_dir,
        "--cache-dir": cache_dir,
    }
    for option, value in (for_models if is_data else for_data).items():
        if value:
            kind = "a benchmark" if is_data else "no benchmark (see `hf-sysgen list benchmarks`)"
            raise UserError(f"{option} has no meaning for {what}, which is {kind}; remove it")
    common: dict[str, Any] = {
        "private": private, "dry_run": dry_run, "folder": folder, "tags": tag or [], "collection": collection,
    }  # fmt: skip
    with data_cli.quiet():
        if is_data:
            done = [
                publish_dataset(
                    what,
                    repo,
                    config or [],
                    allow_restricted=allow_restricted,
                    data_dir=data_dir,
                    cache_dir=cache_dir,
                    **common,
                )
            ]
        else:
            done = publish_model(what, repo, checkpoints=checkpoints, dataset=dataset, **common)
    for one in done:
        for path, size in one.files.items():
            print(f"{size:>12,}  {path}")
        total = f"{sum(one.files.values()):,} bytes in {len(one.files)} files"
        names = f" as {', '.join(one.tags)}" if one.tags else ""
        if folder:
            print(f"wrote {total} to {folder}")
        elif one.url:
            print(f"published {total}{names}: {one.url}")
        else:
            print(f"would publish {total} to {one.repo_id}{names}")


@command(app, interrupted=INTERRUPTED)
def sweep(
    file: Annotated[Path, typer.Argument(help="a sweep file, see `hf-sysgen list sweeps`")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="key=value of the sweep, dotted.key=value of its recipes")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="parallel runs; default: one per core or GPU, with --accelerate 1")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only list the runs and their states")] = False,
    run: Annotated[list[str] | None, typer.Option(help="only this run, by its folder; may be repeated")] = None,
    accelerate: Annotated[
        Path | None, typer.Option(help="start each run with accelerate launch and this configuration")
    ] = None,
    slurm: Annotated[
        str | None, typer.Option(help="submit the runs to Slurm, with these sbatch options, e.g. '--gres gpu:1'")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="picture of the accuracies over training: .png, .pdf or .svg")
    ] = None,
) -> int:
    """Train a grid of recipes and seeds, several runs at once, and compare the results with the paper's numbers.

    Finished runs are skipped, killed runs resume.

    Keys of a sweep file: recipes, axes, cells, seeds, select.
    """
    from hf_sysgen.config.io import find_shipped
    from hf_sysgen.config.sweep import load_sweep

    if plot is not None and (dry_run or run or slurm is not None):
        raise UserError("--plot has no effect with --dry-run, --run or --slurm: the picture is of the whole sweep")
    if accelerate is not None:
        accelerate = find_shipped(accelerate, "accelerate")
        if not accelerate.is_file():
            raise UserError(f"--accelerate: there is no file {accelerate}; accelerate/cpu is one of the package's")
    loaded = load_sweep(file, overrides or [])
    loaded = loaded.only(run) if run else loaded
    if plot is not None:
        check_picture(plot)
    from hf_sysgen.training.launch.slurm import submit_sweep
    from hf_sysgen.training.launch.sweep import run_sweep, states_text

    if dry_run:
        print(states_text(loaded))
    elif slurm is not None:
        print(submit_sweep(loaded, slurm, [str(file), *(overrides or [])], jobs, accelerate))
    else:
        status = run_sweep(loaded, jobs, accelerate)
        if status == 0 and loaded.complete:
            _print_results(loaded, plot)
        return status
    return 0


def _print_results(finished: Sweep, plot: Path | None) -> None:
    """The results of a sweep with the paper's numbers, a picture of its accuracies, and the selected cells."""
    from hf_sysgen.reports.curves import plot_accuracies
    from hf_sysgen.reports.sweep import results_text, selection_text
    from hf_sysgen.training.run_folder import finished_results

    records = [record for run in finished.runs if (record := finished_results(run.recipe))]
    print("\n" + results_text(records))
    if plot is not None:
        plot_accuracies(records, plot)
        print(f"\naccuracies over training: {plot}")
    if finished.select is not None:
        print("\n" + selection_text(finished.runs, finished.select))


@command(app)
def export(
    checkpoint: Annotated[str, typer.Argument(help=CHECKPOINT_HELP)],
    onnx: Annotated[Path, typer.Option("--onnx", help="new folder for model.onnx, its tokenizer and configs")],
) -> None:
    """Export a checkpoint to ONNX, with dynamic batch size and lengths. Needs the extra `onnx`."""
    from hf_sysgen.convert.onnx import export_onnx

    print(export_onnx(checkpoint, onnx))


@command(app)
def demo(
    checkpoints: Annotated[
        list[str] | None, typer.Argument(help="folders of runs, or models of the zoo; default: the whole zoo")
    ] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="default: the first free one from 7860")] = None,
    space: Annotated[Path | None, typer.Option(help="write a Space of the hub into this folder, serve nothing")] = None,
) -> None:
    """Open a page with two checkpoints side by side: answers, attention, accuracy. Needs the extra `demo`."""
    from hf_sysgen import demo as page

    if space is not None:
        if port is not None:
            raise UserError("--port has no effect with --space, which serves nothing; leave it out")
        print(f"written: {', '.join(map(str, page.write_space(space, checkpoints or [])))}")
    elif find_spec("gradio") is None:
        raise UserError("gradio is not installed: pip install 'hf-sysgen[demo]'")
    else:
        page.launch(checkpoints or [], port)


@command(app, "lm-eval-tasks")
def lm_eval_tasks(
    output: Annotated[
        Path | None, typer.Option(help="folder to write to; default: one in the cache of datasets")
    ] = None,
) -> None:
    """Write the text benchmarks as tasks of lm-evaluation-harness, and print their folder, for its --include_path."""
    import datasets

    from hf_sysgen.evaluation.lm_eval import write_tasks

    folder = output or Path(datasets.config.HF_DATASETS_CACHE) / "hf_sysgen" / "lm_eval_tasks"
    write_tasks(folder)
    print(folder)


@command(app)
def report(
    name: Annotated[str, typer.Argument(metavar="TABLE", help="e.g. csordas2021-table3, csordas2021, or all")] = "all",
    runs: Annotated[list[Path] | None, typer.Option(help="folder with results; may be repeated; default: runs")] = None,
    output: Annotated[Path | None, typer.Option(help="file, .html, .md or .txt; default of all: report.html")] = None,
) -> None:
    """Compare results with the papers' tables: in the terminal, or for `all` as a page with plots."""
    from hf_sysgen.reports.write import write_report

    folder = Path("runs")
    # a page without runs would replace an older one
    default = [folder] if folder.is_dir() or name == "all" or output is not None else []
    print(write_report(name, runs or default, output))


@command(app)
def score(
    run: Annotated[Path, typer.Argument(help="the folder of a finished run, or a predictions.jsonl")],
    metric: Annotated[
        str | None, typer.Option(help="name of a metric; with --against: accuracy, comp, bleu, loss")
    ] = None,
    setup: Annotated[
        str | None, typer.Option(help="for bleu, e.g. tokenized or iwslt14; a wrong one lists all")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="another run's folder or predictions.jsonl: test whether it is better")
    ] = None,
    split: Annotated[str | None, typer.Option(help="with --against: which split; default: test")] = None,
) -> None:
    """Score a run's saved predictions by split, category and output length, without a GPU or model.

    With --against: the difference of two runs on the same examples, and a paired test of it.
    """
    from hf_sysgen.evaluation.score import score_predictions
    from hf_sysgen.evaluation.significance import compare_runs

    if against is None:
        if split is not None:
            raise UserError("--split has no effect without --against: all splits are scored")
        print(score_predictions(run, metric or "recorded", setup))
    elif setup is not None:
        raise UserError("--setup has no effect with --against, which uses the benchmark's own BLEU setup")
    else:
        print(compare_runs(run, against, metric or "accuracy", split or "test"))


analyse_cli.add_to(app)


def main() -> None:
    app()


if __name__ == "__main__":
    main()
