"""An HPatches-style set cut from photos whose homographies are known.

Keypoints of SIFT on the reference give squares turned to their orientation, 6 times the keypoint's
size and at least 20 pixels. Of squares that overlap by more than half the strongest is kept, as the
published set keeps one; the strongest 500 stay if all photos show them whole. The homography
carries each square to the other photos, as the affine map it is around its centre; there it is
jittered as much as a detector would miss it, in three degrees.
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
from solar.datasets.patches.sequences import PhotoSequence, read_sequences
from solar.errors import SolarError
from solar.images import read_image
from solar.images.opencv import opencv
from solar.local.patch_cutting import REGION, SMALLEST

OVERLAP = 0.5
"""Intersection over union (of the circles in the squares) from which two points are one."""


@dataclass(frozen=True)
class Jitter:
    """How far a detector misses: each number is the end of a uniform range around none."""

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

    The same photos, names and seed give the same patches; a point takes 69 kB.

    Args:
        sequences: A folder of them, or what `read_sequences` returns; each needs six photos.
        out: Also write the strips to this folder.
        seed: Another one gives other jitter.
        keypoints: Most points per reference; those that not all photos show are dropped.

    Raises:
        SolarError: A sequence or photo cannot be read, has too few photos or no point that all its
            photos show, or OpenCV is not installed.
    """
    if isinstance(sequences, str | Path):
        sequences = read_sequences(sequences)
    data = HPatches.of({one.name: _cut_sequence(one, seed, keypoints) for one in sequences})
    if out is not None:
        write_hpatches(data, out)
    return data


def carried(frames: Doubles, homography: Doubles) -> Doubles:
    """Frames in another photo: the homography's affine map around the middle of each.

    Frames are (n, 2, 3), from patch coordinates (-1 to 1, and 1) to pixels; what comes out is not
    finite for a point on the horizon.
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


def cut_patches(picture: Pixels, frames: Doubles, side: int = SIDE) -> Pixels:
    """Cut patches with OpenCV, from a picture blurred as much as each one shrinks it.

    The picture is (h, w) grey; beyond its edges it is continued by its last pixels. Frames
    (n, 2, 3) lead from patch coordinates (-1 to 1) to its pixels. Patches are (n, side, side).
    """
    cv2 = opencv()
    scales = np.sqrt(np.abs(np.linalg.det(frames[:, :, :2]))) * 2 / side
    # The middle of pixel i of the patch is at (2 i + 1) / side - 1.
    step, start = 2 / side, 1 / side - 1
    to_unit = np.array([[step, 0, start], [0, step, start]])
    maps = compose(frames, np.broadcast_to(to_unit, frames.shape))
    patches = np.empty((len(frames), side, side), np.uint8)
    levels = np.clip(np.round(2 * np.log2(np.maximum(scales, 1))), 0, 12).astype(int)
    for level in np.unique(levels):
        blurred = _blurred(picture, 2 ** (level / 2))
        for number in np.flatnonzero(levels == level):
            patches[number] = cv2.warpAffine(
                blurred,
                maps[number],
                (side, side),
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
    overlap: Doubles = shared / (np.pi * (radius**2 + radii**2) - shared)
    return overlap


def _cut_sequence(sequence: PhotoSequence, seed: int, keypoints: int) -> dict[str, Pixels]:
    if len(sequence.photos) <= IMAGES[-1]:
        raise SolarError(
            f"{sequence.name} has {len(sequence.photos)} photos: an HPatches-style set needs 6."
        )
    pictures = [_grey(path) for path in sequence.photos[: IMAGES[-1] + 1]]
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


def _grey(path: Path) -> Pixels:
    # Homographies are between stored pixels: a photo is not turned upright.
    return np.asarray(read_image(path, orient=False).convert("L"))


def _blurred(picture: Pixels, scale: float) -> Pixels:
    """Blur that takes a picture, taken as blurred by half a pixel, to half a pixel at `scale`."""
    if scale <= 1:
        return picture
    sigma = 0.5 * math.sqrt(scale**2 - 1)
    cv2 = opencv()
    done: Pixels = cv2.GaussianBlur(picture, (0, 0), sigma, borderType=cv2.BORDER_REPLICATE)
    return done
