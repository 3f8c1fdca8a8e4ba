"""Files, configs and licences of COGS in its three forms. The builders: `cogs.py`, `cogs_vf.py`, `cogs_graph.py`."""

from __future__ import annotations

from collections.abc import Mapping

from hf_sysgen.data.citations import BERGEN, QIU
from hf_sysgen.data.info import BenchmarkInfo, ConfigInfo
from hf_sysgen.data.sources import Source

# najoungkim/COGS before and after the correction of the generalization set of 2022-09-13
_BEFORE = "6f663835897945e94fd330c8cbebbdc494fbb690"
_AFTER = "165a7b669eade971fa47bf568a2e51925360fed8"


def _file(
    name: str, sha256: str | None, num_bytes: int | None, commit: str = _AFTER, mirror: str = "", git_blob: str = ""
) -> Source:
    return Source(
        repository="najoungkim/COGS",
        commit=commit,
        path=f"data/{name}",
        sha256=sha256,
        num_bytes=num_bytes,
        licence="MIT (najoungkim/COGS)",
        mirror=f"cogs/{mirror or name}",
        git_blob=git_blob,
    )


def _recogs_file(name: str, sha256: str, num_bytes: int) -> Source:
    return Source(
        repository="frankaging/ReCOGS",
        commit="1b6eca8ff4dca5fd2fb284a7d470998af5083beb",
        path=f"variable_free/{name}",
        sha256=sha256,
        num_bytes=num_bytes,
        licence="MIT (frankaging/ReCOGS)",
        mirror=f"cogs_vf/{name}",
    )


_TRAIN = _file("train.tsv", "220b3804b562c0156ee986eff1bdd15c27e52142549362a64f57baf86e304c78", 4_146_574)
# nobody could read it when this was written: only the id that the upstream tree gives it is known
_TRAIN_100 = _file("train_100.tsv", None, None, git_blob="aada7b25ed6157e8a1f517d95059ba2dec88d3f4")
_DEV = _file("dev.tsv", "ab66388a309c7ac1ad210c781a6a0ce12281a9ef24619a12422a752cef61bc21", 522_121)
_TEST = _file("test.tsv", "68f8e51e9f6d9cd22d64efe68dd21d7ea5ba327e9a2359481030161aea757035", 521_111)
_GEN = {
    "gen_2020": _file(
        "gen.tsv",
        "410369d993e7cf3af9bb75835a77b1a332b56e60985a8bf1e7d75c30e91d4828",
        5_532_102,
        commit=_BEFORE,
        mirror="gen_2020.tsv",
    ),
    "current": _file("gen.tsv", "d013d9eee0bafc153f8decc85f42814ac97260f84964d980e1e2b84577b82361", 5_532_102),
}
_WHICH_GEN = {
    "gen_2020": "generalization set as first published in 2020, which the papers before 2022-09-13 used",
    "current": "generalization set as corrected upstream on 2022-09-13",
}
_KIM = """@inproceedings{kim2020cogs,
  title = {{COGS}: A Compositional Generalization Challenge Based on Semantic Interpretation},
  author = {Kim, Najoung and Linzen, Tal},
  booktitle = {Conference on Empirical Methods in Natural Language Processing},
  year = {2020}
}"""
_WU = """@article{wu2023recogs,
  title = {{ReCOGS}: How Incidental Details of a Logical Form Overshadow an Evaluation of Semantic Interpretation},
  author = {Wu, Zhengxuan and Manning, Christopher D. and Potts, Christopher},
  journal = {Transactions of the Association for Computational Linguistics},
  year = {2023}
}"""
_ONTANON = """@inproceedings{ontanon2022making,
  title = {Making Transformers Solve Compositional Tasks},
  author = {Onta{\\~n}{\\'o}n, Santiago and Ainslie, Joshua and Cvicek, Vaclav and Fisher, Zachary},
  booktitle = {Annual Meeting of the Association for Computational Linguistics},
  year = {2022}
}"""

_TESTS = {
    "train": "24,000 sentences of a grammar, 143 words alone and one sentence for each of 12 words in one use.",
    "validation": "Drawn like the sentences of train (upstream's dev): no compositional test.",
    "test_iid": "Drawn like the sentences of train (upstream's test): no compositional test.",
    "test": (
        "The compositional test (upstream's gen): 18 lexical categories, a known word in a use that train never has, "
        "and 3 structural ones (is_structural), deeper nesting or a modified subject; 1,000 examples each."
    ),
}
_SIZES = {"train": 24_155, "validation": 3_000, "test_iid": 3_000, "test": 21_000}
# what train_100.tsv has by its definition: 24,000 + 100 * (143 + 12)
_SIZES_100 = {**_SIZES, "train": 39_500}

_GEN_ERRATA = {
    "gen_2020": (
        (
            "51 examples of obj_pp_to_subj_pp (0.24 % of test) have the animate subject of an unaccusative verb as "
            "agent, where train has it as theme; upstream corrected them on 2022-09-13."
        ),
    ),
    "current": (
        (
            "The correction of 2022-09-13 changed 51 examples of obj_pp_to_subj_pp from agent to theme; upstream's "
            "changelog says 50. Its first commit of that day (7ef898d3) has a third version, which is not offered."
        ),
    ),
}
_ERRATA = (
    (
        "Papers do not name their version. Kim & Linzen 2020, Ontanon et al. 2021, Csordas et al. 2021 and Bergen et "
        "al. 2021 came before the correction of 2022-09-13, so they used gen_2020; the variable-free files of Wu et "
        "al. 2023 are made of the corrected one; Petty et al. 2023 may have used either. It is 0.24 points at most."
    ),
    (
        "6 examples of test go beyond train in more than their category says: 4 of cp_recursion have PP depth 3, and 2 "
        "of pp_recursion CP depth 3."
    ),
)
_TRAIN_100_ERRATA = (
    (
        "Nobody could read train_100.tsv when this was written: it is pinned by the id that git gives it, and its "
        "count follows from its definition. Before 2021-04-01 it lacked examples upstream."
    ),
)


def _sources(train: Source, gen: str) -> Mapping[str, Source]:
    return {"train": train, "validation": _DEV, "test_iid": _TEST, "test": _GEN[gen]}


def _cogs_configs() -> list[ConfigInfo]:
    configs = []
    for gen, which in _WHICH_GEN.items():
        description = f"Kim & Linzen 2020, {which}: test is the compositional test."
        configs.append(ConfigInfo(gen, description, _SIZES, _sources(_TRAIN, gen), "", _TESTS, _GEN_ERRATA[gen]))
    for gen, which in _WHICH_GEN.items():
        description = (
            "Kim & Linzen 2020, appendix: train has 100 examples where the other configs have one word alone or one "
            f"exposure; {which}: test is the compositional test."
        )
        tests = {**_TESTS, "train": "24,000 sentences, 143 words alone and 12 exposures, of these two 100 each."}
        errata = (*_GEN_ERRATA[gen], *_TRAIN_100_ERRATA)
        name = f"train_100_{gen}"
        configs.append(ConfigInfo(name, description, _SIZES_100, _sources(_TRAIN_100, gen), "", tests, errata))
    return configs


def _vf_configs() -> list[ConfigInfo]:
    configs = []
    for gen, which in _WHICH_GEN.items():
        description = (
            "Qiu et al. 2022: made here from COGS, the target of a word alone is that word; "
            f"{which}: test is the compositional test."
        )
        configs.append(ConfigInfo(gen, description, _SIZES, _sources(_TRAIN, gen), "", _TESTS, _GEN_ERRATA[gen]))
    files = {
        "train": ("train.tsv", "0d8429b2db4c9fd216ce2a80ca6ee20861f331f9d4ce6086b565dcbde7c2791d", 2_476_525),
        "validation": ("dev.tsv", "8fe6a76e2a3b0ebf26aff1e899076956c16f87396374a729dad439669b05b429", 310_419),
        "test_iid": ("test.tsv", "b312353b6f40fcd870dc2c75b70da8ea25bf32134884e9da2c9c98306e17b9d1", 310_329),
        "test": ("gen.tsv", "ce0be5c1e70139301b7cc77e6b94e7b23af0ae3db921ce935d2524fe68070159", 3_203_248),
    }
    description = (
        "The files of Wu et al. 2023 (ReCOGS): as current, but a word alone keeps its COGS form with LAMBDA in train; "
        "test is the compositional test."
    )
    errata = (
        "122 of the 143 words alone in train have a target with variables, of which no other target has any.",
        *_GEN_ERRATA["current"],
    )
    sources = {split: _recogs_file(*file) for split, file in files.items()}
    configs.append(ConfigInfo("recogs", description, _SIZES, sources, _WU, _TESTS, errata))
    return configs


def _graph_configs() -> list[ConfigInfo]:
    sizes = {**_SIZES, "validation_generalization": 999}
    splits = ("train", "validation", "validation_generalization", "test_iid", "test")
    tests = {
        **_TESTS,
        "validation_generalization": (
            "999 random examples of test, of all 21 categories (gen_dev in the code of Bergen et al. 2021, read by "
            "nothing there): a part of the compositional test, so what is chosen on it is chosen on test."
        ),
    }
    configs = []
    for gen, which in _WHICH_GEN.items():
        description = f"Graphs of Ontanon et al. 2021, made here from COGS, {which}: test is the compositional test."
        counts = {split: sizes[split] for split in splits}
        told = {split: tests[split] for split in splits}
        configs.append(ConfigInfo(gen, description, counts, _sources(_TRAIN, gen), "", told, _GEN_ERRATA[gen]))
    return configs


def _benchmark(
    name: str,
    description: str,
    builder: str,
    configs: list[ConfigInfo],
    citation: str,
    errata: tuple,
    task: str = "seq2seq",
) -> BenchmarkInfo:
    return BenchmarkInfo(
        name=name,
        description=description,
        homepage="https://github.com/najoungkim/COGS",
        citation=citation,
        builder=builder,
        configs={config.name: config for config in configs},
        errata=errata,
        task=task,
    )


COGS = _benchmark(
    "cogs",
    "COGS: sentences of an English fragment, to be turned into logical forms.",
    "hf_sysgen.data.cogs.builder:Cogs",
    _cogs_configs(),
    _KIM,
    _ERRATA,
)
COGS_VF = _benchmark(
    "cogs_vf",
    "COGS-vf: the sentences of COGS, to be turned into logical forms without variables.",
    "hf_sysgen.data.cogs.variable_free:CogsVf",
    _vf_configs(),
    f"{QIU}\n{_KIM}",
    _ERRATA,
)
COGS_GRAPH = _benchmark(
    "cogs_graph",
    "COGS as graph parsing: each word of a sentence gets a parent and four labels.",
    "hf_sysgen.data.cogs.graph:CogsGraph",
    _graph_configs(),
    f"{_ONTANON}\n{BERGEN}\n{_KIM}",
    (
        *_ERRATA,
        (
            "An infinitive has the category VERB only if it has an argument of its own: in 'The girl needed to cook .' "
            "cook has a verb name and no category."
        ),
    ),
    task="graph_parsing",
)
