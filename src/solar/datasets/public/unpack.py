"""Unpack untrusted archives: plain files only, and only below one folder.

Unpacking stops at a member that would land elsewhere, is a link, a device or a sparse file, or is
larger than any photo, and when an archive unpacks to far too much.
"""

import gzip
import io
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Self

from solar.download import Report, bar
from solar.errors import SolarError
from solar.files import replacing

_PIECE = 1 << 20
_LARGEST = 4 << 30  # bytes of a member: lists and pictures of patches stay far below
_HEADER = 1 << 20  # bytes of a tar header, which is read into memory at once
# An archive may unpack to this multiple of its size, and this much in any case: text shrinks to a
# tenth, photos not at all, and what is made to fill a disk to a thousandth.
_EXPANSION, _ALLOWANCE = 200, 1 << 30


@dataclass(frozen=True)
class _Member:
    name: str
    size: int  # bytes, as the archive says; no more are read
    fault: str  # why its kind is refused; "" for a plain file
    open: Callable[[], IO[bytes] | None]


def unpack(
    parts: Sequence[Path],
    into: Path,
    *,
    keep: int = 0,
    suffixes: tuple[str, ...] = (),
    wanted: Callable[[str], bool] | None = None,
    progress: bool = True,
) -> int:
    """Unpack a zip file, or a tar file (gzipped or not, in one piece or several), into a folder.

    Files appear under their names only when they are whole. Hidden files are left out. `keep` is
    how many components of a member's path are kept, from the end (0: all); `suffixes` which endings
    are taken, in any case (none given: all); `wanted` which of these, by their paths below the
    folder. Returns the number of files written.

    Raises:
        SolarError: A member is not safe, the archive is damaged or holds no such file, the disk is
            full or would be, or the folder cannot be written to.
    """
    archive = f"{parts[0]}" if len(parts) == 1 else f"{parts[0]} … {parts[-1].name}"
    count = seen = 0
    try:
        into.mkdir(parents=True, exist_ok=True)
        left = _ALLOWANCE + _EXPANSION * sum(part.stat().st_size for part in parts)
        with bar(f"unpacking {parts[0].name}", shown=progress) as report:
            zipped = len(parts) == 1 and zipfile.is_zipfile(parts[0])
            members = _zip_members(parts[0], report) if zipped else _tar_members(parts, report)
            for member in members:
                place = _place(member, archive, keep)
                unwanted = suffixes and place.suffix.lower() not in suffixes
                if unwanted or any(part.startswith(".") for part in place.parts):
                    continue
                seen += 1
                if wanted is not None and not wanted(place.as_posix()):
                    continue
                left -= member.size
                _check_size(member, archive, left)
                with member.open() or io.BytesIO() as source:
                    _write(source, into / place)
                count += 1
    except SolarError:
        raise
    except Exception as error:  # a damaged archive can make its reader fail in any way at all
        if isinstance(error, OSError) and error.errno is not None:  # readers of archives set none
            raise SolarError(
                f"Could not unpack {archive} into {into}: {error.strerror or error}; free "
                "some space or choose another folder."
            ) from error
        reason = str(error).rstrip(".") or type(error).__name__
        raise SolarError(
            f"{archive} cannot be unpacked ({reason}); delete it to fetch it again."
        ) from error
    if not seen:
        kind = " or ".join(suffixes) or "any"
        raise SolarError(f"{archive} contains no {kind} files: it is not the expected archive.")
    return count


def _place(member: _Member, archive: str, keep: int) -> PurePosixPath:
    """Where a member goes below the folder; a SolarError if nowhere below it."""
    # Windows' rules know both slashes, drives and shares, so they are strict enough for all.
    path = PureWindowsPath(member.name)
    if path.drive or path.root or ".." in path.parts or not path.parts:
        raise _refused(archive, member, "has a path that leads out of the folder")
    if "\0" in member.name:
        raise _refused(archive, member, "has a name that no file can have")
    if member.fault:
        raise _refused(archive, member, member.fault)
    return PurePosixPath(*path.parts[-keep:])


def _check_size(member: _Member, archive: str, left: int) -> None:
    if not 0 <= member.size <= _LARGEST:
        raise _refused(archive, member, f"claims to have {member.size:,} bytes")
    if left < 0:
        raise _refused(archive, member, "goes beyond what so small an archive can honestly hold")


def _refused(archive: str, member: _Member, why: str) -> SolarError:
    return SolarError(
        f"{archive} is not safe to unpack: its member {member.name!r} {why}; "
        "delete the archive and download it from another source."
    )


def _write(source: IO[bytes], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    growing = replacing(target, durable=False, complaint=None)  # of a damaged archive, too
    with growing as part, part.open("wb") as file:
        shutil.copyfileobj(source, file, _PIECE)


def _zip_members(archive: Path, report: Report) -> Iterator[_Member]:
    with zipfile.ZipFile(archive) as file:
        infos = file.infolist()
        done, total = 0, sum(info.compress_size for info in infos)
        for info in infos:
            kind = stat.S_IFMT(info.external_attr >> 16)  # 0 where it was not packed on Unix
            if not info.is_dir():
                fault = "" if kind in (0, stat.S_IFREG) else "is a link or a device"
                yield _Member(info.filename, info.file_size, fault, partial(file.open, info))
            done += info.compress_size
            report(done, total)


def _tar_members(parts: Sequence[Path], report: Report) -> Iterator[_Member]:
    with io.BufferedReader(_Joined(parts, report), _PIECE) as raw:
        # tarfile's own reader of gzipped streams would not check their checksum.
        gzipped = raw.peek(2)[:2] == b"\x1f\x8b"
        stream = gzip.GzipFile(fileobj=raw) if gzipped else raw
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_CheckedHeader) as file:
            while (info := file.next()) is not None:
                if not info.isdir():
                    fault = "" if info.isfile() else "is a link or a device"
                    if info.issparse():  # its holes would be written as zeros
                        fault = "is a sparse file"
                    yield _Member(info.name, info.size, fault, partial(file.extractfile, info))
                file.members = []  # type: ignore[attr-defined]  # else a million stay in memory
        while stream.read(_PIECE):  # the checksum stands at the very end
            pass


class _CheckedHeader(tarfile.TarInfo):
    """A header of a tar file, refused before tarfile believes its size."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        info = super().frombuf(buf, encoding, errors)
        if info.size < 0:
            raise tarfile.ReadError("a header with a negative size")
        if info.size > _HEADER and info.type not in (*tarfile.REGULAR_TYPES, tarfile.DIRTYPE):
            raise tarfile.ReadError("a header that claims to be huge")
        return info


class _Joined(io.RawIOBase):
    def __init__(self, parts: Sequence[Path], report: Report) -> None:
        self._files = [part.open("rb") for part in parts]
        self._done, self._total = 0, sum(part.stat().st_size for part in parts)
        self._report = report

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        room, filled = memoryview(buffer), 0
        while filled < len(room) and self._files:
            count = self._files[0].readinto(room[filled:])
            filled += count
            if not count:
                self._files.pop(0).close()
        self._done += filled
        self._report(self._done, self._total)
        return filled

    def close(self) -> None:
        for file in self._files:
            file.close()
        super().close()
