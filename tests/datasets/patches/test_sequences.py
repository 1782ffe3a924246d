from pathlib import Path

import numpy as np
import pytest
from support.patch_sets import write_sequence

from solar.datasets.patches.sequences import read_sequences
from solar.errors import SolarError

pytest.importorskip("cv2", reason="OpenCV makes the views")


def test_reads_every_sequence_of_a_folder_by_name(tmp_path: Path) -> None:
    write_sequence(tmp_path / "v_b", seed=1)
    expected = write_sequence(tmp_path / "v_a")
    (tmp_path / "notes").mkdir()
    found = read_sequences(tmp_path)
    assert [one.name for one in found] == ["v_a", "v_b"]
    assert [path.name for path in found[0].photos] == [f"{n}.png" for n in range(1, 7)]
    np.testing.assert_allclose(found[0].homographies, [np.eye(3), *expected])


def test_a_folder_may_be_a_sequence_itself(tmp_path: Path) -> None:
    write_sequence(tmp_path / "v_a")
    assert [one.name for one in read_sequences(tmp_path / "v_a")] == ["v_a"]


@pytest.mark.parametrize(
    "text", ["", "1 0 0 0 1 0 0 0", "1 0 0 0 1 0 0 0 x", "nan 0 0 0 1 0 0 0 1", "0 " * 9]
)
def test_a_damaged_homography_is_named(tmp_path: Path, text: str) -> None:
    write_sequence(tmp_path / "v_a")
    (tmp_path / "v_a" / "H_1_3").write_text(text)
    with pytest.raises(SolarError, match=r"H_1_3 is not a homography"):
        read_sequences(tmp_path)


def test_a_missing_homography_is_named(tmp_path: Path) -> None:
    write_sequence(tmp_path / "v_a")
    (tmp_path / "v_a" / "H_1_3").unlink()
    with pytest.raises(SolarError, match=r"H_1_3 cannot be read"):
        read_sequences(tmp_path)


def test_a_folder_without_sequences_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match="contains no sequence"):
        read_sequences(tmp_path)
