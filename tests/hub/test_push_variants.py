"""`push_to_hub` of every variant, and what a process without our code makes of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fake_hub import CLIENT_WARNING, fake_hub

import hf_sysgen
import hf_sysgen.hub.stranger
from hf_sysgen.models import CONFIGS

# every model type with the head that writes texts, or else its only one
PUSH = """
import json, sys
import torch
from edge_tiny import tiny_edge
from tiny import WRAPPED, tiny_model
from hf_sysgen.data.tokenization import build_vocabulary
from hf_sysgen.models import CONFIGS, DepthWidthConfig, DepthWidthForCausalLM
from transformers.utils import logging

logging.disable_progress_bar()
torch.manual_seed(0)
words = ["a b c d e f g", "A B C D E"]
own, joint = (build_vocabulary(words[:1], words[1:], joint=joint) for joint in (False, True))
sides = {"vocab_size": own.vocab_size, "source_vocab_size": own.source_vocab_size}
sides["source_id_offset"] = own.source_id_offset
ends = {name: own.tokenizer.eos_token_id for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id")}
found = {}
for name in CONFIGS:
    tokenizer = own.tokenizer
    if name in WRAPPED:
        model = tiny_model(name, **sides, **ends)
    elif name == "relation_aware_transformer":
        model, tokenizer = tiny_edge("rrat"), None
    else:
        tokenizer, eos = joint.tokenizer, joint.tokenizer.eos_token_id
        sizes = {"vocab_size": len(tokenizer), "pad_token_id": eos, "eos_token_id": eos}
        if name == "edge_transformer":
            model = tiny_edge("translation", decoder_start_token_id=eos, **sizes)
        else:
            sizes |= {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 7, "num_hidden_layers": 2}
            model = DepthWidthForCausalLM(DepthWidthConfig(**sizes))
    model = model.float().eval()
    model.push_to_hub(f"org/{name}", private=name == "lstm_seq2seq")
    if tokenizer is None:
        found[name] = sorted(model.config.auto_map)
    else:
        tokenizer.push_to_hub(f"org/{name}")
        batch = tokenizer(["g a b", "c"], padding=True, return_tensors="pt")
        found[name] = model.generate(**batch, max_new_tokens=4, min_new_tokens=4).tolist()
print(json.dumps(found))
"""
LOAD = """
import json, sys
sys.path.insert(0, sys.argv[1])
from stranger import Absent
sys.meta_path.insert(0, Absent())
import transformers

found = {}
for name in sys.argv[2:]:
    options = {"trust_remote_code": True}
    config = transformers.AutoConfig.from_pretrained(f"org/{name}", **options)
    (head,) = set(config.auto_map) - {"AutoConfig", "AutoModel"}
    base = transformers.AutoModel.from_pretrained(f"org/{name}", **options)
    model = getattr(transformers, head).from_pretrained(f"org/{name}", **options).eval()
    assert type(base).__module__.startswith("transformers_modules."), type(base)
    if head == "AutoModelForSequenceClassification":
        found[name] = sorted(config.auto_map)
        continue
    tokenizer = transformers.AutoTokenizer.from_pretrained(f"org/{name}", **options)
    batch = tokenizer(["g a b", "c"], padding=True, return_tensors="pt")
    found[name] = model.generate(**batch, max_new_tokens=4, min_new_tokens=4).tolist()
assert "hf_sysgen" not in sys.modules
print(json.dumps(found))
"""


@pytest.mark.slow
def test_every_variant(tmp_path: Path) -> None:
    """What one process generates after pushing, another generates with what it was given by the hub."""
    with fake_hub() as hub:
        tests = Path(__file__).parents[1]
        folders = [Path(hf_sysgen.__file__).parents[1], tests, tests / "models"]
        variables = hub.environment(tmp_path / "ours") | {"PYTHONPATH": ":".join(map(str, folders))}
        script = [sys.executable, "-W", "error", "-W", CLIENT_WARNING, "-c", PUSH]
        pushed = subprocess.run(script, capture_output=True, text=True, env=variables)
        assert pushed.returncode == 0, pushed.stderr
        assert hub.repos["model", "org/lstm_seq2seq"].private
        folder = str(Path(hf_sysgen.hub.stranger.__file__).parent)
        # the token is for the private one
        script = [sys.executable, "-I", "-c", LOAD, folder, *CONFIGS]
        loaded = subprocess.run(script, capture_output=True, text=True, env=hub.environment(tmp_path / "theirs"))
        assert loaded.returncode == 0, loaded.stderr
        ours, theirs = (json.loads(done.stdout.splitlines()[-1]) for done in (pushed, loaded))
        assert list(ours) == list(CONFIGS)
        assert theirs == ours
        assert hub.unhandled == []
