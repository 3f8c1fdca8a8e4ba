"""
Speed of training and greedy decoding: our four variants compared with transformers' T5 and BART of equal width and
depth.

`python perf/seq2seq.py` measures everything in one run and writes perf/seq2seq.json; `--setup` and `--threads` measure
some rows and keep the others. `--quick` is a check of the script itself. All models take turns with one step, for
several rounds, so that a busy machine slows all equally; medians are reported. With one thread, processor time is
measured; with several threads or a GPU, wall-clock time. Rows:

- `padded`: one batch, padded to its longest example.
- `grouped`: the same update from `length_buckets` parts of similar length, gradients accumulated (what recipes do).
- `bf16`: `grouped` under autocast, as with `training.bf16=true` in a recipe.
- `compiled`: `padded` under torch.compile, with static shapes (only with `--compile`; takes minutes on a CPU).
- `decode`: greedy sequences per second for a fixed number of steps, ours through `greedy_decode`, all through
`generate`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from machine import machine, output_of
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from hf_sysgen.cpu import fast_products
from hf_sysgen.data import load_benchmark
from hf_sysgen.data.text.splits import TokenizedSplit
from hf_sysgen.data.text.vocabulary import build_vocabulary, encode_sources, encode_targets
from hf_sysgen.evaluation.decoding import greedy_decode
from hf_sysgen.files import write_atomic
from hf_sysgen.models import CONFIGS, MODELS
from hf_sysgen.tables import table
from hf_sysgen.training.batches import StepBatches

OUR_NAMES = ("sysgen_transformer", "universal_transformer", "relative_transformer", "relative_universal_transformer")
# (source words, target words) at 32 quantiles of COGS's train split (24,155 examples), sorted by target length
COGS_LENGTHS = (
    (3, 10), (4, 19), (5, 19), (4, 20), (5, 20), (4, 21), (5, 30), (7, 30), (7, 30), (6, 31), (7, 31), (5, 34), (7, 39),
    (6, 40), (8, 40), (8, 40), (7, 41), (8, 41), (7, 43), (6, 46), (7, 51), (10, 51), (9, 52), (9, 53), (10, 55),
    (11, 61), (9, 63), (9, 64), (12, 72), (11, 74), (11, 83), (13, 94),
)  # fmt: skip


def scan_setup() -> dict:
    data = load_benchmark("scan", "length_cutoff_26")["train"]
    sources, targets = data["input"][:], data["target"][:]
    vocabulary = build_vocabulary(sources, targets)
    split = TokenizedSplit(
        encode_sources(vocabulary.tokenizer, sources), encode_targets(vocabulary.tokenizer, targets), pad_id=6
    )
    return {
        "split": split,
        "batch_size": 256,
        "groups": 4,
        "decode_steps": 27,
        "sizes": {"hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 8, "layers": 3},
        "ids": (vocabulary.vocab_size, vocabulary.source_vocab_size, vocabulary.source_id_offset),
    }


def cogs_setup() -> dict:
    """COGS by its lengths and vocabulary size; the words do not matter for speed."""
    draw = np.random.default_rng(0)
    words = 871
    pairs = [COGS_LENGTHS[i % len(COGS_LENGTHS)] for i in range(2048)]
    split = TokenizedSplit(
        [[words + 1, *draw.integers(words, size=source), words] for source, _ in pairs],
        [[*draw.integers(words, size=target), words] for _, target in pairs],
        pad_id=words,
    )
    return {
        "split": split,
        "batch_size": 128,
        "groups": 4,
        "decode_steps": 64,
        "sizes": {"hidden_size": 512, "intermediate_size": 512, "num_attention_heads": 4, "layers": 2},
        "ids": (words + 1, words + 2, 0),
    }


def encoded(tokenizer: PreTrainedTokenizerFast, rows: Mapping[str, Sequence[str]]) -> TokenizedSplit:
    """The columns `input` and `target` of a data set in a tokenizer's ids."""
    sources, targets = (rows[column][:] for column in ("input", "target"))
    return TokenizedSplit(
        encode_sources(tokenizer, sources), encode_targets(tokenizer, targets), tokenizer.pad_token_id
    )


def build(name: str, setup: dict, attention: str) -> torch.nn.Module:
    sizes, (vocab, source_vocab, offset) = setup["sizes"], setup["ids"]
    d, ff, heads, layers = (sizes[k] for k in ("hidden_size", "intermediate_size", "num_attention_heads", "layers"))
    total = max(vocab, source_vocab + offset)
    special = {"pad_token_id": vocab - 1, "eos_token_id": vocab - 1, "decoder_start_token_id": vocab - 1}
    torch.manual_seed(0)
    if name == "t5":
        t5 = T5Config(vocab_size=total, d_model=d, d_kv=d // heads, d_ff=ff, num_layers=layers,
                      num_decoder_layers=layers, num_heads=heads, dropout_rate=0.1, **special)  # fmt: skip
        return T5ForConditionalGeneration(t5)
    if name == "bart":
        bart = BartConfig(vocab_size=total, d_model=d, encoder_layers=layers, decoder_layers=layers,
                          encoder_ffn_dim=ff, decoder_ffn_dim=ff, encoder_attention_heads=heads,
                          decoder_attention_heads=heads, dropout=0.1, attention_dropout=0.1, activation_dropout=0.1,
                          activation_function="relu", max_position_embeddings=512, bos_token_id=vocab - 1,
                          forced_eos_token_id=None, **special)  # fmt: skip
        return BartForConditionalGeneration(bart)
    config = CONFIGS[name](vocab_size=vocab, source_vocab_size=source_vocab, source_id_offset=offset, hidden_size=d,
                           intermediate_size=ff, num_attention_heads=heads, encoder_layers=layers,
                           decoder_layers=layers, **special)  # fmt: skip
    model = list(MODELS[type(config)].values())[-1](config)
    model.set_attn_implementation(attention)
    return model


@fast_products()
def training_step(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, parts: list[dict], bf16: bool = False
) -> None:
    labels = sum(int((part["labels"] != -100).sum()) for part in parts)
    for part in parts:
        count = int((part["labels"] != -100).sum())
        # the peers' loss is a mean over the part; ours is too, without num_items_in_batch
        with torch.autocast(part["labels"].device.type, torch.bfloat16, enabled=bf16):
            loss = model(**part).loss * (count / labels)
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    optimizer.zero_grad()


def batches(setup: dict, buckets: int, steps: int, device: str, static: bool = False) -> list[list[dict]]:
    split = setup["split"]
    source = StepBatches(split, setup["batch_size"], steps, seed=0, length_buckets=buckets)
    parts = [split[rows] for rows in source]
    if static:
        width = {"input_ids": split.sources.lengths.max(), "labels": split.targets.lengths.max()}
        width["attention_mask"] = width["input_ids"]
        fill = {"input_ids": split.pad_id, "attention_mask": 0, "labels": -100}
        parts = [
            {k: torch.nn.functional.pad(v, (0, int(width[k]) - v.shape[1]), value=fill[k]) for k, v in part.items()}
            for part in parts
        ]
    parts = [{k: v.to(device) for k, v in part.items()} for part in parts]
    return [parts[i * buckets : (i + 1) * buckets] for i in range(steps)]


def timed(action: Callable[[], object], device: str, clock: Callable[[], float] = time.perf_counter) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    start = clock()
    action()
    if device == "cuda":
        torch.cuda.synchronize()
    return clock() - start


def in_turns(
    actions: dict[str, Callable[[int], None]],
    rounds: int,
    device: str,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """
    Seconds of each action in each round; actions take [`turns`], after a warm-up of all, because one action's caches
    slow or help the next.
    """
    times: dict[str, list[float]] = {name: [] for name in actions}
    for index, name in turns(list(actions), rounds + 1):
        seconds = timed(lambda run=actions[name], step=index: run(step), device, clock)
        if index:
            times[name].append(seconds)
    return times


def turns(names: list[str], rounds: int) -> Iterator[tuple[int, str]]:
    """(round, name); each round has all names and begins with another one."""
    for index in range(rounds):
        first = index % len(names)
        yield from ((index, name) for name in names[first:] + names[:first])


def clock_of(device: str) -> Callable[[], float]:
    """Processor time for one thread, which other processes do not lengthen; otherwise wall-clock time."""
    return time.process_time if device == "cpu" and torch.get_num_threads() == 1 else time.perf_counter


def per_second(work: int, times: dict[str, list[float]]) -> dict[str, float]:
    """Amount of `work` per second, from the median time of the action."""
    return {name: work / float(np.median(values)) for name, values in times.items()}


def measure_training(setup: dict, mode: str, rounds: int, device: str, attention: str, names: tuple) -> dict:
    # torch.compile has a limit of models and shapes per function; beyond it, it runs uncompiled
    torch.compiler.reset()
    groups = setup["groups"] if mode in ("grouped", "bf16") else 1
    data = batches(setup, groups, rounds + 1, device, static=mode == "compiled")
    actions = {}
    for name in names:
        model = build(name, setup, attention).to(device).train()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
        run = torch.compile(model) if mode == "compiled" else model
        actions[name] = lambda step, run=run, optimizer=optimizer: training_step(
            run, optimizer, data[step], bf16=mode == "bf16"
        )
    return per_second(1, in_turns(actions, rounds, device, clock_of(device)))


def measure_decoding(setup: dict, rounds: int, device: str, names: tuple) -> dict:
    """Greedy sequences per second, for the same number of steps for all models."""
    batch = batches(setup, 1, 1, device)[0][0]
    ids, mask, steps = batch["input_ids"], batch["attention_mask"], setup["decode_steps"]
    actions = {}
    for name in names:
        model = build(name, setup, "sdpa").to(device).eval()
        actions[f"{name} generate"] = lambda _, model=model: model.generate(
            input_ids=ids, attention_mask=mask, min_new_tokens=steps, max_new_tokens=steps, do_sample=False
        )
        if name in OUR_NAMES:
            actions[f"{name} greedy_decode"] = lambda _, model=model: greedy_decode(model, ids, mask, steps)
    return per_second(len(ids), in_turns(actions, rounds, device, clock_of(device)))


def rows_of_others(output: Path | None, wanted: Collection[tuple[str, int]], about: dict) -> list[dict]:
    """Rows of the existing record for other setups or threads, if they were measured in the same way on the same kind
    of machine."""
    if output is None or not output.exists():
        return []
    record = json.loads(output.read_text(encoding="utf-8"))
    same = all(record.get(key) == about[key] for key in ("device", "versions", "rounds"))
    return [row for row in record["results"] if (row["setup"], row["threads"]) not in wanted] if same else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="default: seq2seq.json here; none of --quick")
    parser.add_argument("--rounds", type=int, default=7, help="timed rounds; medians are over these")
    parser.add_argument("--setup", choices=("scan", "cogs", "all"), default="all")
    parser.add_argument("--compile", action="store_true", help="also measure under torch.compile")
    parser.add_argument("--threads", type=int, nargs="*", help="numbers of threads; default: 1 and all")
    parser.add_argument("--quick", action="store_true", help="one round of the SCAN setup, one thread")
    arguments = parser.parse_args()
    output = output_of(__file__, arguments.output, arguments.quick)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    attention = "sdpa" if device == "cuda" else "eager"  # what recipes choose
    names = (*OUR_NAMES, "t5", "bart")
    rounds = 1 if arguments.quick else arguments.rounds
    chosen = ("scan",) if arguments.quick else ("scan", "cogs") if arguments.setup == "all" else (arguments.setup,)
    setups = {name: {"scan": scan_setup, "cogs": cogs_setup}[name]() for name in chosen}
    all_threads = torch.get_num_threads()
    threads = arguments.threads or ([1] if arguments.quick or device == "cuda" else sorted({1, all_threads}))
    modes = ["padded", "grouped", "bf16", *(["compiled"] if arguments.compile else [])]
    results = rows_of_others(
        output, [(setup, count) for setup in setups for count in threads], {**machine(), "rounds": rounds}
    )
    for setup_name, setup in setups.items():
        for count in threads:
            torch.set_num_threads(count)
            for mode in modes:
                speeds = measure_training(setup, mode, rounds, device, attention, names)
                results += [
                    {"setup": setup_name, "threads": count, "what": f"train {mode}", "name": name, "per_second": speed}
                    for name, speed in speeds.items()
                ]
            for name, speed in measure_decoding(setup, rounds, device, names).items():
                results.append(
                    {"setup": setup_name, "threads": count, "what": "decode", "name": name, "per_second": speed}
                )
            print(show([r for r in results if r["setup"] == setup_name and r["threads"] == count]), flush=True)
            record = {**machine(), "rounds": rounds, "results": results}
            if output is not None:
                write_atomic(output, json.dumps(record, indent=1) + "\n")


def show(results: list[dict]) -> str:
    """Speeds, and their ratio to the faster of T5 and BART."""
    lines = []
    for what in dict.fromkeys(row["what"] for row in results):
        rows = [row for row in results if row["what"] == what]
        peer = max(row["per_second"] for row in rows if row["name"].split()[0] in ("t5", "bart"))
        cells = [(r["name"], f"{r['per_second']:.2f}", f"{r['per_second'] / peer:.2f}") for r in rows]
        head = rows[0]
        title = f"{head['setup']}, {head['threads']} thread(s), {what}"
        unit = "sequences/s" if what == "decode" else "steps/s"
        lines.append(table((title, unit, "x best peer"), cells))
    return "\n\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
