import os
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from support.drawn import drawn_retrieval

from solar.demo import toy
from solar.describe.cpu import backends, libraries, trial
from solar.describe.cpu.backends import BackendNet, open_backend
from solar.errors import SolarError
from solar.files import cache_directory
from solar.images import load
from solar.models import RetrievalConfig, RetrievalNet, fingerprint

pytest.importorskip("onnxscript", reason="the extra `export` is not installed")
pytest.importorskip("onnxruntime", reason="the extra `export` is not installed")
pytest.importorskip("openvino", reason="the extra `export` is not installed")

ENGINES = ("onnxruntime", "openvino")


@pytest.fixture(scope="module")
def model() -> RetrievalNet:
    return drawn_retrieval(RetrievalConfig("resnet18", attention={4: 4, 5: 2}, dim=64, size=256))


@pytest.fixture
def fresh_cache(model: RetrievalNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No verdicts yet, but the exported network, which takes its time."""
    open_backend(model, "onnxruntime")
    files = (cache_directory() / "backends").glob(f"{fingerprint(model)[:8]}*.onnx")
    (exported,) = (file for file in files if "int8" not in file.name)
    (tmp_path / "cache" / "backends").mkdir(parents=True)
    shutil.copy(exported, tmp_path / "cache" / "backends")
    monkeypatch.setenv("SOLAR_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def photos() -> list[Image.Image]:
    return [toy.landmark(identity, 0) for identity in range(6)]


def cosine(model: RetrievalNet, backend: backends.Backend, photo: Image.Image) -> float:
    ours = model.describe(photo, forward=backend)[0]
    return float(ours @ model.describe(photo)[0])


@pytest.mark.parametrize("name", ["torch", *ENGINES])
def test_float32_backends_give_torchs_descriptor(
    model: RetrievalNet, photos: list[Image.Image], name: str
) -> None:
    backend = open_backend(model, name)
    assert backend.name == name
    assert cosine(model, backend, photos[0]) > 0.99999


@pytest.mark.parametrize("name", ENGINES)
def test_backends_take_batches_of_any_size_as_arrays_and_tensors(
    model: RetrievalNet, name: str
) -> None:
    backend = open_backend(model, name)
    for shape in ((3, 3, 64, 96), (1, 3, 75, 51)):
        images = torch.randn(shape)
        with torch.inference_mode():
            theirs = model(images)
        torch.testing.assert_close(backend(images), theirs, atol=2e-6, rtol=0)
        torch.testing.assert_close(backend(images.numpy()), theirs, atol=2e-6, rtol=0)


def test_a_backend_serves_a_description(model: RetrievalNet, photos: list[Image.Image]) -> None:
    net = BackendNet(model, open_backend(model, "openvino"), model.config.scales)
    pixels = torch.from_numpy(load(photos[0], 256).pixels)
    with torch.inference_mode():
        theirs = model.multiscale(model.normalise(pixels[None]))
    torch.testing.assert_close(net(pixels[None]), theirs, atol=2e-6, rtol=0)


def test_an_adapted_network_runs_on_the_export_of_the_plain_one(
    fresh_cache: None, model: RetrievalNet, photos: list[Image.Image]
) -> None:
    adapted = model.with_adaptation(torch.nn.Linear(64, 24)).requires_grad_(False)
    backend = open_backend(adapted, "onnxruntime")
    assert len(list((cache_directory() / "backends").glob("*.onnx"))) == 1
    assert adapted.describe(photos[0], forward=backend).shape == (1, 24)
    assert cosine(adapted, backend, photos[0]) > 0.99999


@pytest.mark.parametrize("name", ENGINES)
def test_int8_stays_close_to_float32(
    model: RetrievalNet, photos: list[Image.Image], name: str
) -> None:
    backend = open_backend(model, f"{name}-int8", calibration=photos[:4])
    assert backend.name == f"{name}-int8"
    assert 0.9995 < cosine(model, backend, photos[5]) < 0.9999999  # int8 it must be, too


def test_int8_that_is_too_far_from_float32_is_not_used(
    model: RetrievalNet,
    photos: list[Image.Image],
    monkeypatch: pytest.MonkeyPatch,
    fresh_cache: None,
) -> None:
    monkeypatch.setattr(backends, "INT8_COSINE", 1.1)
    with pytest.warns(UserWarning, match=r"onnxruntime-int8 .* onnxruntime is used: .* cosine"):
        backend = open_backend(model, "onnxruntime-int8", calibration=photos[:2])
    assert backend.name == "onnxruntime"


def dying_openvino(folder: Path, monkeypatch: pytest.MonkeyPatch, deadly: str) -> Path:
    """Let children find an openvino that writes down every start, and dies of SIGILL in some."""
    package = folder / "openvino"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import os, pathlib, signal\n"
        f"capped = {libraries.CAP!r} in os.environ\n"
        f"with pathlib.Path({str(folder / 'starts')!r}).open('a') as file:\n"
        "    file.write('capped\\n' if capped else 'free\\n')\n"
        f"if {deadly}:\n"
        "    os.kill(os.getpid(), signal.SIGILL)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    monkeypatch.setattr(libraries, "processor", lambda: "a processor without AMX")
    return folder / "starts"


@pytest.mark.skipif(sys.platform == "win32", reason="signals are not what a crash is there")
def test_a_runtime_that_dies_of_an_illegal_instruction_costs_one_sentence(
    model: RetrievalNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_cache: None
) -> None:
    starts = dying_openvino(tmp_path, monkeypatch, deadly="True")
    with pytest.warns(UserWarning, match=r"torch is used: openvino died of SIGILL") as caught:
        backend = open_backend(model, "openvino")
    assert len(caught) == 1
    assert backend.name == "torch"
    assert starts.read_text().split() == ["free", "capped"]

    with pytest.warns(UserWarning, match="SIGILL"):  # the second time nothing dies
        open_backend(model, "openvino")
    assert starts.read_text().split() == ["free", "capped"]


def test_what_works_only_with_the_cap_runs_with_the_cap(
    tmp_path: Path, model: RetrievalNet, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def die_without_the_cap(runtime_name, file, inputs, threads, cap):  # type: ignore[no-untyped-def]
        tries.append(cap)
        if not cap:
            raise trial._died(runtime_name, -signal.SIGILL, "")
        with torch.inference_mode():
            return [model(torch.from_numpy(batch)).numpy() for batch in inputs]

    monkeypatch.setattr(trial, "run_in_child", die_without_the_cap)
    (tmp_path / "model.onnx").touch()
    monkeypatch.setattr(libraries, "processor", lambda: "a processor without AMX")
    arguments = (backends._noise(), backends.FLOAT32_COSINE, 1)
    verdict = trial.tried_out(model, "openvino", tmp_path / "model.onnx", *arguments)
    assert verdict == trial.Verdict(True, cap=True)
    assert tries == [False, True]

    monkeypatch.setattr(libraries, "processor", lambda: "flags: avx512_vnni amx_tile")
    verdict = trial.tried_out(model, "openvino", tmp_path / "model.onnx", *arguments)
    assert verdict == trial.Verdict(True, cap=True)
    assert tries == [False, True, True]  # where AMX is advertised it is never tried


def test_the_cap_is_set_while_a_runtime_starts_and_gone_afterwards(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen = []

    def fake(file: Path, threads: int) -> libraries.Run:
        seen.append(os.environ.get(libraries.CAP))
        return lambda images: images

    monkeypatch.delenv(libraries.CAP, raising=False)
    monkeypatch.setitem(libraries._RUNTIMES, "openvino", fake)
    libraries.start("openvino", tmp_path, 1, cap=True)
    libraries.start("openvino", tmp_path, 1, cap=False)
    assert seen == ["AVX512_CORE_VNNI", None]
    assert libraries.CAP not in os.environ


def test_wrong_descriptors_are_not_used(
    model: RetrievalNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        trial, "run_in_child", lambda *a: [np.full((len(batch), 64), np.nan) for batch in a[2]]
    )
    (tmp_path / "model.onnx").touch()
    verdict = trial.tried_out(
        model, "openvino", tmp_path / "model.onnx", backends._noise(), backends.FLOAT32_COSINE, 1
    )
    assert not verdict.works


# Users' mistakes.


def test_a_missing_package_is_a_sentence_with_the_extra(
    model: RetrievalNet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SolarError, match=r"openvino.*\[export\]"):
        open_backend(model, "openvino")


def test_an_unknown_backend_is_a_sentence_with_the_names(model: RetrievalNet) -> None:
    with pytest.raises(SolarError, match=r"'tensorrt'.*onnxruntime"):
        open_backend(model, "tensorrt")


def test_int8_without_photos_is_a_sentence(model: RetrievalNet) -> None:
    with pytest.raises(SolarError, match="photos"):
        open_backend(model, "openvino-int8")
