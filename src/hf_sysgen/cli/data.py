"""The commands `hf-sysgen data ...`. Every command imports what it needs when it runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from hf_sysgen.cli.commands import command
from hf_sysgen.data.errors import DamagedData, DataError
from hf_sysgen.errors import INTERRUPTED, handle_user_errors

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Benchmarks: what there is, what each split tests, prepare, check.",
)

# `--all` leaves out configs with more examples, because their download takes days
MANY = 10_000_000

Name = Annotated[str, typer.Argument(help="a benchmark, see `hf-sysgen list benchmarks`")]
OptionalName = Annotated[str | None, typer.Argument(help="a benchmark, see `hf-sysgen list benchmarks`")]
Config = Annotated[str | None, typer.Argument(help="one of its configs; default: all of them")]
All = Annotated[bool, typer.Option("--all", help="all benchmarks, except configs with over 10 million examples")]
# this is no Path, because C4 may have an address, and a Path would remove one of its slashes
DataDir = Annotated[str | None, typer.Option(help="folder with the benchmarks' files")]
CacheDir = Annotated[Path | None, typer.Option(help="root of the cache; default: that of datasets")]


@command(app)
def describe(
    name: Name,
    config: Annotated[str | None, typer.Argument(help="one of its configs")] = None,
    lengths: Annotated[bool, typer.Option("--lengths", help="prepare the data if needed, and show lengths")] = False,
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
) -> None:
    """Show on one page what each split tests, its size, its files, and known errors in them."""
    from hf_sysgen.data.describe import describe_text

    with quiet():
        text = describe_text(name, config, lengths=lengths, data_dir=data_dir, cache_dir=cache_dir)
    print(text)


@command(app)
def prepare(
    name: OptionalName = None,
    config: Config = None,
    every: All = False,
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
) -> int:
    """Download, check and convert. Exit status 2 if some data is not available."""
    status = 0
    for benchmark, one in _chosen(name, config, every):
        from hf_sysgen.data.registry import benchmark_builder

        with quiet(), handle_user_errors() as exit_status:
            builder = benchmark_builder(benchmark, one, data_dir=data_dir, cache_dir=cache_dir)
            known, start = builder.is_prepared, time.perf_counter()
            if builder.STREAMED:
                print(f"{benchmark} {one}: read as a stream, there is nothing to prepare", flush=True)
                continue
            builder.download_and_prepare()
            seconds = time.perf_counter() - start
            rows = sum(split.num_examples for split in builder.info.splits.values())
            took = "was prepared" if known else f"{seconds:.1f} s, {rows / seconds:,.0f} rows/s"
            print(f"{benchmark} {one}: {rows:,} examples, {took}, {builder.cache_dir}", flush=True)
        status = max(status, exit_status.status)
        if exit_status.status == INTERRUPTED:
            break
    return status


@command(app)
def verify(
    name: OptionalName = None,
    config: Config = None,
    every: All = False,
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
) -> int:
    """Check counts and definitions of the splits on the data.

    Exit status 1 if a check fails or a file is damaged, 2 if the data of some config is not available.
    """
    failed = skipped = passed = 0
    for benchmark, one in _chosen(name, config, every):
        from hf_sysgen.data.verify import verify as verified

        what = f"{benchmark} {one}:"
        try:
            with quiet():
                for check in verified(benchmark, one, data_dir=data_dir, cache_dir=cache_dir):
                    if isinstance(check, str):
                        print("note   ", what, check)
                        continue
                    failed += not check.holds
                    passed += check.holds
                    found = "" if check.holds else f"; found: {check.found}"
                    print("ok     " if check.holds else "FAILED ", what, f"{check.fact}{found}", flush=True)
        except DamagedData as error:
            failed += 1
            print("DAMAGED", what, error, flush=True)
        except DataError as error:
            skipped += 1
            print("SKIPPED", what, error, flush=True)
    print(f"{passed} checks hold, {failed} fail, {skipped} configs skipped because they cannot be prepared")
    return 1 if failed else 2 if skipped else 0


@command(app)
def tokenizer(
    folder: Annotated[Path, typer.Argument(help="where to put it; a recipe's `tokenizer` names this folder")],
    benchmark: Annotated[str, typer.Option(help="whose training text it is trained on")] = "c4",
    vocab_size: Annotated[int, typer.Option(help="subwords")] = 32_000,
    documents: Annotated[int, typer.Option(min=1, help="how many documents, from the first one on")] = 1_000_000,
    data_dir: DataDir = None,
) -> None:
    """Train a tokenizer of subwords (byte-pair encoding over bytes) on streamed text."""
    from hf_sysgen.data.text.byte_pairs import save_byte_pairs

    with quiet():
        read, characters = save_byte_pairs(folder, benchmark, vocab_size, documents, data_dir=data_dir)
    print(f"{vocab_size:,} subwords from {read:,} documents, {characters:,} characters: {folder}")


def _chosen(name: str | None, config: str | None, every: bool) -> Iterator[tuple[str, str]]:
    """Benchmark and config of what the arguments ask for."""
    from hf_sysgen.data.registry import benchmark_info, list_benchmarks

    if every == (name is not None):
        raise DataError("name a benchmark, or give --all" if name is None else f"give either {name} or --all")
    for benchmark in list_benchmarks() if name is None else [benchmark_info(name)]:
        for one in benchmark.configs.values() if config is None else [benchmark.config(config)]:
            examples = sum(filter(None, one.num_examples.values()))
            if every and examples > MANY:
                print(f"SKIPPED {benchmark.name} {one.name}: {examples:,} examples; name it to include it")
            else:
                yield benchmark.name, one.name


@contextmanager
def quiet() -> Iterator[None]:
    """Hide progress bars of `datasets` and the hub where the output is no terminal."""
    import datasets
    import huggingface_hub.constants
    import huggingface_hub.utils as hub

    with ExitStack() as stack:
        # if the environment decides, an attempt to change it would warn
        if not sys.stderr.isatty() and huggingface_hub.constants.HF_HUB_DISABLE_PROGRESS_BARS is None:
            stack.enter_context(hub.disable_progress_bars())
        decided = datasets.config.HF_DATASETS_DISABLE_PROGRESS_BARS is not None
        if not sys.stderr.isatty() and not decided and not datasets.are_progress_bars_disabled():
            datasets.disable_progress_bars()
            stack.callback(datasets.enable_progress_bars)
        yield
