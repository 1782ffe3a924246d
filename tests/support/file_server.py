"""A real web server on this machine that serves files well or badly, for tests of downloads."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from support.http_thread import Quiet, answering


@dataclass
class Answer:
    """How one path is answered."""

    content: bytes = b""
    status: int = 200
    redirect: str = ""
    ranges: bool = True
    """Whether a Range request gets a part (206), or the whole file all the same (200)."""
    version: str = '"one"'
    """The ETag; a Range request made for another one gets the whole file."""
    heeds: bool = True
    """Whether it looks at the version that a Range request is made for."""
    cap: int | None = None
    """The most bytes of a part that are sent, and announced."""
    headers: dict[str, str] = field(default_factory=dict)
    """Further ones; "ETag": "" leaves it out."""
    framing: str = "length"
    """How the end of the body is known: "length", "chunked", or "close" of the connection."""
    content_type: str = "application/octet-stream"
    length: int | None = None
    """A Content-Length that is a lie."""
    sends: list[int] = field(default_factory=list)
    """Bytes of the body sent to the first, second, … request before the connection drops."""
    dribbles: float = 0
    """Seconds before each two bytes of the body."""
    hold: threading.Event | None = None
    """Instead of dropping it, keep the connection open until this is set."""


@dataclass
class FileServer:
    """What a test sees of the server."""

    base: str
    answers: dict[str, Answer] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    asked: threading.Event = field(default_factory=threading.Event)

    def add(self, name: str, content: bytes = b"", **behaviour: object) -> str:
        """Serve something under a name; returns its address."""
        self.answers[f"/{name}"] = Answer(content, **behaviour)  # type: ignore[arg-type]
        return f"{self.base}/{name}"

    def ranges(self) -> list[str | None]:
        """The Range header of every request so far."""
        return [headers.get("range") for _, headers in self.requests]


@contextmanager
def serve() -> Iterator[FileServer]:
    """Run the server on a free port until the block ends."""
    state = FileServer("")

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
            state.asked.set()
            reply(self, state.answers.get(self.path, Answer(status=404)))

    with answering(Handler) as state.base:
        try:
            yield state
        finally:
            for answer in state.answers.values():
                if answer.hold:
                    answer.hold.set()


def reply(handler: BaseHTTPRequestHandler, answer: Answer) -> None:
    if answer.redirect:
        handler.send_response(302)
        handler.send_header("Location", answer.redirect)
        handler.end_headers()
        if answer.hold:
            answer.hold.wait(20)
        return
    if answer.status != 200:
        handler.send_error(answer.status)
        return
    start = asked_start(handler, answer)
    if start >= len(answer.content) > 0:
        handler.send_error(416)
        return
    body = answer.content[start:][: answer.cap if start else None]
    handler.send_response(206 if start else 200)
    handler.send_header("Content-Type", answer.content_type)
    for name, value in {"ETag": answer.version, **answer.headers}.items():
        if value:
            handler.send_header(name, value)
    if answer.framing == "length":
        handler.send_header("Content-Length", str(answer.length or len(body)))
    elif answer.framing == "chunked":
        handler.send_header("Transfer-Encoding", "chunked")
        body = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
    if start:
        last, size = start + len(body) - 1, len(answer.content)
        handler.send_header("Content-Range", f"bytes {start}-{last}/{size}")
    handler.end_headers()
    sent = answer.sends.pop(0) if answer.sends else len(body)
    pieces = [body[:sent]]
    if answer.dribbles:
        pieces = [body[first : first + 2] for first in range(0, sent, 2)]
    with suppress(ConnectionError):  # who asked may have had enough of it
        for piece in pieces:
            time.sleep(answer.dribbles)
            handler.wfile.write(piece)
    if answer.hold and sent < len(body):
        handler.wfile.flush()
        answer.hold.wait(20)


def asked_start(handler: BaseHTTPRequestHandler, answer: Answer) -> int:
    asked = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
    wanted = handler.headers.get("If-Range", answer.version)
    same = wanted == answer.version or not answer.heeds
    return int(asked[1]) if asked and answer.ranges and same else 0
