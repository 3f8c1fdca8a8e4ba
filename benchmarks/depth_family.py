"""
Perplexity against depth at equal parameters, on a text that fits into minutes of one core: Petty et al. 2023, figure 2.

`python benchmarks/depth_family.py PASSAGES.jsonl` (records with `text`, or with a passage cut into `prefix` and
`gold_completion`) runs the whole path: it writes the text in C4's layout, every tenth passage for validation, trains a
tokenizer on the others, pretrains the recipes `pretrain_quick_*`, puts their records into benchmarks/results and plots
perplexity against depth. What is done already is not done again. Then, in the same folder, fine-tuning and the other
figures:

    hf-sysgen sweep recipes/depth_width/sweeps/cogs_vf_quick.yaml
    for name in generalization-depth lexical-structural equal-loss ranks; do
      hf-sysgen analyse $name runs/cogs_vf_quick* -o analyses
    done
    hf-sysgen analyse perplexity-depth runs/pretrain_quick_* -o analyses
    hf-sysgen analyse matched-perplexity runs/pretrain_quick_* runs/cogs_vf_quick* \\
      --recipe recipes/depth_width/cogs_vf_quick.yaml -o analyses

Passages are of C4, but 1,480 of its 365 million: what is measured here is that the path works, not what depth does at
the paper's scale.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from c4_packing import read_texts
from kept_records import keep

from hf_sysgen.data.byte_pairs import save_byte_pairs
from hf_sysgen.data.c4_files import write_shards
from hf_sysgen.evaluation.analyse import perplexity_depth
from hf_sysgen.evaluation.figures import check_picture, save
from hf_sysgen.evaluation.report import table
from hf_sysgen.evaluation.results import RESULTS, read_results
from hf_sysgen.training.recipe import load_recipe

HERE = Path(__file__).resolve().parent
DEPTHS = (1, 2, 4, 8)
# where the recipes look
FOLDER = Path("runs/depth_family")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("passages", type=Path, help="JSON lines")
    parser.add_argument("--plot", type=Path, default=FOLDER / "perplexity.png")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    arguments = parser.parse_args()
    check_picture(arguments.plot)
    texts = read_texts(arguments.passages)
    write_shards(FOLDER / "text", "validation", texts[::10], 1)
    write_shards(FOLDER / "text", "train", [text for number, text in enumerate(texts) if number % 10], 4)
    if not (FOLDER / "tokenizer" / "tokenizer.json").exists():
        save_byte_pairs(FOLDER / "tokenizer", vocab_size=1_000, data_dir=FOLDER / "text")
    runs = []
    for depth in DEPTHS:
        path = HERE.parent / "recipes" / "depth_width" / f"pretrain_quick_{depth}.yaml"
        subprocess.run(
            [sys.executable, "-m", "hf_sysgen.train", str(path), "tracker=none"],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            check=True,
        )
        folder = load_recipe(path).run_dir
        runs.append((folder, read_results(folder / RESULTS)))
        keep(runs[-1][1], arguments.results)
    rows = []
    for _, record in runs:
        recipe, split = record["recipe"], record["splits"]["validation"]
        cells = (recipe["num_hidden_layers"], recipe["intermediate_size"], f"{record['num_parameters']:,}")
        rows.append((*cells, f"{split['perplexity']:.2f}", f"{split['tokens']:,}", f"{record['train_seconds']:.0f} s"))
    print(table(("layers", "d_ff", "parameters", "perplexity", "tokens", "training"), rows))
    save(perplexity_depth(runs).draw(), arguments.plot)
    print(f"plot: {arguments.plot}")


if __name__ == "__main__":
    main()
