"""
Train one recipe: `python -m hf_sysgen.train recipe.yaml training.max_steps=100 ...`, also under `accelerate launch -m`
and `torchrun -m`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from hf_sysgen.errors import handle_user_errors

INTERRUPTED = "interrupted; the same command resumes from the last checkpoint"
USAGE = """usage: python -m hf_sysgen.train recipe.yaml [dotted.key=value ...]
every field of a recipe: hf-sysgen recipe fields"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 for a finished run, 2 for input that cannot be run, 1 for a run that failed."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, __doc__, sep="\n")
        return 0 if arguments else 2
    with handle_user_errors(INTERRUPTED) as exit_status:
        train(arguments[0], arguments[1:])
    return exit_status.status


def train(recipe_file: str, overrides: Sequence[str]) -> None:
    """Run the recipe and say on the first process where the results are. Errors as `run_recipe`."""
    from hf_sysgen.config.io import add_path_to_errors, find_shipped, load_recipe

    recipe = load_recipe(recipe_file, overrides)
    from hf_sysgen.training.run import quiet_libraries, run_recipe
    from hf_sysgen.training.run_folder import finished_results

    is_first = os.environ.get("RANK", "0") == "0"
    quiet_libraries()
    with add_path_to_errors(find_shipped(recipe_file)):
        if finished_results(recipe) is not None:
            if is_first:
                print(f"{recipe.run_dir} is finished already, nothing to do; its results are in results.json")
            return
        record = run_recipe(recipe)
    if is_first:
        for name, split in record.splits.items():
            if split.perplexity is not None:
                print(f"{name}: perplexity {split.perplexity:.4f} on {split.tokens:,} tokens")
            elif split.bleu is not None:
                print(f"{name}: BLEU {split.bleu:.2f} on {split.examples} examples")
            elif split.accuracy is not None:
                print(f"{name}: exact match {split.accuracy:.4f} on {split.examples} examples")
        print(f"results, predictions and checkpoint are in {recipe.run_dir}")


if __name__ == "__main__":
    sys.exit(main())
