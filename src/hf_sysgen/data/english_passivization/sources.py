"""English passivization's files, split and licence. The builder is in `english_passivization.py`."""

from __future__ import annotations

from hf_sysgen.data.info import BenchmarkInfo, ConfigInfo
from hf_sysgen.data.sources import Source

# split: ending of the file's name in sebschu/multilingual-transformations, sha256, bytes
_FILES = {
    "train": ("train", "45ade8e0bea11b064c709a65bc9f195a9719751e9f7a67e349a75a49d3e9936a", 11_255_077),
    "validation": ("dev", "e2024b0c6030957df2049329d42e9fc3dce8d8c9d0d7bca22a0940b19c747db7", 113_147),
    "test_iid": ("test", "3d51ce92e274c4745eab84ba4f21391f8a6f88fcf2ab63d14ec765455f5bf4d9", 1_126_490),
    "test": ("gen", "f3bae2fa6349038179828515be30eb8778e6de0a93ae443c0b4c220ecd71c902", 1_426_261),
}


def _file(split: str) -> Source:
    ending, sha256, num_bytes = _FILES[split]
    return Source(
        repository="sebschu/multilingual-transformations",
        commit="e848833f2df7674022ef02e2b649482d23ade7a7",
        path=f"data/passiv_en_nps/passiv_en_nps.{ending}",
        sha256=sha256,
        num_bytes=num_bytes,
        licence="MIT (sebschu/multilingual-transformations)",
        mirror=f"passiv_en_nps/passiv_en_nps.{ending}",
    )


ENGLISH_PASSIVIZATION = BenchmarkInfo(
    name="english_passivization",
    description="English passivization: active sentences, to be repeated or turned into the passive voice.",
    homepage="https://github.com/sebschu/multilingual-transformations",
    citation="""@inproceedings{mueller2022coloring,
  title = {Coloring the Blank Slate: Pre-training Imparts a Hierarchical Inductive Bias to Sequence-to-sequence Models},
  author = {Mueller, Aaron and Frank, Robert and Linzen, Tal and Wang, Luheng and Schuster, Sebastian},
  booktitle = {Findings of the Association for Computational Linguistics: ACL 2022},
  year = {2022}
}""",
    builder="hf_sysgen.data.english_passivization.builder:EnglishPassivization",
    configs={
        "nps": ConfigInfo(
            "nps",
            "Mueller et al. 2022, passiv_en_nps: only in test have sentences to be passivized a prepositional phrase "
            "at the subject, which is the compositional test.",
            {"train": 100_000, "validation": 1_000, "test_iid": 10_000, "test": 10_000},
            {split: _file(split) for split in _FILES},
            tests={
                "validation": "Drawn like train.",
                "test_iid": "Drawn like train; upstream's test.",
                "test": "Compositional test, upstream's gen: is the object moved where the second noun is not in it?",
            },
            errata=("Upstream's Readme gives its dev file, the validation set, 10,000 examples; it has 1,000.",),
        )
    },
)
