"""HPatches: strips of 65×65 patches of 116 scenes, its splits and its lists of tasks.

A sequence is a folder with `ref.png` and, for easy, hard and tough detector noise, `e1.png` to
`e5.png`, `h1.png` … `t5.png`: grey strips 65 pixels wide with one patch below the other. Row n of
every strip of a sequence shows the same point. Published descriptors come in the same layout, one
`.csv` per strip with one row per patch. Readers raise a SolarError about a missing or damaged file.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from solar.arrays import Floats, Ints, Pixels
from solar.datasets.labelled.photo_labels import read_columns
from solar.datasets.public.registry import HPATCHES_FILES
from solar.errors import SolarError
from solar.files import make_folder, reading, replacing

SIDE = 65  # pixels of a side of a patch

NOISES = ("e", "h", "t")  # easy, hard and tough

IMAGES = (1, 2, 3, 4, 5)  # the photos beside the reference

STRIPS = tuple(name.removesuffix(".png") for name in HPATCHES_FILES)


@dataclass(frozen=True, eq=False)
class HPatches:
    """Strips of patches, in memory or read when used."""

    # Sequence to strip (`ref`, `e1`, …) to (n, 65, 65) uint8, or to its file.
    strips: Mapping[str, Mapping[str, Pixels | Path]]
    counts: Mapping[str, int]  # patches of each strip of a sequence

    @classmethod
    def of(cls, strips: Mapping[str, Mapping[str, Pixels]]) -> "HPatches":
        """A set in memory."""
        return cls(strips, {name: len(kinds["ref"]) for name, kinds in strips.items()})

    @property
    def names(self) -> tuple[str, ...]:
        """The sequences."""
        return tuple(self.strips)

    def strip(self, name: str, kind: str) -> Pixels:
        """The patches of a strip, (n, 65, 65) uint8."""
        found = self.strips[name][kind]
        return _read_strip(found, self.counts[name]) if isinstance(found, Path) else found

    def only(self, names: Sequence[str]) -> "HPatches":
        """The same set with some of its sequences; a SolarError if one is missing."""
        if missing := sorted(set(names) - set(self.strips)):
            raise SolarError(f"{len(missing)} sequences are missing, such as {missing[0]}.")
        return HPatches(
            {name: self.strips[name] for name in names}, {name: self.counts[name] for name in names}
        )


@dataclass(frozen=True, eq=False)
class Items:
    """Patches of a task: positions in `names` and rows of the `ref` strips."""

    names: tuple[str, ...]
    sequence: Ints
    row: Ints


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of patches: each array is (n, 2), for the left and the right patch."""

    names: tuple[str, ...]
    sequence: Ints  # places in `names`
    image: Ints  # 0 for the reference, 1 to 5 for the others
    row: Ints  # of the strips


def read_hpatches(root: str | Path, names: Iterable[str] | None = None) -> HPatches:
    """Find the strips of all sequences of a folder, or of those named; pixels are read later."""
    root = Path(root)
    names = _sequences(root, "png") if names is None else names
    strips = {name: {kind: root / name / f"{kind}.png" for kind in STRIPS} for name in names}
    counts = {}
    for name, files in strips.items():
        sizes = {kind: _patches_of(file) for kind, file in files.items()}
        counts[name] = sizes["ref"]
        if odd := [kind for kind, size in sizes.items() if size != sizes["ref"]]:
            raise SolarError(
                f"{files[odd[0]]} has {sizes[odd[0]]} patches, ref.png {counts[name]}."
            )
    return HPatches(strips, counts)


def write_hpatches(data: HPatches, folder: str | Path) -> None:
    """Write every sequence in the published layout."""
    for name in data.names:
        place = Path(folder) / name
        make_folder(place)
        for kind in STRIPS:
            with replacing(place / f"{kind}.png") as part:
                Image.fromarray(data.strip(name, kind).reshape(-1, SIDE)).save(part, "PNG")


def read_splits(path: str | Path) -> dict[str, tuple[str, ...]]:
    """The sequences to test with of the published splits a, b, c, illum, view and full."""
    wrong = "is not a splits.json: it needs test sequences a split"
    with reading(path, wrong, ValueError, KeyError, TypeError, AttributeError):
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        return {name: _names(split["test"]) for name, split in content.items()}


def read_items(path: str | Path) -> Items:
    """A published list of queries or distractors, `s,idx`."""
    names, rows = _columns(path, "s", "idx")
    return Items(*_numbered(names), _whole(path, rows))


def read_pairs(path: str | Path) -> Pairs:
    """A published list of pairs, `s1,t1,idx1,s2,t2,idx2`."""
    s1, t1, idx1, s2, t2, idx2 = _columns(path, "s1", "t1", "idx1", "s2", "t2", "idx2")
    names, sequence = _numbered(s1 + s2)
    image, row = _whole(path, t1 + t2), _whole(path, idx1 + idx2)
    if (image > IMAGES[-1]).any():
        raise SolarError(f"{path} names image {image.max()}: a sequence has images 0 to 5.")
    return Pairs(names, *(sides.reshape(2, -1).T for sides in (sequence, image, row)))


def read_descriptors(
    root: str | Path, names: Sequence[str] | None = None
) -> dict[str, dict[str, Floats]]:
    """Descriptors in `<sequence>/<strip>.csv`, split by commas or semicolons.

    Returns all sequences there are, or those named: sequence to strip to (n, d) float32.
    """
    root = Path(root)
    names = _sequences(root, "csv") if names is None else names
    found = {
        name: {kind: _read_rows(root / name / f"{kind}.csv") for kind in STRIPS} for name in names
    }
    width = next(iter(found.values()))["ref"].shape[1]
    for name, kinds in found.items():
        for kind, rows in kinds.items():
            if rows.shape != (len(kinds["ref"]), width):
                raise SolarError(
                    f"{root / name / kind}.csv has {rows.shape[0]} rows of {rows.shape[1]} numbers "
                    f"where {len(kinds['ref'])} of {width} belong."
                )
    return found


def _sequences(root: Path, ending: str) -> list[str]:
    names = sorted(path.parent.name for path in root.glob(f"*/ref.{ending}"))
    if not names:
        raise SolarError(f"{root} contains no folder with ref.{ending}, e1.{ending}, ….")
    return names


def _patches_of(path: Path) -> int:
    with _opened(path) as image:
        width, height = image.size
    if width != SIDE or height % SIDE or not height:
        raise SolarError(f"{path} is {width}×{height}, not a strip of 65×65 patches.")
    return height // SIDE


def _read_strip(path: Path, count: int) -> Pixels:
    with _opened(path) as image:
        try:
            pixels = np.asarray(image.convert("L"))
        except (OSError, SyntaxError) as error:
            raise SolarError(f"{path} is damaged: {error}.") from error
    if pixels.shape != (count * SIDE, SIDE):
        raise SolarError(f"{path} has changed while it was being read: run the command again.")
    return pixels.reshape(count, SIDE, SIDE)


def _opened(path: Path) -> Image.Image:
    with reading(path):
        try:
            return Image.open(path)
        except UnidentifiedImageError as error:
            raise SolarError(f"{path} is not an image.") from error


def _read_rows(path: Path) -> Floats:
    with reading(path, "is not a table of numbers", ValueError):
        lines = path.read_text().replace(";", ",").split()
        rows = np.loadtxt(lines or ["nan"], np.float32, delimiter=",", ndmin=2)
    if not rows.size or not np.isfinite(rows).all():
        raise SolarError(f"{path} is empty, or contains something other than finite numbers.")
    return rows


def _columns(path: str | Path, *names: str) -> list[tuple[str, ...]]:
    lines = [cells for _, cells in read_columns(Path(path), {name: [name] for name in names})]
    if not lines:
        raise SolarError(f"{path} lists nothing below {','.join(names)}.")
    return [tuple(cells[name] for cells in lines) for name in names]


def _whole(path: str | Path, values: Sequence[str]) -> Ints:
    try:
        found = np.array([int(value) for value in values], np.int64)
    except (ValueError, OverflowError) as error:
        raise SolarError(f"{path} needs whole numbers: {error}.") from error
    if (found < 0).any():
        raise SolarError(f"{path} has a negative number.")
    return found


def _numbered(values: Sequence[str]) -> tuple[tuple[str, ...], Ints]:
    places: dict[str, int] = {}
    numbers = np.array([places.setdefault(value, len(places)) for value in values], np.int64)
    return tuple(places), numbers


def _names(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TypeError
    return tuple(values)
