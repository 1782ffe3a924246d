"""Where photos come from: a folder, a list, tar shards. A photo's name is its key everywhere."""

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from solar.errors import PASSING, PassingError, SolarError
from solar.images.exif import ExifFacts
from solar.images.roots import Root, Roots, expanded, is_folder, read_place
from solar.images.scan import Found, Place, Scan, look, scan

LARGEST_FILE = 2 << 30
"""Bytes of a photo's file, at most; no photo within `solar.images.MAX_PIXELS` has more."""


@dataclass(frozen=True)
class PhotoFile:
    """The content of a photo, a `solar.images.Source` that may be read again and again."""

    data: bytes
    name: Path | None  # of its file, for messages

    def read(self, size: int = -1, /) -> bytes:
        """All bytes."""
        return self.data


class Stamp(NamedTuple):
    """Size, time and content of a file when it was described."""

    bytes: int
    modified: int  # nanoseconds; of the shard for a photo in one
    sha256: str

    def fits(self, seen: Found) -> bool:
        """Whether a file has the same size and time, so that it need not be read."""
        return (self.bytes, self.modified) == (seen.bytes, seen.modified)


class FileFacts(NamedTuple):
    """What the file of a photo says besides its pixels."""

    stamp: Stamp
    exif: ExifFacts


@dataclass(frozen=True)
class Photos:
    """Photos in a fixed order. Small enough to send to other processes."""

    names: tuple[str, ...]  # unique: paths relative to the root, or as in the list or shard
    places: tuple[Place, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)  # by name the reason
    roots: Roots = field(default_factory=Roots, compare=False)
    seen: tuple[Found, ...] = field(default=(), compare=False, repr=False)  # empty without a scan

    @classmethod
    def in_folder(cls, folder: Path, names: Iterable[str]) -> "Photos":
        """Photos by their paths below a folder, whether they exist or not."""
        names = tuple(names)
        return cls(names, tuple(folder / name for name in names))

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        skipped = f", {len(self.skipped):,} files skipped" if self.skipped else ""
        return f"<Photos: {len(self):,} of {self.roots or 'anywhere'}{skipped}>"

    def select(self, numbers: Iterable[int]) -> "Photos":
        """Some of the photos, in the order of their numbers."""
        numbers = tuple(numbers)
        return Photos(
            tuple(self.names[number] for number in numbers),
            tuple(self.places[number] for number in numbers),
            roots=self.roots,
            seen=tuple(self.seen[number] for number in numbers) if self.seen else (),
        )

    def read(self, number: int) -> Path | bytes:
        """Photo `number` for `solar.images.load`: its file, or its bytes in a shard."""
        return read_place(self.places[number], self.names[number])

    @cached_property
    def states(self) -> tuple[Found, ...]:
        """The file of every photo as the scan has seen it, or without one as it is now."""
        if self.seen or not self.names:
            return self.seen
        return tuple(
            look(name, place) if isinstance(place, Path) else Found(name, place, place[2])
            for name, place in zip(self.names, self.places, strict=True)
        )

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each photo, by name."""
        return {name: number for number, name in enumerate(self.names)}

    def stamp(self, number: int) -> Stamp:
        """Size, time and digest of photo `number` now; a SolarError if it cannot be read."""
        return self.content(number)[1]

    def content(self, number: int) -> tuple["PhotoFile", Stamp]:
        """Photo `number`, opened and read once, and its stamp; a SolarError if it cannot be."""
        place = self.places[number]
        if isinstance(place, Path):
            with self._reading(number, place):
                now = _regular(place)
                if now.st_size > LARGEST_FILE:
                    raise SolarError(f"{place} has more than 2 GiB: make the photo smaller.")
                data, modified = place.read_bytes(), now.st_mtime_ns
        else:
            inside = self.read(number)
            assert isinstance(inside, bytes)
            data, modified = inside, place[0].stat().st_mtime_ns
        stamp = Stamp(len(data), modified, hashlib.sha256(data).hexdigest())
        return PhotoFile(data, place if isinstance(place, Path) else None), stamp

    @contextmanager
    def _reading(self, number: int, place: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            was_there = bool(self.seen) and self.seen[number].bytes >= 0
            gone = isinstance(error, FileNotFoundError) and not place.parent.exists()
            if error.errno in PASSING or (gone and was_there):
                what = f"The folder {place.parent}" if gone else str(place)
                raise PassingError(f"{what} cannot be read: {error.strerror or error}.") from error
            raise SolarError(f"{place} cannot be read: {error.strerror or error}.") from error

    def stamp_if_readable(self, number: int) -> Stamp | None:
        """`stamp`; None if it cannot be read, which is reported when it is described."""
        try:
            return self.stamp(number)
        except SolarError:
            return None


def find_photos(source: str | Path | Sequence[str | Path]) -> Photos:
    """Find photos, in the same order every time; a SolarError if there are none.

    The source is a folder (searched in depth, hidden files left out, sorted by name); a `.txt` list
    (one path per line, relative to its folder); a `.tar` shard (its members' names); one photo; or
    several of these, one after the other: names that two of them share begin with the folder's.
    """
    parts = [source] if isinstance(source, str | Path) else list(source)
    places = [expanded(part) for part in parts]
    found = [(root_at(place), scan(place)) for place in places]
    below = [one.below for _, scanned in found for one in scanned.found]
    return collect(parts) if len(set(below)) < len(below) else gather(found, parts)


def root_at(place: Path) -> Root:
    """The root of a source: itself, or for a photo its folder."""
    if _is_photo(place):
        return Root(str(place.parent.resolve()), whole=False)
    return Root(str(place.resolve()))


def collect(
    sources: Sequence[str | Path], known: Roots | None = None, *, follow: bool = True
) -> Photos:
    """The photos of sources, by their names in a collection with several roots.

    Photos below one of the `known` roots are named by it; other sources become new roots, which the
    result has beside the old ones. A SolarError as for `find_photos`.
    """
    roots = known or Roots()
    named = bool(roots) or len(sources) > 1
    parts: list[tuple[Root, str, Path]] = []
    for place in map(expanded, sources):
        folder = is_folder(place)
        base = (place if folder else place.parent).resolve()
        shard = place.suffix == ".tar" and not folder
        holder = None if shard else roots.folders(single=_is_photo(place)).holding(base)
        if holder is None:
            new = root_at(place)
            roots, holder = roots.with_root(Path(new.path), named=named, whole=new.whole)
            if folder:  # it includes folders of which single photos were given before
                for root in roots.folders(single=True).roots:
                    inside = Path(root.path)
                    if not root.whole and inside.is_relative_to(base) and is_folder(inside):
                        roots, grown = roots.with_root(inside, named=named)
                        parts.append((grown, "", inside))
        below = base.relative_to(holder.folder).as_posix() if holder.folder else "."
        parts.append((holder, "" if below == "." else f"{below}/", place))
    others = frozenset(root.path for root in roots.roots)
    found: list[tuple[Root, Scan]] = []
    seen: set[str] = set()
    for holder, prefix, place in parts:
        scanned = scan(place, follow=follow, besides=others)
        moved = [one._replace(below=prefix + one.below) for one in scanned.found]
        names = [holder.named(one.below) for one in moved]
        # A folder may have been given twice, or lie inside another.
        fresh = [one for one, name in zip(moved, names, strict=True) if name not in seen]
        seen.update(names)
        skipped = {prefix + below: reason for below, reason in scanned.skipped.items()}
        found.append((holder, Scan(fresh, skipped)))
    return replace(gather(found, sources), roots=roots)


def scan_roots(roots: Roots, names: Iterable[str] = (), *, follow: bool = True) -> Photos:
    """Everything below whole roots, which may be nothing, and of the others the photos `names`."""
    others = frozenset(root.path for root in roots.roots)
    single: dict[Root, Scan] = {root: Scan() for root in roots.roots if not root.whole}
    for name in names if single else ():
        holders, below = roots.split(name)
        for root in holders:
            file = root.folder / below if root.folder is not None and root in single else None
            if file is not None and file.exists():
                single[root].take(below, file)
    parts = [
        (root, single[root] if root in single else scan(place, follow=follow, besides=others))
        for root in roots.roots
        if is_folder(place := Path(root.path)) or place.exists()
    ]
    return gather(parts, empty=True)


def gather(
    parts: Sequence[tuple[Root, Scan]], shown: Sequence[object] = (), *, empty: bool = False
) -> Photos:
    """The photos of several places, in order; a SolarError as for `find_photos`."""
    where = ", ".join(map(str, shown or [root.path for root, _ in parts])) or "an empty list"
    found = [(root.named(one.below), one) for root, scanned in parts for one in scanned.found]
    names = tuple(name for name, _ in found)
    skipped = {
        root.named(below): reason
        for root, scanned in parts
        for below, reason in scanned.skipped.items()
    }
    if not names and not empty:
        name, reason = next(iter(skipped.items()), ("", ""))
        why = f": {name!r} was skipped because {reason}" if reason else ""
        raise SolarError(f"There is no photo in {where}{why}.")
    if len(set(names)) < len(names):
        [(twice, _)] = Counter(names).most_common(1)
        raise SolarError(f"Two photos in {where} are called {twice}: names must be unique.")
    roots = Roots(tuple(root for root, _ in parts))
    return Photos(
        names, tuple(one.place for _, one in found), skipped, roots, tuple(one for _, one in found)
    )


def _regular(place: Path) -> os.stat_result:
    now = place.stat()  # before the file is read, so that a change meanwhile is noticed later
    if not stat.S_ISREG(now.st_mode):  # reading a pipe would wait for ever
        raise SolarError(f"{place} is not a regular file, so it cannot be a photo.")
    return now


def _is_photo(place: Path) -> bool:
    return not is_folder(place) and place.suffix not in (".txt", ".tar")
