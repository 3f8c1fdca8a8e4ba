"""
Thousands of bad inputs, drawn by a seed, and how the commands end that read them.

`python tests/robustness/attack.py --tries 700 --first 2000 --output perf/attacks.json` makes a table of
docs/reliability.md.
Good endings: `fine` (the input was still right) and `line` (one line of error). Bad endings: `traceback`, `slow` (over
5 s of processor time, or a hang), `silent` (wrong content was accepted) and `lost` (content is gone).
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hf_sysgen.errors import RunFailed, UserError

# for the tests' own modules
TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(TESTS), str(TESTS / "training")]
SECONDS, ASLEEP, MEMORY = 5, 120, 4 << 30
# characters; nobody reads a longer line
LONGEST_LINE = 2000
ENDINGS = ("fine", "line", "traceback", "slow", "silent", "lost")
Attempt = Callable[[random.Random, Path], None]


class Silent(AssertionError):
    """Wrong content was accepted."""


class Lost(AssertionError):
    """Content that existed is gone or changed."""


class TooSlow(BaseException):
    """Not an Exception, so that no `except Exception` catches it."""


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """
    Raises TooSlow after `SECONDS` of processor time or `ASLEEP` seconds, and MemoryError if more than `MEMORY` bytes
    are added.
    """
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before_memory = resource.getrlimit(resource.RLIMIT_AS)

    def stop(*_: Any) -> None:
        raise TooSlow

    before = [signal.signal(number, stop) for number in (signal.SIGPROF, signal.SIGALRM)]
    resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, before_memory[1]))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, ASLEEP)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before_memory)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in zip((signal.SIGPROF, signal.SIGALRM), before, strict=True):
            signal.signal(number, handler)


def ending(attempt: Callable[[], None]) -> tuple[str, str]:
    """One of `ENDINGS`, and the details."""
    start = time.process_time()
    try:
        with limited():
            attempt()
    except (UserError, RunFailed) as error:
        text = " ".join(str(error).split())
        if not text or len(text) > LONGEST_LINE:
            return "traceback", f"a line of {len(text):,} characters: {text[:200]}"
        try:
            text.encode()
        except UnicodeEncodeError:
            return "traceback", f"a line that cannot be printed: {text!r}"
        return "line", text
    except TooSlow:
        return "slow", f"over {SECONDS} s"
    except Silent as error:
        return "silent", str(error)
    except Lost as error:
        return "lost", str(error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # PanicException of the tokenizers library is not an Exception
        import traceback

        return "traceback", "".join(traceback.format_exception(error)[-3:])
    seconds = time.process_time() - start
    return ("slow", f"{seconds:.1f} s") if seconds > SECONDS else ("fine", "")


# ----- bad values

# written to the file without quotes
RAW = {
    "@digits@": "9" * 6000,
    "@deep@": "[" * 3000 + "]" * 3000,
    "@deeper@": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "@nan@": "NaN",
    "@infinity@": "-Infinity",
    "@exponent@": "1e999999",
    "@surrogate@": '"\\ud800"',
    "@twice@": '{"a": 1, "a": 2}',
}
STRINGS = (
    "", " ", "null", "\0", "\x1b[2J", "é" * 130, "a" * 300, "x" * 100_000, "../../x", "/dev/null", "/dev/zero", "/",
    "\u202eabc", "$\\frac{", "{{ 7*7 }}", "%s%n", "<script>", "a\nb", "-1", "1e3", "00", "!!python/name:os.system",
    "*a", "&a [*a]", "test accuracy", "checkpoint-notes", "owner/name", "scan", "~", "\\", "'\"",
)  # fmt: skip
NUMBERS = (0, -1, 1, 2, 3, 7, 1_000_003, 2**31, 2**63, 2**64, -(2**63) - 1, 10**30, 0.5, -0.0, 1e-320, 1e308)
ODD_BYTES = (b"\0", b"\xff", b"\n", b"\t", b"\r\n", b"'", b'"', b": ", b"&a *a ", b"[", b"}", b"9" * 50)
ODD: tuple[Any, ...] = (None, True, False, [], {}, [None], {"": None}, [[]], *STRINGS, *NUMBERS, *RAW)


def _bomb(first: str, more: str) -> str:
    return first + "".join(more.format(number + 1, ", ".join([f"*a{number}"] * 9)) for number in range(9))


# short texts of YAML that grow when they are read
BOMBS = (
    _bomb("a0: &a0 [x, x, x, x, x, x, x, x, x]\n", "a{0}: &a{0} [{1}]\n"),
    _bomb("a0: &a0 {x: 1}\n", "a{0}: &a{0} {{<<: [{1}], y{0}: 1}}\n"),
    "model: " + "[" * 5000 + "]" * 5000,
    "model: {type: " + "x" * 3_000_000 + "}",
    "".join(f"key{number}: {number}\n" for number in range(100_000)),
    "training: {max_steps: " + "9" * 6000 + "}",
    "a: !!python/object/apply:os.system [id]",
    "? [complex, key]\n: 1",
    "--- a\n--- b",
    "\t",
    "model: &m {type: lstm_seq2seq, <<: *m}",
    "a: &a [*a]",
    "2: 3",
    "%YAML 9.9\n---\na: 1",
)


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, value in content.items() if isinstance(content, dict) else enumerate(content):
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def changed(rng: random.Random, content: Any, odd: tuple[Any, ...] = ODD) -> Any:
    """One to three entries of nested content replaced, left out, doubled, renamed, moved or wrapped."""
    content = copy.deepcopy(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        found = list(places(content))
        if not found:
            return rng.choice(odd)
        # as often at the top as deep inside, although most places are deep
        path = rng.choice([one for one in found if len(one) == rng.choice([len(one) for one in found])] or found)
        parent = content
        for key in path[:-1]:
            parent = parent[key]
        key, value = path[-1], parent[path[-1]]
        what = rng.choice(("odd", "odd", "odd", "odd", "out", "renamed", "wrapped", "moved", "grown"))
        if what == "out":
            del parent[key]
        elif what == "renamed" and isinstance(parent, dict):
            parent[str(rng.choice(STRINGS)) if rng.random() < 0.5 else f"{key}x"] = parent.pop(key)
        elif what == "wrapped":
            parent[key] = rng.choice(([value], {"a": value}, [value] * 3))
        elif what == "moved":
            other = content
            for step in rng.choice(found)[:-1]:
                other = other[step]
            parent[key] = copy.deepcopy(other) if len(json.dumps(other)) < 100_000 else None
        elif what == "grown" and isinstance(value, int | float) and not isinstance(value, bool):
            parent[key] = value * rng.choice((-1, 0, 10, 1e9))
        else:
            parent[key] = rng.choice(odd)
    return content


def as_json(content: Any) -> str:
    text = json.dumps(content, ensure_ascii=False)
    for name, raw in RAW.items():
        text = text.replace(f'"{name}"', raw)
    return text


def torn(rng: random.Random, data: bytes) -> bytes:
    """A file with bytes changed, lost, doubled or put in."""
    content = bytearray(data or b"\0")
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(content) + 1)
        end = min(len(content), at + rng.choice((1, 3, 20, 200)))
        what = rng.choice(("flip", "flip", "cut", "out", "twice", "in"))
        if what == "flip" and at < len(content):
            content[at] ^= 1 << rng.randrange(8)
        elif what == "cut":
            del content[at:]
        elif what == "out":
            del content[at:end]
        elif what == "twice":
            content[at:at] = content[at:end]
        else:
            content[at:at] = rng.choice(ODD_BYTES)
        content = content or bytearray(b" ")
    return bytes(content)


# ----- attacks: each function makes one attempt, with a generator and a folder of its own


@functools.cache
def recipe_texts() -> list[str]:
    from hf_sysgen.config.io import shipped_files

    return [path.read_text(encoding="utf-8") for path in shipped_files().values()]


def yaml_file(rng: random.Random, text: str, path: Path) -> None:
    """YAML with bad values or damaged text."""
    import yaml

    if rng.random() < 0.75:
        path.write_text(as_json(changed(rng, yaml.safe_load(text))), encoding="utf-8", errors="surrogatepass")
    elif rng.random() < 0.9:
        path.write_bytes(torn(rng, text.encode()))
    else:
        path.write_text(rng.choice(BOMBS), encoding="utf-8")


def recipes(rng: random.Random, folder: Path) -> None:
    from hf_sysgen.config.io import dump_recipe, load_recipe

    path = folder / "recipe.yaml"
    yaml_file(rng, rng.choice(recipe_texts()), path)
    recipe = load_recipe(path)
    copy_of = folder / "copy.yaml"
    copy_of.write_text(dump_recipe(recipe), encoding="utf-8")
    if load_recipe(copy_of).hash != recipe.hash:
        raise Silent("the copy that a run keeps is another recipe")


def overrides(rng: random.Random, folder: Path) -> None:
    from hf_sysgen.config.fields import FIELDS
    from hf_sysgen.config.io import load_recipe, shipped_files

    key = rng.choice([*(one.key for one in FIELDS), "model.hidden_size", "training.warmup", "a.b.c", "", ".", "model"])
    value = rng.choice((as_json(rng.choice(ODD)), str(rng.choice(STRINGS)), rng.choice(BOMBS)))
    load_recipe(rng.choice(list(shipped_files().values())), [f"{key}={value}"])


def sweeps(rng: random.Random, folder: Path) -> None:
    from hf_sysgen.config.io import shipped_recipes
    from hf_sysgen.config.sweep import load_sweep

    texts = sorted(shipped_recipes().glob("*/sweeps/*.yaml"), key=lambda path: path.stat().st_size)[:12]
    path = rng.choice(texts)
    text = path.read_text(encoding="utf-8").replace("../", f"{path.parent.parent}/")
    yaml_file(rng, text, folder / "sweep.yaml")
    load_sweep(folder / "sweep.yaml")


def role_files(rng: random.Random, folder: Path) -> None:
    from hf_sysgen.data.text.roles import read_role_scheme

    roles = {"source": {"walk": "prim", "left": "left"}, "target": {"I_WALK": "PRIM", "I_LEFT": "LEFT"}}
    path = folder / rng.choice(("roles.yaml", "roles.json"))
    yaml_file(rng, json.dumps(roles), path)
    read_role_scheme(path)


@functools.cache
def record_contents() -> list[dict[str, Any]]:
    from hf_sysgen.zoo import zoo_folder, zoo_names

    return [json.loads((zoo_folder(name) / "results.json").read_bytes()) for name in zoo_names()]


def spoilt_record(rng: random.Random, path: Path) -> None:
    content = rng.choice(record_contents())
    path.parent.mkdir(parents=True, exist_ok=True)
    if rng.random() < 0.75:
        path.write_text(as_json(changed(rng, content)), encoding="utf-8", errors="surrogatepass")
    else:
        path.write_bytes(torn(rng, json.dumps(content).encode()))


def records(rng: random.Random, folder: Path) -> None:
    """A bad record beside a good one. The report still has the good one."""
    from hf_sysgen.reports.write import write_report
    from hf_sysgen.results.reading import collect

    good = folder / "runs" / "good" / "results.json"
    good.parent.mkdir(parents=True)
    good.write_text(json.dumps(record_contents()[0]), encoding="utf-8")
    spoilt_record(rng, folder / "runs" / "bad" / "results.json")
    found = collect([folder / "runs"])
    if len(found.records) + len(found.skipped) != 2 or good.resolve() not in [path for path, _ in found.records]:
        raise Silent(f"{len(found.records)} read, {len(found.skipped)} skipped")
    for ending in ("html", "txt"):
        write_report("csordas2021" if ending == "txt" else "all", [folder / "runs"], folder / f"report.{ending}")


def cards(rng: random.Random, folder: Path) -> None:
    from hf_sysgen.hub.publish_model import run_card

    spoilt_record(rng, folder / "run" / "results.json")
    run_card(folder / "run")


def analyses(rng: random.Random, folder: Path) -> None:
    from hf_sysgen.analysis import commands, finding

    spoilt_record(rng, folder / "run" / "results.json")
    name, options = rng.choice(
        (
            ("early_stopping", {"patience": 10, "as_worded": False, "split": "test"}),
            ("loss_accuracy", {"loss_split": None, "accuracy_split": None, "first_step": 0}),
            ("double_descent", {"split": "test"}),
            ("convergence", {"share": 0.8, "as_worded": False}),
            ("iid_table", {}),
            ("batch_table", {}),
            ("lexical_structural", {}),
        )
    )
    finding.analyse([folder / "run"], folder, lambda found: getattr(commands, name)(found, **options))


PREDICTIONS = (
    {"split": "test", "row": 0, "input": "jump", "prediction": "JUMP", "target": "JUMP", "exact": True, "loss": 0.5,
     "loss_teacher": 0.25, "target_length": 1, "oracle_exact": True, "category": "a", "pairs": ["red house"]},
    {"split": "gen", "row": 0, "prediction": "0:x 1:y", "target": "0:x 1:y", "exact": True, "tokens": 2,
     "correct_heads": 2, "correct_arcs": 1},
    {"split": "gen", "row": 1, "prediction": {"roles": ["a", 1]}, "exact": False, "target_length": 2},
    {"split": "validation", "row": 0, "nats": 1.5, "correct": 1, "tokens": 2, "input": "a text"},
)  # fmt: skip


def predictions(rng: random.Random, folder: Path) -> None:
    from hf_sysgen.evaluation.score import SCORES, score_predictions

    rows = [copy.deepcopy(rng.choice(PREDICTIONS)) for _ in range(3)] if rng.random() < 0.3 else [PREDICTIONS[0]] * 3
    lines = [as_json(row) for row in rows]
    number = rng.randrange(3)
    lines[number] = as_json(changed(rng, rows[number]))
    data = "\n".join(lines).encode(errors="surrogatepass")
    path = folder / "predictions.jsonl"
    path.write_bytes(torn(rng, data) if rng.random() < 0.25 else data)
    metric = rng.choice((*["recorded", "sequence_exact_match", "perplexity", "oracle_length"] * 2, *SCORES))
    score_predictions(path, metric, rng.choice(("tokenized", "x")) if rng.random() < 0.2 else None)


@functools.cache
def small_checkpoint() -> Path:
    """A small model of the zoo that answers texts."""
    from hf_sysgen.zoo import zoo_folder

    return zoo_folder("scan_length26_quick_universal")


def configs(rng: random.Random, folder: Path) -> None:
    """A checkpoint with damaged JSON files. If it loads, it must predict or give one line."""
    from hf_sysgen.evaluation.checkpoints import load_checkpoint, predict

    for path in small_checkpoint().glob("*.*"):
        (folder / path.name).symlink_to(path)
    path = folder / rng.choice(("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"))
    data = path.read_bytes()
    path.unlink()
    if rng.random() < 0.75:
        path.write_text(as_json(changed(rng, json.loads(data))), encoding="utf-8", errors="surrogatepass")
    else:
        path.write_bytes(torn(rng, data))
    model, tokenizer = load_checkpoint(folder)
    predict(model, tokenizer, ["jump twice"], max_new_tokens=3)


# commands that end at once; any word may be replaced; none trains or downloads
COMMANDS = (
    "train RECIPE training.max_steps=many",
    "recipe fields training",
    "recipe migrate FILE",
    "list models",
    "list recipes --recipes FOLDER",
    "data describe scan length_cutoff_26",
    "data verify scam --data-dir FOLDER",
    "data prepare scam x --cache-dir FOLDER",
    "data tokenizer FOLDER --benchmark scam --vocab-size 300",
    "evaluate MODEL scam length --split test --batch-size 2 --output FOLDER",
    "predict -c MODEL jump --beams 2 --max-new-tokens 3",
    "publish RUN owner/name --dry-run --tag x",
    "publish RUN owner/name --folder FOLDER",
    "sweep SWEEP --dry-run --run x",
    "report csordas2021-table3 --runs FOLDER --output FILE.md",
    "score RUN --metric bleu --setup x",
    "analyse early-stopping RUN -o FOLDER --patience 3",
    "plot attention MODEL jump -o FILE.png",
    "plot biases MODEL -o FILE.svg",
    "plot example RUN -o FILE.png --row 3",
)


def command_lines(rng: random.Random, folder: Path) -> None:
    from typer.testing import CliRunner

    from hf_sysgen.cli.main import app
    from hf_sysgen.zoo import DEFAULT

    (folder / "file").write_text("x", encoding="utf-8")
    (folder / "runs").mkdir()
    known = {
        "RECIPE": "csordas2021/scan_length26_quick_universal.yaml",
        "SWEEP": "csordas2021/sweeps/table3_scan.yaml",
        "MODEL": DEFAULT,
        "RUN": DEFAULT,
        "FOLDER": "runs",
        "FILE": "file",
    }
    words = rng.choice(COMMANDS).split()
    first = 2 if words[0] in ("recipe", "data", "analyse", "plot") else 1
    at = range(first, len(words))
    for number in rng.sample(at, min(len(at), rng.choice((1, 1, 2, 3)))):
        words[number] = str(rng.choice((*STRINGS, *known, "0", "file", "runs", "-x", "--help", "--", "file/x")))
    if rng.random() < 0.1:
        words.insert(rng.randrange(first, len(words) + 1), str(rng.choice(STRINGS)))
    for name, value in known.items():
        words = [word.replace(name, value) for word in words]
    if words[0] == "train" and not any("=" in word for word in words):
        # nothing bad is left, so it would train
        return
    before = Path.cwd()
    os.chdir(folder)
    try:
        done = CliRunner().invoke(app, words, input="jump\n")
    finally:
        os.chdir(before)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    if done.exit_code == 2 and "error:" in done.stderr.lower():
        raise UserError(done.stderr.strip().rpartition("\n")[2] or "?")
    if done.exit_code not in (0, 1, 2):
        raise AssertionError(f"status {done.exit_code} of {words}")


@functools.cache
def upstream_configs() -> list[tuple[str, str]]:
    """Benchmarks and configs of whose files the repository has at least a part."""
    from upstream_files import SAMPLE

    from hf_sysgen.data.fetch import with_found_checksum
    from hf_sysgen.data.registry import list_benchmarks

    return [
        (benchmark.name, config.name)
        for benchmark in list_benchmarks()
        for config in benchmark.configs.values()
        if config.sources
        and benchmark.name != "c4"
        and all(with_found_checksum(one, SAMPLE) for one in config.sources.values())
    ]


def upstream_files(rng: random.Random, folder: Path) -> None:
    """A benchmark's file with other content, although its checksum is the expected one."""
    import gzip

    from upstream_files import SAMPLE, Files

    from hf_sysgen.data import benchmark_info

    name, config = rng.choice(upstream_configs())
    sources = list(benchmark_info(name).config(config).sources.values())
    spoilt = rng.choice(sources)
    for source in {one.mirror: one for one in sources}.values():
        there = Files(SAMPLE, whole=False).path(source.mirror)
        here = folder / "files" / there.relative_to(SAMPLE)
        here.parent.mkdir(parents=True, exist_ok=True)
        if source is not spoilt:
            here.symlink_to(there)
            continue
        packed = there.suffix == ".gz"
        data = gzip.decompress(there.read_bytes()) if packed else there.read_bytes()
        if there.name.removesuffix(".gz").endswith(".json") and rng.random() < 0.5:
            data = as_json(changed(rng, json.loads(data))).encode(errors="surrogatepass")
        else:
            data = torn(rng, data)
        here.write_bytes(gzip.compress(data) if packed else data)
    Files(folder / "files", whole=False).load(name, config, folder / "cache")


def documents(rng: random.Random, folder: Path) -> None:
    """A damaged shard where C4 is expected."""
    import gzip

    from hf_sysgen.data.c4.files import read_documents

    rows = [{"text": f"text {number}", "timestamp": "", "url": ""} for number in range(3)]
    lines = [as_json(changed(rng, row) if number == 1 else row) for number, row in enumerate(rows)]
    data = "\n".join(lines).encode(errors="surrogatepass")
    data = gzip.compress(torn(rng, data)) if rng.random() < 0.3 else gzip.compress(data)
    path = folder / "shard.json.gz"
    path.write_bytes(torn(rng, data) if rng.random() < 0.3 else data)
    for document in read_documents(str(path)):
        if not all(isinstance(value, str) for value in document.values()):
            raise Silent(f"{document}")
        document["text"].encode()


@functools.cache
def whole_checkpoint() -> Path:
    """A checkpoint as a run writes it, with a small model."""
    import atexit

    import torch

    from hf_sysgen.files import write_manifest

    kept = tempfile.TemporaryDirectory(prefix="attack-")
    atexit.register(kept.cleanup)
    folder = Path(kept.name) / "checkpoint-4"
    folder.mkdir()
    for name in ("model.safetensors", "config.json"):
        (folder / name).write_bytes((small_checkpoint() / name).read_bytes())
    torch.save({"state": {0: {"exp_avg": torch.ones(50)}}}, folder / "optimizer.pt")
    torch.save({"cpu": torch.get_rng_state()}, folder / "rng_state.pth")
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": 4, "best_global_step": None}))
    write_manifest(folder)
    return folder


def spoil_one(rng: random.Random, folder: Path) -> None:
    """Damage one file below a folder, perhaps the mark: one bit, more, or all of it."""
    path = rng.choice(sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"))
    data = path.read_bytes()
    if rng.random() < 0.1:
        path.unlink()
        return
    new = torn(rng, data)
    if rng.random() < 0.6 and data:
        at = rng.randrange(len(data))
        new = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    path.write_bytes(new)


def contents(folder: Path, without: str = "") -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != without
    }


def checkpoints(rng: random.Random, folder: Path) -> None:
    """A checkpoint that was changed after it was written, and is then resumed, evaluated or published."""
    from hf_sysgen.evaluation.checkpoint_folders import check_unchanged
    from hf_sysgen.training.checkpointing import check_intact

    checkpoint = Path(shutil.copytree(whole_checkpoint(), folder / "checkpoint-4"))
    spoil_one(rng, checkpoint)
    differing = contents(checkpoint, "complete") != contents(whole_checkpoint(), "complete")
    if not (checkpoint / "complete").exists():
        # a checkpoint without a mark counts as unfinished
        return
    try:
        check_intact(checkpoint)
    except UserError:
        if differing:
            with contextlib.suppress(UserError):
                check_unchanged(checkpoint)
                read = {name: data for name, data in contents(checkpoint).items() if name[-5:] in (".json", "nsors")}
                if any(data != (whole_checkpoint() / name).read_bytes() for name, data in read.items()):
                    raise Silent("evaluated although its weights or config were changed") from None
        raise
    if differing:
        raise Silent("resumed although it was changed")


@functools.cache
def prepared_cache() -> tuple[Path, dict[str, list[dict[str, Any]]]]:
    import atexit

    from upstream_files import SAMPLE, Files

    kept = tempfile.TemporaryDirectory(prefix="attack-")
    atexit.register(kept.cleanup)
    data = Files(SAMPLE, whole=False).load(*PREPARED, Path(kept.name) / "cache")
    return Path(kept.name) / "cache", {name: split.to_list() for name, split in data.items()}


PREPARED = ("geoquery", "standard")


def prepared_data(rng: random.Random, folder: Path) -> None:
    from upstream_files import SAMPLE, Files

    cache, rows = prepared_cache()
    here = Path(shutil.copytree(cache, folder / "cache"))
    data_folder = next(path.parent for path in here.rglob("dataset_info.json"))
    spoil_one(rng, data_folder)
    data = Files(SAMPLE, whole=False).load(*PREPARED, here)
    if {name: split.to_list() for name, split in data.items()} != rows:
        raise Silent("other examples were loaded")


EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree", "shutil.copyfile"}


def killed_at(number: int, work: Callable[[], None], largest: int | None = None) -> bool:
    """
    Run the work in a process that is killed at its n-th event of the file system, or, given the `largest` size of a
    file in bytes, within the write that exceeds it; whether it ended before.
    """
    child = os.fork()
    if child == 0:
        left = [number]
        if largest is not None:
            # Python ignores the signal, and the write would fail instead
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))

        def hook(event: str, _: Any) -> None:
            if event in EVENTS:
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        with open(os.devnull, "w") as null:
            os.dup2(null.fileno(), 2)
        sys.addaudithook(hook)
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


def kills(rng: random.Random, folder: Path) -> None:
    """Kill a process at any event of the file system: existing files stay complete, and the work succeeds later."""
    rng.choice((_killed_writing, _killed_marking, _killed_preparing, _killed_reporting))(rng, folder)


def _killed_writing(rng: random.Random, folder: Path) -> None:
    from hf_sysgen.files import write_atomic

    path, old, new = folder / "deep" / "file.json", "o" * 5000, "n" * 7000
    if existed := rng.random() < 0.5:
        write_atomic(path, old)
    if rng.random() < 0.5:
        killed_at(rng.randrange(1, 8), lambda: write_atomic(path, new))
    else:
        killed_at(0, lambda: write_atomic(path, new), rng.randrange(1, len(new)))
    if (existed or path.exists()) and path.read_text() not in (old, new):
        raise Lost("a file is neither the old one nor the new one")
    write_atomic(path, new)
    if path.read_text() != new:
        raise Lost("the file was not written again")


def _killed_marking(rng: random.Random, folder: Path) -> None:
    from hf_sysgen.files import replace_marked, write_manifest
    from hf_sysgen.training.checkpointing import check_intact

    checkpoint = Path(shutil.copytree(whole_checkpoint(), folder / "checkpoint-4"))
    if rng.random() < 0.3:
        (checkpoint / "complete").unlink()
        killed_at(rng.randrange(1, 20), lambda: write_manifest(checkpoint))
    else:
        killed_at(rng.randrange(1, 20), lambda: replace_marked(checkpoint, "trainer_state.json", "{}"))
        if (checkpoint / "trainer_state.json").read_text() not in (
            "{}", (whole_checkpoint() / "trainer_state.json").read_text(),
        ):  # fmt: skip
            raise Lost("the state is neither the old one nor the new one")
    if (checkpoint / "complete").exists():
        check_intact(checkpoint)


def _killed_preparing(rng: random.Random, folder: Path) -> None:
    from upstream_files import SAMPLE, Files

    _, rows = prepared_cache()
    here = folder / "cache"
    killed_at(rng.randrange(1, 60), lambda: _ignored(Files(SAMPLE, whole=False).load(*PREPARED, here)))
    data = Files(SAMPLE, whole=False).load(*PREPARED, here)
    if {name: split.to_list() for name, split in data.items()} != rows:
        raise Silent("other examples were loaded")


def _killed_reporting(rng: random.Random, folder: Path) -> None:
    from hf_sysgen.reports.write import write_report

    run = folder / "runs" / "one"
    run.mkdir(parents=True)
    (run / "results.json").write_text(json.dumps(record_contents()[0]), encoding="utf-8")
    output = folder / "report.md"
    write_report("csordas2021", [folder / "runs"], output)
    before, record = output.read_bytes(), contents(run)
    shutil.copytree(run, folder / "runs" / "two")
    killed_at(rng.randrange(1, 30), lambda: _ignored(write_report("csordas2021", [folder / "runs"], output)))
    now = output.read_bytes()
    write_report("csordas2021", [folder / "runs"], output)
    if now not in (before, output.read_bytes()) or contents(run) != record:
        raise Lost("a report or a record was damaged")


def _ignored(_: Any) -> None:
    """The work of the process that is killed."""


@functools.cache
def whole_run() -> tuple[list[str], bytes]:
    """The words that train a small model, and the weights that it ends with."""
    import atexit

    from tiny_runs import train_process, weights, write_recipe

    kept = tempfile.TemporaryDirectory(prefix="attack-")
    atexit.register(kept.cleanup)
    folder = Path(kept.name)
    words = [str(write_recipe(folder, size=8, length_buckets=2, sampling="epochs")), "output_dir=run"]
    done = train_process(words, folder)
    assert done.status == 0, done.err
    return words, weights(folder / "run" / "model")


def _go_on(folder: Path) -> None:
    from tiny_runs import train_process, weights

    words, expected = whole_run()
    done = train_process(words, folder)
    if done.status != 0:
        raise Lost(f"the same command does not go on: {done.err[-500:]}")
    if weights(folder / "run" / "model") != expected:
        raise Silent("the run ends with other weights")


def killed_runs(rng: random.Random, folder: Path) -> None:
    """Training is killed at any event of the file system, then the same command ends the run as if nothing happened."""
    from kills import at_event
    from tiny_runs import train_process

    train_process(whole_run()[0], folder, functools.partial(at_event, rng.randrange(1, 300)))
    _go_on(folder)


def full_disks(rng: random.Random, folder: Path) -> None:
    """Training finds no room for a file, then, with room again, the same command ends the run."""
    from kills import with_little_room
    from tiny_runs import lines_beside_progress, train_process

    done = train_process(whole_run()[0], folder, functools.partial(with_little_room, round(2000 * 50 ** rng.random())))
    lines = lines_beside_progress(done.err)
    if len(lines) > 1:
        raise AssertionError(f"{len(lines)} lines: {done.err[-500:]}")
    _go_on(folder)
    if done.status != 0:
        raise UserError(*lines)


ATTACKS: dict[str, Attempt] = {
    attempt.__name__: attempt
    for attempt in (
        recipes, overrides, sweeps, role_files, command_lines, configs, records, cards, analyses, predictions,
        upstream_files, documents, checkpoints, prepared_data, kills, killed_runs, full_disks,
    )
}  # fmt: skip


def tried(name: str, seed: int, folder: Path) -> tuple[str, str, float]:
    """One attempt of an attack: its ending, the details, and its seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    start = time.process_time()
    try:
        with standard_error() as printed:
            how, text = ending(lambda: ATTACKS[name](random.Random(f"{name} {seed}"), folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if how == "line" and printed:
        how, text = "traceback", f"libraries printed besides: {printed[0][:500]}"
    return how, text, time.process_time() - start


@contextlib.contextmanager
def standard_error() -> Iterator[list[str]]:
    """What is written there meanwhile, also by libraries in C and Rust."""
    printed: list[str] = []
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield printed
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            printed += filter(None, [file.read().decode(errors="replace").strip()])


def main() -> None:
    import argparse

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--tries", type=int, default=100, help="of each attack")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", nargs="*", choices=ATTACKS, default=list(ATTACKS))
    parser.add_argument("--output", type=Path, help="file of JSON that the counts of each attack are put into")
    options = parser.parse_args()
    import datasets
    import transformers

    datasets.disable_progress_bars()
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only:
            found, seconds = dict.fromkeys(ENDINGS, 0), 0.0
            for seed in range(options.first, options.first + options.tries):
                how, text, took = tried(name, seed, Path(folder) / f"{seed}")
                found[how] += 1
                seconds = max(seconds, took)
                if how not in ("fine", "line"):
                    print(f"{name} {seed}: {how}: {text}", flush=True)
            counts = {
                "first_seed": options.first,
                "tries": options.tries,
                **found,
                "longest_seconds": round(seconds, 2),
            }
            print(name, counts, flush=True)
            if options.output is not None:
                known = json.loads(options.output.read_text()) if options.output.exists() else {}
                known.setdefault("now", {})[name] = counts
                options.output.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
