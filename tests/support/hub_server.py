"""A server on this machine that speaks as much of the model hub's protocol as its client uses.

Repository, tree and file, small and large files, resumed requests. It keeps everything in memory.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import unquote, urlsplit

from support.http_thread import Quiet, answering

LARGE = ".safetensors"


@dataclass
class Repository:
    """Files by name, and what is wrong with them."""

    files: dict[str, bytes] = field(default_factory=dict)
    gated: bool = False
    listed_only: set[str] = field(default_factory=set)
    """Files that the tree has but nobody gets."""
    altered: dict[str, bytes] = field(default_factory=dict)
    """What is sent in the place of some files."""
    sends: dict[str, list[int]] = field(default_factory=dict)
    """Bytes of a file sent to the first, second, … request before the connection drops."""

    @property
    def commit(self) -> str:
        listed = sorted((name, hashlib.sha1(held).hexdigest()) for name, held in self.files.items())
        return hashlib.sha1(json.dumps(listed).encode()).hexdigest()


@dataclass
class Hub:
    """What a test sees of the server."""

    address: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    token: str = "hf_drawn"
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)


@contextmanager
def serve() -> Iterator[Hub]:
    """Run the server on a free port until the block ends."""
    hub = Hub()

    class Handler(_Handler):
        state = hub

    with answering(Handler) as hub.address:
        yield hub


def etag(name: str, content: bytes) -> str:
    """The hash that the hub knows a file by."""
    if name.endswith(LARGE):
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class _Handler(Quiet, BaseHTTPRequestHandler):
    state: Hub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._route("GET")

    def do_HEAD(self) -> None:
        self._route("HEAD")

    def _route(self, method: str) -> None:
        path = unquote(urlsplit(self.path).path)
        headers = {key.lower(): value for key, value in self.headers.items()}
        self.state.requests.append((method, path, headers))
        routes = (
            ("GET", r"/api/models/([\w.-]+/[\w.-]+)(?:/revision/(.+))?", self._info),
            ("GET", r"/api/models/([\w.-]+/[\w.-]+)/tree/(.+)", self._tree),
            ("HEAD GET", r"/([\w.-]+/[\w.-]+)/resolve/([^/]+)/(.+)", self._file),
        )
        for methods, pattern, answer in routes:
            if method in methods.split() and (found := re.fullmatch(pattern, path)):
                answer(*found.groups())
                return
        self._refuse(404, "")

    def _refuse(self, status: int, code: str, **headers: str) -> None:
        self._send(b"", status, **({"X-Error-Code": code} if code else {}), **headers)

    def _send(self, content: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _json(self, value: Any) -> None:
        self._send(json.dumps(value).encode(), **{"Content-Type": "application/json"})

    def _found(self, name: str, revision: str | None) -> Repository | None:
        repository = self.state.repositories.get(name)
        if repository is None:
            self._refuse(401, "RepoNotFound")
        elif revision not in (None, "main", repository.commit):
            self._refuse(404, "RevisionNotFound")
        else:
            return repository
        return None

    def _info(self, name: str, revision: str | None) -> None:
        if repository := self._found(name, revision):
            siblings = [{"rfilename": file} for file in repository.files]
            self._json({"id": name, "sha": repository.commit, "siblings": siblings})

    def _tree(self, name: str, revision: str) -> None:
        if repository := self._found(name, revision):
            self._json([_entry(*item) for item in repository.files.items()])

    def _file(self, name: str, revision: str, file: str) -> None:
        repository = self._found(name, revision)
        if repository is None:
            return
        if repository.gated and self.headers.get("Authorization") is None:
            self._refuse(401, "GatedRepo")
        elif file not in repository.files or file in repository.listed_only:
            self._refuse(404, "EntryNotFound", **{"X-Repo-Commit": repository.commit})
        else:
            self._send_file(repository, file)

    def _send_file(self, repository: Repository, file: str) -> None:
        content = repository.altered.get(file, repository.files[file])
        ranged = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(ranged[1]) if ranged else 0
        body = content[start:]
        self.send_response(206 if ranged else 200)
        self.send_header("ETag", f'"{etag(file, repository.files[file])}"')
        self.send_header("X-Repo-Commit", repository.commit)
        self.send_header("Content-Length", str(len(body)))
        if ranged:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        if self.command == "HEAD":
            return
        drops = repository.sends.get(file)
        sent = drops.pop(0) if drops else len(body)
        self.wfile.write(body[:sent])
        self.close_connection = sent < len(body)


def _entry(name: str, content: bytes) -> dict[str, Any]:
    entry = {"type": "file", "path": name, "size": len(content), "oid": etag("", content)}
    if name.endswith(LARGE):
        digest = etag(name, content)
        entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 134}
    return entry
