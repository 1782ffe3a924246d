import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from support.drawn import drawn_retrieval

from solar.cli import app
from solar.cli import describe as command
from solar.describe.network import Network
from solar.errors import SolarError
from solar.models import RetrievalConfig, RetrievalNet, load, save


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    net = drawn_retrieval(RetrievalConfig("resnet18", attention={4: 4, 5: 2}, size=64))
    return str(save(net, tmp_path_factory.mktemp("weights") / "net.safetensors"))


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    names = [folder / name for name in ("a.png", "[b]\x1b.png", "café.png")]
    for name, side in zip(names, (60, 100, 160), strict=True):
        Image.fromarray(rng.integers(0, 256, (side, 128, 3), dtype=np.uint8)).save(name)
    return names


def describe(*arguments: object) -> None:
    app(["describe", *map(str, arguments)], standalone_mode=False)


@pytest.mark.parametrize("box", [None, (10.0, 5.0, 100.0, 55.0)])
def test_rows_are_those_of_the_network(
    model: str, photos: list[Path], tmp_path: Path, box: tuple[float, ...] | None
) -> None:
    out = tmp_path / "new" / "folder" / "out.npy"
    given = () if box is None else ("--box", ",".join(map(str, box)))
    describe(*photos, "--model", model, *given, "--device", "cpu", "-o", out)
    network = load(model, device="cpu")
    assert isinstance(network, RetrievalNet)
    expected = network.describe(photos, box=box)
    assert np.load(out).dtype == np.float32
    np.testing.assert_array_equal(np.load(out), expected)
    describe(*photos, "--model", model, *given, "--device", "cpu", "--compress", "fp16", "-o", out)
    np.testing.assert_array_equal(np.load(out), expected.astype(np.float16))


def test_each_photo_may_have_its_box(model: str, photos: list[Path], tmp_path: Path) -> None:
    out, two = tmp_path / "out.npy", photos[:2]
    describe(*two, "--model", model, "--box", "10,5,100,55", "--box", "-", "-o", out)
    network = load(model, device="cpu")
    assert isinstance(network, RetrievalNet)
    expected = [network.describe([two[0]], box=(10, 5, 100, 55))[0], network.describe([two[1]])[0]]
    np.testing.assert_allclose(np.load(out), expected, atol=1e-6)
    with pytest.raises(SolarError, match="3 photos and 2 boxes"):
        describe(*photos, "--box", "-", "--box", "-", "-o", out)


def test_a_backend_describes_as_extract_does(
    model: str, photos: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    class Doubled:
        backend = "openvino-int8"

        def __init__(self, network: Network) -> None:
            self.network, self.device = network.net, network.device

        def __call__(self, pixels: object) -> object:
            with torch.inference_mode():
                return 2 * self.network.multiscale(self.network.normalise(pixels))

    def describer(network: Network, settings: object, photos: object, *, singly: bool) -> Doubled:
        asked.append((settings, photos))
        return Doubled(network)

    monkeypatch.setattr("solar.describe.runtime.describer", describer)
    describe(*photos, "--model", model, "--backend", "openvino-int8", "-o", tmp_path / "out.npy")
    rows = np.load(tmp_path / "out.npy")
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 2, atol=1e-5)
    [(settings, examples)] = asked
    assert (settings.backend, settings.device) == ("openvino-int8", "cpu")
    assert examples.places == tuple(photos)  # int8 takes its ranges from them


@pytest.fixture
def bad(tmp_path: Path) -> dict[str, Path]:
    found = {name: tmp_path / f"{name}.jpg" for name in ("missing", "folder", "pipe", "text")}
    found["folder"].mkdir()
    os.mkfifo(found["pipe"])
    found["text"].write_text("not a photo")
    return found


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("missing", "There is no photo"),
        ("folder", "is a folder"),
        ("pipe", "is a pipe"),
        ("text", "is not a photo"),
    ],
)
def test_names_are_checked_before_any_work(
    bad: dict[str, Path],
    photos: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    told: str,
) -> None:
    monkeypatch.setattr("solar.models.load", lambda *_, **__: pytest.fail("work began"))
    with pytest.raises(SolarError, match=told) as error:
        describe(photos[0], bad[kind], "-o", tmp_path / "out.npy")
    assert str(bad[kind]) in str(error.value)
    assert not (tmp_path / "out.npy").exists()


def test_a_photo_that_cannot_be_decoded_ends_it_and_nothing_is_written(
    model: str, photos: list[Path], tmp_path: Path
) -> None:
    out, torn = tmp_path / "out" / "out.npy", tmp_path / "torn.jpg"
    torn.write_bytes(photos[0].read_bytes()[:-200])
    with pytest.raises(SolarError, match=r"torn\.jpg"):
        describe(photos[0], torn, "--model", model, "-o", out)
    assert not list(out.parent.iterdir())


@pytest.mark.parametrize("reported", [False, True])
def test_bad_photos_are_left_out_where_asked(
    model: str,
    bad: dict[str, Path],
    photos: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    reported: bool,
) -> None:
    out, report = tmp_path / "out.npy", tmp_path / "report.json"
    mixed = [photos[0], bad["missing"], photos[1], bad["text"], bad["pipe"], photos[2]]
    how = ("--report", report) if reported else ("--skip-bad",)
    describe(*mixed, "--model", model, "--device", "cpu", *how, "-o", out)
    network = load(model, device="cpu")
    assert isinstance(network, RetrievalNet)
    np.testing.assert_array_equal(np.load(out), network.describe(photos))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"Described 3 photos, skipped 3 → {out}"
    assert [Path(line.split(".jpg")[0]).name for line in lines[1:]] == ["missing", "text", "pipe"]
    assert report.exists() == reported
    if reported:
        told = json.loads(report.read_text(encoding="utf-8"))
        assert told["described"] == 3
        assert told["photos"] == list(map(str, photos))
        assert {one["path"] for one in told["skipped"]} == {
            str(bad[name]) for name in ("missing", "pipe", "text")
        }


def test_an_output_that_cannot_be_written_is_told_before_photos_are_read(
    model: str, photos: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_runner", lambda *_: pytest.fail("work began"))
    (tmp_path / "file").touch()
    with pytest.raises(SolarError, match="file is a file, not a folder"):
        describe(photos[0], "--model", model, "-o", tmp_path / "file" / "out.npy")
