"""Ten steps of training, as the published code takes them (tests/golden/README.md)."""

import zlib
from typing import Any

import numpy as np
import torch
from support.drawn import drawn_retrieval, relative_error

from solar.models import RetrievalConfig, RetrievalNet
from solar.training.objective import RetrievalLoss, objective
from solar.training.retrieval.parameter_groups import parameter_groups
from solar.training.retrieval.recipe import RetrievalOptimiser
from solar.training.schedule import Schedule

STEPS, EPOCH = 10, 5
FIGURES = {"loss": "loss", "first": "first_order", "second": "second_order"}
LANDMARKS = torch.tensor([[0, 0, 1, 2, 3, 4, 5], [6, 6, 7, 8, 9, 10, 11]])


def train(**changes: Any) -> tuple[RetrievalNet, list[list[float]], torch.Tensor]:
    """The network after ten steps, the losses and p of each, and the images."""
    net = drawn_retrieval(RetrievalConfig("resnet18", attention={4: 4, 5: 2}))
    settings = RetrievalOptimiser(**{"lr": 1e-4, **changes})
    optimiser = settings.build(parameter_groups(net, settings), net.device)
    loss, schedule = RetrievalLoss(margin=1.25, second_order=10), Schedule(decay=0.01)
    draw = np.random.default_rng(zlib.crc32(b"golden:trajectory"))
    images = torch.from_numpy(draw.standard_normal((STEPS, 14, 3, 64, 64)).astype(np.float32))
    net.train()
    found = []
    for step in range(STEPS):
        schedule.apply(optimiser, step, steps=STEPS, steps_per_epoch=EPOCH)
        optimiser.zero_grad(set_to_none=True)
        terms = objective(net(images[step]), LANDMARKS, loss)
        torch.autograd.backward(terms["loss"])
        optimiser.step()
        found.append([*(terms[name].item() for name in FIGURES.values()), net.pool.p.item()])
    return net.eval(), found, images


def test_ten_steps_end_where_the_published_ones_do(golden: dict[str, np.ndarray]) -> None:
    net, found, images = train()
    published = np.stack([golden[f"trajectory_{name}"] for name in (*FIGURES, "p")], axis=1)
    np.testing.assert_allclose(found, published, rtol=1e-5)
    with torch.inference_mode():
        assert relative_error(net(images[0]), golden["trajectory_y"]) < 2e-4
    for name, weight in (
        ("soa4_v", net.backbone.soa4.output.weight[:8, :, 0, 0]),
        ("soa5_f", net.backbone.soa5.query[0].weight[:8, :, 0, 0]),
        ("whiten", net.whiten.weight[:8]),
    ):
        assert relative_error(weight, golden[f"trajectory_{name}"]) < 2e-4


def test_other_rates_end_elsewhere(golden: dict[str, np.ndarray]) -> None:
    for changes in ({"pooling": 10.0}, {"lr": 2e-4}):
        _, found, _ = train(**changes)
        assert abs(found[-1][-1] - golden["trajectory_p"][-1]) > 1e-3
