"""A new backbone is its class and one line of the table: everything else follows."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from support.whole_maps import whole_maps
from torch import Tensor, nn

from solar import models
from solar.describe.fast_net import FusedNet
from solar.errors import SolarError
from solar.models import RetrievalConfig, RetrievalNet
from solar.nn import BACKBONES, Backbone
from solar.nn.fused import folded
from solar.show.attention_source import AttentionSource
from solar.training.retrieval.frozen_front import TrainableNet
from solar.training.retrieval.parameter_groups import frozen_stages, parameter_groups
from solar.training.retrieval.recipe import NetworkStart, RetrievalCompute, RetrievalOptimiser
from solar.training.retrieval.start import build_network

ATTENTION = {4: 2, 5: 2}


class Plain(Backbone):
    channels = 16
    attention_strides = {4: 2, 5: 4}  # noqa: RUF012 (as anybody would write it)

    def __init__(self, attention: Mapping[int, int] | None = None) -> None:
        super().__init__(attention)
        for name, inputs, outputs, layer in (("low", 3, 8, 4), ("high", 8, 16, 5)):
            conv = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1)
            self.add_stage(name, nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU()))
            self.add_attention(layer, outputs)


class Fusable(Plain):
    fusable = True

    def fuse_stage(
        self, name: str, part: nn.Module, *, on_blocks: bool = False, clamped: bool = False
    ) -> nn.Module:
        if isinstance(part, nn.Sequential):
            return folded(part, relu=True)
        return super().fuse_stage(name, part, clamped=clamped)


@pytest.fixture(params=[Plain, Fusable])
def net(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> RetrievalNet:
    """A network on a backbone that nobody has heard of, with weights that are not the identity."""
    monkeypatch.setitem(BACKBONES, "new", request.param)
    torch.manual_seed(0)
    net = RetrievalNet(RetrievalConfig("new", attention=ATTENTION, size=64, scales=(1.0, 0.5)))
    for name, tensor in net.backbone.state_dict().items():
        if name.endswith(("running_var", "running_mean", "bias", "output.weight")):
            tensor.uniform_(0.1, 0.5)
    return net.eval()


def photos(count: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (count, 40, 56, 3), dtype=torch.uint8, generator=generator)


def test_it_describes_and_comes_back_from_a_file(net: RetrievalNet, tmp_path: Path) -> None:
    rows = net.describe(list(photos().numpy()))
    assert rows.shape == (2, 16)
    again = models.load(models.save(net, tmp_path / "new.safetensors"), device="cpu")
    assert isinstance(again, RetrievalNet)
    assert type(again.backbone) is type(net.backbone)
    np.testing.assert_array_equal(again.describe(list(photos().numpy())), rows)


def test_the_fused_network_gives_its_descriptors(net: RetrievalNet) -> None:
    with torch.inference_mode():
        plain = net.multiscale(net.normalise(photos()))
    fused = FusedNet(net)
    torch.testing.assert_close(fused(photos()), plain, rtol=0, atol=2e-5)
    norms = [m for m in fused.net.modules() if isinstance(m, nn.BatchNorm2d)]
    assert bool(norms) != net.backbone.fusable


@pytest.mark.parametrize("factors", [{}, {"high": 1.0}, {"all": 1.0}])
def test_its_stages_freeze_and_learn(net: RetrievalNet, factors: dict[str, float]) -> None:
    assert [name for name, _ in net.backbone.stages()] == ["low", "soa4", "high", "soa5"]
    settings = RetrievalOptimiser(backbone=factors)
    parameter_groups(net, settings)
    net.train()
    learning = set(factors) - {"all"} or ({"low", "high"} if factors else set())
    assert set(frozen_stages(net)) == {"low", "high"} - learning

    def gradients(compute: RetrievalCompute) -> dict[str, Tensor]:
        net.zero_grad(set_to_none=True)
        TrainableNet(net, compute)([photos()])[:, ::2].sum().backward()
        return {n: p.grad.clone() for n, p in net.named_parameters() if p.grad is not None}

    plain, fused = gradients(RetrievalCompute()), gradients(RetrievalCompute(fused="yes"))
    stages = {name.split(".")[1] for name in plain if name.startswith("backbone.")}
    assert stages == {"soa4", "soa5"} | learning
    assert plain.keys() == fused.keys()
    for name, gradient in plain.items():
        torch.testing.assert_close(fused[name], gradient, rtol=1e-3, atol=1e-6)


def test_a_recipe_can_name_it(net: RetrievalNet) -> None:
    built, origin = build_network(NetworkStart(backbone="new", attention="45"))
    assert type(built.backbone) is type(net.backbone)
    assert built.config.attention == {4: 4, 5: 2}
    assert origin["attention"] == "identity"


@pytest.mark.parametrize("layer", [4, 5])
def test_its_attention_maps_can_be_seen(net: RetrievalNet, layer: int) -> None:
    photo = Image.fromarray(photos(1)[0].numpy())
    source = AttentionSource.of(net, photo, size=photo.height)
    with torch.inference_mode():
        _, maps = whole_maps(net.backbone, net.normalise(photos(1)))
    stride = net.backbone.attention_strides[layer]
    row = 40 // stride // 2 * (56 // stride) + 3
    seen = source.row(3 * stride, 40 // stride // 2 * stride, layer)
    np.testing.assert_allclose(seen.ravel(), maps[layer][0, row], rtol=1e-4, atol=1e-7)


def test_attention_where_there_is_no_place_for_it_is_refused(net: RetrievalNet) -> None:
    with pytest.raises(SolarError, match=r"4, 5 .* 3"):
        RetrievalNet(RetrievalConfig("new", attention={3: 4}))
