"""SCAN's files, split families and licences. The builder is in `scan.py`."""

from __future__ import annotations

from functools import partial

from hf_sysgen.data.citations import CSORDAS, KEYSERS
from hf_sysgen.data.info import BenchmarkInfo, ConfigInfo
from hf_sysgen.data.scan.files import rebuild
from hf_sysgen.data.sources import Source

# path in brendenlake/SCAN: sha256, bytes
_FILES = {
    "tasks.txt": ("d824c7d9e9149ba497e25f701981dac79954e04bf670d22e5c209f076ac6c89f", 4_080_388),
    "simple_split/tasks_train_simple.txt": (
        "941bb8a088c5f53ceff12fde902dc008933cf0c4203cc672c47b5f79d73262dd",
        3_267_938,
    ),
    "simple_split/tasks_test_simple.txt": ("1fe1c8f5a19d0dc40e41bab94278f45f66f3dc415a978bd29855a23440610fc6", 812_450),
    "length_split/tasks_train_length.txt": (
        "b034212dc7cf87ce62f3a067dd6ad49c4d5cd18d51d615d13825516bcb1ebbc2",
        2_723_418,
    ),
    "length_split/tasks_test_length.txt": (
        "0760752ed34a75116ae11dcc1ee17526b7500060da1366540730fa24894d7db3",
        1_356_970,
    ),
    "add_prim_split/tasks_train_addprim_jump.txt": (
        "e3c78485692e028eed4205e1b8b3fd0e785ef2c12d45b5b89204dadf5b239e23",
        2_579_619,
    ),
    "add_prim_split/tasks_test_addprim_jump.txt": (
        "8147ae2651422c701162e174d9d66158daa57858a26b30317ac61797118ac7a5",
        1_531_555,
    ),
    "add_prim_split/tasks_train_addprim_turn_left.txt": (
        "1b3fed86055dd7689d217f1b90cc8960aeb1cf200f4f209dc47935761b05304c",
        3_974_537,
    ),
    "add_prim_split/tasks_test_addprim_turn_left.txt": (
        "15a82c2d25ac7c3c1fff7e18051fb085974ef3617de895c520d02144396a10e2",
        173_679,
    ),
    "template_split/tasks_train_template_around_right.txt": (
        "d5d35d174d557645fc61f289424afa0d95fde21422c59a9819e2d0fcfa9d419f",
        2_558_693,
    ),
    "template_split/tasks_test_template_around_right.txt": (
        "fc78a5d1077dc2c206d6c42ed89fb9022867618c3f331179bafd3ec1ca699474",
        1_243_177,
    ),
    "template_split/tasks_train_template_jump_around_right.txt": (
        "f63ba9149feeb021fbb44132265d7b15e6a07e6b12c9d3220418d97d97d71735",
        3_468_272,
    ),
    "template_split/tasks_test_template_jump_around_right.txt": (
        "a3a27e06adece97da26ae506de08c4b6848035970c561691edbf4dcb1e45f9af",
        333_598,
    ),
    "template_split/tasks_train_template_opposite_right.txt": (
        "b4fe224a2dd636952a90b7e5552017620ab07e0c465db0ee2dddfb0f727feeb6",
        2_990_057,
    ),
    "template_split/tasks_test_template_opposite_right.txt": (
        "e7fc129633f82decd39248517a8945385b77009f721f9f4f58df213f73a29a47",
        871_363,
    ),
    "template_split/tasks_train_template_right.txt": (
        "a09e125dc95c59843d087fd50852c57bc4e77997e2cd69aa04a9a934eea9089b",
        3_173_282,
    ),
    "template_split/tasks_test_template_right.txt": (
        "506bed814f8a6ec1eef9c226eb9b2055bc984925902a94d020a23a41080993bb",
        729_823,
    ),
}
# name in compositional_generalization/data/ of microsoft/ContextualSP: sha256, bytes
_MCD_FILES = {
    "tasks_train_mcd1.txt": ("fd07e26682406f7c305d6a19c86af09e5f280683ca1258f25a7889a6aaa5cc9f", 1_460_294),
    "tasks_test_mcd1.txt": ("0c8ba1e5d89582005dd844026bd0f4ec553972c5bed102746eb53d6671b7b685", 252_346),
    "tasks_train_mcd2.txt": ("f5ddc6fcb146720fd29fbee237ca91616bdf076883a5d6b1fc0cfb0e6c0ac1db", 1_433_112),
    "tasks_test_mcd2.txt": ("f91bf0e8135a78fe60bc9f77a6230a6b5e05ba66373ed8a53cf7e87b27f11ab0", 234_132),
    "tasks_train_mcd3.txt": ("a5c4fdd42725255694121661cfb47e0edd6946595da37d176fcff2bf1bae6819", 1_444_203),
    "tasks_test_mcd3.txt": ("044b9f1a2b465d6df9cdca1410455d8b1d532ad2643e2493c177eaa458dfa3c0", 251_034),
}
# the splits were published as lists of line numbers, beside CFQ; its README states a licence for CFQ only
_MCD_LICENCE = (
    "MIT (the copy in microsoft/ContextualSP) of text under BSD-3-Clause (brendenlake/SCAN), split by "
    "google-research/cfq (CFQ itself: CC-BY-4.0; the SCAN splits: none stated)"
)


def _file(path: str) -> Source:
    sha256, num_bytes = _FILES[path]
    return Source(
        repository="brendenlake/SCAN",
        commit="c4b756cbc010d75c912f16c42c8f15dc6b7e6c8f",
        path=path,
        sha256=sha256,
        num_bytes=num_bytes,
        licence="BSD-3-Clause (brendenlake/SCAN)",
        mirror=f"scan/{path}",
        rebuild=partial(rebuild, path),
    )


def _mcd_file(name: str) -> Source:
    sha256, num_bytes = _MCD_FILES[name]
    return Source(
        repository="microsoft/ContextualSP",
        commit="369743e32ccfb47a7e2eefa7ac2d9be46d874696",
        path=f"compositional_generalization/data/{name}",
        sha256=sha256,
        num_bytes=num_bytes,
        licence=_MCD_LICENCE,
        mirror=f"scan_mcd/{name}",
    )


_LAKE_BARONI = """@inproceedings{lake2018generalization,
  title = {Generalization without Systematicity: On the Compositional Skills of Sequence-to-Sequence Recurrent
           Networks},
  author = {Lake, Brenden M. and Baroni, Marco},
  booktitle = {International Conference on Machine Learning},
  year = {2018}
}"""
_LOULA = """@inproceedings{loula2018rearranging,
  title = {Rearranging the Familiar: Testing Compositional Generalization in Recurrent Networks},
  author = {Loula, Jo{\\~a}o and Baroni, Marco and Lake, Brenden M.},
  booktitle = {BlackboxNLP Workshop at EMNLP},
  year = {2018}
}"""
_NEWMAN = """@inproceedings{newman2020eos,
  title = {The {EOS} Decision and Length Extrapolation},
  author = {Newman, Benjamin and Hewitt, John and Liang, Percy and Manning, Christopher D.},
  booktitle = {BlackboxNLP Workshop at EMNLP},
  year = {2020}
}"""

# config: most actions in `train` and `validation`
LENGTH_CUTOFFS = {f"length_cutoff_{cutoff}": cutoff for cutoff in (22, 24, 25, 26, 27, 28, 30, 32, 33, 36, 40)}

# the counts of Csordas et al. 2021, Table 10, are those of cutoff 26
_CUTOFF_SIZES = {
    22: (15_292, 1_698, 3_920),
    24: (15_594, 1_732, 3_584),
    25: (15_997, 1_777, 3_136),
    26: (16_458, 1_828, 2_624),
    27: (16_861, 1_873, 2_176),
    28: (17_264, 1_918, 1_728),
    30: (17_783, 1_975, 1_152),
    32: (18_186, 2_020, 704),
    33: (18_416, 2_046, 448),
    36: (18_474, 2_052, 384),
    40: (18_704, 2_078, 128),
}


_NO_VALIDATION = "Upstream has no validation file: hold out part of train, and choose nothing on test."


def _configs() -> list[ConfigInfo]:
    def upstream(
        name: str, folder: str, train: int, test: int, description: str, tests: str, citation: str = ""
    ) -> ConfigInfo:
        files = {split: _file(f"{folder}/tasks_{split}_{name}.txt") for split in ("train", "test")}
        counts = {"train": train, "test": test}
        return ConfigInfo(name, description, counts, files, citation, {"test": tests}, (_NO_VALIDATION,))

    def template(name: str, train: int, test: int, held_out: str, left_out: str) -> ConfigInfo:
        description = (
            f"Loula et al. 2018: {held_out} is in test only, which is the compositional test; "
            f'the 1,209 commands with "{left_out}" are in neither part.'
        )
        tests = f"Compositional test: commands with {held_out}, whose parts are known from other commands of train."
        return upstream(f"template_{name}", "template_split", train, test, description, tests, _LOULA)

    configs = [
        upstream(
            "simple",
            "simple_split",
            16_728,
            4_182,
            "Lake & Baroni 2018, experiment 1: random split. test is drawn like train: no compositional test.",
            "Drawn like train: no compositional test.",
        ),
        upstream(
            "length",
            "length_split",
            16_990,
            3_920,
            "Lake & Baroni 2018, experiment 2: up to 22 actions in train, 24 to 48 in test, which is the compositional "
            "test.",
            "Compositional test: action sequences longer than any in train.",
        ),
        upstream(
            "addprim_jump",
            "add_prim_split",
            14_670,
            7_706,
            'Lake & Baroni 2018, experiment 3: train has "jump" alone, 1,467 times (10 %), and no longer command with '
            "it; these are test, which is the compositional test.",
            'Compositional test: "jump" in longer commands, known from train alone and as other verbs are combined.',
        ),
        upstream(
            "addprim_turn_left",
            "add_prim_split",
            21_890,
            1_208,
            'Lake & Baroni 2018, experiment 3: train has "turn left" alone, 2,189 times (10 %), and no longer command '
            "with it; these are test, which is the compositional test.",
            'Compositional test: "turn left" in longer commands; train has it alone, "turn right" in longer ones too.',
        ),
        template("around_right", 15_225, 4_476, '"around right"', "turn around right"),
        template("jump_around_right", 18_528, 1_173, '"jump around right"', "turn around right"),
        template("opposite_right", 15_225, 4_476, '"opposite right"', "turn opposite right"),
        template("right", 15_225, 4_476, 'an action right before "right"', "turn right"),
    ]
    for name, cutoff in LENGTH_CUTOFFS.items():
        tests = {
            "validation": "Drawn like train: no compositional test.",
            "test": f"Compositional test: all commands of more than {cutoff} actions, longer than any in train.",
        }
        description = (
            f"Cutoff of Newman et al. 2020, re-split of Csordas et al. 2021: up to {cutoff} actions in train and "
            "validation (a random tenth, IID), more in test, which is the compositional test."
        )
        sizes = dict(zip(("train", "validation", "test"), _CUTOFF_SIZES[cutoff], strict=True))
        configs.append(
            ConfigInfo(name, description, sizes, {"tasks": _file("tasks.txt")}, f"{_NEWMAN}\n{CSORDAS}", tests)
        )
    for number in (1, 2, 3):
        description = (
            f"Keysers et al. 2020, maximum compound divergence split {number} of SCAN: test is the compositional test."
        )
        files = {split: _mcd_file(f"tasks_{split}_mcd{number}.txt") for split in ("train", "test")}
        tests = {
            "test": "Compositional test: the words of train in other combinations, as far from train's as can be.",
        }
        counts = {"train": 8_365, "test": 1_045}
        errata = (_NO_VALIDATION,)
        configs.append(ConfigInfo(f"mcd{number}", description, counts, files, KEYSERS, tests, errata))
    return configs


SCAN = BenchmarkInfo(
    name="scan",
    description="SCAN: commands such as 'jump twice after walk', to be turned into sequences of actions.",
    homepage="https://github.com/brendenlake/SCAN",
    citation=_LAKE_BARONI,
    builder="hf_sysgen.data.scan.builder:Scan",
    configs={config.name: config for config in _configs()},
)
