from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.drawn import drawn_retrieval

from solar.datasets.labelled.sources import read_training_set
from solar.datasets.labelled.training_set import TrainingSet
from solar.models import RetrievalConfig, RetrievalNet
from solar.training.recipe import build
from solar.training.retrieval.frozen_front import TrainableNet
from solar.training.retrieval.loader import Loader
from solar.training.retrieval.parameter_groups import parameter_groups
from solar.training.retrieval.photo_trainer import contact_sheet
from solar.training.retrieval.recipe import RetrievalCompute, RetrievalRecipe
from solar.training.retrieval.task import Miner, similarity

CPU = torch.device("cpu")


def recipe(**mining: object) -> RetrievalRecipe:
    settings = {
        "data": {"source": ["unused"]},
        "network": {"whitening_from": "pca"},
        "mining": {"queries": 10, "pool": 24, "negatives": 3, "size": 32, "batch": 7, **mining},
    }
    return build(RetrievalRecipe, settings, "a test")


@pytest.fixture(scope="module")
def trainable() -> TrainableNet:
    net = drawn_retrieval(RetrievalConfig("resnet18", dim=16))
    parameter_groups(net, recipe().optimiser)
    return TrainableNet(net.eval(), RetrievalCompute())


@pytest.fixture(scope="module")
def data(landmarks: Path) -> TrainingSet:
    return read_training_set(landmarks)


def loader(data: TrainingSet) -> Loader:
    return Loader(data.photos, recipe().images, 0, CPU)


@pytest.mark.parametrize("style", ["hardest", "semi-hard", "random"])
def test_tuples_have_the_right_landmarks(
    data: TrainingSet, trainable: TrainableNet, style: str
) -> None:
    mined = Miner(data, loader(data), trainable, recipe(style=style)).mine(2)[0]
    shown = torch.from_numpy(data.landmarks)[mined]
    assert mined.shape == (10, 5)
    assert (mined[:, 0] != mined[:, 1]).all()
    assert (shown[:, 0] == shown[:, 1]).all()
    for row in shown.tolist():
        assert len({row[0], *row[2:]}) == 4


def test_an_epoch_is_the_same_again_and_the_next_is_another(
    data: TrainingSet, trainable: TrainableNet
) -> None:
    one, again, other = (
        Miner(data, loader(data), trainable, recipe()).mine(epoch)[0] for epoch in (1, 1, 2)
    )
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    miner = Miner(data, loader(data), trainable, recipe())
    assert not torch.equal(miner.draw(1)[0].queries, miner.draw(2)[0].queries)


def test_hardest_negatives_are_the_nearest_by_plain_search(
    data: TrainingSet, trainable: TrainableNet
) -> None:
    settings = recipe(pool=32, negatives=1)
    mined = Miner(data, loader(data), trainable, settings).mine(0)[0]
    everybody, _ = Miner(data, loader(data), trainable, settings).describe(torch.arange(32), 0)
    shown = torch.from_numpy(data.landmarks)
    for query, _, negative in mined.tolist():
        scores = (everybody @ everybody[query]).masked_fill(shown == shown[query], -2)
        assert scores[negative] == pytest.approx(scores.max().item(), abs=1e-5)


def test_similarity_is_the_mean_cosine_of_pairs() -> None:
    rows = torch.nn.functional.normalize(torch.randn(5, 4), dim=1)
    cosines = rows @ rows.T
    pairs = cosines[~torch.eye(5, dtype=torch.bool)]
    assert similarity(rows) == pytest.approx(pairs.mean().item(), abs=1e-6)


def test_whitening_from_photos_centres_descriptors(
    data: TrainingSet, trainable: TrainableNet
) -> None:
    rows = [Miner(data, loader(data), trainable, recipe()).describe(torch.arange(32), 0)[0]]
    Miner(data, loader(data), trainable, recipe(queries=32)).learn_whitening()
    rows.append(Miner(data, loader(data), trainable, recipe()).describe(torch.arange(32), 0)[0])
    assert similarity(rows[0]) > 0.5
    assert abs(similarity(rows[1])) < 0.1


def test_batch_norms_of_a_random_backbone_get_the_statistics_of_photos(data: TrainingSet) -> None:
    net = RetrievalNet(RetrievalConfig("resnet18"))
    settings = recipe(queries=14)
    optimiser = replace(settings.optimiser, backbone={"all": 1.0}, batch_norm="trained")
    parameter_groups(net, optimiser)
    net.train()
    miner = Miner(data, loader(data), TrainableNet(net, RetrievalCompute()), settings)
    miner.estimate_batch_norms()
    norm = net.backbone.bn1
    assert isinstance(norm, torch.nn.BatchNorm2d)
    assert norm.running_mean is not None
    assert norm.num_batches_tracked == 2
    assert norm.momentum == 0.1
    squares = loader(data).squares(miner.draw(0)[0].queries.tolist(), 32, (0,))
    images = net.normalise(torch.stack([torch.from_numpy(s) for s in squares if s is not None]))
    expected = net.backbone.conv1(images).mean(dim=(0, 2, 3))  # type: ignore[operator]
    assert torch.allclose(norm.running_mean, expected, atol=1e-4)


def test_the_sheet_has_a_row_a_tuple_and_colours_that_tell(data: TrainingSet) -> None:
    sheet = contact_sheet(data.photos, torch.arange(12).view(3, 4))
    assert sheet.shape == (3 * 100, 4 * 100, 3)
    assert sheet[0, 120].tolist() == [0, 148, 108]
    assert sheet[0, 220].tolist() == [208, 68, 0]
