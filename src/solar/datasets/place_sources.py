"""Reading labelled places, in any of the forms they come in."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from solar.datasets.gldv2 import CLEAN_LIST, read_clean
from solar.datasets.places import Places
from solar.datasets.training import Part, read_training_set


def places_in(
    source: str | Path | Sequence[str | Path],
    *,
    root: str | Path | None = None,
    part: Part = "train",
    missing: Literal["refuse", "drop"] = "refuse",
    drop_unverified: bool = False,
) -> Places:
    """Read photos and the place each shows.

    Args:
        source: A folder of Google Landmarks v2 (with `train_clean.csv` and `train/a/b/c/abc….jpg`),
            or whatever `solar.datasets.training.read_training_set` takes: a folder sorted as
            `place/photo.jpg`, tar shards, a CSV, JSON written by `solar data build`, or a
            published .pkl.
        root: The folder that photos named in a file are relative to; the file's own if not given.
        part: Of a file that holds out a part for validation.
        missing: `drop` leaves out photos that a file names and that are not there.
        drop_unverified: Leave out photos that agree with no other of their place, where they were
            compared.

    Raises:
        SolarError: There is no such thing, it has no labels, or shows fewer than two places.
    """
    sources = [Path(source)] if isinstance(source, str | Path) else [Path(one) for one in source]
    folder = sources[0].parent if sources[0].name == CLEAN_LIST else sources[0]
    if len(sources) == 1 and (folder / CLEAN_LIST).is_file():
        return read_clean(folder, missing=missing)
    known = read_training_set(sources, root=root, part=part, missing=missing)
    if drop_unverified:
        known = known.verified(", ".join(map(str, sources)))
    return Places(known.photos, known.landmarks, known.labels)
