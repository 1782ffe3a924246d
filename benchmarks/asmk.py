"""What aggregated local features (ASMK*) find and cost, beside one global vector a photo.

    python benchmarks/asmk.py --data DIR --local rootsift --local solar-local-345 --model solar-r101

DIR (or SOLAR_DATA) holds landmarks/val-0.tar, buildings/val-0.tar, landmarks/distractors-0.tar, and
landmarks/train-*.tar, from which visual words are learnt. All photos are in one index. Every photo
of a place is a query for the others of its set, without and with the distractors; mAP over all
queries. A photo that shares nothing with the query comes last. Methods are compared query by query,
with 95 % intervals of the difference.

Seconds a photo described are those of all cores together, photos side by side. Seconds a query are
medians, from features that were found before to the ranking; finding the features of a query takes
the seconds of a photo described.
"""

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from lib.machine import machine
from lib.options import command, parsed, photo_options
from lib.places import descriptors, labels_of, shards
from numpy.typing import NDArray

from solar.asmk.build import KEYPOINTS, SIZE
from solar.asmk.features import Finder
from solar.asmk.index import begin
from solar.asmk.kernel import ASSIGN, aggregate
from solar.errors import SolarError
from solar.evaluation.metrics import average_precision
from solar.evaluation.result import interval
from solar.images import Photos, find_photos
from solar.local.features import local_fingerprint, local_model, local_name
from solar.storage.types import DescriptorSpec

SETS = ("landmarks", "buildings")

Galleries = dict[str, frozenset[str]]
"""By set, without and with distractors, the names of the photos that are searched."""

Precisions = dict[str, NDArray[np.float64]]
"""By gallery, the average precision of every query that has something to find."""

Measured = tuple[dict[str, Any], Precisions]


def main() -> None:
    """Index the photos with every kind of local feature, and globally; print a table."""
    options = _options()
    try:
        sets = options.set or SETS
        parts = {
            shard: _some(find_photos(options.data / shard), options.photos)
            for one in sets
            for shard in shards(one)
        }
        photos = Photos(
            tuple(name for part in parts.values() for name in part.names),
            tuple(place for part in parts.values() for place in part.places),
        )
        galleries = dict(_galleries(sets, parts))
        training = sorted((options.data / "landmarks").glob("train-*.tar"))
        learning = _some(find_photos(training), options.train)
        measured = [
            local_row(photos, galleries, learning, local, options)
            for local in options.local or ["rootsift"]
        ]
        if options.model:
            measured.append(global_row(photos, galleries, options))
    except SolarError as error:
        raise SystemExit(f"asmk.py: {error}") from error
    rows = [row for row, _ in measured]
    compared = list(comparisons(measured))
    if options.json:
        report = {
            "machine": machine(),
            "command": command(),
            "photos": len(photos),
            "galleries": {place: len(names) for place, names in galleries.items()},
            "trained_on": len(learning),
            "rows": rows,
            "compared": compared,
        }
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = photo_options(__doc__)
    parser.add_argument("--set", action="append", choices=SETS, help="default: both")
    parser.add_argument("--photos", type=int, help="so many of each shard, evenly; default: all")
    parser.add_argument("--train", type=int, help="learn words from so many; default: all")
    parser.add_argument("--words", type=int, help="visual words; default: as features allow")
    parser.add_argument("--local", action="append", help="describes keypoints; may be repeated")
    parser.add_argument("--keypoints", type=int, default=KEYPOINTS)
    parser.add_argument("--features", type=Path, help="keep local features here (not timed then)")
    parser.add_argument("--model", help="also one vector a photo, by this model")
    return parsed(parser)


def local_row(
    photos: Photos,
    galleries: Galleries,
    learning: Photos,
    local: str,
    options: argparse.Namespace,
) -> Measured:
    """ASMK* with one kind of local feature."""
    model = local_model(local)
    with tempfile.TemporaryDirectory() as temporary:
        place = options.features or Path(temporary, "features")
        finder = Finder(model, options.keypoints, SIZE, place)
        start = time.perf_counter()
        codebook = finder.learn(learning, options.words)
        learnt = time.perf_counter() - start

        start = time.perf_counter()
        spec = DescriptorSpec(codebook.dim, local_name(model), settings={"method": "asmk"})
        engine = begin(Path(temporary, "index"), spec, codebook)
        engine.add_signatures(finder.signatures(photos, codebook, {}))
        filling = time.perf_counter() - start

        def search(number: int) -> list[str]:
            [hits] = engine.search_signatures([asked[number]], len(photos))
            return [hit.path for hit in hits]

        queries = _labelled(photos)
        features = {
            number: finder.features(photos.names[number], photos.read(number)).descriptors
            for number in queries
        }
        start = time.perf_counter()
        asked = {n: aggregate(rows, codebook, ASSIGN) for n, rows in features.items()}
        aggregating = (time.perf_counter() - start) / len(asked)
        scores, precisions = evaluated(photos, galleries, search)
        facts = engine.info()
        engine.close()
    row = _shown(
        {
            "method": f"asmk {local_name(model)}",
            "fingerprint": local_fingerprint(model),
            "words": facts["words"],
            "keypoints": float(np.mean([len(rows) for rows in features.values()])),
            **scores,
            "seconds_a_query": scores["seconds_a_query"] + aggregating,
            "bytes_a_photo": facts["bytes_a_photo"],
            "bytes_of_codebook": facts["bytes_of_codebook"],
            "seconds_a_photo": None if options.features else filling / len(photos),
            "seconds_to_learn_words": learnt,
        }
    )
    return row, precisions


def global_row(photos: Photos, galleries: Galleries, options: argparse.Namespace) -> Measured:
    """One vector a photo, compared with all others."""
    start = time.perf_counter()
    vectors = descriptors(photos, options.model, None)
    describing = time.perf_counter() - start

    def search(number: int) -> list[str]:
        order = np.argsort(-(vectors @ vectors[number]), kind="stable")
        return [photos.names[row] for row in order]

    scores, precisions = evaluated(photos, galleries, search)
    row = _shown(
        {
            "method": f"global {options.model}",
            **scores,
            "bytes_a_photo": vectors.shape[1] * 4,
            "seconds_a_photo": describing / len(photos),
        }
    )
    return row, precisions


def evaluated(
    photos: Photos, galleries: Galleries, search: Callable[[int], list[str]]
) -> tuple[dict[str, Any], Precisions]:
    """Search for every query; what is right and not found comes last."""
    labels = dict(zip(photos.names, labels_of(photos), strict=True))
    sizes = Counter(labels.values())
    precisions: dict[str, list[float]] = {place: [] for place in galleries}
    firsts: dict[str, list[bool]] = {place: [] for place in galleries}
    seconds = []
    for number in _labelled(photos):
        start = time.perf_counter()
        found = search(number)
        seconds.append(time.perf_counter() - start)
        name = photos.names[number]
        wanted = sizes[labels[name]] - 1
        for place, names in galleries.items():
            if name not in names or not wanted:
                continue
            right = [
                labels[path] == labels[name] for path in found if path in names and path != name
            ]
            ranks = np.flatnonzero(right)
            missing = np.arange(len(names) - 1 - (wanted - len(ranks)), len(names) - 1)
            precisions[place].append(average_precision(np.concatenate([ranks, missing])))
            firsts[place].append(bool(right) and right[0])
    values = {place: np.array(own) for place, own in precisions.items()}
    figures = {place: _figures(own, firsts[place]) for place, own in values.items()}
    return {"figures": figures, "seconds_a_query": float(np.median(seconds))}, values


def _figures(precisions: NDArray[np.float64], firsts: Sequence[bool]) -> dict[str, float]:
    low, high = interval(precisions)
    return {
        "queries": len(precisions),  # those with something to find
        "mAP": 100 * float(precisions.mean()),
        "low": 100 * low,  # of its 95 % interval
        "high": 100 * high,
        "recall@1": 100 * float(np.mean(firsts)),
    }


def comparisons(measured: Sequence[Measured]) -> Iterator[dict[str, Any]]:
    """Every method beside those after it: the difference in mAP, and its 95 % interval."""
    for (first, ours), (second, theirs) in combinations(measured, 2):
        found: dict[str, Any] = {"method": first["method"], "against": second["method"]}
        print(f"\n{first['method']} against {second['method']}")
        for place, own in ours.items():
            more = 100 * (own - theirs[place])
            low, high = interval(more)
            found[place] = {"more": float(more.mean()), "low": low, "high": high}
            print(f"  {place:<24} {more.mean():+.1f} ({low:+.1f} to {high:+.1f})")
        yield found


def _galleries(
    sets: Sequence[str], parts: Mapping[str, Photos]
) -> Iterator[tuple[str, frozenset[str]]]:
    for one in sets:
        *own, others = (frozenset(parts[shard].names) for shard in shards(one))
        yield one, frozenset().union(*own)
        yield f"{one} + distractors", others.union(*own)


def _labelled(photos: Photos) -> list[int]:
    return [number for number, label in enumerate(labels_of(photos)) if label]


def _some(photos: Photos, count: int | None) -> Photos:
    """So many of the photos, spread evenly; all of them if there are fewer."""
    if count is None or count >= len(photos):
        return photos
    rows = np.linspace(0, len(photos) - 1, count).round().astype(int).tolist()
    return Photos(tuple(photos.names[i] for i in rows), tuple(photos.places[i] for i in rows))


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    print(f"\n{row['method']}")
    for place, own in row["figures"].items():
        print(f"  {place:<24} {own['mAP']:.1f} ({own['low']:.1f} to {own['high']:.1f})", end="")
        print(f", recall@1 {own['recall@1']:.1f}")
    for name, value in row.items():
        if isinstance(value, int | float):
            print(f"  {name:<24} {value:,.4g}")
    return row


if __name__ == "__main__":
    main()
