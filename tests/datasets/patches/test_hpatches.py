import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from support.patch_sets import strips, write_descriptors

from solar.datasets.patches.hpatches import (
    STRIPS,
    read_descriptors,
    read_hpatches,
    read_items,
    read_pairs,
    read_splits,
    write_hpatches,
)
from solar.errors import SolarError


def test_strips_come_back_as_written(tmp_path: Path) -> None:
    data = strips(2, 3)
    write_hpatches(data, tmp_path)
    with Image.open(tmp_path / "v_0" / "t5.png") as image:
        assert (image.mode, image.size) == ("L", (65, 195))
    found = read_hpatches(tmp_path)
    assert found.counts == {"v_0": 3, "v_1": 3}
    for name in data.names:
        for kind in STRIPS:
            np.testing.assert_array_equal(found.strip(name, kind), data.strip(name, kind))


def test_a_missing_strip_is_named(tmp_path: Path) -> None:
    write_hpatches(strips(1, 2), tmp_path)
    (tmp_path / "v_0" / "h3.png").unlink()
    with pytest.raises(SolarError, match=r"h3\.png"):
        read_hpatches(tmp_path)


def test_strips_of_different_lengths_are_refused(tmp_path: Path) -> None:
    write_hpatches(strips(1, 2), tmp_path)
    Image.new("L", (65, 65)).save(tmp_path / "v_0" / "e2.png")
    with pytest.raises(SolarError, match=r"e2\.png has 1 patches, ref\.png 2"):
        read_hpatches(tmp_path)


def test_an_image_that_is_no_strip_is_refused(tmp_path: Path) -> None:
    write_hpatches(strips(1, 2), tmp_path)
    Image.new("L", (64, 128)).save(tmp_path / "v_0" / "e2.png")
    with pytest.raises(SolarError, match="64×128"):
        read_hpatches(tmp_path)


def test_a_damaged_strip_is_named_when_it_is_used(tmp_path: Path) -> None:
    write_hpatches(strips(1, 2), tmp_path)
    file = tmp_path / "v_0" / "e2.png"
    file.write_bytes(file.read_bytes()[:900])
    with pytest.raises(SolarError, match=r"e2\.png"):
        read_hpatches(tmp_path).strip("v_0", "e2")


def test_a_split_with_missing_sequences_is_refused() -> None:
    with pytest.raises(SolarError, match=r"1 .*i_zion"):
        strips(1, 2).only(["v_0", "i_zion"])


def test_splits_are_read(tmp_path: Path) -> None:
    content = {"a": {"name": "a", "test": ["v_0"], "train": ["v_1"]}, "full": {"test": ["v_0"]}}
    (tmp_path / "splits.json").write_text(json.dumps(content))
    assert read_splits(tmp_path / "splits.json") == {"a": ("v_0",), "full": ("v_0",)}


@given(st.text(max_size=40))
def test_whatever_is_no_splits_file_is_refused(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.mktemp("splits") / "splits.json"
    path.write_text(json.dumps({"a": {"test": text}}), encoding="utf-8")
    with pytest.raises(SolarError, match=r"splits\.json"):
        read_splits(path)


def test_lists_of_items_are_read(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("s,idx\nv_b,3\nv_a,0\nv_b,1\n")
    found = read_items(tmp_path / "q.csv")
    assert [found.names[n] for n in found.sequence] == ["v_b", "v_a", "v_b"]
    assert found.row.tolist() == [3, 0, 1]


def test_lists_of_pairs_are_read(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("s1,t1,idx1,s2,t2,idx2\nv_b,4,3,v_a,0,5\nv_a,1,2,v_a,5,2\n")
    found = read_pairs(tmp_path / "p.csv")
    assert [[found.names[n] for n in pair] for pair in found.sequence] == [
        ["v_b", "v_a"],
        ["v_a"] * 2,
    ]
    assert found.image.tolist() == [[4, 0], [1, 5]]
    assert found.row.tolist() == [[3, 5], [2, 2]]


@pytest.mark.parametrize(
    "text", ["", "s,idx\n", "a,b\nv,1\n", "s,idx\nv\n", "s,idx\nv,1.5\n", "s,idx\nv,-1\n"]
)
def test_a_damaged_list_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "q.csv").write_text(text)
    with pytest.raises(SolarError, match=r"q\.csv"):
        read_items(tmp_path / "q.csv")


def test_a_pair_with_a_seventh_photo_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("s1,t1,idx1,s2,t2,idx2\nv,6,3,v,0,5\n")
    with pytest.raises(SolarError, match="image 6"):
        read_pairs(tmp_path / "p.csv")


@pytest.mark.parametrize("separator", [",", ";"])
def test_descriptors_of_others_are_read(tmp_path: Path, separator: str) -> None:
    data = strips(2, 3)
    write_descriptors(data, lambda p: p[:, 0, :4] / np.float32(7), tmp_path)
    for file in tmp_path.glob("*/*.csv"):
        file.write_text(file.read_text().replace(",", separator))
    found = read_descriptors(tmp_path)
    assert list(found) == ["v_0", "v_1"]
    expected = data.strip("v_1", "h2")[:, 0, :4] / np.float32(7)
    np.testing.assert_allclose(found["v_1"]["h2"], expected, rtol=1e-6)


@pytest.mark.parametrize("text", ["", "1,2\n", "1,2,x,4\n" * 3, "1,2,nan,4\n" * 3, "1,2,3\n" * 3])
def test_damaged_descriptors_are_refused(tmp_path: Path, text: str) -> None:
    write_descriptors(strips(1, 3), lambda p: p[:, 0, :4].astype(np.float32), tmp_path)
    (tmp_path / "v_0" / "t1.csv").write_text(text)
    with pytest.raises(SolarError, match=r"t1\.csv"):
        read_descriptors(tmp_path)
