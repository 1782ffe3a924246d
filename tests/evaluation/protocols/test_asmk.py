import json
from pathlib import Path

import numpy as np
import pytest

from solar.asmk.build import AsmkSettings, build
from solar.demo import toy
from solar.errors import SolarError
from solar.evaluation import Evaluation, evaluate
from solar.evaluation.metrics import average_precision, without_junk
from solar.evaluation.paper import tables
from solar.evaluation.paper.tables import TABLE_1


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos, a ground truth of them whose queries have boxes, and visual words of others."""
    home = tmp_path_factory.mktemp("asmk")
    toy.write(home / "photos", landmarks=3, views=4, size=(160, 120))
    toy.write(home / "others", landmarks=3, views=2, size=(160, 120), first=50)
    build([home / "others"], home / "others.asmk", AsmkSettings(words=64)).index.close()
    queries = [
        {
            "photo": f"landmark-{i:03}/view-000.jpg",
            "box": [20, 10, 150, 110],
            "easy": [f"landmark-{i:03}/view-002.jpg"],
            "hard": [f"landmark-{i:03}/view-003.jpg"],
            "junk": [f"landmark-{i:03}/view-001.jpg"],
        }
        for i in range(3)
    ]
    database = [f"landmark-{i:03}/view-{j:03}.jpg" for i in range(3) for j in (1, 2, 3)]
    truth = {"database": database, "queries": queries}
    (home / "photos" / "truth.json").write_text(json.dumps(truth))
    return home


def test_a_ground_truth_is_ranked_as_an_index_ranks_it(home: Path, tmp_path: Path) -> None:
    truth = home / "photos" / "truth.json"
    words = home / "others.asmk"
    found = evaluate(
        truth, method="asmk", local_features="rootsift", codebook=words, distractors=home / "others"
    )
    content = json.loads(truth.read_text())
    settings = AsmkSettings(codebook=words)
    index = build([home / "photos", home / "others"], tmp_path / "all.asmk", settings).index
    everything = [
        *content["database"],
        *(f"landmark-{i:03}/view-{j:03}.jpg" for i in range(50, 53) for j in range(2)),
    ]
    expected = []
    for query in content["queries"]:
        hits = index.search(home / "photos" / query["photo"], k=100, box=query["box"], rerank=None)
        listed = [name for hit in hits if (name := _last(hit.path)) in everything]
        listed += [name for name in everything if name not in listed]
        ranks = [[listed.index(name) for name in query[kind]] for kind in ("easy", "hard", "junk")]
        expected.append(average_precision(without_junk(ranks[0] + ranks[1], ranks[2])))
    index.close()
    assert found.to_dict()["medium"]["mAP"] == pytest.approx(100 * np.mean(expected))
    assert found.convention.startswith("ASMK* with rootsift, 64 visual words of other photos")


def _last(path: str) -> str:
    return "/".join(path.split("/")[-2:])


def test_photos_that_cannot_be_read_are_left_out_of_labelled_ones(
    home: Path, tmp_path: Path
) -> None:
    toy.write(tmp_path / "photos", landmarks=2, views=2, size=(160, 120))
    (tmp_path / "photos" / "landmark-000" / "bad.jpg").write_bytes(b"\xff\xd8\xff no photo")
    found = evaluate(
        tmp_path / "photos", method="asmk", local_features="rootsift", codebook=home / "others.asmk"
    )
    assert [*found.failures] == ["landmark-000/bad.jpg"]
    assert len(found.queries) == 4


def test_a_table_shows_what_local_features_reached(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "other.jpg").touch()
    asked = []

    def measured(name: str, settings: object) -> Evaluation:
        asked.append((name, settings.distractors))  # type: ignore[attr-defined]
        return Evaluation(("q",), {"medium": {"AP": np.array([0.5])}})

    monkeypatch.setattr(tables, "evaluate_asmk", measured)
    found = tables.measure_sets(
        ("roxford5k",), method="asmk", local_features="how-r50", distractors=str(tmp_path)
    )
    assert asked == [("roxford5k", None), ("roxford5k", str(tmp_path))]
    rows = {line.method: line for line in tables.fill(TABLE_1, {"how-r50": found})}
    assert rows["R50-HOW-ASMK*"].measured["how-r50"]["roxford5k"]["medium"]["mAP"] == 50
    assert rows["R50-HOW-ASMK*"].published["rparis6k"]["medium"]["mAP"] == 80.1
    assert {line.method for line in rows.values()} >= {"DELF-ASMK*", "HesAff-rSIFT-ASMK*"}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"features": ("a", "b")}, "features="),
        ({"protocol": "vpr"}, "protocol="),
        ({"distractors": np.zeros((2, 2))}, "distractors="),
        ({"codebook": "nowhere.safetensors"}, "nowhere.safetensors"),
    ],
)
def test_what_asmk_cannot_take_is_told(home: Path, options: dict, complaint: str) -> None:
    known = {"codebook": home / "others.asmk", **options}
    with pytest.raises(SolarError, match=complaint):
        evaluate(home / "photos" / "truth.json", method="asmk", local_features="rootsift", **known)
