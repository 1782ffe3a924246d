"""The photos that visitors can see: indexed ones by their number, uploaded ones by a secret name.

A visitor never names a file. Numbers count the index's photos in its own order, and go on for
photos that are added while the app runs. The number of a removed photo is not used again.
"""

import hashlib
import io
import secrets
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from fastapi.responses import FileResponse, Response
from PIL import Image

from solar.errors import SolarError
from solar.images import Roots, image_size, load
from solar.images.known_roots import confirmed_roots
from solar.images.readable import opened
from solar.images.roots import MARK
from solar.index import PhotoIndex
from solar.storage.types import Photo
from solar.web.cache import Cache
from solar.web.problems import WebError

UPLOADS = "uploads"
"""The folder for added photos, inside that of the photos."""

# Folders whose photos show unrelated things.
_UNLABELLED = {UPLOADS, "distractors"}


@dataclass(frozen=True)
class VisiblePhoto:
    """A photo that a visitor may see, upright."""

    id: str  # what visitors call it
    name: str  # its path in the index, or the name it was uploaded with
    width: int
    height: int
    source: Path | bytes  # what `solar.images.load` takes
    label: str | None = None  # what it shows, if known
    indexed: bool = True  # whether the index has its vector
    version: str = ""  # changes when another photo takes its id


class Collection:
    """The photos of an index, by number, in `root` or where the index remembers them."""

    def __init__(
        self, index: PhotoIndex, root: str | Path | None = None, labels: bool | None = None
    ) -> None:
        self.index = index
        self.moved = root
        self.roots = Roots()
        self.revision = 0
        """Grows whenever something changes."""
        self._labels = labels
        self._photos: list[Photo | None] = []
        self._versions: list[str] = []
        self._numbers: dict[str, int] = {}
        self._lock = threading.Lock()
        self.update()

    def __len__(self) -> int:
        return len(self._numbers)

    def update(self, moved: Mapping[str, str] | None = None) -> None:
        """Read what the index holds now; photos keep their numbers, those that `moved`, too."""
        with self._lock:
            known = dict(self._numbers)
            known |= {new: known[old] for old, new in (moved or {}).items() if old in known}
            photos: list[Photo | None] = [None] * len(self._photos)
            versions, numbers = [""] * len(photos), dict[str, int]()
            for batch in self.index.engine.photos():
                for photo in batch:
                    number = known.get(photo.path, len(photos))
                    if number == len(photos):
                        photos.append(None)
                        versions.append("")
                    photos[number], versions[number] = _slim(photo), version_of(photo)
                    numbers[photo.path] = number
            self._photos, self._versions, self._numbers = photos, versions, numbers
            roots = self.index.roots.moved_to(self.moved)
            if self.revision and self.moved is None:  # the index may name new folders by now
                seen = {root.path for root in self.roots.roots}
                named = {root.path for root in confirmed_roots(self.index.place, roots).roots}
                roots = Roots(tuple(one for one in roots.roots if one.path in seen | named))
            # Made anew, as a root that is a list or a shard remembers what it held.
            self.roots = Roots.read(roots.stored())
            self._root_names = {root.name for root in self.index.roots.roots if root.name}
            depths = {(path.partition(MARK)[2] or path).count("/") for path in numbers}
            looks = depths == {1} and _share_folders(numbers)
            self.labelled = looks if self._labels is None else self._labels
            marked = any(MARK in path for path in numbers)
            self.label_is_prefix = self.labelled and depths == {1} and not marked
            self.revision += 1

    def numbers(self, paths: Sequence[str]) -> list[int | None]:
        """The numbers of indexed photos, some of which another process may just have added."""
        unknown = [path for path in paths if path not in self._numbers]
        if unknown:
            self._take(list(self.index.engine.find(unknown).values()))
        return [self._numbers.get(path) for path in paths]

    @property
    def places(self) -> list[str]:
        """Folders of this machine that messages may contain and visitors should not see."""
        roots = (*self.roots.roots, *self.index.roots.roots)
        return [*(root.path for root in roots), self.index.place]

    def photo(self, number: int) -> Photo:
        """Facts of a photo, perhaps without its size; a WebError if there is none."""
        photo = self._photos[number] if 0 <= number < len(self._photos) else None
        if photo is None:
            raise WebError(404, f"There is no photo {number}.")
        return photo

    def path(self, number: int) -> str | None:
        """The path of a photo, None once it is removed; a WebError if no photo had this number."""
        if not 0 <= number < len(self._photos):
            raise WebError(404, f"There is no photo {number}.")
        photo = self._photos[number]
        return None if photo is None else photo.path

    def taken(self, path: str) -> str:
        """When a photo was taken; empty if unknown."""
        number = self._numbers.get(path)
        photo = None if number is None else self._photos[number]
        return (photo and photo.taken) or ""

    def version(self, number: int) -> str:
        """Changes with the content of a photo, see `version_of`."""
        return self._versions[number]

    def root(self, path: str) -> str:
        """The name of the root that a photo is below; empty if it has no name."""
        before, mark, _ = path.partition(MARK)
        return before if mark and before in self._root_names else ""

    def numbered(self) -> Iterator[tuple[int, Photo]]:
        """All photos, by number."""
        for number, photo in enumerate(self._photos):
            if photo is not None:
                yield number, photo

    def forget(self, paths: Iterable[str]) -> None:
        """Drop removed photos; their numbers stay unused."""
        with self._lock:
            numbers, photos = dict(self._numbers), list(self._photos)
            for path in paths:
                if (number := numbers.pop(path, None)) is not None:
                    photos[number] = None
            self._photos, self._numbers = photos, numbers
            self.revision += 1

    def with_content(self, sha256: str) -> str | None:
        """The path of an existing photo with this content, or None."""
        known = zip(self._photos, self._versions, strict=False)
        paths = [photo.path for photo, version in known if photo and sha256.startswith(version)]
        for path, photo in self.index.engine.find(paths).items() if paths else ():
            same = photo.stamp is not None and photo.stamp.sha256 == sha256
            if same and self.roots.find(path) is not None:
                return path
        return None

    def label(self, path: str) -> str | None:
        """The label of a photo, from its folder; right below a named root, from that."""
        if not self.labelled:
            return None
        folder = _folder(path)
        return None if folder in _UNLABELLED else folder or None

    def visible(self, number: int) -> VisiblePhoto:
        """A photo whose file exists; otherwise a WebError."""
        photo, version = self.photo(number), self.version(number)
        source = self.roots.find(photo.path)
        if source is None:
            raise WebError(404, f"The photo {photo.path} is no longer where it was indexed.")
        width, height = photo.width, photo.height
        if not (width and height):
            width, height = image_size(source)
        label = self.label(photo.path)
        return VisiblePhoto(str(number), photo.path, width, height, source, label, version=version)

    def _take(self, photos: Sequence[Photo]) -> None:
        with self._lock:
            for photo in photos:
                if photo.path not in self._numbers:
                    self._photos.append(_slim(photo))
                    self._versions.append(version_of(photo))
                    self._numbers[photo.path] = len(self._photos) - 1
                    self.revision += 1


def _slim(photo: Photo) -> Photo:
    return photo if photo.stamp is None else replace(photo, stamp=None)  # as large as the rest


def _folder(path: str) -> str:
    return path.rpartition("/")[0].rstrip("/").rpartition("/")[2]


def _share_folders(paths: Iterable[str]) -> bool:
    """Whether there are several folders, most with several photos."""
    folders = Counter(map(_folder, paths))
    counts = {name: count for name, count in folders.items() if name not in _UNLABELLED}
    return len(counts) > 1 and sum(n > 1 for n in counts.values()) * 2 > len(counts)


def version_of(photo: Photo) -> str:
    """A short hash in the addresses of pictures, so that caches never show another photo."""
    if photo.stamp is not None and photo.stamp.sha256:
        return photo.stamp.sha256[:8]
    return hashlib.sha256(photo.path.encode("utf-8", "surrogateescape")).hexdigest()[:8]


class Uploads(Cache[str, VisiblePhoto]):
    """Photos that visitors search with, in memory; those not used for longest are dropped first."""

    def __init__(self, budget: int) -> None:
        super().__init__(budget, lambda photo: len(photo.source))  # type: ignore[arg-type]

    def add(self, name: str, data: bytes, size: tuple[int, int]) -> VisiblePhoto:
        """Keep a photo under an unguessable id."""
        identity = f"q-{secrets.token_urlsafe(12)}"
        photo = VisiblePhoto(
            identity, name, *size, source=data, indexed=False, version=identity[2:10]
        )
        self.put(identity, photo)
        return photo

    def visible(self, identity: str) -> VisiblePhoto:
        """A photo; a WebError if there is none, or it was dropped."""
        photo = self.get(identity)
        if photo is None:
            raise WebError(404, "The server no longer has this photo: send it again.")
        return photo


def picture(source: Path | bytes, size: int) -> bytes:
    """A photo as an upright JPEG of at most `size` pixels per side, without metadata."""
    return _jpeg(load(source, size, mode="fast").pixels, 85)


def _jpeg(pixels: npt.NDArray[np.uint8], quality: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def plain_name(name: str) -> str:
    """The last part of a file's name, without control characters."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return "".join(c for c in last if c.isprintable())


def told_of_upload(error: Exception) -> str:
    """The message of an error, for the visitor who uploaded the photo."""
    return str(error).replace("The photo given as bytes", "The file")


def check_photo(data: bytes, max_pixels: int) -> tuple[int, int]:
    """Width and height of an uploaded photo; a WebError if it is no photo or too large."""
    try:
        width, height = image_size(data)
    except SolarError as error:
        raise WebError(415, told_of_upload(error)) from error
    _check_size(width, height, max_pixels, "send a smaller one")
    return width, height


def _check_size(width: int, height: int, most: int, advice: str) -> None:
    if width * height > most:
        raise WebError(
            413,
            f"The photo has {width:,} × {height:,} pixels, more than the limit of {most:,}: "
            f"{advice}.",
        )


# What browsers show; a file of any other kind is only ever saved.
_SHOWN = {
    "JPEG": "image/jpeg",
    "MPO": "image/jpeg",  # several JPEGs in one file, as some phones write
    "PNG": "image/png",
    "WEBP": "image/webp",
    "GIF": "image/gif",
    "AVIF": "image/avif",
}
_KEPT = {"Cache-Control": "private, max-age=3600"}


def jpeg_answer(data: bytes) -> Response:
    """The answer with a JPEG."""
    return Response(data, media_type="image/jpeg", headers=_KEPT)


def original(source: Path | bytes, most: int | None) -> Response:
    """The answer with a photo at full size: its file, or a JPEG of at most `most` pixels."""
    if most is not None:
        return jpeg_answer(_encoded(source, most))
    with opened(source) as image:  # a link may lead to anything by now: only photos are sent
        kind = _SHOWN.get(image.format or "")
    media = kind or "application/octet-stream"
    headers = _KEPT if kind else {**_KEPT, "Content-Disposition": "attachment"}
    if isinstance(source, bytes):  # from a tar shard
        return Response(source, media_type=media, headers=headers)
    return FileResponse(source, media_type=media, headers=headers)


def file_size(source: Path | bytes) -> int:
    """Bytes of a photo's file; 0 if it has just been deleted."""
    try:
        return len(source) if isinstance(source, bytes) else source.stat().st_size
    except OSError:
        return 0


def _encoded(source: Path | bytes, most: int) -> bytes:
    advice = "start the server with --originals to serve the file itself"
    _check_size(*image_size(source), most, advice)
    try:
        return _jpeg(load(source, None).pixels, 92)
    except OSError as error:  # a JPEG has at most 65,500 pixels per side
        raise SolarError(f"The photo cannot be converted to JPEG: {error}.") from error
