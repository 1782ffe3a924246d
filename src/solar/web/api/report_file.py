"""A report of groups that may be written again while the app runs."""

import json
import threading
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

from solar.errors import SolarError
from solar.files import reading
from solar.index.report_file import Report, ReportGroup
from solar.web.problems import WebError

G = TypeVar("G", bound=ReportGroup)
T = TypeVar("T")
P = TypeVar("P")


Addresses = Callable[[Sequence[str]], list[dict[str, str]]]
"""Takes names of photos to their ids and pictures; nothing for those that are not indexed."""


def addressed(make: Callable[..., P], photos: Sequence[Any], addresses: Addresses) -> list[P]:
    """Photos of a group with their addresses, which `make` takes beside their own fields."""
    known = addresses([photo.name for photo in photos])
    return [make(**vars(photo), **where) for photo, where in zip(photos, known, strict=True)]


class OpenReport(Generic[G, T]):
    """A report in memory, its groups compressed: about 200 bytes per pair.

    Attributes:
        photos: How many photos were compared.
        heads: What `head` says of each group.
    """

    def __init__(self, path: Path, report: type[Report[G]], head: Callable[[G], T]) -> None:
        self._report = report
        opened = report.read(path)
        self.photos, self.heads = opened.photos, list[T]()
        self._packed: list[bytes] = []
        with reading(path, report.wrong(), ValueError):
            for group in opened:
                self._packed.append(zlib.compress(json.dumps(group.to_dict()).encode()))
                self.heads.append(head(group))

    def group(self, number: int) -> G:
        """A group by its number in the report."""
        group: G = self._report.group(json.loads(zlib.decompress(self._packed[number])))
        return group


class ReportFile(Generic[G, T]):
    """The report at `path`, read again when the file has changed; no report for None.

    A SolarError if it cannot be read. One that is damaged later is not taken up.

    Args:
        path: Where it is.
        report: Which kind of report.
        head: What to keep of every group uncompressed; a ValueError if it cannot be shown.
        missing: What visitors are told where there is none.
    """

    def __init__(
        self,
        path: str | Path | None,
        report: type[Report[G]],
        head: Callable[[G], T],
        missing: str,
    ) -> None:
        self._path = None if path is None else Path(path)
        self._kind, self._head, self._missing = report, head, missing
        self._lock = threading.Lock()
        self._stamp = self._now()
        self._report = OpenReport(self._path, report, head) if self._path else None

    def __bool__(self) -> bool:
        return self._path is not None

    def current(self) -> OpenReport[G, T]:
        """The report as it is now; a WebError where there is none."""
        if self._report is None or self._path is None:
            raise WebError(404, self._missing)
        with self._lock:
            now = self._now()
            if now != self._stamp:
                self._stamp = now
                with suppress(SolarError):  # half copied, perhaps: the old one stays until then
                    self._report = OpenReport(self._path, self._kind, self._head)
            return self._report

    def _now(self) -> tuple[int, ...]:
        try:
            found = self._path.stat() if self._path else None
        except OSError:
            found = None
        return () if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)
