"""Any sequence of changes: an index holds what a dictionary would, and a store that grows too."""

import errno
import hashlib
import shutil
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.failing_calls import failing

from solar.describe.store import Store, lock
from solar.errors import SolarError
from solar.images import Photos, Roots, Stamp
from solar.images.scan import Found
from solar.index import Index
from solar.index.index import need_vectors
from solar.storage.types import Amendment, Photo

DIM = 4
PATHS = st.sampled_from([f"{folder}/{n}.jpg" for folder in "ab" for n in range(4)])
SEEDS = st.integers(0, 50)
ENOUGH = settings(
    max_examples=20,
    stateful_step_count=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def vector(seed: int) -> np.ndarray:
    row = np.random.default_rng(seed).standard_normal(DIM).astype(np.float32)
    return row / np.linalg.norm(row)


class IndexMachine(RuleBasedStateMachine):
    """An index beside a dictionary of seeds by path."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp()) / "photos.solar"
        self.known: dict[str, int] = {}

    @initialize(seed=SEEDS)
    def create(self, seed: int) -> None:
        self.known = {"first.jpg": seed}
        self.index = Index.create(self.folder, vector(seed)[None], ["first.jpg"])

    @rule(new=st.dictionaries(PATHS, SEEDS, min_size=1))
    def add(self, new: dict[str, int]) -> None:
        photos = [Photo(path, width=seed) for path, seed in new.items()]
        self.index.add(np.stack([vector(seed) for seed in new.values()]), photos)
        self.known |= new

    @rule(path=PATHS)
    def remove(self, path: str) -> None:
        try:
            self.index.remove(path)
            del self.known[path]
        except SolarError:
            assert path not in self.known

    @rule(old=PATHS, new=PATHS)
    def rename(self, old: str, new: str) -> None:
        if old in self.known and new not in self.known:
            self.index.engine.amend(Amendment(renamed={old: new}))
            self.known[new] = self.known.pop(old)

    @rule(one=PATHS, other=PATHS)
    def swap(self, one: str, other: str) -> None:
        if one in self.known and other in self.known and one != other:
            self.index.engine.amend(Amendment(renamed={one: other, other: one}))
            self.known[one], self.known[other] = self.known[other], self.known[one]

    @rule()
    def compact(self) -> None:
        self.index.compact()

    @rule()
    def reopen(self) -> None:
        self.index.close()
        self.index = need_vectors(Index.open(self.folder))

    @rule(path=PATHS, seed=SEEDS, call=st.integers(0, 12))
    def add_on_a_full_disk(self, path: str, seed: int, call: int) -> None:
        try:
            with failing(self.folder, call, errno.ENOSPC):
                self.index.add(vector(seed)[None], [path])
            self.known[path] = seed
        except SolarError:
            pass

    @invariant()
    def holds_the_same(self) -> None:
        found = self.index.engine.lookup([*self.known, "nowhere.jpg"])
        assert {path: row.tolist() for path, (_, row) in found.items()} == {
            path: vector(seed).tolist() for path, seed in self.known.items()
        }
        assert len(self.index) == len(self.known)

    @invariant()
    def finds_the_most_similar(self) -> None:
        scores = {path: float(vector(seed) @ vector(99)) for path, seed in self.known.items()}
        [hits] = self.index.search_vectors(vector(99)[None], 3)
        best = sorted(scores.values(), reverse=True)[:3]
        np.testing.assert_allclose([hit.score for hit in hits], best, atol=1e-6)

    def teardown(self) -> None:
        if hasattr(self, "index"):
            assert self.index.check() == []
            self.index.close()
        shutil.rmtree(self.folder.parent)


class StoreMachine(RuleBasedStateMachine):
    """A store beside a dictionary of files; a file is a seed and a time."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp()) / "photos.store"
        self.files: dict[str, tuple[int, int]] = {"first.jpg": (0, 0)}
        self.clock = 1
        self.described = 0

    @rule(path=PATHS, seed=SEEDS)
    def write(self, path: str, seed: int) -> None:
        self.files[path] = seed, self.clock
        self.clock += 1

    @rule(path=PATHS)
    def delete(self, path: str) -> None:
        self.files.pop(path, None)

    @rule(old=PATHS, new=PATHS)
    def move(self, old: str, new: str) -> None:
        if old in self.files:
            self.files[new] = self.files.pop(old)

    @rule(shards=st.integers(0, 3))
    def extract_some(self, shards: int) -> None:
        self._extract(shards)

    @rule()
    def extract(self) -> None:
        self._extract(None)
        store = Store.open(self.folder)
        assert set(store.names) == set(self.files)
        for name, row, stamp in zip(store.names, store.vectors(), store.stamps, strict=True):
            seed, _ = self.files[name]
            assert row.tolist() == vector(seed).tolist(), name
            assert stamp is not None
            assert stamp.sha256 == digest(seed)
        assert store.check() == []

    @rule()
    def extract_again_describes_nothing(self) -> None:
        self._extract(None)
        before = self.described
        self._extract(None)
        assert self.described == before

    def _extract(self, shards: int | None) -> None:
        names = tuple(sorted(self.files))
        facts = {"model": "m", "fingerprint": "f", "settings": {}, "dim": DIM, "shard_size": 2}
        seen = tuple(Found(n, Path(n), 1, self.files[n][1]) for n in names)
        photos = FakePhotos(names, tuple(map(Path, names)), {}, Roots.at(self.folder), seen)
        photos.files.update(self.files)
        with lock(self.folder):
            store = Store.create(self.folder, photos, **facts)
            for shard in store.pending()[:shards]:
                mine = store.source(shard)
                rows = [vector(self.files[name][0]) for name in mine]
                stamps = {name: photos.stamp(names.index(name)) for name in mine}
                store.write_shard(shard, rows, mine, [(9, 9)] * len(mine), {}, stamps)
                self.described += len(mine)

    def teardown(self) -> None:
        shutil.rmtree(self.folder.parent)


def digest(seed: int) -> str:
    return hashlib.sha256(str(seed).encode()).hexdigest()


class FakePhotos(Photos):
    """Photos whose content is a number; all have one byte, so that only digests tell them apart."""

    files: dict[str, tuple[int, int]] = {}  # noqa: RUF012 (of one machine at a time)

    def stamp(self, number: int) -> Stamp:
        seed, clock = self.files[self.names[number]]
        return Stamp(1, clock, digest(seed))


TestIndexMachine = IndexMachine.TestCase
TestIndexMachine.settings = ENOUGH
TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = ENOUGH
