"""What indexes in folders share, of vectors or of local features: metadata and one writer.

Every change is one transaction of the metadata.
"""

from __future__ import annotations

import contextlib
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, TypeVar

from solar.arrays import RowNumbers
from solar.errors import SolarError
from solar.files import LOCK, locked, make_folder
from solar.images import Roots
from solar.storage.catalogue import FILE, Metadata
from solar.storage.catalogue_view import DamageError, Version, View
from solar.storage.types import Amendment, DescriptorSpec, Photo

# Up to this many photos, metadata are checked whole before the first search; beyond, row by row.
_CHECKED_AT_ONCE = 4096

FILLING = ".filling"
"""The lock of the run that describes photos."""


class FolderWriter(ABC):
    """One change to the index in a folder, inside the view's transaction."""

    patterns: ClassVar[Sequence[str]]
    """Glob patterns of the files that a version may name."""

    def __init__(self, folder: Path, view: View) -> None:
        self._folder, self._view = folder, view
        self._version = view.version()
        self._sweep()
        view.afterwards.append(self._sweep)

    @abstractmethod
    def compact(self) -> None:
        """Rewrite files that hold removed photos."""

    def _names(self) -> Iterable[str]:
        """The files that count, relative to the folder."""
        return [part.name for part in self._version.codes]

    def amend(self, change: Amendment) -> None:
        """Make changes for which nothing has to be described."""
        count = self._view.drop(list(change.removed))
        self._view.amend(change)
        self._commit(replace(self._version, photos=self._version.photos - count))

    def _commit(self, version: Version) -> None:
        self._version = replace(version, number=version.number + 1)
        self._view.set_version(self._version)

    def _sweep(self) -> None:
        """Delete files that the version does not name: replaced, or left by a killed writer."""
        named = {self._folder / name for name in self._names()}
        for file in (file for pattern in self.patterns for file in self._folder.glob(pattern)):
            if file not in named and not file.is_dir():
                with contextlib.suppress(OSError):  # some systems keep what a reader has mapped
                    file.unlink()


@dataclass(frozen=True)
class FolderState:
    """One committed version with its files open."""

    version: Version
    roots: Roots
    removed: RowNumbers  # the rows of removed photos, ascending


S = TypeVar("S", bound=FolderState)
T = TypeVar("T")
P = ParamSpec("P")


def _asked(
    question: Callable[Concatenate[View, P], T],
) -> Callable[Concatenate[FolderStorage[Any], P], T]:
    """A method that puts a question to the latest version of the metadata."""

    @wraps(question)
    def ask(self: FolderStorage[Any], /, *given: P.args, **named: P.kwargs) -> T:
        with self._metadata.reading() as view:
            return question(view, *given, **named)

    return ask


class FolderStorage(ABC, Generic[S]):
    """Photos in a folder; see `Engine` of `solar.storage.protocol`."""

    engine: ClassVar[str]
    parts: ClassVar[Sequence[str]] = ()
    """Folders inside its own, with files that count."""

    def __init__(
        self, folder: Path, spec: DescriptorSpec, metadata: Metadata | None = None
    ) -> None:
        self.folder, self.spec = folder, spec
        self._metadata = metadata or Metadata(folder)
        self._latest: S | None = None

    __len__ = _asked(lambda view: view.version().photos)
    version = property(_asked(lambda view: view.version().number))
    roots = property(_asked(View.roots))
    stamps = _asked(View.stamps)
    skipped = _asked(View.skipped)
    field_names = _asked(View.field_names)
    has_field = _asked(View.has_field)
    unfinished = property(_asked(View.unfinished))

    @property
    def roots_seen(self) -> Roots:
        """Where the photos were when the index was last searched, without reading again."""
        state = self._latest
        return self.roots if state is None else state.roots

    def amend(self, change: Amendment) -> None:
        """Make changes for which nothing has to be described, all at once."""
        if change:
            with self._metadata.writing() as view:
                self._writer(view).amend(change)

    def find(self, paths: Sequence[str]) -> dict[str, Photo]:
        """Photos by path; unknown paths are left out."""
        with self._metadata.reading() as view:
            return {photo.path: photo for _, photo in view.find(paths)}

    def photos(self, rows: int = 4096) -> Iterator[list[Photo]]:
        """All photos, ascending by row."""
        with self._metadata.reading() as view:
            for batch in view.batches(rows):
                yield [photo for _, photo in batch]

    def compact(self) -> None:
        """Rewrite files that hold removed photos, and codes."""
        with self._metadata.writing() as view:
            self._writer(view).compact()

    def info(self) -> dict[str, Any]:
        """Facts to print."""
        with self._metadata.snapshot(self._state) as (view, state):
            known = view.where_and_when()
            files = {
                name: one.stat().st_size
                for part in (".", *self.parts)
                if (self.folder / part).is_dir()
                for one in (self.folder / part).iterdir()
                if one.is_file()
                for name in [one.relative_to(self.folder).as_posix()]
            }
            if view.unfinished():
                known["unfinished"] = True
        version = state.version
        facts = {
            "engine": self.engine,
            "photos": version.photos,
            "unused_rows": version.rows - version.photos,  # of removed and changed photos
            "version": version.number,
            "bytes": sum(files.values()),
        }
        return facts | self._facts(state, files) | known

    def check(self) -> list[str]:
        """Read everything, recompute every checksum, and return one sentence per problem."""
        try:
            with self._metadata.snapshot(self._state) as (view, state):
                return [
                    *(f"The metadata of {self.folder} is damaged: {t}." for t in view.problems()),
                    *self._problems(view, state),
                ]
        except SolarError as error:
            return [str(error)]

    def close(self) -> None:
        """Close the files."""
        self._latest = None
        self._metadata.close()

    def filling(self) -> AbstractContextManager[None]:
        """Held by the one run that describes photos; a SolarError if there is another."""
        return being_filled(self.folder)

    def finish(self) -> None:
        """Note that a build is complete."""
        with self._metadata.writing(wait=True) as view:
            view.set_unfinished(False)

    def discard(self) -> None:
        """Delete an index that was begun and holds no photo."""
        self.close()
        for part in self.parts:
            shutil.rmtree(self.folder / part, ignore_errors=True)
        for name in (FILE, f"{FILE}-wal", f"{FILE}-shm", FILLING, LOCK):
            (self.folder / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # it holds other things
            self.folder.rmdir()

    @abstractmethod
    def _writer(self, view: View) -> FolderWriter:
        """Start one change."""

    @abstractmethod
    def _load(self, view: View, version: Version) -> S:
        """Open the files of a version."""

    @abstractmethod
    def _facts(self, state: S, files: Mapping[str, int]) -> dict[str, Any]:
        """Facts to print, given the bytes of all files by name."""

    @abstractmethod
    def _problems(self, view: View, state: S) -> list[str]:
        """What is wrong with the files, in one sentence each."""

    def _state(self, view: View, version: Version) -> S:
        state = self._latest
        if state is None or (state.version is not version and state.version != version):
            if version.photos <= _CHECKED_AT_ONCE:
                for problem in view.problems():
                    raise DamageError(problem)
            state = self._latest = self._load(view, version)
        return state


def being_filled(folder: Path) -> AbstractContextManager[None]:
    """Held by the one run that describes photos; a SolarError if there is another."""
    busy = f"Another run is adding photos to {folder}: try again when it is done."
    return locked(folder / FILLING, busy)


def refuse_place(folder: Path) -> None:
    """A SolarError if no index can be made there: it is a file, or holds other files."""
    if folder.is_dir():
        make_folder(folder, FILE)
    elif folder.exists():
        raise SolarError(f"{folder} is a file, not a folder: choose another name for the index.")


@contextlib.contextmanager
def creating(folder: Path) -> Iterator[tuple[View, tuple[DescriptorSpec, str] | None]]:
    """Make an index in a folder that is new, empty, or has an unfinished one: whole, or not.

    With its view come the facts of an unfinished index that has photos. A SolarError if there is a
    finished one, or the folder holds other files or cannot be written.
    """
    refuse_place(folder)
    make_folder(folder, FILE)
    with Metadata(folder).writing(create=True) as view:
        known = view.facts()
        if known is not None and not view.unfinished():
            raise SolarError(f"{folder} is an index already: add to it, or choose another folder.")
        yield view, known if known is not None and view.version().photos else None
