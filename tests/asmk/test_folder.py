from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from support.asmk_oracle import signs, similarity

from solar.asmk import index as module
from solar.asmk.codebook import Codebook
from solar.asmk.index import AsmkFolder, AsmkIndex, begin
from solar.asmk.kernel import Signatures, aggregate
from solar.errors import SolarError
from solar.index import Index
from solar.storage.conditions import parse_where
from solar.storage.types import Amendment, DescriptorSpec, Hit, Photo

DIM = 70
CODEBOOK = Codebook(np.random.default_rng(0).normal(size=(16, DIM)).astype(np.float32))


def descriptors(number: int) -> np.ndarray:
    """Those of photo `number`: photos with the same last digit look alike."""
    alike = np.random.default_rng((1, number % 10)).normal(size=(8, DIM))
    return (alike + 0.6 * np.random.default_rng(number).normal(size=(8, DIM))).astype(np.float32)


def path(number: int) -> str:
    return f"{number % 10}/{number}.jpg"


def described(numbers: Iterable[int]) -> Iterator[tuple[Sequence[Photo], Sequence[Signatures]]]:
    for number in numbers:
        photo = Photo(path(number), 10 * number, 100, ("odd",) if number % 2 else ())
        yield [photo], [aggregate(descriptors(number), CODEBOOK)]


def expected(numbers: Iterable[int], query: int, k: int) -> list[tuple[str, float]]:
    asked = signs(descriptors(query), CODEBOOK.words, 5)
    scored = [(path(n), similarity(asked, signs(descriptors(n), CODEBOOK.words))) for n in numbers]
    return sorted(scored, key=lambda pair: -pair[1])[:k]


def check(found: list[Hit], wanted: list[tuple[str, float]]) -> None:
    assert [hit.path for hit in found] == [name for name, _ in wanted]
    assert [hit.score for hit in found] == pytest.approx([s for _, s in wanted], rel=1e-4)


def query(number: int) -> Signatures:
    return aggregate(descriptors(number), CODEBOOK, 5)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AsmkFolder]:
    """Thirty photos in inverted files of at most seven."""
    monkeypatch.setattr(module, "_PHOTOS", 7)
    spec = DescriptorSpec(DIM, "sift", "sift", {"method": "asmk"})
    engine = begin(tmp_path / "photos.asmk", spec, CODEBOOK)
    engine.add_signatures(described(range(30)))
    yield engine
    engine.close()


def test_searches_several_files_for_several_queries(engine: AsmkFolder) -> None:
    assert len(list(engine.folder.glob("postings-*"))) == 5
    assert len(engine) == 30
    found = engine.search_signatures([query(103), query(5)], 6)
    for hits, number in zip(found, (103, 5), strict=True):
        check(hits, expected(range(30), number, 6))
    assert {hit.path.split("/")[0] for hit in found[0][:3]} == {"3"}


def test_conditions(engine: AsmkFolder) -> None:
    where = parse_where(["tag=odd", "width<200"])
    [hits] = engine.search_signatures([query(103)], 5, where)
    check(hits, expected(range(1, 20, 2), 103, 5))


def test_nothing_shared_is_not_found(engine: AsmkFolder) -> None:
    nothing = Signatures(np.empty(0, np.int32), np.empty((0, 2), np.uint64))
    assert engine.search_signatures([nothing], 5) == [[]]


def test_photos_added_replaced_and_removed(engine: AsmkFolder) -> None:
    assert engine.add_signatures(described([29, 30, 31])) == 3
    engine.amend(Amendment(removed=[path(3), path(0)]))
    now = [n for n in range(32) if n not in (0, 3)]
    assert len(engine) == 30
    for _ in range(2):
        [hits] = engine.search_signatures([query(103)], 40)
        check(hits, [pair for pair in expected(now, 103, 40) if pair[1] > 0])
        assert engine.check() == []
        engine.compact()
    assert engine.info()["unused_rows"] == 0
    assert sorted(photo.path for batch in engine.photos() for photo in batch) == sorted(
        map(path, now)
    )


def test_compacting_puts_small_files_together(engine: AsmkFolder) -> None:
    for number in range(40, 44):
        engine.add_signatures(described([number]))
    before = len(list(engine.folder.glob("postings-*")))
    engine.compact()
    assert len(list(engine.folder.glob("postings-*"))) < before
    [hits] = engine.search_signatures([query(103)], 3)
    check(hits, expected([*range(30), *range(40, 44)], 103, 3))


def test_a_reader_goes_on_while_files_are_replaced(engine: AsmkFolder) -> None:
    with Index.open(engine.folder) as reader:
        before = reader.engine.search_signatures([query(103)], 30)
        engine.compact()
        engine.amend(Amendment(removed=[path(7)]))
        [after] = reader.engine.search_signatures([query(103)], 30)
    assert [hit for hit in before[0] if hit.path != path(7)] == after


def test_an_index_opens_as_one_of_local_features(engine: AsmkFolder) -> None:
    with Index.open(engine.folder) as index:
        assert isinstance(index, AsmkIndex)
        assert path(3) in index
        assert index.photo(path(3)).tags == ("odd",)
        assert index.info()["words"] == 16


def test_a_failed_change_changes_nothing(engine: AsmkFolder) -> None:
    def failing() -> Iterator[tuple[Sequence[Photo], Sequence[Signatures]]]:
        yield from described(range(50, 60))
        raise SolarError("The disk is full.")

    with pytest.raises(SolarError, match="full"):
        engine.add_signatures(failing())
    assert len(engine) == 30
    assert engine.check() == []
    engine.add_signatures(described([30]))
    assert len(list(engine.folder.glob("postings-*"))) == 6  # nothing is left of the failure


def test_an_unfinished_index_can_be_built_again(tmp_path: Path) -> None:
    spec = DescriptorSpec(DIM, "sift", "sift")
    begin(tmp_path / "i", spec, CODEBOOK).close()
    with Index.open(tmp_path / "i") as index:
        assert (len(index), index.engine.unfinished) == (0, True)
    engine = begin(tmp_path / "i", spec, Codebook(CODEBOOK.words[:8]))
    engine.add_signatures(described(range(4)))
    engine.close()
    with pytest.raises(SolarError, match="index already"):
        begin(tmp_path / "i", spec, CODEBOOK)
    with Index.open(tmp_path / "i") as index:
        assert len(index) == 4
        assert index.check() == []


@pytest.mark.parametrize("name", ["codebook.safetensors", "postings-1-0.npy"])
def test_check_notices_a_changed_byte(engine: AsmkFolder, name: str) -> None:
    content = bytearray((engine.folder / name).read_bytes())
    content[-3] ^= 1
    (engine.folder / name).write_bytes(content)
    [problem] = engine.check()
    assert name in problem


def test_a_missing_file_is_named(engine: AsmkFolder) -> None:
    (engine.folder / "postings-1-2.npy").unlink()
    with pytest.raises(SolarError, match=r"postings-1-2\.npy is missing"):
        engine.search_signatures([query(1)], 1)


def test_two_new_photos_of_one_path(engine: AsmkFolder) -> None:
    [one] = described([40])
    with pytest.raises(SolarError, match="path"):
        engine.add_signatures([([*one[0], *one[0]], [*one[1], *one[1]])])


def test_what_needs_vectors_is_refused(engine: AsmkFolder, tmp_path: Path) -> None:
    with Index.open(engine.folder) as index:
        for attempt in (
            lambda: index.search_vectors(np.zeros((1, DIM))),
            lambda: index.describe("a.jpg"),
            lambda: index.model,
            lambda: index.search(np.zeros(DIM, np.float32)),
            lambda: index.add(np.zeros((1, DIM)), ["a.jpg"]),
            lambda: index.copy(tmp_path / "copy"),
        ):
            with pytest.raises(SolarError, match="features"):
                attempt()
