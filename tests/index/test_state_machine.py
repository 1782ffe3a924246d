"""Any sequence of changes: an index holds what a dictionary would, and what a folder holds."""

import errno
import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.failing_calls import failing

from solar.errors import SolarError
from solar.images import Photos, Roots, Stamp
from solar.images.scan import Found
from solar.index import Index
from solar.index.ingest import apply, plan
from solar.storage.folder_engine import begin, finished, open_index
from solar.storage.protocol import Piece
from solar.storage.types import Amendment, DescriptorSpec, Photo

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
        self.index = Index.open(self.folder)

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


class FillingMachine(RuleBasedStateMachine):
    """An index of a folder beside a dictionary of its files; a file is a seed and a time."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp()) / "photos.solar"
        self.files: dict[str, tuple[int, int]] = {"first.jpg": (0, 0)}
        self.clock = 1
        self.described = 0

    @rule(path=PATHS, seed=SEEDS)
    def write(self, path: str, seed: int) -> None:
        self.files[path] = seed, self.clock
        self.clock += 1

    @rule(path=PATHS)
    def delete(self, path: str) -> None:
        if len(self.files) > 1:
            self.files.pop(path, None)

    @rule(old=PATHS, new=PATHS)
    def move(self, old: str, new: str) -> None:
        if old in self.files:
            self.files[new] = self.files.pop(old)

    @rule(pieces=st.integers(0, 3))
    def fill_some(self, pieces: int) -> None:
        self._fill(pieces)

    @rule()
    def fill_all(self) -> None:
        self._fill(None)
        with Index.open(self.folder) as index:
            assert set(index.paths) == set(self.files)
            for photo, row in zip(*index.mapped(), strict=True):
                seed, _ = self.files[photo.path]
                assert row.tolist() == vector(seed).tolist(), photo.path
                assert photo.stamp is not None
                assert photo.stamp.sha256 == digest(seed)
            assert index.check() == []

    @rule()
    def fill_again_describes_nothing(self) -> None:
        self._fill(None)
        before = self.described
        self._fill(None)
        assert self.described == before

    @rule()
    def compact(self) -> None:
        if finished(self.folder):
            with Index.open(self.folder) as index:
                index.compact()

    def _fill(self, pieces: int | None) -> None:
        names = tuple(sorted(self.files))
        seen = tuple(Found(n, Path(n), 1, self.files[n][1]) for n in names)
        photos = FakePhotos(names, tuple(map(Path, names)), {}, Roots.at(self.folder), seen)
        photos.files.update(self.files)
        engine = open_index(self.folder) if finished(self.folder) else begin(self.folder, SPEC)
        with MachineIndex(engine) as index:
            index.pieces, index.described = pieces, 0
            changes = plan(index, photos, engine.stamps())
            try:
                apply(index, photos, changes, complete=True)
                if engine.unfinished:
                    engine.finish()
            except StoppedError:
                pass
            self.described += index.described

    def teardown(self) -> None:
        shutil.rmtree(self.folder.parent)


SPEC = DescriptorSpec(DIM, "m", "f")


class StoppedError(Exception):
    """Somebody pressed Ctrl-C, say."""


class MachineIndex(Index):
    """An index that describes photos by their seeds, two at a time, until it is stopped."""

    pieces: int | None
    described: int

    def refuse_unknown_model(self) -> None:
        pass

    def add_photos(self, photos: Photos, **_: Any) -> dict[str, str]:
        assert isinstance(photos, Photos)
        with self.engine.filling():
            for number, first in enumerate(range(0, len(photos), 2)):
                if number == self.pieces:
                    raise StoppedError
                some = photos.select(range(first, min(first + 2, len(photos))))
                stamps = [FakePhotos.stamp_of(name) for name in some.names]
                each = zip(some.names, stamps, strict=True)
                rows = np.stack([vector(FakePhotos.files[name][0]) for name in some.names])
                self.engine.fill(Piece([Photo(n, stamp=s) for n, s in each], rows))
                self.described += len(some)
        return {}


def digest(seed: int) -> str:
    return hashlib.sha256(str(seed).encode()).hexdigest()


class FakePhotos(Photos):
    """Photos whose content is a number; all have one byte, so that only digests tell them apart."""

    files: dict[str, tuple[int, int]] = {}  # noqa: RUF012 (of one machine at a time)

    @classmethod
    def stamp_of(cls, name: str) -> Stamp:
        seed, clock = cls.files[name]
        return Stamp(1, clock, digest(seed))

    def stamp(self, number: int) -> Stamp:
        return self.stamp_of(self.names[number])


TestIndexMachine = IndexMachine.TestCase
TestIndexMachine.settings = ENOUGH
TestFillingMachine = FillingMachine.TestCase
TestFillingMachine.settings = ENOUGH
