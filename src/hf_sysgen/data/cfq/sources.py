"""CFQ's files, split families and licences. The builder is in `cfq.py`."""

from __future__ import annotations

from typing import NamedTuple

from hf_sysgen.data.citations import BERGEN, KEYSERS
from hf_sysgen.data.info import BenchmarkInfo, ConfigInfo
from hf_sysgen.data.sources import MemberSource, Source, WebSource

_LICENCE = "CC-BY-4.0 (google-research/cfq)"
_TEXTS_LICENCE = f"{_LICENCE}, in preprocessed copies of thousfeet/LEAR, which states none of its own"

ARCHIVE = WebSource(
    repository="google-research/cfq",
    commit="",
    path="cfq.tar.gz",
    sha256="979d719271eae12611643b89151f639d94092800e7e71f2d23a754c43f3eb1ba",
    num_bytes=267_599_061,
    licence=_LICENCE,
    mirror="cfq/cfq.tar.gz",
    address="https://storage.googleapis.com/cfq_dataset/cfq.tar.gz",
)

_TEXTS = Source(
    repository="thousfeet/LEAR",
    commit="e26c9d875c593de6e2e51b9d66f65c6f07be9575",
    path="CFQ_experiment/cfq_data.zip",
    sha256="23f530a385014d0a390f6bfc5e331abead3efb2c1586a911a9535e48dc22c4b5",
    num_bytes=3_092_612,
    licence=_TEXTS_LICENCE,
    mirror="cfq/cfq_data.zip",
)
# role of a file: path below data/mcd1/ in the archive, sha256, bytes
_MCD1_FILES = {
    "train_input": (
        "train/train_encode.txt",
        "8dfcfb15c7a12a4817edb6832b252896af66d21e56b5419621d07a43226aaad7",
        6_325_250,
    ),
    "train_target": (
        "train/train_decode.txt",
        "09f7a4cb00c56a9d73a78a3f9cc1d9504724151d42095a34f0abd142f85b0dc8",
        29_263_561,
    ),
    "validation_input": (
        "dev/dev_encode.txt",
        "2d4c4c5ba9427292be2a0fe73c5a2d7f9261ae3895e23aa0cab6287ca34974fb",
        829_319,
    ),
    "validation_target": (
        "dev/dev_decode.txt",
        "945d9fec888f3d3834f7efaa0728d298d271764a842beb46d442b0ea2877cbdf",
        4_364_217,
    ),
    "test_input": (
        "test/test_encode.txt",
        "96f903b16bfa898d8aea12b879c158bad01b8d02ad0086054cfdc6f81d651598",
        831_179,
    ),
    "test_target": (
        "test/test_decode.txt",
        "efd3a514a59b49ee0767c7c7414d876b03978a5d025495bb0fcb7fd1710b857f",
        4_316_194,
    ),
}


def mcd1_files() -> dict[str, Source]:
    """The preprocessed text files of mcd1, by "<part>_input" and "<part>_target"."""
    return {
        role: MemberSource(
            repository=_TEXTS.repository,
            commit=_TEXTS.commit,
            path=f"data/mcd1/{path}",
            sha256=sha256,
            num_bytes=num_bytes,
            licence=_TEXTS_LICENCE,
            mirror=f"cfq/mcd1/{path}",
            archive=_TEXTS,
        )
        for role, (path, sha256, num_bytes) in _MCD1_FILES.items()
    }


class Family(NamedTuple):
    """A split family of CFQ.

    Attributes:
        split: the name of its file in the archive.
        sizes: examples in trainIdxs, devIdxs and testIdxs; None where no paper says it.
        held_out: what is in test and not in train; "" where test is drawn like train.
        lengths: most tokens of a question and of a query, in train and in test (Csordas et al. 2021, table 10).
    """

    split: str
    sizes: tuple[int, int | None, int]
    held_out: str
    lengths: dict[str, tuple[int, int]] = {}  # noqa: RUF012


_MCD = "combinations of rules (maximum compound divergence, with the same words and rules on both sides)"
_MCD_SIZES = (95_743, 11_968, 11_968)
# sizes of train and test: `dataset_infos.json` of CFQ's loading script in huggingface/datasets 1.x
FAMILIES = {
    "mcd1": Family("mcd1", _MCD_SIZES, _MCD, {"train": (29, 95), "test": (30, 103)}),
    "mcd2": Family("mcd2", _MCD_SIZES, _MCD, {"train": (29, 107), "test": (30, 91)}),
    "mcd3": Family("mcd3", _MCD_SIZES, _MCD, {"train": (29, 107), "test": (30, 103)}),
    "random": Family("random_split", (95_744, None, 11_967), ""),
    "question_complexity": Family("question_complexity_split", (98_999, None, 10_340), "longer questions"),
    "query_complexity": Family(
        "query_complexity_split",
        (100_654, 9_512, 9_512),
        "longer queries (the 'output length' split of Csordas et al.)",
        {"train": (29, 77), "test": (29, 107)},
    ),
    "question_pattern": Family("question_pattern_split", (95_654, None, 11_909), "question patterns"),
    "query_pattern": Family("query_pattern_split", (94_600, None, 12_589), "query patterns"),
}


class Selection(NamedTuple):
    """
    What Bergen et al. 2021 take of a family.

    Attributes:
        validation_from: the part that gives up its validation examples.
        filtered: whether training queries of 50 tokens and more are left out, as theirs are.
    """

    validation_from: str
    filtered: bool


EDGE = {
    f"{family}_edge{suffix}": Selection("test" if family == "random" else "train", filtered=not suffix)
    for suffix in ("", "_unfiltered")
    for family in ("mcd1", "mcd2", "mcd3", "random")
}
# examples of mcd1 with queries of less than 50 tokens, less the 1,000 for validation
_EDGE_MCD1_TRAIN = 93_054


def family_of(config: str) -> str:
    return config.partition("_edge")[0]


def split_names(family: str) -> dict[str, str]:
    """Names of CFQ's three parts as this package calls them: its dev set is drawn like its test set."""
    validation = "validation_generalization" if FAMILIES[family].held_out else "validation"
    return {"train": "train", "validation": validation, "test": "test"}


def split_tests(family: str) -> dict[str, str]:
    """What each split of a family tests, one sentence each."""
    held_out = FAMILIES[family].held_out
    names = split_names(family)
    if not held_out:
        return {
            "train": "Drawn at random.",
            names["validation"]: "Drawn like train.",
            "test": "Drawn like train: no compositional test.",
        }
    return {
        "train": "Has none of what test holds out.",
        names["validation"]: "Drawn like test, not like train: choosing a model on it is choosing on the test's kind.",
        "test": f"The compositional test: {held_out} that train does not have.",
    }


def _upstream(name: str) -> ConfigInfo:
    family = FAMILIES[name]
    kind = f"test, the compositional test, has {family.held_out}" if family.held_out else "test is drawn like train"
    errata = (
        "cfq.tar.gz is what can be checked; the upstream README names a cfq1.1.tar.gz, of which no checksum is known",
    )
    return ConfigInfo(
        name,
        f"Keysers et al. 2020, split {family.split}: {kind}.",
        dict(zip(split_names(name).values(), family.sizes, strict=True)),
        mcd1_files() if name == "mcd1" else {"archive": ARCHIVE},
        tests=split_tests(name),
        errata=() if name == "mcd1" else errata,
    )


def _edge(name: str, selection: Selection) -> ConfigInfo:
    family, (validation_from, filtered) = family_of(name), selection
    train, _, test = FAMILIES[family].sizes
    held_out = {part: 1_000 if part == validation_from else 0 for part in ("train", "test")}
    short = ", but with queries of at most 49 tokens" if validation_from == "train" and not filtered else ""
    tests = split_tests(family) | {
        "validation": f"Drawn like train{short}: the 1,000 examples that the authors' seed takes."
    }
    if FAMILIES[family].held_out:
        del tests["validation_generalization"]
    counts: dict[str, int | None] = {
        "train": train - held_out["train"],
        "validation": 1_000,
        "test": test - held_out["test"],
    }
    if filtered:
        use, length, whose = "train on it", "at most 49 tokens", ""
        counts["train"] = _EDGE_MCD1_TRAIN if family == "mcd1" else None
    else:
        use, length, whose = "read it", "any length", f", those of {family}_edge"
    limit = "the paper says that queries of more than 50 tokens are left out; the code keeps those of less than 50"
    return ConfigInfo(
        name,
        f"{family} as Bergen et al. 2021 {use} (section 4.3 and their code): original tokens in lower case, "
        f"queries of {length} in train, and 1,000 examples of {validation_from} for validation{whose}.",
        counts,
        mcd1_files() if family == "mcd1" else {"archive": ARCHIVE},
        BERGEN,
        tests,
        (limit,) if filtered else (),
    )


CFQ = BenchmarkInfo(
    name="cfq",
    description="CFQ (Compositional Freebase Questions): questions, to be turned into SPARQL queries.",
    homepage="https://github.com/google-research/google-research/tree/master/cfq",
    citation=KEYSERS,
    builder="hf_sysgen.data.cfq.builder:Cfq",
    configs={
        **{name: _upstream(name) for name in FAMILIES},
        **{name: _edge(name, selection) for name, selection in EDGE.items()},
    },
)
