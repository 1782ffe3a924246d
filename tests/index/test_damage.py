"""Random damage to what is stored: the answers are those of before, or one sentence."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.damage import damaged_copies

from solar.asmk.codebook import Codebook
from solar.asmk.index import create
from solar.asmk.kernel import aggregate
from solar.describe.store import Store
from solar.errors import SolarError
from solar.images import Photos, Roots, Stamp
from solar.images.scan import Found
from solar.index import Index
from solar.storage.types import DescriptorSpec, Photo

DIM = 16
RNG = np.random.default_rng(0)
QUERIES = RNG.standard_normal((3, DIM)).astype(np.float32)
WORDS = Codebook(RNG.normal(size=(16, DIM)).astype(np.float32))


def unit(rows: int) -> np.ndarray:
    vectors = np.random.default_rng(1).standard_normal((rows, DIM)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def photos(count: int) -> list[Photo]:
    return [
        Photo(
            f"album-{n % 7}/photo-{n:04}.jpg",
            *(100 + n, 200),
            ("night",) if n % 3 else (),
            f"2019-01-{n % 28 + 1:02}T10:00:00",
            Stamp(n, n, f"{n:064x}"),
        )
        for n in range(count)
    ]


def make_index(folder: Path, compress: str) -> None:
    rows = 80 if compress == "none" else 1100  # fewer get no codes
    spec, roots = DescriptorSpec(DIM, "solar-r18", "abc", {"size": 512}), Roots.at(folder.parent)
    known = {"spec": spec, "roots": roots, "compress": compress}
    with Index.create(folder, unit(rows), photos(rows), **known) as index:
        index.remove(["album-0/photo-0007.jpg", "album-1/photo-0008.jpg"])


def ask_index(folder: Path) -> list[Any]:
    with Index.open(folder) as index:
        assert isinstance(index, Index)
        problems = index.check()  # which never raises
        assert all(problem.endswith(".") for problem in problems)
        conditions = (None, "tag=night", "taken>=2019-01-20", "path=album-3/", "width<120")
        return [
            *(index.search_vectors(QUERIES, 8, where=where) for where in conditions),
            *(len(index), index.spec, index.roots, index.engine.stamps()),
            index.photo("album-2/photo-0009.jpg"),
        ]


def make_asmk(folder: Path, _: str) -> None:
    signatures = [aggregate(unit(8 * 30)[8 * n : 8 * n + 8], WORDS) for n in range(30)]
    batches = [([photo], [signed]) for photo, signed in zip(photos(30), signatures, strict=True)]
    create(folder, DescriptorSpec(DIM, "sift", "sift", {"method": "asmk"}), WORDS, batches).close()


def ask_asmk(folder: Path) -> list[Any]:
    with Index.open(folder) as index:
        queries = [aggregate(unit(8 * 30)[8 * n : 8 * n + 8], WORDS, 5) for n in (3, 4)]
        found = index.engine.search_signatures(queries, 6)  # type: ignore[attr-defined]
        return [found, len(index), index.spec, index.engine.stamps()]


def make_store(folder: Path, _: str) -> None:
    known = photos(40)
    names = tuple(photo.path for photo in known)
    seen = tuple(Found(photo.path, folder, *photo.stamp[:2]) for photo in known if photo.stamp)
    listed = Photos(names, (folder,) * 40, {}, Roots.at(folder.parent), seen)
    facts = {"model": "solar-r18", "fingerprint": "abc", "settings": {"size": 512}, "dim": DIM}
    store = Store.create(folder, listed, **facts, shard_size=16)
    for shard in store.pending():
        mine = store.source(shard)
        rows = unit(40)[[names.index(name) for name in mine]]
        stamps = {photo.path: photo.stamp for photo in known if photo.stamp}
        store.write_shard(
            shard, rows[1:], mine[1:], [(9, 9)] * (len(mine) - 1), {mine[0]: "torn"}, stamps
        )


def ask_store(folder: Path) -> list[Any]:
    store = Store.open(folder)
    shards = [store.source(number) for number in range(store.shards)]
    facts = (store.model, store.fingerprint, store.settings, store.dim, store.roots)
    read = (store.names, store.sizes.tolist(), store.stamps, store.failures)
    return [*facts, *read, store.vectors().tolist(), shards]


@pytest.mark.parametrize(
    ("make", "ask", "kind", "cases"),
    [
        (make_index, ask_index, "none", 400),
        (make_index, ask_index, "pq", 50),
        (make_index, ask_index, "ivf", 20),
        (make_asmk, ask_asmk, "asmk", 180),
        (make_store, ask_store, "store", 400),
    ],
    ids=["index", "pq", "ivf", "asmk", "store"],
)
def test_no_damage_gives_another_answer(
    tmp_path: Path,
    make: Callable[[Path, str], None],
    ask: Callable[[Path], list[Any]],
    kind: str,
    cases: int,
) -> None:
    make(tmp_path / "whole", kind)
    right, told = ask(tmp_path / "whole"), list[str]()
    for what, copy in damaged_copies(tmp_path / "whole", tmp_path, cases, seed=0):
        try:
            assert ask(copy) == right, what
        except SolarError as error:
            told.append(str(error))
    assert len(told) > cases // 4
    assert all(sentence.endswith(".") for sentence in told)
