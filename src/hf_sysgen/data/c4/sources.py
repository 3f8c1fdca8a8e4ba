"""C4's shards and licence. The builder is in `c4.py`."""

from __future__ import annotations

from hf_sysgen.data.info import BenchmarkInfo, ConfigInfo
from hf_sysgen.data.sources import WebSource

REPOSITORY = "allenai/c4"
# a commit of the hub pins its large files by their sha256; of this one, Hugging Face's former loader lists those of all
# shards (datasets/c4/dataset_infos.json)
REVISION = "1ddc917116b730e1859edef32896ec5c16be51d0"
NUM_SHARDS = {"train": 1_024, "validation": 8}

_RAFFEL = """@article{raffel2020exploring,
  title = {Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer},
  author = {Raffel, Colin and Shazeer, Noam and Roberts, Adam and Lee, Katherine and Narang, Sharan and Matena, Michael
            and Zhou, Yanqi and Li, Wei and Liu, Peter J.},
  journal = {Journal of Machine Learning Research},
  year = {2020}
}"""


def shard_names(split: str) -> list[str]:
    """Names of a split's files, in order."""
    total = NUM_SHARDS[split]
    return [f"c4-{split}.{number:05}-of-{total:05}.json.gz" for number in range(total)]


def _first_shard(split: str, sha256: str, num_bytes: int) -> WebSource:
    name = shard_names(split)[0]
    return WebSource(
        repository=REPOSITORY,
        commit=REVISION,
        path=f"en/{name}",
        sha256=sha256,
        num_bytes=num_bytes,
        licence="ODC-BY-1.0 (allenai/c4), and the terms of Common Crawl",
        mirror=f"c4/en/{name}",
        address=f"https://huggingface.co/datasets/{REPOSITORY}/resolve/{REVISION}/en/{name}",
    )


_EN = ConfigInfo(
    name="en",
    description="English documents, 305 GB in 1,024 shards, read as a stream; no part is a compositional test.",
    num_examples={"train": 364_868_892, "validation": 364_608},
    sources={
        "first train shard": _first_shard(
            "train", "8ef8d75b0e045dec4aa5123a671b4564466b0707086a7ed1ba8721626dfffbc9", 319_308_785
        )
    },
    tests={
        "train": "What language models are pretrained on (Petty et al. 2023, section 2.1).",
        "validation": "Drawn like train; perplexities are of this one.",
    },
)

C4 = BenchmarkInfo(
    name="c4",
    description="C4: web pages of April 2019, cleaned, on which language models are pretrained.",
    homepage="https://huggingface.co/datasets/allenai/c4",
    citation=_RAFFEL,
    task="language_modeling",
    builder="hf_sysgen.data.c4.builder:C4",
    configs={_EN.name: _EN},
)
