import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.drawn import drawn_checkpoint, drawn_retrieval, drawn_state, relative_error

from solar.errors import SolarError
from solar.models import (
    PatchConfig,
    PatchNet,
    RetrievalConfig,
    RetrievalNet,
    convert,
    fingerprint,
    load,
    load_whitening,
    save,
)

SMALL = RetrievalConfig("resnet18", attention={4: 4, 5: 2})


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file as the published code writes it, with everything it puts beside the weights."""
    path = tmp_path_factory.mktemp("published") / "model_best.pth.tar"
    content = {**drawn_checkpoint(RetrievalNet(SMALL)), "epoch": 7, "min_loss": 0.25}
    torch.save({**content, "optimizer": {"state": {}, "param_groups": [{"lr": 1e-6}]}}, path)
    return path


def as_file(folder: Path, content: Any, name: str = "file.pth") -> Path:
    torch.save(content, folder / name)
    return folder / name


def test_a_published_solar_file_loads(golden: dict[str, np.ndarray], published: Path) -> None:
    net = load(published, device="cpu")
    assert isinstance(net, RetrievalNet)
    assert net.config.attention == {4: 4, 5: 2}
    assert not net.training
    with torch.inference_mode():
        ours = net(torch.from_numpy(golden["net_image"]))
    assert relative_error(ours, golden["resnet18_soa45_single"]) < 2e-4


def test_half_the_size_gives_nearly_the_same_descriptors(tmp_path: Path) -> None:
    net = drawn_retrieval(SMALL)
    # Statistics that float16 would turn to zero or to infinity stay as they are.
    net.backbone.bn1.running_var[:2] = torch.tensor([1e-9, 1e6])
    full, half = (save(net, tmp_path / f"{h}.safetensors", half=h) for h in (False, True))
    assert half.stat().st_size < 0.51 * full.stat().st_size
    again = load(half, device="cpu")
    assert {tensor.dtype for tensor in again.parameters()} == {torch.float32}
    assert torch.equal(again.backbone.bn1.running_var, net.backbone.bn1.running_var)
    images = torch.rand(2, 3, 96, 128)
    with torch.inference_mode():
        assert ((net(images) * again(images)).sum(dim=1) > 1 - 1e-3).all()


def test_what_half_cannot_hold_is_refused(tmp_path: Path) -> None:
    net = RetrievalNet(SMALL)
    net.backbone.conv1.weight.data[0] = 1e6
    with pytest.raises(SolarError, match=r"conv1\.weight.*float16"):
        save(net, tmp_path / "out.safetensors", half=True)
    full = save(net, tmp_path / "full.safetensors")
    with pytest.raises(SolarError, match=r"\.safetensors"):
        convert(full, tmp_path / "out.pth", half=True)
    assert [path.name for path in tmp_path.iterdir()] == ["full.safetensors"]


@pytest.mark.parametrize("name", ["net.pth", "net"])
def test_only_safetensors_are_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(SolarError, match=rf"{name} .*\.safetensors.*solar convert"):
        save(PatchNet(), tmp_path / name)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("layout", ["gem", "solar"])
def test_published_gem_files_load_with_whitening(tmp_path: Path, layout: Any) -> None:
    blank = RetrievalNet(RetrievalConfig("resnet50"))
    path = as_file(tmp_path, drawn_checkpoint(blank, layout))
    net = load(path, device="cpu")
    assert net.config == blank.config


def test_published_gem_files_of_old_torch_versions_load(tmp_path: Path) -> None:
    blank = RetrievalNet(RetrievalConfig("resnet18"))
    checkpoint = drawn_checkpoint(blank, "gem")
    for name in [n for n in checkpoint["state_dict"] if n.endswith("num_batches_tracked")]:
        del checkpoint["state_dict"][name]
    path = tmp_path / "old.pth"
    torch.save(checkpoint, path, _use_new_zipfile_serialization=False)
    assert isinstance(load(path), RetrievalNet)


@pytest.mark.parametrize("scales", [(1.0,), (1.0, 0.5)])
def test_published_gem_files_apply_the_whitening_they_carry(
    tmp_path: Path, scales: tuple[float, ...]
) -> None:
    blank = RetrievalNet(RetrievalConfig("alexnet", whitening=False))
    checkpoint = drawn_checkpoint(blank, "gem")
    rng = np.random.default_rng(0)
    learned = {
        key: {"m": rng.normal(size=(256, 1)), "P": rng.normal(size=(256, 256))}
        for key in ("ss", "ms")
    }
    checkpoint["meta"]["Lw"] = {"retrieval-SfM-120k": learned}
    net = load(as_file(tmp_path, checkpoint), device="cpu")
    plain = load(as_file(tmp_path, drawn_checkpoint(blank, "gem"), "plain.pth"), device="cpu")
    x = torch.rand(1, 3, 96, 96)
    with torch.inference_mode():
        bare = plain.multiscale(x, scales).double().numpy().T
        ours = net.multiscale(x, scales).numpy()
    chosen = learned["ms" if len(scales) > 1 else "ss"]
    theirs = chosen["P"] @ (bare - chosen["m"])
    np.testing.assert_allclose(ours, (theirs / (np.linalg.norm(theirs) + 1e-6)).T, atol=1e-4)


def test_published_dame_files_load_with_their_scales(tmp_path: Path) -> None:
    """Their meta entry is cnnimageretrieval's, which does not know the pooling."""
    net = RetrievalNet(RetrievalConfig("resnet18", pooling="dame", whitening=False))
    content = drawn_checkpoint(net, "gem")
    assert content["state_dict"].keys() >= {"DAME3.fc.weight", "DAME3.fc.bias"}
    content["meta"]["pooling"] = "gem"
    loaded = load(as_file(tmp_path, content), device="cpu")
    assert isinstance(loaded, RetrievalNet)
    assert (loaded.config.pooling, loaded.config.scales) == ("dame", (1.0, 2**-0.5, 0.5))
    assert torch.equal(loaded.pool.fc.weight, content["state_dict"]["DAME3.fc.weight"])


def test_bare_backbones_load_under_a_fresh_gem(tmp_path: Path) -> None:
    state = drawn_state(RetrievalNet(RetrievalConfig("vgg16", whitening=False)), "features")
    del state["pool.p"]
    net = load(as_file(tmp_path, state))
    assert net.config.backbone == "vgg16"
    assert net.pool.p.item() == 3


def test_torchvision_classifiers_load_without_their_classifier(tmp_path: Path) -> None:
    backbone = RetrievalNet(RetrievalConfig("resnet34")).backbone.state_dict()
    state = {**backbone, "fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}
    net = load(as_file(tmp_path, state), device="cpu")
    assert net.config.backbone == "resnet34"
    assert torch.equal(net.backbone.layer4[2].conv2.weight, backbone["layer4.2.conv2.weight"])


@pytest.mark.parametrize("layout", ["local", "sosnet"])
def test_published_patch_files_load(
    tmp_path: Path, golden: dict[str, np.ndarray], layout: Any
) -> None:
    attention = {3: 4, 4: 4, 5: 2} if layout == "local" else {}
    path = as_file(tmp_path, drawn_state(PatchNet(PatchConfig(attention)), layout))
    net = load(path, device="cpu")
    assert isinstance(net, PatchNet)
    assert net.config.attention == attention
    assert (
        relative_error(
            net.describe(golden["patches"]), golden["local_soa345" if attention else "sosnet32"]
        )
        < 2e-4
    )


def test_channel_reductions_are_read_off_the_file(tmp_path: Path) -> None:
    config = RetrievalConfig("resnet18", attention={4: 8, 5: 8})
    net = load(as_file(tmp_path, drawn_checkpoint(RetrievalNet(config))))
    assert net.config.attention == {4: 8, 5: 8}


@pytest.mark.parametrize(
    "model",
    [
        RetrievalNet(
            RetrievalConfig("resnet18", attention={5: 2}, dim=64, scales=(1.0,), size=320)
        ),
        PatchNet(PatchConfig({4: 4}, dropout=0.3)),
    ],
    ids=["retrieval", "patches"],
)
def test_our_files_give_back_the_same_network(tmp_path: Path, model: Any) -> None:
    again = load(save(model, tmp_path / "model.safetensors"), device="cpu")
    assert again.config == model.config
    assert fingerprint(again) == fingerprint(model)


def test_convert_goes_to_our_format_and_back(tmp_path: Path, published: Path) -> None:
    ours = convert(published, tmp_path / "ours.safetensors")
    theirs = convert(ours, tmp_path / "theirs.pth")
    before, after = (torch.load(p, weights_only=True) for p in (published, theirs))
    assert after["meta"] == before["meta"]
    assert set(after["state_dict"]) == set(before["state_dict"])
    assert all(torch.equal(v, after["state_dict"][k]) for k, v in before["state_dict"].items())


def test_convert_refuses_an_ending_it_does_not_know(tmp_path: Path, published: Path) -> None:
    with pytest.raises(SolarError, match=r"\.safetensors .*\.pth"):
        convert(published, tmp_path / "model.onnx")


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    old = tmp_path / "model.safetensors"
    old.write_bytes(b"old")
    broken = PatchNet()
    broken.trunk.layer1[0].weight = torch.nn.Parameter(torch.empty(1, device="meta"))
    with pytest.raises(NotImplementedError):
        save(broken, old)
    assert old.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == [old.name]


def test_the_fingerprint_tells_weights_and_settings_apart() -> None:
    torch.manual_seed(0)
    net = PatchNet()
    prints = {fingerprint(net), fingerprint(PatchNet()), fingerprint(PatchNet(PatchConfig({4: 4})))}
    assert len(prints) == 3
    with torch.no_grad():
        net.trunk.layer7[0].weight[0, 0, 0, 0] += 1e-3
    assert fingerprint(net) not in prints


def test_a_published_whitening_layer_loads(tmp_path: Path) -> None:
    layer = torch.nn.Linear(8, 8)
    again = load_whitening(as_file(tmp_path, dict(layer.state_dict())))
    assert torch.equal(again.weight, layer.weight)
    with pytest.raises(SolarError, match="load_whitening"):
        load(tmp_path / "file.pth")


# What cannot be loaded, and the sentence for it.


def test_missing_and_unexpected_tensors_are_named(tmp_path: Path) -> None:
    checkpoint = drawn_checkpoint(RetrievalNet(SMALL))
    del checkpoint["state_dict"]["whiten.bias"]
    checkpoint["state_dict"]["extra.weight"] = torch.zeros(1)
    with pytest.raises(SolarError) as error:
        load(as_file(tmp_path, checkpoint))
    assert "missing whiten.bias; unexpected extra.weight" in str(error.value)
    assert "seems to be a resnet18 with attention after layers 4, 5" in str(error.value)


def test_a_wrong_architecture_in_the_meta_entry_is_told(tmp_path: Path) -> None:
    checkpoint = drawn_checkpoint(RetrievalNet(RetrievalConfig("resnet34")), "gem")
    checkpoint["meta"]["architecture"] = "resnet18"
    with pytest.raises(SolarError, match=r"unexpected .*resnet34"):
        load(as_file(tmp_path, checkpoint))


def test_a_tensor_of_another_shape_is_told(tmp_path: Path) -> None:
    checkpoint = drawn_checkpoint(RetrievalNet(SMALL))
    checkpoint["state_dict"]["whiten.bias"] = torch.zeros(7)
    with pytest.raises(SolarError, match=r"whiten\.bias.*\(7,\).*\(512,\)"):
        load(as_file(tmp_path, checkpoint))


def test_an_unknown_architecture_is_told(tmp_path: Path) -> None:
    checkpoint = drawn_checkpoint(RetrievalNet(SMALL))
    checkpoint["meta"]["architecture"] = "squeezenet1_1"
    with pytest.raises(SolarError, match=r"file\.pth.*squeezenet1_1"):
        load(as_file(tmp_path, checkpoint))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"a": torch.zeros(2)}, "1 tensors of no architecture"),
        (torch.zeros(3), "holds a Tensor, not a network"),
        ([1, 2], "holds a list, not a network"),
        ({"state_dict": {}}, "0 tensors of no architecture"),
    ],
)
def test_pickles_that_hold_no_network_are_refused(
    tmp_path: Path, content: Any, sentence: str
) -> None:
    with pytest.raises(SolarError, match=sentence):
        load(as_file(tmp_path, content))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"just some text\n" * 20, "is not a checkpoint"),
        (b"\x89PNG\r\n\x1a\n" + bytes(200), "is not a checkpoint"),
        (b"PK\x03\x04" + bytes(200), "damaged or cut short"),
    ],
)
def test_files_that_are_no_checkpoints_are_refused(
    tmp_path: Path, data: bytes, sentence: str
) -> None:
    path = tmp_path / "file.pth"
    path.write_bytes(data)
    with pytest.raises(SolarError, match=sentence):
        load(path)


@pytest.mark.parametrize("keep", [0.999, 0.5, 0.01])
@pytest.mark.parametrize("zipped", [True, False])
def test_truncated_checkpoints_are_refused(tmp_path: Path, keep: float, zipped: bool) -> None:
    path = tmp_path / "cut.pth"
    torch.save(drawn_state(PatchNet(), "local"), path, _use_new_zipfile_serialization=zipped)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * keep)])
    with pytest.raises(SolarError, match=r"cut\.pth"):
        load(path)


def test_truncated_safetensors_are_refused(tmp_path: Path) -> None:
    path = save(PatchNet(), tmp_path / "cut.safetensors")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(SolarError, match="safetensors"):
        load(path)


class _Malice:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.target}",)


@pytest.mark.parametrize("form", ["zip", "legacy", "plain"])
def test_a_malicious_pickle_is_refused_and_executes_nothing(tmp_path: Path, form: str) -> None:
    trace, path = tmp_path / "executed", tmp_path / "evil.pth"
    content = {"meta": {}, "state_dict": {"features.0.weight": _Malice(trace)}}
    if form == "plain":
        path.write_bytes(pickle.dumps(content, protocol=2))
    else:
        torch.save(content, path, _use_new_zipfile_serialization=form == "zip")
    with pytest.raises(SolarError, match="refused"):
        load(path)
    assert not trace.exists()


def test_a_folder_a_missing_file_and_an_unknown_name_get_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match="is a folder"):
        load(tmp_path)
    with pytest.raises(SolarError, match="There is no file"):
        load(tmp_path / "nothing.pth")
    with pytest.raises(SolarError, match="solar models"):
        load("solar-r1001")


def test_settings_of_a_newer_version_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    header = {"format": "solar", "version": "9", "task": "patches", "config": "{}"}
    save_file({"a": torch.zeros(1)}, tmp_path / "new.safetensors", metadata=header)
    with pytest.raises(SolarError, match="newer solar"):
        load(tmp_path / "new.safetensors")


@pytest.mark.parametrize(
    "config",
    [
        '{"colour": 1}',
        "[]",
        '{"attention": {"x": 4}}',
        '{"attention": {"3": 99}}',
        '{"layers": [[8, 1, 1]]}',
        '{"layers": 6}',
    ],
)
def test_settings_that_cannot_be_read_are_refused(tmp_path: Path, config: str) -> None:
    from safetensors.torch import save_file

    header = {"format": "solar", "version": "1", "task": "patches", "config": config}
    save_file({"a": torch.zeros(1)}, tmp_path / "odd.safetensors", metadata=header)
    with pytest.raises(SolarError, match="settings"):
        load(tmp_path / "odd.safetensors")


def test_importing_solar_is_quick_and_leaves_torch_alone() -> None:
    code = "import sys, solar; assert 'torch' not in sys.modules; print(bool(solar.load))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


def test_the_home_folder_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    path = save(PatchNet(), tmp_path / "mine.safetensors")
    assert load("~/mine.safetensors").source == str(path.resolve())
    with pytest.raises(SolarError, match=r"gone\.pth"):
        load("~/gone.pth")


@pytest.mark.parametrize("address", ["https://a.org/b.pth", "s3://a/b.safetensors"])
def test_an_address_is_refused(address: str) -> None:
    with pytest.raises(SolarError, match=f"^{address} .*download"):
        load(address)
