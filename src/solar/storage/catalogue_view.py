"""The metadata of an index in a folder as one transaction sees them: questions and changes."""

import contextlib
import json
import re
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np

from solar.arrays import RowNumbers
from solar.errors import SolarError
from solar.files import is_text
from solar.images import Roots, Stamp
from solar.images.exif import ExifFacts
from solar.storage.conditions import Condition, Where
from solar.storage.geo import Area
from solar.storage.own_fields import as_json
from solar.storage.types import Amendment, DescriptorSpec, Photo, Skipped

FILES = re.compile(r"codes/\d+-\d+\.faiss|postings-\d+-\d+\.npy")
"""What a version may name: files of its own folder."""
DIGEST = re.compile(r"[0-9a-f]{64}")
_CONDITIONS = {
    ("tag", "="): "row IN (SELECT row FROM tags WHERE tag = ?)",
    ("path", "="): "path GLOB ?",
    **{(name, r): f"{name} {r} ?" for name in ("width", "height", "taken") for r in (">=", "<")},
}

_Row = tuple[Any, ...]
"""A row and the facts of its photo, in order; its sum is that of this tuple's `repr`."""


@dataclass(frozen=True)
class CodesFile:
    """A file of codes or postings, and how many rows it covers."""

    name: str
    rows: int
    sha256: str


@dataclass(frozen=True)
class Version:
    """One committed version, besides its photos."""

    number: int = 0  # counts commits
    rows: int = 0  # of all segments, with those of removed photos
    photos: int = 0
    codes: tuple[CodesFile, ...] = ()  # they cover the first rows, one after the other

    @property
    def coded_rows(self) -> int:
        """How many rows, from the first, have codes."""
        return sum(part.rows for part in self.codes)


class Segment(NamedTuple):
    """A file of vectors, named by its content."""

    first: int  # the number of its first row
    rows: int
    sha256: str


class View:
    """The metadata within one transaction; a view of a reader never changes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.execute = connection.execute
        self.executemany = connection.executemany
        self.afterwards: list[Callable[[], None]] = []
        """What a writer calls after its commit."""

    def format(self) -> int:
        """The format of the metadata; 0 while no index was finished here."""
        return int(self.execute("PRAGMA user_version").fetchone()[0])

    def facts(self) -> tuple[DescriptorSpec, str] | None:
        """How photos were described, and the kind of index; None if nothing is finished."""
        found = self._read_fact("made")
        if found is None:
            return None
        with parsing():
            facts = json.loads(found)
            return DescriptorSpec(**facts["made"]), str(facts["compress"])

    def roots(self) -> Roots:
        """Where the photos are."""
        with parsing():
            return _roots_of(self._read_fact("roots"))

    def skipped(self) -> dict[str, Skipped]:
        """Files that are left out."""
        with parsing():
            skipped = json.loads(self._read_fact("skipped") or "{}")
            return {name: Skipped(*facts) for name, facts in skipped.items()}

    def unfinished(self) -> bool:
        """Whether a build has still to add photos."""
        with parsing():
            return bool(json.loads(self._read_fact("unfinished") or "false"))

    def stamps(self) -> dict[str, Stamp | None]:
        """What the file of every photo was, by path."""
        found = self.execute(
            "SELECT path, bytes, modified, sha256 FROM photos LEFT JOIN files USING (row)"
        )
        return {path: _stamp_of(stamp) for path, *stamp in found}

    def version(self) -> Version:
        """The version that this view shows."""
        return _version_of(self._read_fact("version"))

    def rows(self) -> RowNumbers:
        """The rows of photos, ascending."""
        return self._numbers("SELECT row FROM photos ORDER BY row")

    def removed(self) -> RowNumbers:
        """The rows of removed and replaced photos, ascending."""
        return self._numbers("SELECT row FROM removed ORDER BY row")

    def matching(self, where: Where) -> RowNumbers:
        """The rows of the photos that satisfy every condition, ascending."""
        areas = [c.value for c in where if isinstance(c.value, Area)]
        with parsing():
            found = [self._within(area) for area in areas]
        plain = [_in_sql(c) for c in where if not isinstance(c.value, Area)]
        if plain:
            conditions = " AND ".join(sql for sql, _ in plain)
            values = [value for _, some in plain for value in some]
            found.append(self._numbers(f"SELECT row FROM photos WHERE {conditions}", *values))
        return reduce(np.intersect1d, found[1:], np.sort(found[0]))

    def where_and_when(self) -> dict[str, Any]:
        """How many photos have a time, a position or a camera, and the ranges of these."""
        count, *times = self.execute(
            "SELECT count(taken), min(taken), max(taken) FROM photos"
        ).fetchone()
        positions, cameras, south, north, west, east = self.execute(
            "SELECT count(latitude), count(camera), min(latitude), max(latitude), "
            "min(longitude), max(longitude) FROM places"
        ).fetchone()
        facts = {"with_time": count, "with_position": positions, "with_camera": cameras}
        facts |= {"taken": times} if count else {}
        facts |= {"latitude": [south, north], "longitude": [west, east]} if positions else {}
        names = self.field_names()
        return facts | ({"fields": names} if names else {})

    def field_names(self) -> list[str]:
        """The names of own fields."""
        return [name for (name,) in self.execute("SELECT DISTINCT name FROM fields ORDER BY name")]

    def has_field(self, name: str) -> bool:
        """Whether a photo has an own field."""
        found = self.execute("SELECT row FROM fields WHERE name = ? LIMIT 1", [name])
        return found.fetchone() is not None

    def _within(self, area: Area) -> RowNumbers:
        """The rows of the photos taken in an area; a SolarError if no photo has a position."""
        found = self.execute(
            "SELECT row, latitude, longitude FROM places WHERE latitude BETWEEN ? AND ?",
            area.latitudes,
        ).fetchall()
        known = "SELECT row FROM places WHERE latitude IS NOT NULL LIMIT 1"
        if not found and self.execute(known).fetchone() is None:
            raise SolarError(
                "No photo of this index has a position: read them from the photos with "
                "`solar index sync --exif`, or add them with `solar index add --metadata FILE`."
            )
        rows = np.array([row for row, *_ in found], np.int64)
        return rows[area.holds([position for _, *position in found])]

    def paths(self, rows: Iterable[int]) -> dict[int, str]:
        """The paths of some rows; a SolarError if one has no photo, or it is damaged."""
        wanted = {int(row) for row in rows}
        found = self._checked("row IN (SELECT value FROM json_each(?))", json.dumps(sorted(wanted)))
        if len(found) != len(wanted):
            raise DamageError("a row without its photo")
        return {row: path for row, path, *_ in found}

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

    def segments(self) -> list[Segment]:
        """The files of vectors, ascending by their first row; a DamageError if a row has none."""
        found = self.execute("SELECT first, rows, sha256 FROM segments ORDER BY first")
        segments = [Segment(*facts) for facts in found]
        ends = [0, *(one.first + one.rows for one in segments)]
        if [one.first for one in segments] != ends[:-1] or not all(
            DIGEST.fullmatch(one.sha256) and one.rows > 0 for one in segments
        ):
            raise DamageError("the list of segments has gaps")
        return segments

    def problems(self) -> list[str]:
        """What is wrong with the metadata, by SQLite's own checks and by the sums."""
        damage = [text for (text,) in self.execute("PRAGMA integrity_check(5)") if text != "ok"]
        strays = self.execute("PRAGMA foreign_key_check").fetchall()
        damage += [f"{len(strays)} facts belong to no photo"] if strays else []
        try:
            version, photos = self.version(), self.rows()
            rows = np.sort(np.concatenate([photos, self.removed()]))
            if len(photos) != version.photos:
                damage.append(f"it has {len(photos)} photos and should have {version.photos}")
            elif not np.array_equal(rows, np.arange(version.rows)):
                damage.append(f"its photos do not match its {version.rows} rows")
            for _ in self.batches(4096):  # compares the sum of every row
                pass
        except DamageError as error:
            damage.append(error.what)
        return damage

    def check_schema(self, known: frozenset[str]) -> None:
        """Refuse a file with other tables, views or triggers: untrusted SQL could run forever."""
        for kind, sql in self.execute("SELECT type, sql FROM sqlite_master"):
            if sql is not None and " ".join(str(sql).split()) not in known:
                raise SolarError(f"The metadata contain a {kind} that solar did not create.")

    # Writing

    def begin(self, spec: DescriptorSpec, kind: str, roots: Roots) -> None:
        """Make this the metadata of a new index, which a build has still to fill."""
        self._fact("made", {"made": asdict(spec), "compress": kind})
        self._fact("roots", roots.stored())
        self._fact("skipped", {})
        self.set_unfinished(True)
        self.set_version(Version())

    def set_unfinished(self, unfinished: bool) -> None:
        """Record whether a build has still to add photos."""
        self._fact("unfinished", unfinished)

    def amend(self, change: Amendment) -> None:
        """Store renamed paths, stamps, EXIF facts, roots and skipped files."""
        rows = {photo.path: row for row, photo in self.find(list(change.renamed))}
        # By way of names that no file has, so that two photos can swap theirs.
        self.executemany(
            "UPDATE photos SET path = char(1) || row WHERE row = ?",
            [[row] for row in rows.values()],
        )
        self.executemany(
            "UPDATE photos SET path = ? WHERE row = ?",
            [(change.renamed[old], row) for old, row in rows.items()],
        )
        known = "path IN (SELECT value FROM json_each(?))"
        self._sum(known, json.dumps(list(change.renamed.values()), ensure_ascii=False))
        self._stamp((row, change.stamps[p.path]) for row, p in self.find(list(change.stamps)))
        self._locate((row, change.facts[p.path]) for row, p in self.find(list(change.facts)))
        self._sum(known, json.dumps([*change.stamps, *change.facts], ensure_ascii=False))
        if change.roots is not None:
            self._fact("roots", change.roots.stored())
        if change.skipped is not None:
            self._fact("skipped", change.skipped)

    def skip(self, skipped: Mapping[str, Skipped]) -> None:
        """Store more files that are left out."""
        self._fact("skipped", self.skipped() | dict(skipped))

    def set_version(self, version: Version) -> None:
        """Record the version being written."""
        self._fact("version", asdict(version))

    def put(self, photos: Sequence[Photo], first: int) -> int:
        """Give photos the rows from `first` on; returns how many photos they replace.

        A path may occur once in `photos`.
        """
        for photo in photos:
            if not is_text(photo.path):
                raise SolarError(f"The name {photo.path!r} is not valid UTF-8: rename the photo.")
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
        self.executemany(
            "INSERT INTO fields VALUES (?, ?, ?, ?)",
            [
                (name, as_json(value), None if isinstance(value, str | bool) else value, row)
                for row, photo in rows
                for name, value in photo.fields.items()
            ],
        )
        self._stamp((row, photo.stamp) for row, photo in rows if photo.stamp is not None)
        self._locate((row, ExifFacts(None, p.position, p.camera)) for row, p in rows)
        self._sum("row >= ?", first)
        return replaced

    def drop(self, paths: Sequence[str]) -> int:
        """Remove the photos of those paths that are indexed; returns how many."""
        rows = [[row] for row, _ in self.find(paths)]
        self.executemany("INSERT INTO removed (row) VALUES (?)", rows)
        self.executemany("DELETE FROM photos WHERE row = ?", rows)
        return len(rows)

    def set_segments(self, segments: Sequence[Segment]) -> None:
        """Record the files of vectors; those that are recorded are not written again."""
        before = self.segments()
        gone = sorted({*before} - {*segments})
        self.executemany("DELETE FROM segments WHERE first = ?", [[one.first] for one in gone])
        new = sorted({*segments} - {*before})
        self.executemany("INSERT INTO segments VALUES (?, ?, ?)", new)

    def renumber(self) -> None:
        """Close the gaps of removed photos: rows count from 0, in the same order."""
        self.execute(
            "CREATE TEMP TABLE moved AS SELECT row AS old, row_number() OVER (ORDER BY row) AS new "
            "FROM photos"
        )
        self.execute("CREATE UNIQUE INDEX temp.moved_by_old ON moved (old)")
        # By way of negative numbers, so that no two rows collide.
        self.execute("UPDATE photos SET row = -(SELECT new FROM moved WHERE old = row)")
        self.execute("UPDATE photos SET row = -row - 1")
        self.execute("DROP TABLE temp.moved")
        self.execute("DELETE FROM removed")
        self._sum("row >= 0")

    def _sum(self, condition: str, *values: str | int) -> None:
        rows = [(row[0], _sum_of(row)) for row, _ in self._read(condition, *values)]
        self.executemany("INSERT OR REPLACE INTO sums VALUES (?, ?)", rows)

    def _stamp(self, stamps: Iterable[tuple[int, Stamp]]) -> None:
        self.executemany(
            "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)",
            [(row, *stamp) for row, stamp in stamps],
        )

    def _locate(self, facts: Iterable[tuple[int, ExifFacts]]) -> None:
        """Store times, positions and cameras, by row; what is None stays as it was."""
        known = [(row, *(f.position or (None, None)), f.camera, f.taken) for row, f in facts]
        self.executemany(
            "INSERT INTO places VALUES (?, ?, ?, ?) ON CONFLICT (row) DO UPDATE SET "
            "latitude = ifnull(excluded.latitude, latitude), "
            "longitude = ifnull(excluded.longitude, longitude), "
            "camera = ifnull(excluded.camera, camera)",
            [fact[:4] for fact in known if any(value is not None for value in fact[1:4])],
        )
        self.executemany(
            "UPDATE photos SET taken = ? WHERE row = ?",
            [(taken, row) for row, *_, taken in known if taken is not None],
        )

    def _read_fact(self, name: str) -> str | None:
        """The JSON of a fact; a DamageError if it is not what was written."""
        found = self.execute("SELECT value, sum FROM facts WHERE name = ?", [name]).fetchone()
        if found is None:
            return None
        if found[1] != _sum_of((name, found[0])):
            raise DamageError(f"the fact {name!r}")
        return str(found[0])

    def _fact(self, name: str, value: object) -> None:
        text = json.dumps(value)
        sums = [name, text, _sum_of((name, text))]
        self.execute("INSERT OR REPLACE INTO facts VALUES (?, ?, ?)", sums)

    def _numbers(self, sql: str, *values: str | int) -> RowNumbers:
        return np.fromiter((row for (row,) in self.execute(sql, values)), np.int64)

    def _photos(self, condition: str, *values: str | int) -> list[tuple[int, Photo]]:
        rows = self._checked(condition, *values)
        with parsing():
            return [(row, Photo(*[*facts, json.loads(own)])) for row, *facts, own in rows]

    def _checked(self, condition: str, *values: str | int) -> list[_Row]:
        """Rows; a DamageError if one is not what was written."""
        rows = []
        for row, stored in self._read(condition, *values):
            if stored != _sum_of(row):
                raise DamageError(f"the row of {row[1]!r}")
            rows.append(row)
        return rows

    def _read(self, condition: str, *values: str | int) -> list[tuple[_Row, int | None]]:
        # One statement, and no Photo per row: every search pays for this.
        found = self.execute(
            "SELECT row, path, width, height, taken, "
            "(SELECT json_group_object(name, json(value)) FROM fields "
            "WHERE fields.row = photos.row), "
            "(SELECT json_group_array(tag) FROM tags WHERE tags.row = photos.row), "
            "sum, latitude, longitude, camera, bytes, modified, sha256 FROM photos "
            "LEFT JOIN files USING (row) LEFT JOIN sums USING (row) LEFT JOIN places USING (row) "
            f"WHERE {condition}",
            values,
        )
        rows = []
        for row, path, width, height, taken, own, tags, kept, north, east, camera, *stamp in found:
            words = tuple(json.loads(tags)) if tags != "[]" else ()
            position = None if north is None or east is None else (north, east)
            facts = (path, width, height, words, taken, _stamp_of(stamp), position, camera, own)
            rows.append(((row, *facts), kept))
        return rows


@lru_cache(maxsize=16)
def _roots_of(stored: str | None) -> Roots:
    return Roots.read(json.loads(stored or ""))


@lru_cache(maxsize=16)
def _version_of(stored: str | None) -> Version:
    with parsing():
        facts = json.loads(stored or "")
        codes = tuple(CodesFile(**part) for part in facts.pop("codes"))
        version = Version(**facts, codes=codes)
        # The file may be untrusted: no name may lead out of the folder.
        if not all(FILES.fullmatch(part.name) for part in version.codes):
            raise ValueError("a file outside the index")
        return version


def _sum_of(row: _Row) -> int:
    return zlib.crc32(repr(row).encode("utf-8", "backslashreplace"))


class DamageError(SolarError):
    """The metadata are not what was written; `Metadata` says where."""

    def __init__(self, what: str) -> None:
        super().__init__(f"The metadata are damaged ({what}): build the index again.")
        self.what = what


@contextlib.contextmanager
def parsing() -> Iterator[None]:
    """Turn errors of reading facts into a DamageError."""
    try:
        yield
    except SolarError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DamageError(str(error) or type(error).__name__) from error


def _stamp_of(found: Sequence[Any]) -> Stamp | None:
    return None if found[-1] is None else Stamp(*found)


def _in_sql(condition: Condition) -> tuple[str, list[Any]]:
    """A condition on rows of photos, and the values for its question marks."""
    field, relation, value = condition.field, condition.relation, condition.value
    if not condition.own:
        if field == "path":
            value = re.sub(r"([*?[])", r"[\1]", str(value)) + "*"
        return _CONDITIONS[field, relation], [value]
    own = "row IN (SELECT row FROM fields WHERE name = ? AND "
    if relation != "=":
        return f"{own} number {relation} ?)", [field, value]
    choices = json.dumps([as_json(choice) for choice in condition.choices])
    return f"{own} value IN (SELECT value FROM json_each(?)))", [field, choices]
