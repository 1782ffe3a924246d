"""Generated patches, strips, subsets and sequences of photos with homographies."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from solar.datasets.patches.hpatches import NOISES, STRIPS, HPatches
from solar.datasets.patches.phototour import PatchPairs


def smooth(rng: np.random.Generator, n: int, side: int) -> np.ndarray:
    """(n, side, side) float pictures with structure of several sizes, from 0 to 255."""
    out = np.zeros((n, side, side))
    for cells in (3, 6, 12):
        grid = rng.random((n, cells, cells))
        at = np.linspace(0, cells - 1, side)
        low = np.minimum(at.astype(int), cells - 2)
        part = at - low
        rows = grid[:, low] * (1 - part)[:, None] + grid[:, low + 1] * part[:, None]
        out += rows[:, :, low] * (1 - part) + rows[:, :, low + 1] * part
    return 255 * out / 3


def strips(sequences: int = 3, points: int = 12, seed: int = 0) -> HPatches:
    """Strips whose patches are the reference's with more noise the tougher they are."""
    rng = np.random.default_rng(seed)
    made = {}
    for number in range(sequences):
        base = smooth(rng, points, 65)
        noise = dict(zip(NOISES, (4, 12, 40), strict=True))
        made[f"v_{number}"] = {
            kind: (base + rng.normal(0, noise.get(kind[0], 0), base.shape) * (kind != "ref"))
            .clip(0, 255)
            .astype(np.uint8)
            for kind in STRIPS
        }
    return HPatches.of(made)


def write_descriptors(
    data: HPatches, describe: Callable[[np.ndarray], np.ndarray], folder: Path
) -> None:
    """Describe every strip and write `<sequence>/<strip>.csv`, as other tools read them."""
    for name in data.names:
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        for kind in STRIPS:
            rows = describe(data.strip(name, kind))
            np.savetxt(place / f"{kind}.csv", rows, fmt="%.9g", delimiter=",")


def write_phototour(
    folder: Path, patches: np.ndarray, points: np.ndarray, pairs: PatchPairs
) -> None:
    """Write a subset in the published layout.

    Args:
        folder: DescriptorSpec if it is not there.
        patches: (n, 64, 64).
        points: (n,).
        pairs: Written as `m50_N_N_0.txt` for N pairs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, len(patches), 256)):
        tiles = np.zeros((256, 64, 64), np.uint8)
        chunk = patches[start : start + 256]
        tiles[: len(chunk)] = chunk
        rows = tiles.reshape(16, 16, 64, 64).swapaxes(1, 2)
        mosaic = rows.reshape(16 * 64, 16 * 64)
        Image.fromarray(mosaic).save(folder / f"patches{number:04}.bmp")
    (folder / "info.txt").write_text("".join(f"{point} 0\n" for point in points))
    count = len(pairs.left)
    (folder / f"m50_{count}_{count}_0.txt").write_text(
        "".join(
            f"{left} {points[left]} 0 {right} {points[right]} 0 0\n"
            for left, right in zip(pairs.left, pairs.right, strict=True)
        )
    )


def write_subset(
    folder: Path, points: int = 150, pairs: int = 200, seed: int = 0, noise: float = 10
) -> np.ndarray:
    """A PhotoTour subset of two patches a point; returns the patches."""
    rng = np.random.default_rng(seed)
    base = np.repeat(smooth(rng, points, 64), 2, axis=0)
    patches = (base + rng.normal(0, noise, base.shape)).clip(0, 255).astype(np.uint8)
    left = 2 * rng.integers(0, points, pairs)
    right = np.where(np.arange(pairs) % 2, left + 1, (left + 2) % (2 * points))
    numbers = np.arange(2 * points) // 2
    same = numbers[left] == numbers[right]
    write_phototour(folder, patches, numbers, PatchPairs(left, right, same))
    return patches


def write_sequence(folder: Path, seed: int = 0, side: int = 240) -> list[np.ndarray]:
    """Six views of one picture, each a bit further off; returns the homographies of 2 to 6."""
    import cv2

    rng = np.random.default_rng(seed)
    blocks = np.kron(rng.integers(0, 255, (24, 24)), np.ones((side // 24, side // 24)))
    picture = cv2.GaussianBlur((0.6 * blocks + 0.4 * smooth(rng, 1, side)[0]), (0, 0), 1.2)
    picture = picture.clip(0, 255).astype(np.uint8)
    folder.mkdir(parents=True)
    Image.fromarray(picture).save(folder / "1.png")
    matrices = []
    for number in range(2, 7):
        step = number - 1
        matrix = np.array(
            [[1, 0.01 * step, 2 * step], [-0.01 * step, 1, step], [2e-5 * step, 0, 1]]
        )
        view = cv2.warpPerspective(picture, matrix, (side, side), borderMode=cv2.BORDER_REPLICATE)
        Image.fromarray(view).save(folder / f"{number}.png")
        np.savetxt(folder / f"H_1_{number}", matrix)
        matrices.append(matrix)
    return matrices
