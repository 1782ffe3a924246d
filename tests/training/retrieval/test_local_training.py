"""HOW learns by the sum of its local descriptors, DELF by telling places apart."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.boxed import needs_weights
from support.tiny_backbone import register

import solar
from solar.errors import SolarError
from solar.local.features import local_features
from solar.models import RetrievalConfig, RetrievalNet, save
from solar.nn.local_pooling import Delf, How
from solar.training.recipe import build, read_recipe
from solar.training.retrieval.classification import PlaceTrainer
from solar.training.retrieval.recipe import PlaceRecipe, RetrievalRecipe
from solar.training.retrieval.start import build_network, start_local_whitening
from solar.training.retrieval.task import RetrievalTrainer
from solar.training.run import read_metrics

RECIPES = Path(__file__).parents[3] / "recipes"
HOW: dict[str, Any] = {
    "network": {"backbone": "tiny", "pooling": "how", "whitening": False, "whitening_from": "pca"},
    "images": {"size": 64, "threads": 2},
    "loss": {"kind": "contrastive", "margin": 0.8, "second_order": 0, "reduction": "sum"},
    "mining": {"queries": 8, "pool": 20, "negatives": 2, "size": 64},
    "optimiser": {"lr": 1e-3, "pooling": 0, "backbone": {"all": 1}},
    "batch": 4,
    "epochs": 1,
}
DELF: dict[str, Any] = {
    "task": "places",
    "network": {"backbone": "tiny", "pooling": "delf", "whitening": False},
    "images": {"size": 48, "threads": 2},
    "loss": {"kind": "cosface", "margin": 0, "scale": 30},
    "optimiser": {"kind": "sgd", "lr": 0.05, "pooling": 1, "batch_norm": "trained", "clip": 10},
    "schedule": {"kind": "linear"},
    "batch": 8,
    "epochs": 2,
}


@pytest.fixture(autouse=True)
def _tiny() -> None:
    register()
    torch.manual_seed(0)


def start(folder: Path, pooling: str) -> tuple[str, dict[str, torch.Tensor]]:
    """A network with random weights in a file, and these."""
    net = RetrievalNet(RetrievalConfig("tiny", pooling=pooling, whitening=False, scales=(1.0,)))
    return str(save(net, folder / "start.safetensors")), net.state_dict()


def test_how_whitens_first_and_then_learns_in_its_backbone(landmarks: Path, tmp_path: Path) -> None:
    path, before = start(tmp_path, "how")
    network = {**HOW["network"], "features": path}
    settings = {**HOW, "network": network, "data": {"source": [str(landmarks)]}}
    work = RetrievalTrainer(build(RetrievalRecipe, settings, "a test"), tmp_path / "run")
    summary = work.fit()
    lines = read_metrics(tmp_path / "run")
    assert lines[0]["from_whitening"] == "computed from training photos (pca of local descriptors)"
    losses = [line["loss"] for line in lines if "loss" in line]
    assert len(losses) == 2
    assert np.isfinite(losses).all()
    net = solar.load(summary["model"], device="cpu")
    assert (net.config.pooling, net.config.scales, net.dim) == ("how", (1.0,), 64)
    after = net.state_dict()
    for name in ("backbone.low.0.weight", "backbone.high.0.weight", "pool.reduce.weight"):
        assert not torch.equal(before[name], after[name])
    assert [group["name"] for group in work.parameter_groups()] == ["low", "middle", "high"]


def test_the_whitening_makes_the_strongest_descriptors_white() -> None:
    net = RetrievalNet(RetrievalConfig("tiny", pooling="how", whitening=False, scales=(1.0,)))
    assert isinstance(net.pool, How)
    draw = np.random.default_rng(0)
    squares = [draw.integers(0, 256, (64, 64, 3), np.uint8) for _ in range(20)]
    start_local_whitening(net, [None, *squares])
    with torch.no_grad():
        images = net.eval().normalise(torch.from_numpy(np.stack(squares)))
        _, descriptors = net.pool.local(net.forward_features(images))
    rows = descriptors.movedim(1, -1).flatten(0, 2).double()  # 64 locations, all of them strong
    covariance = rows.T @ rows / len(rows)
    varies = covariance.diagonal() > 0.5
    assert varies.sum() > 8
    assert (covariance[varies][:, varies] - torch.eye(int(varies.sum()))).abs().max() < 1e-2
    with pytest.raises(SolarError, match="0 local descriptors"):
        start_local_whitening(net, [None])


def test_delf_learns_where_to_look_and_leaves_the_backbone_alone(
    landmarks: Path, tmp_path: Path
) -> None:
    path, before = start(tmp_path, "delf")
    settings = {**DELF, "network": {"start": path}, "data": {"source": [str(landmarks)]}}
    recipe = build(PlaceRecipe, settings, "a test")
    summary = PlaceTrainer(recipe, tmp_path / "run").fit()
    net = solar.load(summary["model"], device="cpu")
    assert isinstance(net.pool, Delf)
    after = net.state_dict()
    assert all(torch.equal(before[n], after[n]) for n in before if n.startswith("backbone."))
    for part in ("attention.conv2", "autoencoder.conv1", "autoencoder.conv2"):
        assert not torch.equal(before[f"pool.{part}.weight"], after[f"pool.{part}.weight"])
    found = local_features(next(landmarks.rglob("*.jpg")), net, keypoints=20)
    assert found.descriptors.shape == (20, 128)
    losses = [line["loss"] for line in read_metrics(tmp_path / "run") if "loss" in line]
    assert len(losses) == 8
    assert np.isfinite(losses).all()


def test_what_how_cannot_be_whitened_by(landmarks: Path, tmp_path: Path) -> None:
    network = {**HOW["network"], "whitening_from": "learn"}
    settings = {**HOW, "network": network, "data": {"source": [str(landmarks)]}}
    recipe = build(RetrievalRecipe, settings, "a test")
    with pytest.raises(SolarError, match=r"pca.* learn"):
        RetrievalTrainer(recipe, tmp_path / "run").fit()


def test_the_recipes_have_the_published_settings() -> None:
    small = read_recipe(RetrievalRecipe, RECIPES / "how-r18.yaml")
    assert (small.network.backbone, small.network.pooling) == ("resnet18", "how")
    assert (small.loss.kind, small.loss.margin, small.loss.reduction) == ("contrastive", 0.8, "sum")
    assert (small.optimiser.lr, small.optimiser.weight_decay) == (5e-6, 1e-4)
    assert (small.optimiser.pooling, small.batch, small.epochs) == (0, 5, 20)
    assert (small.mining.queries, small.mining.pool, small.mining.negatives) == (2000, 20_000, 5)
    assert small.schedule.factor(1, steps=9) == pytest.approx(0.99, abs=1e-5)
    large = read_recipe(RetrievalRecipe, RECIPES / "how-r50.yaml")
    assert (large.network.backbone, large.optimiser.lr) == ("resnet50-conv4", 1e-6)
    assert large.loss == small.loss
    delf = read_recipe(PlaceRecipe, RECIPES / "delf-r50.yaml")
    assert (delf.network.pooling, delf.optimiser.lr, delf.batch) == ("delf", 0.01, 32)
    assert delf.optimiser.backbone == {}


@needs_weights
def test_a_small_how_starts_from_the_bundled_network_without_its_attention() -> None:
    recipe = read_recipe(RetrievalRecipe, RECIPES / "how-r18-small.yaml")
    net, origin = build_network(recipe.network)
    assert (net.config.backbone, net.config.attention) == ("resnet18-conv4", {})
    assert (origin["backbone"], origin["attention"]) == ("solar-r18", "none")
    start, own = solar.load("solar-r18", device="cpu").backbone.state_dict(), net.backbone
    assert all(torch.equal(start[name], tensor) for name, tensor in own.state_dict().items())
