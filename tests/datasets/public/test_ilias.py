"""The release of ILIAS and CSV files like it, and what is said about wrong ones."""

from pathlib import Path

import pytest

from solar.datasets.public.ilias import read_objects
from solar.errors import SolarError


def write_release(folder: Path) -> None:
    """Two objects as ILIAS lists them, the second with two queries."""
    lists = folder / "image_ids"
    lists.mkdir(parents=True)
    (lists / "image_query_ids.txt").write_text(
        "b_1/query/Q1_01.jpg,web\na_0/query/Q0_00.jpg,web\nb_1/query/Q1_00.jpg,web\n"
    )
    (lists / "positive_ids.txt").write_text(
        "b_1/pos/P1_00.jpg,0.5,10\na_0/pos/P0_01.jpg,0.05,60\na_0/pos/P0_00.jpg,0.1,18\n"
    )


def test_the_release_is_sorted_and_goes_by_objects(tmp_path: Path) -> None:
    write_release(tmp_path)
    truth = read_objects(tmp_path)
    assert truth.queries == ("a_0/query/Q0_00.jpg", "b_1/query/Q1_00.jpg", "b_1/query/Q1_01.jpg")
    assert truth.database == ("a_0/pos/P0_00.jpg", "a_0/pos/P0_01.jpg", "b_1/pos/P1_00.jpg")
    assert [own.tolist() for own in truth.right] == [[0, 1], [2], [2]]
    assert truth.scale is not None
    assert truth.scale.tolist() == [0.1, 0.05, 0.5]
    assert truth.clutter is not None
    assert truth.clutter.tolist() == [18, 60, 10]
    assert truth.root == tmp_path
    (tmp_path / "ilias_core").mkdir()
    assert read_objects(tmp_path).root == tmp_path / "ilias_core"


def test_a_csv_of_ones_own_keeps_its_order(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("query,positive,scale\nz.jpg,b.jpg,0.2\nz.jpg,a.jpg,0.9\ny.jpg,b.jpg,0.2\n")
    truth = read_objects(path, "photos")
    assert (truth.queries, truth.database) == (("z.jpg", "y.jpg"), ("b.jpg", "a.jpg"))
    assert [own.tolist() for own in truth.right] == [[0, 1], [0]]
    assert truth.scale is not None
    assert truth.clutter is None
    assert truth.root == Path("photos")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("query,photo\na,b\n", "Line 1 .*positive"),
        ("query,positive,scale\na,b,big\n", "Line 2 .*'big'"),
        ("query,positive\na\n", "Line 2 "),
        ("query,positive\na,b\na,b\n", "Line 3 .* b "),
        ("query,positive\n", "no query"),
    ],
)
def test_a_wrong_csv_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "own.csv"
    path.write_text(text)
    with pytest.raises(SolarError, match=sentence):
        read_objects(path)


def test_a_release_that_is_not_whole_is_told(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match="image_ids/"):
        read_objects(tmp_path)
    write_release(tmp_path)
    (tmp_path / "image_ids" / "positive_ids.txt").write_text("a_0/pos/P0_00.jpg,0.1\n")
    with pytest.raises(SolarError, match=r"Line 1 .*scale"):
        read_objects(tmp_path)
