"""What indices in folders share, of vectors or of local features: metadata and one writer.

A change is made inside one transaction of the metadata, so that it becomes true as a whole.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from solar.errors import SolarError
from solar.search.engine import DescriptorSpec, Photo, is_text
from solar.search.metadata import FILE, LOCK, Metadata, Version, View


class FolderWriter(ABC):
    """One change to the index in a folder; it becomes true when the view's transaction does."""

    patterns: ClassVar[Sequence[str]]
    """Of the files beside the metadata that a version may name."""

    def __init__(self, folder: Path, view: View) -> None:
        self._folder, self._view = folder, view
        self._version = view.version()
        self._sweep()
        view.afterwards.append(self._sweep)

    @abstractmethod
    def compact(self) -> None:
        """Write anew what holds removed photos."""

    def remove(self, paths: Sequence[str]) -> int:
        """Remove photos; a SolarError names the first that is not indexed."""
        wanted = dict.fromkeys(paths)
        known = {photo.path for _, photo in self._view.find(list(wanted))}
        for path in wanted:
            if path not in known:
                raise SolarError(f"{path} is not in {self._folder}: nothing was removed.")
        count = self._view.drop(list(wanted))
        self._commit(replace(self._version, photos=self._version.photos - count))
        return count

    def _commit(self, version: Version) -> None:
        self._version = replace(version, number=version.number + 1)
        self._view.set_version(self._version)

    def _sweep(self) -> None:
        """Delete files that the version does not name; they were replaced, or a kill left them."""
        named = {self._version.vectors, *(part.name for part in self._version.codes)}
        for file in (file for pattern in self.patterns for file in self._folder.glob(pattern)):
            if file.name not in named:
                with contextlib.suppress(OSError):  # some systems keep what a reader has mapped
                    file.unlink()


W = TypeVar("W", bound=FolderWriter)


class FolderStorage(ABC, Generic[W]):
    """Photos in a folder, as far as their metadata go; see `solar.search.engine.Storage`."""

    def __init__(
        self, folder: Path, spec: DescriptorSpec, metadata: Metadata | None = None
    ) -> None:
        self.folder, self.spec = folder, spec
        self._metadata = metadata or Metadata(folder)

    def __len__(self) -> int:
        with self._metadata.reading() as view:
            return view.version().photos

    def find(self, paths: Sequence[str]) -> dict[str, Photo]:
        """What is known of photos, by path; unknown paths are left out."""
        with self._metadata.reading() as view:
            return {photo.path: photo for _, photo in view.find(paths)}

    def photos(self, rows: int = 4096) -> Iterator[list[Photo]]:
        """What is known of every photo, ascending by row."""
        with self._metadata.reading() as view:
            for batch in view.batches(rows):
                yield [photo for _, photo in batch]

    def remove(self, paths: Sequence[str]) -> int:
        """Remove photos, all at once; a SolarError names the first that is not indexed."""
        with self._writing() as writer:
            return writer.remove(paths)

    def compact(self) -> None:
        """Write anew what holds removed photos, and what speeds searches up."""
        with self._writing() as writer:
            writer.compact()

    def close(self) -> None:
        """Let go of files."""
        self._metadata.close()

    @abstractmethod
    def _writer(self, view: View) -> W:
        """What makes one change."""

    @contextlib.contextmanager
    def _writing(self) -> Iterator[W]:
        with self._metadata.writing() as view:
            yield self._writer(view)

    def _facts(self, version: Version) -> tuple[dict[str, Any], dict[str, int]]:
        """Facts to print that every folder has, and the bytes of its files by name."""
        files = {f.name: f.stat().st_size for f in self.folder.iterdir() if f.is_file()}
        facts = {
            "photos": version.photos,
            "removed": version.rows - version.photos,
            "version": version.number,
        }
        return facts, files


@contextlib.contextmanager
def creating(folder: Path) -> Iterator[View]:
    """Fill a new or empty folder with an index: whole, or not at all.

    Raises:
        SolarError: It is an index, holds other files, or cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        others = {file.name for file in folder.iterdir()} - {LOCK}
    except OSError as error:
        raise SolarError(f"{folder} cannot be written: {error.strerror or error}.") from error
    if others and FILE not in others:
        raise SolarError(f"{folder} holds other files: choose a new or empty folder.")
    with Metadata(folder).writing(create=True) as view:
        if view.facts() is not None:
            raise SolarError(f"{folder} is an index already: add to it, or choose another folder.")
        yield view


def check_names(photos: Iterable[Photo]) -> None:
    """Refuse a photo whose name the metadata cannot keep."""
    for photo in photos:
        if not is_text(photo.path):
            raise SolarError(f"The name {photo.path!r} is not text: rename the photo.")
