"""What every engine does alike: the embedded one, Milvus Lite and a Milvus server."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from support.filtered_photos import varied

from solar.errors import SolarError
from solar.images import Root, Roots, Stamp
from solar.index import Index
from solar.storage.conditions import Condition, parse_where
from solar.storage.types import Amendment, DescriptorSpec, Hit, Photo

DIM = 16
MADE = DescriptorSpec(DIM, "m", "hash", {"size": 96, "scales": [1.0, 0.5]})
ROOTS = Roots((Root("/photos"), Root("/mnt/camera", "camera"), Root("/one", "one", whole=False)))


def unit(seed: int, rows: int) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((rows, DIM)).astype(np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


# Names in which some language or other would see an end, an escape or a wildcard.
ODD = [
    "q\"uo'te\\.jpg",
    "li\nne\r\t.jpg",
    "%_*[a].jpg",
    "\x01\\n.jpg",
    "\\",
    "日本🙂é.jpg",
    "{a} or 1",
]
ODD_FIELD = "日本é {a} or 1~/%'*.$:x"
FIELDS = [
    {"color": "red", "floor": 3, "indoor": True},
    {"color": "3", "floor": 0.1 + 0.2},
    {"color": 3, "floor": "3", "indoor": "true"},
    {"floor": True, "indoor": 1},
    {"floor": -1e300, "color": "true", "2 words": "a b"},
    {"floor": 2**53, "color": False},
    {},
]
PHOTOS = [
    varied(
        row,
        stamp=Stamp(row, 1_700_000_000_123_456_789 + row, f"{row:064x}") if row % 4 else None,
        fields=FIELDS[row % len(FIELDS)],
    )
    for row in range(193)
] + [Photo(name, tags=(name,), fields={"odd": name, ODD_FIELD: 1}) for name in ODD]
VECTORS = unit(0, len(PHOTOS))


def oracle(state: dict[str, np.ndarray], query: np.ndarray, k: int) -> list[Hit]:
    """Compare with every photo."""
    scored = [Hit(path, float(vector @ query)) for path, vector in state.items()]
    return sorted(scored, key=lambda hit: -hit.score)[:k]


def assert_same(ours: list[Hit], theirs: list[Hit]) -> None:
    assert [hit.path for hit in ours] == [hit.path for hit in theirs]
    np.testing.assert_allclose([h.score for h in ours], [h.score for h in theirs], atol=1e-6)


@pytest.fixture(scope="module")
def indexes(
    engine_address, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Index, Index]]:
    """DescriptorSpec at the same time: a server spends most of it waiting."""

    def fill() -> Index:
        folder = tmp_path_factory.mktemp("source")
        made = {"spec": MADE, "roots": ROOTS}
        with Index.create(folder / "i.solar", VECTORS, PHOTOS, **made) as source:
            return source.copy(engine_address("filled"))

    def fill_some() -> Index:
        return Index.create(engine_address("changing"), VECTORS[:50], PHOTOS[:50])

    with ThreadPoolExecutor() as threads:
        filled, changing = threads.submit(fill), threads.submit(fill_some)
    with filled.result() as one, changing.result() as other:
        yield one, other


@pytest.fixture(scope="module")
def filled(indexes: tuple[Index, Index]) -> Index:
    """An index that no test changes, copied from an embedded one."""
    return indexes[0]


@pytest.fixture(scope="module")
def changing(indexes: tuple[Index, Index]) -> Index:
    """An index that tests change."""
    return indexes[1]


def test_search_gives_the_true_best(filled: Index) -> None:
    state = {photo.path: vector for photo, vector in zip(PHOTOS, VECTORS, strict=True)}
    for query, hits in zip(unit(1, 5), filled.search_vectors(unit(1, 5), 30), strict=True):
        assert_same(hits, oracle(state, query, 30))


def test_several_queries_at_once_equal_one_after_the_other(filled: Index) -> None:
    queries = unit(1, 3)
    for query, hits in zip(queries, filled.search_vectors(queries, 7), strict=True):
        assert_same(hits, filled.search(query, 7))


def test_there_are_no_more_hits_than_photos(filled: Index) -> None:
    assert len(filled.search(unit(1, 1)[0], 1000)) == len(filled) == len(PHOTOS)


def matching(*where: Condition) -> dict[str, np.ndarray]:
    return {
        photo.path: vector
        for photo, vector in zip(PHOTOS, VECTORS, strict=True)
        if all(condition.holds(photo) for condition in where)
    }


@pytest.mark.parametrize(
    "where",
    [
        ["tag=night"],
        ["tag=night", "tag=river"],
        ["tag=day"],
        ["path=a*[b/"],
        ["path=rome/1"],
        ["width>=150", "height<360"],
        ["taken>=2010"],
        ["taken<2003-07-14T18:30:00"],
        ["tag=river", "path=rome/", "taken>=2005", "taken<2015", "width<100"],
        ["color=red"],
        ["color=3"],
        ["color=blue"],
        ["floor=3"],
        ["floor=3.0", "width<100"],
        ["floor=true"],
        ["floor=1"],
        ["indoor=true"],
        ["indoor=1"],
        ["floor=0.30000000000000004"],
        ["floor=-1e300"],
        ["floor>=3"],
        ["floor>=0.3", "floor<3.5", "tag=night"],
        ["floor<1"],
        ["color<99"],
        ["color=false", f"floor={2**53}"],
        ["2 words=a b"],
    ],
)
def test_conditions_give_the_true_best_among_the_matching(filled: Index, where: list[str]) -> None:
    query = unit(1, 1)[0]
    expected = oracle(matching(*parse_where(where)), query, 20)
    assert_same(filled.search(query, 20, where=where), expected)


@pytest.mark.parametrize("field", ["tag", "path"])
def test_odd_texts_in_conditions_mean_themselves(filled: Index, field: str) -> None:
    query = unit(1, 1)[0]
    for text in (*ODD, "none'\"\\", "rome/\U0010ffff"):
        condition = Condition(field, "=", text)
        expected = oracle(matching(condition), query, 20)
        assert_same(filled.search(query, 20, where=[condition]), expected)


def test_odd_texts_of_own_fields_mean_themselves(filled: Index) -> None:
    query = unit(1, 1)[0]
    for condition in [*(Condition("odd", "=", text) for text in ODD), Condition(ODD_FIELD, "=", 1)]:
        expected = oracle(matching(condition), query, 20)
        assert expected
        assert_same(filled.search(query, 20, where=[condition]), expected)


@pytest.mark.parametrize("where", ["colour=red", "Color=red", "floors>=3", "color.red=1"])
def test_a_field_that_no_photo_has_is_refused(filled: Index, where: str) -> None:
    known = ["2 words", "color", "floor", "indoor", "odd", ODD_FIELD]
    assert filled.engine.field_names() == sorted(known)
    for search in (filled.search, lambda *args, **how: filled.search_vectors(args[:1], **how)):
        with pytest.raises(SolarError, match=f"'{re.split('[=>]', where)[0]}'.* color, floor"):
            search(unit(1, 1)[0], where=where)


def test_all_that_is_known_of_a_photo_comes_back(filled: Index) -> None:
    found = filled.engine.lookup([photo.path for photo in PHOTOS])
    assert [found[photo.path][0] for photo in PHOTOS] == PHOTOS
    assert filled.engine.stamps() == {photo.path: photo.stamp for photo in PHOTOS}
    np.testing.assert_array_equal([found[photo.path][1] for photo in PHOTOS], VECTORS)


def test_what_is_not_indexed_is_not_found(filled: Index) -> None:
    assert filled.engine.lookup(["none.jpg", "\udcff", "\0"]) == {}
    assert "rome/1.jpg" in filled
    assert "rome/1" not in filled


def test_batches_hold_everything_once_in_one_order(filled: Index) -> None:
    batches = list(filled.engine.batches(50))
    assert all(len(photos) == len(vectors) <= 50 for photos, vectors in batches)
    photos = [photo for batch, _ in batches for photo in batch]
    assert sorted(photos, key=str) == sorted(PHOTOS, key=str)
    vectors = np.concatenate([vectors for _, vectors in batches])
    known = dict(zip(PHOTOS, VECTORS, strict=True))
    np.testing.assert_array_equal(vectors, [known[photo] for photo in photos])
    again = [photo for batch, _ in filled.engine.batches(64) for photo in batch]
    assert again == photos


def test_photos_are_those_of_the_batches(filled: Index) -> None:
    photos = [photo for batch in filled.engine.photos(50) for photo in batch]
    assert photos == [photo for batch, _ in filled.engine.batches(64) for photo in batch]


def test_a_copy_back_is_the_same_index(filled: Index, tmp_path: Path) -> None:
    with filled.copy(tmp_path / "copy.solar") as copied:
        assert (copied.spec, copied.roots) == (MADE, ROOTS)
        assert copied.engine.stamps() == filled.engine.stamps()
        assert copied.check() == []
        assert_same(copied.search(unit(1, 1)[0], 9), filled.search(unit(1, 1)[0], 9))


def test_who_opens_it_again_sees_how_it_was_made(filled: Index, engine_address) -> None:
    with Index.open(engine_address("filled")) as opened:
        assert (opened.spec, opened.roots) == (MADE, ROOTS)
        assert len(opened) == len(PHOTOS)
        assert opened.check() == []


def test_info_says_what_there_is(filled: Index) -> None:
    facts = filled.info()
    assert facts["engine"] in ("embedded", "milvus")
    assert (facts["photos"], facts["dim"], facts["fingerprint"]) == (len(PHOTOS), DIM, "hash")
    assert facts["bytes"] >= len(PHOTOS) * DIM * 4


def test_threads_may_share_an_index(filled: Index) -> None:
    queries = list(unit(1, 12))
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(filled.search, queries))
    for query, hits in zip(queries, together, strict=True):
        assert_same(hits, filled.search(query))


# Mistakes, none of which changes anything


def test_a_name_that_is_taken_is_refused(filled: Index, engine_address) -> None:
    with pytest.raises(SolarError, match="already"):
        Index.create(engine_address("filled"), unit(0, 1), ["a.jpg"])
    assert len(filled) == len(PHOTOS)


def test_what_does_not_exist_is_one_sentence(engine_address) -> None:
    with pytest.raises(SolarError, match=r"no index|exist"):
        Index.open(engine_address("none"))


def test_a_failed_creation_leaves_no_index(engine_address) -> None:
    vectors = unit(0, 5000)
    vectors[4999] = np.nan
    with pytest.raises(SolarError, match=re.escape("4999.jpg is not finite")):
        Index.create(engine_address("failed"), vectors, [f"{n}.jpg" for n in range(5000)])
    with pytest.raises(SolarError, match=r"no index|exist"):
        Index.open(engine_address("failed"))


def test_scores_are_cosines_whatever_the_length_of_a_query(filled: Index) -> None:
    [best] = filled.search(unit(0, 1)[0], 1)
    _, own = filled.engine.lookup([best.path])[best.path]
    [hit] = filled.search(7 * own, 1)
    assert 1 - 1e-6 <= hit.score <= 1


def test_vectors_that_do_not_fit_are_refused(filled: Index) -> None:
    with pytest.raises(SolarError, match="length 16"):
        filled.add(np.eye(8), list("abcdefgh"))
    with pytest.raises(SolarError, match="length 16"):
        filled.search(np.ones(8))
    with pytest.raises(SolarError, match="finite"):
        filled.add(np.full((1, DIM), np.inf), ["a"])
    with pytest.raises(SolarError, match=r"a\.jpg has a norm of 2"):
        filled.add(2 * unit(0, 1), ["a.jpg"])
    with pytest.raises(SolarError, match="is not valid UTF-8"):
        filled.add(unit(0, 1), ["\udcff.jpg"])
    assert len(filled) == len(PHOTOS)


def test_removing_what_is_not_there_removes_nothing(filled: Index) -> None:
    with pytest.raises(SolarError, match=r"^none\.jpg is not in .*: nothing was removed\.$"):
        filled.remove(["rome/1.jpg", "none.jpg"])
    assert "rome/1.jpg" in filled


# Changes


def test_changes_are_seen_at_once(changing: Index) -> None:
    state = {photo.path: vector for photo, vector in zip(PHOTOS[:50], VECTORS[:50], strict=True)}
    random, query = np.random.default_rng(3), unit(1, 1)[0]
    for step in range(6):
        paths = [f"new/{n}.jpg" for n in random.integers(0, 12, 8)]
        vectors = unit(10 + step, 8)
        assert changing.add(vectors, paths) == 8  # some of them twice: the later counts
        state |= dict(zip(paths, vectors, strict=True))
        gone = [str(path) for path in random.choice(sorted(state), 3, replace=False)]
        assert changing.remove(gone) == 3
        for path in gone:
            del state[path]
        assert_same(changing.search(query, 100), oracle(state, query, 100))
    assert len(changing) == len(state)
    changing.compact()
    assert_same(changing.search(query, 100), oracle(state, query, 100))
    assert changing.check() == []


def test_a_replaced_photo_is_what_it_is_now(changing: Index) -> None:
    before = Photo("r.jpg", 1, 2, ("old",), "2001-01-01T00:00:00")
    after = Photo("r.jpg", 3, 4, ("new",))
    changing.add(unit(5, 1), [before])
    changing.add(unit(6, 1), [after])
    assert changing.photo("r.jpg") == after
    np.testing.assert_array_equal(changing.describe("name:r.jpg"), unit(6, 1)[0])
    assert changing.search(unit(5, 1)[0], where="tag=old") == []
    assert [hit.path for hit in changing.search(unit(5, 1)[0], where="tag=new")] == ["r.jpg"]


def test_what_needs_no_network_is_amended_at_once(changing: Index, engine_address) -> None:
    paths = [f"amended/{name}" for name in "abcdef"]
    a, b, c, d, e, f = paths
    then, now = Stamp(1, 2, "0" * 64), Stamp(3, 4, "1" * 64)
    changing.add(unit(9, 5), [Photo(p, 5, 6, ("tag",), stamp=then) for p in paths[:5]])
    others = {name: s for name, s in changing.engine.stamps().items() if name not in paths}
    swap = {b: c, c: b, d: f}  # two photos that take each other's name, and one with a new one
    roots = Roots.at("/elsewhere").with_root(Path("/mnt/b"), named=True)[0]
    changing.engine.amend(Amendment([a], swap, {c: now, e: now}, None, roots))
    with Index.open(engine_address("changing")) as again:
        for index in (changing, again):
            expected = {b: then, c: now, f: then, e: now}
            assert index.engine.stamps() == others | expected
            assert len(index) == len(others) + 4
            found = index.engine.lookup(paths)
            assert found.keys() == expected.keys()
            vectors = [found[path][1] for path in (c, b, f, e)]
            np.testing.assert_array_equal(vectors, unit(9, 5)[1:])
            assert found[f][0] == Photo(f, 5, 6, ("tag",))
            assert index.roots == roots
            assert index.spec == changing.spec
    assert changing.search(unit(9, 5)[3], 1)[0].path == f
    assert changing.check() == []
    changing.engine.amend(Amendment())
    assert changing.roots == roots


def test_nothing_may_be_added_and_everything_removed(changing: Index) -> None:
    assert changing.engine.add([]) == 0
    every = [photo.path for photos, _ in changing.engine.batches() for photo in photos]
    assert changing.remove(every) == len(every)
    assert len(changing) == 0
    assert changing.search(unit(1, 1)[0]) == []
    assert list(changing.engine.batches()) == []
