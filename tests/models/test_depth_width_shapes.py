"""Table 1 of Petty et al. 2023, the rule behind it, and which configurations are refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from depth_width_tiny import SIZES, VARIANTS, tiny_config
from huggingface_hub.errors import StrictDataclassClassValidationError, StrictDataclassFieldValidationError

from hf_sysgen.models import DepthWidthConfig, DepthWidthForCausalLM
from hf_sysgen.models.configuration_depth_width_decoder import SIZE_CLASSES

# as printed: "36k" is any width that rounds to it
TABLE_1 = {
    "41M": ({1: "4779", 2: "2048", 3: "1138", 4: "682", 5: "409", 6: "227", 7: "97"}, 512, 8),
    "134M": ({1: "36k", 2: "17k", 6: "5121", 8: "3584", 12: "2048", 16: "1280", 21: "731"}, 768, 8),
    "374M": (
        {1: "99k", 2: "49k", 4: "24k", 6: "15k", 8: "11k", 12: "6998", 16: "4907", 24: "2816"}, 1024, 64,
    ),
}  # fmt: skip
CELLS = [(name, depth) for name, (widths, _, _) in TABLE_1.items() for depth in widths]


def size_of(config: DepthWidthConfig) -> int:
    with torch.device("meta"):
        return DepthWidthForCausalLM(config).num_parameters()


def test_the_table_is_whole() -> None:
    assert len(CELLS) == 22
    assert {name: size.depths for name, size in SIZE_CLASSES.items()} == {
        name: tuple(widths) for name, (widths, _, _) in TABLE_1.items()
    }


@pytest.mark.parametrize(("name", "depth"), CELLS)
def test_table_1(name: str, depth: int) -> None:
    widths, hidden, heads = TABLE_1[name]
    config = DepthWidthConfig.from_size_class(name, num_hidden_layers=depth)
    found = config.intermediate_size
    assert (f"{(found + 500) // 1000}k" if widths[depth].endswith("k") else str(found)) == widths[depth]
    assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads) == (depth, hidden, heads)
    assert config.vocab_size == 32_000
    # the class is called after the number of its parameters, all of which are counted here
    size = size_of(config)
    assert f"{round(size / 1e6)}M" == name
    assert config.num_parameters == size


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("tied", [False, True])
def test_parameters_are_counted_without_a_model(variant: str, tied: bool) -> None:
    config = tiny_config(variant, tie_word_embeddings=tied)
    assert config.num_parameters == size_of(config)


@pytest.mark.parametrize("name", TABLE_1)
@pytest.mark.parametrize("scheme", ["rotary", "relative_bias"])
def test_sizes_of_a_class_are_equal(name: str, scheme: str) -> None:
    """The paper's models, and all depths between them."""
    depths = range(1, max(TABLE_1[name][0]) + 1)
    sizes = [DepthWidthConfig.from_size_class(name, depth, position_scheme=scheme).num_parameters for depth in depths]
    # the promise is half a percent; rounding leaves less than a tenth of one
    assert max(sizes) - min(sizes) < 0.001 * min(sizes)


def test_base_of_a_class() -> None:
    for name, size in SIZE_CLASSES.items():
        config = DepthWidthConfig.from_size_class(name)
        assert (config.num_hidden_layers, config.intermediate_size) == (size.num_hidden_layers, size.intermediate_size)
    assert DepthWidthConfig().to_dict() == DepthWidthConfig.from_size_class("41M").to_dict()


@pytest.mark.parametrize("depth", [1, 2, 6, 50])
def test_shared_layers_have_the_size_of_the_class_at_any_depth(depth: int) -> None:
    config = DepthWidthConfig.from_size_class("134M", depth, share_layers=True)
    assert config.num_hidden_layers == depth
    assert config.intermediate_size == DepthWidthConfig.from_size_class("134M", 1).intermediate_size
    assert config.num_parameters == DepthWidthConfig.from_size_class("134M", 1).num_parameters


def test_equal_parameters_of_any_base() -> None:
    base = DepthWidthConfig(hidden_size=66, num_attention_heads=3, intermediate_size=501, num_hidden_layers=7,
                            vocab_size=211, hidden_act="silu", dropout=0.25, pad_token_id=3)  # fmt: skip
    for depth in (1, 2, 3, 5, 11, 13):
        other = DepthWidthConfig.at_equal_parameters(base, depth, eos_token_id=5)
        # half a column of every block is what rounding may leave
        assert abs(other.num_parameters - base.num_parameters) <= depth * 3 * 66 / 2
        assert other.num_hidden_layers == depth
        kept = ("hidden_size", "num_attention_heads", "vocab_size", "hidden_act", "dropout", "pad_token_id")
        assert [getattr(other, name) for name in kept] == [getattr(base, name) for name in kept]
        assert other.eos_token_id == 5
        again = DepthWidthConfig.at_equal_parameters(other, 7)
        assert abs(again.intermediate_size - 501) <= depth // 7 + 1
    shared = DepthWidthConfig.at_equal_parameters(base, 11, share_layers=True)
    assert abs(shared.num_parameters - base.num_parameters) <= 3 * 66 / 2
    back = DepthWidthConfig.at_equal_parameters(shared, 7, share_layers=False)
    assert (back.intermediate_size, back.num_hidden_layers, back.share_layers) == (501, 7, False)
    # in one step of the rule, by hand: 7 / 2 x (501 + 266 / 3) - 266 / 3 = 1975.17
    assert DepthWidthConfig.at_equal_parameters(base, 2).intermediate_size == 1975


@pytest.mark.parametrize("name", TABLE_1)
def test_the_deepest_model_of_a_class(name: str) -> None:
    with pytest.raises(ValueError, match="leaves no parameters") as caught:
        DepthWidthConfig.from_size_class(name, 1000)
    deepest = int(re.search(r"at most (\d+) layers", str(caught.value))[1])
    assert deepest >= max(TABLE_1[name][0])
    assert DepthWidthConfig.from_size_class(name, deepest).intermediate_size >= 1
    with pytest.raises(ValueError, match=rf"num_hidden_layers={deepest + 1}\b"):
        DepthWidthConfig.from_size_class(name, deepest + 1)


def test_wrong_classes_and_depths() -> None:
    with pytest.raises(ValueError, match=r"'42M'.*41M, 134M, 374M"):
        DepthWidthConfig.from_size_class("42M")
    with pytest.raises(ValueError, match=r"num_hidden_layers=0\b"):
        DepthWidthConfig.from_size_class("41M", 0)
    for field in ("hidden_size", "intermediate_size", "num_attention_heads"):
        with pytest.raises(ValueError, match=rf"{field}=64 .*41M"):
            DepthWidthConfig.from_size_class("41M", 3, **{field: 64})


@pytest.mark.parametrize("depth", [2.0, "2", True, [2]], ids=repr)
def test_depths_that_are_no_whole_numbers(depth: Any) -> None:
    message = re.escape(f"num_hidden_layers={depth!r} must be a whole number")
    with pytest.raises(ValueError, match=message):
        DepthWidthConfig.from_size_class("41M", depth)
    with pytest.raises(ValueError, match=message):
        DepthWidthConfig.at_equal_parameters(DepthWidthConfig(), depth)


@pytest.mark.parametrize(
    ("fields", "change"),
    [
        ({"vocab_size": 32_128}, 2 * 128 * 512),
        ({"tie_word_embeddings": True}, -32_000 * 512),
        ({"position_scheme": "relative_bias"}, 8 * 32),
    ],
    ids=str,
)
def test_what_is_outside_the_layers_changes_all_depths_alike(fields: dict, change: int) -> None:
    for depth in range(1, 8):
        plain, other = (DepthWidthConfig.from_size_class("41M", depth, **one) for one in ({}, fields))
        assert other.num_parameters - plain.num_parameters == change == size_of(other) - size_of(plain)
        assert other.intermediate_size == plain.intermediate_size


@pytest.mark.parametrize("field", ["hidden_size", "intermediate_size"])
def test_widths_belong_into_the_base(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field}=64 belongs into base"):
        DepthWidthConfig.at_equal_parameters(DepthWidthConfig(), 3, **{field: 64})


def test_equal_parameters_keep_labels_and_dtype() -> None:
    other = DepthWidthConfig.at_equal_parameters(DepthWidthConfig(num_labels=7, dtype="bfloat16"), 3)
    assert (other.num_labels, other.dtype) == (7, torch.bfloat16)
    assert DepthWidthConfig.at_equal_parameters(other, 5, num_labels=3).num_labels == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 128, "num_attention_heads": 6}, "hidden_size=128 .*num_attention_heads=6"),
        ({"hidden_size": 15, "num_attention_heads": 5}, "hidden_size=15 / num_attention_heads=5 = 3 must be even"),
        ({"rotary_base": 1}, "rotary_base=1 must be greater than 1"),
        ({"relative_buckets": 7}, "relative_buckets=7 must be even"),
        ({"relative_buckets": 0}, "relative_buckets=0 must be even and at least 2"),
        ({"relative_max_distance": 16}, "relative_max_distance=16 .*relative_buckets=32"),
        ({"dropout": 1.0}, r"dropout=1.0 must be in \[0, 1\)"),
        ({"dropout": -0.1}, r"dropout=-0.1 must be in \[0, 1\)"),
        *[
            ({size: 0}, f"{size}=0 must be at least 1")
            for size in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
        ],
    ],
    ids=str,
)
def test_contradictions_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(StrictDataclassClassValidationError, match=message):
        DepthWidthConfig(**changes)


@pytest.mark.parametrize(
    "changes",
    [{"hidden_size": "128"}, {"dropout": "0.1"}, {"share_layers": "yes"}, {"position_scheme": "absolute"},
     {"hidden_act": "relu"}, {"rms_norm_eps": None}],
    ids=str,
)  # fmt: skip
def test_wrong_types_are_refused(changes: dict) -> None:
    (name,) = changes
    with pytest.raises(StrictDataclassFieldValidationError, match=name):
        DepthWidthConfig(**changes)


def test_an_odd_head_width_is_fine_without_rotary_positions() -> None:
    config = DepthWidthConfig(hidden_size=15, num_attention_heads=5, position_scheme="relative_bias")
    assert config.head_dim == 3


@pytest.mark.parametrize("variant", VARIANTS)
def test_config_survives_json(variant: str, tmp_path) -> None:
    config = tiny_config(variant, dropout=0.25, eos_token_id=3, hidden_act="silu", rotary_base=500)
    config.save_pretrained(tmp_path)
    loaded = DepthWidthConfig.from_pretrained(tmp_path)
    for field in (*SIZES, "dropout", "eos_token_id", "hidden_act", "rotary_base", "share_layers", "position_scheme"):
        assert getattr(loaded, field) == getattr(config, field), field
