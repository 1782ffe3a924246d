from pathlib import Path

import numpy as np
import pytest

from solar.errors import SolarError
from solar.images import Roots
from solar.index.embeddings import DescribedCollection
from solar.sfm.pairs import read_names, read_pairs, write_pairs

NAMES = ("a.jpg", "old town/b.jpg", "old town/c d.jpg", "東京/塔.jpg")


def collection(folder: Path) -> DescribedCollection:
    roots = Roots.at(folder)
    return DescribedCollection(NAMES, np.empty((len(NAMES), 0)), "", roots, folder / "local")


def test_pairs_are_read_as_they_were_written(tmp_path: Path) -> None:
    pairs = [("a.jpg", "東京/塔.jpg"), ("old town/b.jpg", "old town/c d.jpg")]
    with pytest.warns(UserWarning, match="2 photos in .* have spaces in their names"):
        assert write_pairs(tmp_path / "pairs.txt", pairs) == 2
    lines = (tmp_path / "pairs.txt").read_text(encoding="utf-8").splitlines()
    assert lines == ["a.jpg 東京/塔.jpg", "old town/b.jpg old town/c d.jpg"]
    assert list(read_pairs(tmp_path / "pairs.txt", collection(tmp_path))) == pairs


def test_pairs_of_somebody_else_count_once_and_may_be_absolute(tmp_path: Path) -> None:
    file = tmp_path / "pairs.txt"
    file.write_text(f"a.jpg 東京/塔.jpg\n\n# again\n東京/塔.jpg {tmp_path}/a.jpg\na.jpg a.jpg\n")
    assert list(read_pairs(file, collection(tmp_path))) == [("a.jpg", "東京/塔.jpg")]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("a.jpg gone.jpg", "names 'gone.jpg', but no photo of the collection has that name"),
        ("a.jpg /elsewhere/b.jpg", "names '/elsewhere/b.jpg', but no photo"),
        ("a.jpg", "has a line 'a.jpg': each line must have the names of two photos"),
        ("a.jpg old town/x y.jpg", "has a line 'a.jpg old town/x y.jpg'"),
    ],
)
def test_a_pair_that_is_none_is_told_of(tmp_path: Path, line: str, sentence: str) -> None:
    (tmp_path / "pairs.txt").write_text(line)
    with pytest.raises(SolarError, match=sentence):
        list(read_pairs(tmp_path / "pairs.txt", collection(tmp_path)))


def test_a_list_of_photos_may_mix_absolute_and_relative_names(tmp_path: Path) -> None:
    file = tmp_path / "queries.txt"
    file.write_text(f"old town/c d.jpg\n{tmp_path}/old town/b.jpg\na.jpg PINHOLE 1 1 1 1 0 0\n")
    assert read_names(file, collection(tmp_path)) == [NAMES[2], NAMES[1], NAMES[0]]


def test_lists_that_cannot_be_used_are_told_of(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("# nothing\n")
    for name, sentence in (("empty", "names no photo"), ("gone", "cannot be read")):
        with pytest.raises(SolarError, match=sentence):
            read_names(tmp_path / f"{name}.txt", collection(tmp_path))


def test_a_photo_whose_name_has_several_lines_is_left_out(tmp_path: Path) -> None:
    pairs = [("a\nb.jpg", "c.jpg"), ("c.jpg", "d.jpg")]
    with pytest.warns(UserWarning, match=r"'a\\nb.jpg' is left out of .*: rename the photo"):
        assert write_pairs(tmp_path / "pairs.txt", pairs) == 1
    assert (tmp_path / "pairs.txt").read_text() == "c.jpg d.jpg\n"
