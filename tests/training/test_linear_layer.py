from dataclasses import replace

import numpy as np
import torch
from support.drawn import relative_error
from support.golden2 import drawn, golden2
from torch import nn

from solar.models import RetrievalConfig, RetrievalNet
from solar.training.linear_layer import (
    AdaptationSettings,
    cosines,
    fit,
    place_loss,
    trained_layer,
)

GOLDEN = golden2("ilias")
PUBLISHED = AdaptationSettings(start="random", pull=0, scale=16)


def published_start() -> tuple[nn.Linear, torch.Tensor]:
    """The layer and the vectors of the classes that the golden numbers start from."""
    weight = drawn(
        "adaptation_layer.layer.weight", GOLDEN["ilias_grad_adaptation_layer.layer.weight"].shape
    )
    layer = nn.Linear(*reversed(weight.shape))
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(drawn("adaptation_layer.layer.bias", weight.shape[:1]))
    return layer, drawn("classifier.weight", GOLDEN["ilias_grad_classifier.weight"].shape)


def test_cosines_loss_and_gradients_are_the_published_ones() -> None:
    layer, classes = published_start()
    count = len(GOLDEN["ilias_adapted"])
    x = torch.from_numpy(GOLDEN["ilias_x"][:count]).requires_grad_()
    labels = torch.from_numpy(GOLDEN["ilias_labels"][:count]).long()
    found = cosines(layer, classes.requires_grad_(), x)
    loss = place_loss(found, labels, PUBLISHED)
    loss.backward()
    for ours, name in (
        (found, "cosines"),
        (loss, "loss"),
        (x.grad, "grad_x"),
        (layer.weight.grad, "grad_adaptation_layer.layer.weight"),
        (layer.bias.grad, "grad_adaptation_layer.layer.bias"),
        (classes.grad, "grad_classifier.weight"),
    ):
        assert relative_error(ours, GOLDEN[f"ilias_{name}"]) < 1e-5, name


def test_training_is_the_published_one() -> None:
    layer, classes = published_start()
    size = len(GOLDEN["ilias_adapted"])
    x = torch.from_numpy(GOLDEN["ilias_x"]).split(size)
    labels = torch.from_numpy(GOLDEN["ilias_labels"]).long().split(size)
    losses = fit(layer, classes, zip(x, labels, strict=True), PUBLISHED)
    for ours, name in (
        (losses, "train_losses"),
        (layer.weight, "trained_layer.weight"),
        (layer.bias, "trained_layer.bias"),
        (classes, "trained_classifier.weight"),
    ):
        assert relative_error(ours, GOLDEN[f"ilias_{name}"]) < 1e-5, name


def test_an_adapted_descriptor_is_the_published_one() -> None:
    layer, _ = published_start()
    net = RetrievalNet(RetrievalConfig("alexnet", dim=layer.in_features))
    x = torch.from_numpy(GOLDEN["ilias_x"][: len(GOLDEN["ilias_adapted"])])
    found = net.with_adaptation(layer).adapted(x)
    assert relative_error(found, GOLDEN["ilias_adapted"]) < 1e-5


def test_a_shorter_descriptor_starts_from_the_main_directions() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((60, 16)) * np.linspace(3, 0.1, 16)
    x = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
    settings = AdaptationSettings(dim=8, epochs=0, shrink=1e6)
    layer = trained_layer(x, np.arange(60) % 12, settings)
    assert layer.weight.shape == (8, 16)
    assert np.linalg.norm(x @ layer.weight.numpy().T, axis=1).mean() > 0.9  # half would be 0.7
    drawn = trained_layer(x, np.arange(60) % 12, replace(settings, start="random"))
    again = trained_layer(x, np.arange(60) % 12, replace(settings, start="random"))
    torch.testing.assert_close(again.weight, drawn.weight, rtol=0, atol=0)


def test_what_differs_within_places_counts_for_less_at_the_start() -> None:
    random = np.random.default_rng(0)
    places = np.repeat(np.arange(50), 40)
    x = random.standard_normal((50, 4))[places]
    x[:, 0] += 3 * random.standard_normal(len(x))
    x[:, 1:] += random.standard_normal((len(x), 3))
    layer = trained_layer(x.astype(np.float32), places, AdaptationSettings(epochs=0, shrink=0))
    weight = layer.weight.numpy() / layer.weight.numpy().max()
    np.testing.assert_allclose(weight, np.diag([1 / 3, 1, 1, 1]), atol=0.05)
