"""Reports of duplicates that nobody had to look for, for the tests of what shows them."""

from collections.abc import Iterator, Sequence

import numpy as np

from solar.near_duplicates.report import (
    KINDS,
    DuplicateGroup,
    DuplicatePhoto,
    Mapping3x3,
    Relation,
)

MIRRORED: Mapping3x3 = ((-1, 0, 1), (0, 1, 0), (0, 0, 1))
PART = (0.2, 0.1, 0.7, 0.6)
"""Left, top, right and bottom of the crop in `CROPPED`."""
CROPPED: Mapping3x3 = ((2, 0, -0.4), (0, 2, -0.2), (0, 0, 1))
"""From a photo to that part of it."""
TILTED: Mapping3x3 = ((0.9, 0.1, 0.02), (-0.05, 1.1, 0.01), (0.1, 0.05, 1))


def drawn_groups(names: Sequence[str], count: int) -> Iterator[DuplicateGroup]:
    """Groups of two to four of the photos, of all kinds in turn.

    No two are the same where the number of photos is prime, and `count` below 5 n (n - 1).
    """
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        size = 2 + number // len(KINDS) % 3
        step = 1 + number // len(names) % (len(names) - 1)
        some = [names[(number + one * step) % len(names)] for one in range(size)]
        yield drawn_group(kind, some)


def drawn_group(kind: str, names: Sequence[str]) -> DuplicateGroup:
    """A group of photos, each of which is related to the first one, every second as `b`."""
    copies = kind in ("exact", "copy", "crop")
    photos = tuple(
        DuplicatePhoto(
            *(name, 240, 180, 20_000 - 3_000 * place, "2019-07-14T18:30:00"),
            keep=not copies or place == 0,
            why="most pixels (240×180), 20 kB" if place == 0 else f"{17 - 3 * place} kB",
        )
        for place, name in enumerate(names)
    )
    mappings = {"exact": None, "copy": MIRRORED, "crop": CROPPED, "burst": TILTED, "place": None}
    how = {"copy": "mirrored, re-encoded", "crop": "a part"}.get(kind, kind)
    covers = (0.25, 1.0) if kind == "crop" else (1.0, 1.0)
    why = f"{how}; 143 points agree; pixels differ by 2 %"
    mapping = mappings[kind]
    back: Mapping3x3 | None = mapping and tuple(map(tuple, np.linalg.inv(mapping).tolist()))
    pairs = [
        Relation(0, other, kind, how, 0.97, mapping, covers, 0.02, 143, why)
        if other % 2
        else Relation(other, 0, kind, how, 0.97, back, covers[::-1], 0.02, 143, why)
        for other in range(1, len(names))
    ]
    return DuplicateGroup(kind, photos, tuple(pairs))
