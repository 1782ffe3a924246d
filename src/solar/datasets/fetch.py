"""Get a public dataset: fetch, unpack, and remember what is done.

What has been unpacked is noted in ``<dataset>/.solar/<archive>.json``, written after the last of
its files, so an interrupted run goes on where it was: a half-fetched archive is continued, a
half-unpacked one unpacked again, a finished one left alone.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from solar.datasets import registry
from solar.datasets.registry import Archive, Dataset, File
from solar.errors import SolarError
from solar.files import beside, digest_note, file_digest, locked, noted_digest, replacing

_ELSEWHERE = "choose another folder with --root"


def get(
    name: str,
    root: str | Path,
    *,
    release: str = "",
    keep_archives: bool = False,
    again: bool = False,
    check_space: bool = True,
    progress: bool = True,
    say: Callable[[str], None] = lambda sentence: None,
) -> Path:
    """Download and unpack a dataset into ``root/name``, or what of it is not here yet.

    For the Oxford and Paris photos the release is "blurred" (the default, and the only one that is
    still published) or "original". `keep_archives` leaves the archives in ``root/name/archives``;
    `again` also unpacks what was unpacked before; `check_space` refuses to start where the disk
    looks too small, the sizes being estimates. `say` is told what is being done.

    Returns:
        The dataset's folder.

    Raises:
        SolarError: The name or release is unknown, the other release is there already, a file
            cannot be had, an archive is damaged or not to be trusted, the disk is too small or
            cannot be written to, or another process is at work in the folder.
    """
    dataset = registry.find(name)
    release = _chosen(dataset, release)
    folder = Path(root).expanduser() / dataset.name
    _refuse_mixture(dataset, folder, release)
    pending = [a for a in dataset.archives_of(release) if again or marker(folder, a) is None]
    if check_space:
        _check_space(dataset, folder, pending, keep_archives)
    with _alone(folder):
        for file in dataset.files:
            _fetch(file, folder / file.name, progress)
        for archive in pending:
            say(f"{archive.name}: about {archive.download / 1e9:.1f} GB.")
            parts = [folder / "archives" / part.name for part in archive.parts]
            for part, path in zip(archive.parts, parts, strict=True):
                _fetch(part, path, progress)
            count = _unpack(archive, parts, folder, progress)
            say(f"{archive.name}: {count:,} files unpacked.")
            if not keep_archives:
                _remove(parts)
    return folder


def marker(folder: Path, archive: Archive) -> dict[str, Any] | None:
    """What was noted when an archive had been unpacked, or None if it was not."""
    try:
        noted = json.loads(_marker(folder, archive).read_text())
    except (OSError, ValueError):
        return None
    return noted if isinstance(noted, dict) else None


def _marker(folder: Path, archive: Archive) -> Path:
    return folder / ".solar" / f"{archive.name}.json"


def _chosen(dataset: Dataset, release: str) -> str:
    if release and release not in dataset.releases:
        choice = " or ".join(dataset.releases) or "there is only one"
        raise SolarError(f"{dataset.name} has no release {release!r}: {choice}.")
    return release or next(iter(dataset.releases), "")


def _refuse_mixture(dataset: Dataset, folder: Path, release: str) -> None:
    """Photos of two releases in one folder would make numbers that nobody can compare."""
    for archive in dataset.archives:
        if archive.release not in ("", release) and marker(folder, archive):
            raise SolarError(
                f"{folder} holds the {archive.release} release already; delete that folder or "
                f"{_ELSEWHERE} for the {release} one."
            )


def _check_space(
    dataset: Dataset, folder: Path, pending: Sequence[Archive], keep_archives: bool
) -> None:
    """Compare estimates with what is free, before hours are spent."""
    if not pending:
        return
    downloads = [archive.download for archive in pending]
    needed = sum(archive.unpacked for archive in pending)
    needed += sum(downloads) if keep_archives else max(downloads)
    archives = folder / "archives"
    here = sum(f.lstat().st_size for f in archives.iterdir()) if archives.is_dir() else 0
    existing = next(place for place in (folder, *folder.absolute().parents) if place.is_dir())
    free = shutil.disk_usage(existing).free
    if needed - here > free:
        raise SolarError(
            f"{dataset.name} needs about {(needed - here) / 1e9:,.1f} GB but only "
            f"{free / 1e9:,.1f} GB are free in {existing}; free some room, {_ELSEWHERE}, or "
            "ignore this estimate with --ignore-space."
        )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other processes out of a dataset's folder."""
    from solar.download import refuse_links  # brings in http, which checking a dataset does not

    busy = f"Another process is getting data into {folder}; wait until it is done."
    try:
        (folder / ".solar").mkdir(parents=True, exist_ok=True)
        refuse_links(folder / ".solar" / "lock")
        with locked(folder / ".solar" / "lock", busy):
            yield
    except OSError as error:
        raise SolarError(
            f"Could not write to {folder}: {error.strerror or error}; {_ELSEWHERE}."
        ) from error


def _fetch(file: File, path: Path, progress: bool) -> None:
    from solar.download import fetch

    fetch(file.urls, path, file.sha256, progress=progress, elsewhere=_ELSEWHERE)
    beside(path, ".lock").unlink(missing_ok=True)  # the folder has its own
    if file.md5 is not None and (found := file_digest(path, "md5")) != file.md5:
        raise SolarError(
            f"{path} has md5 {found} instead of {file.md5}; delete it, and set SOLAR_MIRRORS to a "
            "mirror that has the right one."
        )


def _unpack(archive: Archive, parts: Sequence[Path], folder: Path, progress: bool) -> int:
    from solar.datasets.unpack import unpack

    into, suffixes = folder / archive.into, archive.suffixes
    count = unpack(parts, into, keep=archive.keep, suffixes=suffixes, progress=progress)
    digests = {path: noted_digest(path) or file_digest(path) for path in parts}
    pieces = [
        {"name": path.name, "bytes": path.stat().st_size, "sha256": digest}
        for path, digest in digests.items()
    ]
    noted = {"archive": archive.name, "release": archive.release, "files": count, "parts": pieces}
    if hasattr(os, "sync"):
        os.sync()  # the photos must be on the disk before the note that says so
    with replacing(_marker(folder, archive)) as temporary:
        temporary.write_text(json.dumps(noted, indent=2) + "\n")
    return count


def _remove(parts: Sequence[Path]) -> None:
    for path in parts:
        path.unlink()
        digest_note(path).unlink(missing_ok=True)
    if not any(parts[0].parent.iterdir()):
        parts[0].parent.rmdir()
