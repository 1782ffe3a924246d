"""How many photos `solar locate` places, how well, and how many of its claims are wrong.

    python benchmarks/locate.py --data DIR --queries 300 --cache DIR

DIR (or SOLAR_DATA) holds buildings/val-0.tar (TMBuD: 115 buildings of one city) and
landmarks/distractors-0.tar. The photos carry no coordinates, so positions are drawn: every building
gets its own, at least 1 km from any other, every photo one within 50 m of its building, and every
distractor one of its own, 1 km from anything else. Photos of buildings are queries (all of them, or
--queries spread evenly); the position of the query is hidden.

Two rows: `known`, with the positions of the other photos of the query's building in the index, and
`unknown`, without these photos, where every claim is wrong. A claim is wrong if it is more than
250 m off. Neighbouring buildings that share a photo count as wrong although they are next to each
other in the city, as the drawn positions are not.
"""

import argparse
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from lib.machine import machine
from lib.places import descriptors, labels_of, searchable, shards

from solar import locate
from solar.errors import SolarError
from solar.images import find_photos
from solar.images.exif import ExifFacts, Position
from solar.index import Index
from solar.index.location import TOGETHER
from solar.storage.geo import distances
from solar.storage.types import Amendment

SPREAD = 50.0  # metres between a building and who takes its photo
APART = 1000.0  # metres between buildings, at least
DEGREE = 111_195.0  # metres
CITY = (45.75, 21.22)


def main() -> None:
    """Locate every query, print a table."""
    options = _options()
    try:
        photos = find_photos([options.data / shard for shard in shards("buildings")])
        cache = options.cache and options.cache / f"{options.model}-buildings.npy"
        vectors = descriptors(photos, options.model, cache)
    except SolarError as error:
        raise SystemExit(f"locate.py: {error}") from error
    labels = dict(zip(photos.names, labels_of(photos), strict=True))
    positions = drawn(labels)
    queries = [name for name, label in labels.items() if label]
    if options.queries:
        chosen = np.linspace(0, len(queries) - 1, options.queries).round().astype(int)
        queries = [queries[number] for number in chosen]
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        features = options.cache / "features" if options.cache else Path(temporary) / "features"
        index = searchable(photos, vectors, options.model, Path(temporary), features)
        vars(index)["located"] = list  # where files are is of no interest
        index.engine.amend(Amendment(facts={n: ExifFacts(None, p) for n, p in positions.items()}))
        print(f"{'building':<10} {'located':>8} {'median m':>9} {'in radius':>9} {'wrong':>6}")
        for name in ("known", "unknown"):
            if name == "unknown":
                vars(index)["own_paths"] = lambda query: {
                    n for n in labels if labels[n] == labels[query]
                }
            row = {"building": name, **measure(index, queries, positions, labels)}
            print(f"{name:<10} {row['located']:7.1f}% {row['median_error_m']:9.1f} "
                  f"{row['within_radius']:8.1f}% {row['wrong']:6d}", flush=True)  # fmt: skip
            rows.append(row)
    report = {"machine": machine(), "set": "buildings", "model": options.model}
    report |= {"photos": len(photos), "queries": len(queries), "rows": rows}
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=os.environ.get("SOLAR_DATA"))
    parser.add_argument("--model", default="solar-lite0", help="a model's name")
    parser.add_argument("--cache", type=Path, help="keep descriptors and local features here")
    parser.add_argument("--queries", type=int, help="so many, spread evenly; default: all")
    parser.add_argument("--json", type=Path, help="also write the results here")
    options = parser.parse_args()
    if options.data is None:
        parser.error("say where the photos are, with --data or SOLAR_DATA")
    options.data = Path(options.data)
    return options


def drawn(labels: Mapping[str, str]) -> dict[str, Position]:
    """A position for every photo, by its name and what it shows (nothing for a distractor)."""
    random = np.random.default_rng(0)
    places = sorted({label or name for name, label in labels.items()})
    across = int(np.ceil(np.sqrt(len(places))))
    cells = random.permutation(across * across)[: len(places)]
    # The photos of a cell stay clear of those of the next.
    step = APART + 2 * SPREAD
    centres = {
        place: step * np.array(divmod(int(cell), across)) + random.uniform(-SPREAD, SPREAD, 2)
        for place, cell in zip(places, cells, strict=True)
    }
    positions = {}
    for name, label in labels.items():
        angle, far = random.uniform(0, 2 * np.pi), SPREAD * np.sqrt(random.uniform())
        north, east = centres[label or name] + far * np.array([np.sin(angle), np.cos(angle)])
        latitude = CITY[0] + north / DEGREE
        longitude = CITY[1] + east / DEGREE / np.cos(np.radians(latitude))
        positions[name] = round(float(latitude), 7), round(float(longitude), 7)
    return positions


def measure(
    index: Index,
    queries: Sequence[str],
    positions: Mapping[str, Position],
    labels: Mapping[str, str],
) -> dict[str, Any]:
    """What becomes of the queries, in percent: of all for `located`, else of the claims."""
    errors, inside, seconds, mistaken = [], [], [], Counter[str]()
    for name in queries:
        start = time.perf_counter()
        found = locate(name, index)
        seconds.append(time.perf_counter() - start)
        if found.position is not None and found.radius is not None:
            [error] = distances(found.position, [positions[name]]).tolist()
            errors.append(error)
            inside.append(error <= found.radius)
            if error > TOGETHER:
                taken_for = labels[found.photos[0].path] or "a distractor"
                mistaken[f"{labels[name]} taken for {taken_for}"] += 1
    wrong = sum(error > TOGETHER for error in errors)
    return {
        "located": 100 * len(errors) / len(queries),
        "claims": len(errors),
        "median_error_m": float(np.median(errors)) if errors else float("nan"),
        "within_radius": 100 * float(np.mean(inside)) if inside else float("nan"),
        "wrong": wrong,
        "wrong_of_claims": 100 * wrong / max(len(errors), 1),
        "wrong_of_queries": 100 * wrong / len(queries),
        "median_seconds": float(np.median(seconds)),
        "mistaken": dict(mistaken.most_common()),
    }


if __name__ == "__main__":
    main()
