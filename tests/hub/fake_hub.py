"""
A local server that speaks as much of the hub's protocol as `huggingface_hub` and `datasets` use, all in memory: create,
push (regular and LFS files), pull, list, private repositories, tokens, tags, collections. Models, datasets and spaces
alike.

A client finds it through HF_ENDPOINT, which is read on import: set it for a child process (`environment`), with an
HF_HOME of its own, and with HF_HUB_DISABLE_XET=1, as Xet is another server.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from huggingface_hub import HfApi

import hf_sysgen

# the hub's client sends a file, outside Xet, in a way that its own HTTP library deprecates
CLIENT_WARNING = "ignore:Use 'content=<...>' to upload raw bytes"
KINDS = {"models": "model", "datasets": "dataset", "spaces": "space"}
# a path below the optional kind, then owner/name
REPO = r"(?P<repo>[\w.-]+/[\w.-]+?)"


@dataclass
class Repo:
    """One repository, as its newest commit left it.

    Attributes:
        files: path to content.
        lfs: paths whose content is an LFS object.
        commits: message and files sent of each commit.
        history: commit to what it left.
        tags: name to commit.
    """

    kind: str
    name: str
    private: bool = False
    files: dict[str, bytes] = field(default_factory=dict)
    lfs: set[str] = field(default_factory=set)
    commits: list[tuple[str, list[str]]] = field(default_factory=list)
    history: dict[str, Repo] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    def keep(self) -> None:
        state = Repo(self.kind, self.name, self.private, dict(self.files), set(self.lfs), list(self.commits))
        self.history[self.sha] = state

    def state(self, revision: str | None) -> Repo | None:
        """The repository at a commit, tag or branch."""
        if revision in (None, "main", "HEAD", self.sha):
            return self
        return self.history.get(self.tags.get(str(revision), str(revision)))

    @property
    def sha(self) -> str:
        state = repr((self.name, len(self.commits), sorted(self.files.items())))
        return hashlib.sha1(state.encode()).hexdigest()


def blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class FakeHub(ThreadingHTTPServer):
    """
    Attributes:
        repos: (kind, "owner/name") to repository.
        tokens: token to the names it may write to, its user's first.
        objects: LFS objects by sha256.
        collections: slug to collection, as the hub describes it.
        requests: method and path of every request.
        unhandled: the same of those that no route was made for.
        puts_before_failure: LFS objects that are taken before the next ones are refused; None: all.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repos: dict[tuple[str, str], Repo] = {}
        self.tokens: dict[str, list[str]] = {"hf_writer": ["someone", "org"], "hf_reader": ["reader"]}
        self.objects: dict[str, bytes] = {}
        self.collections: dict[str, dict[str, Any]] = {}
        self.requests: list[tuple[str, str]] = []
        self.unhandled: list[tuple[str, str]] = []
        self.puts_before_failure: int | None = None
        self.lock = threading.Lock()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def count(self, method: str) -> int:
        return sum(1 for used, _ in self.requests if used == method)

    def environment(self, home: Path, token: str | None = "hf_writer") -> dict[str, str]:
        """The variables of a child process that takes this server for the hub."""
        kept = {
            k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING")) and "proxy" not in k.lower()
        }
        variables = {"HF_ENDPOINT": self.endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
        return kept | variables | ({"HF_TOKEN": token} if token else {})


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeHub

    def do_GET(self) -> None:
        self.route("GET")

    def do_HEAD(self) -> None:
        self.route("HEAD")

    def do_POST(self) -> None:
        self.route("POST")

    def do_PUT(self) -> None:
        self.route("PUT")

    def route(self, method: str) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.server.lock:
            self.server.requests.append((method, path))
            for pattern, methods, answer in ROUTES:
                found = re.fullmatch(pattern, path)
                if found and method in methods:
                    answer(self, body, **found.groupdict())
                    return
            self.server.unhandled.append((method, path))
            self.reply(404, {"error": f"no route for {method} {path}"})

    # what is sent back

    def reply(self, status: int, content: Any = None, **headers: str) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content if content is not None else {}).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def refuse(self, status: int, code: str, message: str) -> None:
        self.reply(status, {"error": message}, X_Error_Code=code, X_Error_Message=message)

    # who asks, and for what

    @property
    def names(self) -> list[str] | None:
        """What the caller may write to; None for a token that nobody has; [] without one."""
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        return self.server.tokens.get(given) if given else []

    def repo(self, kind: str | None, name: str, write: bool = False) -> Repo | None:
        """The repository, if the caller may see it, or write to it; else the refusal is sent."""
        names = self.names
        if names is None:
            self.refuse(401, "", "Invalid credentials in Authorization header")
            return None
        repo = self.server.repos.get((KINDS[kind or "models"], name))
        owner = name.partition("/")[0]
        if repo is None or (repo.private and owner not in names):
            self.refuse(404 if names else 401, "RepoNotFound", "Repository not found")
            return None
        if write and owner not in names:
            self.refuse(403, "", "You don't have the rights to write to this repository")
            return None
        return repo

    # writing

    def who_am_i(self, body: bytes) -> None:
        if not self.names:
            self.refuse(401, "", "Invalid user token.")
        else:
            orgs = [{"name": name} for name in self.names[1:]]
            self.reply(200, {"type": "user", "name": self.names[0], "orgs": orgs, "auth": {"accessToken": {}}})

    def create(self, body: bytes) -> None:
        asked = json.loads(body)
        if not self.names:
            self.refuse(401, "", "Invalid username or password.")
            return
        owner = asked.get("organization") or self.names[0]
        name = f"{owner}/{asked['name']}"
        if owner not in self.names:
            self.refuse(403, "", f"You don't have the rights to create a repository under the namespace {owner!r}")
            return
        kind = asked.get("type", "model")
        url = f"{self.server.endpoint}/{'' if kind == 'model' else f'{kind}s/'}{name}"
        if (kind, name) in self.server.repos:
            self.reply(409, {"error": "You already created this repository", "url": url})
            return
        private = asked.get("visibility") == "private" or asked.get("private", False)
        repo = self.server.repos[kind, name] = Repo(kind, name, private)
        repo.files[".gitattributes"] = b"*.parquet filter=lfs\n*.safetensors filter=lfs\n"
        repo.keep()
        self.reply(200, {"url": url, "name": name, "id": name})

    def validate_yaml(self, body: bytes) -> None:
        head = json.loads(body)["content"]
        errors = [] if head.startswith("---\n") else [{"message": "no YAML at the top"}]
        self.reply(200, {"errors": errors, "warnings": []})

    def preupload(self, body: bytes, kind: str, repo: str, revision: str) -> None:
        if found := self.repo(kind, repo, write=True):
            answers = []
            for file in json.loads(body)["files"]:
                path = file["path"]
                # a pointer's id is what the hub has of an LFS file: not told, so it is committed again, but not sent
                is_lfs = path.endswith((".parquet", ".safetensors", ".bin")) or file["size"] > 1_000_000
                oid = None if is_lfs or path not in found.files else blob_id(found.files[path])
                mode = "lfs" if is_lfs else "regular"
                answers.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid})
            self.reply(200, {"files": answers})

    def batch(self, body: bytes, kind: str | None, repo: str) -> None:
        if self.repo(kind, repo, write=True):
            answers = []
            for wanted in json.loads(body)["objects"]:
                if wanted["oid"] not in self.server.objects:
                    href = f"{self.server.endpoint}/objects/{wanted['oid']}"
                    wanted["actions"] = {"upload": {"href": href}, "verify": {"href": href}}
                answers.append(wanted)
            self.reply(200, {"transfer": "basic", "objects": answers}, Content_Type="application/vnd.git-lfs+json")

    def put(self, body: bytes, oid: str) -> None:
        if self.server.puts_before_failure is not None:
            self.server.puts_before_failure -= 1
            if self.server.puts_before_failure < 0:
                self.reply(413, {"error": "no more today"})
                return
        if hashlib.sha256(body).hexdigest() != oid:
            self.reply(400, {"error": "another content"})
            return
        self.server.objects[oid] = body
        self.reply(200)

    def verified(self, body: bytes, oid: str) -> None:
        self.reply(200 if oid in self.server.objects else 404)

    def commit(self, body: bytes, kind: str, repo: str, revision: str) -> None:
        found = self.repo(kind, repo, write=True)
        if found is None:
            return
        summary, sent = "", []
        for line in body.splitlines():
            operation = json.loads(line)
            value = operation["value"]
            if operation["key"] == "header":
                summary = value["summary"]
            elif operation["key"] == "file":
                found.files[value["path"]] = base64.b64decode(value["content"])
                found.lfs.discard(value["path"])
                sent.append(value["path"])
            elif operation["key"] == "lfsFile":
                found.files[value["path"]] = self.server.objects[value["oid"]]
                found.lfs.add(value["path"])
                sent.append(value["path"])
            elif operation["key"] == "deletedFile":
                del found.files[value["path"]]
            else:
                self.reply(400, {"error": f"unknown operation {operation['key']}"})
                return
        found.commits.append((summary, sent))
        found.keep()
        url = f"{self.server.endpoint}/{kind}/{repo}/commit/{found.sha}"
        self.reply(200, {"success": True, "commitOid": found.sha, "commitUrl": url, "hookOutput": ""})

    def tag(self, body: bytes, kind: str, repo: str, revision: str) -> None:
        if found := self.repo(kind, repo, write=True):
            name, state = json.loads(body)["tag"], found.state(revision)
            if state is None:
                self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            elif name in found.tags:
                self.refuse(409, "", "Tag reference exists already")
            else:
                found.tags[name] = state.sha
                self.reply(200)

    def collect(self, body: bytes) -> None:
        asked = json.loads(body)
        owner, title = asked["namespace"], asked["title"]
        if not self.names or owner not in self.names:
            self.refuse(403 if self.names else 401, "", f"You don't have the rights to create a collection of {owner}")
            return
        slug = f"{owner}/{re.sub(r'[^a-z0-9]+', '-', title.lower())}-0123456789abcdef01234567"
        if slug in self.server.collections:
            self.reply(409, {"error": "This collection already exists", "slug": slug})
            return
        self.server.collections[slug] = {
            "slug": slug, "title": title, "owner": owner, "items": [], "lastUpdated": "2024-01-01T00:00:00.000Z",
            "position": 0, "private": asked["private"], "theme": "green", "upvotes": 0,
            "description": asked.get("description"),
        }  # fmt: skip
        self.reply(200, self.server.collections[slug])

    def add_item(self, body: bytes, slug: str) -> None:
        collection, item = self.server.collections[slug], json.loads(body)["item"]
        if (KINDS[f"{item['type']}s"], item["id"]) not in self.server.repos:
            self.refuse(404, "RepoNotFound", "Item not found")
        elif any((known["type"], known["id"]) == (item["type"], item["id"]) for known in collection["items"]):
            self.reply(409, {"error": "Item already exists in collection"})
        else:
            count = len(collection["items"])
            collection["items"].append({"_id": str(count), "position": count, **item})
            self.reply(200, collection)

    # reading

    def collection(self, body: bytes, slug: str) -> None:
        self.reply(200, self.server.collections[slug])

    def refs(self, body: bytes, kind: str, repo: str) -> None:
        if found := self.repo(kind, repo):
            main = {"name": "main", "ref": "refs/heads/main", "targetCommit": found.sha}
            tags = [{"name": k, "ref": f"refs/tags/{k}", "targetCommit": sha} for k, sha in found.tags.items()]
            self.reply(200, {"branches": [main], "converts": [], "tags": tags})

    def at(self, kind: str | None, repo: str, revision: str | None) -> Repo | None:
        found = self.repo(kind, repo)
        state = found.state(revision) if found else None
        if found and state is None:
            self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return state

    def info(self, body: bytes, kind: str, repo: str, revision: str | None = None) -> None:
        if found := self.at(kind, repo, revision):
            siblings = [{"rfilename": path} for path in sorted(found.files)]
            facts = {
                "private": found.private,
                "gated": False,
                "disabled": False,
                "tags": [],
                "downloads": 0,
                "likes": 0,
            }
            dates = {"lastModified": "2024-01-01T00:00:00.000Z", "createdAt": "2024-01-01T00:00:00.000Z"}
            self.reply(200, {"_id": "0", "id": repo, "sha": found.sha, "siblings": siblings, **facts, **dates})

    def entry(self, repo: Repo, path: str) -> dict[str, Any]:
        content = repo.files[path]
        entry: dict[str, Any] = {"type": "file", "path": path, "size": len(content), "oid": blob_id(content)}
        if path in repo.lfs:
            oid = hashlib.sha256(content).hexdigest()
            entry["lfs"] = {"oid": oid, "size": len(content), "pointerSize": 134}
        return entry

    def folders(self, repo: Repo) -> set[str]:
        return {str(above) for path in repo.files for above in Path(path).parents} - {"."}

    def tree(self, body: bytes, kind: str, repo: str, revision: str, folder: str | None = None) -> None:
        if found := self.at(kind, repo, revision):
            recursive = parse_qs(urlsplit(self.path).query).get("recursive", ["False"])[0].lower() in ("true", "1")
            prefix = f"{folder}/" if folder else ""
            if folder and folder not in self.folders(found):
                self.refuse(404, "EntryNotFound", f"{folder} does not exist")
                return
            entries = [self.entry(found, path) for path in found.files if path.startswith(prefix)]
            entries += [
                {"type": "directory", "path": path, "oid": blob_id(path.encode()), "size": 0}
                for path in self.folders(found)
                if path.startswith(prefix)
            ]
            wanted = (entry for entry in entries if recursive or "/" not in entry["path"][len(prefix) :])
            self.reply(200, sorted(wanted, key=lambda entry: entry["path"]))

    def paths_info(self, body: bytes, kind: str, repo: str, revision: str) -> None:
        if found := self.at(kind, repo, revision):
            is_json = self.headers.get("Content-Type", "").startswith("application/json")
            paths = json.loads(body)["paths"] if is_json else parse_qs(body.decode())["paths"]
            paths = [paths] if isinstance(paths, str) else paths
            entries = [self.entry(found, path) for path in paths if path in found.files]
            entries += [
                {"type": "directory", "path": path, "oid": blob_id(path.encode()), "size": 0}
                for path in paths
                if path in self.folders(found)
            ]
            self.reply(200, entries)

    def resolve(self, body: bytes, repo: str, revision: str, path: str, kind: str | None = None) -> None:
        found = self.at(kind, repo, revision)
        if found is None:
            return
        if path not in found.files:
            # X-Repo-Commit is told of absent files too, so that a client can remember that they are
            self.reply(
                404, {}, X_Error_Code="EntryNotFound", X_Error_Message="Entry not found", X_Repo_Commit=found.sha
            )
            return
        content = found.files[path]
        etag = f'"{self.entry(found, path).get("lfs", {}).get("oid") or blob_id(content)}"'
        headers = {"ETag": etag, "X_Repo_Commit": found.sha, "Accept_Ranges": "bytes"}
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked:
            start, end = int(asked[1]), min(int(asked[2] or len(content)), len(content) - 1)
            headers["Content_Range"] = f"bytes {start}-{end}/{len(content)}"
            self.reply(206, content[start : end + 1], **headers)
        else:
            self.reply(200, content, **headers)

    def absent(self, body: bytes) -> None:
        self.reply(404)

    def log_message(self, *_: Any) -> None:
        pass


SLUG = r"(?P<slug>[\w.-]+/[\w.-]+)"
KIND = r"(?P<kind>models|datasets|spaces)"
ROUTES = [
    (r"/api/whoami-v2", ("GET",), Handler.who_am_i),
    (r"/api/agent-harnesses", ("GET",), Handler.absent),
    (r"/api/repos/create", ("POST",), Handler.create),
    (r"/api/validate-yaml", ("POST",), Handler.validate_yaml),
    (rf"/api/{KIND}/{REPO}/preupload/(?P<revision>[^/]+)", ("POST",), Handler.preupload),
    (rf"/(?:(?P<kind>datasets|spaces)/)?{REPO}\.git/info/lfs/objects/batch", ("POST",), Handler.batch),
    (r"/objects/(?P<oid>[0-9a-f]{64})", ("PUT",), Handler.put),
    (r"/objects/(?P<oid>[0-9a-f]{64})", ("POST",), Handler.verified),
    (rf"/api/{KIND}/{REPO}/commit/(?P<revision>[^/]+)", ("POST",), Handler.commit),
    (rf"/api/{KIND}/{REPO}/tree/(?P<revision>[^/]+)(?:/(?P<folder>.+))?", ("GET",), Handler.tree),
    (rf"/api/{KIND}/{REPO}/paths-info/(?P<revision>[^/]+)", ("POST",), Handler.paths_info),
    (rf"/api/{KIND}/{REPO}/tag/(?P<revision>[^/]+)", ("POST",), Handler.tag),
    (rf"/api/{KIND}/{REPO}/refs", ("GET",), Handler.refs),
    (r"/api/collections", ("POST",), Handler.collect),
    (rf"/api/collections/{SLUG}", ("GET",), Handler.collection),
    (rf"/api/collections/{SLUG}/items", ("POST",), Handler.add_item),
    (rf"/api/{KIND}/{REPO}(?:/revision/(?P<revision>[^/]+))?", ("GET",), Handler.info),
    (
        rf"/(?:(?P<kind>datasets|spaces)/)?{REPO}/resolve/(?P<revision>[^/]+)/(?P<path>.+)",
        ("GET", "HEAD"),
        Handler.resolve,
    ),
]


@contextmanager
def fake_hub() -> Iterator[FakeHub]:
    server = FakeHub()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def api(hub: FakeHub, token: str = "hf_writer") -> HfApi:
    return HfApi(endpoint=hub.endpoint, token=token)


def command(hub: FakeHub, home: Path, *words: str, token: str | None = "hf_writer") -> subprocess.CompletedProcess:
    variables = {**hub.environment(home, token), "PYTHONPATH": str(Path(hf_sysgen.__file__).parents[1])}
    script = [sys.executable, "-W", "error", "-W", CLIENT_WARNING, "-m", "hf_sysgen.cli", "publish", *words]
    return subprocess.run(script, capture_output=True, text=True, env=variables)
