import sqlite3
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.unit_rows import unit_rows
from support.warped import toy_photo, turned

import solar
from solar.arrays import Floats, RowNumbers, Vectors
from solar.errors import SolarError
from solar.images import Roots
from solar.index import Index, embeddings
from solar.index.embeddings import described
from solar.models import RetrievalConfig, RetrievalNet
from solar.ranking.neighbours import Neighbours
from solar.sfm.pairs import NameOrder, pairs
from solar.storage import nearest
from solar.storage.nearest import Multiply
from solar.storage.rows import Matrix, Rows
from solar.storage.types import Photo


def made(folder: Path, vectors: np.ndarray, names: list[str]) -> Path:
    """An index of these vectors."""
    Index.create(folder / "photos.solar", vectors.astype(np.float32), names).close()
    return folder / "photos.solar"


def names_of(count: int) -> list[str]:
    return [f"{number:05}.jpg" for number in range(count)]


def brute(vectors: np.ndarray, k: int, least: float = -2.0) -> set[frozenset[int]]:
    """All pairs from the whole matrix of similarities."""
    similar = vectors @ vectors.T
    np.fill_diagonal(similar, -np.inf)
    found = set()
    for row, scores in enumerate(similar):
        best = np.argsort(-scores, kind="stable")[: min(k, len(vectors) - 1)]
        found |= {frozenset((row, int(other))) for other in best if scores[other] >= least}
    return found


@pytest.mark.parametrize(("k", "least"), [(1, None), (5, None), (5, 0.3), (500, None), (3, 1.0)])
def test_pairs_are_those_of_the_whole_matrix_each_once(
    tmp_path: Path, k: int, least: float | None
) -> None:
    vectors = unit_rows(0, 60, 8).numpy()
    index = made(tmp_path, vectors, names_of(60))
    found = list(pairs(index, k=k, min_score=least))
    numbers = [frozenset((int(a[:5]), int(b[:5]))) for a, b in found]
    assert len(set(numbers)) == len(numbers)
    assert set(numbers) == brute(vectors, k, -2.0 if least is None else least)
    assert found == list(solar.pairs(str(index), k=k, min_score=least))  # in the same order


def test_the_most_similar_photos_come_first(tmp_path: Path) -> None:
    vectors = unit_rows(1, 30, 8).numpy()
    found = list(pairs(made(tmp_path, vectors, names_of(30)), k=29))
    first = [int(b[:5]) for a, b in found if a == "00000.jpg"]
    assert first == np.argsort(-(vectors[1:] @ vectors[0]), kind="stable")[:29].__add__(1).tolist()


def test_of_equal_photos_the_first_are_taken_and_none_is_paired_with_itself(tmp_path: Path) -> None:
    index = made(tmp_path, np.ones((50, 4)) / 2, names_of(50))
    found = list(pairs(index, k=2))
    assert found[:4] == [
        ("00000.jpg", "00001.jpg"), ("00000.jpg", "00002.jpg"),
        ("00001.jpg", "00002.jpg"), ("00003.jpg", "00000.jpg"),
    ]  # fmt: skip
    assert all(a != b for a, b in found)


@pytest.mark.parametrize("count", [1, 2])
def test_a_small_collection_has_few_pairs(tmp_path: Path, count: int) -> None:
    found = list(pairs(made(tmp_path, unit_rows(0, count, 4).numpy(), names_of(count)), k=20))
    assert found == [("00000.jpg", "00001.jpg")][: count - 1]


def test_frames_of_a_video_are_paired_with_their_neighbours(tmp_path: Path) -> None:
    names = ["b/10.jpg", "b/9.jpg", "b/8.jpg", "a/7.jpg", "b/11.jpg"]
    index = made(tmp_path, unit_rows(0, 5, 4).numpy(), names)
    assert {frozenset(pair) for pair in pairs(index, k=0, window=1)} == {
        frozenset(pair)
        for pair in [("b/8.jpg", "b/9.jpg"), ("b/9.jpg", "b/10.jpg"), ("b/10.jpg", "b/11.jpg")]
    }
    both = list(pairs(index, k=2, window=2))
    alone = {frozenset(pair) for pair in pairs(index, k=2)}
    near = {frozenset(pair) for pair in pairs(index, k=0, window=2)}
    assert len(near) == 5
    assert {frozenset(pair) for pair in both} == alone | near
    assert len(both) == len(alone | near)


def test_neighbours_in_time_stay_in_their_folder() -> None:
    order = NameOrder.of(["x2.jpg", "x10.jpg", "f/1.jpg", "x1.jpg"])
    assert order.around(np.array([0, 2, 3]), 1).tolist() == [[1, 3], [-1, -1], [0, -1]]


def test_queries_alone_are_paired_with_all_photos(tmp_path: Path) -> None:
    vectors = unit_rows(2, 40, 8).numpy()
    index = made(tmp_path, vectors, names_of(40))
    listed = tmp_path / "queries.txt"
    listed.write_text(
        "# camera of hloc\n00007.jpg SIMPLE_RADIAL 640 480 500 320 240 0\n00003.jpg\n"
    )
    found = list(pairs(index, k=3, query=listed))
    assert {a for a, _ in found} == {"00007.jpg", "00003.jpg"}
    every = {frozenset(map(int, (a[:5], b[:5]))) for a, b in found}
    assert every == {
        frozenset((q, int(row)))
        for q in (7, 3)
        for row in [n for n in np.argsort(-(vectors @ vectors[q])) if n != q][:3]
    }
    assert found == list(pairs(index, k=3, query=["00007.jpg", "00003.jpg"]))
    mutual = list(pairs(index, k=39, query=["00007.jpg", "00003.jpg"]))
    assert len(mutual) == 39 + 38


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"k": 0}, "Pairs need neighbours"),
        ({"min_score": float("nan")}, "from -1 to 1, not nan"),
        ({"query": ["gone.jpg"]}, "names 'gone.jpg', but no photo of the collection has that name"),
        ({"model": "solar-r18"}, "already holds embeddings: leave out `model=`"),
        ({"verify": True}, "does not know where they are: .* `photos=`"),
    ],
)
def test_what_cannot_be_is_told_at_once(
    tmp_path: Path, options: dict[str, object], sentence: str
) -> None:
    index = made(tmp_path, unit_rows(0, 3, 4).numpy(), names_of(3))
    with pytest.raises(SolarError, match=sentence):
        pairs(index, **options)


def test_a_folder_without_photos_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match="no photo"):
        pairs(tmp_path)


def test_a_list_that_mixes_absolute_and_relative_names_is_told_of(tmp_path: Path) -> None:
    for name in "ab":
        Image.fromarray(toy_photo(0, (64, 48))).save(tmp_path / f"{name}.png")
    (tmp_path / "photos.txt").write_text(f"a.png\n{tmp_path}/b.png\n")
    with pytest.raises(SolarError, match=r"b\.png"):
        pairs(tmp_path / "photos.txt")


def test_photos_are_described_and_keep_their_names(tmp_path: Path) -> None:
    names = ["Straße/in der Stadt.png", "東京/塔.png", "b.png"]
    for number, name in enumerate(names):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(toy_photo(number, (64, 48))).save(tmp_path / "photos" / name)
    (tmp_path / "photos" / "torn.png").write_bytes(b"\x89PNG")
    net = RetrievalNet(RetrievalConfig("resnet18", dim=8, size=64, scales=(1.0,))).eval()
    found = list(pairs(tmp_path / "photos", k=5, model=net, work=tmp_path / "work"))
    assert {frozenset(pair) for pair in found} == {frozenset(p) for p in combinations(names, 2)}
    again = described(tmp_path / "photos", tmp_path / "work", model=net)
    assert list(again.skipped) == ["torn.png"]
    assert again.row(str(tmp_path / "photos" / "b.png"), "a list") == again.rows["b.png"]


def test_memory_holds_blocks_and_never_all_similarities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = []

    def product(vectors: Rows, width: int, multiply: Multiply) -> np.ndarray:
        shapes.append((len(vectors), width))
        return multiplied(vectors, width, multiply)

    multiplied = nearest._product

    monkeypatch.setattr(nearest, "_product", product)
    count = 20_000
    index = made(tmp_path, unit_rows(0, count, 16).numpy().astype(np.float32), names_of(count))
    found = list(pairs(index, k=3, query=names_of(count)[::40], work=tmp_path))
    assert len({a for a, _ in found}) == 500
    assert max(rows for rows, _ in shapes) <= 4096
    assert max(columns for _, columns in shapes) <= 256
    assert sum(rows * columns for rows, columns in shapes) >= 20_000 * 500


def test_a_run_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "BLOCK", 16)
    vectors = unit_rows(3, 100, 8).numpy()
    index = made(tmp_path, vectors, names_of(100))
    whole = list(pairs(index, k=4))
    work, blocks = tmp_path / "work", []

    def stop(what: str, done: int, total: int) -> None:
        blocks.append((what, done, total))
        if done == 64:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pairs(index, k=4, work=work, progress=stop)
    assert blocks[-1] == ("Comparing", 64, 100)
    [file] = work.glob("neighbours-*")
    with sqlite3.connect(file) as damaged:
        damaged.execute("UPDATE kept SET value = x'00' WHERE key = 2")
    compared: list[int] = []

    def nearest_rows(vectors: Matrix, device: str | None = None) -> Neighbours:
        nearest, every = found_nearest(vectors, device), np.asarray(vectors)

        def counted(queries: Vectors, k: int) -> tuple[RowNumbers, Floats]:
            compared.append(int((every == queries[0]).all(axis=1).argmax()))
            return nearest(queries, k)

        return counted

    found_nearest = embeddings.nearest_rows
    monkeypatch.setattr(embeddings, "nearest_rows", nearest_rows)
    assert list(pairs(index, k=4, work=work)) == whole
    assert compared == [32, 64, 80, 96]
    # Another collection has nothing of it.
    other = made(tmp_path / "other", unit_rows(4, 100, 8).numpy(), names_of(100))
    list(pairs(other, k=4, work=work))
    assert compared[4:] == [*range(0, 100, 16)]


def test_verified_pairs_fit_one_geometry(tmp_path: Path) -> None:
    query = toy_photo(0, (320, 240))
    pictures = {"a.png": query, "b.png": turned(query)[0], "c.png": toy_photo(1, (320, 240))}
    for name, picture in pictures.items():
        Image.fromarray(picture).save(tmp_path / name)
    vectors = unit_rows(0, 4, 8).numpy().astype(np.float32)
    names = [*pictures, "gone.png"]
    index = Index.create(tmp_path / "photos.solar", vectors, names, roots=Roots.at(tmp_path))
    told = []
    with pytest.warns(UserWarning, match=r"Not matched: There is no photo gone\.png"):
        found = list(pairs(index, verify=True, progress=lambda *one: told.append(one)))
    assert found in ([("a.png", "b.png")], [("b.png", "a.png")])
    assert told[-1] == ("Verifying", 6, 6)


def test_photos_taken_far_apart_are_no_pair(tmp_path: Path) -> None:
    """The first three within some hundred metres, the fourth far away; of the last nobody knows."""
    places = [(48.858, 2.294), (48.8585, 2.295), (48.857, 2.293), (45.0, 7.0)]
    vectors, address = unit_rows(0, 5, 4).numpy().astype(np.float32), tmp_path / "photos.solar"
    positions = {f"{n:05}.jpg": place for n, place in enumerate(places)}
    named = [Photo(name, position=positions.get(name)) for name in names_of(5)]
    Index.create(address, vectors, named).close()
    every = set(pairs(address, k=4))
    assert len(every) == 10
    far = {(a, b) for a, b in every if "00003.jpg" in (a, b) and "00004.jpg" not in (a, b)}
    assert set(pairs(address, k=4, within=500)) == every - far
    assert len(set(pairs(address, k=4, within=50))) == 4  # with the one that nobody knows
    with pytest.raises(SolarError, match="within"):
        pairs(address, within=0)
    with pytest.raises(SolarError, match="GPS"):
        pairs(made(tmp_path / "other", vectors, names_of(5)), within=500)
