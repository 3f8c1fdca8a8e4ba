"""The Mathematics Dataset's files, configs and licences. The builder is in `mathematics.py`."""

from __future__ import annotations

from dataclasses import replace

from hf_sysgen.data.citations import CSORDAS
from hf_sysgen.data.info import BenchmarkInfo, ConfigInfo
from hf_sysgen.data.mathematics.files import module_files
from hf_sysgen.data.mathematics.generate import GENERATED
from hf_sysgen.data.sources import MemberSource, Source, WebSource

_LICENCE = "Apache-2.0 (google-deepmind/mathematics_dataset)"
# the suffix of a config that is made of generated files
SUFFIX = "_generated"

# the checksum with which both TensorFlow Datasets (url_checksums/math_dataset.txt) and Hugging Face's former loader
# (datasets/math_dataset/urls_checksums/checksums.txt) pin it
ARCHIVE = WebSource(
    repository="google-deepmind/mathematics_dataset",
    commit="v1.0",
    path="mathematics_dataset-v1.0.tar.gz",
    sha256="def638343403cb9ed60437d6b684c859dd23b72779f5cc5661b0a31e67c58576",
    num_bytes=2_333_082_954,
    licence=_LICENCE,
    mirror="mathematics_dataset/mathematics_dataset-v1.0.tar.gz",
    address="https://storage.googleapis.com/mathematics-dataset/mathematics_dataset-v1.0.tar.gz",
)

_SAXTON = """@inproceedings{saxton2019analysing,
  title = {Analysing Mathematical Reasoning Abilities of Neural Models},
  author = {Saxton, David and Grefenstette, Edward and Hill, Felix and Kohli, Pushmeet},
  booktitle = {International Conference on Learning Representations},
  year = {2019}
}"""


def _published(module: str) -> dict[str, Source]:
    return {
        role: MemberSource(
            repository=ARCHIVE.repository,
            commit=ARCHIVE.commit,
            path=f"mathematics_dataset-v1.0/{path}",
            # the archive's checksum is what pins its members
            sha256=None,
            num_bytes=None,
            licence=_LICENCE,
            mirror=f"mathematics_dataset/mathematics_dataset-v1.0/{path}",
            archive=ARCHIVE,
        )
        for role, path in module_files(module).items()
    }


def _generated(module: str) -> dict[str, Source]:
    # whoever generates them decides their content: the builder reads their checksums off the files
    return {
        role: WebSource(
            repository="mathematics_generate",
            commit="",
            path=path,
            sha256=None,
            num_bytes=None,
            licence=_LICENCE,
            mirror=f"{GENERATED}/{path}",
            address="",
        )
        for role, path in module_files(module).items()
    }


def _config(module: str, what: str, train: int, test_iid: int) -> list[ConfigInfo]:
    published = ConfigInfo(
        module,
        f"{what} The published questions, version 1.0; test is the compositional test.",
        {"train": train, "validation": 30_000, "test_iid": test_iid, "test": 10_000},
        _published(module),
        CSORDAS,
        {
            "train": "All three difficulties, put one after the other, without validation.",
            "validation": "10,000 of each difficulty, drawn like train (Csordas et al. 2021; RandomState(1234)).",
            "test_iid": "Upstream's interpolate: the range of train-medium and train-hard, questions not in train.",
            "test": "Upstream's extrapolate, the compositional test: larger numbers, some longer than any in train.",
        },
    )
    generated = replace(
        published,
        name=f"{module}{SUFFIX}",
        description=f"{what} Questions that hf_sysgen.data.mathematics.generate made; test is the compositional test.",
        num_examples=dict.fromkeys(published.num_examples),
        sources=_generated(module),
        tests=dict(published.tests)
        | {"validation": "10,000 of each difficulty, or a tenth where there are fewer than 100,000; drawn like train."},
        errata=("Another draw than the published one: numbers on it are not those of a paper.",),
    )
    return [published, generated]


def _configs() -> list[ConfigInfo]:
    # the numbers are those of Csordas et al. 2021, table 10: questions that an earlier split has are dropped
    add_or_sub = _config("arithmetic__add_or_sub", "Sum or difference of two decimal numbers.", 1_969_029, 10_000)
    place_value = _config("numbers__place_value", "One digit of a whole number.", 1_492_268, 9_988)
    return [add_or_sub[0], place_value[0], add_or_sub[1], place_value[1]]


MATHEMATICS = BenchmarkInfo(
    name="mathematics",
    description="Mathematics Dataset: school questions and their answers, both to be read and written by character.",
    homepage="https://github.com/google-deepmind/mathematics_dataset",
    citation=_SAXTON,
    builder="hf_sysgen.data.mathematics.builder:Mathematics",
    configs={config.name: config for config in _configs()},
    errata=(
        (
            "Upstream's files repeat questions, within a file and across files, also across train and interpolate; "
            "here the first one counts, as in Csordas et al. 2021."
        ),
    ),
)
