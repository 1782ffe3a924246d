"""Get a public dataset: download and unpack it, resuming interrupted runs.

``<dataset>/.solar/<archive>.json`` is written after the last file of an archive. A half-fetched
archive is continued, a half-unpacked one unpacked again, a finished one left alone.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from solar.datasets.public import registry
from solar.datasets.public.registry import Archive, Dataset, File
from solar.errors import SolarError
from solar.files import beside, digest_note, file_digest, locked, noted_digest, reading, replacing

_ELSEWHERE = "choose another folder with `root=`"


def get(
    name: str,
    root: str | Path,
    *,
    release: str = "",
    only: Sequence[str] = (),
    keep_archives: bool = False,
    again: bool = False,
    check_space: bool = True,
    progress: bool = True,
    say: Callable[[str], None] = lambda sentence: None,
) -> Path:
    """Download and unpack a dataset into ``root/name``, or what of it is not here yet.

    For the Oxford and Paris photos the release is "blurred" (the default, and the only one still
    published) or "original". `only` names subsets (default: the dataset's default one).
    `keep_archives` leaves the archives in ``root/name/archives``; `again` also unpacks what was
    unpacked before; `check_space` refuses to start where the disk looks too small, the sizes being
    estimates. `say` gets a line for each file. Returns the dataset's folder.

    Raises:
        SolarError: The name, release or subset is unknown, the other release is there already, a
            download fails, an archive is damaged or not safe, the disk is too small or cannot be
            written to, or another process works in the folder.
    """
    dataset = registry.find(name).narrowed(only)
    folder = Path(root).expanduser() / dataset.name
    release = _release(dataset, folder, release)
    pending = [a for a in dataset.archives_of(release) if again or not is_unpacked(folder, a)]
    files = [file for file in dataset.files if not (folder / file.name).is_file()]
    if len(pending) > 1 or any(file.size for file in files):
        download, unpacked = registry.sizes(files, pending)
        say(f"{dataset.name}: about {_gb(download)} to download, {_gb(unpacked)} on disk.")
    if check_space:
        _check_space(dataset, folder, files, pending, keep_archives)
    with _alone(folder):
        for file in dataset.files:
            _fetch(file, folder / file.name, progress)
        wanted = _selections(folder, pending)
        for archive in pending:
            say(f"{archive.name}: about {_gb(archive.download)}.")
            parts = [folder / "archives" / part.name for part in archive.parts]
            for part, path in zip(archive.parts, parts, strict=True):
                _fetch(part, path, progress)
            count = _unpack(archive, parts, folder, wanted.get(archive.listed), progress)
            say(f"{archive.name}: {count:,} files unpacked.")
            if not keep_archives:
                _remove(folder / "archives", archive)
    return folder


def marker(folder: Path, archive: Archive) -> dict[str, Any] | None:
    """What was noted when an archive had been unpacked, or None."""
    try:
        noted = json.loads(_marker(folder, archive).read_text())
    except (OSError, ValueError):
        return None
    return noted if isinstance(noted, dict) else None


def is_unpacked(folder: Path, archive: Archive) -> bool:
    """Whether an archive was unpacked, with all of the photos that are to be kept now."""
    noted = marker(folder, archive)
    return noted is not None and noted.get("listed", "") in ("", archive.listed)


def _marker(folder: Path, archive: Archive) -> Path:
    return folder / ".solar" / f"{archive.name}.json"


def _release(dataset: Dataset, folder: Path, release: str) -> str:
    if release and release not in dataset.releases:
        choice = " or ".join(dataset.releases) or "there is only one"
        raise SolarError(f"{dataset.name} has no release {release!r}: {choice}.")
    release = release or next(iter(dataset.releases), "")
    # Photos of two releases in one folder would make results incomparable.
    for archive in dataset.archives:
        if archive.release not in ("", release) and marker(folder, archive):
            raise SolarError(
                f"{folder} holds the {archive.release} release already; delete that folder or "
                f"{_ELSEWHERE} for the {release} one."
            )
    return release


def _gb(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"


def _check_space(
    dataset: Dataset,
    folder: Path,
    files: Sequence[File],
    pending: Sequence[Archive],
    keep_archives: bool,
) -> None:
    downloads = [archive.download for archive in pending]
    _, needed = registry.sizes(files, pending)
    needed += sum(downloads) if keep_archives else max(downloads, default=0)
    archives = folder / "archives"
    here = sum(f.lstat().st_size for f in archives.iterdir()) if archives.is_dir() else 0
    existing = next(place for place in (folder, *folder.absolute().parents) if place.is_dir())
    free = shutil.disk_usage(existing).free
    if needed - here > free:
        raise SolarError(
            f"{dataset.name} needs about {_gb(needed - here)} but only {_gb(free)} are free "
            f"in {existing}; free some space, {_ELSEWHERE}, or ignore this estimate with "
            "`check_space=False`."
        )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    busy = f"Another process is downloading data to {folder}; wait until it is done."
    try:
        (folder / ".solar").mkdir(parents=True, exist_ok=True)
        with locked(folder / ".solar" / "lock", busy):
            yield
    except OSError as error:
        reason = error.strerror or error
        raise SolarError(f"Could not write to {folder}: {reason}; {_ELSEWHERE}.") from error


def _fetch(file: File, path: Path, progress: bool) -> None:
    from solar.download import fetch

    md5, mirrored = file.md5, file.mirrored or file.name
    if file.md5_file is not None:
        md5 = _published_md5(file.md5_file, path.with_name(file.md5_file.name))
    fetch(file.urls, path, file.sha256, progress=progress, elsewhere=_ELSEWHERE, name=mirrored)
    beside(path, ".lock").unlink(missing_ok=True)  # the folder has its own
    if md5 is not None and (found := file_digest(path, "md5")) != md5:
        raise SolarError(
            f"{path} has md5 {found} instead of {md5}; delete it, and set SOLAR_MIRRORS to a "
            "mirror that has the right one."
        )


def _published_md5(file: File, path: Path) -> str:
    _fetch(file, path, progress=False)
    with reading(path):
        words = path.read_bytes()[:1000].decode("ascii", "replace").lower().split()
    if not words or not re.fullmatch("[0-9a-f]{32}", words[0]):
        raise SolarError(f"{path} holds no md5; delete it to fetch it again.")
    return words[0]


def _selections(folder: Path, pending: Sequence[Archive]) -> dict[str, Callable[[str], bool]]:
    """For each list that selects photos of archives: whether a photo is in it."""
    if not (listed := {archive.listed for archive in pending if archive.listed}):
        return {}
    from solar.datasets.public.gldv2 import selection  # brings in numpy

    return {name: selection(folder / name) for name in listed}


def _unpack(
    archive: Archive,
    parts: Sequence[Path],
    folder: Path,
    wanted: Callable[[str], bool] | None,
    progress: bool,
) -> int:
    from solar.datasets.public.unpack import unpack

    count = unpack(
        parts,
        folder / archive.into,
        keep=archive.keep,
        suffixes=archive.suffixes,
        wanted=wanted,
        progress=progress,
    )
    pieces = [
        {
            "name": path.name,
            "bytes": path.stat().st_size,
            "sha256": noted_digest(path) or file_digest(path),
        }
        for path in parts
    ]
    noted = {"archive": archive.name, "release": archive.release, "files": count, "parts": pieces}
    if archive.listed:
        noted["listed"] = archive.listed
    if hasattr(os, "sync"):
        os.sync()  # the photos must be on the disk before the note that says so
    with replacing(_marker(folder, archive)) as temporary:
        temporary.write_text(json.dumps(noted, indent=2) + "\n")
    return count


def _remove(folder: Path, archive: Archive) -> None:
    for part in archive.parts:
        for file in (part, part.md5_file):
            if file is not None:
                (folder / file.name).unlink()
                digest_note(folder / file.name).unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()
