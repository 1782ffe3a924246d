"""Where photos come from: a folder, a list, tar shards. A photo's name is its key everywhere."""

import os
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from solar.errors import SolarError
from solar.files import reading

# What a folder is searched for; anything else in it is not a photo.
SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".tif", ".tiff", ".gif", ".bmp"}
    | {".avif", ".heic", ".heif"}
)


@dataclass(frozen=True)
class Photos:
    """Photos in a fixed order. Small enough to send to other processes.

    Attributes:
        names: Unique, in order: paths relative to the folder, or as written in the list or shard.
        places: Where the bytes of each are: a file, and for a tar shard the range within it.
    """

    names: tuple[str, ...]
    places: tuple[Path | tuple[Path, int, int], ...]

    @classmethod
    def in_folder(cls, folder: Path, names: Iterable[str]) -> "Photos":
        """Photos by their paths below a folder, whether they are there or not."""
        names = tuple(names)
        return cls(names, tuple(folder / name for name in names))

    def __len__(self) -> int:
        return len(self.names)

    def select(self, numbers: Iterable[int]) -> "Photos":
        """Some of the photos, in the order of their numbers."""
        numbers = tuple(numbers)
        return Photos(
            tuple(self.names[number] for number in numbers),
            tuple(self.places[number] for number in numbers),
        )

    def read(self, number: int) -> Path | bytes:
        """What `solar.images.load` takes for photo `number`: its file, or its bytes in a shard.

        A SolarError if the shard cannot be read any more.
        """
        place = self.places[number]
        if isinstance(place, Path):
            return place
        shard, offset, size = place
        with reading(shard), shard.open("rb") as file:
            file.seek(offset)
            data = file.read(size)
        if len(data) < size:
            raise SolarError(f"{shard} is shorter than it was: {self.names[number]} is cut off.")
        return data


def find_photos(source: str | Path | Sequence[str | Path]) -> Photos:
    """Find photos, in the same order every time.

    Args:
        source: A folder (searched in depth, hidden files left out, sorted by name); a `.txt` list
            (a path a line, relative to the list's folder); a `.tar` shard (its members' names); one
            photo; or several of these, one after the other.

    Raises:
        SolarError: There is no such thing, it holds no photo, or two photos share a name.
    """
    parts = [source] if isinstance(source, str | Path) else list(source)
    found = [pair for part in parts for pair in _find(Path(part))]
    names = [name for name, _ in found]
    shown = ", ".join(str(part) for part in parts)
    if not names:
        raise SolarError(f"There is no photo in {shown or 'an empty list'}.")
    if len(set(names)) < len(names):
        [(twice, _)] = Counter(names).most_common(1)
        raise SolarError(f"Two photos in {shown} are called {twice}: names must be unique.")
    return Photos(tuple(names), tuple(place for _, place in found))


def named_photos(root: str | Path) -> Callable[[str], Path | bytes | None]:
    """How to get single photos by their names from a folder, a list or a tar shard.

    The function takes a name to what `solar.images.load` takes, or to None if it is not there. A
    SolarError if there is no such folder or file, or it holds no photo.
    """
    if Path(root).is_dir():  # which is not searched: it may hold millions

        def in_folder(name: str) -> Path | None:
            # Names may be a stranger's, with an index: they must not lead out of the folder.
            inside = os.path.normpath(name)
            if Path(inside).is_absolute() or Path(inside).parts[:1] == ("..",):
                return None
            path = Path(root, inside)
            return path if path.is_file() else None

        return in_folder
    photos = find_photos(root)
    numbers = {name: number for number, name in enumerate(photos.names)}
    return lambda name: photos.read(numbers[name]) if name in numbers else None


def _find(path: Path) -> Sequence[tuple[str, Path | tuple[Path, int, int]]]:
    with reading(path):
        if path.is_dir():
            return _in_folder(path)
        if not path.exists():
            raise SolarError(f"There is no file or folder {path}.")
        if path.suffix == ".txt":
            return _in_list(path)
        if path.suffix == ".tar":
            return _in_shard(path)
        if path.name.endswith((".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".zip")):
            raise SolarError(f"{path} is compressed: unpack it, or give a plain .tar.")
        return [(path.name, path)]


def _in_folder(folder: Path) -> list[tuple[str, Path]]:
    found = []
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [
            Path(root, name)
            for name in files
            if Path(name).suffix.lower() in SUFFIXES and not name.startswith(".")
        ]
    return sorted((path.relative_to(folder).as_posix(), path) for path in found)


def _in_list(path: Path) -> list[tuple[str, Path]]:
    with reading(path, "is not a text file in UTF-8", UnicodeDecodeError):
        lines = path.read_text(encoding="utf-8").splitlines()
    names = [line.strip() for line in lines]
    return [(name, path.parent / name) for name in names if name and not name.startswith("#")]


def _in_shard(path: Path) -> list[tuple[str, tuple[Path, int, int]]]:
    try:
        with tarfile.open(path, "r:") as shard:
            return [
                (member.name, (path, member.offset_data, member.size))
                for member in shard
                if member.isfile() and Path(member.name).suffix.lower() in SUFFIXES
            ]
    except tarfile.TarError as error:
        raise SolarError(f"{path} is not a complete tar file ({error}).") from error
