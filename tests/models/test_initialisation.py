"""How every weight starts, how many there are, and which configurations are refused."""

from __future__ import annotations

import math
import re

import pytest
import torch
from huggingface_hub.errors import StrictDataclassClassValidationError, StrictDataclassFieldValidationError
from safetensors.torch import load_file, save_file
from tiny import CSORDAS, VARIANTS, tiny_config

from hf_sysgen.models import SysgenTransformerConfig

RELATIVE = ["relative_transformer", "relative_universal_transformer"]

# large enough for a sharp estimate, and every bound below is another number
D, FF, SOURCE_ROWS, TARGET_ROWS = 130, 218, 331, 277
WIDE = {
    "hidden_size": D,
    "intermediate_size": FF,
    "num_attention_heads": 5,
    "source_vocab_size": SOURCE_ROWS,
    "vocab_size": TARGET_ROWS,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "tie_word_embeddings": False,
}


def uniform(bound: float) -> tuple[str, float]:
    return "uniform", bound


def normal(std: float) -> tuple[str, float]:
    return "normal", std


def constant(value: float) -> tuple[str, float]:
    return "constant", value


def glorot(rows: int) -> tuple[str, float]:
    return uniform(math.sqrt(6 / (rows + D)))


def expected_start(name: str, config) -> tuple[str, float]:
    """Distribution of a parameter by its name (weights of Csordas et al.'s code, see `reset_weights` of each part)."""
    if "embed_tokens" in name or name == "lm_head.weight":
        rows = SOURCE_ROWS if "encoder" in name else TARGET_ROWS
        std = {"normal": 1.0, "kaiming_normal": math.sqrt(2 / D), "scaled_normal": 1 / math.sqrt(D)}
        return glorot(rows) if config.embedding_init == "glorot_uniform" else normal(std[config.embedding_init])
    if name == "lm_head.bias":
        return constant(0.0)
    part = re.fullmatch(r"model\.(?:en|de)coder\.layers\.\d\.(.+)", name)[1]
    relative = config.position_scheme == "relative"
    attention = {
        "self_attn.qkv_proj.weight": uniform(math.sqrt((1 if relative else 3) / D)),
        "self_attn.o_proj.weight": uniform(math.sqrt((1 if relative else 3) / D)),
        "self_attn.pos_proj.weight": uniform(math.sqrt(1 / D)),
        "self_attn.u": constant(0.0),
        "self_attn.v": constant(0.0),
        "cross_attn.q_proj.weight": uniform(math.sqrt(3 / D)),
        "cross_attn.kv_proj.weight": uniform(math.sqrt(3 / D)),
        "cross_attn.o_proj.weight": uniform(math.sqrt(3 / D)),
    }
    feed_forward = {
        "feed_forward.fc1.weight": uniform(math.sqrt(2) * math.sqrt(6 / (FF + D))),
        "feed_forward.fc1.bias": uniform(1 / math.sqrt(D)),
        "feed_forward.fc2.weight": uniform(math.sqrt(6 / (FF + D))),
        "feed_forward.fc2.bias": uniform(1 / math.sqrt(FF)),
    }
    norms = {
        f"{norm}_norm.{weight}": constant(value)
        for norm in ("self_attn", "cross_attn", "feed_forward")
        for weight, value in (("weight", 1.0), ("bias", 0.0))
    }
    return (attention | feed_forward | norms)[part]


def assert_drawn_from(name: str, tensor: torch.Tensor, kind: str, size: float) -> None:
    numbers = tensor.detach().double().flatten()
    count = len(numbers)
    if kind == "constant":
        assert (numbers == size).all(), name
        return
    std = size / math.sqrt(3) if kind == "uniform" else size
    # five standard errors; that of a standard deviation is std sqrt((kurtosis - 1) / 4n)
    kurtosis = 1.8 if kind == "uniform" else 3.0
    assert abs(numbers.mean()) < 5 * std / math.sqrt(count), f"{name}: mean {numbers.mean()}"
    assert abs(numbers.std() - std) < 5 * std * math.sqrt((kurtosis - 1) / (4 * count)), f"{name}: {numbers.std()}"
    if kind == "uniform":
        # bounds are computed in Python and stored in float32
        assert numbers.abs().max() <= size * (1 + 1e-6), name
        # all of n numbers stay below 1 - 20 / n of the bound once in e^20 runs
        assert numbers.abs().max() > size * (1 - 20 / count), name
    else:
        beyond = (numbers.abs() > 2 * std).double().mean()
        assert abs(beyond - 0.0455) < 5 * math.sqrt(0.0455 / count), f"{name}: {beyond} beyond two deviations"


def assert_starts_as_expected(model) -> None:
    for name, parameter in model.named_parameters():
        assert_drawn_from(name, parameter, *expected_start(name, model.config))


SCALINGS = [
    (variant, {"embedding_scaling": scaling})
    for variant in CSORDAS
    for scaling in (["none", "teu"] if variant in RELATIVE else ["none", "teu", "ped"])
]


@pytest.mark.parametrize(("variant", "options"), SCALINGS, ids=str)
def test_start_of_every_weight(variant: str, options: dict) -> None:
    torch.manual_seed(1)
    assert_starts_as_expected(VARIANTS[variant][2](tiny_config(variant, **WIDE, **options)))


@pytest.mark.parametrize("variant", CSORDAS)
def test_start_of_what_a_checkpoint_lacks(variant: str, tmp_path) -> None:
    """Loading happens on the meta device: a parameter that nobody starts would be left-over memory."""
    VARIANTS[variant][2](tiny_config(variant, **WIDE)).save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    kept = "model.decoder.layers.0.feed_forward.fc1.bias"
    save_file({kept: torch.full_like(load_file(path)[kept], 3.5)}, path, metadata={"format": "pt"})
    torch.manual_seed(2)
    model, loading = VARIANTS[variant][2].from_pretrained(tmp_path, output_loading_info=True)
    named = dict(model.named_parameters())
    assert set(loading["missing_keys"]) == set(named) - {kept}
    assert (named.pop(kept) == 3.5).all()
    for name, parameter in named.items():
        assert_drawn_from(name, parameter, *expected_start(name, model.config))


def test_scaled_normal_of_the_paper() -> None:
    torch.manual_seed(3)
    options = {"embedding_scaling": "ped", "embedding_init": "scaled_normal"}
    model = VARIANTS["sysgen_transformer"][2](tiny_config("sysgen_transformer", **WIDE, **options))
    assert model.config.embedding_init == "scaled_normal"
    assert_starts_as_expected(model)


def test_normal_of_the_paper_for_relative_positions() -> None:
    torch.manual_seed(4)
    model = VARIANTS["relative_transformer"][2](tiny_config("relative_transformer", **WIDE, embedding_init="normal"))
    assert_starts_as_expected(model)


@pytest.mark.parametrize(
    ("scaling", "scheme", "expected"),
    [
        ("none", "absolute", "normal"),
        ("ped", "absolute", "kaiming_normal"),
        ("teu", "absolute", "glorot_uniform"),
        ("none", "relative", "glorot_uniform"),
        ("teu", "relative", "glorot_uniform"),
    ],
)
def test_table_start_follows_scaling(scaling: str, scheme: str, expected: str) -> None:
    config = SysgenTransformerConfig(embedding_scaling=scaling, position_scheme=scheme)
    assert config.embedding_init == expected


@pytest.mark.parametrize(("attention_scale", "width"), [("head_dim", D // 5), ("hidden_size", D)])
def test_attention_scale(attention_scale: str, width: int) -> None:
    model = VARIANTS["relative_transformer"][2](
        tiny_config("relative_transformer", **WIDE, attention_scale=attention_scale)
    )
    scalings = [module.scaling for module in model.modules() if hasattr(module, "scaling")]
    assert len(scalings) == 2 + 2 * 2
    assert scalings == pytest.approx([width**-0.5] * 6, rel=1e-15)


def test_tied_head_starts_as_the_table() -> None:
    model = VARIANTS["sysgen_transformer"][2](tiny_config("sysgen_transformer"))
    assert model.lm_head.weight is model.model.decoder.embed_tokens.weight
    assert model.model.encoder.embed_tokens.weight is not model.model.decoder.embed_tokens.weight


SCAN = {"source_vocab_size": 15, "vocab_size": 7, "hidden_size": 128, "intermediate_size": 256,
        "num_attention_heads": 8, "encoder_layers": 3, "decoder_layers": 3}  # fmt: skip
PCFG = {"source_vocab_size": 537, "vocab_size": 536, "hidden_size": 512, "intermediate_size": 2048,
        "num_attention_heads": 8, "encoder_layers": 6, "decoder_layers": 6}  # fmt: skip
COGS = {"source_vocab_size": 873, "vocab_size": 872, "hidden_size": 512, "intermediate_size": 512,
        "num_attention_heads": 4, "encoder_layers": 2, "decoder_layers": 2}  # fmt: skip
MATH = {**PCFG, "source_vocab_size": 71, "vocab_size": 70}
ORDER = ["sysgen_transformer", "universal_transformer", "relative_transformer", "relative_universal_transformer"]
# measured on the authors' code; Table 5 of the paper rounds them (its 4.4M and 4.7M for Math lack a zero)
COUNTS = {
    "scan": (SCAN, [992_007, 332_551, 1_091_847, 365_831]),
    "pcfg": (PCFG, [44_651_544, 7_900_184, 47_809_560, 8_426_520]),
    "cogs": (COGS, [9_297_256, 5_095_784, 10_349_928, 5_622_120]),
    "math": (MATH, [44_173_894, 7_422_534, 47_331_910, 7_948_870]),
}


def count(variant: str, **sizes) -> int:
    with torch.device("meta"):
        model = VARIANTS[variant][2](tiny_config(variant, **sizes))
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("variant", ORDER)
@pytest.mark.parametrize("benchmark", COUNTS)
def test_number_of_parameters(benchmark: str, variant: str) -> None:
    sizes, counts = COUNTS[benchmark]
    assert count(variant, **sizes) == counts[ORDER.index(variant)]


@pytest.mark.parametrize(
    ("variant", "width", "depth", "body"),
    [
        ("sysgen_transformer", 128, 2, 659_841),
        ("relative_transformer", 128, 2, 726_401),
        ("universal_transformer", 256, 6, 1_315_585),
        ("relative_universal_transformer", 256, 6, 1_447_681),
    ],
)
def test_number_of_parameters_on_cfq(variant: str, width: int, depth: int, body: int) -> None:
    source_words, target_words = 97, 101
    sizes = {
        "source_vocab_size": source_words + 2,
        "vocab_size": target_words + 1,
        "hidden_size": width,
        "intermediate_size": 2 * width,
        "encoder_layers": depth,
        "decoder_layers": depth,
    }
    expected = body + width * (source_words + target_words) + target_words
    assert count(variant, **sizes) == expected


def test_counts_do_not_depend_on_heads_and_scaling() -> None:
    expected = count("sysgen_transformer")
    assert count("sysgen_transformer", num_attention_heads=3) == expected
    assert count("sysgen_transformer", embedding_scaling="teu") == expected


@pytest.mark.parametrize("variant", ORDER)
def test_config_without_arguments(variant: str) -> None:
    """transformers builds one while loading; ours is the paper's SCAN model."""
    config_class, _, model_class = VARIANTS[variant]
    config = config_class()
    with torch.device("meta"):
        model = model_class(config)
    assert sum(p.numel() for p in model.parameters()) == COUNTS["scan"][1][ORDER.index(variant)]
    assert config.share_layers == ("universal" in variant)
    assert config.position_scheme == ("relative" if variant in RELATIVE else "absolute")
    assert config.embedding_scaling == ("none" if variant in RELATIVE else "ped")
    assert config.dropout == 0.1
    assert config.pad_token_id == config.eos_token_id == config.decoder_start_token_id == 6


def test_special_ids_are_kept() -> None:
    config = SysgenTransformerConfig(vocab_size=11, pad_token_id=0, eos_token_id=1, decoder_start_token_id=2)
    assert (config.pad_token_id, config.eos_token_id, config.decoder_start_token_id) == (0, 1, 2)


@pytest.mark.parametrize("variant", ORDER)
def test_config_survives_json(variant: str, tmp_path) -> None:
    config = tiny_config(variant, dropout=0.25, layer_norm_eps=0.5, source_id_offset=3, attention_scale="hidden_size",
                         embedding_scaling="teu", tie_word_embeddings=False)  # fmt: skip
    config.save_pretrained(tmp_path)
    assert type(config).from_pretrained(tmp_path).to_dict() == type(config)(**config.to_dict()).to_dict()
    loaded = type(config).from_pretrained(tmp_path)
    for field in ("dropout", "layer_norm_eps", "source_id_offset", "attention_scale", "embedding_scaling",
                  "tie_word_embeddings", "embedding_init", "hidden_size", "encoder_layers"):  # fmt: skip
        assert getattr(loaded, field) == getattr(config, field), field


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 128, "num_attention_heads": 6}, "hidden_size=128 .*num_attention_heads=6"),
        ({"hidden_size": 5, "num_attention_heads": 5}, "hidden_size=5 must be even"),
        ({"dropout": 1.0}, r"dropout=1.0 must be in \[0, 1\)"),
        ({"dropout": -0.1}, r"dropout=-0.1 must be in \[0, 1\)"),
        ({"source_id_offset": -1}, "source_id_offset=-1 must not be negative"),
        (
            {"position_scheme": "relative", "embedding_scaling": "ped"},
            "embedding_scaling='ped' .*position_scheme='relative'",
        ),
        *[
            ({size: 0}, f"{size}=0 must be at least 1")
            for size in (
                "vocab_size",
                "source_vocab_size",
                "hidden_size",
                "intermediate_size",
                "num_attention_heads",
                "encoder_layers",
                "decoder_layers",
            )
        ],
    ],
    ids=str,
)
def test_contradictions_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(StrictDataclassClassValidationError, match=message) as caught:
        SysgenTransformerConfig(**changes)
    assert isinstance(caught.value.__cause__, ValueError)


def test_contradiction_is_refused_by_a_variant() -> None:
    message = r"embedding_scaling='ped' .*position_scheme='relative'"
    with pytest.raises(StrictDataclassClassValidationError, match=message):
        VARIANTS["relative_transformer"][0](embedding_scaling="ped")


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_size": "128"},
        {"hidden_size": 128.0},
        {"dropout": "0.1"},
        {"share_layers": "yes"},
        {"position_scheme": "rotary"},
        {"embedding_scaling": "PED"},
        {"embedding_init": "uniform"},
        {"attention_scale": "d_model"},
        {"layer_norm_eps": None},
    ],
    ids=str,
)
@pytest.mark.parametrize("variant", ORDER)
def test_wrong_types_are_refused(variant: str, changes: dict) -> None:
    (name,) = changes
    with pytest.raises(StrictDataclassFieldValidationError, match=name):
        VARIANTS[variant][0](**changes)


def test_dropout_may_be_an_integer_zero() -> None:
    assert SysgenTransformerConfig(dropout=0).dropout == 0
