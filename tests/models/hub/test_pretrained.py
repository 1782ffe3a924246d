"""Networks over backbones of `transformers`: from a folder, to files of ours and back."""

import json
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import tiny_transformers
from support.tiny_transformers import SETTINGS, SHALLOW, drawn, settings, write

from solar import models
from solar.describe.fast_net import FusedNet
from solar.errors import SolarError
from solar.models import RetrievalConfig, RetrievalNet
from solar.models.contributions import locate
from solar.models.export import export_onnx, export_torch
from solar.models.hub.pretrained import from_folder
from solar.show.attention_source import AttentionSource


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder for each architecture, as the hub has them."""
    root = tmp_path_factory.mktemp("hub")
    return {name: write(tiny_transformers.model(name), root / name) for name in SETTINGS}


@pytest.fixture
def dinov2(folders: dict[str, Path]) -> Path:
    return folders["dinov2"]


def photo(height: int = 90, width: int = 130) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(5).integers(0, 256, (height, width, 3), np.uint8)


@pytest.mark.parametrize("name", SETTINGS)
def test_it_comes_back_from_a_file_of_ours_without_the_hub(
    name: str, folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("nothing is to be fetched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    net = models.load(folders[name], device="cpu")
    rows = net.describe([photo(), photo(140, 100)], size=128)
    assert rows.shape == (2, net.dim)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    again = models.load(models.save(net, tmp_path / "net.safetensors"), device="cpu")
    assert isinstance(again, RetrievalNet)
    assert again.config == net.config
    assert models.fingerprint(again) == models.fingerprint(net)
    np.testing.assert_array_equal(again.describe([photo(), photo(140, 100)], size=128), rows)


def test_cls_is_the_output_of_the_models_own_forward_pass(tmp_path: Path) -> None:
    from transformers import Dinov2Config, Dinov2Model

    model = drawn(Dinov2Model(Dinov2Config.from_dict(settings("dinov2"))))
    net = models.load(write(model, tmp_path), device="cpu")
    assert net.config.pooling == "cls"
    for height, width in ((84, 126), (140, 56)):
        images = net.transforms(photo(height, width), size=200)[None]
        assert images.shape[2:] == (height, width)
        with torch.inference_mode():
            theirs = torch.nn.functional.normalize(model(images).pooler_output)
            torch.testing.assert_close(net(images), theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "wrapper"),
    [("dinov2", "Dinov2ForImageClassification"), ("swin", "SwinForImageClassification")],
)
def test_a_classifier_is_left_out(name: str, wrapper: str, tmp_path: Path) -> None:
    import transformers

    config = transformers.CONFIG_MAPPING[name].from_dict(settings(name))
    classifier = drawn(getattr(transformers, wrapper)(config))
    net = from_folder(write(classifier, tmp_path), pooling="gem")
    own = {tensor.sum().item() for tensor in classifier.base_model.state_dict().values()}
    fresh = {key for key, value in net.state_dict().items() if value.sum().item() not in own}
    assert fresh <= {"pool.p", "backbone.norm.norm.weight", "backbone.norm.norm.bias"}


def test_poolings(dinov2: Path) -> None:
    images = torch.rand(1, 3, 70, 84)
    gem, cls, both, mean = (
        from_folder(dinov2, pooling=name) for name in ("gem", "cls", "cls+gem", "mean")
    )
    with torch.inference_mode():
        rows = [net(images)[0] for net in (gem, cls, both, mean)]
        average = gem.backbone(images).mean(dim=(2, 3))[0]
    assert [len(row) for row in rows] == [32, 32, 64, 32]
    torch.testing.assert_close(rows[2], torch.cat([rows[1], rows[0]]) / 2**0.5)
    torch.testing.assert_close(rows[3], average / average.norm())


def test_preprocessing_is_read(dinov2: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((dinov2 / "config.json").read_bytes())
    (tmp_path / "model.safetensors").write_bytes((dinov2 / "model.safetensors").read_bytes())
    file = tmp_path / "preprocessor_config.json"
    told = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4], "resample": 3}
    sizes: list[tuple[dict[str, Any], int]] = [
        ({"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}}, 256),
        ({"size": {"shortest_edge": 256}, "do_center_crop": True, "crop_size": 196}, 196),
        ({"size": {"height": 384, "width": 512}}, 512),
        ({}, 224),
    ]
    for size, expected in sizes:
        file.write_text(json.dumps(told | size))
        config = from_folder(tmp_path).config
        assert (config.mean, config.std) == ((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))
        assert (config.size, config.interpolation) == (expected, "bicubic")
    file.write_text(json.dumps(told | {"do_normalize": False}))
    assert from_folder(tmp_path).config.mean == (0, 0, 0)


def test_photos_keep_their_ratio_and_small_ones_are_refused(dinov2: Path) -> None:
    net = models.load(dinov2, device="cpu")
    seen: list[tuple[int, ...]] = []
    net.backbone.encoder.register_forward_pre_hook(lambda _, given: seen.append(given[0].shape[2:]))
    net.describe(photo(60, 100), scales=(1, 2**0.5, 0.5**0.5))
    assert seen == [(56, 98), (84, 140), (42, 70)]  # 60×100, 85×141 and 42×71 by patches of 14
    net.describe(photo(10, 30), scales=(1, 0.75))
    with pytest.raises(SolarError, match=r"\d+ × \d+"):
        net.describe(photo(9, 30), scales=(1, 0.75))  # 6 pixels: less than half a patch


def test_many_photos_at_once_give_the_same(dinov2: Path) -> None:
    net = models.load(dinov2, device="cpu")
    pixels = torch.from_numpy(np.stack([photo(), photo()]))
    expected = net.describe(list(pixels.numpy()))
    np.testing.assert_allclose(FusedNet(net)(pixels).numpy(), expected, atol=2e-5)


def test_attention_and_explanations_where_they_can_be(dinov2: Path) -> None:
    net = from_folder(dinov2, pooling="gem", attention={4: 4})
    source = AttentionSource.of(net, photo(90, 130), size=70)
    assert source.row(20, 30).shape == (5, 7)  # 70 × 98 pixels, the nearest to 70 × 101
    assert source.extent() == pytest.approx((7, 5))
    located = locate(net, photo(90, 130), size=126)
    np.testing.assert_allclose(
        located.descriptor, net.describe(photo(90, 130), size=126)[0], atol=1e-5
    )
    plain = models.load(dinov2, device="cpu")
    with pytest.raises(SolarError, match="attention"):
        AttentionSource.of(plain, photo())
    with pytest.raises(SolarError, match="pools by cls"):
        locate(plain, photo())


@pytest.mark.parametrize("name", SHALLOW)
def test_onnx_equals_torch_at_any_size(name: str, tmp_path: Path) -> None:
    import onnxruntime

    registers = name == "dinov2_with_registers"
    config = RetrievalConfig(
        name,
        backbone_settings=settings(name, shallow=True),
        attention={4: 4} if registers else {},
        pooling="cls+gem" if registers else "gem",
    )
    net = RetrievalNet(config).eval()
    drawn(net.backbone)
    file = export_onnx(net, tmp_path / "net.onnx", scales=(1,))
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    for size in ((1, 3, 112, 224), (3, 3, 150, 100)):
        images = torch.randn(size, generator=torch.Generator().manual_seed(0))
        with torch.inference_mode():
            expected = net(images).numpy()
        (found,) = session.run(None, {"images": images.numpy()})
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_onnx_of_windows_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    swin = models.load(folders["swin"], device="cpu")
    with pytest.raises(SolarError, match=r"swin .*sizes"):
        export_onnx(swin, tmp_path / "swin.onnx")


def test_a_torch_program_takes_photos_of_any_size(dinov2: Path, tmp_path: Path) -> None:
    net = models.load(dinov2, device="cpu")
    program = torch.export.load(export_torch(net, tmp_path / "net.pt2")).module()
    for size in ((1, 3, 112, 224), (3, 3, 100, 150)):
        images = torch.randn(size)
        with torch.inference_mode():
            torch.testing.assert_close(program(images), net(images), rtol=0, atol=1e-5)


def test_mistakes_are_sentences(dinov2: Path, tmp_path: Path) -> None:
    with pytest.raises(SolarError, match=r"config\.json"):
        models.load(tmp_path)
    config = tmp_path / "config.json"
    config.write_text("[]")
    with pytest.raises(SolarError, match=r"config\.json .*JSON"):
        models.load(tmp_path)
    config.write_text('{"model_type": "bert"}')
    with pytest.raises(SolarError, match="'bert'"):
        models.load(tmp_path)
    content = json.loads((dinov2 / "config.json").read_text())
    config.write_text(json.dumps(content))
    (tmp_path / "pytorch_model.bin").write_bytes(b"a pickle")
    with pytest.raises(SolarError, match=r"model\.safetensors.*pickled"):
        models.load(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes((dinov2 / "model.safetensors").read_bytes()[:-100])
    with pytest.raises(SolarError, match=r"weights in .* read"):
        models.load(tmp_path)
    weights.write_bytes((dinov2 / "model.safetensors").read_bytes())
    config.write_text(json.dumps(content | {"num_hidden_layers": 3}))
    with pytest.raises(SolarError, match=r"encoder\.layer\.2\..* more is missing"):
        models.load(tmp_path)
    config.write_text(json.dumps(content | {"mlp_ratio": 2}))
    with pytest.raises(SolarError, match=r"mlp\..* has another shape"):
        models.load(tmp_path)


def test_nothing_in_a_folder_is_executed(dinov2: Path, tmp_path: Path) -> None:
    content = json.loads((dinov2 / "config.json").read_text())
    content["auto_map"] = {"AutoConfig": "evil.Config", "AutoBackbone": "evil.Model"}
    (tmp_path / "config.json").write_text(json.dumps(content))
    (tmp_path / "evil.py").write_text("raise SystemExit('executed')\n")
    (tmp_path / "model.safetensors").write_bytes((dinov2 / "model.safetensors").read_bytes())
    assert "auto_map" not in models.load(tmp_path, device="cpu").config.backbone_settings
