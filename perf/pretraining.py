"""
Speed and memory of language-model pretraining: depth-width decoders beside transformers' GPT-2 and Llama of equal size.

`python perf/pretraining.py` measures everything in one run and writes perf/pretraining.json; `--quick` is a check of
the script itself. A step is forward, backward, clipping and AdamW on random tokens. All models take turns with one
step, for several rounds, so that a busy machine slows all equally; medians are reported. On a CPU, seconds are
processor time divided by the number of threads, which other programs do not lengthen; wall-clock time is kept too.
Equal size: the same depth, width, heads, vocabulary and untied embeddings; Llama has the same gated blocks; GPT-2's
ungated blocks are 1.5 times as wide, for the same number of parameters.

Memory is the peak during a step, with weights and optimizer: on a GPU PyTorch's allocation, on a CPU the growth of the
resident set of a process that does nothing else.

On a GPU also MFU, the share of the device's measured peak (a bf16 product of 8192 x 8192 matrices) that a step's useful
work needs: 6 FLOPs a token for every weight that is multiplied (the output projection counts, the embedding table does
not), once for every layer that it is applied in, plus 6 x layers x context x width for causal attention. Work that is
done twice counts once.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from machine import machine, output_of
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedModel
from transformers.pytorch_utils import Conv1D

from hf_sysgen.files import write_atomic
from hf_sysgen.models import DepthWidthConfig, DepthWidthForCausalLM
from hf_sysgen.tables import table

OURS = "depth_width_decoder"
NAMES = (OURS, "gpt2", "llama")


def build(name: str, size: DepthWidthConfig, context: int) -> PreTrainedModel:
    torch.manual_seed(0)
    if name == OURS:
        return DepthWidthForCausalLM(size)
    if name == "llama":
        return LlamaForCausalLM(
            LlamaConfig(
                vocab_size=size.vocab_size,
                hidden_size=size.hidden_size,
                intermediate_size=size.intermediate_size,
                num_hidden_layers=size.num_hidden_layers,
                num_attention_heads=size.num_attention_heads,
                max_position_embeddings=context,
                tie_word_embeddings=False,
            )
        )
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=size.vocab_size,
            n_embd=size.hidden_size,
            n_inner=size.intermediate_size * 3 // 2,
            n_layer=size.num_hidden_layers,
            n_head=size.num_attention_heads,
            n_positions=context,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            tie_word_embeddings=False,
            bos_token_id=None,
            eos_token_id=None,
        )
    )
    # the same loss as without, of which a warning is logged, where a whole graph cannot log
    model.loss_type = "ForCausalLM"
    return model


def flops_per_token(model: PreTrainedModel, context: int) -> int:
    """FLOPs of the useful work of an update, see above; the model may be on the device `meta`."""
    config = model.config
    # layers that share weights are one module, which computes at every depth
    times = config.num_hidden_layers if getattr(config, "share_layers", False) else 1
    weights = sum(
        module.weight.numel() * (times if ".layers." in name else 1)
        for name, module in model.named_modules()
        if isinstance(module, (nn.Linear, Conv1D))
    )
    return 6 * weights + 6 * config.num_hidden_layers * context * config.hidden_size


class Step:
    """One update of a model; `precision` is `fp32` or `bf16` (autocast)."""

    def __init__(self, name: str, arguments: argparse.Namespace, size: DepthWidthConfig):
        self.device = arguments.device
        self.model = build(name, size, arguments.context).to(self.device).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.run = torch.compile(self.model, fullgraph=True) if arguments.compile else self.model
        self.autocast = torch.autocast(self.device, torch.bfloat16, enabled=arguments.precision == "bf16")
        self.shape = (arguments.batch, arguments.context)
        self.tokens = arguments.batch * arguments.context
        self.vocab_size = size.vocab_size

    def __call__(self, index: int) -> None:
        generator = torch.Generator().manual_seed(index)
        ids = torch.randint(self.vocab_size, self.shape, generator=generator).to(self.device)
        with self.autocast:
            loss = self.run(input_ids=ids, labels=ids).loss
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.device == "cuda":
            torch.cuda.synchronize()


def in_turns(steps: dict[str, Callable[[int], None]], rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Wall-clock and processor seconds; actions take turns in each round, and the first two rounds warm up."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in steps}
    for index in range(rounds + 2):
        for name, step in steps.items():
            clock, processor = time.perf_counter(), time.process_time()
            step(index)
            if index > 1:
                times[name].append((time.perf_counter() - clock, time.process_time() - processor))
    return times


def resident_bytes(peak: bool) -> int:
    """Resident bytes of this process, now or at the peak (from Linux, as getrusage would count the parent's peak)."""
    status = Path("/proc/self/status").read_text()
    found = re.search(rf"^{'VmHWM' if peak else 'VmRSS'}:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def resident_growth(name: str, arguments: argparse.Namespace, size: DepthWidthConfig, answer) -> None:
    """Bytes that three steps of a model add to a new process."""
    torch.set_num_threads(arguments.threads)
    before = resident_bytes(peak=False)
    step = Step(name, arguments, size)
    for index in range(3):
        step(index)
    answer.put(resident_bytes(peak=True) - before)


def peak_memory(name: str, arguments: argparse.Namespace, size: DepthWidthConfig) -> int:
    """Bytes."""
    if arguments.device == "cuda":
        step = Step(name, arguments, size)
        torch.cuda.reset_peak_memory_stats()
        for index in range(3):
            step(index)
        return torch.cuda.max_memory_allocated()
    context = multiprocessing.get_context("spawn")
    answer = context.SimpleQueue()
    process = context.Process(target=resident_growth, args=(name, arguments, size, answer))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"measuring the memory of {name} failed with exit status {process.exitcode}")
    return answer.get()


def measured_peak() -> float:
    """FLOPs a second of a large bf16 product."""
    size, rounds = 8192, 50
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(10):
        a @ b
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(rounds):
        a @ b
    torch.cuda.synchronize()
    return 2 * size**3 * rounds / (time.perf_counter() - start)


def measure(arguments: argparse.Namespace, size: DepthWidthConfig, peak: float | None) -> list[dict]:
    memory = {name: peak_memory(name, arguments, size) for name in NAMES}
    steps = {name: Step(name, arguments, size) for name in NAMES}
    rows = []
    for name, times in in_turns(steps, arguments.rounds).items():
        step = steps[name]
        clock, processor = zip(*times, strict=True)
        seconds = clock if arguments.device == "cuda" else [time / arguments.threads for time in processor]
        speed = step.tokens / float(np.median(seconds))
        rows.append(
            {
                "size_class": arguments.size_class,
                "layers": size.num_hidden_layers,
                "batch": arguments.batch,
                "context": arguments.context,
                "precision": arguments.precision,
                "mode": "compiled" if arguments.compile else "eager",
                "name": name,
                "parameters": step.model.num_parameters(),
                "tokens_per_second": speed,
                "seconds": list(seconds),
                "clock_seconds": list(clock),
                "peak_bytes": memory[name],
                "mfu": speed * flops_per_token(step.model, arguments.context) / peak if peak else None,
            }
        )
    return rows


def show(rows: list[dict]) -> str:
    """Speeds, and their ratio to the faster of the peers."""
    best = max(row["tokens_per_second"] for row in rows if row["name"] != OURS)
    head = rows[0]
    title = f"{head['size_class']}, {head['layers']} layers, {head['batch']} x {head['context']}, {head['precision']}"
    cells = [
        (
            row["name"],
            f"{row['parameters']:,}",
            f"{row['tokens_per_second']:,.0f}",
            f"{row['tokens_per_second'] / best:.2f}",
            f"{row['peak_bytes'] / 2**20:,.0f}",
            f"{row['mfu']:.1%}" if row["mfu"] else "-",
        )
        for row in rows
    ]
    return table((f"{title}, {head['mode']}", "parameters", "tokens/s", "x best peer", "MiB", "MFU"), cells) + "\n"


def main() -> None:
    on_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="default: pretraining.json here; none of --quick")
    parser.add_argument("--size-class", choices=("41M", "134M", "374M"), default="134M" if on_gpu else "41M")
    parser.add_argument("--layers", type=int, nargs="+", help="depths; default: 2 and 6 on a CPU, 12 on a GPU")
    parser.add_argument("--batch", type=int, default=32 if on_gpu else 1, help="sequences of a step")
    parser.add_argument("--context", type=int, default=1024 if on_gpu else 512, help="tokens of a sequence")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="bf16" if on_gpu else "fp32")
    parser.add_argument("--rounds", type=int, default=20 if on_gpu else 7, help="timed rounds; medians are over these")
    parser.add_argument("--compile", action="store_true", help="also measure under torch.compile")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="on a CPU")
    parser.add_argument("--quick", action="store_true", help="one round of a small decoder and few tokens")
    arguments = parser.parse_args()
    output = output_of(__file__, arguments.output, arguments.quick)
    arguments.device = "cuda" if on_gpu else "cpu"
    if arguments.quick:
        arguments.layers, arguments.batch, arguments.context, arguments.rounds = [7], 1, 17, 1
    torch.set_num_threads(arguments.threads)
    if on_gpu:
        torch.set_float32_matmul_precision("high")
    peak = measured_peak() if on_gpu else None
    results = []
    for layers in arguments.layers or ([12] if on_gpu else [2, 6]):
        size = DepthWidthConfig.from_size_class(arguments.size_class, layers)
        for mode in (False, True) if arguments.compile else (False,):
            arguments.compile = mode
            rows = measure(arguments, size, peak)
            results += rows
            print(show(rows), flush=True)
            record = {
                **machine(),
                "measured_peak_flops": peak,
                "results": results,
            }
            if output is not None:
                write_atomic(output, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
