"""UBC PhotoTour: the share of false matches at the distance that finds 95 % of the true ones."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from solar.datasets.patches.phototour import PAIRS, PhotoTour
from solar.describe.progress import Progress, counted
from solar.evaluation.metrics import fpr95
from solar.evaluation.protocols.patch_describers import Describe
from solar.evaluation.protocols.patch_tasks import pair_distances

_CHUNK = 2048


@dataclass(frozen=True)
class PhotoTourResult:
    """What was measured: the rate from 0 to 1, and the name of the subset's folder."""

    subset: str
    fpr95: float
    pairs: int
    convention: str

    def to_dict(self) -> dict[str, Any]:
        """As JSON, in percent."""
        return {
            "subset": self.subset,
            "FPR95": 100 * self.fpr95,
            "pairs": self.pairs,
            "convention": self.convention,
        }


def evaluate_phototour(
    data: PhotoTour,
    describe: Describe,
    *,
    pairs: int = PAIRS,
    convention: str = "hardnet",
    progress: Progress | None = None,
) -> PhotoTourResult:
    """FPR95 on the published list `m50_{pairs}_{pairs}_0.txt` of a subset.

    Only its patches are described, each once: (n, 64, 64) uint8 to (n, d) float32. `progress`
    counts the patches read.
    """
    wanted = data.pairs(pairs)
    used = np.unique(np.concatenate([wanted.left, wanted.right]))
    rows = _described(data, used, describe, progress)
    left, right = used.searchsorted(wanted.left), used.searchsorted(wanted.right)
    rate = fpr95(pair_distances(rows, left, right), wanted.same, convention)
    return PhotoTourResult(data.folder.resolve().name, rate, len(wanted.left), convention)


def _described(
    data: PhotoTour,
    used: npt.NDArray[np.int64],
    describe: Describe,
    progress: Progress | None,
) -> npt.NDArray[np.float32]:
    found, waiting = [], []
    seen, advance = 0, counted(progress, "Describing", len(data.points))
    for chunk in data.chunks():
        low, high = used.searchsorted([seen, seen + len(chunk)])
        waiting.append(chunk[used[low:high] - seen])
        seen += len(chunk)
        if sum(map(len, waiting)) >= _CHUNK or seen == len(data.points):
            patches = np.concatenate(waiting)
            waiting = []
            if len(patches):
                found.append(np.asarray(describe(patches), np.float32))
        advance(len(chunk))
    return np.concatenate(found)
