import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.placed_photos import EXPECTED, placed_index, placed_photos

import solar
from solar.albums.groups import GroupSettings, MatchingPairs, grouped
from solar.albums.report import GroupPhoto, GroupReport, PhotoGroup
from solar.errors import SolarError
from solar.index.embeddings import described
from solar.ranking.calibration import Evidence
from solar.ranking.verify import Verifier
from solar.records import Records
from solar.sfm import pairs


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("places")
    placed_photos(folder / "photos")
    return placed_index(folder / "photos", folder / "photos.solar")


def test_photos_of_one_place_are_a_group_and_one_alone_is_none(index: Path) -> None:
    found = list(solar.groups(index))
    assert sorted(sorted(group.names) for group in found) == EXPECTED
    for group in found:
        assert group.links == sum(photo.links for photo in group.photos) / 2
        assert group.photos[0].links == max(photo.links for photo in group.photos)
        assert all(photo.inliers >= 9 for photo in group.photos)
        assert 0 < group.agreement <= 1
    assert list(solar.groups(index, inliers=100_000)) == []


def test_a_stopped_run_goes_on_and_ends_with_the_same_groups(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solar.albums.groups.PAIRS", 8)
    monkeypatch.setattr(pairs, "PAIRS", 8)
    expected = list(solar.groups(index))
    collection = described(index, tmp_path)
    seen: list[int] = []

    def stop(_: str, done: int, of: int) -> None:
        if _ == "Verifying":
            seen.append(done)
            if len(seen) == 5:
                raise KeyboardInterrupt

    gone = index.parent / "photos" / "0-0.png"
    gone.rename(tmp_path / "0-0.png")
    with pytest.raises(KeyboardInterrupt):
        solar.groups(collection, work=tmp_path, progress=stop)
    assert seen == [0, 8, 16, 24, 32]
    [file] = tmp_path.glob("matched-*")
    whole = dict(Records(file).every())
    assert whole.keys() < {0, 1, 2, 3}  # blocks of the photo that is gone are not final
    (tmp_path / "0-0.png").rename(gone)  # its disk is back
    with sqlite3.connect(file) as damaged:
        damaged.execute(f"UPDATE kept SET value = x'00' WHERE key = {min(whole)}")
    matched: list[pairs.Pair] = []

    def evidence(verifier: Verifier, features: Any, pair: pairs.Pair) -> Evidence | None:
        matched.append(pair)
        return evidence_of(verifier, features, pair)

    evidence_of = pairs._evidence
    monkeypatch.setattr(pairs, "_evidence", evidence)
    found = solar.groups(described(index, tmp_path), work=tmp_path, progress=stop)
    assert list(found) == expected
    total = max(seen)
    assert len(matched) == total - 8 * (len(whole) - 1)


def test_the_photo_that_matches_most_comes_first_and_doubtful_ones_last() -> None:
    pairs = np.array([[0, 1], [0, 2], [0, 3], [1, 2], [4, 5]])
    graph = MatchingPairs(pairs, np.array([20, 30, 9, 40, 50], np.int32))
    first, second = grouped(list("abcdef"), graph, GroupSettings(k=2))
    assert first.photos == (
        GroupPhoto("a", 3, 30, 1.0),  # of two that it was compared with, not of three
        GroupPhoto("c", 2, 40, 1.0),
        GroupPhoto("b", 2, 40, 1.0),
        GroupPhoto("d", 1, 9, 0.5),
    )
    assert (first.cover, first.links, first.agreement) == ("a", 4, 0.875)
    assert (second.names, second.agreement) == (["e", "f"], 1.0)


def test_a_file_of_groups_is_read_as_it_was_written(tmp_path: Path) -> None:
    group = PhotoGroup((GroupPhoto("ü\udcff, 1.jpg", 1, 9, 1.0), GroupPhoto("b", 1, 9, 1.0)), 1)
    file = tmp_path / "groups.json"
    read = GroupReport(7, [group, group]).write(file)
    assert (read.photos, list(read)) == (7, [group, group])
    written = file.read_bytes()
    for wrong in (
        written[:-5],
        written.replace(b'"links": 1', b'"links": "1"'),
        written.replace(b'"agreement": 1.0}', b'"agreement": 2.0}'),
        written.replace(b"solar-groups-1", b"solar-duplicates-1"),
        b"[]",
    ):
        file.write_bytes(wrong)
        with pytest.raises(SolarError, match="solar groups"):
            list(GroupReport.read(file))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"k": 0}, "k must be 1"),
        ({"inliers": 0}, "inliers must be 1"),
        ({"support": 2}, "not 2"),
        ({"min_score": 5}, "min_score.*5"),
    ],
)
def test_settings_that_make_no_sense(settings: dict, sentence: str) -> None:
    with pytest.raises(SolarError, match=sentence):
        solar.groups("nowhere.solar", **settings)
