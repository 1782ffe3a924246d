import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from support import ground_truth
from support.drawn import drawn_checkpoint
from support.running import refused, solar

from solar.cli import app
from solar.demo import toy
from solar.errors import SolarError
from solar.index import Index
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
        assert sentence in refused(*arguments, *files, "--json")


def test_descriptors_can_be_halved_beside_whole_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toy.write(tmp_path / "photos", landmarks=2, views=2, size=(48, 48))
    model, cache = tmp_path / "model.pth", tmp_path / "cache"
    torch.save(drawn_checkpoint(RetrievalNet(RetrievalConfig("resnet18"))), model)
    command = ["evaluate", tmp_path / "photos", "--model", model, "--size", 48, "--scales", 1]
    for more in ((), ("--compress", "fp16"), ("--compress", "fp16")):
        arguments = [*command, "--cache", cache, *more, "--json"]
        app([str(one) for one in arguments], standalone_mode=False)
        assert json.loads(capsys.readouterr().out)["mAP"] > 0
    assert sorted(Index.open(place).info()["compress"] for place in cache.iterdir()) == [
        "fp16",
        "none",
    ]


def test_an_unknown_backend_is_one_sentence(tmp_path: Path) -> None:
    toy.write(tmp_path / "photos", landmarks=2, views=2, size=(48, 48))
    model = tmp_path / "model.pth"
    torch.save(drawn_checkpoint(RetrievalNet(RetrievalConfig("resnet18"))), model)
    command = ["evaluate", tmp_path / "photos", "--model", model, "--backend", "abacus"]
    with pytest.raises(SolarError, match="No backend is called 'abacus'"):
        app([str(one) for one in command], standalone_mode=False)


@pytest.fixture
def places(tmp_path: Path) -> tuple[object, ...]:
    """Two places and three queries, one of them far from both, with descriptors: the options."""
    for side, count in (("database", 2), ("queries", 3)):
        (tmp_path / side).mkdir()
        for place in range(count):
            name = f"@{1000 * place}.00@5.00@.jpg"
            toy.landmark(place, 0, size=(48, 36)).save(tmp_path / side / name)
    np.save(tmp_path / "db.npy", np.eye(3)[:2])
    np.save(tmp_path / "q.npy", np.eye(3)[[0, 0, 0]])
    return (tmp_path, "--features", tmp_path / "db.npy", tmp_path / "q.npy", "--protocol", "vpr")


def run(*arguments: object) -> None:
    app(["evaluate", *map(str, arguments)], standalone_mode=False)


def test_place_recognition_is_four_recalls_as_json(
    places: tuple[object, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    run(*places, "--json")
    told = capsys.readouterr()
    assert json.loads(told.out) == {
        "recall@1": pytest.approx(100 / 3),
        **dict.fromkeys(("recall@5", "recall@10", "recall@20"), pytest.approx(200 / 3)),
    }
    assert "Whole photos, embeddings as given; correct: within 25 m" in told.err
    run(*places, "--json", "--answerable")
    assert json.loads(capsys.readouterr().out)["recall@1"] == 50


def test_recalls_have_intervals_and_are_compared(
    places: tuple[object, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(*places, "--interval", "--per-query", tmp_path / "first.csv")
    shown = capsys.readouterr().out
    assert shown.split()[:4] == ["recall@1", "recall@5", "recall@10", "recall@20"]
    assert "3 queries, in percent. Whole photos, embeddings as given" in shown
    assert "1 queries without a correct photo count as misses; no AP." in shown
    run(*places, "--interval", "--json")
    low, high = json.loads(capsys.readouterr().out)["recall@1 interval"]
    assert low < 100 / 3 < high
    np.save(tmp_path / "q.npy", np.eye(3)[[0, 1, 0]])
    run(*places, "--against", tmp_path / "first.csv", "--json")
    difference = json.loads(capsys.readouterr().out)["difference"]
    assert difference["difference"] == pytest.approx(100 / 3)
    assert 0 < difference["p"] <= 1


def test_two_folders_need_no_folder_above_them(
    places: tuple[object, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, *rest = places
    sides = ("--database", f"{folder}/database", "--queries", f"{folder}/queries")
    run(*rest, *sides, "--json")
    assert json.loads(capsys.readouterr().out)["recall@1"] == pytest.approx(100 / 3)


def test_wrong_positions_end_with_exit_code_2(places: tuple[object, ...], tmp_path: Path) -> None:
    (tmp_path / "positions.csv").write_text("name,east,north\n/a.jpg,1,2\nb.jpg,1,2\n")
    told = refused("evaluate", *places, "--positions", tmp_path / "positions.csv")
    assert "positions.csv" in told


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--frames", 1), "--frames needs --protocol"),
        (("--radius", 5), "--radius needs --protocol"),
        (("--frames", -1, "--protocol", "vpr"), "--frames"),
        (("--codebook", "a.asmk"), "--codebook needs --method asmk"),
        (("--protocol", "vqr"), "'vqr': choose vpr, ilias, gldv2-retrieval"),
    ],
)
def test_protocols_and_their_options_go_together(
    tmp_path: Path, options: tuple[object, ...], sentence: str
) -> None:
    with pytest.raises(SolarError, match=sentence):
        run(tmp_path, *options)
