"""What there is: the texts of `hf-sysgen list`."""

from __future__ import annotations

from pathlib import Path

from hf_sysgen.evaluation.report import table


def list_models_text() -> str:
    """Model types with the Auto classes that find them and their size by default."""
    import torch

    from hf_sysgen.models import CONFIGS, MODELS

    rows = []
    for name, config in CONFIGS.items():
        classes = MODELS[config]
        with torch.device("meta"):
            model = list(classes.values())[-1](config())
        rows.append((name, f"{model.num_parameters():,}", ", ".join(auto.__name__ for auto in classes)))
    return "Models (parameters by default)\n" + table(("model", "parameters", "found by"), rows)


def list_benchmarks_text() -> str:
    """Benchmarks with configs, splits and licences."""
    from hf_sysgen.data.describe import list_text

    return f"Benchmarks\n\n{list_text()}"


def list_recipes_text(folder: Path | None = None) -> str:
    """Recipe files of a folder, by default the package's own, with the first line of their head comment."""
    from hf_sysgen.training.recipe import shipped_recipes

    folder = folder or shipped_recipes()
    rows = []
    for path in sorted(folder.glob("*/*.yaml")):
        if path.parent.name == "accelerate":
            continue
        first = path.read_text(encoding="utf-8").partition("\n")[0]
        rows.append((str(path.relative_to(folder)), first.lstrip("# ").rstrip()))
    if not rows:
        return f"Recipes: none in {folder}; give the folder with --recipes"
    width = max(len(path) for path, _ in rows)
    return f"Recipes in {folder}\n" + "\n".join(f"{path.ljust(width)}  {text}" for path, text in rows)
