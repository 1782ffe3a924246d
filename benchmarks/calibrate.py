"""Fit the probabilities of a model, and measure how reliable they are.

    python benchmarks/calibrate.py --data DIR --model solar-r18 --cache DIR --write

DIR (or SOLAR_DATA) holds landmarks/train-{0,1,2}.tar, landmarks/val-0.tar, buildings/val-0.tar and
landmarks/distractors-0.tar. The weights of `solar.ranking.calibration` are fitted to the best
results of queries in collections drawn from a quarter of landmarks/train and the distractors, as
dense as landmarks/val: two logistic regressions by Newton's method, each weight with the sign that
its meaning has, or 0. The probabilities are then compared with the labels for the best 10 and 50
results of all queries of both val sets (expected calibration error, 15 bins), as `Index.search`
ranks them.

`--write` puts the weights into solar/weights/probabilities.json; `--json` keeps what was measured,
`--picture` draws it as an SVG.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lib.machine import machine
from lib.options import parsed, photo_options
from lib.places import descriptors, labels_of, shards
from numpy.typing import NDArray

from solar.arrays import Vectors
from solar.errors import SolarError
from solar.images.sources import find_photos
from solar.local.features import LocalFeatures
from solar.models import fingerprint, retrieval_model
from solar.ranking.calibration import Calibration, Evidence, features
from solar.ranking.verify import Verifier, together
from solar.weights import FOLDER, probabilities

TOP, BINS, LEARN_FROM, COLLECTIONS = 50, 15, 4, 25
# Higher similarity, matches, coverage and share speak for the same place, a later rank against it.
SIGNS = (1, -1, 1, 1, 1)

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Result:
    """A photo found: what is known of it, and whether it shows the place of the query."""

    query: int
    rank: int
    score: float  # its similarity to the query, or to its mean with the verified photos
    evidence: Evidence | None  # None for a plain search
    right: bool


def main() -> None:
    """Fit, measure, write."""
    options = _options()
    try:
        learnt = Places(options, "train", LEARN_FROM).samples()
        calibration = Calibration(*(fit(learnt, matched=matched) for matched in (False, True)))
        report: dict[str, Any] = {"machine": machine(), "model": options.model}
        report |= asdict(calibration) | {"learnt_from": len(learnt), "reliability": {}}
        for places in ("landmarks", "buildings"):
            results = Places(options, places).every()
            report["reliability"][places] = reliability(results, calibration)
            print(places, {k: v["ece"] for k, v in report["reliability"][places].items()})
    except SolarError as error:
        raise SystemExit(f"calibrate.py: {error}") from error
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    if options.picture:
        options.picture.write_text(drawn(report["reliability"]), encoding="utf-8")
    if options.write:
        known = probabilities() | {options.model: written(options.model, report)}
        text = json.dumps(known, indent=1) + "\n"
        (FOLDER / "probabilities.json").write_text(text, encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = photo_options(__doc__)
    parser.add_argument("--model", required=True, help="a model's file or name")
    parser.add_argument("--cache", type=Path, help="keep descriptors and local features here")
    parser.add_argument("--picture", type=Path, help="draw it into this SVG")
    parser.add_argument("--write", action="store_true", help="give the weights to the package")
    options = parsed(parser)
    if options.cache:
        options.cache.mkdir(parents=True, exist_ok=True)
    return options


class Places:
    """Photos of places and distractors: their labels, vectors and local features."""

    def __init__(self, options: argparse.Namespace, places: str, step: int = 1) -> None:
        photos = find_photos([options.data / shard for shard in shards(places)])
        labels = np.array(labels_of(photos))
        taken = np.flatnonzero((np.cumsum(labels != "") % step == 1 % step) | (labels == ""))
        self.photos, self.labels = photos.select(taken.tolist()), labels[taken]
        cache = options.cache and options.cache / f"{Path(options.model).stem}-{places}.npy"
        self.vectors = descriptors(self.photos, options.model, None, cache)
        features = options.cache and options.cache / "features"
        self._verifier = Verifier(
            lambda name: self.photos.read(self.photos.numbers[name]), features
        )
        self._known: dict[int, LocalFeatures] = {}
        self._compared: dict[tuple[int, int], Evidence] = {}

    def local(self, row: int) -> LocalFeatures:
        """The local features of a photo, found once."""
        if row not in self._known:
            self._known[row] = self._verifier.features(self.photos.names[row])
        return self._known[row]

    def evidence(self, query: int, row: int) -> Evidence:
        """How a photo matches a query, worked out once."""
        pair = query, row
        if pair not in self._compared:
            self._compared[pair] = self._verifier.evidence(self.local(query), self.local(row))
        return self._compared[pair]

    def results(self, rows: Rows, top: int) -> list[Result]:
        """The best of some photos for each of them that shows a place."""
        found = []
        for query in rows[self.labels[rows] != ""].tolist():
            plain = self.best(rows, query, self.vectors[query], top)
            verified = [row for row, _ in plain if self.evidence(query, row).same_scene]
            known = {row: self.vectors[row] for row in verified}
            mean, own = together(self.vectors[query], known)
            again = self.best(rows, query, mean, top)
            again = [(row, own.get(row, score)) for row, score in again]
            for kind, best in ((False, plain), (True, again)):
                for rank, (row, score) in enumerate(best, 1):
                    evidence = self.evidence(query, row) if kind else None
                    right = bool(self.labels[row] == self.labels[query])
                    found.append(Result(query, rank, score, evidence, right))
        return found

    def best(self, rows: Rows, query: int, vector: Vectors, top: int) -> list[tuple[int, float]]:
        """The rows that are most similar to a vector, without the query, and how similar."""
        scores = self.vectors[rows] @ vector
        order = np.argsort(-scores, kind="stable")[: top + 1]
        found = zip(rows[order].tolist(), scores[order].tolist(), strict=True)
        return [(row, score) for row, score in found if row != query][:top]

    def every(self) -> list[Result]:
        """All queries among all photos."""
        return self.results(np.arange(len(self.labels)), TOP)

    def samples(self) -> list[Result]:
        """Queries among collections drawn like a quarter of landmarks/val, or with fewer photos.

        Eight places and a quarter of the distractors each, and of each place as many photos as
        there are (a quarter) or fewer, down to 4. The best 13 are as far down the list as the best
        50 of four times the photos.
        """
        draw, found = np.random.default_rng(0), []
        names = np.unique(self.labels[self.labels != ""])
        others = np.flatnonzero(self.labels == "")
        for _ in range(COLLECTIONS):
            count = int(np.exp(draw.uniform(np.log(4), np.log(32))))
            rows = [draw.choice(others, len(others) // LEARN_FROM, replace=False)]
            for place in draw.choice(names, 8, replace=False):
                rows.append(draw.permutation(np.flatnonzero(self.labels == place))[:count])
            found += self.results(np.concatenate(rows), -(-TOP // LEARN_FROM))
        return found


def fit(results: Sequence[Result], *, matched: bool) -> tuple[float, ...]:
    """The weights of a logistic regression; one after the other with the wrong sign becomes 0."""
    mine = [one for one in results if (one.evidence is not None) == matched]
    rows = np.array([(1.0, *features(one.score, one.rank, one.evidence)) for one in mine])
    right = np.array([one.right for one in mine], float)
    signs = np.array([0, *SIGNS[: rows.shape[1] - 1]])
    used = np.ones(rows.shape[1], bool)
    while True:
        weights = np.zeros(rows.shape[1])
        weights[used] = newton(rows[:, used], right)
        wrong = weights * signs * rows.std(axis=0)
        if wrong.min() >= 0:
            return tuple(round(float(weight), 4) for weight in weights)
        used[wrong.argmin()] = False


def newton(rows: Floats, right: Floats) -> Floats:
    """Weights that make the labels most probable."""
    weights = np.zeros(rows.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-rows @ weights))
        curvature = (rows * (p * (1 - p))[:, None]).T @ rows + 1e-3 * np.eye(len(weights))
        slope = rows.T @ (right - p) - 1e-3 * weights
        step = np.asarray(np.linalg.solve(curvature, slope), np.float64)
        weights += step
        if np.abs(step).max() < 1e-9:
            break
    return weights


def reliability(results: Sequence[Result], calibration: Calibration) -> dict[str, Any]:
    """Expected calibration errors and bins, by what is compared."""
    told = {}
    for name in ("similar", "matched"):
        mine = [one for one in results if (one.evidence is not None) == (name == "matched")]
        p = np.array([calibration.probability(one.score, one.rank, one.evidence) for one in mine])
        right = np.array([one.right for one in mine], float)
        queries = np.array([one.query for one in mine])
        order = np.lexsort((-p, queries))
        place = np.arange(len(p)) - np.searchsorted(queries[order], queries[order])
        for top in (10, TOP):
            chosen = order[place < top]
            told[f"{name}, best {top}"] = binned(p[chosen], right[chosen])
    return told


def binned(p: Floats, right: Floats) -> dict[str, Any]:
    """How often photos of about the same probability are right."""
    number = np.minimum((p * BINS).astype(int), BINS - 1)
    bins = [
        {"probability": p[mine].mean(), "right": right[mine].mean(), "photos": int(mine.sum())}
        for mine in (number == one for one in range(BINS))
        if mine.any()
    ]
    off = sum(abs(one["probability"] - one["right"]) * one["photos"] for one in bins) / len(p)
    return {"ece": round(float(off), 4), "bins": bins}


def written(model: str, report: dict[str, Any]) -> dict[str, Any]:
    """What the package keeps of a model."""
    measured = {
        places: told["matched, best 10"]["ece"] for places, told in report["reliability"].items()
    }
    kept = {name: report[name] for name in ("similar", "matched")}
    return {"fingerprint": fingerprint(retrieval_model(model)), **kept, "ece": measured}


def drawn(measured: dict[str, Any]) -> str:
    """A reliability diagram: for each bin of probabilities the share of photos that are right."""
    side, gap = 260, 46
    parts = []
    for number, (places, told) in enumerate(measured.items()):
        x, one = gap + number * (side + gap), told["matched, best 10"]
        largest = max(bin_["photos"] for bin_ in one["bins"])
        parts += [
            f'<rect x="{x}" y="30" width="{side}" height="{side}" class="frame"/>',
            f'<path d="M{x} {30 + side}L{x + side} 30" class="ideal"/>',
            f'<text x="{x + side / 2}" y="20" text-anchor="middle">{places}, calibration error '
            f"{one['ece']:.3f}</text>",
            *(
                f'<circle cx="{x + side * bin_["probability"]:.1f}" '
                f'cy="{30 + side * (1 - bin_["right"]):.1f}" '
                f'r="{2.5 + 7 * (bin_["photos"] / largest) ** 0.5:.1f}"/>'
                for bin_ in one["bins"]
            ),
            *(
                f'<text x="{x + side * tick}" y="{side + 48}" text-anchor="middle">{tick}</text>'
                f'<text x="{x - 6}" y="{34 + side * (1 - tick)}" text-anchor="end">{tick}</text>'
                for tick in (0, 0.5, 1)
            ),
            f'<text x="{x + side / 2}" y="{side + 68}" text-anchor="middle">probability</text>',
        ]
    width = gap + len(measured) * (side + gap)
    style = (
        "text{font:12px sans-serif;fill:#777}circle{fill:#d97706}"
        ".frame{fill:none;stroke:#999}.ideal{stroke:#999;stroke-dasharray:4 4}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {side + 80}" role="img" '
        f'aria-label="Share of right photos against probability"><style>{style}</style>'
        f"{''.join(parts)}</svg>\n"
    )


if __name__ == "__main__":
    main()
