"""
The pipeline of Petty et al. 2023 at a small scale: decoders of equal size with 1, 2, 4 and 8 layers, pretrained on a
small text and fine-tuned on COGS-vf and GeoQuery, with the paper's figures.

`python perf/depth_family.py PASSAGES.jsonl` (records with `text`, or with a passage cut into `prefix` and
`gold_completion`) writes the text in C4's layout, every tenth passage for validation, trains a tokenizer on the
others, runs the sweeps pretrain_quick.yaml and fine_tuning_quick.yaml of recipes/petty2023/sweeps, one run per core,
copies their records into results, and draws Figures 2 to 7, 9 and 10. Finished parts are not repeated, so the same
command resumes. The text is 1,480 of C4's 365 million passages: this shows that the pipeline works, not the effect of
depth at the paper's scale.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path

from c4_packing import read_texts
from kept_records import keep

from hf_sysgen.analysis import commands as analyse
from hf_sysgen.analysis.finding import analyse as write
from hf_sysgen.analysis.plotting import check_picture
from hf_sysgen.config.sweep import load_sweep
from hf_sysgen.data.c4.files import write_shards
from hf_sysgen.data.text.byte_pairs import save_byte_pairs
from hf_sysgen.errors import UserError
from hf_sysgen.reports.sweep import results_text
from hf_sysgen.results.reading import read_record
from hf_sysgen.results.record import RESULTS
from hf_sysgen.training.launch.sweep import run_sweep

HERE = Path(__file__).resolve().parent
RECIPES = HERE.parent / "recipes" / "petty2023"
# the folder that the recipes name
FOLDER = Path("runs/depth_family")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("passages", type=Path, help="JSON lines")
    parser.add_argument("--figures", type=Path, default=FOLDER / "figures")
    parser.add_argument("--results", type=Path, default=HERE.parent / "results")
    arguments = parser.parse_args()
    check_picture(arguments.figures / "figure.png")
    start = time.monotonic()
    texts = read_texts(arguments.passages)
    write_shards(FOLDER / "text", "validation", texts[::10], 1)
    write_shards(FOLDER / "text", "train", [text for number, text in enumerate(texts) if number % 10], 4)
    if not (FOLDER / "tokenizer" / "tokenizer.json").exists():
        save_byte_pairs(FOLDER / "tokenizer", vocab_size=1_000, data_dir=FOLDER / "text")
    pretrained = trained("pretrain_quick", arguments.results)
    tuned = trained("fine_tuning_quick", arguments.results)
    minutes = (time.monotonic() - start) / 60
    recipe = str(RECIPES / "cogs_vf_quick.yaml")
    for runs, find in (
        (pretrained, analyse.perplexity_depth),
        (tuned, analyse.generalization_depth),
        (tuned, analyse.lexical_structural),
        ([*pretrained, *tuned], partial(analyse.matched_perplexity, recipe=recipe)),
        (tuned, partial(analyse.equal_loss, loss=None)),
        (tuned, analyse.ranks),
    ):
        print(write(runs, arguments.figures, find))
    print(f"{minutes:.1f} minutes of text, tokenizer, pretraining and fine-tuning, as far as they were not done before")


def trained(name: str, results: Path) -> list[Path]:
    """The folders of a sweep's runs; train them now if needed."""
    sweep = load_sweep(RECIPES / "sweeps" / f"{name}.yaml", [])
    if status := run_sweep(sweep):
        sys.exit(status)
    folders = [run.recipe.run_dir for run in sweep.runs]
    records = [read_record(folder / RESULTS) for folder in folders]
    print("\n" + results_text(records))
    for record in records:
        keep(record, results)
    return folders


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
