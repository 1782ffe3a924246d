"""Files: written so that a crash leaves the old one or the new one, locks, and checksums."""

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from solar.errors import PassingError, SolarError

LOCK = ".lock"
TEMPORARY = re.compile(r"\.solar-\w{8,32}\.tmp")
"""What files are called until they are whole: a kill may leave some behind."""

Complaint = Callable[[Path, OSError], SolarError]


def cache_directory() -> Path:
    """The folder for downloads: SOLAR_CACHE, else the user's cache folder."""
    if chosen := os.environ.get("SOLAR_CACHE"):
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("solar"))


def unwritable(path: Path, error: OSError) -> SolarError:
    """The complaint about a file or folder that cannot be written."""
    if isinstance(error, FileExistsError | NotADirectoryError):
        for above in path.parents:
            if above.exists() and not above.is_dir():
                return SolarError(f"{path} cannot be written: {above} is a file, not a folder.")
    return SolarError(f"{path} cannot be written: {error.strerror or error}.")


@contextmanager
def reading(path: str | Path, wrong: str = "", *signs: type[Exception]) -> Iterator[None]:
    """Turn what fails in the block, in which a file is read, into a SolarError about that file.

    Args:
        path: The file, or folder.
        wrong: What to say if its content is not what it should be, "is not JSON" for example.
        *signs: The exceptions that show this.
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
    """Yield a temporary path in the same folder; put what was written there in place at the end.

    The folder is made if it is not there.

    Args:
        path: The file; an exception inside the block leaves the old one as it was.
        durable: Have bytes and name on the disk at the end, whatever happens to the power. That
            takes milliseconds: not for thousands of files that can be made again.
        complaint: The error to raise where it cannot be written; None leaves the OSError as it is.
    """
    path = Path(path)
    try:
        _make(path.parent)
        handle, name = tempfile.mkstemp(".tmp", ".solar-", path.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            temporary.chmod(0o666 & ~_umask())
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


def make_folder(
    folder: Path,
    marker: str | None = None,
    beside: frozenset[str] = frozenset(),
    complaint: Complaint = unwritable,
) -> None:
    """Make a folder, and those above it.

    Args:
        folder: It may be there already.
        marker: A file without which a folder that holds others is somebody else's: a SolarError.
        beside: Files that may be there before the marker, like the lock.
        complaint: The error to raise where it cannot be made.
    """
    try:
        _make(folder)
        if marker is None or (folder / marker).exists():
            return
        files = {file.name for file in folder.iterdir() if not TEMPORARY.fullmatch(file.name)}
    except OSError as error:
        raise complaint(folder, error) from error
    if files - beside - {LOCK}:
        raise SolarError(f"{folder} holds other files: choose a new or empty folder.")


@contextmanager
def locked(
    file: Path, busy: str | None = None, *, complaint: Complaint = unwritable
) -> Iterator[None]:
    """Keep other processes that take the same lock out of the block.

    Args:
        file: An empty file, made if it is not there.
        busy: The PassingError where another process is inside; None waits until it is done.
        complaint: The error to raise where the file cannot be written.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(file, timeout=-1 if busy is None else 0)
    try:
        lock.acquire()
    except Timeout:
        raise PassingError(busy or "") from None
    except OSError as error:
        raise complaint(file.parent, error) from error
    try:
        yield
    finally:
        lock.release()


def sweep(folder: Path) -> None:
    """Delete files of a folder that were never finished; only for who has it alone."""
    for file in folder.iterdir() if folder.is_dir() else ():
        if TEMPORARY.fullmatch(file.name):
            file.unlink(missing_ok=True)


def regular(path: Path) -> Path:
    """The path, of which it is certain that it is a file of its own and not a link to another.

    FileNotFoundError if there is none; a SolarError if it is a link, a pipe or anything else: what
    is in somebody's folder must not lead out of it, and a pipe would never end.
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
    """A SolarError if a folder is where `what`, such as "the Parquet file", is to be written."""
    if path.is_dir():
        raise SolarError(f"{path} is a folder: name {what} to write.")


def refuse_places(places: Mapping[str, Path | None]) -> None:
    """A SolarError if a folder is where a file is to be written, or two would be one.

    Args:
        places: Where they are to be, by what they are.
    """
    taken: dict[Path, str] = {}
    for what, path in places.items():
        if path is None:
            continue
        refuse_folder(path, what)
        other = taken.setdefault(path.resolve(), what)
        if other != what:
            raise SolarError(f"{path} cannot be both {other} and {what}: name two files.")


def beside(path: Path, suffix: str) -> Path:
    """A file next to another, whose name goes on with the suffix."""
    return path.with_name(path.name + suffix)


def digest_note(path: Path) -> Path:
    """Where the digest of a file without a published one is noted, in sha256sum's format."""
    return beside(path, ".sha256")


def noted_digest(path: Path) -> str | None:
    """What that note says, if there is one."""
    note = digest_note(path)
    return next(iter(note.read_text().split()), None) if note.is_file() else None


def sync_folder(folder: Path) -> None:
    """Make new names in a folder survive a power cut, where the system has a way to ask for it."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _make(folder: Path) -> None:
    """Make a folder and those above it, so that they survive a power cut."""
    new = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for one in reversed(new):
        sync_folder(one.parent)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def is_text(name: str) -> bool:
    """Whether a name is text: some old file names are bytes that mean none."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in name
