"""The photos that visitors can see: indexed ones by their number, uploaded ones by a secret name.

A visitor never names a file. Numbers count the index's photos in its own order, and go on for
photos that are added while the app runs.
"""

import hashlib
import io
import secrets
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from PIL import Image

from solar.errors import SolarError
from solar.images import image_size, load
from solar.search import Index
from solar.search.engine import Photo
from solar.web.cache import Cache
from solar.web.problems import WebError

UPLOADS = "uploads"
"""The folder, inside the photos' own, that added photos go to."""

# Folders whose photos show anything at all, so that no two of them match.
_UNLABELLED = {UPLOADS, "distractors"}


@dataclass(frozen=True)
class VisiblePhoto:
    """A photo that a visitor may see, upright."""

    id: str  # what visitors call it
    name: str  # its path in the index, or the name it was uploaded with
    width: int
    height: int
    source: Path | bytes  # what `solar.images.load` takes
    label: str | None = None  # what it shows, where that is known
    indexed: bool = True  # whether the index has its vector
    version: str = ""  # changes when another photo takes its id


class Collection:
    """The photos of an index, by number, in `root` or where the index remembers them.

    `labels` tells whether folders say what photos show; None to look.
    """

    def __init__(
        self, index: Index, root: str | Path | None = None, labels: bool | None = None
    ) -> None:
        self.index = index
        self.moved = root
        self.roots = index.roots.moved_to(root)
        self._photos: list[Photo] = []
        self._numbers: dict[str, int] = {}
        self._lock = threading.Lock()
        for batch in index.engine.photos():
            self._take(batch)
        self._flat = all(photo.path.count("/") == 1 for photo in self._photos)
        self.labelled = self._looks_labelled() if labels is None else labels

    def __len__(self) -> int:
        return len(self._photos)

    def numbers(self, paths: Sequence[str]) -> list[int | None]:
        """The numbers of indexed photos, some of which another process may just have added."""
        unknown = [path for path in paths if path not in self._numbers]
        if unknown:
            self._take([photo for photo, _ in self.index.engine.lookup(unknown).values()])
        return [self._numbers.get(path) for path in paths]

    @property
    def flat(self) -> bool:
        """Whether a label's photos are those whose path starts with it."""
        return self.labelled and self._flat

    def photo(self, number: int) -> Photo:
        """What is known of a photo, perhaps not its size; a WebError if there is no such number."""
        if not 0 <= number < len(self._photos):
            raise WebError(404, f"There is no photo {number}: the last one is {len(self) - 1}.")
        return self._photos[number]

    def label(self, path: str) -> str | None:
        """What a photo shows, by its folder."""
        if not self.labelled:
            return None
        folder = PurePosixPath(path).parent.name
        return None if folder in _UNLABELLED else folder or None

    def visible(self, number: int) -> VisiblePhoto:
        """A photo that is there; a WebError where there is no such number, or it has gone."""
        photo = self.photo(number)
        source = self.roots.find(photo.path)
        if source is None:
            raise WebError(404, f"The photo {photo.path} is not where the index remembers it.")
        width, height = photo.width, photo.height
        if not (width and height):
            width, height = image_size(source)
        label, version = self.label(photo.path), version_of(photo.path)
        return VisiblePhoto(str(number), photo.path, width, height, source, label, version=version)

    def select(
        self, offset: int, limit: int, label: str | None = None, search: str | None = None
    ) -> tuple[int, list[int]]:
        """How many photos have a label and a text in their name, and the numbers of some."""
        if label is None and not search:
            return len(self), list(range(len(self))[offset : offset + limit])
        wanted = (search or "").casefold()
        found = [
            number
            for number, photo in enumerate(self._photos)
            if wanted in photo.path.casefold()
            and (label is None or self.label(photo.path) == label)
        ]
        return len(found), found[offset : offset + limit]

    def _take(self, photos: Sequence[Photo]) -> None:
        with self._lock:
            for photo in photos:
                if photo.path not in self._numbers:
                    self._photos.append(photo)
                    self._numbers[photo.path] = len(self._photos) - 1

    def _looks_labelled(self) -> bool:
        """Whether all names are `label/photo`, and labels are shared."""
        if not self._flat:
            return False
        folders = Counter(photo.path.split("/")[0] for photo in self._photos)
        counts = {name: count for name, count in folders.items() if name not in _UNLABELLED}
        return len(counts) > 1 and sum(n > 1 for n in counts.values()) * 2 > len(counts)


def version_of(name: str) -> str:
    """A few letters that differ from photo to photo, so that browsers keep no wrong picture."""
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:8]


class Uploads:
    """Photos that visitors search with, in memory, the oldest forgotten first."""

    def __init__(self, budget: int, most: int = 1000) -> None:
        self._kept: Cache[str, VisiblePhoto] = Cache(budget, lambda photo: len(photo.source), most)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def nbytes(self) -> int:
        """Memory they take."""
        return self._kept.bytes

    def add(self, name: str, data: bytes, size: tuple[int, int]) -> VisiblePhoto:
        """Take a photo and give it an id that nobody can guess."""
        identity = f"q-{secrets.token_urlsafe(12)}"
        photo = VisiblePhoto(
            identity, name, *size, source=data, indexed=False, version=identity[2:10]
        )
        self._kept.put(identity, photo)
        return photo

    def get(self, identity: str) -> VisiblePhoto:
        """A photo; a WebError where it was never there or is forgotten."""
        photo = self._kept.get(identity)
        if photo is None:
            raise WebError(404, "This photo is not known any more: send it again.")
        return photo


def picture(source: Path | bytes, size: int, quality: int = 85) -> bytes:
    """A photo as an upright JPEG of at most so many pixels a side, without what its file says."""
    image = Image.fromarray(load(source, size, mode="fast").pixels)
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality, optimize=False)
    return buffer.getvalue()


def told_of_upload(error: SolarError) -> str:
    """What is wrong with an uploaded photo, in words of who sent it."""
    return str(error).replace("The photo given as bytes", "The file")


def check_photo(data: bytes, max_pixels: int) -> tuple[int, int]:
    """Width and height of an uploaded photo, from its header; a WebError if it is none to take."""
    try:
        width, height = image_size(data)
    except SolarError as error:
        raise WebError(415, told_of_upload(error)) from error
    if width * height > max_pixels:
        raise WebError(
            413,
            f"The photo has {width:,} × {height:,} pixels, more than the {max_pixels:,} taken "
            "here: send a smaller one.",
        )
    return width, height
