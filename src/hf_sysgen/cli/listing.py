"""The texts of `hf-sysgen list`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hf_sysgen.tables import table


def list_models_text() -> str:
    """Model types with the Auto classes that find them and their size by default."""
    from hf_sysgen.models import CONFIGS, MODELS

    rows = [
        (name, f"{num_parameters(config):,}", ", ".join(auto.__name__ for auto in MODELS[config]))
        for name, config in CONFIGS.items()
    ]
    return (
        "Models (parameters by default)\n"
        + table(("model", "parameters", "found by"), rows)
        + "\n\n"
        + size_classes_text()
    )


def num_parameters(config: Any) -> int:
    """Parameters of the default of a config class, with the head that the last of its Auto classes finds."""
    import torch

    from hf_sysgen.models import MODELS

    with torch.device("meta"):
        return list(MODELS[config].values())[-1](config()).num_parameters()


def size_classes_text() -> str:
    """The models of Petty et al. 2023 (Table 1), with all their parameters: equal within a class."""
    from hf_sysgen.models import DepthWidthConfig
    from hf_sysgen.models.configuration_depth_width_decoder import SIZE_CLASSES

    rows = []
    for name, size in SIZE_CLASSES.items():
        for depth in size.depths:
            config = DepthWidthConfig.from_size_class(name, depth)
            sizes = (depth, config.intermediate_size, config.hidden_size)
            rows.append((name, *map(str, sizes), f"{config.num_parameters:,}"))
    title = "Size classes of depth_width_decoder (DepthWidthConfig.from_size_class)\n"
    return title + table(("class", "layers", "d_ff", "d_model", "parameters"), rows)


def list_benchmarks_text() -> str:
    """Benchmarks with configs, splits and licences."""
    from hf_sysgen.data.describe import list_text

    return f"Benchmarks\n\n{list_text()}"


def list_recipes_text(folder: Path | None = None) -> str:
    """Recipe files of a folder, by default the package's own, with the first line of their head comment."""
    return _files_text("Recipes", "*/*.yaml", folder)


def list_sweeps_text(folder: Path | None = None) -> str:
    """Sweep files of a folder of recipes, by default the package's own, as `list_recipes_text`."""
    return _files_text("Sweeps", "*/sweeps/*.yaml", folder)


def _files_text(title: str, pattern: str, folder: Path | None) -> str:
    from hf_sysgen.config.io import files_in, shipped_recipes

    folder = folder or shipped_recipes()
    rows = []
    for path in files_in(folder, pattern).values():
        first = path.read_text(encoding="utf-8").partition("\n")[0]
        rows.append((str(path.relative_to(folder)), first.lstrip("# ").rstrip()))
    if not rows:
        return f"{title}: none in {folder}; give the folder with --recipes"
    width = max(len(path) for path, _ in rows)
    return f"{title} in {folder}\n" + "\n".join(f"{path.ljust(width)}  {text}" for path, text in rows)


def list_zoo_text() -> str:
    """The trained models that come with the package, with their accuracies."""
    from hf_sysgen.results.reading import read_record
    from hf_sysgen.results.record import RESULTS
    from hf_sysgen.zoo import zoo_folder, zoo_names

    rows = []
    for name in zoo_names():
        record = read_record(zoo_folder(name) / RESULTS)
        scores = ", ".join(f"{split} {found.accuracy:.3f}" for split, found in record.splits.items())
        rows.append((name, f"{record.recipe.data.benchmark} {record.recipe.data.config}", scores))
    title = "Zoo (text to text: `hf-sysgen predict -c NAME TEXT`; others: the example in their cards)"
    return f"{title}\n" + table(("trained model", "benchmark", "accuracy of these weights"), rows, numbers=False)
