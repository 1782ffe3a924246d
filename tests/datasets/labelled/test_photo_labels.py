from pathlib import Path

import pytest

from solar.datasets.labelled.photo_labels import folder_labels, read_csv, read_labels
from solar.errors import SolarError


def test_a_photo_shows_what_its_folder_is_called() -> None:
    assert folder_labels(["val/a/1.jpg", "b/2.jpg"], "x") == ["a", "b"]


def test_a_photo_in_no_folder_is_told() -> None:
    with pytest.raises(SolarError, match=r"photo 2\.jpg of photos has no folder"):
        folder_labels(["a/1.jpg", "2.jpg"], "photos")


@pytest.mark.parametrize("heading", ["", "name,label\n", "\ufeffname, label\r\n"])
def test_a_csv_names_photos_and_labels(tmp_path: Path, heading: str) -> None:
    path = tmp_path / "list.csv"
    path.write_text(f'{heading}x/1.jpg,tower\n\n"2, b.jpg", tower bridge \n', encoding="utf-8")
    photos, labels = read_csv(path)
    assert photos.names == ("x/1.jpg", "2, b.jpg")
    assert photos.places == (tmp_path / "x/1.jpg", tmp_path / "2, b.jpg")
    assert labels == ["tower", "tower bridge"]
    assert read_csv(path, tmp_path / "r")[0].places[0] == tmp_path / "r/x/1.jpg"


def test_a_heading_may_have_more_columns_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("Landmark_ID,url,path\n7,http://x,a/1.jpg\n", "utf-8")
    photos, labels = read_csv(tmp_path / "list.csv")
    assert photos.names == ("a/1.jpg",)
    assert labels == ["7"]


@pytest.mark.parametrize(
    "place", ["abc.jpg", "jpg/abc.jpg", "a/b/c/abc.jpg", "train/a/b/c/abc.jpg"]
)
def test_photos_by_their_number_are_found_where_google_landmarks_keeps_them(
    tmp_path: Path, place: str
) -> None:
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).touch()
    (tmp_path / "train.csv").write_text("id,url,landmark_id\nxyz,http://x,1\nabc,http://y,1\n")
    photos, _ = read_csv(tmp_path / "train.csv")
    assert photos.names[1] == place
    assert photos.places[1] == tmp_path / place


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"a.jpg,x\nb.jpg\n", "Line 2"),
        (b"a.jpg,x\nb.jpg,\n", "Line 2"),
        (b"a.jpg,x,y\n", "Line 1"),
        (b"a.jpg,x\na.jpg,y\n", r"a\.jpg"),
        (b"name,label\n", "no photo"),
        (b"\xff\xfe\x00", "CSV"),
    ],
)
def test_a_csv_that_does_not_label_photos_is_refused(
    tmp_path: Path, text: bytes, sentence: str
) -> None:
    (tmp_path / "list.csv").write_bytes(text)
    with pytest.raises(SolarError, match=sentence):
        read_csv(tmp_path / "list.csv")


def test_labels_are_read_from_csv_and_json(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a/1.jpg,tower\n2.jpg,7\n", "utf-8")
    (tmp_path / "a.json").write_text('{"a/1.jpg": "tower", "2.jpg": 7}', "utf-8")
    assert read_labels(tmp_path / "a.csv") == read_labels(str(tmp_path / "a.json"))
    assert read_labels(tmp_path / "a.csv") == {"a/1.jpg": "tower", "2.jpg": "7"}


@pytest.mark.parametrize("content", ["[1]", '{"a.jpg": ["tower"]}', "{", "[" * 100_000, "\xff"])
def test_json_that_does_not_label_photos_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content, "latin-1")
    with pytest.raises(SolarError, match="JSON"):
        read_labels(tmp_path / "a.json")
