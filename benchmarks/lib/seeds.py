"""Networks of several seeds beside each other: means, deviations and paired intervals."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from solar.evaluation import evaluate_labels
from solar.evaluation.result import Evaluation, compare

Rows: TypeAlias = npt.NDArray[np.float32]


def every_set(
    rows: Mapping[str, Rows], shown: Mapping[str, tuple[Sequence[str], Sequence[str]]]
) -> dict[str, Evaluation]:
    """Landmarks and buildings, each alone and among the distractors.

    Args:
        rows: Descriptors by the name of their set, "distractors" among them.
        shown: Names and labels of the photos of a set.
    """
    found = {}
    for name in ("landmarks", "buildings"):
        photos, labels = shown[name]
        for title, others in ((name, None), (f"{name} + distractors", rows["distractors"])):
            found[title] = evaluate_labels(rows[name], labels, photos=photos, distractors=others)
    return found


def summary(
    found: dict[str, list[dict[str, Evaluation]]], bases: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """A row a network: mean and deviation over the seeds, and its distance from each base."""
    for name, runs in found.items():
        row: dict[str, Any] = {"network": name, "seeds": len(runs)}
        for what in runs[0]:
            scores = [100 * run[what].mean("AP", "all") for run in runs]
            row[what] = {
                "mAP": round(statistics.mean(scores), 2),
                "each": np.round(scores, 2).tolist(),
            }
            row[what]["std"] = round(statistics.stdev(scores), 2) if len(scores) > 1 else None
            for base in bases:
                if name == base or base not in found:
                    continue
                beside = _joined([run[what] for run in found[base]])
                test = compare(beside, _joined([run[what] for run in runs]))
                row[what][f"against {base}"] = {
                    "difference": round(100 * test.difference, 2),
                    "low": round(100 * test.low, 2),
                    "high": round(100 * test.high, 2),
                    "p": round(test.p, 4),
                }
        yield row


def _joined(many: Sequence[Evaluation]) -> Evaluation:
    """Mean over seeds, query by query."""
    values = np.mean([one.protocols["all"]["AP"] for one in many], axis=0)
    return Evaluation(many[0].queries, {"all": {"AP": values}})
