"""ILIAS: the golden numbers of the published evaluation, counting against sorting, whole sets."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.golden2 import golden2
from support.ground_truth import unit

import solar
from solar.errors import SolarError
from solar.evaluation.protocols.ilias import TiedPlaces
from solar.evaluation.ranks import tied_ranks
from solar.models import RetrievalNet

GOLDEN = golden2("ilias_eval")


def places_of(scores: np.ndarray, rows: np.ndarray) -> TiedPlaces:
    """Where the positives are, from the scores (n,) of all photos."""
    falling = -np.asarray(scores)
    ranks = np.empty(len(falling), np.int64)
    ranks[np.argsort(falling, kind="stable")] = np.arange(len(falling))
    last = np.sort(falling).searchsorted(falling, "right") - 1
    return TiedPlaces(ranks[rows], last[rows], len(falling))


@pytest.mark.parametrize("name", [n for n in GOLDEN if re.search(r"_k\d+$", n)])
def test_the_published_numbers(name: str) -> None:
    k = int(name.rpartition("_k")[2])
    measured = []
    for scores, right, excluded in zip(
        *(GOLDEN[f"ilias_eval_{part}"] for part in ("scores", "positive", "excluded")), strict=True
    ):
        places = places_of(scores, np.flatnonzero(right))
        if "excluded" in name:
            places = places.without(excluded[right])
        measured.append(places.oracle(k) if "oracle" in name else places.average_precision(k))
    np.testing.assert_allclose(measured, GOLDEN[name], atol=1e-6)


def test_counting_gives_what_sorting_gives_with_ties() -> None:
    random = np.random.default_rng(0)
    rows = unit(random.normal(size=(90, 8)))
    rows[40:60] = rows[random.integers(0, 40, 20)]  # copies: scores that are exactly equal
    queries = rows[[3, 41, 70]]
    right = [random.choice(70, 12, replace=False) for _ in queries]
    # The last 20 as distractors, in chunks so small that copies are in several of them.
    found = tied_ranks(queries, rows[:70], right, distractors=rows[70:], memory=1)
    for query, own, (ranks, last) in zip(queries, right, found, strict=True):
        scores = np.multiply(rows, query, dtype=np.float64).sum(axis=1)
        expected = places_of(scores, own)
        np.testing.assert_array_equal(ranks, expected.ranks)
        np.testing.assert_array_equal(last, expected.last)
        assert (last > ranks).any()


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two queries: one for a small and a large object, one that only a large one is right for."""
    path = tmp_path_factory.mktemp("ilias") / "own.csv"
    rows = ("q0.png,small.png,0.01,5", "q0.png,large.png,0.9,5", "q1.png,other.png,0.9,60")
    path.write_text("\n".join(["query,positive,scale,clutter", *rows]))
    return path


DATABASE = np.eye(4)[:3]
QUERIES = unit(np.array([[0.0, 1.0, 0.5, 0.0], [0.0, 0.0, 1.0, 0.1]]))


def test_groups_leave_the_others_out_of_the_list(truth: Path) -> None:
    features: Any = (DATABASE, QUERIES)
    found = solar.evaluate(truth, protocol="ilias", features=features)
    told = found.to_dict()
    # q0 lists large, other, small: AP (1 + 2/3) / 2; without the large one small is second.
    assert told["mAP@1k"] == pytest.approx(100 * (5 / 6 + 1) / 2)
    assert told["scale 1"]["mAP@1k"] == pytest.approx(50)
    assert told["scale 2"]["mAP@1k"] is None
    assert told["scale 4"]["mAP@1k"] == told["clutter 4"]["mAP@1k"] == pytest.approx(100)
    assert told["clutter 1"]["mAP@1k"] == pytest.approx(100 * 5 / 6)
    assert "3 photos ranked; AP over the first 1,000" in found.convention
    first = solar.evaluate(truth, protocol="ilias", features=features, depth=1).to_dict()
    assert first["mAP@1"] == 100
    worse = solar.evaluate(truth, protocol="ilias", features=features, distractors=QUERIES)
    assert worse.to_dict()["mAP@1k"] < told["mAP@1k"]


def test_photos_are_described_or_missed(truth: Path, tiny: RetrievalNet) -> None:
    from PIL import Image

    with pytest.raises(SolarError, match=r"small\.png"):
        solar.evaluate(truth, protocol="ilias", model=tiny)
    random = np.random.default_rng(0)
    for name in ("small", "large", "other", "q0", "q1"):
        pixels = random.integers(0, 255, (32, 32, 3), np.uint8)
        Image.fromarray(pixels).save(truth.parent / f"{name}.png")
    found = solar.evaluate(truth, protocol="ilias", model=tiny, size=32, scales=(1.0,))
    assert 0 < found.to_dict()["mAP@1k"] <= 100


def test_features_must_be_of_this_set(truth: Path) -> None:
    with pytest.raises(SolarError, match=r" 2 rows .* 3 positives"):
        solar.evaluate(truth, protocol="ilias", features=(QUERIES, QUERIES))
