"""Decoders behind `transformers serve`, whose process knows of their code by the checkpoint alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from every_model import DECODERS, model_and_batch
from tiny_runs import free_port

from hf_sysgen.data.text.vocabulary import build_vocabulary
from hf_sysgen.evaluation.checkpoints import read_checkpoint

TOOL = "transformers"
PROMPT = "w01 w02 w03"


def asked(url: str, **content: Any) -> dict[str, Any]:
    body = json.dumps(content).encode() if content else None
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("fastapi", reason="needs transformers[serving]")
    folder = tmp_path_factory.mktemp("server")
    port = free_port()
    program = "from transformers.cli.transformers import main; main()"
    options = ["--trust-remote-code", "--device", "cpu", "--host", "127.0.0.1", "--port", str(port)]
    own = {**os.environ, "HF_HOME": str(folder), "HF_HUB_OFFLINE": "1"}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([sys.executable, "-c", program, "serve", *options], env=own, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(240):
            assert process.poll() is None, (folder / "log").read_text()
            try:
                asked(f"{address}/health")
                break
            except OSError:
                time.sleep(0.5)
        yield address
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize("name", DECODERS)
def test_served(name: str, server: str, tmp_path: Path) -> None:
    """transformers serve, with the Auto class in `architectures`"""
    model = model_and_batch(name)[0].float()
    words = " ".join(f"w{index:02}" for index in range(16))
    tokenizer = build_vocabulary([words], [words], joint=True, start=False).tokenizer
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "architectures": ["AutoModelForCausalLM"]}))
    answer = asked(
        f"{server}/v1/completions", model=str(tmp_path), prompt=PROMPT, max_tokens=7, temperature=0, stop=None
    )
    again, _ = read_checkpoint(tmp_path)
    assert type(again) is type(model)
    source = tokenizer([PROMPT], return_tensors="pt")
    written = again.generate(**source, max_new_tokens=7, do_sample=False)[0, source["input_ids"].shape[1] :]
    assert answer["choices"][0]["text"].split() == tokenizer.convert_ids_to_tokens(written)
