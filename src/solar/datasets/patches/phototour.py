"""UBC PhotoTour (Brown): 64×64 patches of points of three landmarks, and pairs to tell apart.

A subset is a folder with mosaics `patches0000.bmp`, … of 16×16 patches row by row, `info.txt` (a
line per patch: the number of its point, then something unused) and lists of pairs
`m50_100000_100000_0.txt` (patch, point, unused, patch, point, …; a pair matches if the points
agree). Readers raise a SolarError about a missing or damaged file.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from solar.arrays import Ints, Pixels
from solar.errors import SolarError
from solar.files import reading

SIDE = 64  # pixels of a side of a patch

PAIRS = 100_000  # pairs of the list that results are published on

_ACROSS = 16


@dataclass(frozen=True, eq=False)
class PatchPairs:
    """Pairs of patches by their numbers, (n,) each, and whether both show the same point."""

    left: Ints
    right: Ints
    same: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class PhotoTour:
    """A subset: the point that each patch shows, (n,), and the files of the patches, in order."""

    folder: Path
    points: Ints
    mosaics: tuple[Path, ...]

    def chunks(self) -> Iterator[Pixels]:
        """The patches of one mosaic after the other, each (up to 256, 64, 64) uint8."""
        left = len(self.points)
        for path in self.mosaics:
            patches = _read_mosaic(path)[:left]
            left -= len(patches)
            yield patches

    def halved(self) -> Pixels:
        """All patches in memory, (n, 32, 32) uint8: rounded means of 2×2 pixels.

        That is what a bilinear resize gives.
        """
        out = np.empty((len(self.points), SIDE // 2, SIDE // 2), np.uint8)
        start = 0
        for chunk in self.chunks():
            blocks = chunk.reshape(-1, SIDE // 2, 2, SIDE // 2, 2).sum((2, 4), dtype=np.uint16)
            out[start : start + len(chunk)] = (blocks + 2) // 4
            start += len(chunk)
        return out

    def pairs(self, count: int = PAIRS) -> PatchPairs:
        """The published list of this many pairs, half of them of the same point."""
        path = self.folder / f"m50_{count}_{count}_0.txt"
        table = _table(path, 5)
        left, right = table[:, 0], table[:, 3]
        if table.min() < 0 or max(left.max(), right.max()) >= len(self.points):
            raise SolarError(f"{path} names a patch that info.txt does not have.")
        return PatchPairs(left, right, table[:, 1] == table[:, 4])


def read_phototour(root: str | Path, subset: str | None = None) -> PhotoTour:
    """Find a subset, `liberty`, `notredame` or `yosemite`, without reading its pixels.

    Without a subset, `root` is the folder of one.
    """
    folder = Path(root) if subset is None else Path(root) / subset
    if not folder.is_dir():
        raise SolarError(
            f"There is no PhotoTour folder {folder}: get it with `solar data get phototour`, and "
            "name the folder that holds liberty, notredame and yosemite."
        )
    points = _table(folder / "info.txt", 1)[:, 0]
    mosaics = tuple(sorted(folder.glob("patches*.bmp")))
    need = -(-len(points) // _ACROSS**2)
    if len(mosaics) < need:
        raise SolarError(
            f"{folder} has {len(mosaics)} mosaics (patches0000.bmp, …) for {len(points)} patches: "
            f"{need} are needed."
        )
    return PhotoTour(folder, points, mosaics[:need])


def _read_mosaic(path: Path) -> Pixels:
    try:
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("L"))
    except (OSError, SyntaxError, ValueError) as error:
        raise SolarError(f"{path} cannot be read: {error}.") from error
    side = _ACROSS * SIDE
    if pixels.shape != (side, side):
        raise SolarError(f"{path} is not a mosaic of 16×16 patches of 64×64 pixels.")
    tiles = pixels.reshape(_ACROSS, SIDE, _ACROSS, SIDE).swapaxes(1, 2)
    return tiles.reshape(-1, SIDE, SIDE)


def _table(path: Path, columns: int) -> Ints:
    """Integers of a text file with at least this many columns."""
    with reading(path, "is not a table of whole numbers", ValueError):
        lines = path.read_text().splitlines()
        found = np.loadtxt(lines, np.int64, ndmin=2) if lines else np.empty((0, 0), np.int64)
    if not len(found) or found.shape[1] < columns:
        raise SolarError(f"{path} is empty or has fewer than {columns} columns.")
    return found
