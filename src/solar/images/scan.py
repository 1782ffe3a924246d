"""Find photos in a folder, a list or a tar shard by names and kinds of files; none is opened."""

import os
import stat
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

from solar.errors import SolarError
from solar.files import is_text, reading

SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".tif", ".tiff", ".gif", ".bmp"}
    | {".avif", ".heic", ".heif"}
)
"""Endings of photos, in lower case."""

# Folders of a NAS: thumbnails of photos, and what was deleted.
_OF_THE_SYSTEM = frozenset({"@eaDir", "#recycle"})
RAW_SUFFIXES = frozenset(
    {".cr2", ".cr3", ".nef", ".arw", ".dng", ".raf", ".orf", ".rw2", ".pef", ".srw"}
)
"""Endings of cameras' RAW files, in lower case: their previews are read."""


def is_raw(name: str) -> bool:
    """Whether a file is a camera's RAW file, by its name."""
    return _suffix(name) in RAW_SUFFIXES


VIDEO_SUFFIXES = frozenset(
    {".mp4", ".mov", ".m4v", ".avi", ".mkv", ".webm", ".wmv", ".mpg", ".mpeg", ".mts", ".3gp"}
)
"""Endings of videos, in lower case."""

Place: TypeAlias = Path | tuple[Path, int, int]
"""Where the bytes of a photo are: a file, or for a tar shard the range within it."""

_SUFFIXES = SUFFIXES | RAW_SUFFIXES | VIDEO_SUFFIXES
_NOT_TEXT = "its name is not UTF-8: rename it"


class Found(NamedTuple):
    """A file that may be a photo."""

    below: str  # its path in the folder, list or shard, with `/`
    place: Place
    bytes: int = -1  # -1 where it is not there
    modified: int = 0  # nanoseconds; of the shard for a photo in one


def look(below: str, file: Path) -> Found:
    """A file as it is now, whether it is there or not."""
    try:
        now = file.stat()
    except OSError:
        return Found(below, file)
    return Found(below, file, now.st_size, now.st_mtime_ns)


@dataclass
class Scan:
    """Files that may be photos, in order, and those left out, with the reason."""

    found: list[Found] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def take(self, below: str, file: "Path | os.DirEntry[str]") -> None:
        """Take a file, or note why it can be no photo."""
        seen = _look(file)
        if isinstance(seen, str):
            self.skipped[below] = seen
        else:
            self.found.append(Found(below, Path(file), seen.st_size, seen.st_mtime_ns))


def scan(path: Path, *, follow: bool = True, besides: frozenset[str] = frozenset()) -> Scan:
    """Scan a folder, a `.txt` list (one path per line, relative to it), a `.tar` shard or a photo.

    The options are those of `scan_folder`. A SolarError if there is no such file.
    """
    with reading(path):
        if path.is_dir():
            return scan_folder(path, follow=follow, besides=besides)
        if not path.exists() and not path.is_symlink():
            raise SolarError(f"There is no file or folder {path}.")
        if path.suffix == ".txt":
            return _in_list(path)
        if path.suffix == ".tar":
            return _in_shard(path)
        if path.name.endswith((".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".zip")):
            raise SolarError(f"{path} is compressed: unpack it, or give a plain .tar.")
        alone = Scan()
        alone.take(path.name, path)
        return alone


def scan_folder(
    folder: Path, *, follow: bool = True, besides: frozenset[str] = frozenset()
) -> Scan:
    """Search a folder in depth, without hidden files, and without the folders `besides` below.

    Links to folders are followed at the end, and every folder is entered once: by its own path if
    it has one below `folder`.
    """
    result, entered, real = Scan(), set[tuple[int, int]](), folder.resolve()
    waiting, links = [""], list[str]()
    while waiting or links:
        # Links come last: their targets may have a path of their own.
        below = waiting.pop() if waiting else links.pop(0)
        try:
            facts = (folder / below).stat()
            with os.scandir(folder / below) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            if not below:
                raise
            result.skipped[f"{below}/"] = f"it cannot be read: {error.strerror or error}"
            continue
        if (facts.st_dev, facts.st_ino) in entered:
            continue
        entered.add((facts.st_dev, facts.st_ino))
        for entry in inside:
            if entry.name.startswith(".") or entry.name in _OF_THE_SYSTEM:
                continue
            path = f"{below}/{entry.name}" if below else entry.name
            if not _is_folder(entry):
                if _suffix(entry.name) in _SUFFIXES:
                    result.take(path, entry)
            elif not is_text(entry.name):
                result.skipped[f"{path}/"] = _NOT_TEXT
            elif not entry.is_symlink():
                if str(real / path) not in besides:
                    waiting.append(path)
            elif follow:
                links.append(path)
    result.found.sort()
    return result


def _in_list(path: Path) -> Scan:
    with reading(path, "is not a text file in UTF-8", UnicodeDecodeError):
        lines = path.read_text(encoding="utf-8").splitlines()
    result = Scan()
    for name in map(str.strip, lines):
        if name and not name.startswith("#"):
            file = path.parent / name
            # A missing photo is reported when it is to be described.
            result.take(name, file) if file.exists() else result.found.append(Found(name, file))
    return result


def _in_shard(path: Path) -> Scan:
    result, modified = Scan(), path.stat().st_mtime_ns
    try:
        with tarfile.open(path, "r:") as shard:
            for member in shard:
                suffix = _suffix(member.name)
                if not member.isfile() or suffix not in _SUFFIXES:
                    continue
                if reason := _named_badly(member.name, suffix):
                    result.skipped[member.name] = reason
                    continue
                place = path, member.offset_data, member.size
                result.found.append(Found(member.name, place, member.size, modified))
    except (tarfile.TarError, OverflowError, ValueError) as error:  # of an offset beyond all files
        raise SolarError(f"{path} is not a complete tar file ({error}).") from error
    return result


def _look(file: "os.DirEntry[str] | Path") -> os.stat_result | str:
    if reason := _named_badly(file.name, _suffix(file.name)):
        return reason
    try:
        facts = file.stat()
    except FileNotFoundError:
        return "it is a link to nothing"
    except OSError as error:  # links in a circle, say
        return f"it cannot be read: {error.strerror or error}"
    if stat.S_ISREG(facts.st_mode):
        return facts
    return f"it is {kind_of(facts.st_mode)}, not a photo"


def kind_of(mode: int) -> str:
    """What a path with this mode is, if it is no regular file."""
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a folder"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def _named_badly(name: str, suffix: str) -> str | None:
    if not is_text(name):
        return _NOT_TEXT
    if suffix in VIDEO_SUFFIXES:
        return f"it is a video ({suffix})"
    return None


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # links in a circle
        return False


def _suffix(name: str) -> str:
    _, dot, suffix = name.rpartition(".")  # `Path` would take longer than the scan
    return f"{dot}{suffix.lower()}" if dot else ""
