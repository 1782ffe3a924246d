"""The metadata of an index in a folder: which photo has which row, in SQLite.

Files beside it are written first and named here in the same transaction as the photos that they
belong to, so that a crash leaves the old version or the new one. Readers see the version that was
the latest when they began.
"""

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from solar.errors import SolarError
from solar.files import LOCK, full_disk, locked, regular, unwritable
from solar.storage.catalogue_view import DamageError, Version, View
from solar.storage.protocol import NoIndexError
from solar.storage.types import DescriptorSpec

T = TypeVar("T")

FILE = "catalogue.sqlite"
FORMAT = 2

_COMPLAINTS = (DamageError, sqlite3.DatabaseError, UnicodeDecodeError)
_LITTLE = 1 << 20  # bytes, less than SQLite may need at once
_PATIENCE = 60.0  # seconds to wait for another process that recovers or checkpoints

_SCHEMA = """
CREATE TABLE facts (
    name TEXT PRIMARY KEY, value TEXT NOT NULL, sum INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE photos (
    row INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE,
    width INTEGER NOT NULL, height INTEGER NOT NULL, taken TEXT
);
CREATE INDEX photos_by_time ON photos (taken) WHERE taken IS NOT NULL;
CREATE TABLE tags (
    tag TEXT NOT NULL,
    row INTEGER NOT NULL REFERENCES photos ON DELETE CASCADE ON UPDATE CASCADE,
    PRIMARY KEY (tag, row)
) WITHOUT ROWID;
CREATE INDEX tags_by_row ON tags (row);
CREATE TABLE fields (
    name TEXT NOT NULL, value TEXT NOT NULL, number REAL,
    row INTEGER NOT NULL REFERENCES photos ON DELETE CASCADE ON UPDATE CASCADE,
    PRIMARY KEY (name, value, row)
) WITHOUT ROWID;
CREATE INDEX fields_by_row ON fields (row);
CREATE TABLE removed (row INTEGER PRIMARY KEY);
CREATE TABLE segments (
    first INTEGER PRIMARY KEY, rows INTEGER NOT NULL, sha256 TEXT NOT NULL
);
CREATE TABLE files (
    row INTEGER PRIMARY KEY REFERENCES photos ON DELETE CASCADE ON UPDATE CASCADE,
    bytes INTEGER NOT NULL, modified INTEGER NOT NULL, sha256 TEXT NOT NULL
);
CREATE TABLE sums (
    row INTEGER PRIMARY KEY REFERENCES photos ON DELETE CASCADE ON UPDATE CASCADE,
    sum INTEGER NOT NULL
);
CREATE TABLE places (
    row INTEGER PRIMARY KEY REFERENCES photos ON DELETE CASCADE ON UPDATE CASCADE,
    latitude REAL, longitude REAL, camera TEXT
);
CREATE INDEX places_by_latitude ON places (latitude) WHERE latitude IS NOT NULL;
"""
_KNOWN = frozenset(" ".join(statement.split()) for statement in _SCHEMA.split(";"))
"""The only statements that the schema of a file may contain."""


def is_index(folder: Path) -> bool:
    """Whether a folder is an index, of vectors or of local features."""
    return (folder / FILE).is_file()


class Metadata:
    """The metadata in the folder of an index; every thread and process may have its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._idle: list[sqlite3.Connection] = []

    @contextlib.contextmanager
    def reading(self) -> Iterator[View]:
        """Look at the latest version, which stays the same until the end of the block."""
        # Every search comes here with a cold processor cache: one `with` less gains 1 % of a
        # compressed search.
        try:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._connect(_readable(self._folder))
                connection.execute("PRAGMA query_only = ON")
            try:
                connection.execute("BEGIN")
                yield View(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")  # `rollback()` would parse it every time
                self._idle.append(connection)
        except _COMPLAINTS as error:
            raise _explained(self._folder, error) from error

    @contextlib.contextmanager
    def snapshot(self, load: Callable[[View, Version], T]) -> Iterator[tuple[View, T]]:
        """The latest version, and its files as opened by `load`.

        A SolarError if `load` raises a FileNotFoundError although the version is still the latest.
        """
        missing = None
        while True:
            with self.reading() as view:
                version = view.version()
                try:
                    loaded = load(view, version)
                except FileNotFoundError as error:
                    # A writer may just have replaced the file: then the version has moved on.
                    if missing == version.number:
                        raise SolarError(
                            f"{error.filename} is missing: restore it or build the index again."
                        ) from error
                    missing = version.number
                else:
                    yield view, loaded
                    return

    @contextlib.contextmanager
    def writing(self, *, create: bool = False, wait: bool = False) -> Iterator[View]:
        """Change the metadata: everything in the block becomes true at its end, or nothing.

        A SolarError if the disk is full or read-only, or another process is writing: `wait` for it.
        """
        busy = f"Another process is writing to {self._folder}: try again when it is done."
        try:
            with locked(self._folder / LOCK, None if wait else busy):
                connection = self._connect("mode=rwc" if create else "mode=rw")
                try:
                    connection.execute("PRAGMA journal_mode = WAL")
                    connection.execute("PRAGMA synchronous = FULL")
                    connection.execute("PRAGMA foreign_keys = ON")
                    connection.execute("BEGIN IMMEDIATE")
                    view = View(connection)
                    if create and not view.format():
                        for statement in _SCHEMA.split(";")[:-1]:
                            view.execute(statement)
                        view.execute(f"PRAGMA user_version = {FORMAT}")
                    yield view
                    connection.commit()
                    for action in view.afterwards:
                        action()
                finally:
                    connection.rollback()
                    connection.close()
        except OSError as error:
            raise unwritable(self._folder, error) from error
        except _COMPLAINTS as error:
            raise _explained(self._folder, error) from error

    @cached_property
    def facts(self) -> tuple[DescriptorSpec, str]:
        """How photos were described, and the kind of index, which never change.

        A NoIndexError if there is none, a SolarError if it is damaged or of another format.
        """
        place = self._folder
        if not place.exists():
            raise NoIndexError(
                f"There is no index {place}: check the path, or make it with `solar index build`."
            )
        if not is_index(place):
            raise NoIndexError(f"{place} is not an index: make one with `solar index build`.")
        regular(place / FILE)
        with self.reading() as view:
            found = view.format()
            if found not in (0, FORMAT):
                raise SolarError(
                    f"{place} has format {found}, and this version of solar reads format {FORMAT}: "
                    "build the index again, or use the version that wrote it."
                )
            view.check_schema(_KNOWN)
            facts = view.facts() if found else None
        if facts is None:
            raise NoIndexError(f"{place} was never finished: run `solar index build` again.")
        return facts

    def close(self) -> None:
        """Close the file."""
        while self._idle:
            self._idle.pop().close()

    def _connect(self, how: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"file:{quote(str((self._folder / FILE).absolute()))}?{how}",
            uri=True,
            timeout=_PATIENCE,
            isolation_level=None,
            check_same_thread=False,  # handed from thread to thread, never shared
        )
        # The file may be untrusted: nothing in it may run, and pages are checked.
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        return connection


def _readable(folder: Path) -> str:
    """The URI parameter that opens the file for reading, also in a read-only folder."""
    if os.access(folder, os.W_OK):
        return "mode=rw"
    return "mode=ro" if (folder / f"{FILE}-wal").exists() else "immutable=1"


def _is_full(folder: Path, error: sqlite3.OperationalError) -> bool:
    """Whether there is no room: SQLite says so of its tables, but not of its log."""
    code = str(getattr(error, "sqlite_errorname", ""))
    failed = code.startswith("SQLITE_IOERR")
    return code == "SQLITE_FULL" or (failed and shutil.disk_usage(folder).free < _LITTLE)


def _explained(folder: Path, error: Exception) -> SolarError:
    if isinstance(error, DamageError):
        what = f"{folder / FILE} is damaged ({error.what}): restore it or build the index again."
    elif isinstance(error, sqlite3.OperationalError):
        if _is_full(folder, error):
            return full_disk(folder)
        what = f"{folder} cannot be used: {error}."
    else:
        what = f"{folder / FILE} is damaged ({error}): build the index again."
    return SolarError(what)
