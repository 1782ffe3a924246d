import json
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.filtered_photos import varied

from solar.errors import SolarError
from solar.images import Roots
from solar.index import Index
from solar.storage import compression, folder_engine
from solar.storage.catalogue_view import View
from solar.storage.conditions import parse_where
from solar.storage.types import Amendment, Hit, Photo

DIM = 16


def unit(seed: int, rows: int, dim: int = DIM) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((rows, dim)).astype(np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def names(rows: int, prefix: str = "") -> list[str]:
    return [f"{prefix}{row}.jpg" for row in range(rows)]


def oracle(state: dict[str, np.ndarray], query: np.ndarray, k: int) -> list[Hit]:
    """Compare with every photo; equal scores keep the order in which photos came."""
    scored = [
        (p, float(np.float32(v.astype(float) @ query.astype(float)))) for p, v in state.items()
    ]
    scored.sort(key=lambda pair: -pair[1])
    return [Hit(*pair) for pair in scored[:k]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "photos.solar"


# Exact search against the oracle


def test_search_equals_the_oracle_after_removing_and_replacing(folder: Path) -> None:
    vectors = unit(0, 300)
    state = dict(zip(names(300), vectors, strict=True))
    index = Index.create(folder, vectors, names(300))
    index.remove(names(100))
    fresh = unit(1, 50)
    index.add(fresh, names(150)[100:])
    for name in names(100):
        del state[name]
    for name, vector in zip(names(150)[100:], fresh, strict=True):
        del state[name]
        state[name] = vector
    for opened in (index, Index.open(folder)):
        for query in unit(2, 20):
            assert opened.search(query, 30) == oracle(state, query, 30)
        assert len(opened) == 200
        assert opened.check() == []


PHOTOS = [
    varied(
        row,
        position=None if row % 4 == 0 else (row / 10, 179.95 - 359.9 * (row % 2)),
    )
    for row in range(200)
]


@pytest.mark.parametrize("compress", ["none", "pq"])
@pytest.mark.parametrize(
    "where",
    [
        ["tag=night"],
        ["tag=night", "tag=river"],
        ["path=a*[b/"],
        ["path=rome/1"],
        ["width>=150", "height<360"],
        ["taken>=2010"],
        ["taken<2003-07-14T18:30:00"],
        ["tag=day"],
        ["near=5,180,600km"],
        ["near=5,179.9,600km", "near=10,-180,300km", "tag=night"],
    ],
)
def test_filters_give_the_true_best_among_the_matching(
    folder: Path, where: list[str], compress: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, "LEAST", 100)
    vectors = unit(0, 200)
    index = Index.create(folder, vectors, PHOTOS, compress=compress)
    index.remove([PHOTOS[15].path])
    conditions = parse_where(where)
    state = {
        photo.path: vector
        for photo, vector in zip(PHOTOS, vectors, strict=True)
        if photo is not PHOTOS[15] and all(c.holds(photo) for c in conditions)
    }
    for query in unit(1, 5):
        assert index.search(query, 10, where=where) == oracle(state, query, 10)


class Changes(RuleBasedStateMachine):
    """Random changes to an index and to a dict that ought to stay alike."""

    paths = st.lists(st.sampled_from([f"{n}.jpg" for n in range(12)]), min_size=1, max_size=8)

    @initialize(compress=st.sampled_from(["none", "pq"]))
    def create(self, compress: str) -> None:
        self.home = Path(tempfile.mkdtemp())
        self.seed = 0
        self.state: dict[str, np.ndarray] = {}
        self.index = Index.create(
            self.home / "i.solar", np.empty((0, 4), np.float32), [], compress=compress
        )

    @rule(paths=paths)
    def add(self, paths: list[str]) -> None:
        self.seed += 1
        vectors = unit(self.seed, len(paths), 4)
        self.index.add(vectors, paths)
        for path, vector in zip(paths, vectors, strict=True):
            self.state.pop(path, None)
            self.state[path] = vector

    @precondition(lambda self: self.state)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(self.state)))
        self.index.remove(path)
        del self.state[path]

    @rule()
    def remove_what_is_not_there(self) -> None:
        with pytest.raises(SolarError, match=re.escape("nothing was removed")):
            self.index.remove([*self.state, "none.jpg"])

    @rule()
    def compact(self) -> None:
        self.index.compact()

    @rule()
    def reopen(self) -> None:
        self.index.close()
        self.index = Index.open(self.home / "i.solar")

    @invariant()
    def alike(self) -> None:
        query = unit(99, 1, 4)[0]
        assert self.index.search(query, 20) == oracle(self.state, query, 20)
        assert len(self.index) == len(self.state)

    def teardown(self) -> None:
        assert self.index.check() == []
        shutil.rmtree(self.home)


# Every change is forced to the disk, so a few long runs rather than many.
Changes.TestCase.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
TestChanges = Changes.TestCase


# Compressed


@pytest.fixture
def small_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_engine, "_TAIL", 64)
    monkeypatch.setattr(compression, "_PART", 1000)
    monkeypatch.setattr(compression, "_THREADED", 2000)


def planted(seed: int, rows: int, dim: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Random vectors, and queries with ten neighbours each among them."""
    vectors, queries = unit(seed, rows, dim), unit(seed + 1, 10, dim)
    for number in range(100):
        away = unit(seed + 2 + number, 1, dim)[0]
        vectors[37 * number % rows] = queries[number % 10] + 0.6 * away
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), queries


@pytest.mark.parametrize("compress", ["fp16", "pq", "ivf"])
def test_compressed_search_finds_what_exact_search_finds(
    folder: Path, tmp_path: Path, compress: str, small_codes: None
) -> None:
    vectors, queries = planted(0, 3000)
    exact = Index.create(tmp_path / "exact.solar", vectors, names(3000))
    index = Index.create(folder, vectors, names(3000), compress=compress)
    for change in ("nothing", "remove", "add", "compact"):
        for each in (exact, index):
            if change == "remove":
                each.remove([f"{37 * number}.jpg" for number in range(60)])
            if change == "add":
                each.add(planted(500, 500)[0], names(500, "new/"))
            if change == "compact":
                each.compact()
        truth = exact.search_vectors(queries, 5)
        for opened in (index, Index.open(folder)):
            ours = opened.search_vectors(queries, 5)
            both = [
                {h.path for h in a} & {h.path for h in b} for a, b in zip(truth, ours, strict=True)
            ]
            assert sum(map(len, both)) >= 0.9 * 50, change
        assert index.check() == []


def test_codes_are_far_smaller_and_scores_stay_exact(folder: Path, small_codes: None) -> None:
    vectors, queries = planted(0, 3000)
    index = Index.create(folder, vectors, names(3000), compress="pq")
    facts = index.info()
    assert facts["bytes_of_codes"] < facts["bytes_of_vectors"] / 16
    state = dict(zip(names(3000), vectors, strict=True))
    [hits] = index.search_vectors(queries[:1], 3)
    assert hits == oracle(state, queries[0], 3)


def test_codes_of_long_vectors_tell_them_apart() -> None:
    """Sums of more than 256 codes would not fit into the 16 bits that Faiss has for them."""
    dice = np.random.default_rng(0)
    vectors = np.sign(unit(0, 2000, 64) @ dice.standard_normal((64, 2048))).astype(np.float32)
    made = compression.train("pq", vectors)
    assert made.pq.M <= 256
    made.add(vectors)
    assert (made.search(vectors[:50], 1)[1][:, 0] == np.arange(50)).all()


def test_one_query_alone_finds_what_it_finds_among_others(folder: Path, small_codes: None) -> None:
    vectors, queries = planted(0, 3000)
    index = Index.create(folder, vectors, names(3000), compress="pq")
    assert len(list((folder / "codes").glob("*"))) == 3
    assert index.search_vectors(queries, 10) == [index.search(query, 10) for query in queries]


def test_new_photos_are_found_before_and_after_they_get_codes(
    folder: Path, small_codes: None
) -> None:
    index = Index.create(folder, unit(0, 1500), names(1500), compress="pq")
    before = index.info()["bytes_of_codes"]
    few, many = unit(1, 10), unit(2, 400)
    index.add(few, names(10, "few/"))
    assert index.info()["rows_outside_codes"] == 10
    assert index.search(few[3], 1)[0].path == "few/3.jpg"
    index.add(many, names(400, "many/"))
    assert index.info()["rows_outside_codes"] == 0
    assert index.info()["bytes_of_codes"] > before
    assert index.search(few[3], 1)[0].path == "few/3.jpg"
    assert index.search(many[5], 1)[0].path == "many/5.jpg"


def test_removed_photos_do_not_crowd_out_others(folder: Path) -> None:
    """Six hundred near copies are removed: the codes still think of them first."""
    query = unit(5, 1)[0]
    vectors = unit(0, 2000)
    vectors[:600] = query + 0.01 * unit(1, 600)
    vectors[600] = query + 0.5 * unit(6, 1)[0]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    index = Index.create(folder, vectors, names(2000), compress="pq")
    index.remove(names(600))
    assert index.search(query, 1)[0].path == "600.jpg"


def test_compacting_gives_back_the_room(folder: Path) -> None:
    index = Index.create(folder, unit(0, 3000), names(3000), compress="pq")
    before = index.info()
    index.remove(names(2000))
    index.compact()
    after = index.info()
    assert after["unused_rows"] == 0
    assert after["bytes_of_vectors"] == before["bytes_of_vectors"] / 3
    assert len(list((folder / "segments").glob("*"))) == 1


def test_half_precision_takes_half_the_bytes(folder: Path) -> None:
    index = Index.create(folder, unit(0, 100), names(100), compress="fp16")
    assert index.info()["bytes_of_vectors"] == 100 * DIM * 2


# Opening, copying, threads


def test_readable_reads_as_little_of_a_large_index_as_of_a_small_one(tmp_path: Path) -> None:
    io = Path("/proc/self/io")
    if not io.exists():
        pytest.skip("this system does not count the bytes that a process reads")

    def opened(rows: int) -> int:
        folder = tmp_path / str(rows)
        Index.create(folder, unit(0, rows), names(rows)).close()
        before = int(io.read_text().split()[1])
        assert len(Index.open(folder)) == rows
        return int(io.read_text().split()[1]) - before

    opened(10)  # what the library reads once
    assert opened(30_000) <= opened(100) + 8192


def test_a_folder_where_nothing_can_be_written_is_searched_all_the_same(folder: Path) -> None:
    vectors = unit(0, 20)
    Index.create(folder, vectors, names(20)).close()
    folder.chmod(0o555)
    try:
        assert Index.open(folder).search(vectors[3], 1)[0].path == "3.jpg"
    finally:
        folder.chmod(0o755)


# Mistakes


def test_the_later_of_two_photos_with_one_path_counts(folder: Path) -> None:
    vectors = unit(0, 2)
    index = Index.create(folder, vectors, ["a.jpg", "a.jpg"])
    assert len(index) == 1
    assert index.search(vectors[1], 2) == oracle({"a.jpg": vectors[1]}, vectors[1], 2)
    assert index.check() == []


def test_a_second_writer_is_refused(folder: Path) -> None:
    index = Index.create(folder, unit(0, 3), names(3))
    other = Index.open(folder)

    def batches() -> Iterator[tuple[list[Photo], np.ndarray]]:
        with pytest.raises(SolarError, match="Another process"):
            other.remove("0.jpg")
        yield [Photo("new.jpg")], unit(1, 1)

    index.engine.add(batches())
    assert len(other) == 4


def test_an_error_in_the_middle_of_adding_adds_nothing(folder: Path) -> None:
    index = Index.create(folder, unit(0, 3), names(3))

    def batches() -> Iterator[tuple[list[Photo], np.ndarray]]:
        yield [Photo("new.jpg")], unit(1, 1)
        yield [Photo("bad.jpg")], np.full((1, DIM), np.nan, np.float32)

    with pytest.raises(SolarError, match=re.escape("bad.jpg is not finite")):
        index.engine.add(batches())
    assert len(index) == 3
    assert "new.jpg" not in index
    index.add(unit(2, 1), ["other.jpg"])
    assert index.check() == []


@pytest.mark.parametrize("other", [1, 99])
def test_an_index_of_another_format_is_one_sentence(folder: Path, other: int) -> None:
    Index.create(folder, unit(0, 3), names(3)).close()
    connection = sqlite3.connect(folder / "catalogue.sqlite")
    connection.execute(f"PRAGMA user_version = {other}")
    connection.close()
    with pytest.raises(SolarError, match=rf"{folder.name} has format {other},.* format 2"):
        Index.open(folder)


def test_creating_over_an_index_or_other_files_is_refused(folder: Path, tmp_path: Path) -> None:
    Index.create(folder, unit(0, 3), names(3))
    with pytest.raises(SolarError, match="already"):
        Index.create(folder, unit(0, 3), names(3))
    assert len(Index.open(folder)) == 3
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "holiday.txt").write_text("sun")
    with pytest.raises(SolarError, match="other files"):
        Index.create(tmp_path / "other", unit(0, 3), names(3))


def test_a_creation_that_failed_can_be_repeated(folder: Path) -> None:
    with pytest.raises(SolarError, match="finite"):
        Index.create(folder, np.full((2, DIM), np.inf), names(2))
    with pytest.raises(SolarError, match="no index"):
        Index.open(folder)
    assert len(Index.create(folder, unit(0, 2), names(2))) == 2


def test_what_is_no_index_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match="not an index"):
        Index.open(tmp_path)
    (tmp_path / "catalogue.sqlite").write_text("no database, but long enough to look like a file")
    with pytest.raises(SolarError, match="damaged"):
        Index.open(tmp_path)


def test_an_unknown_compression_is_one_sentence(folder: Path) -> None:
    with pytest.raises(SolarError, match="There is no compression 'zip'"):
        Index.create(folder, unit(0, 3), names(3), compress="zip")


def test_a_name_that_is_no_text_is_refused(folder: Path) -> None:
    with pytest.raises(SolarError, match="is not valid UTF-8"):
        Index.create(folder, unit(0, 1), ["\udcff.jpg"])


# Verifying


def segment(folder: Path) -> Path:
    """The only file of vectors."""
    [file] = (folder / "segments").iterdir()
    return file


def damage(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))


def test_check_finds_one_flipped_bit_in_the_vectors(folder: Path) -> None:
    index = Index.create(folder, unit(0, 100), names(100))
    damage(segment(folder), 4000)
    [problem] = index.check()
    assert problem.startswith(f"{segment(folder)} is damaged")


def test_check_finds_damaged_or_missing_codes_and_compacting_mends_it(folder: Path) -> None:
    index = Index.create(folder, unit(0, 2000), names(2000), compress="pq")
    [part] = (folder / "codes").glob("*")
    damage(part, 3000)
    assert "missing or damaged" in index.check()[0]
    part.unlink()
    assert "missing or damaged" in index.check()[0]
    with pytest.raises(SolarError, match="missing"):
        Index.open(folder).search(unit(1, 1)[0])
    index.compact()
    assert index.check() == []


def test_check_finds_photos_that_do_not_match_the_rows(folder: Path) -> None:
    import sqlite3

    index = Index.create(folder, unit(0, 10), names(10))
    index.close()
    with sqlite3.connect(folder / "catalogue.sqlite") as connection:
        connection.execute("UPDATE photos SET row = 77 WHERE row = 3")
    connection.close()
    assert "catalogue.sqlite is damaged" in Index.open(folder).check()[0]


def test_a_vectors_file_cut_short_is_one_sentence(folder: Path) -> None:
    Index.create(folder, unit(0, 100), names(100)).close()
    with segment(folder).open("r+b") as file:
        file.truncate(1000)
    index = Index.open(folder)
    with pytest.raises(SolarError, match="short"):
        index.search(unit(1, 1)[0])
    assert "cut short" in index.check()[0]


def test_a_vectors_file_cut_short_while_it_is_open_ends_no_process(folder: Path) -> None:
    Index.create(folder, unit(0, 2000), names(2000)).close()
    file = segment(folder)
    content = file.read_bytes()
    with Index.open(folder) as index:
        index.search(unit(1, 1)[0])
        begun = index.engine.batches(10)
        next(begun)
        with file.open("r+b") as cut:
            cut.truncate(1000)
        for use in (
            lambda: index.search(unit(1, 1)[0]),
            lambda: index.engine.lookup(["1500.jpg"]),
            lambda: list(index.engine.batches()),
            lambda: list(begun),
        ):
            with pytest.raises(SolarError, match="short"):
                use()
        assert "cut short" in index.check()[0]
        file.write_bytes(content)
        assert len(index.search(unit(1, 1)[0])) == 10


def test_rows_found_before_are_read_again_only_after_a_change(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[set[int]] = []
    paths = View.paths
    monkeypatch.setattr(View, "paths", lambda view, rows: read.append(rows) or paths(view, rows))
    monkeypatch.setattr(folder_engine, "_KNOWN", 12)
    vectors = unit(0, 100)
    with Index.create(folder, vectors, names(100)) as index:
        first = [index.search(vectors[0]) for _ in range(2)]
        assert first[0] == first[1]
        assert list(map(len, read)) == [10]
        index.search(vectors[1])  # more than are kept: the first ones are forgotten
        assert index.search(vectors[0]) == first[0]
        assert len(read) == 3
        index.engine.amend(Amendment(renamed={"0.jpg": "new.jpg"}))
        assert index.search(vectors[0])[0].path == "new.jpg"


def test_an_index_has_a_number_that_every_change_raises(folder: Path) -> None:
    with Index.create(folder, unit(0, 10), names(10)) as index, Index.open(folder) as other:
        seen = [other.engine.version]
        for change in (
            lambda: index.add(unit(1, 1), ["new.jpg"]),
            lambda: index.remove(["new.jpg"]),
            lambda: index.engine.amend(Amendment(roots=Roots.at(folder))),
            index.compact,
        ):
            change()
            seen.append(other.engine.version)
        assert seen == sorted(set(seen))


def test_the_file_names_what_a_version_consists_of(folder: Path) -> None:
    import sqlite3

    Index.create(folder, *compressible(), compress="pq").close()
    with sqlite3.connect(folder / "catalogue.sqlite") as connection:
        facts = {
            name: json.loads(value)
            for name, value in connection.execute("SELECT name, value FROM facts")
        }
    connection.close()
    assert set(facts["made"]) == {"made", "compress"}
    assert set(facts["version"]) == {"number", "rows", "photos", "codes"}
    assert [part["name"] for part in facts["version"]["codes"]] == ["codes/1-0.faiss"]


def compressible() -> tuple[np.ndarray, list[str]]:
    return unit(0, 1024, 16), [f"{n}.jpg" for n in range(1024)]
