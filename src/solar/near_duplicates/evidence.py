"""Which of two copies the other was made from, as far as their files and their pixels tell.

A program that saves a photo again can be imitated: where laying and scaling one photo and encoding
it with the tables of the other gives that other, and not the other way round, the second was made
from the first. What was enlarged, blurred or reduced to a palette has less detail than it has
pixels. All of it is measured at the size of the files, in a part of large ones.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from PIL import ExifTags, Image, JpegImagePlugin

from solar.arrays import Floats
from solar.images import read_image
from solar.images.exif import exif_of, orientation_of, turned
from solar.images.readable import Source, opened
from solar.near_duplicates.orientations import laid_photo, opposite
from solar.near_duplicates.pixel_compare import Region, tiles

Verdict: TypeAlias = tuple[str, str]
"""The photo to keep, `a` or `b`, or nothing, and why."""

_EDITORS = re.compile(
    r"photoshop|lightroom|gimp|snapseed|picasa|affinity|pixelmator|paint|darktable|rawtherapee"
    r"|capture one|luminar|imagemagick|instagram|vsco|acdsee|irfanview|xnview|photos \d",
    re.IGNORECASE,
)
_UNTOUCHED, _CAMERA = 2, 1
_LOSSLESS = {"PNG", "GIF", "BMP", "TIFF", "PPM", None}
_BACK = {6: 8, 8: 6}  # orientations that undo others; the rest undo themselves
_SIDE, _MCU = 1024, 16  # of the part that is looked at, and what its edges are multiples of
_LARGEST = 4_000_000  # pixels of photos that are scaled as a whole
_SCALERS = tuple(map(Image.Resampling, (4, 5, 0, 1, 2, 3)))
_EXPLAINED = 0.05  # share of the difference that is left
_TRACED = 0.2  # share of the change that encoding a photo for the first time makes
_SAME = 0.1  # grey levels
_PALETTE = 256
_SMALLER = 0.85  # with fewer pixels in a line, one may have less detail
_DETAILED, _ENLARGED = 0.16, 0.02  # power above what the smaller one can have, of that just below
_BLURRED = 0.08  # power of the finest detail, of that of the other
_TILE = 64
_WINDOW = np.outer(np.hanning(_TILE), np.hanning(_TILE))
_WAVES = 2 * np.hypot(np.fft.fftfreq(_TILE)[:, None], np.fft.rfftfreq(_TILE)[None])  # 1: finest
_NOISE = 0.1 * float((_WINDOW**2).sum())  # a third of a grey level


@dataclass(frozen=True, eq=False)
class FileTraces:
    """What a file tells about where it comes from.

    Attributes:
        source: The photo.
        origin: 2 for a file as a camera wrote it, 1 if it says when or with what it was taken.
        tables: Quantisation tables of a JPEG.
        sampling: Of its colours, as Pillow numbers it.
        mode: Pillow's name of its pixels.
        orientation: Of the stored pixels, by EXIF.
        lossy: Whether its format loses detail.
    """

    source: Source
    origin: int = 0
    tables: tuple[tuple[int, ...], ...] = ()
    sampling: int = -1
    mode: str = "RGB"
    orientation: int = 1
    lossy: bool = False

    @classmethod
    def of(cls, source: Source) -> FileTraces:
        """Read them; a SolarError if it is no photo."""
        with opened(source) as image:
            tables: tuple[tuple[int, ...], ...] = ()
            sampling = -1
            if isinstance(image, JpegImagePlugin.JpegImageFile):
                tables = tuple(tuple(table) for table in image.quantization.values())
                sampling = JpegImagePlugin.get_sampling(image)
            lossy = image.format not in _LOSSLESS
            upright = orientation_of(image)
            return cls(source, _origin(image), tables, sampling, image.mode, upright, lossy)

    @cached_property
    def upright(self) -> Image.Image:
        """The whole photo."""
        return read_image(self.source)

    def stored(self, upright: Image.Image) -> Image.Image:
        """A photo turned as this one is in its file."""
        return turned(upright, _BACK.get(self.orientation, self.orientation))

    def encoded(self, stored: Image.Image) -> Image.Image:
        """What would be read again if a photo were encoded as this one is."""
        if not self.tables:
            return stored
        out = io.BytesIO()
        tables = {number: list(table) for number, table in enumerate(self.tables)}
        stored.convert(self.mode).save(out, "JPEG", qtables=tables, subsampling=self.sampling)
        return Image.open(out).convert("RGB")


def _origin(image: Image.Image) -> int:
    try:
        exif = exif_of(image)
        details, preview = exif.get_ifd(ExifTags.IFD.Exif), exif.get_ifd(ExifTags.IFD.IFD1)
        tags = ExifTags.Base
        taken = details.get(tags.DateTimeOriginal)
        sizes = details.get(tags.ExifImageWidth), details.get(tags.ExifImageHeight)
        own = bool(exif.get(tags.Make) and (details.get(tags.MakerNote) or preview) and taken)
        changed = (
            "jfif" in image.info  # cameras write no such header
            or _EDITORS.search(str(exif.get(tags.Software, ""))) is not None
            or (all(sizes) and sorted(str(side) for side in sizes) != sorted(map(str, image.size)))
            or exif.get(tags.DateTime, taken) != taken
        )
        known = bool(taken or exif.get(tags.Make) or exif.get(tags.Model))
    except Exception:  # damaged EXIF raises anything, and says nothing
        return 0
    return _UNTOUCHED if own and not changed else _CAMERA if known else 0


def whole_verdict(a: FileTraces, b: FileTraces, way: int, *, exact: bool) -> Verdict:
    """Of two photos of the same extent, b laid on a in one of the eight ways."""
    camera = a.origin == _UNTOUCHED, b.origin == _UNTOUCHED
    if camera[0] != camera[1]:
        return _chosen(*camera, "the file as the camera wrote it")
    if exact:  # a lossless copy of a JPEG has its pixels, a JPEG of another file hardly ever
        return _chosen(bool(a.tables), bool(b.tables), "the other is decoded from this JPEG")
    back = opposite(way)
    if (found := _imitated(a, b, _left(a, b, back), _left(b, a, way)))[0]:
        return found
    for name, one, other, lying in (("a", a, b, way), ("b", b, a, back)):
        if one.tables and not other.lossy and _traced(one, other, lying) < _TRACED:
            return name, "the other is decoded from this JPEG"
    first, second = (_colours(one.upright) for one in (a, b))
    if min(first, second) <= _PALETTE < max(first, second) / 4:
        return _chosen(first > second, first < second, "more than 256 colours")
    if (a.mode == "CMYK") != (b.mode == "CMYK"):
        return _chosen(a.mode != "CMYK", b.mode != "CMYK", "not converted for print")
    whole = (Region(0, 0, *map(float, one.size)) for one in (a.upright, laid_photo(b.upright, way)))
    found = detail_verdict(a, b, way, *whole)
    if found[0]:
        return found
    return _chosen(a.origin > 0, b.origin > 0, "its file says when or with what it was taken")


def _imitated(a: FileTraces, b: FileTraces, there: float, back: float) -> Verdict:
    """What follows from how much of the difference is left, each way, when saving is imitated."""
    made = there < _EXPLAINED, back < _EXPLAINED
    why = "saving it again gives the other"
    if made == (True, True):  # the larger and the finer one add nothing
        areas = [one.upright.width * one.upright.height for one in (a, b)]
        if areas[0] != areas[1]:
            return "ab"[int(np.argmin(areas))], why
        steps = [sum(map(sum, one.tables)) / max(len(one.tables), 1) for one in (a, b)]
        return ("ab"[int(np.argmax(steps))], why) if max(steps) > 1.1 * min(steps) else ("", "")
    other = b if made[1] else a
    if any(made) and (other.tables or not other.lossy):  # or saving it cannot be imitated
        return "ab"[made[1]], why
    return "", ""


def _chosen(first: bool, second: bool, why: str) -> Verdict:
    return ("a" if first else "b", why) if first != second else ("", "")


def _left(a: FileTraces, b: FileTraces, way: int) -> float:
    """The share of the difference of a photo from a that encoding a as it does not explain."""
    there, laid = b.stored(b.upright), b.stored(laid_photo(a.upright, way))
    if laid.size == there.size:
        box = _middle(there.size)
        return _unexplained(laid.crop(box), there.crop(box), b)
    if max(one.width * one.height for one in (laid, there)) > _LARGEST:
        return 1.0
    return min(_unexplained(laid.resize(there.size, one), there, b) for one in _SCALERS)


def _unexplained(a: Image.Image, b: Image.Image, like: FileTraces) -> float:
    before, after = (np.asarray(one, np.float32) for one in (a, like.encoded(a)))
    there = np.asarray(b, np.float32)
    off = (np.abs(one - there).mean(axis=2) for one in (before, after))
    plain, left = (tiles(one, _MCU, _MCU).mean(axis=1) for one in off)
    differ = plain > _SAME
    # Text over a photo changes some blocks: the others tell.
    some = differ.size and differ.mean() > 0.2
    return float(np.median(left[differ] / plain[differ])) if some else 1.0


def _traced(a: FileTraces, b: FileTraces, way: int) -> float:
    """How little encoding b as a changes it, which was encoded so before if it was made from a."""
    laid = laid_photo(b.upright, way)
    if laid.size != a.upright.size:
        return 1.0
    laid = a.stored(laid)
    left, top, right, low = _middle(laid.size)
    changes = []
    for move in (0, 4):
        part = laid.crop((left + move, top + move, right, low))
        changes.append(np.abs(np.asarray(part, np.float32) - np.asarray(a.encoded(part))).mean())
    return float(changes[0] / max(changes[1], 1e-6))


def _middle(size: tuple[int, int]) -> tuple[int, int, int, int]:
    """A part in the middle of a photo, along the blocks in which it is encoded."""
    left, top = (max(side - _SIDE, 0) // 2 // _MCU * _MCU for side in size)
    return left, top, min(left + _SIDE, size[0]), min(top + _SIDE, size[1])


def _colours(photo: Image.Image) -> int:
    part = photo.crop(_middle(photo.size))
    return len(part.getcolors(part.width * part.height) or ())


def detail_verdict(a: FileTraces, b: FileTraces, way: int, in_a: Region, in_b: Region) -> Verdict:
    """Which of two photos has finer detail in regions, of a and of b as it is laid on a."""
    parts = [_part(a.upright, in_a), _part(laid_photo(b.upright, way), in_b)]
    large = int(np.argmax([part.width * part.height for part in parts]))
    more, less = parts[large], parts[1 - large]
    names = "ab"[large], "ba"[large]
    scale = float(np.sqrt(less.width * less.height / (more.width * more.height)))
    if min(more.size) < _TILE:
        return "", ""
    power = _power(more)
    if scale > _SMALLER:
        finest = (_WAVES > 0.6) & (_WAVES < 0.95)
        other = _power(less.resize(more.size, Image.Resampling.BICUBIC))
        share = float(np.median(power[:, finest].mean(axis=1) / other[:, finest].mean(axis=1)))
        finer = names[0] if share > 1 / _BLURRED else names[1] if share < _BLURRED else ""
        return finer, "finer detail" if finer else ""
    beyond = (1.1 * scale < _WAVES) & (min(1.5 * scale, 0.98) > _WAVES)
    below = power[:, (0.55 * scale < _WAVES) & (0.85 * scale > _WAVES)].mean(axis=1)
    enlarged = (less.resize(more.size, scaler) for scaler in _SCALERS[-4:])
    own = [power, *(_power(more, without) for without in enlarged)]
    share = min(float(np.median(one[:, beyond].mean(axis=1) / below)) for one in own)
    if share > _DETAILED:
        return names[0], "finer detail"
    return (names[1], "the other is enlarged") if share < _ENLARGED else ("", "")


def _part(photo: Image.Image, region: Region) -> Image.Image:
    """The middle of a region, as large a share of it as is looked at."""
    share = min(1.0, _SIDE / max(region.size))
    left, top = (
        edge + side * (1 - share) / 2 for edge, side in zip(region[:2], region.size, strict=True)
    )
    wide, high = (max(round(side * share), 1) for side in region.size)
    return photo.crop((round(left), round(top), round(left) + wide, round(top) + high))


def _power(photo: Image.Image, without: Image.Image | None = None) -> Floats:
    """The power (n, 64, 33) of the waves in tiles of a photo, less another, plus a little noise."""
    grey = np.asarray(photo.convert("L"), np.float32)
    if without is not None:
        grey = grey - np.asarray(without.convert("L"), np.float32)
    parts = tiles(grey, _TILE, _TILE).reshape(-1, _TILE, _TILE)
    waves = np.fft.rfft2((parts - parts.mean(axis=(1, 2), keepdims=True)) * _WINDOW)
    return (np.abs(waves) ** 2 + _NOISE).astype(np.float32)
