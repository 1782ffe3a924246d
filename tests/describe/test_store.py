from __future__ import annotations

import hashlib
import itertools
import json
import os
import pickle
import random
import shutil
import signal
import stat
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.running import python

from solar.describe import store_files
from solar.describe.store import Store, lock
from solar.errors import SolarError
from solar.images import Photos, Roots

DIM = 8
SETTINGS = {"size": 1024, "scales": (1.0, 0.5), "dtype": "bfloat16"}
NAMES = [f"photos/{i:02d}.jpg" for i in range(10)]
OLD = ["a.jpg", "b.jpg", "c.jpg", "d.jpg"]
posix = pytest.mark.skipif(os.name == "nt", reason="needs signals and fork")


def create(path: Path, names: list[str] | Photos = NAMES, **changes: object) -> Store:
    options: dict = {
        "model": "solar-r101",
        "fingerprint": "abc",
        "settings": SETTINGS,
        "dim": DIM,
        "shard_size": 3,
    }
    return Store.create(path, names, **(options | changes))


def vector(name: str, dim: int = DIM) -> np.ndarray:
    seed = [ord(letter) for letter in name]
    return np.random.default_rng(seed).standard_normal(dim).astype(np.float32)


def fill(store: Store, shard: int, failing: frozenset[str] = frozenset()) -> None:
    """Write a shard the way an extractor does, from nothing but its slice of the list."""
    source = store.source(shard)
    names = [name for name in source if name not in failing]
    store.write_shard(
        shard,
        [vector(name, store.dim) for name in names],
        names,
        [(len(name) + 1, 7) for name in names],
        {name: "is not an image" for name in source if name in failing},
    )


def run(path: Path, names: list[str] | Photos = NAMES, **changes: object) -> Store:
    """One whole run: what `solar extract` does with a store, as far as the store can tell."""
    with lock(path):
        store = create(path, names, **changes)
        for shard in store.pending():
            fill(store, shard)
    return store


def content(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


def records(path: Path) -> dict[str, int]:
    """Finished shards and the identity of their commit files, to see whether one was rewritten."""
    return {file.name: file.stat().st_ino for file in path.glob("shard-*.jsonl")}


# What goes in comes out


@settings(max_examples=40, deadline=None)
@given(
    names=st.lists(st.text(min_size=1, max_size=5), unique=True, max_size=12),
    shard_size=st.integers(1, 5),
    data=st.data(),
)
def test_any_list_comes_back_in_order_without_its_failures(
    tmp_path_factory: pytest.TempPathFactory,
    names: list[str],
    shard_size: int,
    data: st.DataObject,
) -> None:
    path = tmp_path_factory.mktemp("any") / "s"
    failing = data.draw(st.frozensets(st.sampled_from(names))) if names else frozenset()
    store = create(path, names, shard_size=shard_size)
    for shard in store.pending():
        fill(store, shard, failing)

    store = Store.open(path)
    kept = [name for name in names if name not in failing]
    assert store.names == kept
    assert store.failures.keys() == failing
    assert [n for k in range(store.shards) for n in store.source(k)] == names
    np.testing.assert_array_equal(store.sizes, [(len(n) + 1, 7) for n in kept] or store.sizes)
    np.testing.assert_array_equal(store.vectors(), [vector(n) for n in kept] or store.vectors())


def test_undecodable_file_names_survive(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9\n.jpg")
    run(tmp_path / "s", [name])
    assert Store.open(tmp_path / "s").names == [name]


@pytest.mark.parametrize(
    "rows",
    [slice(2, 9, 3), [7, 0, 7, -1], np.arange(10) % 2 == 0, np.array([], int), slice(4, 4)],
    ids=["slice", "list", "mask", "none", "empty"],
)
def test_vectors_picks_rows_as_numpy_would(tmp_path: Path, rows: object) -> None:
    store = run(tmp_path / "s")
    everything = np.stack([vector(name) for name in NAMES])
    np.testing.assert_array_equal(store.vectors(rows), everything[rows])


def test_chunks_cross_shards(tmp_path: Path) -> None:
    store = run(tmp_path / "s")
    starts, chunks = zip(*store.chunks(4), strict=True)
    assert starts == (0, 4, 8)
    np.testing.assert_array_equal(np.concatenate(chunks), store.vectors())


def test_shard_arrays_are_mapped_not_loaded(tmp_path: Path) -> None:
    arrays = list(run(tmp_path / "s").shard_arrays())
    assert [len(array) for array in arrays] == [3, 3, 3, 1]
    assert all(isinstance(array, np.memmap) for array in arrays)


def test_rows_of_names(tmp_path: Path) -> None:
    store = run(tmp_path / "s")
    assert store.rows_of([NAMES[9], NAMES[0]]).tolist() == [9, 0]


def test_a_shard_without_any_readable_photo_is_finished(tmp_path: Path) -> None:
    store = create(tmp_path / "s")
    for shard in store.pending():
        fill(store, shard, frozenset(NAMES[3:6]))
    assert Store.open(tmp_path / "s").rows_of(NAMES[6:7]).tolist() == [3]


def test_float16_is_kept_as_float16(tmp_path: Path) -> None:
    vectors = run(tmp_path / "s", dtype=np.float16).vectors()
    assert vectors.dtype == np.float16


def test_a_store_travels_to_a_worker_by_its_path(tmp_path: Path) -> None:
    store = create(tmp_path / "s")
    fill(pickle.loads(pickle.dumps(store)), 2)
    assert store.pending() == [0, 1, 3]


# Only a sound store is read


def test_an_unfinished_store_opens_only_when_asked(tmp_path: Path) -> None:
    fill(create(tmp_path / "s"), 1)
    with pytest.raises(SolarError, match="1 of 4"):
        Store.open(tmp_path / "s")
    assert Store.open(tmp_path / "s", allow_partial=True).names == NAMES[3:6]


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        (None, "not a store"),
        (b"{", "damaged"),
        (b"[]", "damaged"),
        (b'{"format": 1}', "format 1.* 2"),
        (b'{"format": 3}', "format 3.* 2"),
    ],
)
def test_a_bad_manifest_is_one_sentence(
    tmp_path: Path, manifest: bytes | None, sentence: str
) -> None:
    if manifest is not None:
        (tmp_path / "manifest.json").write_bytes(manifest)
    with pytest.raises(SolarError, match=sentence):
        Store.open(tmp_path)


def test_the_manifest_on_disk(tmp_path: Path) -> None:
    create(tmp_path / "new", [], settings={}, shard_size=1024)
    written = (tmp_path / "new" / "manifest.json").read_bytes()
    rest = {name: own for name, own in json.loads(written).items() if name != "manifest_sha256"}
    digest = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
    assert (
        written
        == b"""{
  "dim": 8,
  "dtype": "float32",
  "format": 2,
  "layout": null,
  "manifest_sha256": "%s",
  "model": "solar-r101",
  "model_hash": "abc",
  "photos": 0,
  "roots": [],
  "settings": {},
  "shard_size": 1024,
  "source_sha256": "37517e5f3dc66819f61f5a7bb8ace1921282415f10551d2defa5c3eb0985b570"
}
"""
        % digest.encode()
    )


def test_torn_vectors_are_pending_and_written_again(tmp_path: Path) -> None:
    run(tmp_path / "s")
    whole = content(tmp_path / "s")
    torn = next((tmp_path / "s").glob("shard-00001-*.npy"))
    os.truncate(torn, torn.stat().st_size - 1)
    assert Store.open(tmp_path / "s", allow_partial=True).pending() == [1]
    run(tmp_path / "s")
    assert content(tmp_path / "s") == whole


@pytest.mark.parametrize("pattern", ["shard-00002-*.npy", "shard-00002.jsonl", "source.json"])
def test_verify_finds_one_changed_byte(tmp_path: Path, pattern: str) -> None:
    store = run(tmp_path / "s")
    assert store.check() == []
    file = next((tmp_path / "s").glob(pattern))
    changed = bytearray(file.read_bytes())
    changed[-3] ^= 1
    file.write_bytes(changed)
    problems = Store.open(tmp_path / "s").check()
    assert len(problems) == 1
    assert pattern[:11] in problems[0]


# Only the same run continues a store


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"settings": SETTINGS | {"size": 512}}, r"made with another size \(1024, not 512\);"),
        ({"settings": SETTINGS | {"box": 1}}, r"made with another box \(none, not 1\);"),
        ({"settings": SETTINGS | {"dtype": "half"}}, r"another dtype \(bfloat16, not half\);"),
        (
            {"model": "gem", "fingerprint": "def", "dim": 9, "settings": SETTINGS | {"size": 512}},
            r"made with another model \(solar-r101, not gem\);",
        ),
        ({"fingerprint": "def"}, "made with another edition of the model solar-r101;"),
        ({"dim": 9}, r"another dim \(8, not 9\);"),
        ({"dtype": "float16"}, r"another dtype \(float32, not float16\);"),
        ({"shard_size": 4}, r"another shard_size \(3, not 4\);"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_another_run_is_refused(tmp_path: Path, change: dict, sentence: str) -> None:
    create(tmp_path / "s")
    before = content(tmp_path / "s")
    with pytest.raises(SolarError, match=sentence):
        create(tmp_path / "s", **change)
    assert content(tmp_path / "s") == before


@pytest.mark.parametrize(
    ("names", "kept"),
    [
        (NAMES[:-1], 9),
        (NAMES[::-1], 10),
        ([*NAMES[:2], "new.jpg", *NAMES[4:]], 8),
        (["new.jpg", *NAMES], 10),
        (["new.jpg"], 0),
    ],
    ids=["fewer", "turned round", "one for two", "more", "others"],
)
@pytest.mark.parametrize("finished", [4, 2, 0])
def test_another_list_brings_the_store_up_to_date(
    tmp_path: Path, names: list[str], kept: int, finished: int
) -> None:
    store = create(tmp_path / "s")
    for shard in range(finished):
        fill(store, shard)
    known = set(NAMES[: 3 * finished]) & set(names)
    assert finished < 4 or len(known) == kept
    with lock(tmp_path / "s"):
        store = create(tmp_path / "s", names)
        asked = [name for shard in store.pending() for name in store.source(shard)]
        assert sorted(asked) == sorted(set(names) - known)
        for shard in store.pending():
            fill(store, shard)
    again = Store.open(tmp_path / "s")
    assert sorted(again.names) == sorted(names)
    np.testing.assert_array_equal(again.vectors(), [vector(name) for name in again.names])
    assert again.check() == []
    with lock(tmp_path / "s"):  # which sweeps shards of before
        assert create(tmp_path / "s", names).complete
    assert len(list((tmp_path / "s").glob("shard-*"))) == 2 * again.shards
    assert len(list((tmp_path / "s").glob("source*"))) == 1


def test_a_store_is_not_given_up_for_photos_from_elsewhere(tmp_path: Path) -> None:
    at_home, elsewhere = (Roots.at(tmp_path / name) for name in ("home", "elsewhere"))
    run(tmp_path / "s", Photos(tuple(NAMES), (), roots=at_home))
    before = content(tmp_path / "s")
    with pytest.raises(SolarError, match="other photos"):
        create(tmp_path / "s", Photos(("new.jpg",), (), roots=elsewhere))
    assert content(tmp_path / "s") == before
    assert Store.open(tmp_path / "s").roots == at_home


def test_a_folder_of_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"")
    for begin in (create, run):
        with pytest.raises(SolarError, match="other"):
            begin(tmp_path)
    assert os.listdir(tmp_path) == ["holiday.jpg"]  # noqa: PTH208


def test_a_name_listed_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match=r"a\.jpg"):
        create(tmp_path / "s", ["b.jpg", "a.jpg", "a.jpg"])


# What may be written


@pytest.mark.parametrize(
    ("value", "dtype"), [(np.nan, "float32"), (np.inf, "float32"), (1e6, "float16")]
)
def test_a_vector_that_is_not_finite_names_its_photo(
    tmp_path: Path, value: float, dtype: str
) -> None:
    store = create(tmp_path / "s", dtype=dtype)
    vectors = np.ones((3, DIM), np.float32)
    vectors[1, 5] = value
    with pytest.raises(SolarError, match=NAMES[1]):
        store.write_shard(0, vectors, NAMES[:3], [(1, 1)] * 3, {})
    assert store.pending() == [0, 1, 2, 3]


def test_a_finished_shard_is_not_overwritten(tmp_path: Path) -> None:
    store = create(tmp_path / "s")
    fill(store, 0)
    before = records(tmp_path / "s")
    store.write_shard(0, np.zeros((3, DIM)), NAMES[:3], [(1, 1)] * 3, {})
    assert records(tmp_path / "s") == before
    np.testing.assert_array_equal(store.vectors([0])[0], vector(NAMES[0]))


# The same bytes, whatever happened on the way


@settings(max_examples=20, deadline=None)
@given(order=st.permutations(range(4)), reopen=st.booleans())
def test_any_order_of_writing_gives_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, order: list[int], reopen: bool
) -> None:
    folder = tmp_path_factory.mktemp("order")
    run(folder / "in order")
    with lock(folder / "shuffled"):
        store = create(folder / "shuffled")
        for shard in order:
            fill(create(folder / "shuffled") if reopen else store, shard)
    assert content(folder / "shuffled") == content(folder / "in order")


def test_rival_writers_of_one_shard_never_mix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rival with other vectors writes the whole shard between our vectors and our record."""
    store = create(tmp_path / "s", NAMES[:3])
    rival = Store.open(store.path, allow_partial=True)
    write = store_files.write_whole

    def write_and_be_overtaken(target: Path, data: bytes) -> None:
        write(target, data)
        monkeypatch.undo()
        rival.write_shard(0, np.full((3, DIM), 2.0), NAMES[:3], [(1, 1)] * 3, {})

    monkeypatch.setattr(store_files, "write_whole", write_and_be_overtaken)
    store.write_shard(0, np.full((3, DIM), 1.0), NAMES[:3], [(1, 1)] * 3, {})

    assert Store.open(store.path).check() == []
    with lock(store.path):
        assert len(list(store.path.glob("*.npy"))) == 1, "the loser's vectors were not swept"


def fork(work: Callable[[], object]) -> int:
    """Do the work in a child that exits with 0 if it went well; return its process id."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return child


@posix
def test_several_processes_give_the_same_bytes(tmp_path: Path) -> None:
    run(tmp_path / "alone", shard_size=1)
    with lock(tmp_path / "together"):
        create(tmp_path / "together", shard_size=1)

        def work(worker: int) -> None:
            store = Store.open(tmp_path / "together", allow_partial=True)
            for shard in range(worker, store.shards, 2):  # every shard but the ends comes twice
                fill(store, shard)

        workers = [fork(lambda i=i: work(i)) for i in range(4)]
        assert [os.waitpid(worker, 0)[1] for worker in workers] == [0, 0, 0, 0]
    assert content(tmp_path / "together") == content(tmp_path / "alone")


@posix
def test_death_before_any_file_operation_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill a run before its 1st, 2nd, … operation on a file, until one gets through."""
    # What a process has written outlives it without: that is for power cuts.
    monkeypatch.setattr(os, "fsync", lambda _: None)

    def work(path: Path) -> None:
        run(path, shard_size=4)

    def die(path: Path, left: int) -> None:
        def strike(event: str, _: object) -> None:
            nonlocal left
            if event in {"open", "os.mkdir", "os.rename", "os.remove"}:
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1

        sys.addaudithook(strike)
        work(path)

    work(tmp_path / "whole")
    for deaths in itertools.count():
        path = tmp_path / f"killed {deaths}"
        status = os.waitpid(fork(lambda p=path, n=deaths: die(p, n)), 0)[1]
        if status == 0:
            break
        assert status == signal.SIGKILL
        finished = records(path) if path.exists() else {}
        work(path)
        assert content(path) == content(tmp_path / "whole"), f"operation {deaths}"
        assert finished.items() <= records(path).items(), "a finished shard was written again"
    assert deaths > 30


@posix
def test_sigkill_at_random_moments_loses_nothing(tmp_path: Path) -> None:
    """Shards of 512 KiB, so that a kill also lands inside a write."""
    names = [f"{i}.jpg" for i in range(400)]
    path = tmp_path / "killed"

    def work(path: Path, progress: int | None = None) -> None:
        with lock(path):
            store = create(path, names, dim=32768, shard_size=4)
            for shard in store.pending():
                fill(store, shard)
                if progress is not None:
                    os.write(progress, b".")

    rng = random.Random(7)
    finished: dict[str, int] = {}
    for _ in range(8):
        reader, writer = os.pipe()
        child = fork(lambda writer=writer: work(path, writer))
        os.close(writer)
        for _ in range(rng.randint(1, 4)):
            assert os.read(reader, 1), "it ended before the kill"
        threading.Event().wait(rng.uniform(0, 0.01))  # a shard takes about as long
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        assert finished.items() <= records(path).items(), "a finished shard was written again"
        finished = records(path)
    assert Store.open(path, allow_partial=True).pending(), "no kill came in time"
    work(path)
    work(tmp_path / "whole")
    assert content(path) == content(tmp_path / "whole")
    assert finished.items() <= records(path).items()


def test_content_is_on_the_disk_before_its_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut cannot be had in a test; the order of the calls that guard against it can."""
    store = create(tmp_path / "s")
    calls: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def logged_fsync(number: int) -> None:
        calls.append("sync folder" if stat.S_ISDIR(os.fstat(number).st_mode) else "sync file")
        fsync(number)

    def logged_replace(source: Path, target: Path) -> Path:
        calls.append(f"name {target.suffix}")
        return replace(source, target)

    monkeypatch.setattr(os, "fsync", logged_fsync)
    monkeypatch.setattr(Path, "replace", logged_replace)
    fill(store, 0)
    folder = ["sync folder"] if os.name != "nt" else []
    assert calls == ["sync file", "name .npy", *folder, "sync file", "name .jsonl", *folder]


def test_ctrl_c_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = create(tmp_path / "s")

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fill(store, 0)
    assert sorted(content(store.path)) == ["manifest.json", "source.json"]


# A disk without room


@posix
def test_a_file_size_limit_is_one_sentence_and_keeps_what_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "s"
    fill(create(path, dim=4096), 0)
    code = """
import resource, sys
sys.path.insert(0, sys.argv[2])
from solar.describe.store import Store
from solar.errors import SolarError
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
store = Store.open(sys.argv[1], allow_partial=True)
try:
    store.write_shard(1, [[1.0] * 4096] * 3, store.source(1), [(1, 1)] * 3, {})
except SolarError as error:
    sys.exit(str(error))
"""
    src = Path(store_files.__file__).parents[2]
    child = subprocess.run(
        [*python(), "-c", code, path, src], capture_output=True, text=True, check=False
    )
    assert "cannot be written (File too large); make room" in child.stderr
    assert len(child.stderr.splitlines()) == 1
    assert sorted(f.name[:11] for f in path.glob("shard-*")) == ["shard-00000"] * 2
    assert not list(path.glob(".solar-*"))


@posix
def test_a_full_disk_is_one_sentence_and_the_run_goes_on_once_there_is_room(
    tmp_path: Path,
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("may not mount a small disk here (needs root)")
    try:
        with pytest.raises(SolarError, match="No space left"):
            run(disk / "s", dim=8192)
        finished = records(disk / "s")
        assert finished
        remount = ["mount", "-o", "remount,size=1m", disk]
        subprocess.run(remount, check=True, capture_output=True)
        run(disk / "s", dim=8192)
        assert finished.items() <= records(disk / "s").items()
        run(tmp_path / "whole", dim=8192)
        assert content(disk / "s") == content(tmp_path / "whole")
    finally:
        subprocess.run(["umount", disk], check=True)


# One run at a time


def test_a_second_run_is_refused_and_sweeps_nothing(tmp_path: Path) -> None:
    with lock(tmp_path / "s"):
        create(tmp_path / "s")
        live = tmp_path / "s" / f".solar-{'0' * 32}.tmp"
        live.write_bytes(b"half")
        with pytest.raises(SolarError, match="Another run"), lock(tmp_path / "s"):
            pass
        assert live.exists()


def test_a_new_run_sweeps_only_what_a_kill_left(tmp_path: Path) -> None:
    run(tmp_path / "s")
    whole = content(tmp_path / "s")
    (tmp_path / "s" / f".solar-{'0' * 32}.tmp").write_bytes(b"half")
    (tmp_path / "s" / f"shard-00001-{'0' * 16}.npy").write_bytes(b"orphan")
    (tmp_path / "s" / "note.txt").write_bytes(b"mine")
    run(tmp_path / "s")
    assert content(tmp_path / "s") == whole | {"note.txt": b"mine"}


def test_the_lock_is_free_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), lock(tmp_path / "s"):
        raise RuntimeError
    run(tmp_path / "s")
