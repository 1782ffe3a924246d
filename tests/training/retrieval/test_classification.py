import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.running import tiny_command
from support.tiny_backbone import register
from support.two_processes import in_two_processes

import solar
from solar.datasets.labelled.build import build_training_set
from solar.demo import toy
from solar.errors import SolarError
from solar.losses import second_order
from solar.models import RetrievalNet
from solar.training.objective import CollapseMonitor
from solar.training.recipe import build
from solar.training.retrieval.classification import (
    PlaceTrainer,
    epoch_length,
    epoch_order,
    place_similarity,
)
from solar.training.retrieval.recipe import PlaceRecipe
from solar.training.run import read_metrics

SMALL: dict[str, Any] = {
    "task": "places",
    "network": {"backbone": "tiny", "attention": "5", "dim": 32, "whitening_from": "pca"},
    "images": {"size": 48, "orient": True, "threads": 2},
    "optimiser": {"kind": "adamw", "lr": 3e-3, "backbone": {"all": 1}},
    "schedule": {"kind": "constant"},
    "batch": 8,
    "epochs": 1,
}


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sums are the same to the last bit only where as many threads share them."""
    register()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def trainer(photos: Path, folder: Path, *, resume: bool = False, **changes: Any) -> PlaceTrainer:
    settings = {**SMALL, "data": {"source": [str(photos)]}, **changes}
    return PlaceTrainer(build(PlaceRecipe, settings, "a test"), folder, resume=resume)


def weights(path: Path) -> dict[str, torch.Tensor]:
    return solar.load(path, device="cpu").state_dict()


def test_three_hundred_steps_find_unseen_landmarks_better(tmp_path: Path) -> None:
    """At least 8 points of mAP more than at the start; 12 to 16 were seen with three seeds."""
    toy.write(tmp_path / "train", landmarks=60, views=5, size=(56, 56))
    toy.write(tmp_path / "val", landmarks=10, views=6, size=(48, 48), first=500)
    work = trainer(
        tmp_path / "train",
        tmp_path / "run",
        network={**SMALL["network"], "dim": 64},
        images={**SMALL["images"], "shape": "crop", "min_area": 0.4},
        optimiser={**SMALL["optimiser"], "batch_norm": "trained"},
        schedule={"kind": "cosine"},
        validation={"source": [str(tmp_path / "val")], "size": 48, "every": 100},
        batch=16,
        steps=300,
        epochs=100,
    )
    summary = work.fit()
    scores = [line["mAP"] for line in read_metrics(tmp_path / "run") if "mAP" in line]
    assert summary["steps"] == 300
    assert len(scores) == 2
    assert scores[1] - scores[0] >= 8


def test_a_run_leaves_an_ordinary_network_without_the_places(
    landmarks: Path, tmp_path: Path
) -> None:
    work = trainer(landmarks, tmp_path / "run", validation={"fraction": 0.25, "size": 48})
    assert len(work.data.labels) == 6
    summary = work.fit()
    net = solar.load(summary["model"], device="cpu")
    assert isinstance(net, RetrievalNet)
    assert not [name for name in net.state_dict() if "classifier" in name]
    lines = read_metrics(tmp_path / "run")
    figures = [line for line in lines if "loss" in line]
    assert [line["step"] for line in figures] == [1, 2, 3]
    assert {"accuracy", "near", "far", "spread", "first_order", "gradient"} <= figures[0].keys()
    assert summary["mAP"] == max(line["mAP"] for line in lines if "mAP" in line)
    assert (tmp_path / "run" / "pictures" / "places.png").exists()


def test_a_run_in_parts_gives_the_same_bits(landmarks: Path, tmp_path: Path) -> None:
    """Stopped after every step, in the middle of an epoch and at its end; all state is in it."""
    common: dict[str, Any] = {
        "loss": {"kind": "curricular", "second_order": 0.5},
        "each": 2,
        "images": {**SMALL["images"], "augment": {"flip": 0.5, "colour": 0.2}},
        "ema": 0.9,
        "epochs": 2,
        "steps": 6,
    }
    whole = trainer(landmarks, tmp_path / "whole", **common)
    whole.fit()
    for _ in range(6):
        part = trainer(landmarks, tmp_path / "parts", resume=True, seconds=0, **common)
        part.fit()
    assert whole.step == part.step == 6
    for name, value in weights(tmp_path / "whole/last.safetensors").items():
        assert torch.equal(value, weights(tmp_path / "parts/last.safetensors")[name]), name
    for name, value in whole.classifier.state_dict().items():
        assert torch.equal(value, part.classifier.state_dict()[name]), name
    assert whole.classifier.t != 0
    assert read_metrics(tmp_path / "whole") == read_metrics(tmp_path / "parts")


def test_two_processes_train_what_one_does(landmarks: Path, tmp_path: Path, free_port: int) -> None:
    settings = {
        **SMALL,
        "data": {"source": [str(landmarks)]},
        "optimiser": {"kind": "sgd", "lr": 1e-2, "backbone": {"all": 1}},
        "loss": {"second_order": 0.5},
        "each": 2,
    }
    path = tmp_path / "recipe.yaml"
    path.write_text(json.dumps(settings))  # JSON is YAML
    solar.train(path, run=tmp_path / "one")
    in_two_processes(tiny_command("train", path, "--run", tmp_path / "two"), free_port)
    losses = [
        [line["loss"] for line in read_metrics(tmp_path / name) if "loss" in line]
        for name in ("one", "two")
    ]
    assert len(losses[0]) == 4
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    states = [
        torch.load(tmp_path / name / "checkpoints/step-00000004.pt", weights_only=True)["state"]
        for name in ("one", "two")
    ]
    for part in ("network", "classifier"):
        for name, value in states[0][part].items():
            assert torch.allclose(value, states[1][part][name], rtol=1e-4, atol=1e-5), name


def test_a_batch_in_chunks_has_the_same_gradients(landmarks: Path, tmp_path: Path) -> None:
    found = []
    for chunks in (1, 3):
        compute = {"grad_cache_chunks": chunks}
        work = trainer(landmarks, tmp_path / str(chunks), steps=1, compute=compute)
        work.fit()
        found.append([parameter.grad for parameter in work.learning])
    for one, other in zip(*found, strict=True):
        assert one is not None
        assert other is not None
        assert torch.allclose(one, other, rtol=1e-3, atol=1e-6 + 1e-4 * one.abs().max())


def test_biases_and_norms_do_not_decay_and_places_have_their_own_rate(
    landmarks: Path, tmp_path: Path
) -> None:
    optimiser = {**SMALL["optimiser"], "weight_decay": 0.1, "classifier": 10}
    groups = trainer(landmarks, tmp_path, optimiser=optimiser).optimiser.param_groups
    assert groups[0]["name"] == "classifier"
    assert (groups[0]["lr"], groups[0]["weight_decay"]) == (3e-2, 0.1)
    for group in groups[1:]:
        assert group["lr"] == 3e-3
        for parameter in group["params"]:
            assert group["weight_decay"] == (0.1 if parameter.dim() > 1 else 0)


def test_places_can_start_where_their_photos_are(landmarks: Path, tmp_path: Path) -> None:
    work = trainer(landmarks, tmp_path / "run", loss={"start": "means"}, steps=1)
    with work.run:
        work._start()
        weight = work.classifier.weight.detach()
        work.net.eval()
        for place in range(len(work.data.labels)):
            numbers = torch.from_numpy(np.flatnonzero(work.data.landmarks == place))
            mean = work.describe(numbers)[0].mean(0)
            cosine = torch.nn.functional.cosine_similarity(mean, weight[place], dim=0)
            assert cosine == pytest.approx(1, abs=1e-5)


def test_a_training_file_holds_out_what_it_says(landmarks: Path, tmp_path: Path) -> None:
    build_training_set(landmarks, tmp_path / "set.json", val_fraction=0.25)
    work = trainer(tmp_path / "set.json", tmp_path / "run")
    assert work.held is not None
    assert len(set(work.held.labels)) == 2
    assert not set(work.held.labels) & set(work.data.labels)


def test_a_photo_that_cannot_be_read_is_replaced_with_its_label(tmp_path: Path) -> None:
    toy.write(tmp_path / "photos", landmarks=3, views=3, size=(48, 48))
    bad = tmp_path / "photos" / "landmark-001" / "view-002.jpg"  # the next is of another place
    bad.write_bytes(b"no photo")
    work = trainer(tmp_path / "photos", tmp_path / "run", batch=9)
    order = torch.arange(9)[:, None]
    read = work.loader.batches(lambda place: work._choices(order, place), range(9), 9, 0)
    [(_, numbers)] = read
    assert numbers.tolist() == [0, 1, 2, 3, 4, 6, 6, 7, 8]
    assert work.fit()["unreadable"] == 1


def test_a_collapse_is_told(landmarks: Path, tmp_path: Path) -> None:
    loss = {"second_order": 1000}
    work = trainer(landmarks, tmp_path, loss=loss, each=2, epochs=20, stop_on_collapse=True)
    work.monitor = CollapseMonitor(stop=True, window=4, advice="Lower loss.margin.")
    with pytest.raises(SolarError, match=r"collapsed.* loss\.margin"):
        work.fit()


@pytest.mark.parametrize("each", [1, 2, 3])
def test_an_epoch_has_every_photo_in_groups_of_one_place(each: int) -> None:
    labels = torch.tensor([0, 1, 1, 2, 2, 2, 2, 3, 3, 0])
    chance = torch.Generator().manual_seed(0)
    order = epoch_order(labels, each, chance)
    assert len(order) == epoch_length(labels.numpy(), each)
    assert set(order.tolist()) == set(range(10))
    groups = order.view(-1, each)
    assert (labels[groups] == labels[groups[:, :1]]).all()
    # Nobody comes twice in a group, unless his place has too few photos.
    assert all(len(set(group)) == min(each, 2) or each == 3 for group in groups.tolist())
    assert not torch.equal(order, epoch_order(labels, each, chance))


def test_negatives_of_the_second_order_loss_are_the_nearest_of_other_places() -> None:
    rows = torch.nn.functional.normalize(torch.randn(14, 4, generator=torch.manual_seed(3)))
    labels = torch.tensor([0, 0, 1, 1, 2, 3, 0, 0, 4, 4, 5, 5, 6, 6])  # 2 and 3 are no pair
    pairs = [(0, 1), (2, 3), (6, 7), (8, 9), (10, 11), (12, 13)]
    negatives = []
    for anchor, _ in pairs:
        others = [n for n in range(14) if labels[n] != labels[anchor]]
        similarity = np.array([float(rows[anchor] @ rows[n]) for n in others])
        negatives.append([others[n] for n in np.argsort(-similarity)[:5]])
    anchors, positives = (rows[[pair[side] for pair in pairs]] for side in (0, 1))
    wanted = second_order(anchors, positives, rows[torch.tensor(negatives)], reduction="per_query")
    torch.testing.assert_close(place_similarity(rows, labels), wanted)
    assert place_similarity(rows[:2], labels[:2]) == 0  # of one place


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"loss": {"kind": "triplet"}}, "loss.kind must be one of arcface, cosface, curricular"),
        ({"loss": {"margin": -1}}, r"loss\.margin"),
        ({"loss": {"second_order": 1}}, "each=2"),
        ({"each": 3}, "batch=48"),
        ({"batch": 64}, r"32.* 64.* batch=32"),
        (
            {"network": {"backbone": "tiny", "whitening_from": "learn"}},
            r"whitening_from=learn.* pca",
        ),
        ({"images": {"min_area": 0}}, r"images\.min_area"),
        ({"mining": {}}, "'mining'"),
    ],
)
def test_a_mistake_is_one_sentence(
    landmarks: Path, tmp_path: Path, changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(SolarError, match=complaint):
        trainer(landmarks, tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()
