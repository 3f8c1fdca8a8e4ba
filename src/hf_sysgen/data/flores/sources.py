"""FLoRes: files, configs, licence. The builder is in `flores.py`."""

from __future__ import annotations

from hf_sysgen.data.info import BenchmarkInfo, ConfigInfo
from hf_sysgen.data.sources import Source, WebSource

_ARCHIVE = Source(
    repository="facebookresearch/flores",
    commit="a6c830c6e1051fb4ac1a44b32358f00463f332bd",
    path="previous_releases/floresv1/data/wikipedia_en_ne_si_test_sets.tgz",
    sha256="7a0245bb29fd03b46a1129831c183dfba0efc8452a9739d962759f25141aa648",
    num_bytes=1_542_781,
    licence="CC-BY-SA (floresv1/README.md)",
    mirror="mt/flores/wikipedia_en_ne_si_test_sets.tgz",
)

# split: upstream's name of it
UPSTREAM_SPLITS = {"validation": "dev", "test_iid": "devtest", "test": "test"}

_LANGUAGES = {"ne": "Nepali", "si": "Sinhala"}
_SIZES = {
    "ne": {"validation": 2_559, "test_iid": 2_835, "test": 2_924},
    "si": {"validation": 2_898, "test_iid": 2_766, "test": 2_905},
}
# of prepare-neen.sh and prepare-sien.sh, what download-data.sh fetches
_TRAINING = {
    "ne": "two editions of the Bible, GlobalVoices 2018q4, GNOME, KDE4 and Ubuntu of OPUS, and the Nepali translation "
    "of the Penn Treebank (pairs with 1 to 250 pieces on both sides)",
    "si": "OpenSubtitles 2018, GNOME, KDE4 and Ubuntu of OPUS (pairs with 6 to 250 pieces on both sides)",
}


def training_source(foreign: str, language: str) -> WebSource:
    """One side of the training text, which users make: the corpora of `download-data.sh`, one after the other."""
    name = f"train.{foreign}-en.{language}"
    return WebSource(
        repository="floresv1/download-data.sh",
        commit="",
        path=name,
        sha256=None,
        num_bytes=None,
        licence="that of each corpus",
        mirror=f"mt/flores/{name}",
        address="",
    )


def _config(foreign: str, source: str, target: str) -> ConfigInfo:
    names = {"en": "English", **_LANGUAGES}
    return ConfigInfo(
        name=f"{source}-{target}",
        description=f"{names[source]} to {names[target]}: sentences of Wikipedia, translated by people in either "
        f"direction. train is there where users put it, as its files have no fixed version: "
        f"mt/flores/train.{foreign}-en.{foreign} and .en in the data folder, line by line {_TRAINING[foreign]}.",
        num_examples=_SIZES[foreign],
        sources={"archive": _ARCHIVE},
        tests={
            "validation": "FLoRes dev. Other text than the training corpora.",
            "test_iid": "FLoRes devtest, drawn like validation: FLoRes' own numbers are on it, and Chaabouni et al. "
            "2021 choose hyperparameters by it.",
            "test": "FLoRes test, of other articles than validation; translation with little data, no compositional "
            "test.",
        },
        errata=(
            "Chaabouni et al. 2021 say in section 5 that they report numbers of test; Tables 5 and 7 say dev-test.",
            "In their Table 7, '.78' of si-en with a fixed span is a misprint.",
        ),
    )


FLORES = BenchmarkInfo(
    name="flores",
    description="FLoRes: Nepali and Sinhala from and to English, with little text to learn from.",
    homepage="https://github.com/facebookresearch/flores",
    citation="""@inproceedings{guzman2019flores,
  title = {The {FLORES} Evaluation Datasets for Low-Resource Machine Translation: {N}epali-{E}nglish and
           {S}inhala-{E}nglish},
  author = {Guzm{\\'a}n, Francisco and Chen, Peng-Jen and Ott, Myle and Pino, Juan and Lample, Guillaume and Koehn,
            Philipp and Chaudhary, Vishrav and Ranzato, Marc'Aurelio},
  booktitle = {Conference on Empirical Methods in Natural Language Processing},
  year = {2019}
}""",
    builder="hf_sysgen.data.flores.builder:Flores",
    configs={
        config.name: config
        for foreign in _LANGUAGES
        for config in (_config(foreign, foreign, "en"), _config(foreign, "en", foreign))
    },
    extra="translation",
    task="translation",
)
