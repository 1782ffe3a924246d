"""Probabilities fitted to labelled photos of an index."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.running import refused, solar

from solar.errors import SolarError
from solar.images import Roots
from solar.index import Index
from solar.index.calibrate import calibrate
from solar.index.search import SearchSettings
from solar.ranking.calibration import FILE
from solar.storage.types import DescriptorSpec

PLACES, PHOTOS = 8, 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of small photos, whose vectors say which place they show, and labels."""
    folder = tmp_path_factory.mktemp("labelled")
    draw = np.random.default_rng(0)
    centres = draw.normal(size=(PLACES, 16))
    names = [f"{place}-{photo}.png" for place in range(PLACES) for photo in range(PHOTOS)]
    for name in names:
        Image.fromarray(draw.integers(0, 255, (48, 64, 3), np.uint8)).save(folder / name)
    rows = np.repeat(centres, PHOTOS, axis=0) + 0.7 * draw.normal(size=(len(names), 16))
    vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    spec = DescriptorSpec(16, "mine", "fingerprint of mine")
    place = folder / "photos.solar"
    Index.create(place, vectors, names, roots=Roots.at(folder), spec=spec).close()
    labels = "".join(f"{name},{name.split('-')[0]}\n" for name in names)
    (folder / "labels.csv").write_text(labels)
    return folder


def test_an_index_has_probabilities_once_it_is_calibrated(folder: Path) -> None:
    with Index.open(folder / "photos.solar") as index:
        assert {hit.probability for hit in index.search("0-0.png", rerank=None)} == {None}
    arguments = ("calibrate", folder / "photos.solar", "--labels", folder / "labels.csv")
    told = json.loads(solar(*arguments, "--json").stdout)
    assert (told["queries"], told["places"]) == (PLACES * PHOTOS, PLACES)
    assert told["errors"]["best 10"] < 0.25
    with Index.open(folder / "photos.solar") as index:
        hits = index.search("0-0.png", k=40, rerank=None)
        probable = [hit.probability or 0.0 for hit in hits]
        assert probable == sorted(probable, reverse=True)
        assert probable[0] > 0.5 > probable[-1]
        likely = index.search("0-0.png", k=40, rerank=None, min_probability=0.5)
        assert likely == [hit for hit in hits if (hit.probability or 0.0) >= 0.5]
        settings = SearchSettings(rerank=None, only=lambda path: path.startswith("0-"))
        [found] = index.stages("0-0.png", settings)
        assert {hit.probability for hit in found.hits} == {None}  # too few photos pass
    (folder / "photos.solar" / FILE).unlink()


def test_too_few_labels_are_refused(folder: Path) -> None:
    with Index.open(folder / "photos.solar") as index, pytest.raises(SolarError, match="20 photos"):
        calibrate(index, {"0-0.png": "a", "0-1.png": "a"})
    missing = folder / "none.csv"
    assert "none.csv" in refused("calibrate", folder / "photos.solar", "--labels", missing)
