"""The retrained SOLAR in the layout of its authors: its numbers, its files, what takes them."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from support.drawn import relative_error
from support.golden2 import FOLDER, drawn, golden2
from support.running import solar as command
from support.whole_maps import forward_with_map
from torch import Tensor

import solar
from solar.demo import toy
from solar.errors import SolarError
from solar.models import RetrievalConfig, RetrievalNet, convert, fingerprint, load, save
from solar.models.contributions import locate
from solar.models.published_layouts import delg_name, published_names, published_shape
from solar.nn import SecondOrderAttention
from solar.nn.backbones.backbone import without_drawing

KEYS = json.loads((FOLDER / "token_keys.json").read_text())
TRAINING_ONLY = "classifier.weight"


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    return golden2("token")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RetrievalNet:
    """ResNet-101 with every key of the published file, drawn by name."""
    path = tmp_path_factory.mktemp("token") / "R101-SOLAR.pth"
    torch.save({k: drawn(k, tuple(s)) for k, s in KEYS.items() if k != TRAINING_ONLY}, path)
    return load(path, device="cpu")


@pytest.fixture(scope="module")
def small() -> dict[str, Tensor]:
    """The same network on a ResNet-18, with the classifier that it is trained with."""
    net = RetrievalNet(RetrievalConfig("resnet18", attention={5: 2}, pooling="gem-fixed"))
    own = net.state_dict()
    state = {
        theirs: drawn(theirs, published_shape(ours, own[ours].shape, "token"))
        for ours, theirs in published_names(own, "token").items()
    }
    return {**state, TRAINING_ONLY: torch.zeros(7, 512)}


@pytest.fixture
def path(small: dict[str, Tensor], tmp_path: Path) -> Path:
    torch.save(small, tmp_path / "small.pth")
    return tmp_path / "small.pth"


@pytest.mark.parametrize("name", ["a", "b"])
def test_the_network_gives_the_golden_numbers(
    arrays: dict[str, np.ndarray], whole: RetrievalNet, name: str
) -> None:
    pixels = torch.from_numpy(arrays[f"token_image_{name}"])[None]
    maps = []

    def attend(layer: int, block: SecondOrderAttention, x: Tensor) -> Tensor:
        out, attention = forward_with_map(block, x)
        maps.extend([x, attention])
        return out

    with torch.inference_mode():
        images = whole.normalise(pixels)
        features = whole.backbone.run(images, attend)
        trunk, attention = maps
        for golden, ours in (
            ("map_mean", trunk.mean(dim=(2, 3))[0]),
            ("attention_row0", attention[0, 0]),
            ("pool", whole.pool(features)[0]),
        ):
            assert relative_error(ours, arrays[f"token_{golden}_{name}"]) < 1e-5
        single = whole(images)[0].numpy()
    assert np.abs(single - arrays[f"token_desc_{name}"]).max() < 1e-6
    [multi] = whole.describe(pixels.numpy())
    assert np.abs(multi - arrays[f"token_multi_{name}"]).max() < 1e-6


def test_the_network_has_the_published_tensors_and_no_exponent_that_learns(
    whole: RetrievalNet,
) -> None:
    own = whole.state_dict()
    names = published_names(own, "token")
    shapes = {
        theirs: list(published_shape(ours, own[ours].shape, "token"))
        for ours, theirs in names.items()
    }
    assert shapes == {key: shape for key, shape in KEYS.items() if key != TRAINING_ONLY}
    assert own["pool.p"].item() == 3
    assert "pool.p" not in dict(whole.named_parameters())


FORMS: dict[str, Callable[[dict[str, Tensor]], Any]] = {
    "flat": lambda state: state,
    "without the classifier": lambda state: {k: state[k] for k in state if k != TRAINING_ONLY},
    "of a training": lambda state: {"epoch": 3, "state_dict": state, "optim": {"state": {}}},
    "of several GPUs": lambda state: {"state_dict": {f"module.{k}": v for k, v in state.items()}},
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_the_file_gives_the_same_network(
    small: dict[str, Tensor], path: Path, tmp_path: Path, form: str
) -> None:
    torch.save(FORMS[form](small), tmp_path / "form.pth")
    net = load(tmp_path / "form.pth", device="cpu")
    assert net.config == RetrievalConfig("resnet18", attention={5: 2}, pooling="gem-fixed")
    assert fingerprint(net) == fingerprint(load(path, device="cpu"))


def test_converted_files_give_the_same_network(
    small: dict[str, Tensor], path: Path, tmp_path: Path
) -> None:
    save_file({f"module.{k}": v for k, v in small.items()}, tmp_path / "theirs.safetensors")
    ours = convert(tmp_path / "theirs.safetensors", tmp_path / "ours.safetensors")
    assert fingerprint(load(ours, device="cpu")) == fingerprint(load(path, device="cpu"))
    back = torch.load(convert(ours, tmp_path / "back.pth"), weights_only=True)
    assert set(back) == set(small) - {TRAINING_ONLY}
    assert all(torch.equal(tensor, small[key]) for key, tensor in back.items())


def test_what_the_layout_cannot_hold_is_not_written(tmp_path: Path) -> None:
    plain = RetrievalNet(RetrievalConfig("resnet18", pooling="gem-fixed"))
    path = solar.models.save(plain, tmp_path / "plain.safetensors")
    with pytest.raises(SolarError, match=r"p = 3, .*\.safetensors"):
        convert(path, tmp_path / "plain.pth")


@pytest.fixture(scope="module")
def hollow(small: dict[str, Tensor]) -> dict[str, Tensor]:
    """Names and shapes of a whole file, in a few bytes."""
    return {key: torch.zeros(()).expand(tensor.shape) for key, tensor in small.items()}


def refusal(state: dict[str, Tensor], folder: Path) -> str:
    torch.save(state, folder / "wrong.pth")
    with pytest.raises(SolarError) as error:
        load(folder / "wrong.pth")
    return str(error.value).removeprefix(f"{folder / 'wrong.pth'} ")


@pytest.mark.parametrize(
    "key",
    [
        "backbone.block1.0.weight",
        "backbone.block1.1.num_batches_tracked",
        "backbone.block4.1.conv1.weight",
        "backbone.block5.0.downsample.1.running_var",
        "pooling.f.0.weight",
        "pooling.v.bias",
        "whiten.weight",
        "whiten.bias",
    ],
)
def test_every_tensor_must_be_there_with_its_shape(
    hollow: dict[str, Tensor], tmp_path: Path, key: str
) -> None:
    lacking = {name: tensor for name, tensor in hollow.items() if name != key}
    assert refusal(lacking, tmp_path).startswith(f"does not fit: missing {key}; the file seems")
    needed = tuple(hollow[key].shape)
    told = refusal({**hollow, key: torch.zeros(2, 3)}, tmp_path)
    assert told.startswith(f"does not fit: {key} is (2, 3) where {needed} is needed; the file")


@pytest.mark.parametrize("key", ["pool.p", "classifier.bias", "module.whiten.bias", "tokens"])
def test_a_tensor_that_nobody_knows_is_refused(
    hollow: dict[str, Tensor], tmp_path: Path, key: str
) -> None:
    told = refusal({**hollow, key: torch.full((1,), 3.0)}, tmp_path)
    assert told.startswith(f"does not fit: unexpected {key}; the file seems to be a resnet18 with")


def test_a_whitening_that_is_no_convolution_is_refused(
    hollow: dict[str, Tensor], tmp_path: Path
) -> None:
    told = refusal({**hollow, "whiten.weight": hollow["whiten.weight"][..., 0, 0]}, tmp_path)
    assert "whiten.weight is (512, 512) where (512, 512, 1, 1) is needed" in told


def test_a_trunk_of_unknown_depth_names_what_does_not_fit(
    hollow: dict[str, Tensor], tmp_path: Path
) -> None:
    cut = {name: tensor for name, tensor in hollow.items() if ".block3.1." not in name}
    assert refusal(cut, tmp_path).startswith("does not fit: missing backbone.block2.0.conv3.weight")


def test_the_commands_take_the_file(path: Path, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    found = toy.write(photos, landmarks=2, views=2, size=(96, 80))
    model = "--model", path, "--size", "96"
    command("describe", found[0], *model, "-o", tmp_path / "out.npy")
    assert (
        np.abs(np.load(tmp_path / "out.npy") - load(path).describe(found[0], size=96)).max() < 1e-6
    )
    command("index", "build", photos, "-o", tmp_path / "index", *model)
    with solar.Index.open(tmp_path / "index") as index:
        hits = index.search(found[0], k=4, rerank=None, include_self=True)
    assert photos / hits[0].path == found[0]
    assert hits[0].score == pytest.approx(1, abs=1e-5)
    measured = json.loads(command("evaluate", photos, *model, "--json").stdout)
    assert 0 < measured["mAP"] <= 100


def test_a_photo_is_explained_and_the_network_exported(path: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 256, (80, 96, 3), dtype=np.uint8) for _ in range(2))
    net = load(path, device="cpu")
    told = solar.explain(a, b, model=net)
    vectors = net.describe([a, b])
    assert told.score == pytest.approx(vectors[0] @ vectors[1], abs=1e-5)
    assert told.heat_a.sum() == pytest.approx(told.score, abs=1e-5)
    assert solar.attention(net, a, at=(40, 40), size=96).layer == 5
    pytest.importorskip("onnxscript", reason="the extra `export` is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="the extra `export` is not installed")
    from solar.models.export import export_onnx

    exported = export_onnx(net, tmp_path / "small.onnx", scales=(1,))
    images = net.transforms(a)[None]
    with torch.inference_mode():
        ours = net(images).numpy()
    [theirs] = runtime.InferenceSession(exported).run(None, {"images": images.numpy()})
    assert np.abs(theirs - ours).max() < 2e-6


HOW_KEYS: dict[str, list[int]] = json.loads((FOLDER / "how_r18_keys.json").read_text())
LOCAL: dict[str, Any] = {"whitening": False, "scales": (1.0,)}


def written(path: Path, state: dict[str, Tensor], **more: Any) -> Path:
    torch.save({"epoch": 7, "_version": "how/2020", **more, "state_dict": state}, path)
    return path


def small_how() -> dict[str, Tensor]:
    """The last stage left out, as HOW's R50 has it."""
    net = RetrievalNet(RetrievalConfig("resnet18-conv4", pooling="how", **LOCAL))
    names = published_names(net.state_dict(), "how")
    return {their: drawn(their, tuple(net.state_dict()[our].shape)) for our, their in names.items()}


def test_a_how_network_has_the_published_tensors(tmp_path: Path) -> None:
    net = RetrievalNet(RetrievalConfig("resnet18", pooling="how", **LOCAL))
    names = published_names(net.state_dict(), "how")
    assert {t: list(net.state_dict()[o].shape) for o, t in names.items()} == HOW_KEYS


def test_how_without_its_last_stage_is_told_from_its_tensors(tmp_path: Path) -> None:
    state = small_how()
    settings = {"architecture": "resnet18", "skip_layer": 1}
    settings["runtime"] = {"mean_std": [[0.5, 0.5, 0.5], [0.25, 0.25, 0.25]]}
    net = load(written(tmp_path / "how.pth", state, net_params=settings, meta={}), device="cpu")
    assert (net.config.backbone, net.config.pooling) == ("resnet18-conv4", "how")
    assert (net.config.mean, net.config.std) == ((0.5,) * 3, (0.25,) * 3)
    assert (net.dim, net.backbone.stride) == (128, 16)
    assert torch.equal(net.pool.reduce.weight, state["dim_reduction.weight"])
    convert(tmp_path / "how.pth", tmp_path / "how.safetensors")
    assert fingerprint(load(tmp_path / "how.safetensors", device="cpu")) == fingerprint(net)


@pytest.fixture(scope="module")
def delg() -> dict[str, Tensor]:
    """A file of the port, with the parts that its local branch has no use for."""
    with without_drawing():
        net = RetrievalNet(RetrievalConfig("resnet50-conv4", pooling="delg", **LOCAL))
    assert net.backbone.channels == 1024
    shapes = {delg_name(name): value.shape for name, value in net.state_dict().items()}
    state = {name: torch.rand(shape) for name, shape in shapes.items()}
    unused = {
        "globalmodel.s4.b1.f.a.weight": (512, 1024, 1, 1),
        "globalmodel.head.fc.weight": (512, 2048),
        "desc_cls.weight": (7, 512),
        "att_cls.fc.weight": (7, 512),
    }
    return {**state, **{name: torch.zeros(shape) for name, shape in unused.items()}}


def test_names_of_the_port(delg: dict[str, Tensor]) -> None:
    for name in (
        "globalmodel.stem.conv.weight",
        "globalmodel.stem.bn.running_mean",
        "globalmodel.s1.b1.proj.weight",
        "globalmodel.s1.b1.bn.weight",
        "globalmodel.s3.b6.f.c_bn.running_var",
        "localmodel.conv1.weight",
        "localmodel.bn.bias",
        "localmodel.conv2.bias",
    ):
        assert name in delg


def test_the_port_is_read_and_takes_red_first(tmp_path: Path, delg: dict[str, Tensor]) -> None:
    torch.save({"model_state": delg, "epoch": 3}, tmp_path / "delg.pyth")
    net = load(tmp_path / "delg.pyth", device="cpu")
    assert (net.config.backbone, net.config.pooling, net.dim) == ("resnet50-conv4", "delg", 512)
    stem = delg["globalmodel.stem.conv.weight"]
    assert torch.equal(net.backbone.conv1.weight, stem[:, [2, 1, 0]])
    assert torch.equal(net.pool.attention.conv2.weight, delg["localmodel.conv2.weight"])
    assert torch.equal(net.backbone.layer2[3].bn3.bias, delg["globalmodel.s2.b4.f.c_bn.bias"])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda s: s.pop("dim_reduction.bias"), "missing dim_reduction.bias"),
        (lambda s: s.update({"dim_reduction.weight": torch.zeros(64, 256, 1, 1)}), "is needed"),
        (lambda s: s.update({"features.9.weight": torch.zeros(1)}), "unexpected features.9.weight"),
        (lambda s: s["dim_reduction.bias"].fill_(float("nan")), "not finite|no number|NaN"),
    ],
)
def test_what_does_not_fit_is_one_sentence(tmp_path: Path, change: Any, complaint: str) -> None:
    state = {name: value.clone() for name, value in small_how().items()}
    change(state)
    with pytest.raises(SolarError) as caught:
        load(written(tmp_path / "bad.pth", state), device="cpu")
    assert re.search(complaint, str(caught.value)), caught.value


def test_they_are_written_as_ours_alone(tmp_path: Path) -> None:
    written(tmp_path / "how.pth", small_how())
    with pytest.raises(SolarError, match=r"how .*\.safetensors"):
        convert(tmp_path / "how.pth", tmp_path / "again.pth")


class PCA:
    """Stands in for scikit-learn's, under whose names it is pickled."""

    whiten = True


def dirtorch_file(path: Path, monkeypatch: pytest.MonkeyPatch, home: str, **options: Any) -> Path:
    """A small network as Deep Image Retrieval saves it."""
    net = RetrievalNet(RetrievalConfig("resnet18", dim=64))
    own = net.state_dict()
    names = published_names(own, "dirtorch")
    state = {f"module.{theirs}": drawn(theirs, own[ours].shape) for ours, theirs in names.items()}
    state["module.adpool.p"] = torch.tensor([2.8])
    pca = PCA()
    for name in (home, home.rpartition(".")[0], "sklearn"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(PCA=PCA))
    monkeypatch.setattr(PCA, "__module__", home)
    pca.__dict__ = {
        "whiten": True,
        "mean_": drawn("pca.mean_bias", (64,)).numpy(),
        "components_": drawn("pca.components_", (64, 64)).numpy(),
        "explained_variance_": drawn("pca.running_var", (64,)).numpy(),
        "_sklearn_version": "0.20.3",
    }
    content = {
        "model_options": {"arch": "resnet18_rmac", "out_dim": 64, "pooling": "gem", **options},
        "preprocess": {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]},
        "state_dict": state,
        "pca": {"Landmarks_clean": pca},
    }
    torch.save(content, path, _use_new_zipfile_serialization=home.endswith("_pca"))
    monkeypatch.delitem(sys.modules, home)  # solar does without it
    return path


@pytest.mark.parametrize("home", ["sklearn.decomposition.pca", "sklearn.decomposition._pca"])
@pytest.mark.parametrize("normed", [False, True])
def test_networks_of_the_average_precision_loss_describe_as_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str, normed: bool
) -> None:
    numbers, kind = golden2("dirtorch"), "normed" if normed else "plain"
    path = dirtorch_file(tmp_path / "AP.pt", monkeypatch, home, norm_features=normed)
    net = load(path, device="cpu")
    assert isinstance(net, RetrievalNet)
    assert net.config.scales == (1.0,)
    with torch.inference_mode():
        plain = net(net.normalise(torch.from_numpy(numbers["image"])[None]))
    assert relative_error(plain[0], numbers[kind]) < 1e-5
    photo = tmp_path / "photo.png"
    Image.fromarray(numbers["image"]).save(photo)
    [whitened] = net.describe(photo)
    assert relative_error(whitened, numbers[f"{kind}_whitened"]) < 1e-5
    parts = locate(net, photo)
    assert np.allclose(parts.vectors.sum((0, 1)), whitened, atol=1e-5)
    saved = save(net, tmp_path / "ours.safetensors")
    assert np.allclose(load(saved, device="cpu").describe(photo)[0], whitened, atol=1e-6)
    with pytest.raises(SolarError, match="lengths"):
        convert(path, tmp_path / "theirs.pth")


def test_networks_pooled_by_the_maximum_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = dirtorch_file(
        tmp_path / "MAC.pt", monkeypatch, "sklearn.decomposition._pca", pooling="max"
    )
    with pytest.raises(SolarError, match="GeM"):
        load(path, device="cpu")
