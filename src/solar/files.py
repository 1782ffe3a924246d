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


def file_digest(path: Path, kind: str = "sha256") -> str:
    """The checksum of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


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
