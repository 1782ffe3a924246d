"""A small ground truth in the published form, descriptors for it, and where the real one is."""

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DATABASE, QUERIES = 60, 5


def entries() -> list[dict[str, Any]]:
    """Five queries: one without easy answers, one without hard ones, one without junk."""
    rng = np.random.default_rng(7)
    sizes = [(4, 3, 2), (0, 5, 3), (6, 0, 1), (2, 2, 0), (1, 8, 6)]
    found = []
    for easy, hard, junk in sizes:
        rows = rng.permutation(DATABASE)[: easy + hard + junk].tolist()
        answers = {
            "easy": rows[:easy],
            "hard": rows[easy : easy + hard],
            "junk": rows[easy + hard :],
        }
        found.append({"bbx": [1.5, 2.0, 30.0, 20.5], **answers})
    return found


def content() -> dict[str, Any]:
    return {
        "imlist": [f"db_{i:03d}" for i in range(DATABASE)],
        "qimlist": [f"query_{i}" for i in range(QUERIES)],
        "gnd": entries(),
    }


def write(path: Path, **changes: Any) -> Path:
    path.write_bytes(pickle.dumps({**content(), **changes}, protocol=2))
    return path


def descriptors(dim: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Database and queries, near enough to the ground truth that ranks are neither 0 nor random."""
    rng = np.random.default_rng(11)
    database, queries = rng.standard_normal((DATABASE, dim)), rng.standard_normal((QUERIES, dim))
    for query, entry in zip(queries, entries(), strict=True):
        for kind, weight in (("easy", 1.0), ("hard", 0.5), ("junk", 0.7)):
            database[entry[kind]] += weight * query
    return unit(database), unit(queries)


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def by_hand(database: np.ndarray, queries: np.ndarray, average: str = "trapezoid") -> dict:
    """The protocols spelled out on whole sorted lists, as slowly as can be."""
    protocols = {
        "easy": (["easy"], ["junk", "hard"]),
        "medium": (["easy", "hard"], ["junk"]),
        "hard": (["hard"], ["junk", "easy"]),
    }
    found: dict[str, dict[str, float]] = {}
    for protocol, (right, ignored) in protocols.items():
        rows = []
        for query, entry in zip(queries.astype(float), entries(), strict=True):
            order = np.argsort(-(database.astype(float) @ query), kind="stable")
            good = {row for kind in right for row in entry[kind]}
            bad = {row for kind in ignored for row in entry[kind]}
            hits = [row in good for row in order if row not in bad]
            if good:
                rows.append([_average(hits, average), *(_precision(hits, k) for k in (1, 5, 10))])
        means = (100 * np.mean(rows, axis=0)).tolist()
        found[protocol] = dict(zip(("mAP", "mP@1", "mP@5", "mP@10"), means, strict=True))
    return found


def _average(hits: list[bool], average: str) -> float:
    total = 0.0
    for place, hit in enumerate(hits):
        if hit:
            before, found = sum(hits[:place]), sum(hits[: place + 1])
            here = found / (place + 1)
            earlier = before / place if place else 1.0
            total += (earlier + here) / 2 if average == "trapezoid" else here
    return total / sum(hits)


def _precision(hits: list[bool], k: int) -> float:
    last = max(place for place, hit in enumerate(hits) if hit) + 1
    return sum(hits[: min(k, last)]) / min(k, last)


def real(name: str) -> Path:
    """A file of the data kept beside the repository; the test is skipped where there is none."""
    beside = Path(__file__).parents[3] / "shared" / "data"
    path = Path(os.environ.get("SOLAR_DATA", beside)) / name
    if not path.exists():
        pytest.skip(f"{path} is not here; set SOLAR_DATA to the folder of the real data")
    return path
