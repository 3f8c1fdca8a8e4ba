"""Convert the authors' checkpoints: their parameter names and layouts to ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import PreTrainedModel

from hf_sysgen.convert.csordas import csordas
from hf_sysgen.convert.edge import edge_cfq, edge_clutrr, edge_cogs, rat
from hf_sysgen.convert.fairseq import fairseq_sag
from hf_sysgen.convert.role_filler import role_filler

# each takes (state_dict, config) and returns our model and the part of its state_dict that theirs has
FAMILIES = {
    "csordas": csordas,
    "edge_cfq": edge_cfq,
    "edge_clutrr": edge_clutrr,
    "edge_cogs": edge_cogs,
    "fairseq_sag": fairseq_sag,
    "rat": rat,
    "role_filler": role_filler,
}


def from_authors(family: str, state_dict: Mapping[str, torch.Tensor], config: Mapping[str, Any]) -> PreTrainedModel:
    """
    An authors' checkpoint as a model of this package, in evaluation mode and in the tensors' dtype.

    Token ids keep their meaning: row i of the authors' table is row i of ours. Padding comes from attention masks,
    never from an id.

    Args:
        family: a name in `FAMILIES`: the code that wrote the checkpoint. The function in `FAMILIES` says which commit,
            and what `config` needs.
        state_dict: the authors' parameters by their names.
        config: the authors' sizes.

    Raises:
        ValueError: unknown family or variant; an argument that is not a mapping; missing or contradictory sizes; a
            parameter that is missing, unknown or of another shape, which the message names, unless joining it fails
            first.
    """
    if family not in FAMILIES:
        raise ValueError(f"unknown family {family!r}; known: {', '.join(sorted(FAMILIES))}")
    for name, given in {"state_dict": state_dict, "config": config}.items():
        if not isinstance(given, Mapping):
            raise ValueError(f"family {family!r}: {name} must be a mapping of names, not {type(given).__name__}")
    try:
        model, ours = FAMILIES[family](state_dict, config)
    except KeyError as error:
        raise ValueError(f"family {family!r}: {error.args[0]!r} is missing from config or state_dict") from error
    except StrictDataclassError as error:
        raise ValueError(f"family {family!r}: config gives no model: {error}") from error
    except RuntimeError as error:
        # parameters are joined, or cut into heads
        raise ValueError(f"family {family!r}: parameters of state_dict do not fit each other: {error}") from error
    dtypes = {tensor.dtype for tensor in ours.values()}
    if len(dtypes) != 1:
        raise ValueError(f"family {family!r}: parameters of several dtypes: {sorted(map(str, dtypes))}")
    model.to(dtypes.pop())
    try:
        model.load_state_dict(ours)
    except RuntimeError as error:
        raise ValueError(f"family {family!r}: state_dict does not fit config: {error}") from error
    return model.eval()
