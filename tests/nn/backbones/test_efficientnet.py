import pytest
import torch
from support.whole_maps import whole_maps

from solar.nn import BACKBONES, SecondOrderAttention
from solar.nn.backbones.efficientnet import EfficientNetLite, InvertedBlock


@pytest.mark.parametrize(("number", "count"), [(0, 4_652_008), (1, 5_416_680), (2, 6_092_072)])
def test_it_has_the_parameters_of_the_published_network_without_its_classifier(
    number: int, count: int
) -> None:
    with torch.device("meta"):
        net = BACKBONES[f"efficientnet-lite{number}"]({})
    classifier = 1280 * 1000 + 1000
    assert sum(parameter.numel() for parameter in net.parameters()) == count - classifier


@pytest.mark.parametrize("side", [33, 64, 75, 97])
def test_maps_are_as_large_as_those_of_a_resnet(side: int) -> None:
    photo = torch.rand(1, 3, side, 64)
    with torch.inference_mode():
        own = EfficientNetLite(0).eval()(photo)
        resnet = BACKBONES["resnet18"]({}).eval()(photo)
    assert own.shape[1] == 1280
    assert own.shape[2:] == resnet.shape[2:]


def test_attention_goes_after_three_strides_and_begins_as_the_identity() -> None:
    torch.manual_seed(0)
    net = EfficientNetLite(0, {3: 4, 4: 4, 5: 2}).eval()
    found = [module for module in net.modules() if isinstance(module, SecondOrderAttention)]
    assert [module.channels for module in found] == [40, 112, 320]
    plain = EfficientNetLite(0).eval()
    plain.load_state_dict({k: v for k, v in net.state_dict().items() if not k.startswith("soa")})
    photo = torch.rand(1, 3, 64, 96)
    with torch.inference_mode():
        features, maps = whole_maps(net, photo, picture_scale=False)
        torch.testing.assert_close(features, plain(photo))
    assert {layer: one.shape[-1] for layer, one in maps.items()} == {3: 8 * 12, 4: 4 * 6, 5: 2 * 3}


def test_a_block_keeps_what_came_in_where_shapes_agree() -> None:
    block = InvertedBlock(8, 8, kernel=3, stride=1, expansion=6).eval()
    torch.nn.init.zeros_(block.project[0].weight)
    x = torch.randn(1, 8, 5, 7)
    with torch.inference_mode():
        torch.testing.assert_close(block(x), x)
        assert InvertedBlock(8, 8, 5, 2, 6).eval()(x).shape == (1, 8, 3, 4)
        assert InvertedBlock(8, 12, 3, 1, 1).eval()(x).shape == (1, 12, 5, 7)
