"""PCFG SET's files, split families and licence. The builder is in `pcfg_set.py`."""

from __future__ import annotations

from hf_sysgen.data.info import BenchmarkInfo, ConfigInfo
from hf_sysgen.data.sources import Source

# path in i-machine-think/am-i-compositional below data/pcfgset: sha256, bytes
_FILES = {
    "pcfgset/train.tgt": ("3fa13c7ca2f3fb8dce126612d77f6666fb49f541c0936aa55c88cd033693475a", 2_742_789),
    "pcfgset/dev.src": ("67bd466f77b7acb9863ddbbbacb4784848bdfb9094c40e2f94955aff7cb75d0a", 438_284),
    "pcfgset/dev.tgt": ("95648e697cb86a8724d71d6e841f37eea27d15951091b134538906bfbf0d14d1", 164_248),
    "pcfgset/test.src": ("65af9357dc169a22629456be7cf43e97e275e076db10d72202d5389be7d8c0b2", 863_344),
    "pcfgset/test.tgt": ("7d23524995eb28a4726b3f1ffc11daec8f13692f7f804f4be20ca1a25c941517", 321_669),
    "productivity/train.tgt": ("604b73127083b9dc6f6331be6722423d2344eac36278e48d658618f0e78a8da9", 2_444_044),
    "productivity/test.src": ("ba03bc5c468e955d537c06ca02c900c431a16f37b8b3f02e5eaa8a93434a3f73", 1_930_144),
    "productivity/test.tgt": ("55704b1e887ffeffb104fc1ba4bc44dd6b0e95e34a355bd07d86881fd226a254", 620_414),
    "systematicity/train.tgt": ("5b8911aac24433e1a32e769e4ae237ace7e599352f8c4783334f9cae4de53b98", 2_589_979),
    "systematicity/test.src": ("9c47ccf869899e65c2c2cf530403c8fefdcb5de57787c9ff029dc7d9b8018941", 1_235_202),
    "systematicity/test.tgt": ("2896474cdeb151929bd85ed10aeeca37866e11dafa00f62e1660804f0dfc5a8a", 474_479),
    "substitutivity/equally_distributed/train.tgt": (
        "2a451e0ad648f1801de3fe320dfa5be96249616bb3ce0e66e8c4a027206eddc5",
        2_742_788,
    ),
    "substitutivity/equally_distributed/test.src": (
        "21a135fb2e7c828bc264d467fd2353a51a411bffa20416c381290bce500e7899",
        1_073_727,
    ),
    "substitutivity/equally_distributed/test.tgt": (
        "71c5545a9fed0792389b18d470d78c310d578cdf4fa09913f481983f5dbdd29d",
        392_456,
    ),
    "substitutivity/equally_distributed/test_twin.src": (
        "b6111cb54df3f9c44bca73ee97a89006e8dc1fae91803017203ce5623ffe1e40",
        1_139_517,
    ),
    "substitutivity/primitive/train.tgt": (
        "eb5e426d23e6b39bcded649c37bc28c19774cfe2517123d1335d5648d36f9559",
        2_748_925,
    ),
    "overgeneralisation/train_pcfg_ratio=0.0001.tgt": (
        "4afd8d3aa98764b0242ae4608eb17bb534f2e575102916a785739a25fd47f3eb",
        2_674_673,
    ),
    "overgeneralisation/train_pcfg_ratio=0.0005.tgt": (
        "96af4e2b193a5ce491407a7fc784f13b58c8f98ca876369a787170033198ffeb",
        2_675_957,
    ),
    "overgeneralisation/train_pcfg_ratio=0.001.tgt": (
        "f9e8eaba38ba44a7bded6481d222201df2c0533987622c653975f5c2014d1f96",
        2_677_810,
    ),
    "overgeneralisation/train_pcfg_ratio=0.005.tgt": (
        "cc776af6cb01aac332710da78a2ac6c4d2ab1aab20eae65900f4f0ea11a8417e",
        2_690_356,
    ),
    "overgeneralisation/test_pcfg_ratio=0.0001_original.src": (
        "30ec0fb2b6a353db6c4eb9afcf2cd13fa356d92e360fd9bc334c02783086bd39",
        576,
    ),
    "overgeneralisation/test_pcfg_ratio=0.0001_original.tgt": (
        "04745bd663c4746cfb06d9df4d92916fea8b8d4639ee6b8ffc7cd4ee1e1dd340",
        251,
    ),
    "overgeneralisation/test_pcfg_ratio=0.0001_exception.tgt": (
        "bf2466a1ebd2966d5409ba8bf57fa5ff13d9594f342f596478f2b1369759cac4",
        219,
    ),
    "overgeneralisation/test_pcfg_ratio=0.0005_original.src": (
        "f8af90fd9540c4ea238d5a85ec36ead1c83a51bdf92cb75e6b20f012aee76f9e",
        3_702,
    ),
    "overgeneralisation/test_pcfg_ratio=0.0005_original.tgt": (
        "633055f94c6b7fa83224a1f8833a514e685b1cd92a743f4656751591a03e7a28",
        1_498,
    ),
    "overgeneralisation/test_pcfg_ratio=0.0005_exception.tgt": (
        "2443a3538aebeebc6f778463feb055b9eb5abe7259ad2c77013641dbdea6b101",
        1_503,
    ),
    "overgeneralisation/test_pcfg_ratio=0.001_original.src": (
        "ec5f4bdf1fb4e76b24004c1e27fdc453fdd2576f1fcaab28c28dc17bb40bfc07",
        8_279,
    ),
    "overgeneralisation/test_pcfg_ratio=0.001_original.tgt": (
        "75536c3940f51457068c0ccbf66ab8e38b1f39325fff07aec3e963d4f6056c49",
        3_496,
    ),
    "overgeneralisation/test_pcfg_ratio=0.001_exception.tgt": (
        "4b2dbe250003d0133c86209319b9a22c978a8b94cba59feda3d7e5ebb8822cd4",
        3_356,
    ),
    "overgeneralisation/test_pcfg_ratio=0.005_original.src": (
        "8d6587cb649ee4e48a3ecce4530fd6f17c4d6dc9d7d5a03788e08cf504ae4ed4",
        37_197,
    ),
    "overgeneralisation/test_pcfg_ratio=0.005_original.tgt": (
        "9ca7900be9df35f6aa4c4fc1284c7cd492cbd5f5011ff9ee7966426f9c51a303",
        15_511,
    ),
    "overgeneralisation/test_pcfg_ratio=0.005_exception.tgt": (
        "ca565b2b477c6c2c7adb0274aeefaeff9bd685e8fbfccc833053d8d904d874e9",
        15_902,
    ),
}
# the same for the sources of the training sets: the id that the upstream tree records, as it tells no sha256 or size
_GIT_BLOBS = {
    "pcfgset/train.src": "2d5deb5423bbc442dec018b8149f906d7b4d8023",
    "productivity/train.src": "299b8b8b6cbaf9381ee5a8b5bb58ade3dfbaa5d1",
    "systematicity/train.src": "77f60c1bb8b583cfef6144f1de04d3d62b6b57f4",
    "substitutivity/equally_distributed/train.src": "a7bf10892b281a32e680a68c5e0a7006e983a32a",
    "substitutivity/primitive/train.src": "c3a5fd6c73b67e76884e7c3bea69efa0c037dda3",
    "overgeneralisation/train_pcfg_ratio=0.0001.src": "6e2f316f4d8f093b28eee5770bd3f9d1ece4dc95",
    "overgeneralisation/train_pcfg_ratio=0.0005.src": "e97644650cc9fdc7582c59c665c944ba8d640e87",
    "overgeneralisation/train_pcfg_ratio=0.001.src": "4a89829bd4628af4eb798af0fb25141d4cac9bc0",
    "overgeneralisation/train_pcfg_ratio=0.005.src": "30f97072a615039237d35dd399137228b8c2dff4",
}


def _file(path: str) -> Source:
    sha256, num_bytes = _FILES.get(path, (None, None))
    return Source(
        repository="i-machine-think/am-i-compositional",
        commit="4f75bdd78889150dd78e90bbb7ddec840204c159",
        path=f"data/pcfgset/{path}",
        sha256=sha256,
        num_bytes=num_bytes,
        licence="MIT (i-machine-think/am-i-compositional)",
        mirror=f"pcfg_set/{path}",
        git_blob=_GIT_BLOBS.get(path, ""),
    )


# adjacent functions that only the systematicity test has
HELD_OUT_PAIRS = (
    ("swap_first_last", "repeat"),
    ("append", "remove_second"),
    ("repeat", "remove_second"),
    ("append", "swap_first_last"),
)
# most functions of a source in the productivity training set
PRODUCTIVITY_TRAIN = 8
# config, named after the per cent of exceptions: upstream's share, examples of train and test
_EXCEPTIONS = {
    "overgeneralisation_0.01": ("0.0001", 82_287, 9),
    "overgeneralisation_0.05": ("0.0005", 82_337, 59),
    "overgeneralisation_0.1": ("0.001", 82_403, 125),
    "overgeneralisation_0.5": ("0.005", 82_832, 554),
}


_VALIDATION = (
    "There is one validation set for all configs, so it is not drawn like train here; Csordas et al. 2021 leave it out "
    "and validate on test."
)


def _sources(train: str, test: str, **more: str) -> dict[str, Source]:
    paths = {
        "train": f"{train}.src",
        "train_target": f"{train}.tgt",
        "validation": "pcfgset/dev.src",
        "validation_target": "pcfgset/dev.tgt",
        "test": f"{test}.src",
        "test_target": f"{test}.tgt",
        **more,
    }
    return {role: _file(path) for role, path in paths.items()}


def _configs() -> list[ConfigInfo]:
    configs = [
        ConfigInfo(
            "base",
            "The set as drawn, split at random: test is drawn like train, so it is no compositional test.",
            {"train": 82_622, "validation": 4_860, "test": 9_721},
            _sources("pcfgset/train", "pcfgset/test"),
            tests={
                "validation": "Drawn like train.",
                "test": "Drawn like train: task accuracy, no compositional test.",
            },
        ),
        ConfigInfo(
            "productivity",
            "base's train and test, pooled and split by number of functions: up to 8 in train, 9 to 35 in test, which "
            "is the compositional test.",
            {"train": 81_010, "validation": 4_860, "test": 11_333},
            _sources("productivity/train", "productivity/test"),
            tests={
                "validation": "base's validation: drawn like train and test together, 611 of its 4,860 sources have 9 "
                "functions or more.",
                "test": "Compositional test: sources with more functions than any in train.",
            },
            errata=(_VALIDATION,),
        ),
        ConfigInfo(
            "systematicity",
            "base's train and test, pooled; sources where one of four pairs of functions stands side by side are test, "
            "which is the compositional test.",
            {"train": 82_168, "validation": 4_860, "test": 10_175},
            _sources("systematicity/train", "systematicity/test"),
            tests={
                "validation": "base's validation: drawn like train and test together, 521 of its 4,860 sources have a "
                "pair of test.",
                "test": "Compositional test: pairs of functions that are never side by side in train.",
            },
            errata=(
                _VALIDATION,
                'Upstream\'s README writes "swap" for swap_first_last.',
            ),
        ),
    ]
    for name, train, description in (
        ("equally_distributed", 82_622, "half of the uses of four functions are written with a synonym in train"),
        ("primitive", 82_954, "train has 332 examples more, in which a synonym is the only function"),
    ):
        folder = f"substitutivity/{name}"
        # the test files of both folders have the same content
        same = "substitutivity/equally_distributed"
        configs.append(
            ConfigInfo(
                f"substitutivity_{name}",
                f"base, and {description}; test is base's, with each of its four functions replaced by its synonym in "
                "the column synonym_input, which is the compositional test.",
                {"train": train, "validation": 4_860, "test": 10_000},
                _sources(f"{folder}/train", f"{same}/test", test_synonym=f"{same}/test_twin.src"),
                tests={
                    "validation": "base's validation, without synonyms.",
                    "test": "Compositional test: are answers to input and synonym_input the same, and right?",
                },
                errata=(
                    "test has its function replaced wherever it stands, not once per line as upstream's README says.",
                    "test has 6,716 different sources, one line for each function that is replaced.",
                ),
            )
        )
    for name, (ratio, train, test) in _EXCEPTIONS.items():
        folder = "overgeneralisation"
        configs.append(
            ConfigInfo(
                name,
                "base's train and test without four pairs of adjacent functions, and exceptions in which one of them "
                f"means something else, {name.split('_')[1]} % of the uses of its rarer function; these are test.",
                {"train": train, "validation": 4_860, "test": test},
                _sources(
                    f"{folder}/train_pcfg_ratio={ratio}",
                    f"{folder}/test_pcfg_ratio={ratio}_original",
                    test_exception=f"{folder}/test_pcfg_ratio={ratio}_exception.tgt",
                ),
                tests={
                    "validation": "base's validation: its four pairs have their usual meaning.",
                    "test": "Sources of train's exceptions: a model overgeneralises where it answers target, and has "
                    "memorised the exception where it answers exception_target.",
                },
                errata=("A source with several of the four pairs is the exception of one of them only.",),
            )
        )
    return configs


PCFG_SET = BenchmarkInfo(
    name="pcfg_set",
    description="PCFG SET: string edit functions to be carried out, such as 'repeat append A1 B2 , reverse C3 D4'.",
    homepage="https://github.com/i-machine-think/am-i-compositional",
    citation="""@article{hupkes2020compositionality,
  title = {Compositionality Decomposed: How do Neural Networks Generalise?},
  author = {Hupkes, Dieuwke and Dankers, Verna and Mul, Mathijs and Bruni, Elia},
  journal = {Journal of Artificial Intelligence Research},
  volume = {67},
  pages = {757--795},
  year = {2020}
}""",
    builder="hf_sysgen.data.pcfg_set.builder:PcfgSet",
    configs={config.name: config for config in _configs()},
)
