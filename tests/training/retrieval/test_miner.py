from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.drawn import drawn_retrieval

from solar.models import RetrievalConfig, RetrievalNet
from solar.training.recipe import build
from solar.training.retrieval.parameter_groups import parameter_groups
from solar.training.retrieval.photo_trainer import contact_sheet
from solar.training.retrieval.recipe import RetrievalRecipe
from solar.training.retrieval.task import RetrievalTrainer, similarity


@pytest.fixture
def trainer(landmarks: Path, tmp_path: Path) -> Callable[..., RetrievalTrainer]:
    """Trainers with settings of mining; the network does not learn here."""

    def made(net: RetrievalNet | None = None, **mining: object) -> RetrievalTrainer:
        given = {"queries": 10, "pool": 24, "negatives": 3, "size": 32, "batch": 7, **mining}
        settings = {
            "data": {"source": [str(landmarks)]},
            "network": {"backbone": "resnet18", "whitening_from": "pca"},
            "mining": given,
            "batch": 2,
        }
        work = RetrievalTrainer(build(RetrievalRecipe, settings, "a test"), tmp_path / "run")
        drawn = drawn_retrieval(RetrievalConfig("resnet18", dim=16)).eval()
        work.net = drawn if net is None else net
        parameter_groups(work.net, work.recipe.optimiser)
        work.ready()
        return work

    return made


@pytest.mark.parametrize("style", ["hardest", "semi-hard", "random"])
def test_tuples_have_the_right_landmarks(
    trainer: Callable[..., RetrievalTrainer], style: str
) -> None:
    work = trainer(style=style)
    mined = work.mine(2)[0]
    shown = work.landmarks[mined]
    assert mined.shape == (10, 5)
    assert (mined[:, 0] != mined[:, 1]).all()
    assert (shown[:, 0] == shown[:, 1]).all()
    for row in shown.tolist():
        assert len({row[0], *row[2:]}) == 4


def test_an_epoch_is_the_same_again_and_the_next_is_another(
    trainer: Callable[..., RetrievalTrainer],
) -> None:
    one, again, other = (trainer().mine(epoch)[0] for epoch in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    work = trainer()
    assert not torch.equal(work.draw(1)[0].queries, work.draw(2)[0].queries)


def test_hardest_negatives_are_the_nearest_by_plain_search(
    trainer: Callable[..., RetrievalTrainer],
) -> None:
    work = trainer(pool=32, negatives=1)
    mined = work.mine(0)[0]
    everybody, _ = work.describe(torch.arange(32))
    shown = work.landmarks
    for query, _, negative in mined.tolist():
        scores = (everybody @ everybody[query]).masked_fill(shown == shown[query], -2)
        assert scores[negative] == pytest.approx(scores.max().item(), abs=1e-5)


def test_photos_of_a_tuple_stand_in_for_each_other_within_its_parts(
    trainer: Callable[..., RetrievalTrainer],
) -> None:
    order = torch.tensor([[0, 0, 0, 0], [5, 6, 7, 8]])
    found = [trainer()._choices(order, place) for place in range(4, 8)]
    assert found == [[5, 5, 6], [6, 5, 6], [7, 7, 8], [8, 7, 8]]


def test_similarity_is_the_mean_cosine_of_pairs() -> None:
    rows = torch.nn.functional.normalize(torch.randn(5, 4), dim=1)
    cosines = rows @ rows.T
    pairs = cosines[~torch.eye(5, dtype=torch.bool)]
    assert similarity(rows) == pytest.approx(pairs.mean().item(), abs=1e-6)


def test_whitening_from_photos_centres_descriptors(
    trainer: Callable[..., RetrievalTrainer],
) -> None:
    work = trainer(queries=32)
    rows = [work.describe(torch.arange(32))[0]]
    work.start_whitening()
    rows.append(work.describe(torch.arange(32))[0])
    assert similarity(rows[0]) > 0.5
    assert abs(similarity(rows[1])) < 0.1


def test_batch_norms_of_a_random_backbone_get_the_statistics_of_photos(
    trainer: Callable[..., RetrievalTrainer],
) -> None:
    net = RetrievalNet(RetrievalConfig("resnet18"))
    work = trainer(net, queries=14)
    optimiser = replace(work.recipe.optimiser, backbone={"all": 1.0}, batch_norm="trained")
    parameter_groups(net, optimiser)
    net.train()
    work.ready()
    work.estimate_batch_norms()
    norm = net.backbone.bn1
    assert isinstance(norm, torch.nn.BatchNorm2d)
    assert norm.running_mean is not None
    assert norm.num_batches_tracked == 2
    assert norm.momentum == 0.1
    squares = work.loader.squares(work.draw(0)[0].queries.tolist(), 32, (0,))
    images = net.normalise(torch.stack([torch.from_numpy(s) for s in squares if s is not None]))
    expected = net.backbone.conv1(images).mean(dim=(0, 2, 3))  # type: ignore[operator]
    assert torch.allclose(norm.running_mean, expected, atol=1e-4)


def test_the_sheet_has_a_row_a_tuple_and_colours_that_tell(
    trainer: Callable[..., RetrievalTrainer],
) -> None:
    sheet = contact_sheet(trainer().data.photos, torch.arange(12).view(3, 4))
    assert sheet.shape == (3 * 100, 4 * 100, 3)
    assert sheet[0, 120].tolist() == [0, 148, 108]
    assert sheet[0, 220].tolist() == [208, 68, 0]
