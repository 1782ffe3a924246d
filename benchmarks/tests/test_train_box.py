"""Two networks side by side: what `benchmarks/train_box.py` fits."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.drawn import drawn_retrieval
from torch import nn

from solar.models import RetrievalConfig
from solar.nn import BACKBONES, SecondOrderAttention

ROOT = Path(__file__).parents[2]


@pytest.fixture
def train_box(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import box_layer
    import train_box

    monkeypatch.setattr(box_layer, "STEPS", 5)
    return train_box


def published(net: nn.Module) -> dict[str, torch.Tensor]:
    """A state in the package's names, its norms not yet folded in."""
    chance = torch.Generator().manual_seed(0)
    state = {}
    kernels = [m.weight for m in net.modules() if isinstance(m, nn.Conv2d)]
    names = [("_conv_stem", "_bn0")]
    for number in range(16):
        parts = [("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2")]
        parts = parts if number == 0 else [("_expand_conv", "_bn0"), *parts]
        names += [(f"_blocks.{number}.{c}", f"_blocks.{number}.{b}") for c, b in parts]
    names.append(("_conv_head", "_bn1"))
    for kernel, (conv, norm) in zip(kernels, names, strict=True):
        state[f"{conv}.weight"] = torch.randn(kernel.shape, generator=chance)
        for what in ("weight", "bias", "running_mean", "running_var"):
            state[f"{norm}.{what}"] = torch.rand(len(kernel), generator=chance) + 0.5
    return state


def test_norms_and_the_scale_of_pixels_are_folded_in(train_box: Any, tmp_path: Path) -> None:
    net = train_box.EfficientNetLite()
    state = published(net)
    torch.save(state, tmp_path / "lite0.pth")
    train_box.fill(net, tmp_path / "lite0.pth")
    pixels = torch.randint(256, (1, 3, 32, 32)).float()
    mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    own = net.get_submodule("stem")((pixels / 255 - mean) / std)
    plain = F.conv2d((pixels - 127) / 128, state["_conv_stem.weight"], stride=2, padding=1)
    norm = [state[f"_bn0.{what}"] for what in ("running_mean", "running_var", "weight", "bias")]
    wanted = F.relu6(F.batch_norm(plain, *norm, eps=1e-3))
    # Beyond the edge a zero means another colour, so the first row and column differ.
    torch.testing.assert_close(own[..., 1:, 1:], wanted[..., 1:, 1:], rtol=1e-3, atol=1e-3)


def test_embeddings_lie_side_by_side_in_one_matrix(train_box: Any) -> None:
    first = drawn_retrieval(RetrievalConfig("resnet18", whitening=True)).requires_grad_(False)
    rows = F.normalize(torch.rand(300, 512 + 40))
    layer = train_box.side_by_side(first, rows, train_box.Try(other=2))
    both = layer(rows)
    assert first.whiten is not None
    length = rows[:, :512].norm(dim=1).mean()
    embedding = first.whiten(rows[:, :512] / length)
    assert F.cosine_similarity(both[:, :512], embedding).min() > 0.9999
    centred = rows[:, 512:] - rows[:, 512:].mean(0)
    assert F.cosine_similarity(both[:, 512:], centred).min() > 0.9999
    lengths = [part.norm(dim=1).mean().item() for part in (both[:, :512], both[:, 512:])]
    assert lengths == pytest.approx([1, 2], rel=0.05)
    less = train_box.rotated(layer, rows, 512, 552, 16)
    assert torch.allclose(less(rows)[:, :512], both[:, :512], atol=1e-5)
    assert less(rows).shape == (300, 528)
    alike, before = (x[:, 512:] @ x[:, 512:].T for x in (less(rows), both))
    assert 0.4 < alike.diagonal().sum() / before.diagonal().sum() < 1


def test_all_of_it_is_one_matrix_which_a_seed_decides(train_box: Any) -> None:
    first = drawn_retrieval(RetrievalConfig("resnet18", whitening=True, dim=16))
    first.requires_grad_(False)
    rows = F.normalize(torch.rand(80, 512 + 40))
    places = [f"train/{n // 5}" for n in range(30)] + [f"seq/{n // 5}" for n in range(30)]
    places += [""] * 20
    wanted = train_box.Try(apart=(8, 12), dim=10, seeds=2)
    found = [list(train_box.layers(first, rows, places, wanted)) for _ in range(2)]
    assert found[0][0](rows).shape == (80, 10)
    assert torch.equal(found[0][0].weight, found[1][0].weight)
    assert not torch.equal(found[0][0].weight, found[0][1].weight)
    (alone,) = train_box.layers(first, rows, places, train_box.Try(other=0))
    assert not alone(rows)[:, 16:].any()


@pytest.mark.parametrize("side", [64, 97, 160])
def test_maps_are_as_large_as_those_of_a_resnet(train_box: Any, side: int) -> None:
    images = torch.rand(2, 3, side, side + 32)
    lite, resnet = (BACKBONES[name]({}).eval() for name in ("lite0", "resnet18"))
    with torch.inference_mode():
        assert lite(images).shape[2:] == resnet(images).shape[2:]
        assert lite(images).shape[:2] == (2, 1280)


def test_attention_goes_after_three_strides(train_box: Any) -> None:
    net = train_box.EfficientNetLite({3: 4, 4: 4, 5: 8})
    names = [name for name, _ in net.stages()]
    assert names == ["stem", "layer1", "layer2", "soa3", "layer3", "soa4", "layer4", "soa5"]
    assert sum(p.numel() for p in train_box.EfficientNetLite().parameters()) == 3_350_000
    blocks = [part for name, part in net.stages() if name.startswith("soa")]
    assert [type(part) for part in blocks] == [SecondOrderAttention] * 3


def test_side_by_side_are_both_maps(train_box: Any) -> None:
    net = drawn_retrieval(RetrievalConfig("resnet18+lite0", {4: 4, 5: 2}, dim=8)).eval()
    both = net.backbone
    assert isinstance(both, train_box.ResNetBesideLite)
    alone = BACKBONES["resnet18"]({4: 4, 5: 2}).eval()
    alone.load_state_dict(
        {k: v for k, v in both.state_dict().items() if not k.startswith("beside.")}
    )
    images = torch.rand(1, 3, 96, 130)
    with torch.inference_mode():
        maps = both(images)
        assert torch.equal(maps[:, :512], alone(images))
        assert torch.equal(maps[:, 512:], both.beside(images))
