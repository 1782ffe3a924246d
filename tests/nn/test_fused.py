"""Layers of `transformers`' backbones that were fused to describe photos compute the same."""

import copy

import pytest
import torch
from support.tiny_transformers import SETTINGS, drawn, settings

from solar.describe.fast_net import FusedNet
from solar.models import RetrievalConfig, RetrievalNet
from solar.nn.backbones.transformers import TransformersBackbone
from solar.nn.fused import (
    FlatLinear,
    FusedConvNeXt,
    JointAttention,
    PatchAngles,
    PatchConv,
)

# What is fused of each, besides linear layers with a GELU.
FUSED = {
    "dinov2": JointAttention,
    "dinov2_with_registers": JointAttention,
    "dinov3_vit": PatchAngles,
    "convnext": FusedConvNeXt,
    "convnextv2": FusedConvNeXt,
    "dinov3_convnext": FusedConvNeXt,
    "hiera": FlatLinear,
    "swin": FlatLinear,
}


def network(name: str, **more: object) -> RetrievalNet:
    config = RetrievalConfig(name, backbone_settings={**settings(name), **more})
    net = RetrievalNet(config).eval()
    drawn(net.backbone)
    return net


def photos(*shape: int) -> torch.Tensor:
    return torch.randint(
        0, 256, (*shape, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )


@pytest.mark.parametrize("name", SETTINGS)
def test_a_streamlined_backbone_gives_the_same_map(name: str) -> None:
    plain = TransformersBackbone(settings(name)).eval()
    drawn(plain)
    fast = copy.deepcopy(plain)
    fast.streamline()
    batch = torch.randn(2, 3, 112, 160, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        torch.testing.assert_close(fast(batch), plain(batch), rtol=0, atol=1e-5)
    kinds = {type(module) for module in fast.modules()}
    assert FUSED.get(name) in {*kinds, None}
    assert (PatchConv in kinds) == (name not in ("hiera", "pvt_v2", "resnet"))
    assert not any("LayerScale" in kind.__name__ for kind in kinds)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("dinov2", {"use_swiglu_ffn": True}),
        ("dinov2", {"hidden_act": "gelu_new", "qkv_bias": False}),
        ("dinov3_vit", {"use_gated_mlp": True, "hidden_act": "silu"}),
        ("dinov3_vit", {"mlp_bias": False}),
        ("convnext", {"layer_scale_init_value": 0.0}),
        ("convnextv2", {"hidden_act": "relu"}),
    ],
)
def test_other_kinds_of_layers_are_told_apart(name: str, more: dict[str, object]) -> None:
    net, pixels = network(name, **more), photos(2, 75, 99)
    with torch.inference_mode():
        plain = net.multiscale(net.normalise(pixels))
    torch.testing.assert_close(FusedNet(net)(pixels), plain, rtol=0, atol=1e-5)


def test_the_network_it_was_made_from_is_left_alone() -> None:
    net = network("dinov2")
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    FusedNet(net)(photos(1, 70, 70))
    after = net.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(tensor, before[name]) for name, tensor in after.items())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", FUSED)
def test_a_gpu_stays_within_its_precision_eager_and_replayed(name: str) -> None:
    net, pixels = network(name).cuda(), photos(2, 97, 131)
    with torch.inference_mode():
        plain = net.multiscale(net.normalise(pixels.cuda()))
    fast = FusedNet(net)
    assert fast.dtype == torch.bfloat16
    for _ in range(5):  # twice plainly, then recorded and replayed
        cosine = torch.nn.functional.cosine_similarity(fast(pixels), plain)
        assert cosine.min() > 0.999, cosine
