"""Roots: the folders, lists and tar shards with the photos of an index.

A photo's name is its path below its root, `rome/12.jpg`; with several roots, the root's own name
and two slashes come first: `camera//rome/12.jpg`. No path below a folder has two slashes in a row,
so names from different roots are never the same.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeAlias

from solar.errors import SolarError
from solar.files import is_text, reading
from solar.images.scan import Place, scan

Finder: TypeAlias = Callable[[str], Path | bytes | None]
"""Takes a photo's name to its file or bytes, or to None if it does not exist."""

MARK = "//"
"""Between the name of a root and a path below it."""


@dataclass(frozen=True)
class Root:
    """A folder, list or tar shard with photos."""

    path: str  # absolute
    name: str = ""  # prefix of the names of its photos, without the slashes
    whole: bool = True  # whether everything below belongs to the collection, or only single photos

    def named(self, below: str) -> str:
        """The name of the photo at a path below."""
        return f"{self.name}{MARK}{below}" if self.name else below

    @cached_property
    def find(self) -> Finder:
        """Gets a photo by its path below; a SolarError if the root does not exist."""
        return named_photos(self.path)

    @cached_property
    def folder(self) -> Path | None:
        """The folder that paths are relative to; None for a tar shard."""
        path = Path(self.path)
        if path.suffix == ".tar" and not path.is_dir():
            return None
        return path.parent if path.suffix == ".txt" and not path.is_dir() else path

    def absolute(self, below: str) -> str | None:
        """The path of the file at a path below, which may not exist.

        None for a tar shard, and for a path that leads out of a folder; that of a list may. A text,
        because every hit has one, and a `Path` takes five times as long.
        """
        folder = self.folder
        if folder is None:
            return None
        place = os.path.normpath(os.path.join(folder, below))  # noqa: PTH118 (for its speed)
        if place.startswith(f"{folder}{os.sep}") or Path(place).is_relative_to(folder):
            return place
        return place if str(folder) != self.path else None


@dataclass(frozen=True)
class Roots:
    """All roots of a collection, in the order in which they came."""

    roots: tuple[Root, ...] = ()

    @classmethod
    def at(cls, path: str | Path | None) -> "Roots":
        """One place; none at all for None."""
        return cls() if path is None else cls((Root(str(expanded(path).resolve())),))

    @classmethod
    def read(cls, stored: Iterable[Sequence[Any]]) -> "Roots":
        """The inverse of `stored`; a SolarError for anything else."""
        roots = tuple(Root(*facts) for facts in stored)
        for root in roots:
            if not (_is_path(root.path) and isinstance(root.name, str)):
                raise SolarError(
                    f"{root.path!r} cannot be a folder of photos: restore the index from a copy."
                )
        return cls(roots)

    def stored(self) -> list[list[Any]]:
        """JSON-ready roots."""
        return [[root.path, root.name, root.whole] for root in self.roots]

    def __bool__(self) -> bool:
        return bool(self.roots)

    def __str__(self) -> str:
        return ", ".join(root.path for root in self.roots)

    def split(self, name: str) -> tuple[list[Root], str]:
        """The roots that a photo of this name may be below, and its path below them."""
        before, mark, below = name.partition(MARK)
        found = [root for root in self.roots if mark and root.name == before]
        return (found, below) if found else ([root for root in self.roots if not root.name], name)

    def find(self, name: str) -> Path | bytes | None:
        """A photo's file or bytes; None if it does not exist."""
        roots, below = self.split(name)
        for root in roots:
            try:
                found = root.find(below)
            except (SolarError, OSError):  # the root itself does not exist or is not readable
                continue
            if found is not None:
                return found
        return None

    def absolute(self, name: str) -> str | None:
        """A photo's path on this machine, which may not exist; None for one in a tar shard."""
        roots, below = self.split(name)
        places = [place for root in roots if (place := root.absolute(below)) is not None]
        if len(places) > 1:
            places = [place for place in places if Path(place).exists()] or places
        return places[0] if places else None

    def name_of(self, file: str | Path) -> str | None:
        """The name of a file below a root; None for a file below none."""
        place = Path(file).absolute()
        place = place.parent.resolve() / place.name  # a photo that is a link keeps its own name
        root = self.holding(place.parent)
        if root is None or root.folder is None:
            return None
        return root.named(place.relative_to(root.folder).as_posix())

    def holding(self, folder: Path) -> Root | None:
        """The root that a folder is in, the innermost of several; None if it is in none."""
        inside = [r for r in self.roots if r.folder is not None and folder.is_relative_to(r.folder)]
        return max(inside, key=lambda root: len(Path(root.path).parts), default=None)

    def besides(self, others: "Roots") -> "Roots":
        """Roots whose paths are not among the others."""
        places = {root.path for root in others.roots}
        return Roots(tuple(root for root in self.roots if root.path not in places))

    def folders(self, *, single: bool = False) -> "Roots":
        """Folders that belong to the collection whole; with `single`, all folders."""
        return Roots(
            tuple(r for r in self.roots if str(r.folder) == r.path and (r.whole or single))
        )

    def moved_to(self, place: str | Path | None) -> "Roots":
        """The same photos in another folder, each root there by its name; unchanged for None."""
        if place is None:
            return self
        there = expanded(place).resolve()
        if not self.roots:
            return Roots.at(there)
        moved = []
        for root in self.roots:
            # Names of an untrusted index must not lead out of the folder.
            own = Path(os.path.normpath(there / root.name))
            inside = own.parent == there and own.exists()
            moved.append(replace(root, path=str(own if inside else there)))
        return Roots(tuple(moved))

    def with_root(self, place: Path, *, named: bool, whole: bool = True) -> tuple["Roots", Root]:
        """These roots and one at a place, under a new name if `named`; and that root."""
        for number, root in enumerate(self.roots):
            if root.path == str(place):
                grown = replace(root, whole=root.whole or whole)
                return Roots((*self.roots[:number], grown, *self.roots[number + 1 :])), grown
        taken = {root.name for root in self.roots}
        own = place.name if place.name and is_text(place.name) else "root"
        tries = chain([own], (f"{own}-{n}" for n in count(2)))
        name = next(one for one in tries if one not in taken) if named else ""
        added = Root(str(place), name, whole)
        return Roots((*self.roots, added)), added


def expanded(place: str | Path) -> Path:
    """A path with `~` expanded."""
    return Path(os.path.expanduser(place))  # noqa: PTH111 (keeps a ~ that is no user's home)


def _is_path(text: Any) -> bool:
    try:
        return isinstance(text, str) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def is_folder(place: Path) -> bool:
    """Whether a place is a folder; a SolarError if it may not be read."""
    with reading(place):
        return place.is_dir()


def read_place(place: Place, name: str) -> Path | bytes:
    """A photo's file, or its bytes in a shard; a SolarError if the shard cannot be read."""
    if isinstance(place, Path):
        return place
    shard, offset, size = place
    with reading(shard), shard.open("rb") as file:
        file.seek(offset)
        data = file.read(size)
    if len(data) < size:
        raise SolarError(f"{shard} has become shorter, and {name} is cut off: restore it.")
    return data


def named_photos(root: str | Path) -> Finder:
    """Gets photos by their paths in a folder, a list or a shard; a SolarError if there is none."""
    if Path(root).is_dir():  # which is not searched: it may hold millions

        def in_folder(name: str) -> Path | None:
            # Names of an untrusted index must not lead out of the folder.
            inside = os.path.normpath(name)
            if Path(inside).is_absolute() or Path(inside).parts[:1] == ("..",):
                return None
            path = Path(root, inside)
            return path if path.is_file() else None

        return in_folder
    places = {one.below: one.place for one in scan(Path(root)).found}
    return lambda name: read_place(places[name], name) if name in places else None
