"""The report of a job beside the index, served page by page: of duplicates, or of albums.

A photo of a report that the collection does not have is named and has no picture.
"""

import json
import threading
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from solar.errors import SolarError
from solar.files import reading
from solar.index.report_file import Report, ReportGroup
from solar.web.problems import WebError

G = TypeVar("G", bound=ReportGroup)
P = TypeVar("P")

Addresses = Callable[[Sequence[str]], list[dict[str, str]]]
"""Takes names of photos to their ids and pictures; nothing for those that are not indexed."""


class Entry(NamedTuple):
    """A group in memory."""

    id: str
    facts: Any  # its kind, or number of photos and name
    packed: bytes  # about 200 bytes per pair


class OpenReport(NamedTuple):
    """A report in memory."""

    photos: int
    entries: list[Entry]


class ReportFile(Generic[G]):
    """A report, read again when its file has changed, unless it is damaged then; none for None."""

    kind: type[Report[G]]
    missing: ClassVar[str]

    def __init__(
        self, path: str | Path | None, addresses: Addresses, count: Callable[[], int]
    ) -> None:
        self._path = None if path is None else Path(path)
        self._addresses, self._count = addresses, count
        self._lock = threading.Lock()
        self._stamp = self._now()
        self._report = self._read(self._path) if self._path else None

    def __bool__(self) -> bool:
        return self._path is not None

    def _head(self, group: G) -> tuple[str, Any]:
        raise NotImplementedError

    def _read(self, path: Path) -> OpenReport:
        report, entries = self.kind.read(path), []
        with reading(path, self.kind.wrong(), ValueError):
            for group in report:
                packed = zlib.compress(json.dumps(group.to_dict()).encode())
                entries.append(Entry(*self._head(group), packed))
        return OpenReport(report.photos, entries)

    def _current(self) -> OpenReport:
        if self._report is None or self._path is None:
            raise WebError(404, self.missing)
        with self._lock:
            now = self._now()
            if now != self._stamp:
                self._stamp = now
                with suppress(SolarError):  # half copied, perhaps: the old one stays until then
                    self._report = self._read(self._path)
            return self._report

    def _now(self) -> tuple[int, ...]:
        with suppress(OSError):
            if self._path:
                found = self._path.stat()
                return found.st_mtime_ns, found.st_size, found.st_ino
        return ()

    def _group(self, entry: Entry) -> G:
        group: G = self.kind.group(json.loads(zlib.decompress(entry.packed)))
        return group

    def _addressed(self, make: Callable[..., P], photos: Sequence[Any]) -> list[P]:
        """Photos of a group with their addresses, which `make` takes beside their own fields."""
        known = self._addresses([photo.name for photo in photos])
        return [make(**vars(photo), **where) for photo, where in zip(photos, known, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Addressed:
    """A photo that the collection has, or null where it does not."""

    id: str | None = None
    thumbnail: str | None = None
    photo: str | None = None
