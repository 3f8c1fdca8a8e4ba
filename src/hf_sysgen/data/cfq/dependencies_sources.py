"""The files, configs and licences of CFQ dependency parsing. The builder is in `cfq_dependencies.py`."""

from __future__ import annotations

from hf_sysgen.data.cfq.sources import CFQ, FAMILIES, split_tests
from hf_sysgen.data.citations import BERGEN
from hf_sysgen.data.info import BenchmarkInfo, ConfigInfo
from hf_sysgen.data.sources import WebSource

_COMMIT = "7d6a1fff036cec5a54f76dd8d701945cfb8ef730"
# the repository holds a git-lfs pointer, which names the sha256 and the size
PARSES = WebSource(
    repository="emilygoodwin/CFQ-dependencies",
    commit=_COMMIT,
    path="parsed-CFQ-corpus.conllu",
    sha256="5cf13fabcb58842663dca459f669bcc9ad67bd97135730cb8375fff119d290ad",
    num_bytes=105_434_097,
    licence="none stated (emilygoodwin/CFQ-dependencies), made of CFQ, which is under CC-BY-4.0",
    mirror="cfq_dependency/parsed-CFQ-corpus.conllu",
    address=f"https://media.githubusercontent.com/media/emilygoodwin/CFQ-dependencies/{_COMMIT}/parsed-CFQ-corpus.conllu",
)
# the suffix of the configs whose trees have our heads and labels
OWN_HEADS = "_own_heads"

_GOODWIN = """@inproceedings{goodwin2022compositional,
  title = {Compositional Generalization in Dependency Parsing},
  author = {Goodwin, Emily and Reddy, Siva and O'Donnell, Timothy J. and Bahdanau, Dzmitry},
  booktitle = {Annual Meeting of the Association for Computational Linguistics},
  year = {2022}
}"""


def _configs() -> list[ConfigInfo]:
    configs = []
    for own in (False, True):
        for name in ("mcd1", "mcd2", "mcd3", "random"):
            family, questions = FAMILIES[name], CFQ.configs[name]
            trees = (
                "trees with OUR heads and labels (not the published ones), from the grammar that Goodwin et al. print"
                if own
                else "the trees of Goodwin et al. 2022"
            )
            kind = "the compositional test" if family.held_out else "drawn like train"
            configs.append(
                ConfigInfo(
                    f"{name}{OWN_HEADS}" if own else name,
                    f"Questions of CFQ's split {family.split}, with {trees}; test is {kind}.",
                    questions.num_examples,
                    dict(questions.sources) if own else {**questions.sources, "parses": PARSES},
                    # table 2 of Bergen et al. 2021 has the three mcd splits
                    BERGEN,
                    split_tests(name),
                    ("not comparable with the papers: the heads and labels are this package's own",) if own else (),
                )
            )
    return configs


CFQ_DEPENDENCIES = BenchmarkInfo(
    name="cfq_dependencies",
    description="Dependency parsing of the questions of CFQ, on its splits.",
    homepage="https://github.com/emilygoodwin/CFQ-dependencies",
    citation=f"{_GOODWIN}\n{CFQ.citation}",
    task="dependency_parsing",
    builder="hf_sysgen.data.cfq.dependencies:CfqDependencies",
    configs={config.name: config for config in _configs()},
    restriction="emilygoodwin/CFQ-dependencies states no licence for its trees (the configs without own_heads)",
)
