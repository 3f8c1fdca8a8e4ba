"""
Checkpoints saved by earlier versions still load and compute the same.

`golden/checkpoints` has at least one of each model type, as commit d300142 saved it, with inputs and the float64 logits
that this commit computed; `code.zip` holds the code that lay beside the weights.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file
from saved_elsewhere import use_elsewhere
from transformers import AutoConfig

from hf_sysgen.models import CONFIGS

FOLDER = Path(__file__).parents[1] / "golden" / "checkpoints"
NAMES = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())
# logits are below 100: float64 rounds them at 1e-14, and another machine may add up in another order
CLOSE = {"rtol": 0.0, "atol": 1e-11}


def test_model_types_stay():
    assert {name.partition("-")[0] for name in NAMES} <= set(CONFIGS)


def auto_class(folder: Path):
    with safe_open(folder / "check.safetensors", "pt") as file:
        return getattr(transformers, file.metadata()["auto_class"])


def assert_same_logits(model: torch.nn.Module, folder: Path) -> None:
    tensors = load_file(folder / "check.safetensors")
    with torch.no_grad():
        found = model(**{name[7:]: value for name, value in tensors.items() if name.startswith("inputs.")})
    expected = {name[8:]: value for name, value in tensors.items() if name.startswith("outputs.")}
    assert expected
    for name, logits in expected.items():
        torch.testing.assert_close(found[name], logits, **CLOSE)


def test_a_field_keeps_its_meaning_under_its_old_name(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "edge_transformer", "length_groups": 2}))
    assert AutoConfig.from_pretrained(tmp_path).length_buckets == 2


@pytest.mark.parametrize("name", NAMES)
def test_with_the_package(name: str, tmp_path: Path) -> None:
    auto = auto_class(FOLDER / name)
    model, loading = auto.from_pretrained(FOLDER / name, dtype=torch.float64, output_loading_info=True)
    assert type(model).__module__.startswith("hf_sysgen.models.")
    assert not any(loading.values())
    assert_same_logits(model, FOLDER / name)
    # saved again, it names files that are there
    model.save_pretrained(tmp_path)
    auto_map = json.loads((tmp_path / "config.json").read_text())["auto_map"]
    assert all((tmp_path / f"{place.partition('.')[0]}.py").exists() for place in auto_map.values())


STRANGER = """
import transformers
from safetensors import safe_open

for folder in sys.argv[1:]:
    with safe_open(f"{folder}/check.safetensors", "pt") as file:
        auto = getattr(transformers, file.metadata()["auto_class"])
    tensors = load_file(f"{folder}/check.safetensors")
    model = auto.from_pretrained(folder, trust_remote_code=True, dtype=torch.float64)
    assert type(model).__module__.startswith("transformers_modules."), type(model)
    with torch.no_grad():
        found = model(**{name[7:]: value for name, value in tensors.items() if name.startswith("inputs.")})
    for name, logits in tensors.items():
        if name.startswith("outputs."):
            torch.testing.assert_close(found[name[8:]], logits, rtol=0.0, atol=1e-11, msg=folder)
"""


def test_with_their_own_code(tmp_path: Path) -> None:
    """In a process that cannot import the package."""
    folders = [tmp_path / name for name in NAMES]
    with zipfile.ZipFile(FOLDER / "code.zip") as code:
        for folder in folders:
            shutil.copytree(FOLDER / folder.name, folder)
            code.extractall(folder)
    (tmp_path / "elsewhere").mkdir()
    use_elsewhere(STRANGER, folders, tmp_path / "elsewhere")


@pytest.mark.slow
def test_saved_again_they_travel(tmp_path: Path) -> None:
    """Loaded with the package and saved with today's code, in a process that cannot import the package."""
    folders = [tmp_path / name for name in NAMES]
    for folder in folders:
        auto_class(FOLDER / folder.name).from_pretrained(FOLDER / folder.name).save_pretrained(folder)
        shutil.copyfile(FOLDER / folder.name / "check.safetensors", folder / "check.safetensors")
    (tmp_path / "elsewhere").mkdir()
    use_elsewhere(STRANGER, folders, tmp_path / "elsewhere")
