"""Groups: how well albums agree with labels, beside a plain threshold of descriptors.

    python benchmarks/groups.py --photos val-0.tar --folder work

The photos are a folder or a tar shard in which the folder of a photo says what it shows. Two photos
of one label should be in one group, two of different labels in none. `solar.groups` is measured
beside the connected components of the same verified pairs, and beside those of all pairs whose
descriptors are similar enough, at the threshold that suits these very photos best.

The photos are described as by default, in an index that another run goes on with.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from lib.machine import machine

from solar.albums.groups import GroupSettings, grouped, matching_pairs, supported_groups
from solar.images import find_photos
from solar.index import Index
from solar.index.build import fill
from solar.index.embeddings import described
from solar.ranking.verify import VerifySettings, verifier_of
from solar.sfm.pairs import PairSettings, chosen_pairs

THRESHOLDS = [round(0.5 + 0.02 * step, 2) for step in range(20)]


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True, help="where to work")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    result = measured(options)
    print(json.dumps(result, indent=1))
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), **result}, indent=1) + "\n")


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """The figures of each way to group."""
    settings = GroupSettings()
    photos = described(_index(options), options.folder)
    labels = [name.split("/")[-2] for name in photos.names]
    chosen = chosen_pairs(photos, PairSettings(settings.k), options.folder)
    verifier = verifier_of(photos.roots, photos.local, VerifySettings())
    graph = matching_pairs(photos, chosen, verifier, options.folder)
    groups = grouped(photos.names, graph, settings)
    rows = [[photos.rows[name] for name in group.names] for group in groups]
    linked = [labels[a] == labels[b] for a, b in graph.pairs.tolist()]
    return {
        "photos": len(photos),
        "labels": len(set(labels)),
        "compared": len(chosen),
        "matching": len(graph.pairs),
        "matching_right": _percent(sum(linked), len(linked)),
        "descriptors": _by_threshold(np.asarray(photos.vectors), labels),
        "components": agreement(supported_groups(graph.pairs, graph.inliers, 0), labels),
        "groups": agreement(rows, labels),
        "by_agreement": _by_agreement([group.agreement for group in groups], rows, labels),
    }


def _index(options: argparse.Namespace) -> Index:
    return fill(options.folder / f"{options.photos.parent.name}.solar", find_photos(options.photos))


def agreement(groups: Sequence[Sequence[int]], labels: Sequence[str]) -> dict[str, Any]:
    """Pairwise precision, recall and F1 in percent, and how many photos are with their own."""
    right = wrong = own = 0
    for rows in groups:
        counts = Counter(labels[row] for row in rows).values()
        same = sum(_pairs(count) for count in counts)
        right, wrong = right + same, wrong + _pairs(len(rows)) - same
        own += max(counts)
    wanted = sum(_pairs(count) for count in Counter(labels).values())
    inside = sum(map(len, groups))
    return {
        "groups": len(groups),
        "grouped": inside,
        "largest": max(map(len, groups), default=0),
        "precision": _percent(right, right + wrong),
        "recall": _percent(right, wanted),
        "f1": _percent(2 * right, right + wrong + wanted),
        "purity": _percent(own, inside),
    }


def _by_threshold(vectors: Any, labels: Sequence[str]) -> dict[str, Any]:
    """Connected components of all pairs above a threshold, the one with the best F1."""
    similar = np.triu(vectors @ vectors.T, 1)
    found = []
    for threshold in THRESHOLDS:
        pairs = np.argwhere(similar >= threshold)
        groups = supported_groups(pairs, similar[tuple(pairs.T)], 0)
        found.append({"threshold": threshold, **agreement(groups, labels)})
    return max(found, key=lambda one: one["f1"])


def _by_agreement(
    agreements: Sequence[float], groups: Sequence[Sequence[int]], labels: Sequence[str]
) -> dict[str, Any]:
    """Of groups that are whose photos agree more or less: how many there are, and their purity."""
    bounds = [0, 0.25, 0.5, 0.75, 1.01]
    found = {}
    for low, high in pairwise(bounds):
        some = [rows for one, rows in zip(agreements, groups, strict=True) if low <= one < high]
        told = agreement(some, labels)
        found[f"{low:g} to {min(high, 1):g}"] = {
            name: told[name] for name in ("groups", "grouped", "purity")
        }
    return found


def _pairs(count: int) -> int:
    return count * (count - 1) // 2


def _percent(part: int, whole: int) -> float:
    return round(100 * part / max(whole, 1), 1)


if __name__ == "__main__":
    main()
