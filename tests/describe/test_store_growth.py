"""A store whose photos change between two runs, at any point of either."""

import hashlib
import itertools
import os
import shutil
import signal
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest
from support.nasty_folder import photo

from solar.describe import Store, Throughput, extract
from solar.describe.store import lock
from solar.errors import SolarError
from solar.images import Photos, collect, find_photos
from solar.models import RetrievalNet

DIM = 4
ONE_BY_ONE = Throughput(decoders=0, batch=1)  # the same vector to the bit in any company


def fill(folder: Path, **photos: str) -> Path:
    """Files `a.jpg`, … of some content; what begins with `bad` cannot be described."""
    for name, text in photos.items():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.jpg").write_text(text)
    return folder


def vector(content: bytes) -> np.ndarray:
    seed = list(hashlib.sha256(content).digest())
    return np.random.default_rng(seed).standard_normal(DIM).astype(np.float32)


def run(path: Path, source: Path | Photos, stop: int | None = None, size: int = 2) -> list[str]:
    """Describe what a store lacks, as `solar extract` does; which photos that were."""
    photos, tried = source if isinstance(source, Photos) else find_photos(source), list[str]()
    numbers = {name: number for number, name in enumerate(photos.names)}
    how = {"model": "m", "fingerprint": "f", "settings": {"size": 64}, "dim": DIM}
    with lock(path):
        store = Store.create(path, photos, shard_size=size, **how)
        for shard in store.pending()[:stop]:
            names = store.source(shard)
            tried += names
            contents = {n: Path(photos.places[numbers[n]]).read_bytes() for n in names}
            good = [name for name in names if not contents[name].startswith(b"bad")]
            store.write_shard(
                shard,
                [vector(contents[name]) for name in good],
                good,
                [(len(contents[name]), 7) for name in good],
                {name: "it is bad" for name in names if name not in good},
                {name: photos.stamp(numbers[name]) for name in names},
            )
    return tried


def check(path: Path, folder: Path) -> None:
    """The store says of every photo of a folder, and of no other, what is true."""
    store = Store.open(path)
    assert store.check() == []
    contents = {file.name: file.read_bytes() for file in folder.glob("*.jpg")}
    bad = {name for name, content in contents.items() if content.startswith(b"bad")}
    assert set(store.failures) == bad
    assert sorted(store.names) == sorted(contents.keys() - bad)
    for name, row, (width, _) in zip(store.names, store.vectors(), store.sizes, strict=True):
        np.testing.assert_array_equal(row, vector(contents[name]), name)
        assert width == len(contents[name])


def content(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    letters = "abcdefgh"
    return fill(
        tmp_path / "photos", **{one: f"photo {one}{'!' * n}" for n, one in enumerate(letters)}
    )


@pytest.mark.parametrize("stop", range(5))
def test_everything_may_change_between_a_stop_and_the_next_run(
    folder: Path, tmp_path: Path, stop: int
) -> None:
    """After 0 to 4 of 4 shards: one photo is added, one replaced, one moved, one deleted."""
    first = run(tmp_path / "s", folder, stop)
    assert len(first) == 2 * stop
    fill(folder, new="a new one", b="b became another")
    (folder / "c.jpg").rename(folder / "z.jpg")
    (folder / "d.jpg").unlink()
    (folder / "e.jpg").touch()
    second = run(tmp_path / "s", folder)
    check(tmp_path / "s", folder)
    reused = {"z.jpg"} if "c.jpg" in first else set()
    kept = set(first) - {"b.jpg", "c.jpg", "d.jpg"} | reused
    assert sorted(second) == sorted({file.name for file in folder.iterdir()} - kept)
    assert run(tmp_path / "s", folder) == []


def test_a_second_run_changes_no_byte(folder: Path, tmp_path: Path) -> None:
    run(tmp_path / "s", folder)
    before = content(tmp_path / "s")
    assert run(tmp_path / "s", folder) == []
    assert content(tmp_path / "s") == before
    fill(folder, new="grown")
    run(tmp_path / "s", folder)
    run(tmp_path / "s", folder)  # which sweeps what growth has replaced
    before = content(tmp_path / "s")
    assert run(tmp_path / "s", folder) == []
    assert content(tmp_path / "s") == before
    assert len(before) == 2 * 5 + 3  # of five shards; manifest, list and lock


def test_a_file_with_another_time_is_the_same_photo(folder: Path, tmp_path: Path) -> None:
    run(tmp_path / "s", folder)
    for file in folder.iterdir():
        os.utime(file, ns=(1, 1))
    assert run(tmp_path / "s", folder) == []
    check(tmp_path / "s", folder)
    assert {stamp.modified for stamp in Store.open(tmp_path / "s").stamps if stamp} == {1}


def test_a_file_that_changed_within_its_size_is_another_photo(folder: Path, tmp_path: Path) -> None:
    run(tmp_path / "s", folder)
    (folder / "a.jpg").write_text("PHOTO A")
    assert run(tmp_path / "s", folder) == ["a.jpg"]
    check(tmp_path / "s", folder)


def test_photos_that_swap_their_names_swap_their_vectors(folder: Path, tmp_path: Path) -> None:
    run(tmp_path / "s", folder)
    (folder / "a.jpg").rename(folder / "x")
    (folder / "g.jpg").rename(folder / "a.jpg")
    (folder / "x").rename(folder / "g.jpg")
    assert run(tmp_path / "s", folder) == []
    check(tmp_path / "s", folder)


def test_copies_share_a_vector(folder: Path, tmp_path: Path) -> None:
    run(tmp_path / "s", folder)
    for copy in ("y", "z"):
        shutil.copy(folder / "a.jpg", folder / f"{copy}.jpg")
    assert run(tmp_path / "s", folder) == []
    check(tmp_path / "s", folder)


def test_what_failed_is_tried_again_when_it_has_changed(folder: Path, tmp_path: Path) -> None:
    fill(folder, b="bad one", f="bad two")
    run(tmp_path / "s", folder)
    check(tmp_path / "s", folder)
    assert run(tmp_path / "s", folder) == []
    fill(folder, f="mended")
    assert run(tmp_path / "s", folder) == ["f.jpg"]
    check(tmp_path / "s", folder)


def test_a_photo_that_is_no_longer_one_loses_its_vector(folder: Path, tmp_path: Path) -> None:
    run(tmp_path / "s", folder)
    fill(folder, a="bad by now")
    assert run(tmp_path / "s", folder) == ["a.jpg"]
    check(tmp_path / "s", folder)


def test_a_photo_of_a_list_that_came_late_is_described(folder: Path, tmp_path: Path) -> None:
    (folder / "list.txt").write_text("a.jpg\nlate.jpg\n")
    photos = find_photos(folder / "list.txt")
    with lock(tmp_path / "s"):
        how = {"model": "m", "fingerprint": "f", "settings": {"size": 64}, "dim": DIM}
        store = Store.create(tmp_path / "s", photos, shard_size=2, **how)
        rows = [vector((folder / "a.jpg").read_bytes())]
        stamps = {"a.jpg": photos.stamp(0)}
        store.write_shard(0, rows, ["a.jpg"], [(7, 7)], {"late.jpg": "it is missing"}, stamps)
    assert run(tmp_path / "s", find_photos(folder / "list.txt")) == []
    fill(folder, late="here I am")
    assert run(tmp_path / "s", find_photos(folder / "list.txt")) == ["late.jpg"]
    assert Store.open(tmp_path / "s").names == ["a.jpg", "late.jpg"]


def test_a_folder_that_was_moved_keeps_its_vectors(folder: Path, tmp_path: Path) -> None:
    run(tmp_path / "s", folder)
    there = folder.rename(tmp_path / "moved")
    assert run(tmp_path / "s", there) == []
    check(tmp_path / "s", there)
    assert Store.open(tmp_path / "s").roots.find("a.jpg") == there / "a.jpg"


def test_a_second_folder_is_added_under_other_names(folder: Path, tmp_path: Path) -> None:
    run(tmp_path / "s", folder)
    other = fill(tmp_path / "more", a="another a", n="and a new one")
    assert run(tmp_path / "s", collect([folder, other])) == ["more//a.jpg", "more//n.jpg"]
    store = Store.open(tmp_path / "s")
    assert {"photos//a.jpg", "more//a.jpg"} <= set(store.names)
    np.testing.assert_array_equal(
        store.vectors([store.rows_of(["more//a.jpg"])[0]])[0], vector(b"another a")
    )


def test_other_photos_altogether_are_refused(folder: Path, tmp_path: Path) -> None:
    run(tmp_path / "s", folder)
    before = content(tmp_path / "s")
    other = fill(tmp_path / "other", x="a stranger")
    with pytest.raises(SolarError, match="other photos"):
        run(tmp_path / "s", other)
    assert content(tmp_path / "s") == before


def test_all_photos_of_a_folder_may_be_replaced(folder: Path, tmp_path: Path) -> None:
    run(tmp_path / "s", folder)
    for file in folder.iterdir():
        file.unlink()
    fill(folder, x="the only one")
    assert run(tmp_path / "s", folder) == ["x.jpg"]
    check(tmp_path / "s", folder)


def killed(path: Path, folder: Path, left: int) -> bool:
    """Run in a child that dies before its operation number `left` on a file; whether it did."""
    child = os.fork()
    if child == 0:

        def strike(event: str, _: object) -> None:
            nonlocal left
            if event in {"open", "os.mkdir", "os.rename", "os.remove"}:
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1

        try:
            sys.addaudithook(strike)
            run(path, folder)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL)
    return status != 0


@pytest.mark.skipif(os.name == "nt", reason="needs signals and fork")
def test_death_before_any_file_operation_of_growth_loses_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill the second run before its 1st, 2nd, … operation on a file, until one gets through."""
    # What a process has written outlives it without: that is for power cuts.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    described = set(run(tmp_path / "before", folder, stop=3))
    fill(folder, new="a new one", b="b became another")
    (folder / "c.jpg").rename(folder / "z.jpg")
    (folder / "d.jpg").unlink()
    still_true = described - {"b.jpg", "c.jpg", "d.jpg"} | {"z.jpg"}
    for deaths in itertools.count():
        path = tmp_path / f"killed {deaths}"
        shutil.copytree(tmp_path / "before", path)
        if not killed(path, folder, deaths):
            break
        assert not still_true & set(run(path, folder)), f"operation {deaths}"
        check(path, folder)
    assert deaths > 30
    check(path, folder)


# With a network


def counted() -> tuple[list[int], object]:
    """Photos done and their total, and the callback that notes them."""
    counts = [0, 0]

    def progress(step: str, done: int, total: int) -> None:
        counts[:] = done, total

    return counts, progress


@pytest.fixture
def camera(tmp_path: Path) -> Path:
    folder = tmp_path / "camera"
    folder.mkdir()
    for seed in range(5):
        (folder / f"{seed}.jpg").write_bytes(photo(seed))
    return folder


def test_a_store_that_grew_holds_what_a_fresh_one_does(
    camera: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    how = {"model": tiny, "throughput": ONE_BY_ONE, "shard_size": 2}
    extract(camera, tmp_path / "grown", **how)
    (camera / "1.jpg").write_bytes(photo(11))
    (camera / "2.jpg").rename(camera / "7.jpg")
    (camera / "3.jpg").unlink()
    (camera / "8.png").write_bytes(photo(8, "PNG"))
    counts, progress = counted()
    grown = extract(camera, tmp_path / "grown", progress=progress, **how)
    assert counts == [2, 2]
    fresh = extract(camera, tmp_path / "fresh", **how)
    assert set(grown.names) == set(fresh.names)
    rows = grown.rows_of(fresh.names)
    np.testing.assert_array_equal(grown.vectors(rows), fresh.vectors())
    np.testing.assert_array_equal(grown.sizes[rows], fresh.sizes)


def test_photos_with_too_many_pixels_are_tried_again_where_more_are_allowed(
    camera: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    (camera / "large.jpg").write_bytes(photo(9, size=(200, 150)))
    how = {"model": tiny, "throughput": ONE_BY_ONE}
    store = extract(camera, tmp_path / "s", max_pixels=10_000, **how)
    assert list(store.failures) == ["large.jpg"]
    assert list(extract(camera, tmp_path / "s", **how).failures) == ["large.jpg"]
    counts, progress = counted()
    store = extract(camera, tmp_path / "s", max_pixels=100_000, progress=progress, **how)
    assert (store.failures, counts) == ({}, [1, 1])


def test_workers_describe_only_what_is_new(
    camera: Path, tiny: RetrievalNet, tmp_path: Path
) -> None:
    pytest.importorskip("distributed", reason='pip install "solar-retrieval[dask]"')
    from distributed import Client, LocalCluster

    how = {"model": tiny, "throughput": ONE_BY_ONE, "shard_size": 2}
    extract(camera, tmp_path / "s", **how)
    (camera / "new.jpg").write_bytes(photo(20))
    (camera / "text.jpg").write_text("no photo")
    os.mkfifo(camera / "pipe.jpg")
    counts, progress = counted()
    threads = {"n_workers": 1, "threads_per_worker": 1, "processes": False}
    with LocalCluster(dashboard_address=None, **threads) as cluster, Client(cluster):
        address = cluster.scheduler_address
        store = extract(camera, tmp_path / "s", scheduler=address, progress=progress, **how)
    assert counts == [2, 2]
    assert (len(store), list(store.failures)) == (6, ["text.jpg"])
