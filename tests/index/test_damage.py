"""Random damage to what is stored: the answers are those of before, or one sentence."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.damage import damaged_copies

from solar.asmk.codebook import Codebook
from solar.asmk.index import begin as begin_asmk
from solar.asmk.kernel import aggregate
from solar.errors import SolarError
from solar.images import Roots, Stamp
from solar.index import Index
from solar.storage.folder_engine import begin
from solar.storage.protocol import Piece
from solar.storage.types import DescriptorSpec, Photo, Skipped

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
    spec = DescriptorSpec(DIM, "sift", "sift", {"method": "asmk"})
    with closing(begin_asmk(folder, spec, WORDS)) as engine:
        engine.add_signatures(batches)
        engine.finish()


def ask_asmk(folder: Path) -> list[Any]:
    with Index.open(folder) as index:
        queries = [aggregate(unit(8 * 30)[8 * n : 8 * n + 8], WORDS, 5) for n in (3, 4)]
        found = index.engine.search_signatures(queries, 6)  # type: ignore[attr-defined]
        return [found, len(index), index.spec, index.engine.stamps()]


def make_begun(folder: Path, _: str) -> None:
    """What a build that was stopped leaves: segments, and files that could not be read."""
    spec, known, vectors = (
        DescriptorSpec(DIM, "solar-r18", "abc", {"size": 512}),
        photos(40),
        unit(40),
    )
    engine = begin(folder, spec, Roots.at(folder.parent))
    for first in range(0, 40, 8):
        rows = slice(first + 1, first + 8)
        torn = {known[first].path: Skipped("torn", first, first)}
        engine.fill(Piece(known[rows], vectors[rows], torn))
    engine.close()


def ask_begun(folder: Path) -> list[Any]:
    with Index.open(folder) as index:
        held, vectors = index.mapped()
        facts = (index.spec, index.roots, index.engine.unfinished, index.engine.skipped())
        stamps = [photo.stamp for photo in held]
        return [
            *facts,
            held,
            stamps,
            np.asarray(vectors).tolist(),
            index.search_vectors(QUERIES, 4),
        ]


@pytest.mark.parametrize(
    ("make", "ask", "kind", "cases"),
    [
        (make_index, ask_index, "none", 400),
        (make_index, ask_index, "pq", 50),
        (make_index, ask_index, "ivf", 20),
        (make_asmk, ask_asmk, "asmk", 180),
        (make_begun, ask_begun, "none", 400),
    ],
    ids=["index", "pq", "ivf", "asmk", "begun"],
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
