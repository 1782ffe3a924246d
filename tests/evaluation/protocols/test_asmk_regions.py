from pathlib import Path

import pytest

from solar.demo import toy
from solar.errors import SolarError
from solar.evaluation import evaluate

pytest.importorskip("cv2", reason="pip install opencv-python-headless")


def test_a_set_is_ranked_by_photos_in_regions(tmp_path: Path) -> None:
    toy.write(tmp_path / "photos", landmarks=4, views=3)
    found = evaluate(
        tmp_path / "photos",
        method="asmk",
        local_features="rootsift",
        regions="grid",
        cache=tmp_path / "c",
    )
    assert found.convention.startswith("R-ASMK* (grid) with rootsift")
    assert found.to_dict()["mAP"] > 70  # by chance 31
    boxes = tmp_path / "boxes.csv"
    boxes.write_text("path,x1,y1,x2,y2\nrome/1.jpg,0,0,9,9\n")
    with pytest.raises(SolarError, match="has no region of a photo of"):
        evaluate(
            tmp_path / "photos",
            method="asmk",
            local_features="rootsift",
            regions=boxes,
            cache=tmp_path / "c",
        )
