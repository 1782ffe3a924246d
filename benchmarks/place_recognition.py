"""Recall@1 and @5 in place recognition: SPEDTEST, Gardens Point by day and night, ESSEX3IN1.

    python benchmarks/place_recognition.py --data DIR --json places.json
    python benchmarks/place_recognition.py --data DIR --model mine=runs/x/student.safetensors
    python benchmarks/cards.py --places places.json          # puts them onto the model cards

DIR is `VPR_datasets` of github.com/Harbourr/VisualPlaceRecognitionDatasets, whose photos belong to
their authors and are for evaluation only. A photo is right if it has the query's number, or one up
to two frames away at Gardens Point. Photos are reduced to at most 384 px and described at the
model's scales, as on the model cards. Intervals are of resampled queries (95 %); the first model is
compared with each other one by a paired test. Files that end in
no number (`61_resized.jpg`) are left out, and so are sets that are not there. With --cache FOLDER a
run that was stopped goes on, and models that have been measured take no time.
"""

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from lib.machine import machine
from lib.options import command
from lib.places import SIZE
from lib.timed_lines import say

from solar.arrays import Vectors
from solar.errors import SolarError
from solar.evaluation import Evaluation, compare, interval
from solar.evaluation.protocols.vpr import evaluate_places, frame_of, near_frames
from solar.files import replacing
from solar.images import Photos, find_photos
from solar.index.build import fill
from solar.models import retrieval_model
from solar.models.zoo import obtain

RECALLS = (1, 5)


class PlaceSet(NamedTuple):
    """Where the photos of a set are, and how many frames apart two photos show one place."""

    folder: str
    database: str
    queries: str
    frames: int = 0


SETS = {
    "Gardens Point, day → day": PlaceSet("GardensPointWalking", "day_left", "day_right", 2),
    "Gardens Point, day → night": PlaceSet("GardensPointWalking", "day_left", "night_right", 2),
    "SPEDTEST": PlaceSet(
        "Chen_RAL_2018_Attention_dataset/SPEDTEST", "refer_single_middle", "query_renamed"
    ),
    "ESSEX3IN1": PlaceSet("ESSEX3IN1_dataset", "reference_combined", "query_combined"),
}

Describe = Callable[[Photos], tuple[list[str], Vectors]]
"""Photos to the names of those that could be read, and a row for each."""


def numbered(folder: Path) -> Photos:
    """The photos of a folder whose names end in a number."""
    photos = find_photos(folder)
    return photos.select(n for n, name in enumerate(photos.names) if frame_of(name)[1] >= 0)


def by_model(model: str, device: str) -> Describe:
    """Describe with a model as an index does."""
    net = retrieval_model(model, device=device)

    def describe(photos: Photos) -> tuple[list[str], Vectors]:
        with tempfile.TemporaryDirectory(prefix="solar-places-") as folder:
            place = Path(folder, "x.solar")
            with fill(place, photos, model=net, size=SIZE) as index:
                return index.paths, np.asarray(index.vectors)

    return describe


def kept(describe: Callable[[], Describe], folder: Path, key: str) -> Describe:
    """The same from files in a folder, where a run before has left them."""
    loaded = cache(describe)  # the network is loaded only if there is something to describe

    def read(photos: Photos) -> tuple[list[str], Vectors]:
        place = f"{key} {SIZE} {[str(place) for place in photos.places]}"
        file = folder / f"{hashlib.sha256(place.encode()).hexdigest()[:24]}.npz"
        if not file.exists():
            names, vectors = loaded()(photos)
            with replacing(file) as part, part.open("wb") as out:
                np.savez(out, names=np.array(names), vectors=vectors)
        with np.load(file, allow_pickle=False) as known:
            return known["names"].tolist(), known["vectors"]

    return read


def measure(data: Path, describe: Describe) -> dict[str, tuple[Evaluation, int]]:
    """Evaluate every set that is there: its evaluation, and how many photos it searches."""
    described = cache(lambda folder: describe(numbered(folder)))  # two sets share a database
    found = {}
    for name, one in SETS.items():
        if not (data / one.folder).is_dir():
            say(f"  {name} is not in {data}: left out", sys.stderr)
            continue
        sides = [described(data / one.folder / side) for side in (one.database, one.queries)]
        (names, database), (asked, queries) = sides
        right = near_frames(names, asked, one.frames)
        found[name] = (
            evaluate_places(database, queries, right, photos=asked, recalls=RECALLS),
            len(names),
        )
        told = found[name][0].to_dict()
        say(
            f"  {name}: " + ", ".join(f"{key} {value:.1f}" for key, value in told.items()),
            sys.stderr,
        )
    if not found:
        raise SolarError(f"None of {', '.join(SETS)} is in {data}.")
    return found


def figures(found: Evaluation) -> dict[str, list[float]]:
    """Each recall in percent, and the ends of its interval."""
    return {
        name: [round(100 * value, 2) for value in (found.mean(name), *interval(values))]
        for name, values in found.protocols["all"].items()
    }


def compared(every: Mapping[str, Mapping[str, tuple[Evaluation, int]]]) -> list[dict[str, Any]]:
    """The first model against each of the others, set by set."""
    first, *others = every
    rows = []
    for other in others:
        for name, (found, _) in every[first].items():
            one = compare(every[other][name][0], found, measure="recall@1")
            percent = {
                key: round(100 * getattr(one, key), 2) for key in ("difference", "low", "high")
            }
            rows.append({"set": name, "model": first, "against": other, **percent, "p": one.p})
    return rows


def main() -> None:
    """Measure every model, print a table, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help="the folder VPR_datasets")
    parser.add_argument("--model", action="append", help="NAME or NAME=FILE; may be repeated")
    parser.add_argument("--json", type=Path, help="write what was measured here")
    parser.add_argument("--cache", type=Path, help="keep descriptors here for the next run")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    ways: dict[str, Callable[[], Describe]] = {}
    files: dict[str, Path] = {}
    for given in options.model or ["solar-lite0", "solar-r18"]:
        name, _, of = given.partition("=")
        file = Path(of or name)
        files[name] = file if file.is_file() else obtain(of or name)
        ways[name] = partial(by_model, str(files[name]), options.device)
    try:
        digests = {
            name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in files.items()
        }
        every = {}
        for name, way in ways.items():
            say(name, sys.stderr)
            describe = kept(way, options.cache, digests[name]) if options.cache else way()
            every[name] = measure(options.data, describe)
    except SolarError as error:
        parser.error(str(error))
    sizes = next(iter(every.values()))
    result = {
        "sets": {
            name: {"queries": len(own.queries), "database": size, "frames": SETS[name].frames}
            for name, (own, size) in sizes.items()
        },
        "size": SIZE,
        "models": {
            name: {
                "sha256": digests[name],
                "figures": {key: figures(own) for key, (own, _) in found.items()},
            }
            for name, found in every.items()
        },
        "compared": compared(every),
        "machine": machine(),
        "command": command(),
    }
    if options.json:
        text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
        options.json.write_text(text, encoding="utf-8")
        say(f"→ {options.json}", sys.stderr)
    print(
        json.dumps(
            {key: result[key] for key in ("models", "compared")}, indent=1, ensure_ascii=False
        )
    )


if __name__ == "__main__":
    main()
