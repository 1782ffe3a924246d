"""Files: atomic writing, locks and checksums."""

import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from solar.errors import PassingError, SolarError

LOCK = ".lock"
TEMPORARY = re.compile(r"\.solar-\w{8,32}\.tmp")
"""Names of unfinished files, which a kill may leave behind."""

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

Complaint = Callable[[Path, OSError], SolarError]


def cache_directory() -> Path:
    """The folder for downloads: SOLAR_CACHE, else the user's cache folder.

    A new one is the user's alone: what is in it is trusted, such as confirmed folders of photos.
    """
    if chosen := os.environ.get("SOLAR_CACHE"):
        folder = Path(chosen).expanduser()
    else:
        import platformdirs

        folder = Path(platformdirs.user_cache_dir("solar"))
    with suppress(OSError):  # whoever writes to it reports this
        folder.mkdir(0o700, parents=True, exist_ok=True)
    return folder


def unwritable(path: Path, error: OSError) -> SolarError:
    """The error for a file or folder that cannot be written."""
    if isinstance(error, FileExistsError | NotADirectoryError):
        for above in path.parents:
            if above.exists() and not above.is_dir():
                return SolarError(f"{path} cannot be written: {above} is a file, not a folder.")
    if error.errno in _FULL:
        return full_disk(path, error)
    return SolarError(f"{path} cannot be written: {error.strerror or error}.")


def full_disk(path: Path, error: OSError | None = None) -> SolarError:
    """The error for a file or folder without room."""
    why = f" ({error.strerror})" if error else ""
    return SolarError(
        f"{path} cannot be written, because the disk is full{why}: make room and run the same "
        "command again; what is finished is kept."
    )


@contextmanager
def reading(path: str | Path, wrong: str = "", *signs: type[Exception]) -> Iterator[None]:
    """Turn failures to read a file or folder in the block into a SolarError that names it.

    Args:
        path: The file, or folder.
        wrong: The message for wrong content, "is not JSON" for example.
        *signs: The exceptions that show wrong content.
    """
    try:
        yield
    except SolarError:
        raise
    except OSError as error:
        raise SolarError(f"{path} cannot be read: {error.strerror or error}.") from error
    except signs as error:
        raise SolarError(f"{path} {wrong}.") from error


@contextmanager
def replacing(
    path: str | Path, *, durable: bool = True, complaint: Complaint | None = unwritable
) -> Iterator[Path]:
    """Yield a temporary path beside a file, which replaces the file at the end of the block.

    Args:
        path: The file; its folder is created if need be. An exception leaves the old file.
        durable: Survive a power cut. That takes milliseconds: not for thousands of files that can
            be made again.
        complaint: The error to raise where it cannot be written; None leaves the OSError.
    """
    path = Path(path)
    try:
        _make(path.parent)
        temporary = path.with_name(f".solar-{secrets.token_hex(8)}.tmp")
        temporary.touch(exist_ok=False)
        try:
            yield temporary
            if durable:
                with temporary.open("rb") as file:
                    os.fsync(file.fileno())
            temporary.replace(path)
            if durable:
                sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        if complaint is None:
            raise
        raise complaint(path, error) from error


@contextmanager
def writing(path: str | Path, newline: str = "\n") -> Iterator[TextIO]:
    """As `replacing`, a text file to write; names of files may be arbitrary bytes."""
    with (
        replacing(path) as temporary,
        temporary.open("w", encoding="utf-8", errors="surrogateescape", newline=newline) as out,
    ):
        yield out


def make_folder(folder: Path, marker: str | None = None, complaint: Complaint = unwritable) -> None:
    """Make a folder, and those above it.

    Args:
        folder: It may be there already.
        marker: A SolarError if the folder holds other files, besides the lock, but not this one.
        complaint: The error to raise where it cannot be made.
    """
    try:
        _make(folder)
        if marker is None or (folder / marker).exists():
            return
        files = {file.name for file in folder.iterdir() if not TEMPORARY.fullmatch(file.name)}
    except OSError as error:
        raise complaint(folder, error) from error
    if files - {LOCK}:
        raise SolarError(f"{folder} holds other files: choose a new or empty folder.")


@contextmanager
def locked(file: Path, busy: str | None = None) -> Iterator[None]:
    """Hold a lock file in the block.

    If another process has it, raise a PassingError with the text `busy`, or wait if that is None.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(file, timeout=-1 if busy is None else 0)
    try:
        lock.acquire()
    except Timeout:
        raise PassingError(busy or "") from None
    except OSError as error:
        raise unwritable(file.parent, error) from error
    try:
        yield
    finally:
        lock.release()


def sweep(folder: Path) -> None:
    """Delete unfinished files of a folder that no other process writes to."""
    for file in folder.iterdir() if folder.is_dir() else ():
        if TEMPORARY.fullmatch(file.name):
            file.unlink(missing_ok=True)


def regular(path: Path) -> Path:
    """Return the path; raise a SolarError if it is a link, a pipe or the like.

    Files of an untrusted index must not lead out of its folder, and reading a pipe would hang.
    """
    if not stat.S_ISREG(path.lstat().st_mode):
        raise SolarError(
            f"{path} is a link or not a regular file, and is not read: restore the file itself."
        )
    return path


def file_digest(path: Path, kind: str = "sha256") -> str:
    """The checksum of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def refuse_folder(path: Path, what: str) -> None:
    """A SolarError if the path for `what`, such as "the Parquet file", is a folder."""
    if path.is_dir():
        raise SolarError(f"{path} is a folder: name {what} to write.")


def refuse_places(places: Mapping[str, Path | None]) -> None:
    """A SolarError if one of the files to write, by what they are, is a folder or another one."""
    taken: dict[Path, str] = {}
    for what, path in places.items():
        if path is None:
            continue
        refuse_folder(path, what)
        other = taken.setdefault(path.resolve(), what)
        if other != what:
            raise SolarError(f"{path} cannot be both {other} and {what}: name two files.")


def beside(path: Path, suffix: str) -> Path:
    """A file next to another, with the suffix appended to its name."""
    return path.with_name(path.name + suffix)


def digest_note(path: Path) -> Path:
    """The file for the digest of a download without a published one, in sha256sum's format."""
    return beside(path, ".sha256")


def noted_digest(path: Path) -> str | None:
    """The digest in that file, if it exists."""
    note = digest_note(path)
    with reading(note, "is not text: delete it", ValueError):
        return next(iter(note.read_text().split()), None) if note.is_file() else None


def sync_folder(folder: Path) -> None:
    """Make new names in a folder survive a power cut (not on Windows)."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _make(folder: Path) -> None:
    """Make a folder and those above it, and sync them."""
    new = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for one in reversed(new):
        sync_folder(one.parent)


def is_text(name: str) -> bool:
    """Whether a name is valid text; file names may be arbitrary bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in name
