"""Photos that visitors add: stored beside the others, and indexed as `solar index add` does it.

A photo is written to the disk before the index learns of it. A crash in between leaves a file in
`uploads` that is not indexed, and nothing else; an update of the collection takes it in.

Uploads wait in a hidden folder inside `uploads` until all of them are described. A server that is
stopped leaves that folder, and the next one resumes it under the same id of the job.
"""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from itertools import count
from pathlib import Path
from typing import BinaryIO

from solar.describe.progress import Progress
from solar.errors import SolarError
from solar.files import LOCK, file_digest, locked, make_folder, reading, regular, replacing
from solar.images import Photos, Root
from solar.images.readable import opened
from solar.images.scan import SUFFIXES
from solar.index.ingest import Changes, apply
from solar.web.api.jobs import Jobs, StoppedError, new_identity
from solar.web.api.schemas import Failed, Job
from solar.web.api.updating import PACE, without_places
from solar.web.guard.thread_pools import Threads
from solar.web.photos import UPLOADS, Collection, check_photo, told_of_upload
from solar.web.problems import HIDDEN, WebError
from solar.web.settings import WebSettings

_JOBS_WAITING = 4
_STEM_BYTES = 100  # of a file's name, without its suffix
_WAITING = ".adding-"  # and the job's id: a folder of uploads, in files called 0, 1, …
_NAMES = "names.json"  # and the name of the index; written last, when the upload is complete

_JPEG = (".jpg", ".jpeg", ".jpe", ".jfif")
# The endings that photos of a format have, the usual one first.
_ENDINGS = {
    "JPEG": _JPEG,
    "MPO": _JPEG,
    "PNG": (".png",),
    "WEBP": (".webp",),
    "TIFF": (".tif", ".tiff"),
    "GIF": (".gif",),
    "BMP": (".bmp",),
    "AVIF": (".avif",),
    "HEIF": (".heic", ".heif"),
}


log = logging.getLogger("solar.web")


class Adder:
    """Adds photos, if the server allows it; `changing` is held while the index changes."""

    def __init__(
        self,
        collection: Collection,
        settings: WebSettings,
        threads: Threads,
        jobs: Jobs,
        changing: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._collection, self._settings, self._threads = collection, settings, threads
        self._jobs, self._changing = jobs, changing
        self._root = writable_root(collection) if settings.writable else None

    def check(self) -> None:
        """Raise a WebError if no photos may be added."""
        if self._root is None:
            raise WebError(403, "No photos can be added here: start the server with --writable.")

    async def start(self, uploads: Sequence[tuple[str, BinaryIO]]) -> str:
        """Keep uploads, by name, to index them later; the job's id. A WebError if many wait."""
        if self._jobs.waiting >= _JOBS_WAITING:
            raise WebError(
                503, "Too many photos are being added: try again in 10 s.", {"Retry-After": "10"}
            )
        waiting = self._uploads / f"{_WAITING}{new_identity()}"
        try:
            await self._threads.run(_keep, uploads, waiting, self._settings.name)
            return self._begin(waiting)
        except BaseException as error:
            shutil.rmtree(waiting, ignore_errors=True)
            if isinstance(error, OSError):
                why = error.strerror or error
                raise WebError(507, f"The photos cannot be stored here: {why}.") from error
            raise

    def restore(self, names: Sequence[str]) -> tuple[int, list[Failed]]:
        """Index removed photos again from their files: how many, and which of them failed."""
        index, removed = self._collection.index, set(self._collection.index.removed)
        job, back = Job(state="running", done=0, total=0, added=[], failed=[]), dict[str, Path]()
        for name in dict.fromkeys(names):
            source = self._collection.roots.find(name) if name in removed else None
            if isinstance(source, Path):
                back[name] = source
            elif source is None:
                self._fail(job, name, WebError(404, "It is no removed photo whose file is there."))
            else:
                index.restore([name])
                self._fail(job, name, WebError(422, "It is in a tar shard: update the collection."))
        failures = self._index(back)
        for name, why in failures.items():
            self._fail(job, name, why)
        restored = [name for name in back if name not in failures]
        index.restore(restored)
        self._ids(restored)
        return len(restored), job.failed

    def resume(self) -> None:
        """Resume uploads that were waiting when the server was stopped."""
        if self._root is None:
            return
        for waiting in sorted(self._uploads.glob(f"{_WAITING}*")):
            with suppress(SolarError):  # another server is at it, or they are for another index
                self._begin(waiting)

    @property
    def _uploads(self) -> Path:
        assert self._root is not None
        assert self._root.folder is not None
        return self._root.folder / UPLOADS

    def _begin(self, waiting: Path) -> str:
        """Index the photos of a folder in the background; a SolarError if another server does."""
        with ExitStack() as held:
            held.enter_context(locked(waiting / LOCK, "Another server is adding these photos."))
            if not (waiting / _NAMES).is_file():  # the upload was broken off
                shutil.rmtree(waiting, ignore_errors=True)
                raise SolarError("The upload of these photos was not completed.")
            with reading(waiting / _NAMES, "is damaged", ValueError, TypeError, KeyError):
                sent = json.loads((waiting / _NAMES).read_text("utf-8"))
                index, names = sent["index"], [str(name) for name in sent["names"]]
            if index != self._settings.name:
                raise SolarError("These photos were sent to another index.")
            lock = held.pop_all()

        def work(job: Job, progress: Progress) -> None:
            with lock:
                self._add(job, [(name, waiting / str(n)) for n, name in enumerate(names)], progress)
                shutil.rmtree(waiting, ignore_errors=True)

        return self._jobs.start(work, len(names), waiting.name.removeprefix(_WAITING))

    def _add(self, job: Job, uploads: Sequence[tuple[str, Path]], progress: Progress) -> None:
        """Store photos and index them, except those that the index has."""
        new, written = dict[str, tuple[str, Path]](), set[Path]()  # names and files, by path
        paths = dict[str, str]()  # by content
        again: list[tuple[str, str]] = []  # names and paths of photos in the index
        for name, file in uploads:
            progress("Storing", len(job.failed), len(uploads))
            try:
                data = _read(file, self._settings.max_upload_bytes)
                content = hashlib.sha256(data).hexdigest()
                path = paths.get(content) or self._collection.with_content(content)
                if path is not None:
                    again.append((name, path))
                    continue
                check_photo(data, self._settings.max_pixels)
                path, stored = self._store(name, data, written)
                new[path], paths[content] = (name, stored), path
            except Exception as error:
                self._fail(job, name, error)
        files, before = {path: file for path, (_, file) in new.items()}, len(job.failed)
        try:
            failures: Mapping[str, Exception] = self._index(
                files, lambda step, done, _: progress(step, before + done, len(uploads))
            )
        except StoppedError:  # the next server goes on
            raise
        except Exception as error:
            failures = dict.fromkeys(new, error)
        for path, why in failures.items():
            name, file = new[path]
            self._fail(job, name, why)
            if file in written:
                file.unlink(missing_ok=True)
        job.added += self._ids([path for path in new if path not in failures])
        for name, path in again:
            ids = self._ids([path])
            if not ids:  # its twin among these could not be indexed
                self._fail(job, name, SolarError("A file with the same photo could not be added."))
            job.added += ids
            job.known += ids
        job.done = len(uploads)

    def _index(
        self, files: Mapping[str, Path], progress: Progress | None = None
    ) -> dict[str, Exception]:
        photos, index = Photos(tuple(files), tuple(files.values())), self._collection.index
        if not files:
            return {}
        how = self._settings.device
        with self._changing():
            new = Changes(new=photos.names)
            made = apply(index, photos, new, progress=progress, device=how, throughput=PACE)
        return {path: SolarError(why) for path, why in made.skipped.items()}

    def _fail(self, job: Job, name: str, error: Exception) -> None:
        told = without_places(told_of_upload(error), self._collection.places)
        if isinstance(error, OSError):
            told = f"The file is not there any more: {error.strerror or 'send it again'}."
        elif not isinstance(error, SolarError | WebError):
            log.error("adding a photo failed", exc_info=error)
            told = HIDDEN
        job.failed.append(Failed(name=name, error=told))

    def _ids(self, paths: Sequence[str]) -> list[str]:
        numbers = self._collection.numbers(paths)
        return [str(number) for number in numbers if number is not None]

    def _store(self, name: str, data: bytes, written: set[Path]) -> tuple[str, Path]:
        """Store a photo under a free name, noted in `written`: its path in the index, its file."""
        assert self._root is not None
        stem, ending = file_name(name, data)
        make_folder(self._uploads)
        for number in count(1):
            own = f"{stem}-{number}{ending}" if number > 1 else f"{stem}{ending}"
            path, file = self._root.named(f"{UPLOADS}/{own}"), self._uploads / own
            if path in self._collection.index:  # its file may be gone: that was another one
                continue
            if _put(data, file):
                written.add(file)
            elif not file.is_file() or file_digest(file) != hashlib.sha256(data).hexdigest():
                continue
            return path, file
        raise AssertionError  # there is always another number


def writable_root(collection: Collection) -> Root:
    """The first root that added photos can go below; a SolarError if there is none."""
    for root in collection.roots.roots:
        # Not the folder of a list, which would not name them.
        if Path(root.path).is_dir() and os.access(root.path, os.W_OK):
            return root
    raise SolarError(
        "With `writable=True`, added photos are saved in the folder of the others, but none is "
        f"writable ({collection.roots or 'the index does not know any'}): name one with `photos=`."
    )


def file_name(name: str, data: bytes) -> tuple[str, str]:
    """The stem and suffix for an added photo of this content; a SolarError for other formats."""
    with opened(data) as image:
        kind = image.format or "unknown"
    if kind not in _ENDINGS:
        raise SolarError(f"The file is {kind}, which cannot be added: send it as JPEG or PNG.")
    last = name.replace("\\", "/").rpartition("/")[2]
    last = "".join(c for c in last if c.isprintable()).lstrip(". ")
    stem, dot, ending = last.rpartition(".")
    if f".{ending}".lower() not in SUFFIXES or not dot:
        stem, ending = last, ""
    stem = stem.encode()[:_STEM_BYTES].decode(errors="ignore").rstrip(". ") or "photo"
    fits = f".{ending}".lower() in _ENDINGS[kind]
    return stem, f".{ending}" if fits else _ENDINGS[kind][0]


def _put(data: bytes, file: Path) -> bool:
    """Write a file unless the name is taken."""
    try:
        file.open("xb").close()  # reserves the name
    except FileExistsError:
        return False
    except OSError as error:
        raise SolarError(f"{file.name} cannot be stored: {error.strerror or error}.") from error
    try:
        with replacing(file) as temporary:
            temporary.write_bytes(data)
    except BaseException:
        with suppress(OSError):
            file.unlink()
        raise
    return True


def _keep(uploads: Sequence[tuple[str, BinaryIO]], folder: Path, index: str) -> None:
    folder.mkdir(parents=True)
    for number, (_, file) in enumerate(uploads):
        file.seek(0)
        with (folder / str(number)).open("wb") as copy:
            shutil.copyfileobj(file, copy, 2**20)
    with replacing(folder / _NAMES, complaint=None) as temporary:
        sent = {"index": index, "names": [name for name, _ in uploads]}
        temporary.write_text(json.dumps(sent), "utf-8")


def _read(file: Path, most: int) -> bytes:
    if regular(file).stat().st_size > most:
        raise WebError(413, f"The photo is too large: the limit is {most / 2**20:.0f} MiB.")
    return file.read_bytes()
