"""Build a training file from sorted photos: `solar data build`."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from solar.datasets.labelled.cleaning import Geometry, compare_photos
from solar.datasets.labelled.photo_labels import labelled_photos
from solar.datasets.labelled.sources import (
    Landmark,
    TrainingFile,
    read_training_file,
    write_training_file,
)
from solar.describe.progress import Progress, counted
from solar.errors import SolarError
from solar.images import Photos, load
from solar.matching.match import inliers_needed

LEAST = inliers_needed("numbers", wrong=1 / 40_000)
"""Points that must agree, 12. Of 48 pairs of one label with 12 to 25 that were looked at 47 show
the same place, of 24 with 8 only 21; photos of different landmarks were never seen to reach 9."""


@dataclass(frozen=True)
class BuiltTrainingSet:
    """What `build_training_set` wrote."""

    photos: int  # that can be read
    landmarks: int
    queries: int  # photos that have a positive
    positives: int  # pairs of photos that show the same, each counted once
    singletons: int  # landmarks with a single photo
    held_out: int  # landmarks to validate on
    unreadable: dict[str, str]  # names of photos that were left out, and why they cannot be read


def build_training_set(
    source: str | Path | Sequence[str | Path],
    output: str | Path,
    *,
    root: str | Path | None = None,
    verify: bool = False,
    least: int | None = None,
    val_fraction: float = 0.0,
    seed: int = 0,
    processes: int = 1,
    geometry: Geometry | None = None,
    progress: Progress | None = None,
) -> BuiltTrainingSet:
    """Decode every photo once, compare those of a landmark if asked, and write the training file.

    Args:
        source: A folder sorted as `landmark/photo.jpg`, tar shards of the same, a CSV of
            `path,landmark`, or an earlier output: then only `least` and `val_fraction` are applied.
        output: The JSON to write.
        root: The folder that the names of a CSV are relative to; its own if not given.
        verify: Compare photos: a pair is positive only if `least` points agree on one view change.
        least: Default: `LEAST`.
        val_fraction: The part of the landmarks to hold out for validation, chosen by `seed`.
        seed: See `val_fraction`.
        processes: Number of processes that compare; the result is the same.
        geometry: How to compare.
        progress: Called with the step, what is done, and the total.

    Raises:
        SolarError: The source has no labels or one landmark only, no photo has a positive, or
            the output cannot be written.
    """
    if Path(output).suffix.lower() != ".json":
        raise SolarError(f"The output {output} must end in .json.")
    if least is not None and least < 1:
        raise SolarError(f"least must be 1 or more, not {least}.")
    parts = [Path(source)] if isinstance(source, str | Path) else [Path(one) for one in source]
    shown = ", ".join(map(str, parts))
    unreadable: dict[str, str] = {}
    if len(parts) == 1 and parts[0].suffix.lower() == ".json":
        content = read_training_file(parts[0], root=root)
        if content.least is None and (verify or least is not None):
            raise SolarError(f"{shown} was not verified: build it with `verify=True`.")
    else:
        content, unreadable = _from_photos(parts, root, progress)
        if verify:
            content = _compared(content, shown, geometry, processes, seed, progress)
        elif least is not None:
            raise SolarError("`least=` needs `verify=True`.")
    if least is not None:
        content = replace(content, least=least)
    found = content.training_set(shown)  # also to complain before anything is written
    if val_fraction:
        held = set(found.held_out(val_fraction, seed=seed))
        split = (
            replace(one, part="val" if one.name in held else "train") for one in content.landmarks
        )
        content = replace(content, landmarks=tuple(split))
    write_training_file(output, content)
    return BuiltTrainingSet(
        len(found),
        len(found.labels),
        len(found.queries),
        sum(len(positives) for positives in found.positives) // 2,
        found.singletons,
        sum(one.part == "val" for one in content.landmarks),
        unreadable,
    )


def _from_photos(
    parts: list[Path], root: str | Path | None, progress: Progress | None
) -> tuple[TrainingFile, dict[str, str]]:
    photos, labels = labelled_photos(parts, root)
    unreadable = _unreadable(photos, progress)
    landmarks: dict[str, list[str]] = {}
    for name, label in zip(photos.names, labels, strict=True):
        if name not in unreadable:
            landmarks.setdefault(label, []).append(name)
    if not landmarks:
        name, reason = next(iter(unreadable.items()))
        raise SolarError(f"None of {len(photos):,} photos can be read, such as {name}: {reason}")
    listed = parts[0].suffix.lower() == ".csv"
    sources = (parts[0].parent if root is None else Path(root),) if listed else tuple(parts)
    together = tuple(
        Landmark(label, tuple(sorted(landmarks[label]))) for label in sorted(landmarks)
    )
    return TrainingFile(sources, together), unreadable


def _unreadable(photos: Photos, progress: Progress | None) -> dict[str, str]:
    """Decode every photo, small, which still reads all of its bytes."""

    def problem(number: int) -> str | None:
        try:
            load(photos.read(number), 64, mode="fast")
        except SolarError as error:
            return str(error)
        return None

    found = {}
    advance = counted(progress, "Reading photos", len(photos))
    with ThreadPoolExecutor() as pool:
        for number, reason in enumerate(pool.map(problem, range(len(photos)))):
            if reason is not None:
                found[photos.names[number]] = reason
            advance(1)
    return found


def _compared(
    content: TrainingFile,
    shown: str,
    geometry: Geometry | None,
    processes: int,
    seed: int,
    progress: Progress | None,
) -> TrainingFile:
    photos = content.training_set(shown)
    matches = compare_photos(photos, geometry, processes=processes, seed=seed, progress=progress)
    first, landmarks = 0, []
    of_landmark: list[list[tuple[int, int, int]]] = [[] for _ in content.landmarks]
    for match in matches:
        of_landmark[int(photos.landmarks[match[0]])].append(match)
    for one, mine in zip(content.landmarks, of_landmark, strict=True):
        found = tuple((a - first, b - first, count) for a, b, count in mine)
        landmarks.append(replace(one, matches=found))
        first += len(one.photos)
    return replace(content, landmarks=tuple(landmarks), least=LEAST)
