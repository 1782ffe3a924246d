import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import ground_truth

from solar.datasets.public.revisited import GroundTruth, read_ground_truth
from solar.errors import SolarError
from solar.evaluation import evaluate_ground_truth


@pytest.fixture
def truth(tmp_path: Path) -> GroundTruth:
    return read_ground_truth(ground_truth.write(tmp_path / "gnd.pkl"))


def drawn(truth: GroundTruth, dataset: str) -> tuple[np.ndarray, np.ndarray]:
    """The made-up descriptors that the golden numbers were measured with (tests/golden)."""
    r = np.random.default_rng(zlib.crc32(f"golden:{dataset}".encode()))
    database = r.standard_normal((len(truth.database), 32)).astype(np.float32)
    queries = r.standard_normal((70, 32)).astype(np.float32)
    for query, vector in zip(truth.queries, queries, strict=True):
        for kind, factor in (("easy", 1.0), ("hard", 0.55), ("junk", 0.7)):
            database[query.answers[kind]] += factor * vector
    return ground_truth.unit(database), ground_truth.unit(queries)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("dataset", ["roxford5k", "rparis6k"])
def test_the_golden_numbers_on_the_real_ground_truth(
    golden_values: dict[str, Any], dataset: str, precision: str
) -> None:
    truth = read_ground_truth(ground_truth.real(f"revisited/gnd_{dataset}.pkl"), dataset)
    database, queries = drawn(truth, dataset)
    found = evaluate_ground_truth(truth, database, queries, precision=precision).to_dict()
    assert list(found) == ["easy", "medium", "hard"]
    for protocol, means in found.items():
        golden = golden_values[f"{dataset}_{protocol}"]
        assert list(means) == ["mAP", "mP@1", "mP@5", "mP@10"]
        assert list(means.values()) == pytest.approx([golden["mAP"], *golden["mP"]], abs=1e-9)


@pytest.mark.parametrize("average", ["trapezoid", "finite"])
def test_protocols_spelled_out_by_hand(truth: GroundTruth, average: str) -> None:
    database, queries = ground_truth.descriptors()
    found = evaluate_ground_truth(truth, database, queries, average=average).to_dict()
    expected = ground_truth.by_hand(database, queries, average)
    for protocol in ("easy", "medium", "hard"):
        assert found[protocol] == pytest.approx(expected[protocol])


def test_distractors_only_push_answers_down(truth: GroundTruth) -> None:
    database, queries = ground_truth.descriptors()
    extra = ground_truth.unit(np.random.default_rng(3).standard_normal((500, 16)))
    alone = evaluate_ground_truth(truth, database, queries)
    found = evaluate_ground_truth(truth, database, queries, distractors=extra)
    expected = ground_truth.by_hand(np.concatenate([database, extra]), queries)
    assert found.to_dict()["medium"] == pytest.approx(expected["medium"])
    assert found.mean("AP", "medium") < alone.mean("AP", "medium")


def test_a_query_without_answers_is_left_out_and_known(truth: GroundTruth) -> None:
    found = evaluate_ground_truth(truth, *ground_truth.descriptors())
    assert np.isnan(found.protocols["easy"]["AP"]).tolist() == [False, True, False, False, False]
    assert not np.isnan(found.protocols["medium"]["AP"]).any()


def test_the_older_protocol_is_flat(tmp_path: Path) -> None:
    old = [
        {"bbx": entry["bbx"], "ok": entry["easy"] + entry["hard"], "junk": entry["junk"]}
        for entry in ground_truth.entries()
    ]
    truth = read_ground_truth(ground_truth.write(tmp_path / "gnd.pkl", gnd=old))
    database, queries = ground_truth.descriptors()
    expected = ground_truth.by_hand(database, queries)["medium"]
    assert evaluate_ground_truth(truth, database, queries).to_dict() == pytest.approx(expected)


def test_descriptors_of_another_database_are_refused(truth: GroundTruth) -> None:
    database, queries = ground_truth.descriptors()
    with pytest.raises(SolarError, match=r"59 rows .* 60 database photos"):
        evaluate_ground_truth(truth, database[:-1], queries)
    with pytest.raises(SolarError, match=r"4 rows .* 5 queries"):
        evaluate_ground_truth(truth, database, queries[:-1])
