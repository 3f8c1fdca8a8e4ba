"""`push_to_hub` of every variant, and what a process without our code makes of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from elsewhere import run_elsewhere
from fake_hub import CLIENT_WARNING, fake_hub

import hf_sysgen
from hf_sysgen.models import CONFIGS

# every model that writes texts with a tokenizer; the other heads with a batch of the tests
PUSH = """
import json, sys
import torch
from edge_tiny import DEPENDENCIES, RELATION, SEMANTIC_GRAPH, edge_batch, tiny_edge
from safetensors.torch import save_file
from tiny import WRAPPED, tiny_model
from hf_sysgen.data.text.vocabulary import build_vocabulary
from hf_sysgen.models import DepthWidthConfig, DepthWidthForCausalLM
from transformers.utils import logging

logging.disable_progress_bar()
torch.manual_seed(0)
words = ["a b c d e f g", "A B C D E"]
own, joint = (build_vocabulary(words[:1], words[1:], joint=joint) for joint in (False, True))
sides = {"vocab_size": own.vocab_size, "source_vocab_size": own.source_vocab_size}
sides["source_id_offset"] = own.source_id_offset
ends = {name: own.tokenizer.eos_token_id for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id")}
eos = joint.tokenizer.eos_token_id
sizes = {"vocab_size": len(joint.tokenizer), "pad_token_id": eos, "eos_token_id": eos}
small = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 7, "num_hidden_layers": 2}
writers = {name: (tiny_model(name, **sides, **ends), own.tokenizer) for name in WRAPPED}
writers["edge_transformer"] = (tiny_edge("translation", decoder_start_token_id=eos, **sizes), joint.tokenizer)
writers["universal_t5_transformer"] = (tiny_edge("universal t5", decoder_start_token_id=eos, **sizes), joint.tokenizer)
writers["depth_width_decoder"] = (DepthWidthForCausalLM(DepthWidthConfig(**sizes, **small)), joint.tokenizer)
found = {}
for name, (model, tokenizer) in writers.items():
    model = model.float().eval()
    model.push_to_hub(f"org/{name}", private=name == "lstm_seq2seq")
    tokenizer.push_to_hub(f"org/{name}")
    batch = tokenizer(["g a b", "c d e"], padding=True, return_tensors="pt")
    generated = model.generate(**batch, max_new_tokens=4, min_new_tokens=4)
    found[name] = [model.config.model_type, generated.tolist()]
for name in RELATION + SEMANTIC_GRAPH + DEPENDENCIES:
    repo = name.replace(" ", "-")
    model, batch = tiny_edge(name).float(), edge_batch(name, labels=False)
    model.push_to_hub(f"org/{repo}")
    save_file(batch, f"{sys.argv[1]}/{repo}.safetensors")
    sums = [scores.detach().double().sum().item() for scores in model(**batch).to_tuple()]
    found[repo] = [model.config.model_type, sums]
print(json.dumps(found))
"""
LOAD = """
import json, os, sys
import transformers
from safetensors.torch import load_file

found = {}
for name in sys.argv[2:]:
    options = {"trust_remote_code": True}
    config = transformers.AutoConfig.from_pretrained(f"org/{name}", **options)
    (head,) = set(config.auto_map) - {"AutoConfig", "AutoModel"}
    base = transformers.AutoModel.from_pretrained(f"org/{name}", **options)
    model = getattr(transformers, head).from_pretrained(f"org/{name}", **options).eval()
    assert type(base).__module__.startswith("transformers_modules."), type(base)
    if os.path.exists(f"{sys.argv[1]}/{name}.safetensors"):
        scores = model(**load_file(f"{sys.argv[1]}/{name}.safetensors")).to_tuple()
        found[name] = [config.model_type, [one.detach().double().sum().item() for one in scores]]
    else:
        tokenizer = transformers.AutoTokenizer.from_pretrained(f"org/{name}", **options)
        batch = tokenizer(["g a b", "c d e"], padding=True, return_tensors="pt")
        found[name] = [config.model_type, model.generate(**batch, max_new_tokens=4, min_new_tokens=4).tolist()]
print(json.dumps(found))
"""


@pytest.mark.slow
def test_every_variant(tmp_path: Path) -> None:
    """What one process generates or scores after pushing, another does with what the hub gives it."""
    with fake_hub() as hub:
        tests = Path(__file__).parents[1]
        folders = [Path(hf_sysgen.__file__).parents[1], tests, tests / "models"]
        variables = hub.environment(tmp_path / "ours") | {"PYTHONPATH": ":".join(map(str, folders))}
        script = [sys.executable, "-W", "error", "-W", CLIENT_WARNING, "-c", PUSH, str(tmp_path)]
        pushed = subprocess.run(script, capture_output=True, text=True, env=variables)
        assert pushed.returncode == 0, pushed.stderr
        assert hub.repos["model", "org/lstm_seq2seq"].private
        ours = json.loads(pushed.stdout.splitlines()[-1])
        assert {model_type for model_type, _ in ours.values()} == set(CONFIGS)
        # the token is for the private one
        loaded = run_elsewhere(LOAD, tmp_path, *ours, environment=hub.environment(tmp_path / "theirs"))
        theirs = json.loads(loaded.splitlines()[-1])
        assert list(theirs) == list(ours)
        for name, (model_type, values) in ours.items():
            assert theirs[name] == [model_type, values if isinstance(values[0], list) else pytest.approx(values, 1e-4)]
        assert hub.unhandled == []
