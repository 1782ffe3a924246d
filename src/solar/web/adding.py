"""Photos that visitors add: stored beside the others, described, and indexed.

A photo is written to the disk before the index learns of it. A crash in between leaves a file in
`uploads` that is not indexed, and nothing else; `solar index add` takes it in.
"""

import asyncio
import datetime
import os
import secrets
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image

from solar.errors import SolarError
from solar.files import make_folder, replacing
from solar.search import Photo
from solar.search.engine import Vectors
from solar.search.index_build import taken_at
from solar.web.photos import UPLOADS, Collection, check_photo
from solar.web.problems import WebError
from solar.web.schemas import Failed, Job
from solar.web.served_model import ServedModel
from solar.web.settings import WebSettings
from solar.web.thread_pools import NetworkThread, Threads

_JOBS_KEPT = 200
_JOBS_RUNNING = 4
_PIECE = 16  # photos indexed at a time: what a visitor sees as progress
_ATTEMPTS = 5


class Adder:
    """Takes photos in; `changed` is called when the index has changed.

    A SolarError if photos may be added, and there is no folder to put them in.
    """

    def __init__(
        self,
        collection: Collection,
        model: ServedModel,
        settings: WebSettings,
        network: NetworkThread,
        threads: Threads,
        changed: Callable[[], None],
    ) -> None:
        self._collection, self._model, self._settings = collection, model, settings
        self._network, self._threads, self._changed = network, threads, changed
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._running: set[asyncio.Task[None]] = set()
        self._folder = _folder(collection) if settings.writable else None

    def check(self) -> None:
        """Raise a WebError where nothing may be added."""
        if self._folder is None:
            raise WebError(403, "No photos can be added here: start the server with --writable.")

    async def start(self, uploads: Sequence[tuple[str, BinaryIO]]) -> str:
        """Take photos, by name, from files that are closed afterwards; describe them behind it.

        Returns the job's id; a WebError if nothing may be added, or too many are being added.
        """
        self.check()
        if len(self._running) >= _JOBS_RUNNING:
            raise WebError(
                503, "Others are adding photos: try again in 10 s.", {"Retry-After": "10"}
            )
        waiting = Path(tempfile.mkdtemp(prefix="solar-adding-"))
        names = [name for name, _ in uploads]
        try:
            await self._threads.run(_copy, [file for _, file in uploads], waiting)
        except BaseException:
            shutil.rmtree(waiting, ignore_errors=True)
            raise
        identity = secrets.token_urlsafe(9)
        job = Job(state="running", done=0, total=len(names), added=[], failed=[])
        self._jobs[identity] = job
        while len(self._jobs) > _JOBS_KEPT:
            self._jobs.popitem(last=False)
        task = asyncio.create_task(self._run(job, names, waiting))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return identity

    def job(self, identity: str) -> Job:
        """How far a job is; a WebError where there is none, or it was long ago."""
        if identity not in self._jobs:
            raise WebError(404, "There is no such job.")
        return self._jobs[identity]

    async def close(self) -> None:
        """Break off what runs: photos that are indexed stay."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _run(self, job: Job, names: Sequence[str], waiting: Path) -> None:
        try:
            for start in range(0, len(names), _PIECE):
                await self._add(job, names, range(len(names))[start : start + _PIECE], waiting)
        finally:
            job.state = "done"
            await asyncio.to_thread(shutil.rmtree, waiting, ignore_errors=True)

    async def _add(self, job: Job, names: Sequence[str], numbers: range, waiting: Path) -> None:
        """Describe some photos and index them at once."""
        described: list[tuple[str, Photo, Vectors]] = []
        for number in numbers:
            try:
                described.append((names[number], *await self._describe(waiting / str(number))))
            except (SolarError, WebError) as error:
                job.failed.append(Failed(name=names[number], error=str(error)))
                job.done += 1
        if not described:
            return
        photos = [photo for _, photo, _ in described]
        try:
            await self._index(photos, [vector for _, _, vector in described])
        except SolarError as error:
            job.failed += [Failed(name=name, error=str(error)) for name, _, _ in described]
        else:
            numbers_now = self._collection.numbers([photo.path for photo in photos])
            job.added += [str(number) for number in numbers_now if number is not None]
            self._changed()
        job.done += len(described)

    async def _describe(self, file: Path) -> tuple[Photo, Vectors]:
        data = await self._threads.run(_read, file, self._settings.max_upload_bytes)
        width, height = await self._threads.run(check_photo, data, self._settings.max_pixels)
        encoder = await self._model.encoder()
        pixels = await self._threads.run(encoder.decode, data)
        key = (self._model.name, pixels.shape)
        vector = await self._network.together(key, pixels, encoder.describe)
        assert self._folder is not None
        path = await self._threads.run(_store, data, self._folder)
        return Photo(path, width, height, taken=taken_at(data)), vector

    async def _index(self, photos: Sequence[Photo], vectors: Sequence[Vectors]) -> None:
        index = self._collection.index
        for attempt in range(_ATTEMPTS):
            try:
                await self._threads.run(index.add, np.stack(vectors), photos)
                return
            except SolarError:  # another process may be writing for a moment
                if attempt == _ATTEMPTS - 1:
                    raise
                await asyncio.sleep(0.2 * 2**attempt)


def _folder(collection: Collection) -> Path:
    folders = [root.folder for root in collection.roots.roots]
    root = next((folder for folder in folders if folder is not None), None)
    if root is None or not root.is_dir() or not os.access(root, os.W_OK):
        raise SolarError(
            f"With --writable added photos go to the folder of the others, and {root} is none that "
            "can be written: name one with --photos."
        )
    return root / UPLOADS


def _copy(files: Sequence[BinaryIO], folder: Path) -> None:
    for number, file in enumerate(files):
        file.seek(0)
        with (folder / str(number)).open("wb") as copy:
            shutil.copyfileobj(file, copy, 2**20)


def _read(file: Path, most: int) -> bytes:
    if file.stat().st_size > most:
        raise WebError(413, f"The photo is too large: at most {most / 2**20:.0f} MiB are taken.")
    return file.read_bytes()


def _store(data: bytes, folder: Path) -> str:
    """Write a photo under a new name, and give that name as the index will know it."""
    with Image.open(BytesIO(data)) as image:
        kind = (image.format or "img").lower()
    kind = "jpg" if kind in ("jpeg", "mpo") else kind
    name = f"{datetime.date.today():%Y%m%d}-{secrets.token_hex(8)}.{kind}"
    make_folder(folder)
    with replacing(folder / name) as temporary:  # the name is random: nothing is replaced
        temporary.write_bytes(data)
    return f"{UPLOADS}/{name}"
