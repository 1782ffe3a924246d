import io
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from support.filled import filled

from solar.demo import toy
from solar.describe import Throughput, device_decoding, settings
from solar.describe import device_decoding as module
from solar.describe.device_decoding import DeviceImage, jpeg_engine
from solar.describe.pipeline import DescribingJob, stack
from solar.describe.runtime import describer
from solar.describe.settings import Settings
from solar.images import DecodedImage, find_photos
from solar.models import RetrievalNet

HERE = Throughput(decoders=2, batch=4)


class StandIn:
    """What a GPU's JPEG engine does, by Pillow, and what it was asked for."""

    def __init__(self, refuse: Sequence[bytes] = ()) -> None:
        self.refuse, self.calls = refuse, list[list[int]]()

    def __call__(self, files: list[torch.Tensor]) -> list[torch.Tensor]:
        contents = [file.numpy().tobytes() for file in files]
        if any(content in self.refuse for content in contents):
            raise RuntimeError("Failed to decode batch: 8")
        images = [Image.open(io.BytesIO(content)).convert("RGB") for content in contents]
        self.calls.append([3 * image.width * image.height for image in images])
        return [torch.from_numpy(np.array(image)).permute(2, 0, 1) for image in images]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos for the device between others that it must not get."""
    folder = tmp_path_factory.mktemp("mixed")
    for i in range(9):
        exif = Image.Exif()
        exif[0x0112] = [1, 6, 3][i % 3]
        photo = toy.landmark(i % 4, i, size=[(160, 120), (100, 140)][i % 2])
        photo.save(folder / f"{i}a.jpg", exif=exif, progressive=i == 4)
    photo.convert("CMYK").save(folder / "1b.jpg")
    photo.convert("L").save(folder / "2b.jpg")
    photo.resize((20, 15)).save(folder / "3b.jpg")
    photo.save(folder / "4b.png")
    (folder / "5b.jpg").write_bytes((folder / "5a.jpg").read_bytes()[:-300])
    (folder / "6b.jpg").write_bytes(b"")
    (folder / "7b.jpg").write_bytes((folder / "7a.jpg").read_bytes() + b"a film")
    return folder


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn()
    monkeypatch.setattr(device_decoding, "jpeg_engine", lambda device: stand_in)
    return stand_in


def decoded(photos: Path, net: RetrievalNet, **changes: object) -> list[device_decoding.Decoded]:
    settings = replace(Settings.of(net, device="cpu"), decoder="device", **changes)
    job = DescribingJob(find_photos(photos), settings, {"0a.jpg": (9.0, 9.0, 80.0, 90.0)}, HERE)
    describe = describer(net, settings)
    return list(job._decoded(range(len(job.photos)), describe))


def test_an_index_is_what_pillow_makes_of_it(
    mixed: Path, tiny: RetrievalNet, tmp_path: Path, engine: StandIn
) -> None:
    boxes = {"0a.jpg": (9.0, 9.0, 80.0, 90.0), "1b.jpg": (0.0, 0.0, 60.0, 50.0)}
    how = {"model": tiny, "boxes": boxes, "throughput": HERE, "rows": 5}
    fast = filled(mixed, tmp_path / "fast", mode="fast", **how)
    exact = filled(mixed, tmp_path / "exact", mode="exact", **how)
    assert sum(map(len, engine.calls)) == 10
    assert fast.paths == exact.paths
    assert fast.skipped == exact.skipped
    assert set(fast.skipped) == {"5b.jpg", "6b.jpg"}
    cosines = (np.asarray(fast.vectors) * np.asarray(exact.vectors)).sum(axis=1)
    assert cosines.min() > 0.9999
    assert list(fast.engine.photos()) == list(exact.engine.photos())  # sizes, EXIF
    assert fast.engine.stamps() == exact.engine.stamps()


def test_the_index_says_which_decoder(
    mixed: Path,
    tiny: RetrievalNet,
    tmp_path: Path,
    engine: StandIn,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    how = {"model": tiny, "throughput": HERE}
    fast = filled(mixed, tmp_path / "s", mode="fast", **how)
    assert (fast.spec.settings["mode"], fast.spec.settings["decoder"]) == ("exact", "device")
    before = len(engine.calls)
    filled(mixed, tmp_path / "s", mode="fast", **how)
    assert len(engine.calls) == before
    monkeypatch.setattr(device_decoding, "jpeg_engine", lambda device: None)
    slow = filled(mixed, tmp_path / "t", mode="fast", **how)
    assert slow.spec.settings["mode"] == "fast"
    assert slow.spec.settings["decoder"] == "pillow"


@pytest.mark.usefixtures("engine")
def test_the_default_is_one_line(
    mixed: Path, tiny: RetrievalNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = filled(mixed, tmp_path / "plain", model=tiny, throughput=HERE)
    assert plain.spec.settings["decoder"] == "pillow"
    monkeypatch.setattr(settings, "GPU_DECODES", True)
    assert filled(mixed, tmp_path / "s", model=tiny).spec.settings["decoder"] == "device"
    exact = filled(mixed, tmp_path / "e", model=tiny, mode="exact")
    assert exact.spec.settings["decoder"] == "pillow"


def test_photos_come_in_order_whatever_the_device_refuses(
    mixed: Path, tiny: RetrievalNet, engine: StandIn
) -> None:
    engine.refuse = [(mixed / f"{i}a.jpg").read_bytes() for i in (1, 7, 8)]
    found = decoded(mixed, tiny)
    assert [number for number, *_ in found] == list(range(16))
    names = find_photos(mixed).names
    there = {names[n] for n, image, _ in found if isinstance(image, DeviceImage)}
    assert there == {*(f"{i}a.jpg" for i in (0, 2, 3, 4, 5, 6))}
    here = {names[n] for n, image, _ in found if isinstance(image, DecodedImage)}
    refused = {"1a.jpg", "7a.jpg", "7b.jpg", "8a.jpg"}  # of 7b, the device gets what is in 7a
    assert here == refused | {"1b.jpg", "2b.jpg", "3b.jpg", "4b.png"}


def test_an_engine_that_always_fails_costs_nothing_but_time(
    mixed: Path, tiny: RetrievalNet, engine: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StandIn, "__call__", lambda self, files: 1 / 0 or [])
    with pytest.raises(ZeroDivisionError):  # a mistake of ours is no refusal
        decoded(mixed, tiny)

    def no_memory(self: StandIn, files: list[torch.Tensor]) -> list[torch.Tensor]:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(StandIn, "__call__", no_memory)
    images = [image for _, image, _ in decoded(mixed, tiny)]
    assert sum(isinstance(image, DecodedImage) for image in images) == 14


def test_a_photo_of_another_size_than_its_header_says_is_left_to_pillow(
    mixed: Path, tiny: RetrievalNet, engine: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        StandIn, "__call__", lambda self, files: [torch.zeros(3, 8, 8).byte() for _ in files]
    )
    assert not any(isinstance(image, DeviceImage) for _, image, _ in decoded(mixed, tiny))


def test_groups_keep_to_their_budget_and_larger_photos_go_to_pillow(
    mixed: Path, tiny: RetrievalNet, engine: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GROUP_BYTES", 3 * 160 * 120 + 3 * 100 * 140)
    monkeypatch.setattr(module, "_STACKED_BYTES", 3 * 160 * 120)
    assert sum(isinstance(image, DeviceImage) for _, image, _ in decoded(mixed, tiny)) == 10
    assert max(map(len, engine.calls)) == 2
    assert max(map(sum, engine.calls)) <= module.GROUP_BYTES
    monkeypatch.setattr(module, "LARGEST_PHOTO", 3 * 160 * 120 - 1)
    found = [image for _, image, _ in decoded(mixed, tiny) if isinstance(image, DeviceImage)]
    assert len(found) == 5
    monkeypatch.setattr(module, "LARGEST_FILE", 100)
    assert not any(isinstance(image, DeviceImage) for _, image, _ in decoded(mixed, tiny))


def test_no_more_files_are_read_ahead_than_asked_for(
    mixed: Path, tiny: RetrievalNet, engine: StandIn
) -> None:
    job = DescribingJob(find_photos(mixed), Settings.of(tiny), {}, HERE)
    read: list[int] = []

    def plan(number: int, data: bytes) -> None:
        read.append(number)

    run = module.DeviceDecoding(job.photos, plan, job.decode, engine, torch.device("cpu"), 1)
    module_group, module.GROUP = module.GROUP, 2
    try:
        stream = run.stream(range(16), 3)
        assert next(stream)[0] == 0
        assert len(read) <= 2 + 3 + 2
    finally:
        module.GROUP = module_group
        stream.close()


def test_a_model_that_wants_squares_is_left_to_pillow(tiny: RetrievalNet, engine: StandIn) -> None:
    from solar.images.resize import Square

    square = replace(Settings.of(tiny), square=Square())
    assert square.fitted("fast", "torch").decoder == "pillow"
    assert Settings.of(tiny).fitted("fast", "torch").decoder == "device"


def test_photos_from_the_device_and_from_pillow_share_a_batch() -> None:
    one, other = np.full((2, 3, 3), 7, np.uint8), torch.full((2, 3, 3), 9, dtype=torch.uint8)
    batch = stack([one, other], torch.device("cpu"))
    assert batch[0].eq(7).all()
    assert batch[1].eq(9).all()


def test_a_cpu_has_no_jpeg_engine() -> None:
    assert jpeg_engine(torch.device("cpu")) is None


def test_a_torchvision_that_does_not_work_is_as_good_as_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[int, object, object]] = []

    def decode_jpeg(files: list[torch.Tensor], mode: str, device: torch.device) -> list[str]:
        asked.append((len(files), mode, device))
        return ["pixels"] * len(files)

    io_module = SimpleNamespace(ImageReadMode=SimpleNamespace(RGB="RGB"), decode_jpeg=decode_jpeg)
    monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace(io=io_module))
    monkeypatch.setitem(sys.modules, "torchvision.io", io_module)
    monkeypatch.setattr(module, "_staged", lambda data, device: torch.zeros(len(data)))
    gpu = torch.device("cuda:1")
    engine = jpeg_engine(gpu)
    assert engine is not None
    assert engine([torch.zeros(3), torch.zeros(4)]) == ["pixels", "pixels"]
    assert asked == [(1, "RGB", gpu), (2, "RGB", gpu)]

    def broken(*_: object) -> None:
        raise RuntimeError("operator image::decode_jpegs_cuda does not exist")

    io_module.decode_jpeg = broken
    assert jpeg_engine(gpu) is None
    monkeypatch.setitem(sys.modules, "torchvision.io", None)  # which is how it is missing
    assert jpeg_engine(gpu) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_decodes_nearly_as_pillow_does(
    mixed: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    pytest.importorskip("torchvision", reason="needs torchvision beside a CUDA torch")
    how = {"model": tiny, "device": "cuda", "throughput": HERE}
    fast = filled(mixed, tmp_path / "fast", mode="fast", **how)
    exact = filled(mixed, tmp_path / "exact", mode="exact", **how)
    assert fast.spec.settings["decoder"] == "device"
    assert (fast.paths, fast.skipped) == (exact.paths, exact.skipped)
    assert (np.asarray(fast.vectors) * np.asarray(exact.vectors)).sum(axis=1).min() > 0.999


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_shrinks_as_a_cpu_does() -> None:
    from solar.images.gpu import shrink

    photos = torch.randint(0, 256, (2, 3, 800, 1100), dtype=torch.uint8)
    there = shrink(photos.cuda(), 512, 372).cpu()
    difference = (there.int() - shrink(photos, 512, 372).int()).abs()
    assert difference.max() <= 1
    assert difference.float().mean() < 1e-4
