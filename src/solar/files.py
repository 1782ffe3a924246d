"""Files: written so that a crash leaves the old one or the new one, and their checksums."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from solar.errors import SolarError


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; put what was written there in place at the end.

    An exception inside the block leaves the old file as it was. The bytes are on the disk before
    the name changes hands, so a power cut cannot leave an empty file.

    Raises:
        SolarError: The folder does not exist, is not writable, or the disk is full.
    """
    path = Path(path)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            temporary.chmod(0o666 & ~_umask())
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise SolarError(f"{path} cannot be written: {error.strerror or error}.") from error


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Say in a sentence that a file or folder cannot be read, where the system will not read it.

    Raises:
        SolarError: The block raised an `OSError`.
    """
    try:
        yield
    except OSError as error:
        raise SolarError(f"{path} cannot be read: {error.strerror or error}.") from error


def file_digest(path: Path, kind: str = "sha256") -> str:
    """The checksum of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
