import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from support.drawn import drawn_checkpoint, drawn_state, relative_error
from support.whole_maps import whole_maps

from solar.errors import SolarError
from solar.images import load
from solar.models import REDUCTIONS, RetrievalConfig, RetrievalNet, attention_at
from solar.models.published import from_state
from solar.nn import SecondOrderAttention


def drawn_network(backbone: str, layers: str) -> RetrievalNet:
    """A network whose weights went through the published layout and back."""
    config = RetrievalConfig(backbone, attention=attention_at(layers, REDUCTIONS))
    checkpoint = drawn_checkpoint(RetrievalNet(config))
    net = from_state("drawn", checkpoint["state_dict"], checkpoint["meta"])
    assert isinstance(net, RetrievalNet)
    return net.eval()


@pytest.fixture(scope="module")
def resnet18() -> RetrievalNet:
    return drawn_network("resnet18", "45")


@pytest.mark.parametrize(
    ("backbone", "layers"), [("resnet18", "45"), ("resnet50", "5"), ("resnet101", "45")]
)
def test_whole_networks_equal_the_published_ones(
    golden: dict[str, np.ndarray], backbone: str, layers: str
) -> None:
    net, image = drawn_network(backbone, layers), torch.from_numpy(golden["net_image"])
    with torch.inference_mode():
        single, multi = net(image), net.multiscale(image)
    assert relative_error(single, golden[f"{backbone}_soa{layers}_single"]) < 2e-4
    assert relative_error(multi, golden[f"{backbone}_soa{layers}_multi"]) < 2e-4


@pytest.mark.parametrize(
    ("backbone", "layers"), [("resnet18", "45"), ("resnet50", "5"), ("resnet101", "45")]
)
def test_published_files_have_as_many_tensors(
    golden_values: dict[str, int], backbone: str, layers: str
) -> None:
    config = RetrievalConfig(backbone, attention=attention_at(layers, REDUCTIONS))
    with torch.device("meta"):
        net = RetrievalNet(config)
    assert len(net.state_dict()) == golden_values[f"{backbone}_keys"]


@pytest.mark.parametrize("layer", [4, 5])
def test_attention_of_pictures_equals_the_published_one(
    golden: dict[str, np.ndarray], resnet18: RetrievalNet, layer: int
) -> None:
    with torch.inference_mode():
        _, maps = whole_maps(resnet18.backbone, torch.from_numpy(golden["net_image"]))
    assert relative_error(maps[layer][0, 0], golden[f"resnet18_attention{layer}_drawn_row0"]) < 2e-4


@pytest.mark.parametrize("layer", [4, 5])
def test_a_row_alone_equals_the_published_one(
    golden: dict[str, np.ndarray], resnet18: RetrievalNet, layer: int
) -> None:
    rows = {}

    def keep(number: int, block: SecondOrderAttention, x: torch.Tensor) -> torch.Tensor:
        out, factors = block.forward_with_factors(x, picture_scale=True)
        rows[number] = torch.softmax(factors.queries[0, 0] @ factors.keys[0].T, dim=-1)
        return out

    with torch.inference_mode():
        resnet18.backbone.run(torch.from_numpy(golden["net_image"]), keep)
    assert relative_error(rows[layer], golden[f"resnet18_attention{layer}_drawn_row0"]) < 2e-4


@pytest.mark.parametrize("boxed", [False, True])
def test_a_file_becomes_the_published_input(
    golden: dict[str, np.ndarray],
    golden_values: dict[str, list[float]],
    golden_image: str,
    resnet18: RetrievalNet,
    boxed: bool,
) -> None:
    name = "file_box" if boxed else "file"
    box = tuple(golden_values["box"]) if boxed else None
    photo = load(golden_image, golden_values["file_image_size"], box=box)
    x = resnet18.normalise(torch.from_numpy(photo.pixels)[None])
    assert list(x.shape) == golden[f"{name}_input_shape"].tolist()
    assert float(x.double().mean()) == pytest.approx(float(golden[f"{name}_input_mean"]), abs=1e-6)


@pytest.mark.parametrize("boxed", [False, True])
def test_a_described_file_equals_the_published_descriptor(
    golden: dict[str, np.ndarray],
    golden_values: dict[str, list[float]],
    golden_image: str,
    resnet18: RetrievalNet,
    boxed: bool,
) -> None:
    box = tuple(golden_values["box"]) if boxed else None
    vectors = resnet18.describe(golden_image, size=golden_values["file_image_size"], box=box)
    theirs = golden["resnet18_file_box_multi" if boxed else "resnet18_file_multi"]
    assert relative_error(vectors, theirs) < 2e-4
    assert vectors.dtype == np.float32


def test_training_leaves_every_batch_norm_as_it_was() -> None:
    net = RetrievalNet(RetrievalConfig("resnet18", attention={4: 4})).train()
    before = {n: b.clone() for n, b in net.named_buffers()}
    net(torch.rand(2, 3, 64, 64))
    assert all(torch.equal(b, before[n]) for n, b in net.named_buffers())
    assert net.training


def test_batch_norms_train_when_they_are_not_frozen() -> None:
    net = RetrievalNet(RetrievalConfig("resnet18"), freeze_batch_norm=False).train()
    before = net.backbone.bn1.running_mean.clone()
    net(torch.rand(2, 3, 64, 64))
    assert not torch.equal(net.backbone.bn1.running_mean, before)


def test_attention_starts_exactly_at_the_plain_network() -> None:
    plain = RetrievalNet(RetrievalConfig("resnet18")).eval()
    second_order = RetrievalNet(RetrievalConfig("resnet18", attention={4: 4, 5: 2})).eval()
    second_order.load_state_dict(plain.state_dict(), strict=False)
    x = torch.rand(1, 3, 64, 80)
    assert torch.equal(plain(x), second_order(x))


@settings(max_examples=10, deadline=None)
@given(h=st.integers(33, 140), w=st.integers(33, 140))
def test_any_photo_from_33_pixels_gets_a_unit_descriptor(
    resnet18: RetrievalNet, h: int, w: int
) -> None:
    pixels = np.random.default_rng(h * w).integers(0, 256, (h, w, 3), np.uint8)
    vector = resnet18.describe(pixels)
    assert vector.shape == (1, 512)
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


def test_scales_are_averaged_plainly_with_whitening(resnet18: RetrievalNet) -> None:
    x = torch.rand(1, 3, 64, 96)
    with torch.inference_mode():
        half = torch.nn.functional.interpolate(x, scale_factor=0.5, mode="bilinear")
        mean = (resnet18(x) + resnet18(half)) / 2
        torch.testing.assert_close(resnet18.multiscale(x, (1, 0.5)), mean / mean.norm())


def test_scales_are_averaged_with_the_gem_exponent_without_whitening() -> None:
    net = RetrievalNet(RetrievalConfig("resnet18", whitening=False)).eval()
    x = torch.rand(1, 3, 64, 96)
    with torch.inference_mode():
        half = torch.nn.functional.interpolate(x, scale_factor=0.5, mode="bilinear")
        mean = ((net(x) ** 3 + net(half) ** 3) / 2) ** (1 / 3)
        torch.testing.assert_close(net.multiscale(x, (1, 0.5)), mean / mean.norm())


def test_an_adaptation_layer_follows_the_average_over_scales(resnet18: RetrievalNet) -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(512, 24)
    net, x = resnet18.with_adaptation(layer), torch.rand(2, 3, 64, 96)
    with torch.inference_mode():
        for found, plain in (
            (net(x), resnet18(x)),
            (net.multiscale(x), resnet18.multiscale(x)),
        ):
            wanted = layer(plain)
            torch.testing.assert_close(found, wanted / wanted.norm(dim=1, keepdim=True))
    assert net.describe(PIXELS).shape == (1, net.dim) == (1, 24)
    assert resnet18.adapt is None
    assert net.backbone.conv1.weight is resnet18.backbone.conv1.weight
    plain = net.with_adaptation(None)
    assert plain.config == resnet18.config
    assert plain.config.to_dict()["adaptation"] is None
    shorter = RetrievalNet(RetrievalConfig("resnet18", dim=64)).eval()
    assert shorter.dim == 64
    assert shorter.with_adaptation(torch.nn.Linear(64, 24)).dim == 24


@pytest.mark.parametrize("backbone", ["vgg16", "alexnet"])
@pytest.mark.parametrize("pooling", ["mac", "spoc", "crow", "rmac", "gemmp"])
def test_the_older_rows_of_the_paper_run(backbone: str, pooling: str) -> None:
    net = RetrievalNet(RetrievalConfig(backbone, pooling=pooling, whitening=False)).eval()
    vectors = net(torch.rand(1, 3, 96, 64))
    assert vectors.norm(dim=1).item() == pytest.approx(1, abs=1e-4)


def test_regional_and_local_whitening_networks_run_and_round_trip() -> None:
    config = RetrievalConfig("resnet18", regional=True, local_whitening=True)
    net = RetrievalNet(config)
    state = drawn_state(net, "gem")
    assert {"pool.rpool.p", "pool.whiten.weight", "lwhiten.bias", "whiten.weight"} <= set(state)
    meta = {"architecture": "resnet18", "regional": True, "local_whitening": True}
    again = from_state("drawn", state, meta).eval()
    assert again.config.regional
    assert again(torch.rand(1, 3, 64, 96)).norm().item() == pytest.approx(1, abs=1e-5)


def test_several_photos_may_be_any_mixture_of_kinds(
    resnet18: RetrievalNet, golden_image: str
) -> None:
    pixels = load(golden_image, None).pixels
    vectors = resnet18.describe([golden_image, str(golden_image), pixels], size=96, scales=[1])
    np.testing.assert_allclose(vectors[0], vectors[2], atol=1e-6)
    np.testing.assert_allclose(vectors[0], vectors[1], atol=0)


def test_describing_leaves_the_training_mode_as_it_was(resnet18: RetrievalNet) -> None:
    net = RetrievalNet(RetrievalConfig("resnet18")).train()
    net.describe(np.zeros((40, 40, 3), np.uint8), scales=[1])
    assert net.training


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"backbone": "resnet19"}, "There is no backbone 'resnet19'"),
        ({"pooling": "sum"}, "There is no pooling 'sum'"),
        ({"whitening": False, "dim": 64}, "Only a whitening layer"),
        ({"backbone": "vgg16", "attention": {4: 4}}, "VGG16 has no place for attention"),
        ({"attention": {2: 4}}, "not 2"),
    ],
)
def test_settings_that_make_no_network_are_refused(settings: dict, sentence: str) -> None:
    with pytest.raises(SolarError, match=sentence):
        RetrievalNet(RetrievalConfig(**{"backbone": "resnet18", **settings}))


def test_settings_survive_json() -> None:
    config = RetrievalConfig("resnet50", attention={5: 2}, dim=256, scales=(1.0,), size=512)
    for one in (config, replace(config, adaptation=128)):
        assert RetrievalConfig.from_dict(one.to_dict()) == one


PIXELS = np.random.default_rng(3).integers(0, 256, (48, 64, 3), np.uint8)


def test_a_photo_in_memory_is_one_photo_whatever_it_is_given_as(resnet18: RetrievalNet) -> None:
    tensor = torch.from_numpy(PIXELS).movedim(-1, 0)
    stream = io.BytesIO()
    Image.fromarray(PIXELS).save(stream, "PNG")
    stream.seek(0)
    expected = resnet18.describe(PIXELS, scales=[1])
    for photo in (tensor, tensor / 255, stream, Image.fromarray(PIXELS)):
        assert np.array_equal(resnet18.describe(photo, scales=[1]), expected)
    for photos in (tensor[None].repeat(2, 1, 1, 1), PIXELS[None].repeat(2, 0), [tensor, PIXELS]):
        assert np.array_equal(resnet18.describe(photos, scales=[1]), expected.repeat(2, 0))


@pytest.mark.parametrize("size", [(1, 1), (33, 1), (5000, 2), (3000, 5), (7, 7)])
def test_a_photo_too_small_to_see_gets_a_sentence(
    resnet18: RetrievalNet, size: tuple[int, int], tmp_path: Path
) -> None:
    path = tmp_path / "a.png"
    Image.new("RGB", size).save(path)
    with pytest.raises(SolarError, match=r"a\.png .*\d+ × \d+"):
        resnet18.describe(path)


def test_what_is_left_of_a_photo_must_suffice_at_every_scale(resnet18: RetrievalNet) -> None:
    photo = Image.new("RGB", (64, 8), "red")
    assert np.isfinite(resnet18.describe(photo)).all()
    with pytest.raises(SolarError, match="64 × 8 pixels"):
        resnet18.describe(photo, scales=[1, 0.1])
    with pytest.raises(SolarError, match="4 × 4 pixels"):
        resnet18.describe(photo, box=(0, 0, 4, 4))


@pytest.mark.parametrize(("backbone", "side"), [("vgg16", 16), ("alexnet", 31)])
def test_backbones_without_padding_need_more(backbone: str, side: int) -> None:
    net = RetrievalNet(RetrievalConfig(backbone)).eval()
    assert np.isfinite(net.describe(Image.new("RGB", (64, side), "red"), scales=[1])).all()
    with pytest.raises(SolarError, match=r"\d+ × \d+"):
        net.describe(Image.new("RGB", (64, side - 1), "red"), scales=[1])


@pytest.mark.parametrize("nothing", [7, None, [None]])
def test_what_cannot_be_a_photo_gets_a_sentence(resnet18: RetrievalNet, nothing: Any) -> None:
    with pytest.raises(SolarError, match=r"path, bytes"):
        resnet18.describe(nothing)


def test_a_photo_larger_than_allowed_is_refused(resnet18: RetrievalNet) -> None:
    resnet18.describe(PIXELS, scales=[1], max_pixels=48 * 64)
    with pytest.raises(SolarError, match="limit of 3,071"):
        resnet18.describe(PIXELS, max_pixels=48 * 64 - 1)


def test_transforms_give_what_the_network_takes(resnet18: RetrievalNet, golden_image: str) -> None:
    x = resnet18.transforms(golden_image, size=96, box=(10, 10, 150, 120))
    assert x.dtype == torch.float32
    with torch.inference_mode():
        row = resnet18(x[None]).numpy()
    described = resnet18.describe(golden_image, size=96, box=(10, 10, 150, 120), scales=[1])
    np.testing.assert_allclose(row, described, atol=1e-6)


def test_feature_maps_are_what_the_head_pools(resnet18: RetrievalNet) -> None:
    x = torch.rand(2, 3, 64, 96)
    with torch.inference_mode():
        features = resnet18.forward_features(x)
        assert features.shape == (2, 512, 2, 3)
        assert torch.equal(resnet18.head(features), resnet18(x))


def test_encode_is_describe(resnet18: RetrievalNet) -> None:
    assert np.array_equal(
        resnet18.encode(PIXELS, scales=[1]), resnet18.describe(PIXELS, scales=[1])
    )


def test_its_repr_is_a_short_line() -> None:
    net = RetrievalNet(RetrievalConfig("resnet18", attention={5: 2, 4: 4}))
    line = "resnet18 + attention 4,5, gem, 512 numbers, on cpu>"
    assert repr(net) == f"<RetrievalNet: {line}"
    net.source = "/somewhere/mine.safetensors"
    assert repr(net) == f"<RetrievalNet mine.safetensors: {line}"
    plain = RetrievalNet(RetrievalConfig("alexnet", pooling="mac"))
    assert repr(plain) == "<RetrievalNet: alexnet, mac, 256 numbers, on cpu>"
    assert "Conv2d" in repr(net.backbone)
