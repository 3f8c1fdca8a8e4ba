"""What the JSON files of perf say about the machine and the code that were measured."""

from __future__ import annotations

from typing import Any

from hf_sysgen.results.environment import environment, start_after


def machine() -> dict[str, Any]:
    """Versions, commit, device and number of threads of this process."""
    start, here = start_after(0), environment()
    return {
        "versions": start.versions, "git_commit": start.commit, "device": here.device, "num_threads": here.num_threads,
    }  # fmt: skip
