import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.warped import toy_photo, turned

from solar.errors import SolarError
from solar.images import Roots
from solar.index import Index
from solar.matching.match import Matches
from solar.models import RetrievalConfig, RetrievalNet
from solar.ranking import background, calibration
from solar.ranking import verify as module
from solar.ranking.calibration import (
    MATCHED_SIGNS,
    SIGNS,
    Background,
    Calibration,
    Evidence,
)
from solar.ranking.verify import VerifySettings, coverage, reordered
from solar.storage.types import Hit

# The wrong photos look more alike to the global descriptor, the right one less.
SCORES = {"wrong/1.png": 0.95, "wrong/2.png": 0.9, "right/1.png": 0.8, "wrong/3.png": 0.7}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A query, what a turned camera saw of the same house, and other houses."""
    folder = tmp_path_factory.mktemp("photos")
    query = toy_photo(0, (320, 240))
    pictures = {"query.png": query, "right/1.png": turned(query)[0]}
    pictures |= {f"wrong/{i}.png": toy_photo(i, (320, 240)) for i in (1, 2, 3)}
    for name, picture in pictures.items():
        (folder / name).parent.mkdir(exist_ok=True)
        Image.fromarray(picture).save(folder / name)
    return folder


@pytest.fixture
def index(folder: Path, tmp_path: Path) -> Index:
    """Vectors with the scores above for the query, which is indexed too."""
    scores = np.array([1.0, *SCORES.values()])
    vectors = np.stack([scores, np.sqrt(1 - scores**2)], axis=1)
    names = ["query.png", *SCORES]
    return Index.create(tmp_path / "photos.solar", vectors, names, roots=Roots.at(folder))


def test_verified_photos_come_first_and_know_their_inliers(index: Index) -> None:
    plain = index.search("query.png", k=5, rerank=None, include_self=True)
    assert [hit.path for hit in plain] == ["query.png", *SCORES]
    assert {hit.inliers for hit in plain} == {None}
    hits = index.search("query.png", k=5, rerank="verify", include_self=True)
    assert [hit.path for hit in hits] == [
        "query.png", "right/1.png", "wrong/1.png", "wrong/2.png", "wrong/3.png"
    ]  # fmt: skip
    assert {hit.path: hit.score for hit in hits} == {hit.path: hit.score for hit in plain}
    assert hits[0].inliers > hits[1].inliers > 50 > max(hit.inliers for hit in hits[2:])


def test_bits_verify_from_the_cache_as_they_do_at_first(index: Index) -> None:
    settings = VerifySettings(model="orb")
    first, again = (index.search("query.png", k=5, verify=settings) for _ in range(2))
    assert first[0].path == "right/1.png"
    assert first[0].inliers > 30 > max(hit.inliers for hit in first[1:])
    assert [hit.path for hit in again] == [hit.path for hit in first]
    assert index.info()["local_features"] == 5


def test_a_right_photo_from_beyond_k_is_found(index: Index) -> None:
    assert index.search("query.png", k=1, rerank=None)[0].path == "wrong/1.png"
    assert index.search("query.png", k=1, rerank="verify")[0].path == "right/1.png"


def test_only_the_first_are_looked_at(index: Index) -> None:
    hits = index.search("query.png", k=5, verify=VerifySettings(top=2))
    assert [hit.path for hit in hits] == [*SCORES]
    assert [hit.inliers is None for hit in hits] == [False] * 2 + [True] * 2


def test_the_rest_keep_their_order() -> None:
    counts = {"a": 3, "b": 30, "c": None, "d": 9, "e": 30, "f": 8, "g": 7}
    hits = [Hit(path, 0.5, count, threshold=8) for path, count in counts.items()]
    assert "".join(hit.path for hit in reordered(hits)) == "bedfacg"
    assert [hit.same_scene for hit in hits] == [False, True, None, True, True, True, False]


def test_features_are_kept_and_used_again(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    first = index.search("query.png", k=5, rerank="verify")

    def forgotten(*_: object, **__: object) -> None:
        raise AssertionError("these features were found before")

    monkeypatch.setattr(module, "local_features", forgotten)
    with Index.open(index.engine.folder) as again:
        assert again.search("query.png", k=5, rerank="verify") == first
    assert index.check() == []


def test_compacting_forgets_the_features_of_removed_photos(index: Index) -> None:
    index.search("query.png", rerank="verify")
    before = index.info()
    index.remove("wrong/1.png")
    index.compact()
    after = index.info()
    assert (before["local_features"], after["local_features"]) == (5, 4)
    assert before["bytes_of_local_features"] > after["bytes_of_local_features"] > 0


def test_a_photo_that_is_gone_is_skipped_with_a_warning(index: Index, folder: Path) -> None:
    (folder / "wrong" / "1.png").rename(folder / "elsewhere.png")
    try:
        with pytest.warns(UserWarning, match=r"There is no photo wrong/1\.png"):
            hits = index.search("query.png", k=5, rerank="verify")
    finally:
        (folder / "elsewhere.png").rename(folder / "wrong" / "1.png")
    assert [hit.path for hit in hits][:2] == ["right/1.png", "wrong/1.png"]
    assert hits[1].inliers is None


def test_a_damaged_photo_is_skipped_with_a_warning(index: Index, folder: Path) -> None:
    kept = (folder / "wrong" / "2.png").read_bytes()
    (folder / "wrong" / "2.png").write_bytes(kept[:500])
    try:
        with pytest.warns(UserWarning, match="damaged or cut short"):
            index.search("query.png", k=5, rerank="verify")
    finally:
        (folder / "wrong" / "2.png").write_bytes(kept)


def test_photos_in_a_tar_are_found(index: Index, folder: Path, tmp_path: Path) -> None:
    import tarfile

    with tarfile.open(tmp_path / "photos.tar", "w") as shard:
        for name in ("query.png", *SCORES):
            shard.add(folder / name, name)
    settings = VerifySettings(photos=tmp_path / "photos.tar")
    assert index.search("query.png", k=1, verify=settings)[0].path == "right/1.png"


def test_a_photo_and_its_box_are_a_query(folder: Path, tmp_path: Path) -> None:
    """The box holds the upper left of the house; its keypoints are all that is matched."""
    model = RetrievalNet(RetrievalConfig("resnet18", size=64, scales=(1.0,)))
    names = ["query.png", *SCORES]
    vectors = model.describe([folder / name for name in names])
    roots = Roots.at(folder)
    with Index.create(tmp_path / "i.solar", vectors, names, roots=roots, model=model) as index:
        photo = folder / "query.png"
        how = {"k": 5, "rerank": "verify", "include_self": True}
        whole = index.search(photo, **how)
        boxed = index.search(photo, box=(60, 60, 200, 160), **how)
        expanded = index.search(photo, **{**how, "rerank": "average,diffusion,verify"})
    assert [hit.path for hit in whole][:2] == ["query.png", "right/1.png"]
    assert [hit.path for hit in expanded][:2] == ["query.png", "right/1.png"]
    assert [hit.path for hit in boxed][:2] == ["query.png", "right/1.png"]
    assert boxed[0].inliers < whole[0].inliers


def test_of_several_queries_the_best_match_counts(index: Index) -> None:
    how = {"k": 5, "rerank": "verify", "include_self": True}
    one, two = (
        {hit.path: hit.inliers for hit in index.search(query, **how)}
        for query in ("query.png", "wrong/3.png")
    )
    both = index.search_mean(["query.png", "wrong/3.png"], **how)
    assert {hit.path: hit.inliers for hit in both} == {p: max(one[p], two[p]) for p in one}


def test_a_vector_cannot_be_verified(index: Index) -> None:
    with pytest.raises(SolarError, match="vector"):
        index.search(np.array([1.0, 0.0]), rerank="verify")


def test_an_index_that_does_not_know_its_photos_says_so(tmp_path: Path) -> None:
    with (
        Index.create(tmp_path / "i.solar", np.eye(2), ["a.jpg", "b.jpg"]) as index,
        pytest.raises(SolarError, match="`photos=`"),
    ):
        index.search("a.jpg", rerank="verify")


def test_a_folder_that_is_gone_is_named(index: Index, folder: Path) -> None:
    moved = folder.rename(folder.with_name("elsewhere"))
    try:
        with pytest.raises(SolarError, match=f"{folder} no longer exists"):
            index.search("query.png", rerank="verify")
        [hit] = index.search("query.png", k=1, verify=VerifySettings(photos=moved))
        assert hit.path == "right/1.png"
    finally:
        moved.rename(folder)


def test_an_index_elsewhere_keeps_features_in_the_users_cache(
    index: Index, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Elsewhere:
        roots = index.roots
        folder = None

    monkeypatch.setenv("SOLAR_CACHE", str(tmp_path / "cache"))
    verifier = module.index_verifier(Elsewhere(), VerifySettings())
    verifier.features("query.png")
    assert len(list((tmp_path / "cache" / "local").rglob("*.features"))) == 1


def test_no_warning_where_all_is_well(index: Index) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        index.search("query.png", rerank="verify")


def test_settings_that_make_no_sense() -> None:
    with pytest.raises(SolarError):
        VerifySettings(top=0)


# Of similarity and points alone.
CALIBRATED = Calibration(
    (-9.0, 10.0, *(0.0,) * (len(SIGNS) - 1)), (0.0, 1.0, 0.5, *(0.0,) * (len(MATCHED_SIGNS) - 2))
)
BACKGROUND = Background(5, 0.0, 1.0, (0.0,) * 6)


def probability(score: float, evidence: Evidence | None = None) -> float:
    """That of a result."""
    [found] = CALIBRATED.probabilities([score], BACKGROUND, [evidence])
    return found


@pytest.fixture
def calibrated(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    """The last wrong photo looks like the right one, and less like the query than all others."""
    monkeypatch.setattr(Index, "calibration", CALIBRATED)
    for place in (calibration, background):  # five photos do here
        monkeypatch.setattr(place, "FEWEST", 2)
    vectors = np.array(
        [[1, 0, 0], [0.95, 0, 0.312], [0.9, 0, 0.436], [0.8, 0.6, 0], [0.7, 0.714, 0]]
    )
    names = ["query.png", *SCORES]
    return Index.create(tmp_path / "c.solar", vectors, names, roots=Roots.at(folder))


def test_verified_photos_make_a_better_query(calibrated: Index) -> None:
    """What is similar to the query and the verified photo together passes what is not."""
    hits = calibrated.search("query.png", verify=VerifySettings(inliers=50))
    names = [hit.path for hit in hits]
    third = hits[names.index("wrong/3.png")]
    assert names[0] == "right/1.png"
    assert names.index("wrong/3.png") < names.index("wrong/2.png")
    assert {hit.path: round(hit.score, 2) for hit in hits} == SCORES
    probable = [hit.probability for hit in hits]
    assert probable == sorted(probable, reverse=True)
    mean = np.array([1.8, 0.6]) / np.hypot(1.8, 0.6)
    # The verified photo does not speak for itself.
    first = probability(0.8, Evidence(hits[0].inliers, 0, 0.0, 50))
    assert hits[0].probability == pytest.approx(first, abs=1e-4)
    evidence = Evidence(third.inliers, 0, 0.0, 50)
    expected = probability(float(mean @ [0.7, 0.714]), evidence)
    assert third.probability == pytest.approx(expected, abs=1e-4)
    # With none that is surely right nothing else is searched for.
    hits = calibrated.search("query.png", verify=VerifySettings(inliers=10**6))
    assert [hit.path for hit in hits][2:] == ["wrong/2.png", "wrong/3.png"]


def test_what_is_not_looked_at_is_no_more_probable(calibrated: Index) -> None:
    hits = calibrated.search("query.png", verify=VerifySettings(top=1, inliers=10**6))
    assert [hit.inliers is None for hit in hits] == [False, True, True, True]
    probable = [hit.probability for hit in hits]
    assert probable == sorted(probable, reverse=True)


def test_searches_verify_where_they_can(index: Index, folder: Path, tmp_path: Path) -> None:
    assert index.default_rerank("query.png") == (["verify"], "")
    assert index.search("query.png") == index.search("query.png", rerank="verify")
    vector = np.array([1, 0], np.float32)
    names, why = index.default_rerank(vector)
    assert (names, "not only a vector" in why) == ([], True)
    assert [hit.path for hit in index.search(vector)] == ["query.png", *SCORES]
    nowhere = Index.create(tmp_path / "n.solar", np.eye(2), ["a", "b"])
    assert "does not know where they are" in nowhere.default_rerank()[1]
    assert [hit.path for hit in nowhere.search("a")] == ["b"]
    assert [len(hits) for hits in index.search_many(["query.png"])] == [4]
    [plain] = index.search_many(["query.png"])
    assert plain == index.search("query.png", rerank=None)


def test_a_search_looks_at_few_new_photos_unless_asked(index: Index) -> None:
    settings = VerifySettings(fresh=1)
    for known in (1, 2, 3):  # each search keeps what it found
        hits = index.search("query.png", verify=settings)
        assert sum(hit.inliers is not None for hit in hits) == known
    assert None not in [hit.inliers for hit in index.search("query.png", rerank="verify")]


def test_features_can_be_found_beforehand(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(module.find_features(index.engine)) == ["query.png", *SCORES]
    monkeypatch.setattr(module, "local_features", None)
    assert index.search("query.png", k=1)[0].path == "right/1.png"


def test_photos_can_be_asked_to_be_probable(index: Index, calibrated: Index) -> None:
    every = calibrated.search("query.png", rerank=None)
    expected = [probability(hit.score) for hit in every]
    assert [hit.probability for hit in every] == pytest.approx(expected)
    for rerank in (None, "auto"):
        hits = calibrated.search("query.png", rerank=rerank, min_probability=0.4)
        assert hits
        assert all(hit.probability >= 0.4 for hit in hits)
    with pytest.raises(SolarError, match="after alpha"):
        calibrated.search("query.png", rerank="alpha", min_probability=0.5)
    assert calibrated.search("query.png", rerank="diffusion")[0].probability is None
    both = calibrated.search("query.png", rerank="diffusion,verify")
    assert {hit.path: round(hit.score, 2) for hit in both} == SCORES
    assert None not in [hit.probability for hit in both]


def test_few_photos_have_no_probabilities(
    calibrated: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (calibration, background):
        monkeypatch.setattr(place, "FEWEST", 20)
    for rerank in (None, "verify"):
        hits = calibrated.search("query.png", rerank=rerank)
        assert {hit.probability for hit in hits} == {None}
    assert hits[0].path == "right/1.png"
    with pytest.raises(SolarError, match=r"too few photos.*20"):
        calibrated.search("query.png", rerank=None, min_probability=0.5)


def test_a_model_without_probabilities_is_told(index: Index) -> None:
    with pytest.raises(SolarError, match="solar-r18"):
        index.search("query.png", min_probability=0.5)


@pytest.mark.parametrize(
    ("inliers", "share"),
    [((0, 1, 2, 3), 0.25), ((0, 1, 2), 0.125), ((0, 1), 0.0), ((), 0.0)],
)
def test_coverage_is_the_smaller_share_of_the_area_of_keypoints(
    inliers: tuple[int, ...], share: float
) -> None:
    square = np.float32([(0, 0), (10, 0), (10, 10), (0, 10)])
    around = np.float32([*square, (20, 0), (20, 20), (0, 20)])  # four times as large
    pairs = np.stack([np.arange(4), np.arange(4)], axis=1)
    right = np.isin(np.arange(4), inliers)
    found = Matches((4, 7), square, around, pairs, right, None, "homography", "rootsift", 9)
    assert coverage(found) == pytest.approx(share)
