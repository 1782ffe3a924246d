"""Photos that visitors add: stored beside the others, and indexed as `solar index add` does it.

A photo is written to the disk before the visitor is answered, and before the index learns of it. A
crash leaves files in `uploads` that are not indexed, and nothing else; an update of the collection
takes them in.
"""

import hashlib
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import BinaryIO, NamedTuple

from PIL import Image

from solar.describe.progress import Progress
from solar.errors import SolarError
from solar.files import file_digest, make_folder, sync_folder, unwritable
from solar.images import Photos, Root
from solar.images.readable import opened
from solar.images.scan import SUFFIXES
from solar.index.ingest import Changes, apply
from solar.web.api.jobs import Jobs, StoppedError
from solar.web.api.schemas import Failed, Job
from solar.web.api.updating import PACE, RestoreAnswer, without_places
from solar.web.guard.thread_pools import Threads
from solar.web.photos import UPLOADS, Collection, check_photo, plain_name, told_of_upload
from solar.web.problems import HIDDEN, WebError
from solar.web.settings import WebSettings

_JOBS_WAITING = 4
_STEM_BYTES = 100  # of a file's name, without its suffix

# The usual ending of photos of a format.
_ENDINGS = {
    **{"JPEG": ".jpg", "MPO": ".jpg", "PNG": ".png", "WEBP": ".webp", "TIFF": ".tif"},
    **{"GIF": ".gif", "BMP": ".bmp", "AVIF": ".avif", "HEIF": ".heic"},
}

log = logging.getLogger("solar.web")


class _Stored(NamedTuple):
    name: str  # of the upload
    path: str  # in the index
    file: Path | None = None  # None: the index has the photo
    written: bool = False  # by us


class Adder:
    """Adds photos, if the server allows it; `changed` is called when the index has changed."""

    def __init__(
        self,
        collection: Collection,
        settings: WebSettings,
        threads: Threads,
        jobs: Jobs,
        changed: Callable[[], None],
    ) -> None:
        self._collection, self._settings, self._threads = collection, settings, threads
        self._jobs, self._changed = jobs, changed
        self._root = writable_root(collection) if settings.writable else None
        self._storing = threading.Lock()

    async def start(self, uploads: Sequence[tuple[str, BinaryIO]]) -> str:
        """Store uploads, by name, to index them later; the job's id. A WebError if many wait."""
        if self._jobs.waiting >= _JOBS_WAITING:
            raise WebError(503, "Too many photos are being added", wait=10)
        stored, failed = await self._threads.run(self._store_all, uploads)

        def work(job: Job, progress: Progress) -> None:
            job.failed += failed
            self._add(job, stored, progress)

        return self._jobs.start(work, len(uploads))

    def restore(self, names: Sequence[str]) -> RestoreAnswer:
        """Index removed photos again from their files."""
        index, removed = self._collection.index, set(self._collection.index.removed)
        failed, back = list[Failed](), dict[str, Path]()
        for name in dict.fromkeys(names):
            source = self._collection.roots.find(name) if name in removed else None
            if isinstance(source, Path):
                back[name] = source
            elif source is None:
                failed.append(Failed(name=name, error="It is no removed photo with a file."))
            else:
                index.restore([name])
                told = "It is in a tar shard: update the collection."
                failed.append(Failed(name=name, error=told))
        failures = self._index(back)
        failed += [self._failed(name, why) for name, why in failures.items()]
        restored = [name for name in back if name not in failures]
        index.restore(restored)
        self._ids(restored)
        photos = len(self._collection)
        return RestoreAnswer(restored=len(restored), failed=failed, photos=photos)

    def _store_all(
        self, uploads: Sequence[tuple[str, BinaryIO]]
    ) -> tuple[list[_Stored], list[Failed]]:
        """Store photos that the index does not have: what to index, and what failed."""
        stored, failed, paths = list[_Stored](), list[Failed](), dict[str, str]()
        with self._storing:
            for name, upload in uploads:
                try:
                    data = upload.read(self._settings.max_upload_bytes + 1)
                    content = hashlib.sha256(data).hexdigest()
                    path = paths.get(content) or self._collection.with_content(content)
                    one = self._store(name, data, content) if path is None else _Stored(name, path)
                    stored.append(one)
                    paths[content] = one.path
                except Exception as error:
                    failed.append(self._failed(name, error))
        return stored, failed

    def _store(self, name: str, data: bytes, content: str) -> _Stored:
        """Store a photo under a free name."""
        assert self._root is not None
        assert self._root.folder is not None
        if len(data) > (most := self._settings.max_upload_bytes):
            raise WebError(413, f"The photo is too large: the limit is {most / 2**20:.0f} MiB.")
        check_photo(data, self._settings.max_pixels)
        stem, ending = file_name(name, data)
        folder = self._root.folder / UPLOADS
        make_folder(folder)
        for number in count(1):
            own = f"{stem}-{number}{ending}" if number > 1 else f"{stem}{ending}"
            path, file = self._root.named(f"{UPLOADS}/{own}"), folder / own
            if path in self._collection.index:  # its file may be gone: that was another one
                continue
            if _put(data, file):
                return _Stored(name, path, file, written=True)
            if file.is_file() and file_digest(file) == content:
                return _Stored(name, path, file)
        raise AssertionError  # there is always another number

    def _add(self, job: Job, stored: Sequence[_Stored], progress: Progress) -> None:
        """Index photos, except those that the index has."""
        files = {
            one.path: one.file
            for one in stored
            if one.file is not None and one.path not in self._collection.index
        }
        new = {one.path: one for one in stored if one.file is not None and one.path in files}
        total, before = job.total, len(job.failed)
        try:
            failures: Mapping[str, Exception] = self._index(
                files, lambda step, done, _: progress(step, before + done, total)
            )
        except StoppedError:  # an update takes them in
            raise
        except Exception as error:
            failures = dict.fromkeys(new, error)
        for path, why in failures.items():
            job.failed.append(self._failed(new[path].name, why))
            if new[path].written:
                files[path].unlink(missing_ok=True)
        job.added += self._ids([path for path in new if path not in failures])
        for one in stored:
            if new.get(one.path) is one:
                continue
            ids = self._ids([one.path])
            if not ids:  # its twin among these could not be indexed
                why = SolarError("A file with the same photo could not be added.")
                job.failed.append(self._failed(one.name, why))
            job.added += ids
            job.known += ids
        job.done = total

    def _index(
        self, files: Mapping[str, Path], progress: Progress | None = None
    ) -> dict[str, Exception]:
        photos, index = Photos(tuple(files), tuple(files.values())), self._collection.index
        if not files:
            return {}
        new, how = Changes(new=photos.names), self._settings.device
        made = apply(index, photos, new, progress=progress, device=how, throughput=PACE)
        self._changed()
        return {path: SolarError(why) for path, why in made.skipped.items()}

    def _failed(self, name: str, error: Exception) -> Failed:
        if isinstance(error, SolarError | WebError):
            told = without_places(told_of_upload(error), self._collection.places)
            return Failed(name=name, error=told)
        log.error("adding a photo failed", exc_info=error)
        return Failed(name=name, error=HIDDEN)

    def _ids(self, paths: Sequence[str]) -> list[str]:
        numbers = self._collection.numbers(paths)
        return [str(number) for number in numbers if number is not None]


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
    last = plain_name(name).lstrip(". ")
    stem, dot, ending = last.rpartition(".")
    if f".{ending}".lower() not in SUFFIXES or not dot:
        stem, ending = last, ""
    stem = stem.encode()[:_STEM_BYTES].decode(errors="ignore").rstrip(". ") or "photo"
    named = Image.registered_extensions().get(f".{ending}".lower(), "")
    return stem, f".{ending}" if _ENDINGS.get(named) == _ENDINGS[kind] else _ENDINGS[kind]


def _put(data: bytes, file: Path) -> bool:
    """Write a file unless the name is taken."""
    try:
        with file.open("xb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        sync_folder(file.parent)
    except FileExistsError:
        return False
    except OSError as error:
        file.unlink(missing_ok=True)
        raise unwritable(file, error) from error
    return True
