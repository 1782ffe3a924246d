"""What `solar adapt` gains with the labels of a city's buildings, and where it refuses.

    python benchmarks/adapt.py --data DIR --cache DIR

DIR (or SOLAR_DATA) holds buildings/val-0.tar, landmarks/val-0.tar and landmarks/distractors-0.tar.
Photos are described at most 384 pixels wide or high; their indexes are kept in `--cache`. A layer
is trained on the buildings as `solar adapt` does it, measured on buildings that it has not seen,
and as published; then every photo of the landmarks asks for the others, with and without the layer:
what other places lose or gain. Intervals are paired, over queries. The refusals are those of
shuffled labels, of labels of few places, and of few photos a place.
"""

import argparse
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lib.machine import machine
from lib.marked import KEPT, table
from lib.options import parsed, photo_options
from lib.places import SIZE, shards

import solar
from solar.arrays import AnyFloats
from solar.errors import SolarError
from solar.evaluation.labelled import evaluate_labels
from solar.evaluation.result import compare
from solar.images import find_photos
from solar.index import Index
from solar.index.build import fill as filled
from solar.models import RetrievalNet, retrieval_model
from solar.training.adaptation import AdaptationSettings, trained_layer
from solar.weights import DEFAULT

PUBLISHED = AdaptationSettings(start="random", pull=0, epochs=5, scale=16)
SETS = {"landmarks": False, "landmarks, distractors": True}


def main() -> None:
    """Describe what is not described yet, adapt, measure, write."""
    parser = photo_options(__doc__)
    parser.add_argument("--model", default=DEFAULT, help="a model's file or name")
    parser.add_argument("--cache", type=Path, required=True, help="keep indexes here")
    parser.add_argument("--output", type=Path, help="keep the adapted model here")
    options = parsed(parser)
    try:
        report = measured(options)
    except SolarError as error:
        raise SystemExit(f"adapt.py: {error}") from error
    print(gains(report), refusals(report), sep="\n")
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Everything that is told of a model."""
    plain = retrieval_model(options.model)
    indexes = dict(described(plain, options.data, options.cache))
    train = indexes["buildings"]
    start = time.perf_counter()
    found = solar.adapt(train, output=options.output, model=plain)
    seconds = time.perf_counter() - start
    layer = trained_layer(np.asarray(train.vectors), np.array(places(train)), PUBLISHED)
    published = plain.with_adaptation(layer)
    return {
        "machine": machine(),
        "model": options.model,
        "adapt": {**found.to_dict(), "seconds": seconds},
        "adapted": compared(plain, found.model, indexes),
        "published": compared(plain, published, indexes),
        "refusals": dict(refused(train, plain)),
    }


def described(net: RetrievalNet, data: Path, cache: Path) -> Iterator[tuple[str, Index]]:
    """The indexes of all sets."""
    cache.mkdir(parents=True, exist_ok=True)
    for name in ("buildings", "landmarks"):
        *photos, others = (data / shard for shard in shards(name))
        yield name, filled(cache / f"{name}.solar", find_photos(photos), model=net, size=SIZE)
    place = cache / "distractors.solar"
    yield "distractors", filled(place, find_photos(others), model=net, size=SIZE)


def places(index: Index) -> list[str]:
    """What every photo of an index shows."""
    return [name.split("/")[1] for name in index.paths]


def compared(
    before: RetrievalNet, after: RetrievalNet, indexes: Mapping[str, Index]
) -> dict[str, dict[str, float]]:
    """The mAP without and with a layer on every set, in percent, and the difference."""
    report = {}
    index = indexes["landmarks"]
    for title, harder in SETS.items():
        two = [
            evaluate_labels(
                adapted(net, np.asarray(index.vectors)),
                places(index),
                distractors=adapted(net, np.asarray(indexes["distractors"].vectors))
                if harder
                else None,
            )
            for net in (before, after)
        ]
        apart = compare(*two)
        shares = {"before": two[0].mean(), "after": two[1].mean(), "gain": apart.difference}
        shares |= {"low": apart.low, "high": apart.high}
        report[title] = {key: 100 * share for key, share in shares.items()}
    return report


def adapted(net: RetrievalNet, vectors: AnyFloats) -> AnyFloats:
    """Averaged descriptors as the network makes them."""
    with torch.inference_mode():
        rows: AnyFloats = net.adapted(torch.from_numpy(vectors)).numpy()
    return rows


def refused(index: Index, net: RetrievalNet) -> Iterator[tuple[str, str]]:
    """Labels that do not suffice, and what is said about them; nothing where they do."""
    random = np.random.default_rng(0)
    own = places(index)
    order = random.permutation(np.unique(own)).tolist()
    tries = {
        "the labels shuffled": dict(
            zip(index.paths, random.permutation(own).tolist(), strict=True)
        ),
        "3 places": some(index, order[:3], len(own)),
        "12 places": some(index, order[:12], len(own)),
        f"{len(order)} places, 5 photos each": some(index, order, 5),
        f"{len(order)} places, 20 photos each": some(index, order, 20),
    }
    for title, labels in tries.items():
        try:
            found = solar.adapt(index, labels, model=net).to_dict()
        except SolarError as error:
            yield title, str(error).replace(index.place, Path(index.place).name)
        else:
            yield title, f"Not refused: {found['gain']:+.1f} ({interval(found)})."


def some(index: Index, wanted: list[str], most: int) -> dict[str, str]:
    """The labels of the first photos of some places."""
    own = list(zip(index.paths, places(index), strict=True))
    kept = [[pair for pair in own if pair[1] == place][:most] for place in wanted]
    return dict(pair for pairs in kept for pair in pairs)


def gains(report: Mapping[str, Any]) -> str:
    """What the layers gain, as a table."""
    head = ["mAP", report["model"], "adapted", "gain (95 % interval)", "as published"]
    lines = [head, ["---", "---:", "---:", "---:", "---:"]]
    found = report["adapt"]
    own = f"buildings, held-out places ({found['places']})"
    lines.append([own, *cells(found), ""])
    for title, ours in report["adapted"].items():
        lines.append([title, *cells(ours), f"{report['published'][title]['gain']:+.1f}"])
    seconds = f"{found['seconds']:.0f}{KEPT}s"
    facts = report["machine"]
    where = f"{facts['processor']}, {facts['cores']} cores, {facts['date']}"
    told = f"{found['photos']:,} photos, measured and trained in {seconds} ({where})."
    return f"{table(lines)}\n\n{told}\n"


def cells(found: Mapping[str, float]) -> list[str]:
    """Before, after and gain."""
    return [
        f"{found['before']:.1f}",
        f"{found['after']:.1f}",
        f"{found['gain']:+.1f} ({interval(found)})",
    ]


def interval(found: Mapping[str, float]) -> str:
    """The ends of an interval."""
    return f"{found['low']:+.1f} to {found['high']:+.1f}"


def refusals(report: Mapping[str, Any]) -> str:
    """What is said of labels that do not suffice, as a table."""
    lines = [["labels", "what `solar adapt` says"], ["---", "---"]]
    lines += [[title, told] for title, told in report["refusals"].items()]
    return table(lines) + "\n"


if __name__ == "__main__":
    main()
