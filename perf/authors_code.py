"""
Speed of training and evaluation compared with the code of Csordas et al. 2021, on the same examples in one run.

`python perf/authors_code.py CHECKOUT`, where CHECKOUT is a clone of RobertCsordas/transformer_generalization, writes
perf/authors_code.json. Only the clone's model, interface and loss are imported, not its loggers and plots. Both codes
take turns with an update, and then an evaluation, for several rounds on one thread. Processor time is measured; ratios
are within a round.

- `train`: an update of the SCAN setup (cutoff 26, 256 or 64 examples drawn with replacement): forward, loss, backward,
  clipping and Adam, as in `tasks/task.py:260-295`, from a prepared batch. `padded`: ours, the same batch; `grouped`:
  ours, the same examples in parts of similar length, as in the recipes of this package; `bf16`: ours, `grouped` under
  autocast (`training.bf16=true`), while theirs is in float32.
- `evaluate`: every example of a split. Theirs decodes batches of 256 in the order of the file, each up to its longest
reference, with any weights. Ours is `evaluate_split`. Its time depends on how much is right, so it runs a trained model
of the zoo.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import machine
from seq2seq import batches, build, clock_of, encoded, in_turns, scan_setup, training_step

from hf_sysgen.data import load_benchmark
from hf_sysgen.data.text.splits import IGNORED
from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.checkpoints import load_checkpoint
from hf_sysgen.evaluation.evaluate import chunks, evaluate_split
from hf_sysgen.files import write_atomic
from hf_sysgen.tables import table

# ours -> (their class, its options), as in tasks/transformer_mixin.py for the published cells
RELATIVE = {"pos_embeddig": lambda x, offset: x, "embedding_init": "xavier"}
SCALED = {"embedding_init": "kaiming", "scale_mode": "down"}
THEIRS: dict[str, tuple[str, dict[str, Any]]] = {
    "sysgen_transformer": ("Transformer", SCALED),
    "universal_transformer": ("UniversalTransformer", SCALED),
    "relative_transformer": ("RelativeTransformer", RELATIVE),
    "relative_universal_transformer": ("UniversalRelativeTransformer", RELATIVE),
}
TRAINED = ("scan_length26_quick_universal", "scan_length26_quick_relative_universal")
SPLITS = {"validation": "IID", "test": "longer"}
# batch size: parts of an update, as recipes have them
GROUPS = {256: 4, 64: 2}
KINDS = ("padded", "grouped", "bf16")
# of SCAN's commands and actions
WORDS = (13, 6)


class Theirs:
    """The measured modules of the clone, imported without the others."""

    def __init__(self, checkout: Path):
        if not (checkout / "models" / "transformer_enc_dec.py").exists():
            raise UserError(f"{checkout} is no clone of RobertCsordas/transformer_generalization; name its folder")
        sys.path.insert(0, str(checkout))
        # their packages import all loggers and tasks; the modules needed here import only each other
        for name in ("framework", "models"):
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__path__ = [str(checkout / name)]
        framework: Any = sys.modules["framework"]
        framework.layers = importlib.import_module("framework.layers")
        framework.data_structures = importlib.import_module("framework.data_structures")
        self.layers = importlib.import_module("layers.transformer")
        self.model = importlib.import_module("models.transformer_enc_dec").TransformerEncDecModel
        self.interface = importlib.import_module("interfaces").TransformerEncDecInterface

    def build(self, name: str, sizes: dict[str, int], words: tuple[int, int]) -> torch.nn.Module:
        """Their model of these sizes; `words` of the source and of the target."""
        kind, options = THEIRS[name]
        torch.manual_seed(0)
        layers = {"num_encoder_layers": sizes["layers"], "num_decoder_layers": sizes["layers"]}
        return self.model(
            *words, sizes["hidden_size"], nhead=sizes["num_attention_heads"], tied_embedding=True, **layers,
            ff_multiplier=sizes["intermediate_size"] / sizes["hidden_size"],
            transformer=getattr(self.layers, kind), **options,
        )  # fmt: skip


def their_batch(batch: dict[str, torch.Tensor], words: tuple[int, int]) -> dict[str, torch.Tensor]:
    """
    Our batch in their form: words only, time first, padded with 0 (framework/loader/collate.py); their interface adds
    EOS, their model SOS. The words themselves do not matter for speed.
    """
    lengths = {"in": batch["attention_mask"].sum(dim=1) - 2, "out": (batch["labels"] != IGNORED).sum(dim=1) - 1}
    ids = {"in": batch["input_ids"][:, 1:] % words[0], "out": batch["labels"] % words[1]}
    data: dict[str, torch.Tensor] = {}
    for side, length in lengths.items():
        longest = int(length.max())
        real = torch.arange(longest) < length[:, None]
        # their interface copies float lengths; it would add to integer ones in place
        data |= {side: (ids[side][:, :longest] * real).T.contiguous(), f"{side}_len": length.float()}
    return data


def their_update(interface: Any, optimizer: torch.optim.Optimizer, data: dict[str, torch.Tensor]) -> None:
    optimizer.zero_grad(set_to_none=True)
    interface(dict(data)).loss.backward()
    torch.nn.utils.clip_grad_norm_(interface.model.parameters(), 5.0)
    optimizer.step()


def their_evaluation(interface: Any, ready: list[dict[str, torch.Tensor]]) -> None:
    with torch.no_grad():
        for data in ready:
            interface(dict(data))


def measure_training(theirs: Theirs, setup: dict, size: int, rounds: int) -> list[dict]:
    setup = {**setup, "batch_size": size}
    # all models learn from the same examples
    parts = {"padded": 1, "grouped": GROUPS[size]}
    data = {kind: batches(setup, groups, rounds + 1, "cpu") for kind, groups in parts.items()}
    ready = [their_batch(step[0], WORDS) for step in data["padded"]]
    actions: dict[str, Callable[[int], None]] = {}
    for name in THEIRS:
        interface = theirs.interface(theirs.build(name, setup["sizes"], WORDS).train())
        adam = torch.optim.Adam(interface.model.parameters(), lr=1e-3)
        actions[f"{name} theirs"] = lambda step, run=interface, adam=adam: their_update(run, adam, ready[step])
        for kind in KINDS:
            model = build(name, setup, "eager").train()
            adam = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
            steps = data["padded" if kind == "padded" else "grouped"]
            actions[f"{name} {kind}"] = lambda step, run=model, adam=adam, steps=steps, kind=kind: training_step(
                run, adam, steps[step], bf16=kind == "bf16"
            )
    times = in_turns(actions, rounds, "cpu", clock_of("cpu"))
    return [
        compared(f"update of {size}, {kind}", name, times[f"{name} {kind}"], times[f"{name} theirs"])
        for kind in KINDS
        for name in THEIRS
    ]


def measure_evaluation(theirs: Theirs, setup: dict, rounds: int) -> list[dict]:
    data = load_benchmark("scan", "length_cutoff_26")
    results = []
    for part, title in SPLITS.items():
        for trained in TRAINED:
            model, tokenizer = load_checkpoint(trained)
            name = model.config.model_type
            interface = theirs.interface(theirs.build(name, setup["sizes"], WORDS).eval())
            split = encoded(tokenizer, data[part])
            ready = [their_batch(split[rows], WORDS) for rows in chunks(np.arange(len(split)), 256)]
            actions: dict[str, Callable[[int], Any]] = {
                "theirs": lambda _, run=interface, ready=ready: their_evaluation(run, ready),
                "ours": lambda _, model=model, split=split: evaluate_split(model, split),
            }
            times = in_turns(actions, rounds, "cpu", clock_of("cpu"))
            results.append(compared(f"evaluation of {title}", name, times["ours"], times["theirs"]))
    return results


def compared(what: str, name: str, ours: list[float], theirs: list[float]) -> dict:
    """Medians of seconds, and the median and quartiles of the ratios within a round."""
    low, ratio, high = np.quantile(np.array(theirs) / np.array(ours), (0.25, 0.5, 0.75)).tolist()
    seconds = {"seconds": float(np.median(ours)), "their_seconds": float(np.median(theirs))}
    return {"what": what, "name": name, **seconds, "times_as_fast": ratio, "quartiles": [low, high]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".json"))
    parser.add_argument("--rounds", type=int, default=7, help="of training; of evaluation half as many")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    theirs, setup = Theirs(arguments.checkout), scan_setup()
    load = [os.getloadavg()[0]]
    results = []
    for size in GROUPS:
        results += measure_training(theirs, setup, size, arguments.rounds)
    results += measure_evaluation(theirs, setup, -(-arguments.rounds // 2))
    load.append(os.getloadavg()[0])
    cells = [
        (r["what"], r["name"], f"{r['their_seconds']:.3f}", f"{r['seconds']:.3f}", f"{r['times_as_fast']:.2f}")
        for r in results
    ]
    print(table(("what", "variant", "theirs: s", "ours: s", "times as fast"), cells))
    record = {**machine(), "load_average": load, "rounds": arguments.rounds, "results": results}
    write_atomic(arguments.output, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
