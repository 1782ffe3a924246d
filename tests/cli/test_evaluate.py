import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from support import ground_truth
from support.drawn import drawn_checkpoint
from support.running import solar

from solar.cli import app
from solar.demo import toy
from solar.describe import Store
from solar.errors import SolarError
from solar.models import RetrievalConfig, RetrievalNet


@pytest.fixture
def features(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A ground truth and the descriptors of its database and queries."""
    database, queries = ground_truth.descriptors()
    np.save(tmp_path / "db.npy", database)
    np.save(tmp_path / "q.npy", queries)
    truth = ground_truth.write(tmp_path / "gnd_roxford5k.pkl")
    return truth, tmp_path / "db.npy", tmp_path / "q.npy"


def test_features_are_evaluated_as_json(features: tuple[Path, Path, Path], tmp_path: Path) -> None:
    truth, *files = features
    extra = ground_truth.unit(np.random.default_rng(5).standard_normal((300, 16)))
    np.save(tmp_path / "extra.npy", extra)
    arguments = ("evaluate", "roxford5k", "--ground-truth", truth, "--features", *files, "--json")
    found = json.loads(solar(*arguments, "--distractors", tmp_path / "extra.npy").stdout)
    database, queries = ground_truth.descriptors()
    expected = ground_truth.by_hand(np.concatenate([database, extra]), queries)
    assert list(found) == ["easy", "medium", "hard"]
    for protocol, means in found.items():
        assert means == pytest.approx(expected[protocol])


def test_the_other_average_and_every_query_on_request(
    features: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    truth, *files = features
    arguments = ("evaluate", "roxford5k", "--ground-truth", truth, "--features", *files)
    found = json.loads(
        solar(*arguments, "--average", "finite", "--per-query", "-", "--json").stdout
    )
    expected = ground_truth.by_hand(*ground_truth.descriptors(), "finite")
    assert found["hard"] == pytest.approx(expected["hard"])
    assert [query["query"] for query in found["queries"]] == [f"query_{i}" for i in range(5)]
    solar(*arguments, "--per-query", tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 15


def test_a_person_gets_a_table(features: tuple[Path, Path, Path]) -> None:
    truth, *files = features
    out = solar("evaluate", "roxford5k", "--ground-truth", truth, "--features", *files).stdout
    medium = ground_truth.by_hand(*ground_truth.descriptors())["medium"]
    assert [line.split()[1] for line in out.splitlines() if line.startswith("medium")] == [
        f"{medium['mAP']:.2f}"
    ]


def test_a_folder_is_described_and_evaluated(tmp_path: Path) -> None:
    toy.write(tmp_path / "photos", landmarks=2, views=2, size=(48, 48))
    toy.write(tmp_path / "others", landmarks=0, views=0, distractors=2, size=(48, 48))
    model = tmp_path / "model.pth"
    torch.save(drawn_checkpoint(RetrievalNet(RetrievalConfig("resnet18"))), model)
    arguments = ("--model", model, "--size", 48, "--scales", 1, "--json")
    done = solar("evaluate", tmp_path / "photos", *arguments, "--distractors", tmp_path / "others")
    found = json.loads(done.stdout)
    measures = ["mAP", *(f"{name}@{k}" for name in ("mP", "recall") for k in (1, 5, 10))]
    assert list(found) == measures
    assert 0 < found["mAP"] <= 100


def test_mistakes_are_one_sentence_and_exit_code_2(
    features: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    truth, database, queries = features
    bad = np.load(database)
    bad[17] *= 2
    np.save(tmp_path / "bad.npy", bad)
    np.save(tmp_path / "wide.npy", ground_truth.descriptors(20)[1])
    arguments = ("evaluate", "roxford5k", "--ground-truth", truth, "--features")
    for files, sentence in (
        ((queries, queries), f"There are 5 rows in {queries} but 60 database photos in {truth}"),
        ((tmp_path / "bad.npy", queries), f"Row 17 of {tmp_path}/bad.npy has length 2, not 1"),
        ((database, tmp_path / "wide.npy"), "they come from different models"),
        ((tmp_path / "none.npy", queries), "does not exist"),
    ):
        done = solar(*arguments, *files, "--json", expect=2)
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        assert sentence in done.stderr


def test_descriptors_can_be_halved_beside_whole_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toy.write(tmp_path / "photos", landmarks=2, views=2, size=(48, 48))
    model, cache = tmp_path / "model.pth", tmp_path / "cache"
    torch.save(drawn_checkpoint(RetrievalNet(RetrievalConfig("resnet18"))), model)
    command = ["evaluate", tmp_path / "photos", "--model", model, "--size", 48, "--scales", 1]
    for more in ((), ("--half",), ("--half",)):
        arguments = [*command, "--cache", cache, *more, "--json"]
        app([str(one) for one in arguments], standalone_mode=False)
        assert json.loads(capsys.readouterr().out)["mAP"] > 0
    assert sorted(str(Store.open(store).dtype) for store in cache.iterdir()) == [
        "float16",
        "float32",
    ]


@pytest.mark.parametrize(
    "job",
    [
        ("photos", "--sweep-p", "--half"),
        ("--table", "speed", "--backend", "openvino"),
        ("hpatches", "--half"),
    ],
)
def test_what_describes_in_its_own_way_takes_no_backend(job: tuple[str, ...]) -> None:
    with pytest.raises(SolarError, match="take no --backend and no --half"):
        app(["evaluate", *job], standalone_mode=False)


def test_an_unknown_backend_is_one_sentence(tmp_path: Path) -> None:
    toy.write(tmp_path / "photos", landmarks=2, views=2, size=(48, 48))
    model = tmp_path / "model.pth"
    torch.save(drawn_checkpoint(RetrievalNet(RetrievalConfig("resnet18"))), model)
    command = ["evaluate", tmp_path / "photos", "--model", model, "--backend", "abacus"]
    with pytest.raises(SolarError, match="No backend is called 'abacus'"):
        app([str(one) for one in command], standalone_mode=False)
