import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.whole_maps import whole_maps

from solar.nn import L2Net
from solar.nn.backbones.convolutional import VGG16, AlexNet, ResNet


def parameters(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    ("depth", "count"),
    [(18, 11_176_512), (34, 21_284_672), (50, 23_508_032), (101, 42_500_160), (152, 58_143_808)],
)
def test_resnets_have_the_parameters_of_torchvisions_without_the_classifier(
    depth: int, count: int
) -> None:
    with torch.device("meta"):
        assert parameters(ResNet(depth)) == count


def test_resnet_names_are_torchvisions() -> None:
    with torch.device("meta"):
        names = set(ResNet(50).state_dict())
    assert {"conv1.weight", "bn1.running_mean", "layer1.0.downsample.0.weight"} <= names
    assert {"layer3.5.conv3.weight", "layer4.2.bn3.num_batches_tracked"} <= names
    assert {name.split(".")[0] for name in names} == {
        "conv1",
        "bn1",
        *(f"layer{i}" for i in range(1, 5)),
    }


def test_plain_backbones_have_torchvisions_parameters_and_names() -> None:
    with torch.device("meta"):
        vgg, alex = VGG16(), AlexNet()
    assert parameters(vgg) == 14_714_688
    assert parameters(alex) == 2_469_696
    assert "features.28.weight" in vgg.state_dict()
    assert "features.10.bias" in alex.state_dict()


@settings(max_examples=8, deadline=None)
@given(h=st.integers(33, 150), w=st.integers(33, 150))
def test_a_resnet_takes_any_size_from_33_pixels(h: int, w: int) -> None:
    net = ResNet(18, {3: 4, 4: 4, 5: 2}).eval()
    with torch.inference_mode():
        assert net(torch.rand(1, 3, h, w)).shape == (1, 512, -(-h // 32), -(-w // 32))


@pytest.mark.parametrize("layers", [(), (3,), (4,), (5,), (3, 4), (3, 5), (4, 5), (3, 4, 5)])
def test_attention_sits_where_it_was_asked_for(layers: tuple[int, ...]) -> None:
    net = ResNet(18, dict.fromkeys(layers, 4)).eval()
    with torch.inference_mode():
        features, maps = whole_maps(net, torch.rand(1, 3, 64, 96), picture_scale=False)
    locations = {3: 8 * 12, 4: 4 * 6, 5: 2 * 3}
    assert {layer: z.shape[1] for layer, z in maps.items()} == {k: locations[k] for k in layers}
    assert features.shape == (1, 512, 2, 3)


def test_the_patch_network_has_the_published_number_of_parameters() -> None:
    assert parameters(L2Net()) == 1_334_560
    assert parameters(L2Net({3: 4, 4: 4, 5: 2})) - parameters(L2Net()) == 41_888


@pytest.mark.parametrize("place", ["before", "after"])
def test_dropout_sits_where_it_was_asked_for(place: str) -> None:
    net = L2Net(dropout=0.9, dropout_place=place).train()  # type: ignore[arg-type]
    torch.manual_seed(0)
    # Behind the last convolution a dropped value stays zero, but for the tiny offset.
    zeros = (net(torch.rand(16, 1, 32, 32)).abs() < 1e-6).float().mean()
    assert (zeros > 0.5) == (place == "after")
