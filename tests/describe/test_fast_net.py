import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import drawn_state

from solar.describe.fast_net import FusedNet
from solar.errors import SolarError
from solar.models import RetrievalConfig, RetrievalNet
from solar.models.published import from_state
from solar.nn.fused import FusedStem, attend, to_blocks


def drawn_network(backbone: str = "resnet18", **settings: object) -> RetrievalNet:
    settings = {"attention": {4: 4, 5: 2}, **settings}
    blank = RetrievalNet(RetrievalConfig(backbone, **settings))  # type: ignore[arg-type]
    net = from_state("drawn", drawn_state(blank, "solar"), {"pooling": blank.config.pooling})
    assert isinstance(net, RetrievalNet)
    return net.eval()


def photos(*shape: int) -> torch.Tensor:
    return torch.randint(
        0, 256, (*shape, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )


@pytest.mark.parametrize("backbone", ["resnet18", "resnet50"])
@pytest.mark.parametrize("attention", [{}, {4: 4, 5: 2}, {3: 4, 4: 4}])
def test_the_fast_network_gives_the_same_descriptors(backbone: str, attention: dict) -> None:
    net, pixels = drawn_network(backbone, attention=attention), photos(2, 75, 99)
    with torch.inference_mode():
        plain = net.multiscale(net.normalise(pixels))
    torch.testing.assert_close(FusedNet(net)(pixels), plain, rtol=0, atol=2e-5)


def test_a_device_without_room_for_a_batch_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(pixels: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    fast = FusedNet(drawn_network())
    monkeypatch.setattr(fast, "_describe", full)
    with pytest.raises(SolarError, match=r"2 photos of 99×75 .*batch.* size"):
        fast(photos(2, 75, 99))


@pytest.mark.parametrize("pooling", ["mac", "spoc"])
def test_negative_values_after_the_last_attention_survive_where_pooling_sees_them(
    pooling: str,
) -> None:
    net, pixels = drawn_network(pooling=pooling), photos(1, 64, 64)
    with torch.inference_mode():
        plain = net.multiscale(net.normalise(pixels))
    torch.testing.assert_close(FusedNet(net)(pixels), plain, rtol=0, atol=2e-5)


def test_plain_backbones_other_scales_and_adapted_networks_work_too() -> None:
    config = RetrievalConfig("alexnet", adaptation=24)
    net, pixels = RetrievalNet(config).eval(), photos(1, 80, 96)
    with torch.inference_mode():
        plain = net.multiscale(net.normalise(pixels), (1, 0.5))
    torch.testing.assert_close(FusedNet(net, scales=(1, 0.5))(pixels), plain, rtol=0, atol=2e-5)


@settings(max_examples=20, deadline=None)
@given(h=st.integers(33, 90), w=st.integers(33, 90))
def test_the_first_convolution_on_blocks_of_pixels_is_the_same(h: int, w: int) -> None:
    backbone = drawn_network().backbone
    images = torch.randn(1, 3, h, w, generator=torch.Generator().manual_seed(h))
    with torch.inference_mode():
        plain = backbone.maxpool(backbone.relu(backbone.bn1(backbone.conv1(images))))
        blocks = FusedStem(backbone.conv1, backbone.bn1, on_blocks=True)(to_blocks(images))
    torch.testing.assert_close(blocks, plain, rtol=1e-4, atol=1e-4)


def test_the_network_it_was_made_from_is_left_alone() -> None:
    net = drawn_network().train()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    FusedNet(net)(photos(1, 64, 64))
    assert net.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())


@pytest.mark.parametrize("backbone", ["resnet18", "alexnet"])
def test_no_tensor_is_shared_with_the_network_it_was_made_from(backbone: str) -> None:
    net = RetrievalNet(RetrievalConfig(backbone))
    theirs = {tensor.data_ptr() for tensor in (*net.parameters(), *net.buffers())}
    fast = FusedNet(net).net
    assert theirs.isdisjoint(t.data_ptr() for t in (*fast.parameters(), *fast.buffers()))


def test_a_fused_backbone_has_no_batch_norm_left() -> None:
    fused = drawn_network().backbone.fuse()
    assert not any(isinstance(module, torch.nn.BatchNorm2d) for module in fused.modules())


def test_a_cpu_is_never_given_less_than_float32_unasked() -> None:
    fast = FusedNet(drawn_network(), device="cpu")
    assert {p.dtype for p in fast.net.parameters()} == {torch.float32}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_stays_within_its_precision_eager_and_replayed() -> None:
    net, pixels = drawn_network("resnet50").cuda(), photos(2, 97, 131)
    with torch.inference_mode():
        plain = net.multiscale(net.normalise(pixels.cuda()))
    fast = FusedNet(net)
    for _ in range(5):  # twice plainly, then recorded and replayed
        cosine = torch.nn.functional.cosine_similarity(fast(pixels), plain)
        assert cosine.min() > 0.999, cosine
    other = photos(2, 97, 131).flip(1) // 2
    with torch.inference_mode():
        plain = net.multiscale(net.normalise(other.cuda()))
    assert torch.nn.functional.cosine_similarity(fast(other), plain).min() > 0.999


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    ("backbone", "dtype"), [("resnet18", torch.float32), ("vgg16", None), ("alexnet", None)]
)
def test_a_gpu_runs_float32_and_plain_backbones_too(
    backbone: str, dtype: torch.dtype | None
) -> None:
    net, pixels = RetrievalNet(RetrievalConfig(backbone)).eval().cuda(), photos(1, 80, 96)
    with torch.inference_mode():
        plain = net.multiscale(net.normalise(pixels.cuda()))
    cosine = torch.nn.functional.cosine_similarity(FusedNet(net, dtype=dtype)(pixels), plain)
    assert cosine.min() > 0.9999


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("scale", [1.0, 2**0.5, 0.5**0.5])
@pytest.mark.parametrize(("h", "w"), [(48, 64), (75, 99), (33, 130)])
def test_the_block_kernel_equals_resizing_and_normalising(scale: float, h: int, w: int) -> None:
    from solar.nn import kernels

    net, pixels = RetrievalNet(RetrievalConfig("resnet18")).cuda(), photos(2, h, w).cuda()
    images = net.normalise(pixels)
    if scale != 1:
        images = torch.nn.functional.interpolate(images, scale_factor=scale, mode="bilinear")
    ours = kernels.to_blocks(pixels, scale, net.mean, net.std)
    torch.testing.assert_close(ours.float(), to_blocks(images), rtol=1e-2, atol=1e-2)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("h", "w"), [(16, 16), (17, 35), (1, 40)])
def test_the_pooling_kernel_equals_torchs(h: int, w: int) -> None:
    from solar.nn import kernels

    x = torch.rand(2, 64, h, w, device="cuda", dtype=torch.bfloat16)
    x = x.to(memory_format=torch.channels_last)
    torch.testing.assert_close(kernels.max_pool(x), torch.nn.functional.max_pool2d(x, 3, 2, 1))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("n", "mid"), [(37, 64), (37, 1024), (64, 1024)])
def test_attention_on_a_gpu_is_the_same_with_every_kernel(n: int, mid: int) -> None:
    q, k, v = (torch.randn(2, n, mid, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    exact = torch.softmax(q.float() @ k.float().mT / mid**0.5, dim=-1) @ v.float()
    torch.testing.assert_close(attend(q, k, v).float(), exact, rtol=0.05, atol=0.05)
