from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.patch_sets import write_subset

from solar.datasets.patches.phototour import read_phototour
from solar.errors import SolarError


def test_patches_points_and_pairs_come_back_as_written(tmp_path: Path) -> None:
    patches = write_subset(tmp_path / "liberty")
    found = read_phototour(tmp_path, "liberty")
    assert len(found.mosaics) == 2
    np.testing.assert_array_equal(np.concatenate([*found.chunks()]), patches)
    np.testing.assert_array_equal(found.points, np.arange(300) // 2)
    pairs = found.pairs(200)
    np.testing.assert_array_equal(pairs.same, np.arange(200) % 2 == 1)
    np.testing.assert_array_equal(pairs.left // 2 == pairs.right // 2, pairs.same)


def test_the_first_mosaic_holds_its_patches_row_by_row(tmp_path: Path) -> None:
    patches = write_subset(tmp_path)
    with Image.open(tmp_path / "patches0000.bmp") as mosaic:
        corner = np.asarray(mosaic)[64:128, 128:192]
    np.testing.assert_array_equal(corner, patches[16 + 2])


def test_halves_are_rounded_means(tmp_path: Path) -> None:
    patches = write_subset(tmp_path)
    expected = np.floor(patches.reshape(-1, 32, 2, 32, 2).mean((2, 4)) + 0.5)
    np.testing.assert_array_equal(read_phototour(tmp_path).halved(), expected)


def test_a_missing_mosaic_is_counted(tmp_path: Path) -> None:
    write_subset(tmp_path)
    (tmp_path / "patches0001.bmp").unlink()
    with pytest.raises(SolarError, match=r"1 .* 300 .* 2 "):
        read_phototour(tmp_path)


def test_a_damaged_mosaic_is_named(tmp_path: Path) -> None:
    write_subset(tmp_path)
    (tmp_path / "patches0001.bmp").write_bytes(b"BM")
    with pytest.raises(SolarError, match=r"patches0001\.bmp"):
        read_phototour(tmp_path).halved()


def test_a_list_of_other_patches_is_refused(tmp_path: Path) -> None:
    write_subset(tmp_path)
    (tmp_path / "m50_1_1_0.txt").write_text("0 0 0 300 150 0 0\n")
    with pytest.raises(SolarError, match=r"info\.txt"):
        read_phototour(tmp_path).pairs(1)


def test_a_missing_subset_is_named_with_the_command_that_gets_it(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match=r"notredame.*solar data get phototour"):
        read_phototour(tmp_path, "notredame")


@pytest.mark.parametrize("text", ["", "a b\n", "1.5 0\n"])
def test_a_damaged_info_is_named(tmp_path: Path, text: str) -> None:
    write_subset(tmp_path)
    (tmp_path / "info.txt").write_text(text)
    with pytest.raises(SolarError, match=r"info\.txt"):
        read_phototour(tmp_path)


def test_a_missing_list_is_named(tmp_path: Path) -> None:
    write_subset(tmp_path)
    with pytest.raises(SolarError, match=r"m50_100000_100000_0\.txt"):
        read_phototour(tmp_path).pairs()
