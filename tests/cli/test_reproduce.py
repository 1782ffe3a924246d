import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from support import ground_truth
from support.drawn import drawn_checkpoint
from support.running import refused, solar

from solar.demo import toy
from solar.models import RetrievalConfig, RetrievalNet

SMALL = ("--size", 48, "--scales", 1)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures") / "photos"
    toy.write(folder, landmarks=2, views=3, size=(48, 36))
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("models")
    for name, attention in (("gem", {}), ("solar", {5: 2})):
        net = RetrievalNet(RetrievalConfig("resnet18", attention=attention))
        torch.save(drawn_checkpoint(net), folder / f"{name}.pth")
    return folder / "gem.pth", folder / "solar.pth"


@pytest.fixture
def named_set(tmp_path: Path) -> tuple[object, ...]:
    """The options that evaluate a small roxford5k from descriptors."""
    database, queries = ground_truth.descriptors()
    np.save(tmp_path / "mine.npy", database)
    np.save(tmp_path / "q.npy", queries)
    truth = ground_truth.write(tmp_path / "gnd_roxford5k.pkl")
    files = (tmp_path / "mine.npy", tmp_path / "q.npy")
    return ("--ground-truth", truth, "--features", *files)


def test_intervals_on_request(named_set: tuple[object, ...]) -> None:
    found = json.loads(solar("evaluate", "roxford5k", *named_set, "--interval", "--json").stdout)
    for level in ("easy", "medium", "hard"):
        low, high = found[level]["mAP interval"]
        assert low <= found[level]["mAP"] <= high
    shown = solar("evaluate", "roxford5k", *named_set, "--interval").stdout.splitlines()
    low, high = found["medium"]["mAP interval"]
    [line] = [line for line in shown if line.startswith("medium")]
    assert line.endswith(f"{low:.2f} to {high:.2f}")


def test_an_earlier_run_is_compared_with(named_set: tuple[object, ...], tmp_path: Path) -> None:
    solar("evaluate", "roxford5k", *named_set, "--per-query", tmp_path / "first.csv")
    database, queries = ground_truth.descriptors()
    worse = ground_truth.unit(database + np.random.default_rng(3).normal(0, 0.3, database.shape))
    np.save(tmp_path / "mine.npy", worse)
    done = solar("evaluate", "roxford5k", *named_set, "--against", tmp_path / "first.csv", "--json")
    found = json.loads(done.stdout)
    expected = [ground_truth.by_hand(rows, queries)["hard"]["mAP"] for rows in (worse, database)]
    difference = found["difference"]["hard"]
    assert difference["difference"] == pytest.approx(expected[0] - expected[1])
    assert difference["low"] <= difference["difference"] <= difference["high"]
    assert 0 < difference["p"] <= 1


def test_two_models_are_compared_as_a_table(photos: Path, models: tuple[Path, Path]) -> None:
    gem, own = models
    options = ("--model", own, "--against", f"baseline={gem}", *SMALL)
    lines = solar("evaluate", photos, *options).stdout.splitlines()
    assert lines[0].split() == ["solar", "baseline", "difference", "95", "%", "p"]
    measured = [
        json.loads(solar("evaluate", photos, "--model", m, *SMALL, "--json").stdout)["mAP"]
        for m in (own, gem)
    ]
    cells = lines[2].split()
    assert cells[:2] == [f"{value:.2f}" for value in measured]
    assert cells[2] == f"{measured[0] - measured[1]:+.2f}"


def test_a_sweep_is_printed_and_plotted(
    photos: Path, models: tuple[Path, Path], tmp_path: Path
) -> None:
    rows = [option for model in models for option in ("--rows", model)]
    options = ("--set", photos, "--exponents", "1,4", "--run", tmp_path, *SMALL)
    found = json.loads(solar("reproduce", "figure5", *rows, *options, "--json").stdout)["photos"]
    assert list(found) == ["gem", "solar"]
    assert [row["p"] for row in found["gem"]["sweep"]] == [1, pytest.approx(2.8), 4]
    assert Image.open(tmp_path / "figure5.png").width > 300


def test_rankings_are_printed_and_drawn(
    photos: Path, models: tuple[Path, Path], tmp_path: Path
) -> None:
    rows = ("--rows", models[0], "--rows", f"ours={models[1]}")
    options = ("--set", photos, "--count", 1, "--top", 3, "--run", tmp_path, *SMALL)
    done = solar("reproduce", "figure4", *rows, *options, "--json")
    [found] = json.loads(done.stdout)
    assert list(found["models"]) == ["gem", "ours"]
    assert [len(one["hits"]) for one in found["models"].values()] == [3, 3]
    assert Image.open(tmp_path / "figure4.png").width > 1000
    assert json.loads((tmp_path / "figure4.json").read_text()) == [found]
    assert str(tmp_path / "figure4.png") in done.stderr.replace("\n", "")


def test_speed_stands_below_what_the_paper_says(models: tuple[Path, Path], tmp_path: Path) -> None:
    options = ("--rows", f"GeM={models[0]}", *SMALL, "--device", "cpu", "--run", tmp_path)
    found = json.loads(solar("reproduce", "speed", *options, "--json").stdout)
    assert found["published"][-1]["seconds"] == "0.15"
    assert [one["name"] for one in found["measured"]] == ["GeM"]


def test_the_plan_is_printed_first(tmp_path: Path) -> None:
    command = ("reproduce", "table2", "--root", tmp_path, "--run", tmp_path / "run")
    plan = solar(*command, "--dry-run").stdout
    assert "solar data get gl18" in plan
    assert "train soa45-r101-gl18-0" in plan
    untrained = json.loads(solar(*command, "--dry-run", "--no-train", "--json").stdout)
    assert [step["step"] for step in untrained if "train" in step["step"]] == []
    assert not any(tmp_path.iterdir())


def test_mistakes_are_one_sentence(
    photos: Path, models: tuple[Path, Path], named_set: tuple[object, ...], tmp_path: Path
) -> None:
    gem, own = models
    figure5 = ("reproduce", "figure5", "--rows", gem, "--set", photos, "--run", tmp_path / "run")
    for command, sentence in (
        (("evaluate",), "Say what to evaluate"),
        (("evaluate", photos, "--model", gem, "--against", gem), "Two models have the same name"),
        (("evaluate", "roxford5k", *named_set, "--against", tmp_path / "none.csv"), "be read"),
        (("reproduce", "table3"), "table1, table2"),
        ((*figure5, "--exponents", "x"), "--exponents takes positive numbers"),
        (("reproduce", "ubc", "--rows", own, "--root", tmp_path), "SOSNet+"),
        (("reproduce", "table1", "--compress", "pq"), "--compress pq"),
    ):
        assert sentence in refused(*command)
