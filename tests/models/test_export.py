import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.drawn import drawn_retrieval

from solar.errors import SolarError
from solar.models import PatchNet, RetrievalConfig, RetrievalNet, convert, fingerprint
from solar.models.export import export_onnx, export_torch, quantise_onnx

onnx = pytest.importorskip("onnx", reason="the extra `export` is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the extra `export` is not installed")
pytest.importorskip("onnxscript", reason="the extra `export` is not installed")

SIZES = [(1, 96, 128), (3, 101, 77), (1, 40, 33), (2, 32, 32)]


@pytest.fixture(scope="module")
def model() -> RetrievalNet:
    return drawn_retrieval(RetrievalConfig("resnet18", attention={4: 4, 5: 2}, dim=64))


@pytest.fixture(scope="module")
def exported(model: RetrievalNet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_onnx(model, tmp_path_factory.mktemp("export") / "model.onnx", scales=(1,))


def run(path: Path, name: str, batch: torch.Tensor) -> np.ndarray[Any, Any]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(["descriptors"], {name: batch.numpy()})[0]


@pytest.mark.parametrize("size", SIZES)
def test_onnx_equals_torch_at_any_batch_height_and_width(
    model: RetrievalNet, exported: Path, size: tuple[int, int, int]
) -> None:
    images = torch.randn(size[0], 3, *size[1:], generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        theirs = model(images).numpy()
    np.testing.assert_allclose(run(exported, "images", images), theirs, atol=2e-6)


def test_onnx_names_its_open_axes(exported: Path) -> None:
    (images,) = onnx.load(exported).graph.input
    axes = images.type.tensor_type.shape.dim
    assert [axis.dim_param or axis.dim_value for axis in axes] == ["batch", 3, "height", "width"]


def test_onnx_carries_settings_and_fingerprint(model: RetrievalNet, exported: Path) -> None:
    facts = {fact.key: fact.value for fact in onnx.load(exported).metadata_props}
    assert RetrievalConfig.from_dict(json.loads(facts["solar.config"])) == model.config
    assert facts["solar.fingerprint"] == fingerprint(model)


def test_batch_norms_are_folded(exported: Path) -> None:
    assert "BatchNormalization" not in {node.op_type for node in onnx.load(exported).graph.node}


def test_exporting_leaves_the_network_as_it_was(tmp_path: Path) -> None:
    model = RetrievalNet(RetrievalConfig("alexnet")).train()
    export_torch(model, tmp_path / "model.pt2")
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("whitening", [True, False])
def test_multiscale_onnx_equals_torch(tmp_path: Path, whitening: bool) -> None:
    scales = (1.0, 0.7071067811865476)
    config = RetrievalConfig(
        "alexnet", whitening=whitening, scales=scales, adaptation=24 if whitening else None
    )
    model = drawn_retrieval(config)
    path = export_onnx(model, tmp_path / "model.onnx")
    images = torch.randn(2, 3, 97, 75, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        theirs = model.multiscale(images).numpy()
    np.testing.assert_allclose(run(path, "images", images), theirs, atol=2e-6)


def test_patch_network_onnx_equals_torch(tmp_path: Path) -> None:
    model = PatchNet().eval()
    path = export_onnx(model, tmp_path / "patches.onnx")
    patches = torch.randn(5, 1, 32, 32)
    with torch.inference_mode():
        theirs = model(patches).numpy()
    np.testing.assert_allclose(run(path, "patches", patches), theirs, atol=2e-6)


def test_torch_program_equals_torch_after_reloading(model: RetrievalNet, tmp_path: Path) -> None:
    facts = {"config": "", "fingerprint": ""}
    path = export_torch(model, tmp_path / "model.pt2")
    program = torch.export.load(path, extra_files=facts).module()
    for batch, height, width in SIZES[:3]:
        images = torch.randn(batch, 3, height, width)
        with torch.inference_mode():
            torch.testing.assert_close(program(images), model(images))
    assert RetrievalConfig.from_dict(json.loads(facts["config"])) == model.config
    assert facts["fingerprint"] == fingerprint(model)


# ResNet-18 has 20 convolutions, of which the first stays as it is; two blocks have four each.
@pytest.mark.parametrize(("attention", "count"), [(False, 19), (True, 27)])
def test_the_first_convolution_is_not_quantised_and_attention_on_request(
    exported: Path, tmp_path: Path, attention: bool, count: int
) -> None:
    images = np.random.default_rng(0).standard_normal((1, 3, 64, 64), np.float32)
    path = quantise_onnx(exported, tmp_path / "int8.onnx", [images], attention=attention)
    names = {tensor.name for tensor in onnx.load(path).graph.initializer}
    weights = {name for name in names if name.endswith("weight_quantized")}
    assert len(weights) == count
    assert any(".soa" in name for name in weights) == attention
    assert "backbone.conv1.weight_quantized" not in weights
    assert not any("whiten" in name for name in weights)


def test_pooling_by_regions_is_refused_with_a_sentence(tmp_path: Path) -> None:
    model = RetrievalNet(RetrievalConfig("alexnet", pooling="rmac"))
    with pytest.raises(SolarError, match="regions"):
        export_onnx(model, tmp_path / "model.onnx")


def test_a_missing_package_is_a_sentence_with_the_extra(
    model: RetrievalNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if "script" in name else name)
    with pytest.raises(SolarError, match=r"onnxscript.*solar-retrieval\[export\]"):
        export_onnx(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_a_file_of_no_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match=r"\.safetensors .*\.pth"):
        convert("solar-local-345", tmp_path / "local")
    assert list(tmp_path.iterdir()) == []
