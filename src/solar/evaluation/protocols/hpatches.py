"""HPatches: how well descriptors of patches match, verify and retrieve."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from solar.arrays import Floats
from solar.datasets.patches.hpatches import (
    IMAGES,
    NOISES,
    STRIPS,
    HPatches,
    Items,
    Pairs,
    read_items,
    read_pairs,
    read_splits,
)
from solar.describe.progress import Progress, counted
from solar.errors import SolarError
from solar.evaluation.protocols.patch_describers import Describe
from solar.evaluation.protocols.patch_tasks import (
    AVERAGES,
    Descriptors,
    match,
    retrieval,
    verification,
)

TASKS = ("matching", "verification", "retrieval")
LEVELS = {"e": "easy", "h": "hard", "t": "tough"}
PAIRS = 100_000  # pairs of each kind where the published list of a million is not at hand

_QUERIES, _DISTRACTORS, _CONTRAST = 10_000, 20_000, 10
_KINDS = ("positive", "inter", "intra")
_LISTS = {
    "verification": ("verif_pos", "verif_neg_inter", "verif_neg_intra"),
    "retrieval": ("retr_queries", "retr_distractors"),
}


@dataclass(frozen=True)
class HPatchesResult:
    """What was measured, from 0 to 1; a task that was not asked for is empty."""

    split: str
    average: str
    # Sequence to noise (`e`, `h`, `t`) to mAP and share of right matches over its five photos.
    matching: Mapping[str, Mapping[str, tuple[float, float]]]
    # Noise to `inter` and `intra` to area under the ROC curve (balanced) and AP (imbalanced).
    verification: Mapping[str, Mapping[str, tuple[float, float]]]
    retrieval: Mapping[str, Mapping[int, float]]  # noise to size of the pool to mAP
    lists: Mapping[str, str]  # task to `published` or `generated`, and how many pairs or queries

    def levels(self, task: str) -> dict[str, float]:
        """The task's headline at each noise: what is averaged to its `mean`.

        Matching: mAP over sequences and photos. Verification: imbalanced AP, mean of both kinds of
        negatives. Retrieval: mAP in the largest pool.
        """
        if task == "matching":
            values = self.matching.values()
            return {n: float(np.mean([noises[n][0] for noises in values])) for n in NOISES}
        if task == "verification":
            kinds = self.verification
            return {n: float(np.mean([ap for _, ap in kinds[n].values()])) for n in NOISES}
        return {n: self.retrieval[n][max(self.retrieval[n])] for n in NOISES}

    def mean(self, task: str = "matching") -> float:
        """Mean of a task over easy, hard and tough."""
        return float(np.mean(list(self.levels(task).values())))

    @property
    def tasks(self) -> tuple[str, ...]:
        """What was measured."""
        return tuple(task for task in TASKS if getattr(self, task))

    def to_dict(self) -> dict[str, Any]:
        """Everything in percent, as JSON."""
        found: dict[str, Any] = {"split": self.split, "average": self.average}
        for task in self.tasks:
            found[task] = {"mAP": 100 * self.mean(task)}
            found[task] |= {LEVELS[n]: 100 * value for n, value in self.levels(task).items()}
            if task in self.lists:
                found[task]["lists"] = self.lists[task]
        if self.matching:
            rates = [rate for noises in self.matching.values() for _, rate in noises.values()]
            found["matching"]["success"] = 100 * float(np.mean(rates))
            found["matching"]["sequences"] = {
                name: _by_level({n: ap for n, (ap, _) in noises.items()})
                for name, noises in self.matching.items()
            }
        if self.verification:
            found["verification"]["negatives"] = {
                kind: {
                    measure: _by_level({n: self.verification[n][kind][place] for n in NOISES})
                    for place, measure in enumerate(("AUC", "AP"))
                }
                for kind in self.verification["e"]
            }
        if self.retrieval:
            found["retrieval"]["pools"] = {
                str(k): _by_level({n: self.retrieval[n][k] for n in NOISES})
                for k in self.retrieval["e"]
            }
        return found


def evaluate_hpatches(
    data: HPatches | Mapping[str, Mapping[str, Floats]],
    describe: Describe | None = None,
    *,
    tasks: Sequence[str] = TASKS,
    split: str = "all",
    lists: str | Path | None = None,
    average: str = "trapezoid",
    pairs: int = PAIRS,
    seed: int = 0,
    progress: Progress | None = None,
) -> HPatchesResult:
    """Measure descriptors on a set of strips.

    Args:
        data: The patches, or descriptors as `read_descriptors` gives them.
        describe: (n, 65, 65) uint8 to (n, d) float32; not used for descriptors.
        tasks: Some of `matching`, `verification` and `retrieval`.
        split: `all` sequences, or the test part of a published split (a, b, c, illum, view, full).
        lists: The folder of `splits.json` and the published lists, or a clone of the benchmark. A
            task without its lists gets generated ones, the same for every descriptor, as the result
            notes.
        average: `trapezoid`, as the published Python code has it, or `matlab`.
        pairs: Generated pairs of each kind, for verification.
        seed: Of generated lists.
        progress: Called with the strips described and their number.
    """
    unknown = sorted(set(tasks) - set(TASKS))
    if unknown or not tasks:
        raise SolarError(f"There is no task {', '.join(unknown)!r}: choose {', '.join(TASKS)}.")
    if average not in AVERAGES:
        raise SolarError(f"There is no average {average!r}: choose {' or '.join(AVERAGES)}.")
    names = tuple(data.names if isinstance(data, HPatches) else data)
    if split != "all":
        names = find_split(split, lists)
    table = _described(data, names, describe, progress)
    matching = _matching(table, average) if "matching" in tasks else {}
    notes, verifying, retrieving = {}, {}, {}
    if "verification" in tasks:
        files = _files("verification", split, lists)
        published = dict(zip(_KINDS, map(read_pairs, files), strict=False))
        listed = published or generate_pairs(table, pairs, seed)
        sizes = f"{len(listed['positive'].row)} pairs per kind"
        notes["verification"] = f"{'published' if files else 'generated'}: {sizes}"
        verifying = verification(table, listed, average)
    if "retrieval" in tasks:
        files = _files("retrieval", split, lists)
        asked, others = [*map(read_items, files)] or generate_retrieval(table, seed)
        sizes = f"{len(asked.row)} queries, {len(others.row)} distractors"
        notes["retrieval"] = f"{'published' if files else 'generated'}: {sizes}"
        retrieving = retrieval(table, asked, others, average)
    return HPatchesResult(split, average, matching, verifying, retrieving, notes)


def find_split(name: str, lists: str | Path | None) -> tuple[str, ...]:
    """The sequences of a published split, from `splits.json` in a folder."""
    if lists is None:
        raise SolarError(f"The split {name} needs `lists=`, the folder of splits.json.")
    splits = read_splits(_listed(lists, "splits.json"))
    if name not in splits:
        raise SolarError(f"There is no split {name!r}: choose all, {', '.join(splits)}.")
    return splits[name]


def generate_pairs(data: Descriptors, count: int, seed: int = 0) -> dict[str, Pairs]:
    """Pairs to verify where there is no published list, drawn like it.

    Positives are two photos of a point, `intra` negatives two points of a sequence, `inter` ones
    two sequences. Unlike the published generator, the last photo takes part, and the two sequences
    are never the same.
    """
    if len(data.names) < 2 or data.counts.min() < 2:
        raise SolarError("Verification needs two sequences of two points: use `tasks=matching`.")
    rng = np.random.default_rng((seed, 1))
    sequence = rng.integers(0, len(data.names), count)
    other = (sequence + rng.integers(1, len(data.names), count)) % len(data.names)
    row = rng.integers(0, data.counts[sequence])
    intra = (row + rng.integers(1, data.counts[sequence])) % data.counts[sequence]
    inter = rng.integers(0, data.counts[other])
    photos = len(IMAGES) + 1
    image = rng.integers(0, photos, count)
    image = np.stack([image, (image + rng.integers(1, photos, count)) % photos], axis=1)

    second = {"positive": (sequence, row), "inter": (other, inter), "intra": (sequence, intra)}
    return {
        kind: Pairs(data.names, np.stack([sequence, s], 1), image, np.stack([row, r], 1))
        for kind, (s, r) in second.items()
    }


def generate_retrieval(data: Descriptors, seed: int = 0) -> list[Items]:
    """Queries and distractors where there are no published lists: a third and the rest.

    At most 10,000 and 20,000, in random order, of the reference patches that are not flat.
    """
    usable = np.arange(data.starts[-1])
    if data.contrast is not None:
        usable = usable[data.contrast > _CONTRAST]
    if len(data.names) < 2 or len(usable) < 3:
        raise SolarError("Retrieval needs two sequences with patches: use `tasks=matching`.")
    drawn = np.random.default_rng((seed, 2)).permutation(usable)
    queries = drawn[: min(_QUERIES, len(drawn) // 3)]
    distractors = drawn[len(queries) :][:_DISTRACTORS]
    found = []
    for places in (queries, distractors):
        sequence = data.starts.searchsorted(places, "right") - 1
        found.append(Items(data.names, sequence, places - data.starts[sequence]))
    return found


def _matching(data: Descriptors, average: str) -> dict[str, dict[str, tuple[float, float]]]:
    found = {}
    for number, name in enumerate(data.names):
        rows = data.rows[:, data.starts[number] : data.starts[number + 1]]
        scores = [match(rows[0], other, average) for other in rows[1:]]
        means = np.reshape(scores, (len(NOISES), len(IMAGES), 2)).mean(1)
        found[name] = {n: (ap, rate) for n, (ap, rate) in zip(NOISES, means.tolist(), strict=True)}
    return found


def _described(
    data: HPatches | Mapping[str, Mapping[str, Floats]],
    names: Sequence[str],
    describe: Describe | None,
    progress: Progress | None,
) -> Descriptors:
    if isinstance(data, HPatches):
        if describe is None:
            raise SolarError("Patches need a function that describes them: pass describe=.")
        data = data.only(names)
        counts = [data.counts[name] for name in names]
    else:
        if missing := sorted(set(names) - set(data)):
            raise SolarError(f"There are no descriptors of the sequence {missing[0]}.")
        counts = [len(data[name]["ref"]) for name in names]
    starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    rows, contrast = np.empty(0, np.float32), []
    every = [(place, name, kind) for place, name in enumerate(names) for kind in STRIPS]
    advance = counted(progress, "Describing", len(every))
    for done, (place, name, kind) in enumerate(every):
        if isinstance(data, HPatches):
            assert describe is not None
            patches = data.strip(name, kind)
            found = np.asarray(describe(patches), np.float32)
            if kind == "ref":
                contrast.append(patches.reshape(len(patches), -1).std(1, dtype=np.float32))
        else:
            found = data[name][kind]
        if not done:  # only now is their length known
            rows = np.empty((len(STRIPS), starts[-1], found.shape[1]), np.float32)
        rows[done % len(STRIPS), starts[place] : starts[place + 1]] = found
        advance(1)
    return Descriptors(tuple(names), starts, rows, np.concatenate(contrast) if contrast else None)


def _files(task: str, split: str, lists: str | Path | None) -> list[Path]:
    if lists is None:
        return []
    files = [_listed(lists, f"{name}_split-{split}.csv") for name in _LISTS[task]]
    return files if all(file.is_file() for file in files) else []


def _listed(lists: str | Path, name: str) -> Path:
    """A file of a folder of lists; of a clone of the benchmark, its `tasks` or its `splits`."""
    places = [Path(lists, folder, name) for folder in ("", "splits", "tasks", "tasks/splits")]
    return next((place for place in places if place.is_file()), places[0])


def _by_level(values: Mapping[str, float]) -> dict[str, float]:
    named = {LEVELS[noise]: 100 * value for noise, value in values.items()}
    return {"mean": float(np.mean(list(named.values()))), **named}
