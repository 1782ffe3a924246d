"""A report that somebody may write again while the app runs."""

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from solar.errors import SolarError
from solar.web.problems import WebError

R = TypeVar("R")


class ReportFile(Generic[R]):
    """The report at `path`, read again when the file has changed; no report for None.

    A SolarError if it cannot be read. One that is damaged later is not taken up.

    Args:
        path: Where it is.
        read: Reads it.
        missing: What visitors are told where there is none.
    """

    def __init__(self, path: str | Path | None, read: Callable[[Path], R], missing: str) -> None:
        self._path = None if path is None else Path(path)
        self._read, self._missing = read, missing
        self._lock = threading.Lock()
        self._stamp = self._now()
        self._report = read(self._path) if self._path else None

    def __bool__(self) -> bool:
        return self._path is not None

    def current(self) -> R:
        """The report as it is now; a WebError where there is none."""
        if self._report is None or self._path is None:
            raise WebError(404, self._missing)
        with self._lock:
            now = self._now()
            if now != self._stamp:
                self._stamp = now
                with suppress(SolarError):  # half copied, perhaps: the old one stays until then
                    self._report = self._read(self._path)
            return self._report

    def _now(self) -> tuple[int, ...]:
        try:
            found = self._path.stat() if self._path else None
        except OSError:
            found = None
        return () if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)
