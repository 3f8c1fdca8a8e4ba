"""Noun-adjective ordering: files, configs, licence. The builder is in `noun_adjective.py`."""

from __future__ import annotations

from hf_sysgen.data.citations import CHAABOUNI
from hf_sysgen.data.info import BenchmarkInfo, ConfigInfo
from hf_sysgen.data.sources import WebSource

_LICENCE = "no restriction known to its makers (statmt.org/europarl)"

ARCHIVE = WebSource(
    repository="statmt.org/europarl",
    commit="",
    path="fr-en.tgz",
    # as a user of the archive recorded it
    sha256="80f5d52113e23bfe51f890569ed69d2a1348127bca0894d07d1d23e0d0fac1e9",
    num_bytes=None,
    licence=_LICENCE,
    mirror="mt/europarl/fr-en.tgz",
    address="https://www.statmt.org/europarl/v7/fr-en.tgz",
)
# made by the user: which parser made it decides what the splits hold
PARSES = WebSource(
    repository="a dependency parser",
    commit="",
    path="fr-en.conllu",
    sha256=None,
    num_bytes=None,
    licence=_LICENCE,
    mirror="mt/europarl/fr-en.conllu",
    address="",
)

# of Chaabouni et al. 2021, section 4.2
PAPER_SIZES = {"train": 1_478_195, "validation": 163_486, "test": 659}

_TESTS = {
    "train": "Each of eight nouns is modified by one adjective only, which modifies other nouns, too.",
    "validation": "Drawn like train.",
    "test": "The compositional test: the eight nouns with adjectives that French puts on the other side of the noun "
    "than their one adjective in train, 32 pairs never seen.",
}


def _config(name: str, bare: str) -> ConfigInfo:
    sizes = ", ".join(f"{size:,} in {split}" for split, size in PAPER_SIZES.items())
    return ConfigInfo(
        name=name,
        description=f"Chaabouni et al. 2021 (arXiv:2107.01366, section 4.2): Europarl, but that each of eight nouns is "
        f"modified by one adjective only in train. {bare} The paper has {sizes}; ours depend on the parser.",
        num_examples=dict.fromkeys(PAPER_SIZES),
        sources={"archive": ARCHIVE},
        tests=_TESTS,
    )


_KOEHN = """@inproceedings{koehn2005europarl,
  title = {{E}uroparl: A Parallel Corpus for Statistical Machine Translation},
  author = {Koehn, Philipp},
  booktitle = {Machine Translation Summit X},
  year = {2005}
}"""

NOUN_ADJECTIVE = BenchmarkInfo(
    name="noun_adjective",
    description="Noun-adjective ordering: English to French, with adjectives that go before or after the noun.",
    homepage="https://www.statmt.org/europarl",
    citation=f"{CHAABOUNI}\n{_KOEHN}",
    builder="hf_sysgen.data.noun_adjective.builder:NounAdjective",
    configs={
        config.name: config
        for config in (
            _config("modified", "A sentence with one of these nouns and no adjective to it is in no part."),
            _config("modified_or_bare", "Without an adjective, these nouns may be in any part."),
        )
    },
    errata=(
        "The paper writes organism for organisation once.",
        (
            "The paper does not say what becomes of the eight nouns without an adjective (hence two configs), nor how "
            "validation is drawn (here at random, 163,486 in 1,641,681)."
        ),
        (
            "The paper's parts are smaller than the rule explains (6 % of the sentences of a session of Europarl have "
            "such a noun at all): it seems to count after fairseq's cleaning of byte pairs (translation.clean, up to "
            "250, ratio 1.5), which needs the codes and is not done here."
        ),
    ),
    extra="translation",
    task="translation",
)
