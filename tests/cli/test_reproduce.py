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


def test_table_2_in_every_format(named_set: tuple[object, ...]) -> None:
    mine = ground_truth.by_hand(*ground_truth.descriptors())
    row = ("→ mine", f"{mine['medium']['mAP']:.2f}", "", f"{mine['hard']['mAP']:.2f}", "")
    out = solar(
        "reproduce", "table2", "--set", "roxford5k", *named_set, "--format", "markdown"
    ).stdout
    assert "| ResNet101+SOLAR | 69.9 | 81.6 | 47.9 | 64.5 |" in out
    assert "| " + " | ".join(row) + " |" in out
    out = solar("reproduce", "table2", "--set", "roxford5k", *named_set, "--format", "latex").stdout
    assert r"ResNet101+SOA4,5 & 68.6 & 81.4 & 46.9 & 63.7 \\" in out
    found = json.loads(
        solar("reproduce", "table2", "--set", "roxford5k", *named_set, "--json").stdout
    )
    assert found["rows"][-1]["measured"]["mine"]["roxford5k"]["medium"] == pytest.approx(
        mine["medium"]
    )


def test_table_1_takes_results_of_earlier_runs(
    named_set: tuple[object, ...], tmp_path: Path
) -> None:
    results = tmp_path / "results" / "solar-r101"
    results.mkdir(parents=True)
    (results / "roxford5k+1m.json").write_text(
        solar("evaluate", "roxford5k", *named_set, "--json").stdout
    )
    out = solar("reproduce", "table1", "--results", results.parent).stdout.splitlines()
    place = next(i for i, line in enumerate(out) if line.startswith("ResNet101+SOLAR"))
    mine = ground_truth.by_hand(*ground_truth.descriptors())
    assert out[place + 1].split() == ["→", "solar-r101"] + [
        f"{mine[level][name]:.2f}" for level in ("medium", "hard") for name in ("mAP", "mP@10")
    ]


def test_a_sweep_is_printed_and_plotted(
    photos: Path, models: tuple[Path, Path], tmp_path: Path
) -> None:
    options = ("--set", photos, "--exponents", "1,4", *SMALL)
    done = solar("reproduce", "figure5", *models, *options, "--json", "-o", tmp_path / "sweep.png")
    found = json.loads(done.stdout)["photos"]
    assert list(found) == ["gem", "solar"]
    assert [row["p"] for row in found["gem"]["sweep"]] == [1, pytest.approx(2.8), 4]
    assert Image.open(tmp_path / "sweep.png").width > 300


def test_rankings_are_printed_and_drawn(
    photos: Path, models: tuple[Path, Path], tmp_path: Path
) -> None:
    options = ("--set", photos, "--count", 1, "--top", 3, *SMALL)
    done = solar("reproduce", "figure4", *models, *options, "--json", "-o", tmp_path / "out.png")
    [found] = json.loads(done.stdout)
    assert list(found["models"]) == ["gem", "solar"]
    assert [len(one["hits"]) for one in found["models"].values()] == [3, 3]
    assert Image.open(tmp_path / "out.png").width > 1000


def test_speed_stands_below_what_the_paper_says(models: tuple[Path, Path]) -> None:
    options = (f"GeM={models[0]}", *SMALL, "--device", "cpu")
    found = json.loads(solar("reproduce", "speed", *options, "--json").stdout)
    assert found["published"][-1]["seconds"] == "0.15"
    assert [one["name"] for one in found["measured"]] == ["GeM"]


def test_mistakes_are_one_sentence(
    photos: Path, models: tuple[Path, Path], named_set: tuple[object, ...], tmp_path: Path
) -> None:
    gem, own = models
    figure5 = ("reproduce", "figure5", gem, "--set", photos)
    for command, sentence in (
        (("evaluate",), "Say what to evaluate"),
        (("evaluate", photos, "--model", gem, "--against", gem), "Two models have the same name"),
        (("evaluate", "roxford5k", *named_set, "--against", tmp_path / "none.csv"), "be read"),
        (("reproduce", "table1", gem, "--set", photos), "in no table"),
        (("reproduce", "table1", "-o", "out.png"), "--output"),
        ((*figure5, "--exponents", "x"), "--exponents takes positive numbers"),
        ((*figure5, "--compress", "fp16"), "--compress"),
        (("reproduce", "speed", gem, "--backend", "openvino"), "--backend"),
        (("reproduce", "figure4", gem, own, "--set", photos, "-o", "a.gif"), "end in .png"),
        (("reproduce", "table1", "--compress", "pq"), "--compress pq"),
    ):
        assert sentence in refused(*command)


def test_a_model_is_measured_on_both_sets_for_a_table(
    models: tuple[Path, Path], tmp_path: Path
) -> None:
    content = ground_truth.content()
    for name in ("roxford5k", "rparis6k"):
        home = tmp_path / "data" / name
        (home / "jpg").mkdir(parents=True)
        ground_truth.write(home / f"gnd_{name}.pkl")
        for number, photo in enumerate(content["imlist"] + content["qimlist"]):
            toy.landmark(number % 7, number, size=(40, 40)).save(home / "jpg" / f"{photo}.jpg")
    mine = (f"ResNet101+SOA4={models[0]}", "--root", tmp_path / "data")
    out = solar("reproduce", "table2", *mine, *SMALL).stdout.splitlines()
    place = next(i for i, line in enumerate(out) if line.startswith("ResNet101+SOA4"))
    name, *numbers = out[place + 1].split()[1:]
    assert name == "ResNet101+SOA4"
    assert len(numbers) == 4
    assert numbers[0] == numbers[1]  # both sets hold the same photos here
