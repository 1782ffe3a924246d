"""How many inliers photos of the same place have, and photos of different ones by chance.

    python benchmarks/same_scene.py --data DIR --features rootsift --features orb

DIR (or SOLAR_DATA) holds landmarks/val-0.tar and buildings/val-0.tar (small photos of known places)
and the folders scenes/ and affine/ (a folder per scene, photos of up to 1,024 pixels). Pairs are
drawn at random from every --step-th of the small photos and from all of the large ones. Two
buildings of one street may both be in a photo: photos of different places are one of landmarks and
one of buildings, which were taken in other cities, or of two scenes.

Pairs are matched in three ways: as a search verifies (1,000 keypoints, a homography, 8 pixels); and
the large photos also as `solar match` does (2,048, a homography, 3 pixels), and so with a
fundamental matrix. For each: the share of both kinds of pairs that reaches the threshold of
`solar.matching.match`, and the least threshold that at most one in 1,000 different pairs
reaches.
"""

import argparse
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from lib.machine import machine
from lib.options import parsed, photo_options
from lib.places import labels_of
from numpy.typing import NDArray

from solar.errors import SolarError
from solar.images import Source
from solar.images.opencv import opencv
from solar.images.sources import find_photos
from solar.local.features import LocalFeatures, LocalModel, local_features, local_model
from solar.matching.match import match_features, scene_threshold
from solar.ranking.verify import ERROR, VerifySettings

SETTINGS = VerifySettings()
WAYS: dict[str, tuple[int, dict[str, Any]]] = {
    "verify": (SETTINGS.keypoints, {"threshold": ERROR, "iterations": 1000}),
    "match": (2048, {}),
    "fundamental": (2048, {"geometry": "fundamental"}),
}
SMALL, LARGE = ("landmarks", "buildings"), ("scenes", "affine")
MOST = 40  # inliers that are counted one by one

Counts = NDArray[np.int64]
Pairs = NDArray[np.int64]
Find = Callable[[int, int], LocalFeatures]


def main() -> None:
    """Match, count, print a line for each."""
    parser = photo_options(__doc__)
    parser.add_argument("--features", action="append", required=True, help="as for solar match")
    parser.add_argument("--step", type=int, default=4, help="take every so many-th small photo")
    parser.add_argument("--same", type=int, default=300, help="pairs of one place, per set")
    parser.add_argument("--different", type=int, default=1000, help="of different places")
    parser.add_argument("--photos", choices=("small", "large"), help="default: both")
    parser.add_argument("--way", action="append", choices=list(WAYS), help="default: all")
    options = parsed(parser)
    opencv().setNumThreads(1)
    rows = []
    try:
        for name in options.features:
            rows += measured(name, options)
    except SolarError as error:
        raise SystemExit(f"same_scene.py: {error}") from error
    if options.json:
        report = {"machine": machine(), "opencv": opencv().__version__, "rows": rows}
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def measured(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """What one kind of features finds, in every way."""
    model, rows = local_model(name), []
    every = {"small": SMALL, "large": ("large",)}
    for sets in [every[options.photos]] if options.photos else every.values():
        photos, places, groups = photos_of(options.data, sets, options.step)
        found = finder(photos, model)
        same, different = drawn(places, groups, options.same, options.different)
        for way in options.way or WAYS:
            if sets == SMALL and way != "verify":
                continue  # small photos do not have so many keypoints
            keypoints, settings = WAYS[way]
            threshold = scene_threshold(found(0, keypoints), settings.get("geometry", "homography"))
            chance = inliers(found, keypoints, different, settings)
            for group in sets:
                own = same[groups[same[:, 0]] == group]
                counts = inliers(found, keypoints, own, settings)
                row = {"features": name, "way": way, "photos": group, "threshold": threshold}
                rows.append(row | summary(counts, chance, threshold))
                shown = {key: value for key, value in rows[-1].items() if key != "counts"}
                print(json.dumps(shown), flush=True)
    return rows


def photos_of(
    data: Path, sets: tuple[str, ...], step: int
) -> tuple[list[Source], NDArray[np.str_], NDArray[np.str_]]:
    """Photos, the places they show, and the sets they are of."""
    photos: list[Source] = []
    places: list[str] = []
    groups: list[str] = []
    for name in sets:
        if name == "large":
            folders = sorted(one for part in LARGE for one in (data / part).iterdir())
            own = [file for folder in folders for file in sorted(folder.glob("*.jpg"))]
            photos += own
            places += [file.parent.name for file in own]
        else:
            every = find_photos([data / name / "val-0.tar"])
            numbers = range(0, len(every), step)
            photos += [every.read(number) for number in numbers]
            places += np.array(labels_of(every))[numbers].tolist()
        groups += [name] * (len(photos) - len(groups))
    return photos, np.array(places), np.array(groups)


def finder(photos: list[Source], model: LocalModel) -> Find:
    """What finds the features of a photo by its number, once."""

    @cache
    def found(number: int, keypoints: int) -> LocalFeatures:
        return local_features(photos[number], model, keypoints=keypoints)

    return found


def drawn(
    places: NDArray[np.str_], groups: NDArray[np.str_], same: int, different: int
) -> tuple[Pairs, Pairs]:
    """Pairs of photos (n, 2) of the same place, so many per set, and of different ones."""
    chance = np.random.default_rng(0)
    every = chance.permutation(np.stack(np.triu_indices(len(places), 1), axis=1))
    alike = (places[every[:, 0]] == places[every[:, 1]]) & (
        groups[every[:, 0]] == groups[every[:, 1]]
    )
    names = np.unique(groups)
    apart = groups if len(names) > 1 else places
    unlike = every[apart[every[:, 0]] != apart[every[:, 1]]]
    own = [every[alike & (groups[every[:, 0]] == name)][:same] for name in names]
    return np.concatenate(own), unlike[:different]


def inliers(found: Find, keypoints: int, pairs: Pairs, settings: dict[str, Any]) -> Counts:
    """How many matches of each pair fit one geometry."""
    counts = []
    for pair in pairs.tolist():
        features = [found(number, keypoints) for number in pair]
        counts.append(match_features(features[0], features[1], **settings).inliers.sum())
    return np.array(counts, np.int64)


def summary(same: Counts, different: Counts, threshold: int) -> dict[str, Any]:
    """How many pairs of both kinds reach the threshold, and what threshold would do."""
    rates = [float((different >= least).mean()) for least in range(different.max() + 2)]
    return {
        "same_pairs": len(same),
        "recognised_percent": round(100 * float((same >= threshold).mean()), 1),
        "different_pairs": len(different),
        "false_alarms": int((different >= threshold).sum()),
        "most_by_chance": int(different.max()),
        "one_in_1000_from": next(least for least, rate in enumerate(rates) if rate <= 1e-3),
        "counts": {  # how many pairs have so many inliers; the last ones so many or more
            name: np.bincount(np.minimum(counts, MOST), minlength=MOST + 1).tolist()
            for name, counts in (("same", same), ("different", different))
        },
    }


if __name__ == "__main__":
    main()
