"""Values that took long to compute, kept for the next run: one SQLite file for each kind of work.

Neighbours of photos, decided and matched pairs, small pictures and local features are kept so. The
name of a file has a digest of all that its values depend on: other settings are another file. What
`put` has stored survives a kill, and a value that is not what was stored counts as missing. A file
may be deleted at any time.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

from solar.errors import SolarError
from solar.files import make_folder, regular, unwritable

Key: TypeAlias = int | str | bytes

_TABLE = "CREATE TABLE kept(key NOT NULL UNIQUE, sum INTEGER NOT NULL, value BLOB NOT NULL)"
_PATIENCE = 60.0  # seconds to wait for another process that writes
_SOME = 1024  # values in memory at a time


class Records:
    """The values in a file, by their keys, for several threads and processes.

    Every method raises a SolarError if the file is damaged or cannot be read, or the disk is full.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.Lock()
        self._opened: tuple[int, sqlite3.Connection] | None = None

    def close(self) -> None:
        """Close the file, which the next use opens again."""
        if self._opened is not None:
            self._opened[1].close()
        self._opened = None

    __del__ = close

    def get(self, key: Key) -> bytes | None:
        """A value, if it is there."""
        return next((value for _, value in self._values("key = ?", key)), None)

    def every(self) -> Iterator[tuple[Any, bytes]]:
        """All keys and values, the oldest first."""
        first, last = 0, self._rows("SELECT MAX(rowid) FROM kept")
        while last and last[0][0] is not None and first <= last[0][0]:
            yield from self._values("rowid BETWEEN ? AND ?", first, first + _SOME - 1)
            first += _SOME

    def put(self, values: Iterable[tuple[Key, bytes]]) -> None:
        """Store values, all or none, in place of older ones of the same keys."""
        rows = [(key, zlib.crc32(value), value) for key, value in values]
        with self._using(write=True) as connection, connection:
            connection.executemany("REPLACE INTO kept VALUES (?, ?, ?)", rows)

    def blocks(
        self, count: int, more: Callable[[int], Iterator[tuple[bytes, bool]]]
    ) -> Iterator[bytes]:
        """The values of the keys 0, 1, …; `more` yields those from a missing one on.

        With each it says whether it is final; the others are not stored, but computed again by
        another run.
        """
        fresh = None
        for number in range(count):
            value = self.get(number)
            if value is None:
                fresh = fresh or more(number)
                value, final = next(fresh)
                if final:
                    self.put([(number, value)])
            else:
                fresh = None
            yield value

    def size(self) -> tuple[int, int]:
        """How many values there are, and their bytes."""
        rows = self._rows("SELECT COUNT(*), COALESCE(SUM(LENGTH(value)), 0) FROM kept")
        return rows[0] if rows else (0, 0)

    def keep(self, keys: Iterable[Key]) -> None:
        """Delete all values but those of these keys."""
        gone = {key for (key,) in self._rows("SELECT key FROM kept")} - set(keys)
        if gone:
            with self._using(write=True) as connection, connection:
                connection.executemany("DELETE FROM kept WHERE key = ?", [(key,) for key in gone])

    def _values(self, which: str, *given: Key) -> list[tuple[Any, bytes]]:
        """Keys and values, if these are what was stored."""
        found = self._rows(
            f"SELECT sum, key, value FROM kept WHERE typeof(value) = 'blob' AND {which}", *given
        )
        return [(key, value) for known, key, value in found if zlib.crc32(value) == known]

    def _rows(self, text: str, *given: Key) -> list[Any]:
        with self._using() as connection:
            return [] if connection is None else connection.execute(text, given).fetchall()

    @contextmanager
    def _using(self, *, write: bool = False) -> Iterator[Any]:
        """The connection; None if there is nothing to read."""
        with self._lock:
            try:
                yield self._connection(write=write)
            except sqlite3.OperationalError as error:
                raise SolarError(f"{self.file} cannot be used: {error}.") from error
            except sqlite3.DatabaseError as error:
                raise SolarError(
                    f"{self.file} is damaged ({error}): delete it, and what it held is made again."
                ) from error
            except OSError as error:
                raise unwritable(self.file, error) from error

    def _connection(self, *, write: bool) -> sqlite3.Connection | None:
        try:
            found = regular(self.file).stat().st_ino
        except (FileNotFoundError, NotADirectoryError):
            found = None
        if self._opened is not None and self._opened[0] == found:
            return self._opened[1]
        self.close()  # it was deleted, or is another file
        if found is None and not write:
            return None
        make_folder(self.file.parent)
        name = quote(str(self.file.absolute()))
        writable = os.access(self.file.parent, os.W_OK)
        how = "mode=rwc" if writable else "immutable=1"
        connection = sqlite3.connect(  # one thread at a time has it
            f"file:{name}?{how}", uri=True, timeout=_PATIENCE, check_same_thread=False
        )
        # It may come with an untrusted index: nothing in it may run, and pages are checked.
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA synchronous = NORMAL")
        if writable:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(_TABLE.replace("TABLE", "TABLE IF NOT EXISTS"))
        schema = connection.execute("SELECT sql FROM sqlite_master WHERE sql NOTNULL").fetchall()
        if schema != [(_TABLE,)]:
            raise sqlite3.DatabaseError("it holds other tables")
        self._opened = self.file.stat().st_ino, connection
        return connection
