"""Photos that visitors add: stored beside the others, described, and indexed.

A photo is written to the disk before the index learns of it. A crash in between leaves a file in
`uploads` that is not indexed, and nothing else; an update of the collection takes it in.

Uploads wait in a hidden folder inside `uploads` until all of them are described. A server that is
stopped leaves that folder, and the next one resumes it under the same id of the job.
"""

import asyncio
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from solar.arrays import Vectors
from solar.errors import SolarError
from solar.files import LOCK, file_digest, locked, make_folder, reading, regular, replacing
from solar.images import Photos, Root, Stamp
from solar.images.exif import exif_facts
from solar.images.opening import opened
from solar.images.scan import SUFFIXES
from solar.storage.types import Photo
from solar.web.api.schemas import Failed, Job
from solar.web.api.updating import new_identity, retried, without_places
from solar.web.cache import Cache
from solar.web.guard.thread_pools import NetworkThread, Threads
from solar.web.photos import UPLOADS, Collection, check_photo, told_of_upload
from solar.web.problems import HIDDEN, BusyError, WebError
from solar.web.served_model import ServedModel
from solar.web.settings import WebSettings

_JOBS_RUNNING = 4
_PIECE = 16  # photos indexed at a time: the steps of the progress
_STEM_BYTES = 100  # of a file's name, without its suffix
_WAITING = ".adding-"  # and the job's id: a folder of uploads, in files called 0, 1, …
_NAMES = "names.json"  # and the name of the index; written last, when the upload is complete
_PAUSE = 0.5  # seconds until a busy server is asked again

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
    """Adds photos; `changing` is held while the index changes.

    A SolarError if photos may be added, and there is no folder for them.
    """

    def __init__(
        self,
        collection: Collection,
        model: ServedModel,
        settings: WebSettings,
        network: NetworkThread,
        threads: Threads,
        jobs: Cache[str, Job],
        changing: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._collection, self._model, self._settings = collection, model, settings
        self._network, self._threads, self._changing = network, threads, changing
        self._jobs = jobs
        self._running: set[asyncio.Task[None]] = set()
        self._one_by_one = asyncio.Lock()  # or one photo could be stored twice at the same time
        self._root = writable_root(collection) if settings.writable else None

    def check(self) -> None:
        """Raise a WebError if no photos may be added."""
        if self._root is None:
            raise WebError(403, "No photos can be added here: start the server with --writable.")

    async def start(self, uploads: Sequence[tuple[str, BinaryIO]]) -> str:
        """Keep uploads, by name, from files that are closed afterwards; index them later.

        Returns the job's id; a WebError if nothing may be added, or too many are being added.
        """
        self.check()
        if len(self._running) >= _JOBS_RUNNING:
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

    async def restore(self, names: Sequence[str]) -> tuple[int, list[Failed]]:
        """Index removed photos again: how many, and which of them failed.

        They are described from their files, as tags and other facts are not kept.
        """
        job = Job(state="running", done=0, total=len(names), added=[], failed=[])
        photos, vectors = list[Photo](), list[Vectors]()
        index = self._collection.index
        removed = set(await self._threads.run(lambda: index.removed))
        async with self._one_by_one:
            for name in dict.fromkeys(names):
                try:
                    source = self._collection.roots.find(name) if name in removed else None
                    if source is None:
                        raise WebError(404, "It is not a removed photo whose file is there.")
                    data = source if isinstance(source, bytes) else source.read_bytes()
                    width, height, vector = await self._vector(data)
                    stamp = (
                        Photos((name,), (source,)).stamp(0) if isinstance(source, Path) else None
                    )
                    photos.append(
                        Photo(name, width, height, stamp=stamp, **exif_facts(data)._asdict())
                    )
                    vectors.append(vector)
                except Exception as error:
                    self._fail(job, name, error)
            if photos:
                back = [photo.path for photo in photos]
                with self._changing():
                    await self._index(photos, vectors)
                    await retried(lambda: self._threads.run(index.restore, back))
                self._ids(back)
        return len(photos), job.failed

    def resume(self) -> None:
        """Resume uploads that were waiting when the server was stopped."""
        if self._root is None:
            return
        for waiting in sorted(self._uploads.glob(f"{_WAITING}*")):
            with suppress(SolarError):  # another server is at it, or they are for another index
                self._begin(waiting)

    async def close(self) -> None:
        """Stop: photos that are indexed stay, and `resume` continues with the rest."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

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
            job = Job(state="running", done=0, total=len(names), added=[], failed=[])
            task = asyncio.create_task(self._run(job, names, waiting, held.pop_all()))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        identity = waiting.name.removeprefix(_WAITING)
        self._jobs.put(identity, job)
        return identity

    async def _run(self, job: Job, names: Sequence[str], waiting: Path, held: ExitStack) -> None:
        with held:
            for start in range(0, len(names), _PIECE):
                piece = range(len(names))[start : start + _PIECE]
                async with self._one_by_one:
                    await self._add(job, [(names[n], waiting / str(n)) for n in piece])
            await asyncio.to_thread(shutil.rmtree, waiting, ignore_errors=True)
            job.state = "done"

    async def _add(self, job: Job, uploads: Sequence[tuple[str, Path]]) -> None:
        """Describe some photos and index them at once, except those that the index has."""
        described: dict[str, tuple[str, Photo, Vectors]] = {}  # by content
        again: list[tuple[str, str]] = []  # names and paths of photos in the index
        written: list[Path] = []
        for name, file in uploads:
            try:
                most = self._settings.max_upload_bytes
                data: bytes = await _unhurried(self._threads.run, _read, file, most)
                content = hashlib.sha256(data).hexdigest()
                known = self._collection.with_content
                path: str | None = await _unhurried(self._threads.run, known, content)
                if content in described:
                    path = described[content][1].path
                if path is None:
                    described[content] = (name, *await self._describe(name, data, written))
                else:
                    again.append((name, path))
            except Exception as error:
                self._fail(job, name, error)
        new = list(described.values())
        if new:
            try:
                photos, vectors = [photo for _, photo, _ in new], [vector for *_, vector in new]
                with self._changing():
                    await self._index(photos, vectors)
            except Exception as error:
                for name, _, _ in new:
                    self._fail(job, name, error)
                new = []
                for file in written:
                    with suppress(OSError):
                        file.unlink()
        job.added += self._ids([photo.path for _, photo, _ in new])
        job.done += len(new)
        for name, path in again:
            ids = self._ids([path])
            if not ids:  # its twin among these could not be indexed
                self._fail(job, name, SolarError("A file with the same photo could not be added."))
                continue
            job.added += ids
            job.known += ids
            job.done += 1

    def _fail(self, job: Job, name: str, error: Exception) -> None:
        told = without_places(told_of_upload(error), self._collection.places)
        if isinstance(error, OSError):
            told = f"The file is not there any more: {error.strerror or 'send it again'}."
        elif not isinstance(error, SolarError | WebError):
            log.error("adding a photo failed", exc_info=error)
            told = HIDDEN
        job.failed.append(Failed(name=name, error=told))
        job.done += 1

    def _ids(self, paths: Sequence[str]) -> list[str]:
        numbers = self._collection.numbers(paths)
        return [str(number) for number in numbers if number is not None]

    async def _vector(self, data: bytes) -> tuple[int, int, Vectors]:
        """Width, height and vector of a photo."""
        work, most = self._threads.run, self._settings.max_pixels
        width, height = await _unhurried(work, check_photo, data, most)
        encoder = await self._model.encoder()
        pixels = await _unhurried(work, encoder.decode, data)
        key = (encoder, pixels.shape)
        return (
            width,
            height,
            await _unhurried(self._network.together, key, pixels, encoder.describe),
        )

    async def _describe(self, name: str, data: bytes, written: list[Path]) -> tuple[Photo, Vectors]:
        width, height, vector = await self._vector(data)
        path, stamp = await _unhurried(self._threads.run, self._store, name, data, written)
        return Photo(path, width, height, stamp=stamp, **exif_facts(data)._asdict()), vector

    def _store(self, name: str, data: bytes, written: list[Path]) -> tuple[str, Stamp]:
        """Write a photo under its own name or one like it; its path in the index, and its stamp.

        New files are appended to `written`.
        """
        assert self._root is not None
        stem, ending = file_name(name, data)
        make_folder(self._uploads)
        for number in count(1):
            own = f"{stem}-{number}{ending}" if number > 1 else f"{stem}{ending}"
            path, file = self._root.named(f"{UPLOADS}/{own}"), self._uploads / own
            if path in self._collection.index:  # its file may be gone: that was another one
                continue
            if _put(data, file):
                written.append(file)
            elif not file.is_file() or file_digest(file) != hashlib.sha256(data).hexdigest():
                continue
            return path, Photos((path,), (file,)).stamp(0)
        raise AssertionError  # there is always another number

    async def _index(self, photos: Sequence[Photo], vectors: Sequence[Vectors]) -> None:
        index = self._collection.index
        await retried(lambda: _unhurried(self._threads.run, index.add, np.stack(vectors), photos))


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
    """The stem and the suffix for an added photo; its content decides on the suffix.

    A SolarError if folders are not searched for photos of its format. `name` is the visitor's.
    """
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
    """Put uploads into a new folder, and their names last."""
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


async def _unhurried(ask: Callable[..., Awaitable[Any]], *given: Any) -> Any:
    """Retry while the queue is full: the request was answered, so no 503 can be sent."""
    while True:
        try:
            return await ask(*given)
        except BusyError:
            await asyncio.sleep(_PAUSE)
