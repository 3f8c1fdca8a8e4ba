"""
ConvS2S on SCAN add-jump compared with fairseq's, from the same weights and on the same batches.

`python perf/fairseq_conv.py CHECKOUT`, where CHECKOUT is a clone of facebookresearch/fairseq at 7633129b (January
2019), writes perf/fairseq_conv.json. Only the clone's modules for `fconv` are imported; the rest of its package needs
libraries of that time. For each seed, the recipe's model and its copy in fairseq's modules train on the recipe's
batches, one after the other, with different dropout masks. The optimizer is PyTorch's; tests/training/test_trainer.py
shows that it equals fairseq's `nag` and the recipe's. Both are scored by exact match of greedy decoding, for which
fairseq's weights are loaded into our model. About 12 minutes per seed on one core; seeds in the record are not run
again.

Before that, both train for some updates in float64 with the same dropout masks. If they end with the same weights, what
remains between the two in the comparison is chance.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import json
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from machine import machine
from torch import nn
from tqdm.auto import tqdm

from hf_sysgen.config.io import load_recipe
from hf_sysgen.data.text.splits import IGNORED
from hf_sysgen.errors import UserError
from hf_sysgen.evaluation.evaluate import evaluate_split
from hf_sysgen.files import write_atomic
from hf_sysgen.training.tasks.registry import prepare_task
from hf_sysgen.training.trainer import SysgenTrainer, steps_of, training_arguments

RECIPE = Path(__file__).resolve().parent.parent / "recipes" / "chaabouni2021" / "scan_jump_conv.yaml"
# fairseq's ids: an unused row and the padding come before ours
PADDING, FIRST = 1, 2
# modules of ours that drop
OURS_DROP = ("gated_convolution", "modeling_conv_seq2seq")
# an update's calls of dropout: embeddings and six layers of the encoder, the same of the decoder, what the head reads
SOURCE_CALLS, CALLS = 7, 15
# of these, the ones outside the layers
OUTSIDE = (0, SOURCE_CALLS, CALLS - 1)


class Dictionary:
    """The part of a dictionary that fairseq's modules use."""

    def __init__(self, words: int):
        self.words = words

    def __len__(self) -> int:
        return FIRST + self.words

    def pad(self) -> int:
        return PADDING


def make_positions(tokens: torch.Tensor, padding: int, left_pad: bool) -> torch.Tensor:
    """Number of each token of a row, counted from `padding + 1`, as `fairseq.utils` has it (whose imports are many)."""
    real = tokens.ne(padding)
    return torch.where(real, real.long().cumsum(1) + padding, padding)


def import_fconv(checkout: Path) -> types.ModuleType:
    """
    fairseq's `models/fconv.py` with the modules that it is made of.

    Raises:
        UserError: the folder is no clone.
    """
    folder = checkout / "fairseq"
    if not (folder / "models" / "fconv.py").exists():
        raise UserError(f"{checkout} is not a clone of facebookresearch/fairseq; name its folder")

    def stand_in(name: str, **members: Any) -> types.ModuleType:
        module = sys.modules[name] = types.ModuleType(name)
        module.__path__ = [str(folder.joinpath(*name.split(".")[1:]))]
        for key, member in members.items():
            setattr(module, key, member)
        return module

    class Side(nn.Module):
        """The parts of fairseq's base classes that `fconv` needs."""

        def __init__(self, dictionary: Dictionary):
            super().__init__()
            self.dictionary = dictionary

    def register(*_: Any) -> Callable[[Any], Any]:
        return lambda thing: thing

    # state of incremental decoding, unused here: our model decodes
    utils = stand_in("fairseq.utils", make_positions=make_positions, get_incremental_state=lambda *_: None)
    stand_in("fairseq", utils=utils, options=stand_in("fairseq.options"))
    modules = stand_in("fairseq.modules", AdaptiveSoftmax=nn.Module, BeamableMM=nn.Module)
    for file, name in {
        "conv_tbc": "ConvTBC",
        "linearized_convolution": "LinearizedConvolution",
        "grad_multiply": "GradMultiply",
        "learned_positional_embedding": "LearnedPositionalEmbedding",
    }.items():
        setattr(modules, name, getattr(importlib.import_module(f"fairseq.modules.{file}"), name))
    stand_in(
        "fairseq.models", FairseqEncoder=Side, FairseqIncrementalDecoder=Side, FairseqModel=object,
        FairseqLanguageModel=object, register_model=register, register_model_architecture=register,
    )  # fmt: skip
    return importlib.import_module("fairseq.models.fconv")


class Theirs(nn.Module):
    """fairseq's encoder and decoder with the sizes of a model of ours."""

    def __init__(self, fconv: types.ModuleType, ours: Any):
        super().__init__()
        config = self.config = ours.config
        width, rows = config.hidden_size, config.max_position_embeddings
        self.encoder = fconv.FConvEncoder(
            Dictionary(config.source_vocab_size), width, None, rows,
            [(width, config.kernel_size)] * config.encoder_layers, config.dropout,
        )  # fmt: skip
        self.decoder = fconv.FConvDecoder(
            Dictionary(config.vocab_size), width, None, width, rows,
            [(width, config.decoder_kernel_size)] * config.decoder_layers, True, config.dropout,
        )  # fmt: skip
        self.encoder.num_attention_layers = config.decoder_layers
        with torch.no_grad():
            for theirs, same in self.pairs(ours):
                theirs.copy_(same)
            # not a word, so it is not in the loss
            self.decoder.fc3.bias[:FIRST] = -1e4

    def pairs(self, ours: Any) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Their numbers with ours, as views of one shape."""
        for theirs, same in ((self.encoder, ours.model.encoder), (self.decoder, ours.model.decoder)):
            yield theirs.embed_tokens.weight[FIRST:], same.embed_tokens.weight
            yield theirs.embed_positions.weight[FIRST:], same.embed_input.table.weight[:-FIRST]
            linear = [(theirs.fc1, same.fc1), (theirs.fc2, same.fc2)]
            for index, layer in enumerate(same.layers):
                convolution = theirs.convolutions[index]
                yield convolution.weight_v, layer.gated.convolution.direction.permute(1, 2, 0)
                yield convolution.weight_g.flatten(), layer.gated.convolution.length.flatten()
                yield convolution.bias, layer.gated.convolution.bias
                if theirs is self.decoder:
                    attention = theirs.attention[index]
                    linear += [
                        (attention.in_projection, layer.cross_attn.in_proj),
                        (attention.out_projection, layer.cross_attn.out_proj),
                    ]
            for their_layer, our_layer in linear:
                yield their_layer.weight_v, our_layer.direction
                yield their_layer.weight_g, our_layer.length
                yield their_layer.bias, our_layer.bias
        for name, same in (("weight_v", "direction"), ("weight_g", "length"), ("bias", "bias")):
            yield getattr(self.decoder.fc3, name)[FIRST:], getattr(ours.lm_head, same)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """A batch of ours -> mean cross-entropy, from sources padded on the left, as fairseq pads them."""
        mask, real = attention_mask.bool(), labels != IGNORED
        source = torch.full_like(input_ids, PADDING)
        source[mask.flip(1)] = input_ids[mask] - self.config.source_id_offset + FIRST
        target = torch.where(real, labels + FIRST, PADDING)
        start = torch.full_like(target[:, :1], self.config.decoder_start_token_id + FIRST)
        read = torch.where(real, torch.cat((start, target[:, :-1]), dim=1), PADDING)
        logits = self.decoder(read, self.encoder(source, None))[0]
        return nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PADDING)


def loss_of(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    found = model(**batch)
    return found if isinstance(found, torch.Tensor) else found.loss


def train(
    model: nn.Module,
    task: Any,
    batches: Any,
    steps: int,
    title: str,
    start: Callable[[dict[str, torch.Tensor]], None] = lambda batch: None,
) -> float:
    """Learn from the recipe's batches as its run does; the mean loss of the last hundred updates. `start` is called
    with each batch."""
    recipe = task.recipe
    parameters = list(model.parameters())
    optimizer_class, options = SysgenTrainer.get_optimizer_cls_and_kwargs(training_arguments(recipe))
    optimizer = optimizer_class(parameters, **options)
    losses = []
    model.train()
    for step in tqdm(range(steps), desc=title, mininterval=10):
        batch = task.splits["train"][batches.rows(step)]
        start(batch)
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, recipe.training.max_grad_norm)
        optimizer.step()
        losses.append(float(loss.detach()))
    model.eval()
    return float(np.mean(losses[-100:]))


class EqualMasks:
    """Dropout that gives both models the same masks, drawn for each call of each update."""

    def __init__(self) -> None:
        self.updates = self.calls = 0
        # columns of padding in each source (B,), which stand on the left in fairseq
        self.padding = torch.tensor([])

    def start(self, batch: dict[str, torch.Tensor]) -> None:
        """To be called before each update."""
        assert self.calls == CALLS or not self.updates, "the models drop at other places"
        self.updates, self.calls = self.updates + 1, 0
        self.padding = (batch["attention_mask"] == 0).sum(1)

    def ours(self, hidden: torch.Tensor, p: float, _: bool) -> torch.Tensor:
        self.calls += 1
        draws = torch.Generator().manual_seed(CALLS * self.updates + self.calls)
        return hidden * (torch.rand(hidden.shape, generator=draws) >= p) / (1 - p)

    def theirs(self, hidden: torch.Tensor, p: float, training: bool) -> torch.Tensor:
        # between the layers, time is the first axis
        is_source, batch_first = self.calls < SOURCE_CALLS, self.calls in OUTSIDE
        rows = hidden if batch_first else hidden.transpose(0, 1)
        moved = self.padding if is_source else torch.zeros_like(self.padding)
        rows = _rolled(self.ours(_rolled(rows, -moved), p, training), moved)
        return rows if batch_first else rows.transpose(0, 1)


def _rolled(rows: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    return torch.stack([row.roll(int(columns), 0) for row, columns in zip(rows, by, strict=True)])


def with_equal_masks(fconv: types.ModuleType, updates: int = 50) -> dict[str, Any]:
    """How far the two are apart after some updates of the recipe in float64, with the same dropout masks."""
    task: Any = prepare_task(load_recipe(RECIPE))
    ours = task.build_model("sdpa")
    theirs, first = Theirs(fconv, ours), copy.deepcopy(ours)
    batches, losses = task.batches(updates, rank=0, world=1), []
    for model, drop, places in (
        (ours, EqualMasks.ours, [f"hf_sysgen.models.{name}.dropout" for name in OURS_DROP]),
        (theirs, EqualMasks.theirs, ["torch.nn.functional.dropout"]),
    ):
        masks = EqualMasks()
        with ExitStack() as stack:
            for place in places:
                stack.enter_context(mock.patch(place, partial(drop, masks)))
            losses.append(train(model.double(), task, batches, updates, "equal masks", masks.start))
        assert masks.calls == CALLS, "the models drop at other places"
    return {
        "updates": updates,
        "loss": losses[0],
        "difference_of_loss": abs(losses[0] - losses[1]),
        "difference_of_weights": apart(theirs, ours),
        "weights_moved_by": apart(theirs, first),
    }


@torch.no_grad()
def apart(theirs: Theirs, ours: Any) -> float:
    """The largest difference between weights of the two."""
    return max(float((one - other).abs().max()) for one, other in theirs.pairs(ours))


def compare(fconv: types.ModuleType, seed: int, most: int | None) -> dict[str, Any]:
    """Exact match of both models on the test split, and the difference of their losses before training."""
    recipe = load_recipe(RECIPE, [f"seed={seed}"])
    task: Any = prepare_task(recipe)
    steps = min(steps_of(recipe, task), most or recipe.training.max_steps)
    ours = task.build_model("sdpa").eval()
    theirs = Theirs(fconv, ours).eval()
    batches = task.batches(steps, rank=0, world=1)
    first = task.splits["train"][batches.rows(0)]
    with torch.no_grad():
        difference = abs(float(loss_of(theirs, first)) - float(loss_of(ours, first)))
    row: dict[str, Any] = {"seed": seed, "steps": steps, "difference_of_loss_at_first": difference}
    for name, model in (("ours", ours), ("fairseq", theirs)):
        # seeds of dropout; the recipe's own runs have yet other masks
        torch.manual_seed(seed)
        loss = train(model, task, batches, steps, f"seed {seed}, {name}")
        if model is theirs:
            with torch.no_grad():
                for numbers, same in theirs.pairs(ours):
                    same.copy_(numbers)
        records = evaluate_split(ours.eval(), task.splits["test"])
        row |= {name: float(np.mean([record.exact for record in records])), f"{name}_training_loss": loss}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".json"))
    parser.add_argument("--seeds", type=int, nargs="*", default=list(range(5)))
    parser.add_argument("--steps", type=int, help="at most so many updates: a check of the script, without a record")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    fconv = import_fconv(arguments.checkout)
    record: dict[str, Any] = {"results": []}
    if arguments.output.exists() and not arguments.steps:
        record = json.loads(arguments.output.read_text(encoding="utf-8"))

    def keep() -> None:
        if not arguments.steps:
            write_atomic(arguments.output, json.dumps(record, indent=1) + "\n")

    record["equal_masks"] = {**with_equal_masks(fconv), **machine()}
    keep()
    rows = record["results"]
    for seed in arguments.seeds:
        if any(row["seed"] == seed for row in rows):
            continue
        rows.append({**compare(fconv, seed, arguments.steps), **machine()})
        rows.sort(key=lambda row: row["seed"])
        keep()
    equal = record["equal_masks"]
    print(
        f"equal masks, {equal['updates']} updates: losses differ by {equal['difference_of_loss']:.1e}, weights by "
        f"{equal['difference_of_weights']:.1e}, having moved by {equal['weights_moved_by']:.1e}"
    )
    for row in rows:
        print(
            f"seed {row['seed']}, {row['steps']} updates: exact match ours {row['ours']:.4f}, fairseq "
            f"{row['fairseq']:.4f}; losses at first differ by {row['difference_of_loss_at_first']:.1e}"
        )


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
