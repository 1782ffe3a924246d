"""A client of the web app: use `solar serve` from another program or machine.

The server describes its API, and so the types of all answers, in `/api/v1/openapi.json`.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib import error, parse, request

from solar import __version__
from solar.errors import SolarError

if TYPE_CHECKING:
    from solar.storage.types import Hit

_PAGE = 200  # maximum hits per request
_REMOVED = 1000  # maximum photos per request
_ATTEMPTS, _PATIENCE = 3, 30.0
_MOST = 1 << 28  # maximum bytes of an answer


class _NoRedirects(request.HTTPRedirectHandler):
    """Another server must not learn the token, and this one has no need of redirects."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = request.build_opener(_NoRedirects)


ServerPhoto: TypeAlias = dict[str, Any]
"""A photo on the server, with its `id` and `name`; `PhotoInfo` in the server's description."""


class Client:
    """A connection to one server.

    Args:
        address: The address of its page, such as `http://127.0.0.1:8000` or
            `https://example.org/photos`.
        token: The access token, if the server requires one.
        timeout: Seconds to wait for an answer.
        index: The name of an index, if the server has several. Default: the first. The address of
            its page, `http://127.0.0.1:8000/indexes/NAME`, has the same effect.

    Every method raises a SolarError with one sentence if the server cannot be reached, rejects the
    request, or is not a solar server.
    """

    def __init__(
        self,
        address: str,
        token: str | None = None,
        timeout: float = 60.0,
        *,
        index: str | None = None,
    ) -> None:
        try:
            parts = parse.urlsplit(address)
            valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:  # a port that is no number, a bracket that is never closed
            valid = False
        if not valid:
            raise SolarError(f"{address} is not the address of a server: write http://host:8000.")
        path = parts.path.rstrip("/")
        if index is not None:
            path += f"/indexes/{parse.quote(index, safe='')}"
        self.address = parse.urlunsplit((parts.scheme, parts.netloc, path, "", ""))
        self._token, self._timeout = token, timeout

    def info(self) -> dict[str, Any]:
        """The collection's name and size, the models, and what visitors may do."""
        return self._ask("info", None, "photos")

    def indexes(self) -> list[str]:
        """The names of all indexes of the server, if it has several."""
        return [one["name"] for one in self._ask("info", None, "indexes")["indexes"]]

    def photos(
        self,
        offset: int = 0,
        limit: int = 50,
        *,
        label: str | None = None,
        search: str = "",
        name: str | None = None,
    ) -> dict[str, Any]:
        """A page of the collection: with a label, a text in their names, or exactly this `name`."""
        wanted = {"label": label, "search": search or None, "name": name}
        wanted = {key: value for key, value in wanted.items() if value is not None}
        given = parse.urlencode({"offset": offset, "limit": limit, **wanted})
        return self._ask(f"photos?{given}", None, "photos")

    def photo(self, id: str) -> ServerPhoto:
        """All details of a photo, with the size of its file and the address of the original."""
        return self._ask(f"photos/{parse.quote(id, safe='')}", None, "original")

    def upload(self, photo: str | Path | bytes) -> ServerPhoto:
        """Upload a photo to search with; the server keeps it in memory for a while."""
        return self._send("queries", "photo", [photo], "id")

    def search(
        self,
        photo: str | Path | bytes | ServerPhoto | Hit | None = None,
        k: int = 10,
        *,
        text: str | None = None,
        box: Sequence[float] | None = None,
        **options: Any,
    ) -> list[Hit]:
        """Search with a photo, a part of it, or a text.

        Args:
            photo: A file or its content, which is uploaded, or a photo or hit from the server.
            k: Number of results.
            text: What the photos show, in words.
            box: The part of the photo to search with: x1, y1, x2, y2 in pixels of the upright
                photo.
            **options: Further fields of the request: `rerank`, `filter`, `sort`, `like`, `unlike`,
                `model`, `include_self`; `filter={"where": ["tag=night"]}` takes conditions.

        Returns:
            Hits as of `solar.Index.search`, with details in `photo`; the other methods accept them.
        """
        if k < 1:
            raise SolarError(f"k must be 1 or more, not {k}.")
        known = self.upload(photo) if isinstance(photo, str | Path | bytes) else photo
        wanted = {
            "photo": None if known is None else _id(known),
            "text": text,
            "box": None if box is None else [float(edge) for edge in box],
        }
        asked = {key: value for key, value in wanted.items() if value is not None} | options
        hits: list[Hit] = []
        while len(hits) < k:
            piece = {"k": min(_PAGE, k - len(hits)), "offset": len(hits)}
            found = self._ask("search", asked | piece, "hits", "more")
            hits += map(_hit, found["hits"])
            if not found["more"] or not found["hits"]:
                break
        return hits

    def facets(self, search: str = "") -> dict[str, Any]:
        """Folders, tags, roots and times to filter by; only those with a text in their names."""
        return self._ask(f"facets?search={parse.quote(search)}", None, "folders", "tags")

    def remove(self, photos: Sequence[ServerPhoto | Hit]) -> int:
        """Remove photos from the index, a thousand at a time, if the server allows it; how many."""
        removed = 0
        for start in range(0, len(photos), _REMOVED):
            wanted = [_id(photo) for photo in photos[start : start + _REMOVED]]
            removed += self._ask("photos/remove", {"photos": wanted}, "removed")["removed"]
        return removed

    def match(self, a: ServerPhoto | Hit, b: ServerPhoto | Hit) -> dict[str, Any]:
        """Match the keypoints of two photos: `inliers` are x, y in `a` and x, y in `b`."""
        return self._ask("matches", {"a": _id(a), "b": _id(b)}, "inliers", "same_scene")

    def picture(self, photo: ServerPhoto | Hit, *, large: bool = False) -> bytes:
        """A photo as a JPEG: a thumbnail, or up to 1,600 pixels on its longest side."""
        return self._picture(photo, "photo" if large else "thumbnail")

    def original(self, photo: ServerPhoto | Hit) -> bytes:
        """A photo at full size: its file if the server allows downloads, otherwise a JPEG."""
        return self._picture(photo, "original")

    def add(self, photos: Sequence[str | Path]) -> Iterator[dict[str, Any]]:
        """Add photos to the collection, if the server allows it; yields the progress."""
        return self._followed(self._send("photos", "photos", photos, "job")["job"])

    def sync(self) -> Iterator[dict[str, Any]]:
        """Update the collection from its folders, if the server allows it; yields the progress."""
        return self._followed(self._ask("sync", {}, "job")["job"])

    def _picture(self, photo: ServerPhoto | Hit, kind: str) -> bytes:
        identity = parse.quote(_id(photo), safe="")
        return self._bytes(f"{self.address}/api/v1/photos/{identity}/{kind}")

    def _followed(self, job: str) -> Iterator[dict[str, Any]]:
        while True:
            told = self._ask(f"jobs/{parse.quote(job)}", None, "state")
            yield told
            if told["state"] != "running":
                return
            time.sleep(0.5)  # the server offers nothing to wait for

    def _send(
        self, path: str, field: str, photos: Sequence[str | Path | bytes], *expected: str
    ) -> dict[str, Any]:
        boundary = secrets.token_hex(16)
        body = b""
        for photo in photos:
            name, content = _read(photo)
            heading = f'form-data; name="{field}"; filename="{_quoted(name)}"'
            start = f"--{boundary}\r\nContent-Disposition: {heading}\r\n\r\n"
            body += start.encode("utf-8", "replace")
            body += content + b"\r\n"
        body += f"--{boundary}--\r\n".encode()
        return self._json(path, body, f"multipart/form-data; boundary={boundary}", expected)

    def _ask(self, path: str, sent: Mapping[str, Any] | None, *expected: str) -> dict[str, Any]:
        body = None if sent is None else json.dumps(sent).encode()
        return self._json(path, body, "application/json", expected)

    def _json(
        self, path: str, body: bytes | None, kind: str, expected: Sequence[str]
    ) -> dict[str, Any]:
        answer = self._bytes(f"{self.address}/api/v1/{path}", body, kind)
        try:
            found = json.loads(answer)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or not set(expected) <= found.keys():
            raise SolarError(f"{self.address} is not a solar server, or runs another version.")
        return found

    def _bytes(self, url: str, body: bytes | None = None, kind: str = "") -> bytes:
        """The answer to a GET, or with a body to a POST."""
        headers = {"User-Agent": f"solar/{__version__}", "Accept": "application/json, image/jpeg"}
        if body is not None:
            headers["Content-Type"] = kind
        if self._token is not None:
            # A header holds bytes; a token may hold any letters.
            headers["Authorization"] = f"Bearer {self._token}".encode().decode("latin-1")
        asked = request.Request(url, body, headers)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with _OPENER.open(asked, timeout=self._timeout) as answer:
                    content = cast("bytes", answer.read(_MOST))
                    if answer.length or answer.read(1):  # announced and not sent, or too much
                        raise HTTPException("its answer is cut off, or too long")
                return content
            except error.HTTPError as problem:
                with problem:
                    given = problem.headers.get("Retry-After") or ""
                    wait = float(given) if given.isdecimal() else 0.0  # it may be a date
                    if attempt == _ATTEMPTS or not 0 < wait <= _PATIENCE:
                        raise SolarError(self._refusal(problem)) from problem
                time.sleep(wait)
            except (OSError, ValueError, HTTPException) as problem:
                reason = getattr(problem, "reason", problem)
                raise SolarError(
                    f"{self.address} does not answer ({reason}): is the server running?"
                ) from problem
        raise AssertionError("the last attempt returns or raises")

    def _refusal(self, problem: error.HTTPError) -> str:
        try:
            said = json.loads(problem.read())["error"]
        except (ValueError, KeyError, TypeError, OSError, HTTPException):
            said = f"{problem.code} {problem.reason}"
        if problem.code == 401:
            said = "it needs a token: set SOLAR_TOKEN, or give the client one."
        return f"{self.address} refuses: {said}"


def _id(photo: ServerPhoto | Hit) -> str:
    if isinstance(photo, dict):
        return str(photo["id"])
    if photo.id is None:
        raise SolarError(f"{photo.path} is not a hit of a server: search there first.")
    return photo.id


def _hit(found: dict[str, Any]) -> Hit:
    from solar.storage.types import Hit, Photo

    position = found["position"] and tuple(found["position"])
    facts = {name: found[name] for name in ("width", "height", "taken", "camera", "fields")}
    photo = Photo(found["name"], tags=tuple(found["tags"]), position=position, **facts)
    judged = {name: found[name] for name in ("inliers", "probability", "threshold")}
    return Hit(found["name"], found["score"], photo=photo, id=found["id"], **judged)


def _read(photo: str | Path | bytes) -> tuple[str, bytes]:
    if isinstance(photo, bytes):
        return "photo", photo
    try:
        return Path(photo).name, Path(photo).read_bytes()
    except OSError as problem:
        raise SolarError(f"{photo} cannot be read: {problem.strerror}.") from problem


def _quoted(name: str) -> str:
    """A file's name inside a multipart heading, as browsers write it."""
    for letter in '"\r\n':
        name = name.replace(letter, parse.quote(letter))
    return name
