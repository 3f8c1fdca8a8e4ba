"""GeoQuery's files, split families and licences. The builder is in `geoquery.py`."""

from __future__ import annotations

from hf_sysgen.data.citations import QIU
from hf_sysgen.data.info import BenchmarkInfo, ConfigInfo
from hf_sysgen.data.sources import Source

# path in language/compgen/ of google-research/language: sha256, bytes
_SPLIT_FILES = {
    "nqg/standard": ("e05d48357694bfa7ce9b9257cc05aa413dc843b483af8b1a462f30cbebe8fbc8", 7_846),
    "nqg/length_1": ("7908c912927f20f692c3edb102d6bc944652d0345a2f51682f3b7ed703973be4", 7_846),
    "nqg/template_1": ("7549bcc721ac8102de5a513baab5d3d4f438033a552328ddfe7c0284929ab9e0", 7_846),
    "nqg/tmcd_1": ("49f83b36d7b9c468b3a98c52356e9d8b337d40c420e982e1e1db40abedea7a9e", 7_846),
    "csl/length": ("bfe1ea81769f9f8c424a77e907b6e57b0dfae66482b97a73301f51dc3e07a3b4", 7_861),
    "csl/template_1": ("754c79278ce1beeeab03f6e627e425fe7f1d8977a1f55edaff67396ae4adb795", 7_861),
    "csl/template_2": ("37718b1315afc1aaed9e272f4eae3ff53ee309de29aad02197bed65d9ad999f4", 7_861),
    "csl/template_3": ("ff066cefe85c6d8b08771764650c500ca8b467a5011ba551cab666632d52d8f6", 7_861),
    "csl/tmcd_1": ("ca1612c00ab8de1ea62a5b18bd54dff8255bfb35e33c7c65fd681593fc083955", 7_861),
    "csl/tmcd_2": ("d334725fce0c014551fe47d8d708f266bd6987279f30c99b1ca336413a863b27", 7_861),
    "csl/tmcd_3": ("49793305f646a1cd9993f65e91cdd53292219d4e3285dc6db598093a4049bec6", 7_861),
}
_LICENCE = "GPL-2.0 (GeoQuery, University of Texas, as stated by tomsherborne/geoquery-src)"
# the examples that the splits divide: the corpus has twelve more, of a later extension
NUM_EXAMPLES = 880

_ZELLE_MOONEY = """@inproceedings{zelle1996learning,
  title = {Learning to Parse Database Queries Using Inductive Logic Programming},
  author = {Zelle, John M. and Mooney, Raymond J.},
  booktitle = {National Conference on Artificial Intelligence},
  year = {1996}
}"""
_SHAW = """@inproceedings{shaw2021compositional,
  title = {Compositional Generalization and Natural Language Variation: Can a Semantic Parsing Approach Handle Both?},
  author = {Shaw, Peter and Chang, Ming-Wei and Pasupat, Panupong and Toutanova, Kristina},
  booktitle = {Annual Meeting of the Association for Computational Linguistics},
  year = {2021}
}"""


def _text2sql(path: str, mirror: str, sha256: str, num_bytes: int) -> Source:
    return Source(
        repository="jkkummerfeld/text2sql-data",
        commit="5050bad2309a93636ea4788d3660c9202bf11e0e",
        path=path,
        sha256=sha256,
        num_bytes=num_bytes,
        licence=_LICENCE,
        mirror=mirror,
    )


def _sources(split_file: str) -> dict[str, Source]:
    sha256, num_bytes = _SPLIT_FILES[split_file]
    paper, _, name = split_file.partition("/")
    return {
        "corpus": _text2sql(
            "data/non-sql-data/geography-multilingual.xml",
            "geoquery/geography-multilingual.xml",
            "38f90017a242236f6711dede9dda4ec9daa07b46206490cc4f82887566d67db1",
            1_250_259,
        ),
        "geobase": _text2sql(
            "data/original/geography-db.txt",
            "geoquery/geobase",
            "7ae78ca2c2d3ca933b66ebf3d0aa3bf49cdbb44534e5c013886e9eec65083d90",
            37_356,
        ),
        "splits": Source(
            repository="google-research/language",
            commit="865fae65f63ef7e6b2989d4ff8b47f61750415a8",
            path=f"language/compgen/{paper}/tasks/geoquery/splits/{name}.json",
            sha256=sha256,
            num_bytes=num_bytes,
            licence="Apache-2.0 (google-research/language)",
            mirror=f"geoquery/splits_{paper}/{name}.json",
        ),
    }


def _configs() -> list[ConfigInfo]:
    harder = {
        "template": "The compositional test: no query of it has the shape of one in train.",
        "length": "The compositional test: its questions are at least as long as the longest in train, 7 words.",
        "tmcd": (
            "The compositional test: train has all names of its queries, but stacked in other ways (target maximum "
            "compound divergence)."
        ),
    }

    def nqg(name: str, file: str, train: int, test: int, what: str, tests: str, errata: tuple[str, ...]) -> ConfigInfo:
        counts = {"train": train, "test": test}
        told = {"train": "The published training part.", "test": tests}
        return ConfigInfo(name, what, counts, _sources(f"nqg/{file}"), _SHAW, told, errata)

    def csl(file: str, train: int, test: int) -> ConfigInfo:
        kind = file.partition("_")[0]
        return ConfigInfo(
            f"csl_{file}",
            f"Qiu et al. 2022, {file.replace('_', ' split ')}, with 110 of the held-out examples for development: "
            "test is the compositional test.",
            {"train": train, "validation_generalization": 110, "test": test},
            _sources(f"csl/{file}"),
            QIU,
            {
                "train": "The published training part.",
                "validation_generalization": "The published dev part: drawn like test, not like train.",
                "test": harder[kind],
            },
        )

    repeated = "With places as m0 and m1, {} test questions are in train too."
    return [
        nqg(
            "standard",
            "standard",
            600,
            280,
            "Zettlemoyer & Collins 2005: a random split; no part is a compositional test.",
            "Drawn like train.",
            (repeated.format("105 of 280"),),
        ),
        nqg(
            "template",
            "template_1",
            441,
            439,
            "Shaw et al. 2021, template split: test is the compositional test.",
            harder["template"],
            (),
        ),
        nqg(
            "tmcd",
            "tmcd_1",
            440,
            440,
            "Shaw et al. 2021, target maximum compound divergence split: test is the compositional test.",
            harder["tmcd"],
            (repeated.format("102 of 440"),),
        ),
        nqg(
            "length",
            "length_1",
            440,
            440,
            "Shaw et al. 2021, split by length of the question: test is the compositional test.",
            harder["length"],
            (repeated.format("4 of 440"), "Questions of 7 words are on both sides."),
        ),
        csl("length", 440, 330),
        csl("template_1", 438, 332),
        csl("template_2", 439, 331),
        csl("template_3", 440, 330),
        csl("tmcd_1", 440, 330),
        csl("tmcd_2", 440, 330),
        csl("tmcd_3", 440, 330),
    ]


GEOQUERY = BenchmarkInfo(
    name="geoquery",
    description="GeoQuery: questions about the geography of the United States, to be turned into FunQL queries.",
    homepage="https://www.cs.utexas.edu/users/ml/nldata/geoquery.html",
    citation=_ZELLE_MOONEY,
    builder="hf_sysgen.data.geoquery.builder:Geoquery",
    configs={config.name: config for config in _configs()},
    errata=("m0 is the place with the longer identifier, not the first one in the question.",),
)
