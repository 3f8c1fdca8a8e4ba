"""The hub in the tests: what one client sends to it, another gets."""

from __future__ import annotations

from pathlib import Path

import huggingface_hub
import pytest
from fake_hub import fake_hub
from huggingface_hub import HfApi
from huggingface_hub.errors import RepositoryNotFoundError

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=<...>' to upload raw bytes:DeprecationWarning")
FILES = {"config.json": b'{"a": 1}', "model.safetensors": bytes(range(256)) * 41, "folder/other.bin": b"other"}


@pytest.mark.parametrize("kind", ["model", "dataset", "space"])
@pytest.mark.parametrize("private", [False, True])
def test_round_trip(kind: str, private: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
    huggingface_hub.close_session()
    for path, content in FILES.items():
        (tmp_path / "sent" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sent" / path).write_bytes(content)
    with fake_hub() as server:
        api = HfApi(endpoint=server.endpoint, token="hf_writer")
        space = {"space_sdk": "static"} if kind == "space" else {}
        api.create_repo("org/name", repo_type=kind, private=private, **space)
        sent = api.upload_folder(repo_id="org/name", repo_type=kind, folder_path=tmp_path / "sent")
        # a change of one file is a commit of one file
        (tmp_path / "sent" / "config.json").write_bytes(b'{"a": 2}')
        puts = server.count("PUT")
        api.upload_file(
            repo_id="org/name",
            repo_type=kind,
            path_or_fileobj=tmp_path / "sent/config.json",
            path_in_repo="config.json",
        )
        assert server.count("PUT") == puts
        got = Path(api.snapshot_download("org/name", repo_type=kind, cache_dir=tmp_path / "cache"))
        expected = {**FILES, "config.json": b'{"a": 2}'}
        assert {path: (got / path).read_bytes() for path in expected} == expected
        assert got.name != sent.oid
        assert api.file_exists("org/name", "config.json", repo_type=kind)
        assert not api.file_exists("org/name", "absent.json", repo_type=kind)
        stranger = HfApi(endpoint=server.endpoint, token=False)
        assert stranger.repo_exists("org/name", repo_type=kind) != private
        with pytest.raises(RepositoryNotFoundError):
            api.repo_info("org/absent", repo_type=kind)
        assert server.unhandled == []
