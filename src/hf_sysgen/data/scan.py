"""SCAN as a `datasets` builder: 22 split families of the same 20,910 examples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import datasets

from hf_sysgen.data.builder import BenchmarkBuilder, builder_configs
from hf_sysgen.data.scan_files import num_actions, parse
from hf_sysgen.data.scan_sources import LENGTH_CUTOFFS, SCAN
from hf_sysgen.data.sources import open_file


class Scan(BenchmarkBuilder):
    """SCAN (Lake & Baroni 2018, arXiv:1711.00350): commands to actions.

    Columns: `input`, 1 to 9 words of 13, and `target`, 1 to 48 action words of 6; words are joined by single spaces,
    with no end symbol. Examples are in the order of the upstream files. `scan_files` remakes these byte for byte, so
    only mcd1 to mcd3 need a network or a mirror.

    Configs (each says in its description which part is the compositional test):
        simple, length, addprim_jump, addprim_turn_left: Lake & Baroni 2018, experiments 1, 2, 3, 3.
        template_around_right, template_jump_around_right, template_opposite_right, template_right: Loula et al. 2018
            (arXiv:1807.07545).
        length_cutoff_22, ..., length_cutoff_40: the cutoffs of Newman et al. 2020 (arXiv:2010.07174) as re-split by
            Csordas et al. 2021 (arXiv:2108.12284, section 3.1; `dataset/scan_length_resplit.py` of their code). The
            files of Newman et al. hold out 5 % for validation, not 10 %.
        mcd1, mcd2, mcd3: the SCAN splits of Keysers et al. 2020 (arXiv:1912.09713).

    Raises:
        DataError: unknown config, or (on preparation) a file that cannot be had or is not the one expected.
    """

    BENCHMARK = SCAN
    BUILDER_CONFIGS = builder_configs(SCAN, version="1.0.0")

    def _info(self) -> datasets.DatasetInfo:
        return self.describe(datasets.Features({"input": datasets.Value("string"), "target": datasets.Value("string")}))

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        files = self.locate_sources()
        return [
            # a length cutoff takes all its parts from one file
            datasets.SplitGenerator(name=split, gen_kwargs={"path": files.get(split) or files["tasks"], "split": split})
            for split in self.benchmark_config.splits
        ]

    def _generate_examples(self, path: str, split: str) -> Iterator[tuple[int, dict[str, str]]]:
        with open_file(path) as stream:
            pairs = parse(stream.read())
        if cutoff := LENGTH_CUTOFFS.get(self.config.name):
            pairs = [pairs[row] for row in resplit([num_actions(pair) for pair in pairs], cutoff)[split]]
        for row, (command, actions) in enumerate(pairs):
            yield row, {"input": command, "target": actions}


def resplit(lengths: Sequence[int], cutoff: int) -> dict[str, list[int]]:
    """The length cutoff split of Csordas et al. 2021, `dataset/scan_length_resplit.py:82-89`, with their seed.

    Args:
        lengths: number of actions of each line of tasks.txt, in file order.
        cutoff: most actions in `train` and `validation`.

    Returns:
        0-based line numbers, ascending: `test` has all longer lines, `validation` a random tenth of the others.
    """
    import numpy as np

    pool = [row for row, length in enumerate(lengths) if length <= cutoff]
    # 1 - 0.9 is a little less than 0.1, and int() rounds down: one fewer than a tenth where that is a whole number
    held_out = np.random.RandomState(1234).choice(len(pool), int(len(pool) * (1 - 0.9)), replace=False)
    validation = {pool[position] for position in held_out}
    return {
        "train": [row for row in pool if row not in validation],
        "validation": sorted(validation),
        "test": [row for row, length in enumerate(lengths) if length > cutoff],
    }
