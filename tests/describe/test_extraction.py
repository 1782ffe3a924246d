import io
import json
import multiprocessing
import os
import random
import re
import signal
import subprocess
import tarfile
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from support.running import command, refused, solar

from solar.demo import toy
from solar.describe import Store, Throughput, extract
from solar.errors import SolarError
from solar.images import find_photos
from solar.models import RetrievalConfig, RetrievalNet, save
from solar.models import load as load_model

HERE = Throughput(decoders=0, batch=4)


def content(store: Path) -> dict[str, bytes]:
    """Every file of a store but its lock, which is always empty."""
    return {p.name: p.read_bytes() for p in store.iterdir() if p.name != ".lock"}


def test_rows_are_what_the_model_gives_photo_by_photo_in_the_order_of_the_source(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    store = extract(photos, tmp_path / "s", model=tiny, throughput=HERE, shard_size=10)
    names = [n for n in find_photos(photos).names if n.startswith("landmark")]
    assert store.names == names
    single = tiny.describe([photos / name for name in names])
    cosines = (store.vectors() * single).sum(axis=1)
    assert cosines.min() > 1 - 1e-4
    assert store.sizes[names.index("landmark-0/00.png")].tolist() == [64, 48]


def test_unreadable_photos_are_recorded_with_their_reason(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    store = extract(photos, tmp_path / "s", model=tiny, throughput=HERE)
    assert set(store.failures) == {"broken.jpg", "empty.png", "text.webp"}
    assert all("." in reason for reason in store.failures.values())


def test_decoding_in_other_threads_gives_the_same_store(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    extract(photos, tmp_path / "here", model=tiny, throughput=HERE)
    extract(photos, tmp_path / "there", model=tiny, throughput=Throughput(decoders=2, batch=4))
    assert content(tmp_path / "here") == content(tmp_path / "there")


def test_a_tar_shard_and_a_list_give_the_same_vectors_as_the_folder(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    names = find_photos(photos).names
    with tarfile.open(tmp_path / "shard.tar", "w") as tar:
        for name in names:
            tar.add(photos / name, name)
    (tmp_path / "list.txt").write_text("\n".join(str(photos / name) for name in names))
    sources = (photos, tmp_path / "shard.tar", tmp_path / "list.txt")
    stores = [
        extract(source, tmp_path / f"s{i}", model=tiny, throughput=HERE)
        for i, source in enumerate(sources)
    ]
    for store in stores[1:]:
        np.testing.assert_array_equal(store.vectors(), stores[0].vectors())


def test_a_finished_store_is_not_computed_again(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    extract(photos, tmp_path / "s", model=tiny, throughput=HERE)
    counted: list[tuple[str, int, int]] = []
    extract(
        photos, tmp_path / "s", model=tiny, throughput=HERE, progress=lambda *n: counted.append(n)
    )
    assert counted == []


def test_another_model_other_settings_or_other_photos_are_refused(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    extract(photos / "landmark-0", tmp_path / "s", model=tiny, throughput=HERE)
    with pytest.raises(SolarError, match="size"):
        extract(photos / "landmark-0", tmp_path / "s", model=tiny, size=32, throughput=HERE)
    with pytest.raises(SolarError):
        extract(photos / "landmark-1", tmp_path / "s", model=tiny, throughput=HERE)
    other = RetrievalNet(RetrievalConfig("resnet18", dim=16, size=64, scales=(1.0,)))
    with pytest.raises(SolarError, match="model"):
        extract(photos / "landmark-0", tmp_path / "s", model=other, throughput=HERE)
    boxes = {"00.png": (0.0, 0.0, 20.0, 20.0)}
    with pytest.raises(SolarError, match="boxes"):
        extract(photos / "landmark-0", tmp_path / "s", model=tiny, boxes=boxes, throughput=HERE)


def test_boxes_are_cut_out_of_the_photos_they_belong_to(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    box = (5.0, 4.0, 45.0, 40.0)
    folder = photos / "landmark-0"
    store = extract(folder, tmp_path / "s", model=tiny, boxes={"00.png": box}, throughput=HERE)
    boxed = tiny.describe(folder / "00.png", box=box)[0]
    np.testing.assert_allclose(store.vectors(store.rows_of(["00.png"]))[0], boxed, atol=1e-5)
    whole = tiny.describe(folder / "04.png")[0]
    np.testing.assert_allclose(store.vectors(store.rows_of(["04.png"]))[0], whole, atol=1e-5)


def test_a_patch_model_is_refused(photos: Path, tmp_path: Path) -> None:
    from solar.models import PatchNet

    path = save(PatchNet(), tmp_path / "local.safetensors")
    with pytest.raises(SolarError, match="patches"):
        extract(photos, tmp_path / "s", model=path)


def test_fast_decoding_stays_close_to_exact(tiny: RetrievalNet, tmp_path: Path) -> None:
    (tmp_path / "large").mkdir()
    for i in range(6):
        toy.landmark(i, 0, size=(480, 360)).save(tmp_path / "large" / f"{i}.jpg", quality=90)
    exact, fast = (
        extract(
            tmp_path / "large", tmp_path / mode, model=tiny, size=96, mode=mode, throughput=HERE
        )
        for mode in ("exact", "fast")
    )
    assert not np.array_equal(exact.vectors(), fast.vectors())  # the scaled decoder was used
    assert (exact.vectors() * fast.vectors()).sum(axis=1).min() > 0.999


# Kills. The children are forked, so that they start at once.


def _extract_in_child(photos: Path, store: Path, net: RetrievalNet) -> None:
    torch.set_num_threads(1)
    extract(photos, store, model=net, throughput=HERE, shard_size=1)


def test_a_store_killed_twenty_times_equals_one_that_was_not(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    fork, rng = multiprocessing.get_context("fork"), random.Random(0)
    whole, killed = tmp_path / "whole", tmp_path / "killed"

    def start(store: Path) -> multiprocessing.process.BaseProcess:
        child = fork.Process(target=_extract_in_child, args=(photos, store, tiny))
        child.start()
        return child

    began = time.monotonic()
    child = start(whole)
    child.join()
    assert child.exitcode == 0
    a_shard = (time.monotonic() - began) / len(list(whole.glob("*.jsonl")))

    for kill in range(20):
        before = len(list(killed.glob("*.jsonl")))
        child = start(killed)
        # Every third time once it has come further, so that moments of all kinds are met.
        while kill % 3 == 1 and len(list(killed.glob("*.jsonl"))) == before and child.is_alive():
            time.sleep(0.001)
        child.join(rng.uniform(0, a_shard))
        assert child.exitcode is None  # still at work
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
    assert 0 < len(Store.open(killed, allow_partial=True)) < len(Store.open(whole))
    child = start(killed)
    child.join()
    assert child.exitcode == 0
    assert content(killed) == content(whole)
    assert Store.open(killed).check() == []


# The command.


def test_the_command_describes_counts_and_resumes(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    model = save(tiny, tmp_path / "tiny.safetensors")
    command = ("extract", photos, "--model", model, "-o", tmp_path / "s", "--decoders", 1, "--json")
    first = json.loads(solar(*command).stdout)
    assert (first["photos"], first["described"], first["failed"]) == (27, 24, 3)
    assert first["processed_now"] == 27
    again = solar(*command, "--strict", expect=1)
    assert json.loads(again.stdout)["processed_now"] == 0
    assert "broken.jpg" in again.stderr


def test_an_interrupted_command_says_so_and_loses_nothing(
    tiny: RetrievalNet, tmp_path: Path
) -> None:
    photos = tmp_path / "shard.tar"
    buffer = io.BytesIO()
    toy.landmark(0, 0, size=(64, 48)).save(buffer, "PNG")
    with tarfile.open(photos, "w") as tar:
        for i in range(4000):
            info = tarfile.TarInfo(f"{i:04}.png")
            info.size = len(buffer.getvalue())
            tar.addfile(info, io.BytesIO(buffer.getvalue()))
    model = save(tiny, tmp_path / "tiny.safetensors")
    options = ("--model", model, "-o", tmp_path / "s", "--shard-size", 8)
    start = command("extract", photos, *options)
    child = subprocess.Popen(start, stderr=subprocess.PIPE, text=True)
    while not list((tmp_path / "s").glob("shard-*.jsonl")):
        assert child.poll() is None
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=30)
    assert child.returncode == 130
    assert "Traceback" not in said
    store = Store.open(tmp_path / "s", allow_partial=True)
    assert 0 < len(store) < 4000
    assert all("lacks shard" in problem for problem in store.check())


def test_a_source_without_photos_is_one_sentence(tiny: RetrievalNet, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    told = refused("extract", tmp_path / "nothing", "--model", "solar-r18", "-o", tmp_path / "s")
    assert told.startswith("solar: There is no photo in")


@pytest.mark.parametrize("backend", ["openvino", "onnxruntime"])
def test_another_backend_gives_the_same_vectors_and_is_recorded(
    photos: Path, tiny: RetrievalNet, tmp_path: Path, backend: str
) -> None:
    pytest.importorskip(backend, reason="needs the extra export")
    store = extract(photos, tmp_path / "s", model=tiny, throughput=HERE, backend=backend)
    plain = extract(photos, tmp_path / "plain", model=tiny, throughput=HERE)
    assert store.settings["backend"] == backend
    assert (store.vectors() * plain.vectors()).sum(axis=1).min() > 0.99999
    with pytest.raises(SolarError, match="backend"):
        extract(photos, tmp_path / "s", model=tiny, throughput=HERE)


def test_a_cluster_refuses_another_backend(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    with pytest.raises(SolarError, match="`backend=`"):
        extract(photos, tmp_path / "s", model=tiny, workers=1, backend="openvino")


def test_the_store_names_what_the_network_was_loaded_from(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    path = save(tiny, tmp_path / "tiny.safetensors")
    folder = photos / "landmark-0"
    by_path = extract(folder, tmp_path / "s", model=path, throughput=HERE)
    assert by_path.model == str(path.resolve())
    loaded = load_model(path, device="cpu")
    assert isinstance(loaded, RetrievalNet)
    assert extract(folder, tmp_path / "s", model=loaded, throughput=HERE).model == by_path.model


@pytest.mark.parametrize("size", [(1, 9), (7, 9), (9, 7)])
def test_a_photo_with_too_little_to_see_fails_alone(
    tiny: RetrievalNet, tmp_path: Path, size: tuple[int, int]
) -> None:
    (tmp_path / "dots").mkdir()
    for name, shape in (("small.png", size), ("enough.png", (8, 9))):
        toy.landmark(0, 0, size=(64, 48)).resize(shape).save(tmp_path / "dots" / name)
    store = extract(tmp_path / "dots", tmp_path / "s", model=tiny, scales=(1.0, 0.5))
    assert store.names == ["enough.png"]
    place, (width, height) = tmp_path / "dots" / "small.png", size
    assert list(store.failures) == ["small.png"]
    assert re.search(f"{re.escape(str(place))}.* {width} × {height} ", store.failures["small.png"])


def test_a_misspelt_setting_is_refused_with_those_that_exist(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    known = r"'sice': choose from size, scales, "
    with pytest.raises(TypeError, match=known):
        extract(photos, tmp_path / "s", model=tiny, sice=32)
    assert not (tmp_path / "s").exists()
