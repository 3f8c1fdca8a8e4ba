"""IWSLT14 German-English: files, configs, licence. The builder is in `iwslt14.py`."""

from __future__ import annotations

from hf_sysgen.data.info import BenchmarkInfo, ConfigInfo
from hf_sysgen.data.sources import Source

# fairseq's own working copy, which somebody committed: the archive, and what the script made of it
_REPOSITORY, _COMMIT = "facebookresearch/fairseq", "b3f176a4775c4bd0c58a789a1fad52435ee9834c"
_LICENCE = "CC-BY-NC-ND-3.0 (TED Conference LLC)"

# git's ids of the lowercased tokens before byte pair encoding, German and English
GIT_BLOBS = {
    "train": ("30660ed508af1be868cfd3f09a0bd7d71b4517c6", "3b48a76e28ede930fd5e177dce14686147a10ee3"),
    "validation": ("c997f9ded4b538aa94381d5a2dd2a6a6a90d7e83", "ba7e1ae98be7fabd8f26703b5c53e3a84e0f0136"),
    "test": ("8a30624033b86b82c0442f6f240535a89b7f2da4", "1d1650c86d161d435f049c3b0e1261f0f0e13334"),
}
# of those that somebody could read: sha256, bytes
_CHECKED = {
    "validation.de": ("3f051579c9d8c7281a6ea8c72ad4ae09dbaa9bb24dfd41166f2c3a3df7cd940a", 806_361),
    "validation.en": ("e6d7317a9772cd1ed970910c611e9e7dada1f34439269b44a9d801334bff948d", 744_235),
    "test.de": ("e718c783e33160b7d72af8f733756a466e0d0c016eff8ab624c1b0d1d01cbbdf", 718_778),
    "test.en": ("4b127beb9050511a3e6209cd837ff36f623a3a423666b32aba6e208b7330cf4c", 657_543),
}


def _prepared(split: str, language: str) -> Source:
    sha256, num_bytes = _CHECKED.get(f"{split}.{language}", (None, None))
    name = f"{split.removesuffix('ation')}.{language}"
    return Source(
        repository=_REPOSITORY,
        commit=_COMMIT,
        path=f"examples/translation/iwslt14.tokenized.de-en/tmp/{name}",
        sha256=sha256,
        num_bytes=num_bytes,
        licence=_LICENCE,
        mirror=f"mt/iwslt14.tokenized.de-en/tmp/{name}",
        git_blob=GIT_BLOBS[split][("de", "en").index(language)],
    )


ARCHIVE = Source(
    repository=_REPOSITORY,
    commit=_COMMIT,
    # also served as dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz
    path="examples/translation/orig/de-en.tgz",
    sha256=None,
    num_bytes=None,
    licence=_LICENCE,
    mirror="mt/iwslt14/de-en.tgz",
    git_blob="aa8c3f40f8836f1d43701448f94fe7e230082b4c",
)

# fairseq's users report them
_SIZES = {"train": 160_239, "validation": 7_283, "test": 6_750}
_TESTS = {
    "train": "TED talks up to January 2014, but for the pairs of validation.",
    "validation": "Drawn like train: every 23rd pair of the same talks, after cleaning.",
    "test": "Other talks (dev2010, TEDX.dev2012, tst2010 to tst2012), not cleaned; a standard test of translation, no "
    "compositional one.",
}

IWSLT14 = BenchmarkInfo(
    name="iwslt14",
    description="IWSLT14: TED talks to be translated from German to English.",
    homepage="https://wit3.fbk.eu/2014-01",
    citation="""@inproceedings{cettolo2014report,
  title = {Report on the 11th {IWSLT} Evaluation Campaign, {IWSLT} 2014},
  author = {Cettolo, Mauro and Niehues, Jan and St{\\"u}ker, Sebastian and Bentivogli, Luisa and Federico, Marcello},
  booktitle = {International Workshop on Spoken Language Translation},
  year = {2014}
}""",
    builder="hf_sysgen.data.iwslt14.builder:Iwslt14",
    configs={
        config.name: config
        for config in (
            ConfigInfo(
                name="de-en",
                description="The files that fairseq's prepare-iwslt14.sh made, before byte pair encoding; what "
                "Chaabouni et al. 2021 (arXiv:2107.01366, section 4.2) train on.",
                num_examples=_SIZES,
                sources={f"{split}.{side}": _prepared(split, side) for split in GIT_BLOBS for side in ("de", "en")},
                tests=_TESTS,
            ),
            ConfigInfo(
                name="de-en_from_archive",
                description="The same text made anew from the campaign's archive, with the extra translation; every "
                "file must come out with the git id of the published one.",
                num_examples=_SIZES,
                sources={"archive": ARCHIVE},
                tests=_TESTS,
            ),
        )
    },
    errata=(
        "The paper calls the task En-De in places; it translates from German to English.",
        "test is the campaign's development and earlier test sets, not its test set tst2014.",
    ),
    restriction="CC-BY-NC-ND-3.0 (TED): no commercial use, and no changed copies, which tokenized text is.",
    task="translation",
)
