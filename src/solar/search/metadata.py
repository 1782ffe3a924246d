"""The metadata of an index in a folder: which photo has which row, in SQLite.

It is the one place where a change becomes true. Files beside it are written first and named here
in the same transaction as the photos they belong to, so that a crash leaves the old version or the
new one. Readers see the version that was the latest when they began.
"""

import contextlib
import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import numpy as np

from solar.errors import SolarError
from solar.files import LOCK, locked, unwritable
from solar.search.engine import DescriptorSpec, NoIndexError, Photo, RowNumbers, Where, is_text

T = TypeVar("T")

FILE = "catalogue.sqlite"
FORMAT = 1
_CODES = "sketch"  # what the file calls the names of codes

_PATIENCE = 60.0  # seconds to wait for another process that recovers or checkpoints

_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
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
CREATE TABLE removed (row INTEGER PRIMARY KEY);
CREATE TABLE blocks (
    first INTEGER PRIMARY KEY, rows INTEGER NOT NULL, sha256 TEXT NOT NULL
);
"""

_CONDITIONS = {
    ("tag", "="): "row IN (SELECT row FROM tags WHERE tag = ?)",
    ("path", "="): "path GLOB ?",
    **{(name, r): f"{name} {r} ?" for name in ("width", "height", "taken") for r in (">=", "<")},
}


@dataclass(frozen=True)
class CodesFile:
    """A file of codes or postings, which covers so many rows."""

    name: str
    rows: int
    sha256: str


@dataclass(frozen=True)
class Version:
    """What one committed version consists of, besides its photos."""

    number: int = 0  # counts commits
    rows: int = 0  # of the vectors file, those of removed photos included
    photos: int = 0  # that can be found
    vectors: str = ""  # name of the vectors file
    codes: tuple[CodesFile, ...] = ()  # which cover the first rows, one after the other

    @property
    def coded_rows(self) -> int:
        """How many rows, from the first, have codes."""
        return sum(part.rows for part in self.codes)


class View:
    """The metadata within one transaction; a view of a reader never changes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.execute = connection.execute
        self.executemany = connection.executemany
        self.afterwards: list[Callable[[], None]] = []
        """What a writer does once its changes are true."""

    def format(self) -> int:
        """The format of the metadata; 0 while no index was finished here."""
        return int(self.execute("PRAGMA user_version").fetchone()[0])

    def facts(self) -> tuple[DescriptorSpec, str] | None:
        """How photos were described, and the kind of index; None if nothing is finished."""
        found = self.execute("SELECT value FROM facts WHERE name = 'made'").fetchone()
        if found is None:
            return None
        facts = json.loads(found[0])
        return DescriptorSpec(**facts["made"]), facts["compress"]

    def version(self) -> Version:
        """The version that this view shows."""
        [value] = self.execute("SELECT value FROM facts WHERE name = 'version'").fetchone()
        facts = json.loads(value)
        codes = tuple(CodesFile(**part) for part in facts.pop(_CODES))
        return Version(**facts, codes=codes)

    def rows(self) -> RowNumbers:
        """The rows of photos, ascending."""
        return self._numbers("SELECT row FROM photos ORDER BY row")

    def removed(self) -> RowNumbers:
        """The rows of removed and replaced photos, ascending."""
        return self._numbers("SELECT row FROM removed ORDER BY row")

    def matching(self, where: Where) -> RowNumbers:
        """The rows of the photos that satisfy every condition, ascending."""
        conditions = " AND ".join(_CONDITIONS[c.field, c.relation] for c in where)
        values = [_starting(c.value) if c.field == "path" else c.value for c in where]
        return self._numbers(f"SELECT row FROM photos WHERE {conditions} ORDER BY row", *values)

    def paths(self, rows: Iterable[int]) -> dict[int, str]:
        """The paths of some rows."""
        found = self.execute(
            "SELECT row, path FROM photos WHERE row IN (SELECT value FROM json_each(?))",
            [json.dumps([int(row) for row in rows])],
        )
        return dict(found)

    def find(self, paths: Sequence[str]) -> list[tuple[int, Photo]]:
        """Rows and photos of those paths that are indexed."""
        known = json.dumps([path for path in paths if is_text(path)], ensure_ascii=False)
        return self._photos("path IN (SELECT value FROM json_each(?))", known)

    def batches(self, photos: int) -> Iterator[list[tuple[int, Photo]]]:
        """All rows and photos, ascending by row, in pieces."""
        last = -1
        while batch := self._photos("row > ? ORDER BY row LIMIT ?", last, photos):
            yield batch
            last = batch[-1][0]

    def blocks(self) -> list[tuple[int, int, str]]:
        """First row, rows and SHA-256 of what was written to the vectors file, ascending."""
        return self.execute("SELECT first, rows, sha256 FROM blocks ORDER BY first").fetchall()

    def problems(self) -> list[str]:
        """What SQLite itself finds wrong with its file."""
        damage = [text for (text,) in self.execute("PRAGMA integrity_check(5)") if text != "ok"]
        strays = self.execute("PRAGMA foreign_key_check").fetchall()
        return damage + ([f"{len(strays)} tags belong to no photo"] if strays else [])

    # Writing

    def begin(self, spec: DescriptorSpec, kind: str) -> None:
        """Make this the metadata of a new index."""
        self._fact("made", {"made": asdict(spec), "compress": kind})

    def set_version(self, version: Version) -> None:
        """Say what the version being written consists of."""
        facts = asdict(version)
        self._fact("version", {_CODES: facts.pop("codes"), **facts})

    def put(self, photos: Sequence[Photo], first: int) -> int:
        """Give photos the rows from `first` on, and say how many were there already.

        A path may occur once in `photos`; a photo that had it before is removed.
        """
        for photo in photos:
            if not is_text(photo.path):
                raise SolarError(f"The name {photo.path!r} is not text: rename the photo.")
        replaced = self.drop([photo.path for photo in photos])
        rows = list(enumerate(photos, first))
        self.executemany(
            "INSERT INTO photos (row, path, width, height, taken) VALUES (?, ?, ?, ?, ?)",
            [(row, p.path, p.width, p.height, p.taken) for row, p in rows],
        )
        self.executemany(
            "INSERT OR IGNORE INTO tags (tag, row) VALUES (?, ?)",
            [(tag, row) for row, photo in rows for tag in photo.tags],
        )
        return replaced

    def drop(self, paths: Sequence[str]) -> int:
        """Remove the photos of those paths that are indexed, and say how many those were."""
        rows = [[row] for row, _ in self.find(paths)]
        self.executemany("INSERT INTO removed (row) VALUES (?)", rows)
        self.executemany("DELETE FROM photos WHERE row = ?", rows)
        return len(rows)

    def add_block(self, first: int, rows: int, sha256: str) -> None:
        """Record a stretch that was written to the vectors file at once."""
        self.execute("INSERT INTO blocks VALUES (?, ?, ?)", [first, rows, sha256])

    def renumber(self) -> None:
        """Close the gaps of removed photos: rows count from 0, in the same order."""
        self.execute(
            "CREATE TEMP TABLE moved AS SELECT row AS old, row_number() OVER (ORDER BY row) AS new "
            "FROM photos"
        )
        self.execute("CREATE UNIQUE INDEX temp.moved_by_old ON moved (old)")
        # Over the negative numbers, so that no row meets another on its way.
        self.execute("UPDATE photos SET row = -(SELECT new FROM moved WHERE old = row)")
        self.execute("UPDATE photos SET row = -row - 1")
        self.execute("DROP TABLE temp.moved")
        self.execute("DELETE FROM removed")
        self.execute("DELETE FROM blocks")

    def _fact(self, name: str, value: object) -> None:
        self.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", [name, json.dumps(value)])

    def _numbers(self, sql: str, *values: str | int) -> RowNumbers:
        return np.fromiter((row for (row,) in self.execute(sql, values)), np.int64)

    def _photos(self, condition: str, *values: str | int) -> list[tuple[int, Photo]]:
        found = self.execute(
            "SELECT row, path, width, height, taken, "
            "(SELECT json_group_array(tag) FROM tags WHERE tags.row = photos.row) "
            f"FROM photos WHERE {condition}",
            values,
        )
        return [
            (row, Photo(path, width, height, tuple(json.loads(tags)), taken))
            for row, path, width, height, taken, tags in found
        ]


class Metadata:
    """The metadata in the folder of an index; every thread and process may have its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._idle: list[sqlite3.Connection] = []

    @contextlib.contextmanager
    def reading(self) -> Iterator[View]:
        """Look at the latest version, which stays the same until the end of the block."""
        with _explained(self._folder):
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._connect(_readable(self._folder))
                connection.execute("PRAGMA query_only = ON")
            try:
                connection.execute("BEGIN")
                yield View(connection)
            finally:
                connection.rollback()
                self._idle.append(connection)

    @contextlib.contextmanager
    def snapshot(self, load: Callable[[View, Version], T]) -> Iterator[tuple[View, T]]:
        """The latest version, and what `load` makes of the files that it names.

        Where one is missing, `load` raises FileNotFoundError, and this a SolarError.
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
    def writing(self, *, create: bool = False) -> Iterator[View]:
        """Change the metadata: everything in the block becomes true at its end, or nothing.

        A SolarError if another writer is at work, or the disk is full or read-only.
        """
        busy = f"Another process is writing to {self._folder}: try again when it is done."
        with _explained(self._folder), locked(self._folder / LOCK, busy):
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
            except OSError as error:
                raise unwritable(self._folder, error) from error
            finally:
                connection.rollback()
                connection.close()

    @cached_property
    def facts(self) -> tuple[DescriptorSpec, str]:
        """How photos were described, and the kind of index, which never change.

        A SolarError if there is no index, or it is unfinished, damaged or too new.
        """
        place = self._folder
        if not (place / FILE).is_file():
            raise NoIndexError(f"{place} is not an index: make one with `solar index build`.")
        with self.reading() as view:
            found = view.format()
            if found > FORMAT:
                raise SolarError(f"{place} was written by a newer version of solar: upgrade solar.")
            facts = view.facts() if found else None
        if facts is None:
            raise NoIndexError(f"{place} was never finished: run `solar index build` again.")
        return facts

    def close(self) -> None:
        """Let go of the file."""
        while self._idle:
            self._idle.pop().close()

    def _connect(self, how: str) -> sqlite3.Connection:
        return sqlite3.connect(
            f"file:{quote(str((self._folder / FILE).absolute()))}?{how}",
            uri=True,
            timeout=_PATIENCE,
            isolation_level=None,
            check_same_thread=False,  # handed from thread to thread, never shared
        )


def _readable(folder: Path) -> str:
    """How to open the file for reading, also in a folder where nothing can be written."""
    if os.access(folder, os.W_OK):
        return "mode=rw"
    return "mode=ro" if (folder / f"{FILE}-wal").exists() else "immutable=1"


@contextlib.contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Turn what SQLite and the disk complain about into a sentence."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise SolarError(f"{folder} cannot be used: {error}.") from error
    except sqlite3.DatabaseError as error:
        raise SolarError(f"{folder / FILE} is damaged ({error}): build the index again.") from error


def _starting(path: str | int) -> str:
    return re.sub(r"([*?[])", r"[\1]", str(path)) + "*"
