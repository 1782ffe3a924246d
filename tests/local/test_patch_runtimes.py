import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from support.drawn import drawn_state
from support.running import refused, solar
from support.warped import toy_photo, turned

from solar.describe.cpu import backends, trial
from solar.errors import SolarError
from solar.local.features import local_model
from solar.local.patch_network import (
    PatchBackend,
    drawn_patches,
    open_patch_backend,
    patch_descriptors,
)
from solar.matching.match import match
from solar.models import PatchConfig, PatchNet, RetrievalConfig, RetrievalNet, load, save
from solar.models.published import from_state
from solar.ranking.verify import Verifier, VerifySettings

pytest.importorskip("onnxscript", reason="the extra `export` is not installed")
pytest.importorskip("onnxruntime", reason="the extra `export` is not installed")
pytest.importorskip("openvino", reason="the extra `export` is not installed")

INT8 = "openvino-int8"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network with attention, and two photos of one scene."""
    home = tmp_path_factory.mktemp("patch_backend")
    state = drawn_state(PatchNet(PatchConfig({5: 2})), "local")
    save(from_state("drawn", state, {}), home / "net.safetensors")
    photo = toy_photo(size=(320, 240))
    for name, pixels in (("a", photo), ("b", turned(photo)[0])):
        Image.fromarray(pixels).save(home / f"{name}.png")
    return home


@pytest.fixture(scope="module")
def net(home: Path) -> PatchNet:
    net = load(home / "net.safetensors", device="cpu")
    assert isinstance(net, PatchNet)
    return net


@pytest.fixture(scope="module")
def int8(net: PatchNet) -> PatchBackend:
    opened = open_patch_backend(net, INT8)
    assert isinstance(opened, PatchBackend)
    assert opened.name == INT8
    return opened


def test_int8_stays_close_to_float32(net: PatchNet, int8: PatchBackend) -> None:
    patches = torch.from_numpy(drawn_patches(150, seed=1))
    rows = int8.descriptors_of(150, lambda batch: patches[batch])
    cosines = (rows * patch_descriptors(net, patches)).sum(axis=1)
    assert cosines.min() > 0.99
    assert 0.998 < cosines.mean() < 0.999999  # int8 it must be, too


def test_threads_may_share_a_backend(int8: PatchBackend) -> None:
    patches = torch.from_numpy(drawn_patches(70, seed=2))
    alone = int8.descriptors_of(70, lambda batch: patches[batch])
    with ThreadPoolExecutor(4) as threads:
        found = threads.map(lambda _: int8.descriptors_of(70, lambda b: patches[b]), range(8))
        assert all(np.array_equal(rows, alone) for rows in found)


def test_int8_and_float32_do_not_share_kept_features(
    net: PatchNet, int8: PatchBackend, home: Path, tmp_path: Path
) -> None:
    settings = VerifySettings(model=net, keypoints=50, backend=INT8)
    on_int8 = Verifier(home.joinpath, tmp_path, settings)
    kept = on_int8.features("a.png")
    assert on_int8.kept("a.png") is not None
    plain = Verifier(home.joinpath, tmp_path, replace(settings, backend="torch"))
    assert plain.kept("a.png") is None
    cosines = (plain.features("a.png").descriptors * kept.descriptors).sum(axis=1)
    assert 0.99 < cosines.min() < 0.99999


def test_photos_are_matched_on_a_backend(int8: PatchBackend, home: Path) -> None:
    photos, file = (home / "a.png", home / "b.png"), home / "net.safetensors"
    done = solar(
        *("match", *photos, "--local-features", "sift", "--compare", file, "--keypoints", 200),
        *("--backend", INT8, "--json"),
    )
    (found,) = json.loads(done.stdout)["compare"]
    assert found["descriptor"] == f"{file}, {INT8}"
    plain = match(*photos, model=file, keypoints=200)
    assert abs(found["matches"] - len(plain.pairs)) <= 0.1 * len(plain.pairs)


def test_what_does_not_work_costs_one_sentence(
    net: PatchNet, int8: PatchBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def verdict(model: PatchNet, runtime: str, file: Path, *others: object) -> trial.Verdict:
        works = runtime == "openvino"  # but ONNX Runtime finds the ranges
        return trial.Verdict(works, reason="" if works else "its cosine is only 0.5")

    monkeypatch.setattr(backends, "tried_out", verdict)
    with pytest.warns(UserWarning, match=r"openvino-int8 does not .* openvino is used: .*0\.5"):
        opened = open_patch_backend(net, INT8)
    assert isinstance(opened, PatchBackend)
    assert opened.name == "openvino"
    monkeypatch.setattr(backends, "tried_out", lambda *_: trial.Verdict(False, reason="no"))
    with pytest.warns(UserWarning, match=r"openvino does not work here, so torch is used: no\."):
        assert open_patch_backend(net, "openvino") is net


# Users' mistakes.


def test_a_backend_goes_with_a_patch_network(net: PatchNet, home: Path) -> None:
    told = refused("match", home / "a.png", home / "b.png", "--backend", INT8)
    assert "rootsift is not a network: --backend needs a patch model." in told
    with pytest.raises(SolarError, match="patch model"):
        local_model(RetrievalNet(RetrievalConfig("resnet18", dim=8)), INT8)
    with pytest.raises(SolarError, match="tensorrt"):
        local_model(net, "tensorrt")
