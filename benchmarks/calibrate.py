"""Fit the probabilities of a model in many artificial collections, and measure how true they are.

    python benchmarks/calibrate.py --photos DIR --cache DIR --model solar-lite0 --write

DIR holds a folder per set, and in it a folder per place: SET/PLACE/PHOTO.jpg, as
benchmarks/calibration_photos.py lays them out. A set of a single folder shows no places: its photos
are distractors. The sets `--judge` names are left for the end; collections are drawn from the
others: from one set or from several, with 2 to 100 photos a place, with and without distractors, or
30 photos in all. In each, some photos are searched for among the others, and some whose place is
not there. What is right follows from the folders.

`--write` puts the weights into solar/weights/probabilities.json; `--json` keeps what was measured,
`--picture` draws it as an SVG. Embeddings and what matching found are kept in `--cache`.
"""

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from lib.machine import machine
from numpy.typing import NDArray

from solar.arrays import Vectors
from solar.errors import SolarError
from solar.images import Photos
from solar.images.opencv import opencv
from solar.index.build import fill
from solar.local.features import LocalFeatures
from solar.models import fingerprint, retrieval_model
from solar.ranking.background import SAMPLE, TYPICAL
from solar.ranking.calibration import (
    NEIGHBOURS,
    Background,
    Calibration,
    Evidence,
    Judged,
    calibration_error,
    fitted,
    told,
)
from solar.ranking.results import BEST
from solar.ranking.verify import Verifier, together
from solar.weights import FOLDER, probabilities

TOP, BINS = 50, 15
PLAIN, MATCHED = 24, 2  # collections of each kind, for the two regressions
QUERIES, ABSENT, SMALL = 10, 2, 30
DISTRACTORS = "distractors"
# Sets of which much or little is like what people search.
WEIGHTS = {"train": 6.0, "fruit": 0.2, "sped": 0.7, "essex": 0.7}

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


def main() -> None:
    """Fit, measure, write."""
    options = _options()
    try:
        world = World(options)
        learnt = [*world.learn("plain"), *world.learn("matched")]
        calibration = fitted(learnt)
        print(calibration, flush=True)
        report: dict[str, Any] = {"machine": machine(), "model": options.model}
        report |= asdict(calibration) | {"learnt_from": len(learnt), "reliability": {}}
        for name, sets in world.judged():
            results = world.searched([(name, rows) for rows in [world.rows(sets)]], "judge")
            found = {
                how: reliability(
                    [one for one in results if (one.evidence is None) == plain], calibration
                )
                for how, plain in (("verified", False), ("similarity", True))
            }
            report["reliability"][name] = found
            print(name, json.dumps({how: _short(one) for how, one in found.items()}), flush=True)
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--photos", type=Path, required=True, help="SET/PLACE/PHOTO.jpg")
    parser.add_argument("--model", required=True, help="a model's file or name")
    parser.add_argument(
        "--cache", type=Path, required=True, help="keep descriptors and matches here"
    )
    parser.add_argument("--judge", action="append", help="default: val and buildings")
    parser.add_argument("--queries", type=int, default=100, help="of each judged set")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path, help="draw it into this SVG")
    parser.add_argument("--write", action="store_true", help="give the weights to the package")
    options = parser.parse_args()
    options.judge = options.judge or ["val", "buildings"]
    options.cache.mkdir(parents=True, exist_ok=True)
    return options


class World:
    """All photos: their sets, places and vectors."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        files = sorted(options.photos.glob("*/*/*.jpg"))
        names = [file.relative_to(options.photos).as_posix() for file in files]
        if not names:
            raise SolarError(f"{options.photos} holds no SET/PLACE/PHOTO.jpg.")
        known = described(options, names)
        self.names = [name for name in names if name in known]
        self.vectors = np.stack([known[name] for name in self.names])
        self.sets = np.array([name.split("/")[0] for name in self.names])
        self.places = np.array([name.rsplit("/", 1)[0] for name in self.names])
        for one in np.unique(self.sets):
            if len(np.unique(self.places[self.sets == one])) == 1:
                self.places[self.sets == one] = ""

    def rows(self, sets: Sequence[str]) -> Rows:
        """All photos of some sets."""
        return np.flatnonzero(np.isin(self.sets, sets))

    def judged(self) -> Iterator[tuple[str, list[str]]]:
        """The collections that are judged: their names, and the sets in them."""
        judge = self.options.judge
        for sets in [*([one] for one in judge), *([judge] if len(judge) > 1 else [])]:
            yield " and ".join(sets), sets
            yield " and ".join([*sets, DISTRACTORS]), [*sets, DISTRACTORS]

    def learn(self, how: str) -> list[Judged]:
        """Results in drawn collections; each kind of collection counts the same."""
        others = [one for one in np.unique(self.sets) if one not in self.options.judge]
        placed = [one for one in others if (self.places[self.sets == one] != "").any()]
        kinds = [*placed, "mixed", "small"]
        count = PLAIN if how == "plain" else MATCHED
        draws = [
            (kind, self.drawn(kind, placed, np.random.default_rng([number, at, how == "plain"])))
            for at, kind in enumerate(kinds)
            for number in range(count)
        ]
        results = self.searched(draws, how)
        totals: dict[str, int] = {}
        kind_of = [draws[one.query // 1000][0] for one in results]
        for kind, one in zip(kind_of, results, strict=True):
            totals[kind] = totals.get(kind, 0) + len(one.right)
        return [
            replace(one, weight=WEIGHTS.get(kind, 1.0) * 1e4 / totals[kind])
            for kind, one in zip(kind_of, results, strict=True)
        ]

    def drawn(self, kind: str, placed: Sequence[str], draw: np.random.Generator) -> Rows:
        """The photos of an artificial collection."""
        sets = list(placed) if kind in ("mixed", "small") else [kind]
        most = 10 if kind == "small" else 600
        rows: list[int] = []
        for one in sets:
            places = draw.permutation(np.unique(self.places[self.sets == one]))
            size = _spread(draw, 2, 100)
            for place in places[: _spread(draw, 4, min(len(places), most))]:
                rows += draw.permutation(np.flatnonzero(self.places == place))[:size].tolist()
        if draw.random() < 0.5:
            singles = np.flatnonzero((self.places == "") & ~np.isin(self.sets, self.options.judge))
            rows += draw.permutation(singles)[: _spread(draw, 20, len(singles))].tolist()
        if kind == "small":
            rows = draw.permutation(rows)[:SMALL].tolist()
        return np.unique(rows)

    def searched(self, draws: Sequence[tuple[str, Rows]], how: str) -> list[Judged]:
        """What searches in collections find, in several processes."""
        _WORLD[:] = [self]
        jobs = [(number, rows, how) for number, (_, rows) in enumerate(draws)]
        if how == "judge":  # one collection: its queries are shared out
            parts = self.options.jobs
            jobs = [(part, draws[0][1], f"judge {part} {parts}") for part in range(parts)]
        with ProcessPoolExecutor(self.options.jobs, get_context("fork")) as pool:
            return [one for found in pool.map(_search, jobs) for one in found]

    def queries(self, rows: Rows, how: str, draw: np.random.Generator) -> list[int]:
        """Photos to search for: of places in the collection, and some of places that are not."""
        names, counts = np.unique(self.places[rows], return_counts=True)
        several = names[(counts > 1) & (names != "")]
        own = rows[np.isin(self.places[rows], several)]
        if how.startswith("judge"):
            chosen: list[int] = []
            for one in self.options.judge:
                mine = own[self.sets[own] == one]
                every = np.random.default_rng(0).permutation(mine)[: self.options.queries]
                chosen += every.tolist()
            part = [int(number) for number in how.split()[1:]] or [0, 1]
            return chosen[part[0] :: part[1]]
        there = np.isin(self.sets, np.unique(self.sets[own])) & (self.places != "")
        absent = np.flatnonzero(there & ~np.isin(self.places, names))
        return [
            *draw.permutation(own)[:QUERIES].tolist(),
            *draw.permutation(absent)[:ABSENT].tolist(),
        ]


def _spread(draw: np.random.Generator, low: int, high: int) -> int:
    low, high = min(low, high), max(low, high, 1)
    return round(float(np.exp(draw.uniform(np.log(max(low, 1)), np.log(high)))))


_WORLD: list[World] = []  # what the processes inherit


def _search(job: tuple[int, Rows, str]) -> list[Judged]:
    """Plain results of all queries, and but for `plain` also the verified ones."""
    [world], (number, rows, how) = _WORLD, job
    opencv().setNumThreads(1)
    draw = np.random.default_rng(number)
    collection = Collection(world, rows)
    results = []
    for at, query in enumerate(world.queries(rows, how, draw)):
        own = number * 1000 + at
        plain, scores, background = collection.nearest(query, world.vectors[query])
        if background is None:
            continue
        right = collection.right(query, plain)
        results.append(Judged(own, scores, background, right))
        if how == "plain":
            continue
        found = [collection.evidence(query, row) for row in plain.tolist()]
        verified = {
            row: world.vectors[row]
            for row, one in zip(plain.tolist(), found, strict=True)
            if one.same_scene
        }
        mean, alone = together(world.vectors[query], verified)
        again, scores, background = collection.nearest(query, mean)
        assert background is not None
        scores = [alone.get(row, score) for row, score in zip(again.tolist(), scores, strict=True)]
        evidence = [collection.evidence(query, row) for row in again.tolist()]
        results.append(Judged(own, scores, background, collection.right(query, again), evidence))
    if how == "matched":  # the plain ones are drawn on their own
        results = [one for one in results if one.evidence is not None]
    return results


class Collection:
    """Some of the photos, in which others are searched for as `Index.search` does."""

    def __init__(self, world: World, rows: Rows) -> None:
        self.world, self.rows, self.vectors = world, rows, world.vectors[rows]
        self.sample = np.linspace(0, len(rows) - 1, min(SAMPLE, len(rows)), dtype=np.int64)
        typical = np.linspace(0, len(rows) - 1, min(TYPICAL, len(rows)), dtype=np.int64)
        self.typical = self.neighbours(self.vectors[typical], np.ones(len(rows), bool))
        self.near: tuple[int, Floats] = -1, np.empty((0, 0))

    def neighbours(self, vectors: Vectors, kept: NDArray[np.bool_]) -> Floats:
        """The similarities of photos to their neighbours among those kept, without themselves."""
        found: Floats = -np.sort(-(vectors @ self.vectors[kept].T), axis=1).astype(np.float64)
        return found[:, 1 : NEIGHBOURS[-1] + 1]

    def nearest(self, query: int, vector: Vectors) -> tuple[Rows, list[float], Background | None]:
        """The best rows for a vector, their similarities, and what these are compared with."""
        others = self.rows != query
        rows = self.rows[others]
        scores = self.vectors[others] @ vector
        order = np.argsort(-scores, kind="stable")[:TOP]
        if self.near[0] != query:
            self.near = query, self.neighbours(self.world.vectors[rows[order[:BEST]]], others)
        sample = self.sample[self.rows[self.sample] != query]
        background = Background.of(
            self.vectors[sample] @ vector, len(rows), self.near[1], self.typical
        )
        return rows[order], scores[order].tolist(), background

    def right(self, query: int, rows: Rows) -> Floats:
        """Whether rows show the place of a query."""
        place = self.world.places[query]
        return np.array((self.world.places[rows] == place) & (place != ""), np.float64)

    def evidence(self, query: int, row: int) -> Evidence:
        """How a photo matches a query, worked out once."""
        return _matches(self.world.options.photos, self.world.options.cache).evidence(
            *(self.world.names[one] for one in (query, row))
        )


class Matches:
    """How photos match, kept in a file of this process; those of others are read at the start."""

    def __init__(self, photos: Path, folder: Path) -> None:
        self.known: dict[tuple[str, str], Evidence] = {}
        for file in folder.glob("matches*.jsonl"):
            for line in file.read_text().splitlines():
                if line.endswith("]"):  # written whole
                    a, b, *numbers = json.loads(line)
                    self.known[a, b] = Evidence(*numbers)
        self.verifier = Verifier(lambda name: photos / name, folder / "features")
        self.file = _own_file(folder)
        self.features = cache(self.verifier.features)

    def evidence(self, query: str, other: str) -> Evidence:
        """How two photos match."""
        pair = min(query, other), max(query, other)
        if pair not in self.known:
            features: list[LocalFeatures] = [self.features(name) for name in pair]
            found = self.known[pair] = self.verifier.evidence(*features)
            line = [*pair, found.inliers, found.matches, round(found.coverage, 5), found.threshold]
            with self.file.open("a") as file:
                file.write(json.dumps(line) + "\n")
        return self.known[pair]


@cache
def _matches(photos: Path, folder: Path) -> Matches:
    return Matches(photos, folder)


def _own_file(folder: Path) -> Path:
    return folder / f"matches-{os.getpid()}.jsonl"


def described(options: argparse.Namespace, names: Sequence[str]) -> dict[str, Vectors]:
    """The descriptors of photos by name, from an index in the cache, which is completed first."""
    photos = Photos.in_folder(options.photos, names)
    file = options.cache / f"{Path(options.model).stem}.solar"
    with fill(file, photos, model=options.model) as index:
        return dict(zip(index.paths, np.asarray(index.vectors), strict=True))


def reliability(results: Sequence[Judged], calibration: Calibration) -> dict[str, Any]:
    """Expected calibration errors and bins of the best 10 and 50, and how much is found."""
    found: dict[str, Any] = {"queries": len(results)}
    for top in (10, TOP):
        found[f"best {top}"] = binned(*told(results, calibration, top))
    p, right = told(results, calibration, TOP)
    sure, likely = p >= 0.9, p >= 0.5
    found["sure"] = {"photos": int(sure.sum()), "right": _share(right[sure])}
    found["likely"] = {"right": _share(right[likely]), "of_right": _share(likely[right == 1])}
    return found


def _share(right: NDArray[Any]) -> float | None:
    return round(float(right.mean()), 4) if len(right) else None


def _short(found: dict[str, Any]) -> dict[str, Any]:
    errors = {name: found[name]["ece"] for name in ("best 10", "best 50")}
    return errors | {name: found[name] for name in ("sure", "likely", "queries")}


def binned(p: Floats, right: Floats) -> dict[str, Any]:
    """How often photos of about the same probability are right."""
    number = np.minimum((p * BINS).astype(int), BINS - 1)
    bins = [
        {"probability": p[mine].mean(), "right": right[mine].mean(), "photos": int(mine.sum())}
        for mine in (number == one for one in range(BINS))
        if mine.any()
    ]
    return {"ece": round(calibration_error(p, right, BINS), 4), "bins": bins}


def written(model: str, report: dict[str, Any]) -> dict[str, Any]:
    """What the package keeps of a model."""
    measured = {
        name: found["verified"]["best 10"]["ece"] for name, found in report["reliability"].items()
    }
    kept = {name: report[name] for name in ("similar", "matched")}
    return {"fingerprint": fingerprint(retrieval_model(model)), **kept, "ece": measured}


def drawn(measured: dict[str, Any]) -> str:
    """Reliability diagrams: for each bin of probabilities the share of photos that are right."""
    side, gap = 260, 46
    parts = []
    for number, (places, found) in enumerate(measured.items()):
        x, one = gap + number * (side + gap), found["verified"]["best 10"]
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
