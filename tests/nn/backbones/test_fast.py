"""Backbones of `transformers` describe in a fast network as they do plainly."""

import pytest
import torch
from support.tiny_transformers import SETTINGS, drawn, settings

from solar.describe.fast_net import FusedNet
from solar.models import RetrievalConfig, RetrievalNet


def network(name: str) -> RetrievalNet:
    config = RetrievalConfig(name, backbone_settings=settings(name))
    net = RetrievalNet(config).eval()
    drawn(net.backbone)
    return net


def photos(*shape: int) -> torch.Tensor:
    return torch.randint(
        0, 256, (*shape, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )


@pytest.mark.parametrize("name", SETTINGS)
def test_a_fast_network_gives_the_same_embeddings(name: str) -> None:
    net, pixels = network(name), photos(2, 75, 99)
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


# In bfloat16, the cosines that Swin V2 attends by leave 0.999 with weights drawn at random.
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "swinv2"])
def test_a_gpu_stays_within_its_precision_eager_and_replayed(name: str) -> None:
    net, pixels = network(name).cuda(), photos(2, 97, 131)
    with torch.inference_mode():
        plain = net.multiscale(net.normalise(pixels.cuda()))
    fast = FusedNet(net)
    assert fast.dtype == torch.bfloat16
    for _ in range(5):  # twice plainly, then recorded and replayed
        cosine = torch.nn.functional.cosine_similarity(fast(pixels), plain)
        assert cosine.min() > 0.999, cosine
