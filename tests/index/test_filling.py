import io
import itertools
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from support.filled import content, filled, named, segments, written
from support.running import command, refused, solar

from solar.demo import toy
from solar.describe import Throughput
from solar.errors import PassingError, SolarError
from solar.images import find_photos
from solar.index import Index
from solar.models import RetrievalConfig, RetrievalNet, save
from solar.models import load as load_model
from solar.storage.catalogue import Metadata
from solar.storage.folder_engine import FolderEngine, finished
from solar.storage.protocol import Piece

HERE = Throughput(decoders=0, batch=4)


def test_rows_are_what_the_model_gives_photo_by_photo_in_the_order_of_the_source(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    index = filled(photos, tmp_path / "s", model=tiny, throughput=HERE, rows=10)
    names = [n for n in find_photos(photos).names if n.startswith("landmark")]
    assert index.paths == names
    single = tiny.describe([photos / name for name in names])
    cosines = (np.asarray(index.vectors) * single).sum(axis=1)
    assert cosines.min() > 1 - 1e-4
    photo = index.photo("landmark-0/00.png")
    assert (photo.width, photo.height) == (64, 48)
    assert [segment.rows for segment in segments(tmp_path / "s")] == [8, 10, 6]


def test_unreadable_photos_are_recorded_with_their_reason(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    index = filled(photos, tmp_path / "s", model=tiny, throughput=HERE)
    assert set(index.skipped) == {"broken.jpg", "empty.png", "text.webp"}
    assert all("." in reason for reason in index.skipped.values())


def test_decoding_in_other_threads_gives_the_same_store(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    filled(photos, tmp_path / "here", model=tiny, throughput=HERE)
    filled(photos, tmp_path / "there", model=tiny, throughput=Throughput(decoders=2, batch=4))
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
    indexes = [
        filled(source, tmp_path / f"s{i}", model=tiny, throughput=HERE)
        for i, source in enumerate(sources)
    ]
    for index in indexes[1:]:
        np.testing.assert_array_equal(np.asarray(index.vectors), np.asarray(indexes[0].vectors))


def test_a_finished_index_is_not_computed_again(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    filled(photos, tmp_path / "s", model=tiny, throughput=HERE)
    counted: list[tuple[str, int, int]] = []
    filled(
        photos, tmp_path / "s", model=tiny, throughput=HERE, progress=lambda *n: counted.append(n)
    )
    assert counted == []


def test_another_model_or_other_settings_are_refused(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    filled(photos / "landmark-0", tmp_path / "s", model=tiny, throughput=HERE)
    with pytest.raises(SolarError, match="size"):
        filled(photos / "landmark-0", tmp_path / "s", model=tiny, size=32, throughput=HERE)
    other = RetrievalNet(RetrievalConfig("resnet18", dim=16, size=64, scales=(1.0,)))
    with pytest.raises(SolarError, match="model"):
        filled(photos / "landmark-0", tmp_path / "s", model=other, throughput=HERE)


def test_boxes_are_cut_out_of_the_photos_they_belong_to(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    box = (5.0, 4.0, 45.0, 40.0)
    folder = photos / "landmark-0"
    index = filled(folder, tmp_path / "s", model=tiny, boxes={"00.png": box}, throughput=HERE)
    found = index.lookup(["00.png", "04.png"])
    boxed = tiny.describe(folder / "00.png", box=box)[0]
    np.testing.assert_allclose(found["00.png"][1], boxed, atol=1e-5)
    whole = tiny.describe(folder / "04.png")[0]
    np.testing.assert_allclose(found["04.png"][1], whole, atol=1e-5)


def test_a_patch_model_is_refused(photos: Path, tmp_path: Path) -> None:
    from solar.models import PatchNet

    path = save(PatchNet(), tmp_path / "local.safetensors")
    with pytest.raises(SolarError, match="patches"):
        filled(photos, tmp_path / "s", model=path)


def test_fast_decoding_stays_close_to_exact(tiny: RetrievalNet, tmp_path: Path) -> None:
    (tmp_path / "large").mkdir()
    for i in range(6):
        toy.landmark(i, 0, size=(480, 360)).save(tmp_path / "large" / f"{i}.jpg", quality=90)
    exact, fast = (
        filled(tmp_path / "large", tmp_path / mode, model=tiny, size=96, mode=mode, throughput=HERE)
        for mode in ("exact", "fast")
    )
    assert not np.array_equal(
        np.asarray(exact.vectors), np.asarray(fast.vectors)
    )  # the scaled decoder was used
    assert (np.asarray(exact.vectors) * np.asarray(fast.vectors)).sum(axis=1).min() > 0.999


# Files.


def test_every_photo_is_opened_once(
    photos: Path, tiny: RetrievalNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pixels, size, EXIF and digest come from one reading."""
    opened: list[str] = []
    watching = [True]

    def look(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and watching and str(arguments[0]).startswith(str(photos)):
            opened.append(str(arguments[0]))

    sys.addaudithook(look)  # which cannot be removed
    index = filled(photos, tmp_path / "s", model=tiny, throughput=HERE)
    files = [name for name in opened if Path(name).suffix]
    watching.clear()
    assert len(index) == 24
    assert sorted(files) == sorted(str(photos / name) for name in find_photos(photos).names)


def test_an_embedding_is_written_once(photos: Path, tiny: RetrievalNet, tmp_path: Path) -> None:
    """All that is written to files of the index, against what it takes on the disk."""
    torch.manual_seed(0)
    wide = RetrievalNet(RetrievalConfig("resnet18", dim=4096, size=64, scales=(1.0,))).eval()
    wrote = 0
    write = Path.write_bytes

    def counted(path: Path, data: bytes) -> int:
        nonlocal wrote
        wrote += memoryview(data).nbytes
        return write(path, data)

    with patch.object(Path, "write_bytes", counted):
        index = filled(photos, tmp_path / "s", model=wide, throughput=HERE, rows=8)
    assert wrote == index.vectors.nbytes


# Kills. The children are forked, so that they start at once.


def _fill_in_child(photos: Path, place: Path, net: RetrievalNet) -> None:
    torch.set_num_threads(1)
    filled(photos, place, model=net, throughput=HERE, rows=1)


def test_an_index_killed_twenty_times_equals_one_that_was_not(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    fork, rng = multiprocessing.get_context("fork"), random.Random(0)
    whole, killed = tmp_path / "whole", tmp_path / "killed"

    def start(place: Path) -> multiprocessing.process.BaseProcess:
        child = fork.Process(target=_fill_in_child, args=(photos, place, tiny))
        child.start()
        return child

    began = time.monotonic()
    child = start(whole)
    child.join()
    assert child.exitcode == 0
    a_segment = (time.monotonic() - began) / len(written(whole))

    kept: dict[str, int] = {}
    for kill in range(20):
        child = start(killed)
        # At any moment, but never after more than one further segment: the next run may be faster
        # than the first one was. Every third time after that segment.
        until = time.monotonic() + rng.uniform(0, a_segment)
        while len(named(killed)) <= len(kept) and child.is_alive():
            if kill % 3 != 1 and time.monotonic() > until:
                break
            time.sleep(0.001)
        assert child.exitcode is None  # still at work
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        assert not finished(killed)
        kept = {name: when for name, when in written(killed).items() if name in named(killed)}
    assert 0 < len(kept) < len(written(whole))
    child = start(killed)
    child.join()
    assert child.exitcode == 0
    assert content(killed) == content(whole)
    assert kept.items() <= written(killed).items()  # nothing was described twice
    assert written(killed).keys() == written(whole).keys()


def test_death_before_any_file_operation_loses_nothing(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    """Kill a run before its 1st, 2nd, … operation on a file of the index, until one succeeds."""
    fork = multiprocessing.get_context("fork")
    some = [photos / "landmark-0", photos / "broken.jpg"]

    def work(place: Path, left: int) -> None:
        torch.set_num_threads(1)

        def strike(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal left
            if event in {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"} and str(
                arguments[0]
            ).startswith(str(place)):
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1

        sys.addaudithook(strike)
        filled(some, place, model=tiny, throughput=HERE, rows=3)

    filled(some, tmp_path / "whole", model=tiny, throughput=HERE, rows=3).close()
    expected = content(tmp_path / "whole")
    for deaths in itertools.count():
        place = tmp_path / f"killed {deaths}"
        child = fork.Process(target=work, args=(place, deaths))
        child.start()
        child.join()
        if child.exitcode == 0:
            break
        assert child.exitcode == -signal.SIGKILL
        kept = {name: when for name, when in written(place).items() if name in named(place)}
        filled(some, place, model=tiny, throughput=HERE, rows=3).close()
        assert content(place) == expected, f"operation {deaths}"
        assert kept.items() <= written(place).items(), "a segment was described again"
        assert sorted(file.name for file in place.iterdir()) == sorted(
            file.name for file in (tmp_path / "whole").iterdir()
        )
    assert deaths > 30


def test_content_is_on_the_disk_before_its_name_is(
    photos: Path, tiny: RetrievalNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut cannot be had in a test; the order of the calls that guard against it can."""
    calls: list[str] = []
    fsync, replace, commit = os.fsync, Path.replace, FolderEngine.fill

    def logged_fsync(number: int) -> None:
        calls.append("sync folder" if stat.S_ISDIR(os.fstat(number).st_mode) else "sync file")
        fsync(number)

    def logged_replace(source: Path, target: Path) -> Path:
        calls.append(f"name {target.suffix}")
        return replace(source, target)

    def logged_fill(engine: FolderEngine, piece: Piece) -> None:
        calls.append("begin")
        commit(engine, piece)
        calls.append("end")

    monkeypatch.setattr(os, "fsync", logged_fsync)
    monkeypatch.setattr(Path, "replace", logged_replace)
    monkeypatch.setattr(FolderEngine, "fill", logged_fill)
    filled(photos / "landmark-0", tmp_path / "s", model=tiny, throughput=HERE)
    piece = calls[calls.index("begin") : calls.index("end")]
    folder = ["sync folder"] if os.name != "nt" else []
    assert piece == ["begin", "sync file", "name .f32", *folder]
    with Metadata(tmp_path / "s").writing() as view:
        assert view.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert view.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_build_interrupted_halfway_describes_only_what_was_in_flight_again(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    def stop(_: str, done: int, total: int) -> None:
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        filled(photos, tmp_path / "s", model=tiny, throughput=HERE, rows=4, progress=stop)
    with Index.open(tmp_path / "s") as index:
        assert index.info()["unfinished"] is True
        there = len(index) + len(index.skipped)
    assert there == 12  # of 27, and of the next four some were described
    counted: list[tuple[str, int, int]] = []
    told = {"progress": lambda *n: counted.append(n), "rows": 4}
    index = filled(photos, tmp_path / "s", model=tiny, throughput=HERE, **told)
    assert counted[-1] == ("Describing", 27 - there, 27 - there)
    assert "unfinished" not in index.info()
    filled(photos, tmp_path / "whole", model=tiny, throughput=HERE, rows=4).close()
    assert content(tmp_path / "s") == content(tmp_path / "whole")
    assert written(tmp_path / "s").keys() == written(tmp_path / "whole").keys()


def test_a_second_run_is_refused_while_one_describes(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    def meanwhile(_: str, done: int, __: int) -> None:
        if done == 0:
            with pytest.raises(PassingError, match="Another run"):
                filled(photos, tmp_path / "s", model=tiny, throughput=HERE)

    filled(photos, tmp_path / "s", model=tiny, throughput=HERE, progress=meanwhile)
    assert len(Index.open(tmp_path / "s")) == 24


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounts a small disk")
def test_a_full_disk_is_called_so_and_the_build_goes_on_once_there_is_room(
    photos: Path, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    wide = RetrievalNet(RetrievalConfig("resnet18", dim=8192, size=64, scales=(1.0,))).eval()
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", disk]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("may not mount a small disk here")
    try:
        with pytest.raises(SolarError, match="disk is full"):
            filled(photos, disk / "s", model=wide, throughput=HERE, rows=2)
        kept = {
            name: when for name, when in written(disk / "s").items() if name in named(disk / "s")
        }
        assert len(kept) > 2
        subprocess.run(["mount", "-o", "remount,size=32m", disk], check=True)
        assert len(filled(photos, disk / "s", model=wide, throughput=HERE, rows=2)) == 24
        assert kept.items() <= written(disk / "s").items()
        content(disk / "s")
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


# The command.


def test_the_command_describes_counts_and_resumes(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    model = save(tiny, tmp_path / "tiny.safetensors")
    build = ("index", "build", photos, "--model", model, "-o", tmp_path / "s", "--decoders", 1)
    first = solar(*build, "--json", "--strict", expect=1)
    told = json.loads(first.stdout)
    assert (told["photos"], told["skipped"], told["processed_now"]) == (24, 3, 27)
    assert "broken.jpg" in first.stderr
    assert "already" in solar(*build, expect=2).stderr


def test_an_interrupted_command_says_so_and_loses_nothing(tmp_path: Path) -> None:
    photos, place = tmp_path / "shard.tar", tmp_path / "s"
    buffer = io.BytesIO()
    toy.landmark(0, 0, size=(64, 48)).save(buffer, "PNG")
    with tarfile.open(photos, "w") as tar:
        for i in range(4000):
            info = tarfile.TarInfo(f"{i:04}.png")
            info.size = len(buffer.getvalue())
            tar.addfile(info, io.BytesIO(buffer.getvalue()))
    slow = RetrievalNet(RetrievalConfig("resnet18", size=64, scales=(1.0,)))  # seconds a segment
    model = save(slow, tmp_path / "slow.safetensors")
    start = command("index", "build", photos, "--model", model, "--backend", "torch", "-o", place)
    child = subprocess.Popen(start, stderr=subprocess.PIPE, text=True)
    while not named(place):
        assert child.poll() is None
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "Traceback" not in said
    with Index.open(place) as index:
        assert index.check() == []
        assert 0 < len(index) < 4000


def test_a_source_without_photos_is_one_sentence(tiny: RetrievalNet, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    told = refused(
        "index", "build", tmp_path / "nothing", "--model", "solar-r18", "-o", tmp_path / "s"
    )
    assert told.startswith("solar: There is no photo in")


@pytest.mark.parametrize("backend", ["openvino", "onnxruntime"])
def test_another_backend_gives_the_same_vectors_and_is_recorded(
    photos: Path, tiny: RetrievalNet, tmp_path: Path, backend: str
) -> None:
    pytest.importorskip(backend, reason="needs the extra export")
    index = filled(photos, tmp_path / "s", model=tiny, throughput=HERE, backend=backend)
    plain = filled(photos, tmp_path / "plain", model=tiny, throughput=HERE, backend="torch")
    assert index.spec.settings["backend"] == backend
    assert (np.asarray(index.vectors) * np.asarray(plain.vectors)).sum(axis=1).min() > 0.99999


def test_a_cluster_refuses_another_backend(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    with pytest.raises(SolarError, match="`backend=`"):
        filled(photos, tmp_path / "s", model=tiny, workers=1, backend="openvino")


def test_the_index_names_what_the_network_was_loaded_from(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    path = save(tiny, tmp_path / "tiny.safetensors")
    folder = photos / "landmark-0"
    by_path = filled(folder, tmp_path / "s", model=path, throughput=HERE)
    assert by_path.spec.model == str(path.resolve())
    loaded = load_model(path, device="cpu")
    assert isinstance(loaded, RetrievalNet)
    again = filled(folder, tmp_path / "t", model=loaded, throughput=HERE)
    assert again.spec.model == by_path.spec.model


@pytest.mark.parametrize("size", [(1, 9), (7, 9), (9, 7)])
def test_a_photo_with_too_little_to_see_fails_alone(
    tiny: RetrievalNet, tmp_path: Path, size: tuple[int, int]
) -> None:
    (tmp_path / "dots").mkdir()
    for name, shape in (("small.png", size), ("enough.png", (8, 9))):
        toy.landmark(0, 0, size=(64, 48)).resize(shape).save(tmp_path / "dots" / name)
    index = filled(tmp_path / "dots", tmp_path / "s", model=tiny, scales=(1.0, 0.5))
    assert index.paths == ["enough.png"]
    place, (width, height) = tmp_path / "dots" / "small.png", size
    assert list(index.skipped) == ["small.png"]
    assert re.search(f"{re.escape(str(place))}.* {width} × {height} ", index.skipped["small.png"])


def test_a_misspelt_setting_is_refused_with_those_that_exist(
    photos: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    known = r"'sice': choose from size, scales, "
    with pytest.raises(TypeError, match=known):
        filled(photos, tmp_path / "s", model=tiny, sice=32)
    assert not (tmp_path / "s").exists()
