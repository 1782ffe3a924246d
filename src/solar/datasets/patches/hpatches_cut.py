"""Photo sequences with known homographies, and an HPatches-style set cut from them.

Sequences are laid out like those of HPatches and the older affine covariant regions: a folder each,
`1.jpg` to `6.jpg` (or .ppm, .png) and `H_1_2` to `H_1_6`, text files of nine numbers.

Keypoints of SIFT on the reference give squares turned to their orientation, 6 times the keypoint's
size and at least 20 pixels. Of squares that overlap by more than half the strongest is kept, as in
the published set; the strongest 500 stay if all photos show them whole. The homography carries each
square to the other photos, as its affine map around the centre; there the square is jittered like
the errors of a detector, in three degrees.
"""

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt

from solar.arrays import Doubles, Pixels
from solar.datasets.patches.hpatches import IMAGES, NOISES, SIDE, HPatches, write_hpatches
from solar.errors import SolarError
from solar.files import reading
from solar.images import read_image
from solar.images.opencv import opencv
from solar.local.patch_cutting import REGION, SMALLEST

_SUFFIXES = (".jpg", ".ppm", ".png", ".jpeg", ".pgm")


@dataclass(frozen=True, eq=False)
class PhotoSequence:
    """One scene, named as its folder; the first of its two or more photos is the reference."""

    name: str
    photos: tuple[Path, ...]
    # (photos, 3, 3), from the reference's pixels (x, y, 1) to each photo's; the first: identity
    homographies: npt.NDArray[np.float64]


def read_sequences(root: str | Path) -> tuple[PhotoSequence, ...]:
    """All sequences in the folders of a folder, by name, or the one that the folder is itself.

    A SolarError if there is none, or one has a photo without its homography or a damaged one.
    """
    root = Path(root)
    if not root.is_dir():
        raise SolarError(f"There is no folder {root}: name one with sequences of photos.")
    folders = [root, *sorted(path for path in root.iterdir() if path.is_dir())]
    found = tuple(_sequence(folder) for folder in folders if _photo(folder, 1) is not None)
    if not found:
        raise SolarError(f"{root} contains no sequence (a folder with 1.jpg, 2.jpg, …, H_1_2, …).")
    return found


def _sequence(folder: Path) -> PhotoSequence:
    photos, homographies = [], []
    number = 1
    while (photo := _photo(folder, number)) is not None:
        photos.append(photo)
        homographies.append(np.eye(3) if number == 1 else _homography(folder / f"H_1_{number}"))
        number += 1
    if len(photos) < 2:
        raise SolarError(f"{folder} has a first photo, but no second one (2.jpg).")
    return PhotoSequence(folder.resolve().name, tuple(photos), np.stack(homographies))


def _photo(folder: Path, number: int) -> Path | None:
    places = (folder / f"{number}{suffix}" for suffix in _SUFFIXES)
    return next((place for place in places if place.is_file()), None)


def _homography(path: Path) -> npt.NDArray[np.float64]:
    with reading(path, "is not a homography: it needs nine numbers", ValueError):
        values = np.array(path.read_text().split(), np.float64)
        if values.size != 9 or not np.isfinite(values).all():
            raise ValueError
    matrix = values.reshape(3, 3)
    if abs(np.linalg.det(matrix)) < 1e-12:
        raise SolarError(f"{path} is not a homography: its matrix cannot be inverted.")
    return matrix


OVERLAP = 0.5
"""Intersection over union (of the circles in the squares) from which two points are one."""


@dataclass(frozen=True)
class Jitter:
    """Errors of a detector: each number is the end of a uniform range around 0."""

    rotation: float  # degrees
    translation: float  # of each coordinate, as a part of half the side of the patch
    scale: float  # powers of two
    anisotropy: float  # powers of two between the two axes


JITTERS: Mapping[str, Jitter] = {
    "e": Jitter(10, 0.15, 0.15, 0.2),
    "h": Jitter(20, 0.3, 0.3, 0.4),
    "t": Jitter(30, 0.45, 0.5, 0.45),
}
"""The published detector noise: easy, hard and tough."""


def make_hpatches(
    sequences: str | Path | Iterable[PhotoSequence],
    out: str | Path | None = None,
    *,
    seed: int = 0,
    keypoints: int = 500,
) -> HPatches:
    """Cut `ref` and the strips of easy, hard and tough noise from every sequence, into memory.

    Sequences are a folder of them, or what `read_sequences` returns. The same photos, names and
    seed give the same patches, up to `keypoints` per sequence; a point takes 69 kB. With `out`,
    strips are also written to that folder. A SolarError if a sequence has fewer than six
    photos or no point that all photos show.
    """
    if isinstance(sequences, str | Path):
        sequences = read_sequences(sequences)
    data = HPatches.of({one.name: _cut_sequence(one, seed, keypoints) for one in sequences})
    if out is not None:
        write_hpatches(data, out)
    return data


def carried(frames: Doubles, homography: Doubles) -> Doubles:
    """Frames in another photo: the homography's affine map around the middle of each.

    Frames are (n, 2, 3), from patch coordinates (-1 to 1, and 1) to pixels; the result is not
    finite for a point on the horizon or behind the camera.
    """
    if not len(frames):
        return frames
    centre = np.concatenate([frames[:, :, 2], np.ones((len(frames), 1))], axis=1)
    mapped = centre @ homography.T
    with np.errstate(divide="ignore", invalid="ignore"):
        there = mapped[:, :2] / mapped[:, 2:]
        slopes = homography[None, :2, :2] - there[:, :, None] * homography[None, 2:, :2]
        slopes = slopes / mapped[:, 2, None, None]
    # Behind the camera the same formula gives a frame too, but nothing can be seen there. The sign
    # of a homography is free: what is in front is the side that most points are on.
    depth = mapped[:, 2]
    slopes[depth * np.sign(np.median(depth)) <= 0] = np.nan
    return np.concatenate([slopes @ frames[:, :, :2], there[:, :, None]], axis=2)


def jittered(frames: Doubles, jitter: Jitter, rng: np.random.Generator) -> Doubles:
    """Frames (n, 2, 3) as a detector with this noise would find them; six draws per frame."""
    draws = rng.uniform(-1, 1, (len(frames), 6))
    turn = np.radians(jitter.rotation) * draws[:, 0]
    size = 2 ** (jitter.scale * draws[:, 1])
    stretch = 2 ** (jitter.anisotropy * draws[:, 2] / 2)
    # The direction of the stretch is free: any angle of half a turn.
    along = np.pi / 2 * draws[:, 3]
    axes = rotations(along)
    stretches = (axes * np.stack([stretch, 1 / stretch], axis=1)[:, None]) @ axes.swapaxes(1, 2)
    linear = size[:, None, None] * stretches @ rotations(turn)
    offset = jitter.translation * draws[:, 4:, None]
    return compose(frames, np.concatenate([linear, offset], axis=2))


def rotations(angles: Doubles) -> Doubles:
    """(n,) radians to (n, 2, 2)."""
    cosines, sines = np.cos(angles), np.sin(angles)
    return np.stack([cosines, -sines, sines, cosines], axis=1).reshape(-1, 2, 2)


def compose(outer: Doubles, inner: Doubles) -> Doubles:
    """Affine maps (n, 2, 3) applied after others."""
    moved = outer[:, :, :2] @ inner
    moved[:, :, 2] += outer[:, :, 2]
    return moved


def cut_patches(picture: Pixels, frames: Doubles) -> Pixels:
    """Cut (n, 65, 65) patches with OpenCV, from a picture blurred as much as each shrinks it.

    Frames (n, 2, 3) lead from patch coordinates (-1 to 1) to the pixels of the grey picture, which
    its last pixels continue.
    """
    cv2 = opencv()
    scales = np.sqrt(np.abs(np.linalg.det(frames[:, :, :2]))) * 2 / SIDE
    # The middle of pixel i of the patch is at (2 i + 1) / SIDE - 1.
    step, start = 2 / SIDE, 1 / SIDE - 1
    to_unit = np.array([[step, 0, start], [0, step, start]])
    maps = compose(frames, np.broadcast_to(to_unit, frames.shape))
    patches = np.empty((len(frames), SIDE, SIDE), np.uint8)
    levels = np.clip(np.round(2 * np.log2(np.maximum(scales, 1))), 0, 12).astype(int)
    for level in np.unique(levels):
        blurred = _blurred(picture, 2 ** (level / 2))
        for number in np.flatnonzero(levels == level):
            patches[number] = cv2.warpAffine(
                blurred,
                maps[number],
                (SIDE, SIDE),
                flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
                borderMode=cv2.BORDER_REPLICATE,
            )
    return patches


def sift_frames(picture: Pixels) -> Doubles:
    """Frames of SIFT keypoints, of the strongest response first, (n, 2, 3)."""
    found = opencv().SIFT_create().detect(picture, None)
    found = sorted(found, key=lambda point: (-point.response, point.pt, point.angle))
    values = np.array(
        [(*point.pt, point.size, point.angle) for point in found], np.float64
    ).reshape(-1, 4)
    half = np.maximum(REGION * values[:, 2], SMALLEST) / 2
    linear = half[:, None, None] * rotations(np.radians(values[:, 3]))
    return np.concatenate([linear, values[:, :2, None]], axis=2)


def distinct(frames: Doubles, most: int) -> Doubles:
    """The first frames, up to `most`, that overlap no earlier one by more than half."""
    radii = np.sqrt(np.abs(np.linalg.det(frames[:, :, :2])))
    centres = frames[:, :, 2]
    kept: list[int] = []
    for number in range(len(frames)):
        overlap = _overlaps(centres[number], radii[number], centres[kept], radii[kept])
        if not (overlap > OVERLAP).any():
            kept.append(number)
        if len(kept) == most:
            break
    return frames[kept]


def _overlaps(centre: Doubles, radius: np.float64, centres: Doubles, radii: Doubles) -> Doubles:
    apart = np.hypot(*(centres - centre).T)
    smaller = np.minimum(radius, radii)
    # Two circular segments, where the outlines cross; otherwise all of the smaller one, or nothing.
    gap = np.maximum(apart, 1e-9)
    near = np.arccos(np.clip((gap**2 + radius**2 - radii**2) / (2 * gap * radius), -1, 1))
    far = np.arccos(np.clip((gap**2 + radii**2 - radius**2) / (2 * gap * radii), -1, 1))
    shared = radius**2 * (near - np.sin(2 * near) / 2) + radii**2 * (far - np.sin(2 * far) / 2)
    shared = np.where(apart <= np.abs(radius - radii), np.pi * smaller**2, shared)
    return np.asarray(shared / (np.pi * (radius**2 + radii**2) - shared))


def _cut_sequence(sequence: PhotoSequence, seed: int, keypoints: int) -> dict[str, Pixels]:
    if len(sequence.photos) <= IMAGES[-1]:
        raise SolarError(f"{sequence.name} has {len(sequence.photos)} photos, but 6 are needed.")
    # Homographies are between stored pixels: photos are not turned upright.
    images = [read_image(path, orient=False) for path in sequence.photos[: IMAGES[-1] + 1]]
    pictures = [np.asarray(image.convert("L")) for image in images]
    frames = [distinct(sift_frames(pictures[0]), keypoints)]
    frames += [carried(frames[0], sequence.homographies[image]) for image in IMAGES]
    seen = np.all([_inside(f, p.shape) for f, p in zip(frames, pictures, strict=True)], axis=0)
    kept = np.flatnonzero(seen)
    if not len(kept):
        raise SolarError(f"No keypoint of {sequence.name} is inside all of its photos.")
    strips = {"ref": cut_patches(pictures[0], frames[0][kept])}
    for noise, image in product(NOISES, IMAGES):
        strip = f"{noise}{image}"
        key = (seed, zlib.crc32(sequence.name.encode()), zlib.crc32(strip.encode()))
        found = jittered(frames[image][kept], JITTERS[noise], np.random.default_rng(key))
        strips[strip] = cut_patches(pictures[image], found)
    return strips


def _inside(frames: Doubles, shape: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Whether all four corners of each square are in a picture of this (height, width)."""
    corners = np.array([[-1, -1, 1], [-1, 1, 1], [1, -1, 1], [1, 1, 1]], np.float64)
    places = frames @ corners.T
    with np.errstate(invalid="ignore"):
        inside = (places >= 0) & (places <= np.array(shape[1::-1])[:, None] - 1)
    return np.asarray(inside.all(axis=(1, 2)))


def _blurred(picture: Pixels, scale: float) -> Pixels:
    """Blur that takes a picture, taken as blurred by half a pixel, to half a pixel at `scale`."""
    if scale <= 1:
        return picture
    sigma = 0.5 * math.sqrt(scale**2 - 1)
    cv2 = opencv()
    return np.asarray(cv2.GaussianBlur(picture, (0, 0), sigma, borderType=cv2.BORDER_REPLICATE))
