"""Bad input soon gives one line and destroys nothing: few tries of each attack; the slow tests have thousands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attack
import datasets
import pytest

# tries in the default suite; fewer if one takes long
FEW = {"command_lines": 15, "configs": 12, "records": 12, "analyses": 8, "kills": 12, "upstream_files": 15,
       "prepared_data": 15, "full_disks": 2}  # fmt: skip
# it takes long, and tests/training/test_killed.py is in the default suite
NOT_FEW = "killed_runs"


@pytest.fixture(autouse=True, scope="module")
def no_bars() -> None:
    datasets.disable_progress_bars()


def assert_all_end_well(name: str, seeds: range, folder: Path) -> None:
    # of those killed at an event; a write of too large a file is always killed
    ended: list[bool] = []
    killed_at = attack.killed_at

    def seen(number: int, *given: Any) -> None:
        if number:
            ended.append(killed_at(number, *given))
        else:
            assert not killed_at(number, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attack, "killed_at", seen)
        endings = {seed: attack.tried(name, seed, folder / str(seed))[:2] for seed in seeds}
    bad = {seed: said for seed, said in endings.items() if said[0] not in ("fine", "line")}
    assert not bad, "\n".join(f"{name} {seed}: {how}: {text}" for seed, (how, text) in bad.items())
    if name == "kills":
        assert {True, False} == set(ended), "some are killed, and some end before"
    # the others skip what is bad, or continue
    if name not in ("records", "kills", "killed_runs"):
        assert "line" in [how for how, _ in endings.values()]


@pytest.mark.parametrize("name", [name for name in attack.ATTACKS if name != NOT_FEW])
def test_few_tries(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert_all_end_well(name, range(FEW.get(name, 40)), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", attack.ATTACKS)
def test_many_tries(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert_all_end_well(name, range(1000, 1020 if name in ("killed_runs", "full_disks") else 1300), tmp_path)


def raised(error: BaseException):
    def fail() -> None:
        raise error

    return fail


def endless() -> None:
    while True:
        pass


@pytest.mark.parametrize(
    ("attempt", "how"),
    [
        (lambda: None, "fine"),
        (raised(attack.UserError("no such file x; give another")), "line"),
        (raised(KeyError("x")), "traceback"),
        (raised(RecursionError()), "traceback"),
        (raised(attack.Silent("x")), "silent"),
        (raised(attack.Lost("x")), "lost"),
        (endless, "slow"),
    ],
)
def test_what_ends_badly_is_seen(attempt, how, monkeypatch):
    """Without this, the tests above could not fail."""
    monkeypatch.setattr(attack, "SECONDS", 0.2)
    assert attack.ending(attempt)[0] == how
