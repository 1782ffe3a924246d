"""Positions in names and in CSV files, and what is said about wrong ones."""

from pathlib import Path

import pytest

from solar.datasets.place_positions import (
    frame_of,
    listed_positions,
    name_positions,
    read_positions,
)
from solar.errors import SolarError


def test_names_tell_positions_to_the_centimetre() -> None:
    names = ["@0543256.96@4178906.70@10@S@pano@.jpg", "town/x@-3.005@2e2@.png"]
    assert name_positions(names, "it") == {
        names[0]: (54325696, 417890670),
        names[1]: (-300, 20000),
    }


@pytest.mark.parametrize("name", ["a.jpg", "@12@.jpg", "@12@north@.jpg", "@nan@1@.jpg", "@1e99@1@"])
def test_a_name_without_a_position_is_told(name: str) -> None:
    with pytest.raises(SolarError, match=r"photo .* in it contains no position: rename it"):
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
        ("name,east\na.jpg,1\n", "Line 1 of .* names no column north"),
        ("a.jpg,1,2\n", "Line 1 of .* names no column name"),
        ("name,east,north\na.jpg,1,far\n", "Line 2 of .* has no position in metres: '1', 'far'"),
        ("name,east,north\na.jpg,1\n", "Line 2 of .* has 2 cells under a heading of 3"),
        ("name,east,north\na.jpg,1,2\na.jpg,1,2\n", "Line 3 of .* a.jpg for the second time"),
        ("name,east,north\n", "names no photo"),
        ("", "names no column name"),
        ("name,east,north\n/x/a.jpg,1,2\nb.jpg,1,2\n", "both absolute and relative names"),
        ("name,east,north\n\ud800", "is not a CSV file in UTF-8"),
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
    with pytest.raises(SolarError, match=r"it has no position for the photo database/1\.jpg"):
        listed_positions({"2.jpg": (0, 0)}, sides, "it")
    with pytest.raises(SolarError, match=r"it names the photo 2\.jpg, which is not in"):
        listed_positions({"1.jpg": (0, 0), "2.jpg": (0, 0)}, sides, "it")


def test_the_frame_is_what_a_name_ends_in() -> None:
    assert frame_of("summer/images-00012.png") == ("summer/images-", 12)
    assert frame_of("12.jpg") == frame_of("0012.png") == ("", 12)
    assert frame_of("12_resized.jpg") == ("12_resized", -1)
