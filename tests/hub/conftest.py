from __future__ import annotations

from collections.abc import Iterator

import huggingface_hub
import pytest
from fake_hub import FakeHub, fake_hub


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """The hub of this process's `HfApi(endpoint=...)`. The rest of the hub's client would ask the real one."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
    huggingface_hub.close_session()
    with fake_hub() as server:
        yield server
        assert server.unhandled == []
