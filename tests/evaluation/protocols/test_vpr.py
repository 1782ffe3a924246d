"""Place recognition: golden numbers, exact distances, positions and frames, whole folders."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.golden2 import golden2

import solar
from solar.demo import toy
from solar.errors import SolarError
from solar.evaluation import compare, interval
from solar.evaluation.protocols.vpr import (
    evaluate_places,
    frame_of,
    listed_positions,
    name_positions,
    near_frames,
    near_positions,
    read_positions,
)
from solar.models import RetrievalNet


def test_the_published_numbers() -> None:
    golden = golden2("vpr")
    right = near_positions(golden["vpr_database_cm"], golden["vpr_query_cm"], 2500)
    np.testing.assert_array_equal([len(own) for own in right], golden["vpr_positive_count"])
    recalls = golden["vpr_recall_at"].tolist()
    found = evaluate_places(
        golden["vpr_database"], golden["vpr_queries"], right, recalls=recalls
    ).to_dict()
    np.testing.assert_array_equal(
        np.float32([found[f"recall@{k}"] for k in recalls]), golden["vpr_recalls"]
    )


def test_distances_are_exact_and_inclusive() -> None:
    # 7, 24 and 25 make a right angle; 30 million centimetres north is beyond float32.
    north = np.array([0, 30_000_001])
    database = np.add(north, [[0, 0], [0, -1], [0, 1], [1400, 0], [1401, 0]])
    query = np.add(north, [[700, 2400]])
    assert near_positions(database, query, 2500)[0].tolist() == [0, 2, 3]


def test_frames_are_right_within_a_tolerance() -> None:
    database = ["a/img-001.png", "a/img-002.png", "a/img-010.png", "b/img-001.png", "door.jpg"]
    queries = ["a/img-0003.jpg", "door.jpg", "gate.jpg"]
    found = [own.tolist() for own in near_frames(database, queries, 1)]
    assert found == [[1], [4], []]
    assert near_frames(database, queries, 2)[0].tolist() == [0, 1]
    assert near_frames(database, queries, 0)[0].tolist() == []


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three landmarks 100 m apart, seen twice; a query where nothing is near."""
    folder = tmp_path_factory.mktemp("places")
    for side, view in (("database", 0), ("queries", 1)):
        (folder / side).mkdir()
        for place in range(3 + view):
            east = 500_000 + 100 * place + 24.99 * view
            photo = toy.landmark(place, view, size=(64, 48))
            photo.save(folder / side / f"@{east:.2f}@4000000.00@{place}@.jpg")
    return folder


@pytest.fixture(scope="module")
def features(places: Path) -> tuple[Any, Any]:
    """Descriptors of them, in which the second place is mistaken for the first."""
    database = np.eye(4, dtype=np.float32)[:3]
    return database, database[[0, 0, 2, 1]]


def rename(places: Path, folder: Path) -> None:
    """The same photos without positions in their names."""
    for side in ("database", "queries"):
        (folder / side).mkdir(parents=True)
        for number, photo in enumerate(sorted((places / side).iterdir())):
            (folder / side / f"{number}.jpg").hardlink_to(photo)


def test_queries_without_an_answer_count_as_misses_unless_asked(
    places: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    found = solar.evaluate(places, model=tiny, protocol="vpr", cache=tmp_path)
    only = solar.evaluate(places, model=tiny, protocol="vpr", cache=tmp_path, answerable=True)
    assert list(found.to_dict()) == ["recall@1", "recall@5", "recall@10", "recall@20"]
    assert found.to_dict()["recall@20"] == 75
    assert only.to_dict()["recall@20"] == 100
    assert found.headline == "recall@1"
    assert "longest side 64 px, 2 scales" in found.convention
    assert "within 25 m" in found.convention
    assert "1 queries without a correct photo count as misses" in found.convention
    assert interval(found.protocols["all"]["recall@20"])[1] <= 1
    assert compare(found, found, measure="recall@20").p == 1


def test_a_csv_or_frames_give_what_names_give(
    places: Path, features: tuple[Any, Any], tmp_path: Path
) -> None:
    expected = solar.evaluate(places, features=features, protocol="vpr").to_dict()
    assert expected["recall@1"] == 50
    rename(places, tmp_path)
    rows = [
        f"{side}/{place}.jpg,{100 * place + 24.99 * view},0"
        for view, side in enumerate(("database", "queries"))
        for place in range(3 + view)
    ]
    (tmp_path / "positions.csv").write_text("\n".join(["name,east,north", *rows]))
    options: list[dict[str, Any]] = [
        {"positions": tmp_path / "positions.csv"},
        {"frames": 0},
        {"frames": 0, "database": tmp_path / "database", "queries": tmp_path / "queries"},
    ]
    for how in options:
        found = solar.evaluate(tmp_path, features=features, protocol="vpr", **how)
        assert found.to_dict() == expected
    nearer = {"positions": tmp_path / "positions.csv", "radius": 24.98}
    with pytest.raises(SolarError, match="positions"):
        solar.evaluate(tmp_path, features=features, protocol="vpr", **nearer)


def test_embeddings_and_indexes_need_no_model(
    places: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    how = {"size": 64, "scales": (1.0,)}
    expected = solar.evaluate(places, model=tiny, protocol="vpr", **how).to_dict()
    for side in ("database", "queries"):
        index = solar.build(places / side, tmp_path / f"{side}.solar", model=tiny, **how)
        np.save(tmp_path / f"{side}.npy", np.asarray(index.vectors))
    files = (tmp_path / "database.npy", tmp_path / "queries.npy")
    found = solar.evaluate(places, protocol="vpr", features=files)
    assert found.to_dict() == expected
    assert found.convention.startswith("Whole photos, embeddings as given")
    indexes = {"database": "database.solar", "queries": "queries.solar"}
    assert solar.evaluate(tmp_path, protocol="vpr", **indexes).to_dict() == expected
    with pytest.raises(SolarError, match=r" 4 rows .* 3 photos"):
        solar.evaluate(places, protocol="vpr", features=files[::-1])


def test_what_is_wrong_is_told_before_anything_is_described(
    places: Path, tiny: RetrievalNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RetrievalNet, "average", None)  # nothing can be described
    rename(places, tmp_path / "renamed")
    (tmp_path / "few.csv").write_text("name,east,north\n0.jpg,0,0\n")
    cases: list[tuple[Path, dict[str, Any], str]] = [
        (tmp_path / "renamed", {}, r"0\.jpg in .*database"),
        (tmp_path / "renamed", {"positions": tmp_path / "few.csv"}, "position"),
        (tmp_path / "renamed", {"positions": tmp_path / "no.csv"}, "no.csv"),
        (tmp_path / "renamed", {"positions": "x", "frames": 1}, "frames=.*positions="),
        (tmp_path, {"frames": 1}, "database"),
        (places, {"protocol": "vqr"}, "'vqr'.*vpr, ilias"),
    ]
    for folder, how, sentence in cases:
        with pytest.raises(SolarError, match=sentence):
            solar.evaluate(folder, model=tiny, **{"protocol": "vpr", **how})


def test_names_tell_positions_to_the_centimetre() -> None:
    names = ["@0543256.96@4178906.70@10@S@pano@.jpg", "town/x@-3.005@2e2@.png"]
    assert name_positions(names, "it") == {
        names[0]: (54325696, 417890670),
        names[1]: (-300, 20000),
    }


@pytest.mark.parametrize("name", ["a.jpg", "@12@.jpg", "@12@north@.jpg", "@nan@1@.jpg", "@1e99@1@"])
def test_a_name_without_a_position_is_told(name: str) -> None:
    with pytest.raises(SolarError, match="position"):
        name_positions(["@1@2@.jpg", name], "it")


def write(folder: Path, text: str) -> Path:
    path = folder / "positions.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_csv_may_name_its_columns_as_others_do(tmp_path: Path) -> None:
    path = write(tmp_path, "key,northing,easting,night\na.jpg,2.5,1.25,0\nb.jpg,-1,0,1\n")
    assert read_positions(path) == {"a.jpg": (125, 250), "b.jpg": (0, -100)}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name,east\na.jpg,1\n", "Line 1 .* north"),
        ("a.jpg,1,2\n", "Line 1 .* name"),
        ("name,east,north\na.jpg,1,far\n", "Line 2 .*'1', 'far'"),
        ("name,east,north\na.jpg,1\n", "Line 2 .* 2 cells"),
        ("name,east,north\na.jpg,1,2\na.jpg,1,2\n", "Line 3 .* a.jpg"),
        ("name,east,north\n", "no photo"),
        ("", "name"),
        ("name,east,north\n\ud800", "CSV"),
    ],
)
def test_a_wrong_csv_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "positions.csv"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(SolarError, match=sentence) as told:
        read_positions(path)
    assert "\n" not in str(told.value)


def test_photos_are_found_below_either_folder_or_anywhere(tmp_path: Path) -> None:
    sides = [(tmp_path / "database", ["1.jpg"]), (tmp_path / "queries", ["1.jpg", "2.jpg"])]
    known = {"database/1.jpg": (1, 1), "queries/1.jpg": (2, 2), "2.jpg": (3, 3)}
    expected = [{"1.jpg": (1, 1)}, {"1.jpg": (2, 2), "2.jpg": (3, 3)}]
    assert listed_positions(known, sides, "it") == expected
    absolute = {
        str(folder / name): expected[number][name]
        for number, (folder, names) in enumerate(sides)
        for name in names
    }
    assert listed_positions(absolute, sides, "it") == expected


def test_photos_and_positions_must_belong_together(tmp_path: Path) -> None:
    sides = [(tmp_path / "database", ["1.jpg"])]
    with pytest.raises(SolarError, match=r"database/1\.jpg"):
        listed_positions({"2.jpg": (0, 0)}, sides, "it")
    with pytest.raises(SolarError, match=r"2\.jpg"):
        listed_positions({"1.jpg": (0, 0), "2.jpg": (0, 0)}, sides, "it")


def test_the_frame_is_what_a_name_ends_in() -> None:
    assert frame_of("summer/images-00012.png") == ("summer/images-", 12)
    assert frame_of("12.jpg") == frame_of("0012.png") == ("", 12)
    assert frame_of("12_resized.jpg") == ("12_resized", -1)
