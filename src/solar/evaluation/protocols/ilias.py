"""ILIAS: mAP@1k among up to a hundred million photos, also by the object's scale and clutter.

Average precision goes by groups of equal scores, as scikit-learn has it, divided by what could be
found in a list of k photos. It is computed from exact places, counted while the descriptors stream
by, so memory does not grow with the number of photos.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from solar.arrays import Doubles, Flags, Ints
from solar.datasets.public.ilias import ObjectTruth, read_objects
from solar.errors import SolarError
from solar.evaluation.described_photos import (
    PhotoDescriber,
    described,
    how_described,
    open_distractors,
    open_rows,
    rank_options,
)
from solar.evaluation.embeddings import NAMES
from solar.evaluation.ranks import tied_ranks
from solar.evaluation.result import Evaluation
from solar.evaluation.settings import EvaluationSettings
from solar.images import Photos

K = 1000

# As published: quarters of the positives, from small and uncluttered up; the lower end is inside.
SCALES = (0.0, 0.06880213760855043, 0.13526567164179104, 0.2729876723163842, np.inf)
CLUTTERS = (0.0, 18.0, 33.0, 53.0, np.inf)


@dataclass(frozen=True)
class TiedPlaces:
    """Where the positives of one query are in a list of `total` photos."""

    ranks: Ints  # 0-based, of equal scores the earlier row first
    last: Ints  # for each the rank of the last photo with the same score
    total: int  # how many photos were ranked

    def without(self, excluded: Flags) -> "TiedPlaces":
        """The same with some of the positives taken out of the list."""
        ranks, last = self.ranks[~excluded], self.last[~excluded]
        return TiedPlaces(
            ranks - np.sort(self.ranks[excluded]).searchsorted(ranks),
            last - np.sort(self.last[excluded]).searchsorted(last, "right"),
            self.total - int(excluded.sum()),
        )

    def average_precision(self, k: int = K) -> float:
        """AP of the first k, from 0 to 1; NaN without positives.

        Each positive adds the precision at the end of its group of equal scores.
        """
        if not len(self.ranks):
            return float("nan")
        ends = np.minimum(self.last[self.ranks < k] + 1, k)
        found = np.sort(ends).searchsorted(ends, "right")
        return float((found / ends).sum()) / min(k, len(self.ranks))

    def oracle(self, k: int = K) -> float:
        """What perfect re-ranking of the first k could give, as published; NaN without positives.

        It exceeds 1 where fewer than k photos were ranked.
        """
        if not len(self.ranks):
            return float("nan")
        found = int((self.ranks < k).sum())
        return found / min(k, self.total) * k / len(self.ranks)


def evaluate_ilias(
    what: str | Path, describe: PhotoDescriber | None, settings: EvaluationSettings
) -> Evaluation:
    """Measure mAP@k on the release of ILIAS or a set like it; distractors are the other photos."""
    truth = read_objects(settings.ground_truth or what, settings.root)
    sides = (truth.database, "positives"), (truth.queries, "queries")
    if settings.features is None:
        for name in (*truth.database, *truth.queries):
            if not (truth.root / name).is_file():
                raise SolarError(
                    f"{truth.path} names the photo {name}, which is not in {truth.root}."
                )
        parts = [
            described(describe, Photos.in_folder(truth.root, names), str(truth.root))
            for names, _ in sides
        ]
    else:
        parts = [
            open_rows(given, NAMES[1 - side], "`features=`")
            for side, given in enumerate(settings.features)
        ]
    database, queries = (
        part.rows_of(names, f"{kind} of {truth.path}")
        for part, (names, kind) in zip(parts, sides, strict=True)
    )
    distractors = open_distractors(describe, settings)
    total = len(truth.database) + (0 if distractors is None else len(distractors.rows))
    found = tied_ranks(
        np.asarray(queries), database, truth.right, **rank_options(settings, distractors)
    )
    k = settings.depth or K
    places = [TiedPlaces(ranks, last, total) for ranks, last in found]
    return Evaluation(
        truth.queries,
        measure_objects(truth, places, k),
        convention=f"Whole photos, {how_described(describe, settings)}; {total:,} photos ranked; "
        f"AP over the first {k:,}: precision at the end of each group of equal scores, divided by "
        f"min({k:,}, positives).",
    )


def measure_objects(
    truth: ObjectTruth, places: list[TiedPlaces], k: int = K
) -> dict[str, Mapping[str, Doubles]]:
    """Measure all positives, and those of each group of scale and clutter where they are known.

    The others are taken out of the list; queries with none in a group are NaN there.
    """
    keep: dict[str, Flags] = {"all": np.ones(len(truth.database), np.bool_)}
    for name, values, ends in (
        ("scale", truth.scale, SCALES),
        ("clutter", truth.clutter, CLUTTERS),
    ):
        if values is not None:
            group = np.searchsorted(ends[1:-1], values, "right")
            keep |= {f"{name} {number + 1}": group == number for number in range(len(ends) - 1)}
    short = f"{k // 1000}k" if k % 1000 == 0 else str(k)
    found: dict[str, Mapping[str, Doubles]] = {}
    for level, kept in keep.items():
        own = [one.without(~kept[rows]) for one, rows in zip(places, truth.right, strict=True)]
        found[level] = {
            f"AP@{short}": np.array([one.average_precision(k) for one in own]),
            f"oracle@{short}": np.array([one.oracle(k) for one in own]),
        }
    return found
