from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from solar.demo import toy
from solar.errors import SolarError
from solar.models import RetrievalConfig, RetrievalNet
from solar.models.contributions import locate


@pytest.fixture(scope="module")
def photo() -> Image.Image:
    return toy.landmark(3, 1, size=(150, 100))


def network(**settings: Any) -> RetrievalNet:
    """A network whose attention and whitening change something."""
    torch.manual_seed(0)
    net = RetrievalNet(RetrievalConfig("resnet18", **settings)).eval()
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if "output" in name or (parameter.ndim == 1 and (name[:4] in ("whit", "post", "adap"))):
                nn.init.normal_(parameter, std=0.1)
    return net


@pytest.mark.parametrize("pooling", ["gem", "gemmp", "spoc", "mac", "dame"])
def test_regions_add_up_to_the_descriptor(pooling: str, photo: Image.Image) -> None:
    """Whatever is linear between pooling and descriptor, at one scale and at three."""
    for whitening, post in product((True, False), ((), ("single", "multi"))):
        net = network(
            attention={4: 4, 5: 2},
            pooling=pooling,
            whitening=whitening,
            post_whitening=post,
            adaptation=48 if post else None,
        )
        for scales in ((1.0,), None):
            found = locate(net, photo, scales=scales)
            [described] = net.describe(photo, scales=scales)
            np.testing.assert_allclose(found.descriptor, described, atol=3e-7)
            assert bool(np.abs(found.shift).max() > 0) == (whitening or bool(post))


def test_a_box_other_sizes_and_no_attention(photo: Image.Image) -> None:
    net = network(attention={5: 2}, local_whitening=True)
    box = (20, 10, 130, 91)
    found = locate(net, photo, size=120, box=box)
    [described] = net.describe(photo, size=120, box=box)
    np.testing.assert_allclose(found.descriptor, described, atol=3e-7)
    assert (found.columns[0], found.columns[-1]) == (20, 130)
    assert (found.rows[0], found.rows[-1]) == (10, 91)
    assert found.size == (150, 100)

    plain = network(attention={4: 4, 5: 2})
    for name in ("soa4", "soa5"):
        nn.init.zeros_(plain.backbone.get_submodule(name).output.weight)
        nn.init.zeros_(plain.backbone.get_submodule(name).output.bias)
    [identity] = plain.describe(photo)
    for module in ("soa4", "soa5"):
        nn.init.normal_(plain.backbone.get_submodule(module).output.weight)
    np.testing.assert_allclose(
        locate(plain, photo, attention=False).descriptor, identity, atol=3e-7
    )
    assert np.abs(locate(plain, photo).descriptor - identity).max() > 1e-3


@pytest.mark.parametrize("backbone", ["resnet18", "vgg16", "alexnet"])
def test_regions_lie_where_their_locations_look(backbone: str) -> None:
    """The gradient of a location's features is centred on the middle of its cell."""
    net = RetrievalNet(RetrievalConfig(backbone, whitening=False)).eval().backbone
    # Max pooling looks at one pixel of several; its mean is a convolution like others.
    for name, module in list(net.named_modules()):
        if isinstance(module, nn.MaxPool2d):
            side, stride = int(module.kernel_size), int(module.stride)  # type: ignore[arg-type]
            mean = nn.AvgPool2d(side, stride, int(module.padding))  # type: ignore[arg-type]
            parent, _, child = name.rpartition(".")
            setattr(net.get_submodule(parent), child, mean)
        elif isinstance(module, nn.Conv2d):
            nn.init.constant_(module.weight, 1 / module.weight[0].numel())
    image = torch.rand(1, 3, 416, 416, requires_grad=True)
    features = net(image)
    i, j = 6, 7
    features[0, :, i, j].sum().backward()
    assert image.grad is not None
    weight = image.grad.abs().sum(dim=(0, 1)).double()
    pixels = torch.arange(416) + 0.5
    y = float((weight.sum(dim=1) * pixels).sum() / weight.sum())
    x = float((weight.sum(dim=0) * pixels).sum() / weight.sum())
    assert y == pytest.approx(net.first + net.stride * i, abs=0.5)
    assert x == pytest.approx(net.first + net.stride * j, abs=0.5)


@pytest.mark.parametrize(("pooling", "regional"), [("rmac", False), ("crow", False), ("gem", True)])
def test_other_poolings_are_refused(pooling: str, regional: bool, photo: Image.Image) -> None:
    net = network(pooling=pooling, regional=regional)
    with pytest.raises(SolarError, match="gem, gemmp, spoc and mac"):
        locate(net, photo)
