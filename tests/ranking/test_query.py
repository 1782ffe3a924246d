"""Queries of several parts: photos with boxes, and words."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.tiny_joint import write_joint

from solar.demo import toy
from solar.errors import SolarError
from solar.index import Index
from solar.models import RetrievalNet, load
from solar.ranking.query import Part, Words, parts_of, shown, unit, with_words

BOX = (1, 2, 30, 40)
TEXT = "a red door"


def test_a_query_is_a_part_or_a_list_of_parts() -> None:
    mine = Part("b.jpg", BOX)
    assert [(part.photo, part.box) for part in parts_of("a.jpg")] == [("a.jpg", None)]
    assert [(part.photo, part.box) for part in parts_of("a.jpg", BOX)] == [("a.jpg", BOX)]
    assert parts_of(mine) == [mine]
    first, second = parts_of(["a.jpg", mine])
    assert (first.photo, first.box, second) == ("a.jpg", None, mine)


def test_words_stand_beside_photos() -> None:
    assert with_words("a.jpg", None) == "a.jpg"
    assert with_words(None, TEXT) == [Words(TEXT)]
    assert with_words(["a.jpg", "b.jpg"], TEXT) == ["a.jpg", "b.jpg", Words(TEXT)]
    photo, words = parts_of(with_words("a.jpg", TEXT), BOX)
    assert (photo.photo, photo.box, words.photo, words.box) == ("a.jpg", BOX, Words(TEXT), None)
    assert shown([photo, words]) == [photo]
    with pytest.raises(SolarError, match="points"):
        shown([words])


@pytest.mark.parametrize(
    ("query", "box", "said"),
    [
        ([], None, "at least one photo"),
        (["a.jpg", "b.jpg"], BOX, "as a Part with its box"),
        (Part("a.jpg", BOX), BOX, "as a Part with its box"),
        (Words(TEXT), BOX, "A box belongs to one photo"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(query: object, box: object, said: str) -> None:
    with pytest.raises(SolarError, match=said):
        parts_of(query, box)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> RetrievalNet:
    net = load(write_joint("siglip", tmp_path_factory.mktemp("joint") / "siglip"), device="cpu")
    assert isinstance(net, RetrievalNet)
    return net


@pytest.fixture(scope="module")
def photo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("queries") / "query.jpg"
    toy.landmark(0, 0, size=(96, 72)).save(path)
    return path


@pytest.fixture(scope="module")
def index(
    model: RetrievalNet, photo: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Index]:
    """Photos that are most like the words, most like the photo, and most like both."""
    words, seen = model.describe_text(TEXT)[0], model.describe(photo)[0]
    apart = np.random.default_rng(0).normal(size=(3, model.dim))
    rows = np.array([words, seen, unit(words + seen), *apart], np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    names = ["words.jpg", "seen.jpg", "both.jpg", "a.jpg", "b.jpg", "c.jpg"]
    address = tmp_path_factory.mktemp("index") / "i.solar"
    with Index.create(address, rows, names, model=model) as made:
        yield made


def test_words_find_the_photo_nearest_to_them(index: Index) -> None:
    hits = index.search(text=TEXT, k=2)
    assert [hit.path for hit in hits] == ["words.jpg", "both.jpg"]
    assert hits[0].score == pytest.approx(1, abs=1e-5)
    assert (hits[0].probability, hits[0].inliers) == (None, None)
    assert index.search(text="A RED DOOR", k=1) == hits[:1]
    assert index.search_mean([], 1, text=TEXT) == hits[:1]


def test_words_and_photos_count_the_same(index: Index, photo: Path) -> None:
    [hit] = index.search(photo, 1, text=TEXT)
    assert hit.path == "both.jpg"
    assert hit.score == pytest.approx(1, abs=1e-5)
    several = index.search_mean([photo, Part(photo, (0, 0, 96, 72))], 1, text=TEXT)
    assert [hit.path for hit in several] == ["both.jpg"]
    assert [hit.path for hit in index.search(photo, 1, rerank=None)] == ["seen.jpg"]
    [[hit]] = index.search_many([photo], 1, text=TEXT)
    assert hit.path == "both.jpg"


def test_an_indexed_photo_is_not_found_for_itself(index: Index) -> None:
    assert "words.jpg" not in [hit.path for hit in index.search("words.jpg", text=TEXT)]


def test_results_for_words_can_be_judged_and_expanded(index: Index) -> None:
    liked = index.search_like(k=3, text=TEXT, like="a.jpg", unlike="words.jpg")
    assert liked[0].path == "a.jpg"
    assert "words.jpg" not in [hit.path for hit in liked]
    assert index.search(text=TEXT, k=1, rerank="average")[0].path == "both.jpg"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "needs a photo or a text"),
        ({"text": "  "}, "The text to search for is empty"),
        ({"text": TEXT, "min_probability": 0.5}, "has no calibrated probabilities"),
        ({"text": TEXT, "box": BOX}, "A box belongs to one photo"),
    ],
)
def test_what_words_cannot_be_used_for(index: Index, given: dict[str, object], said: str) -> None:
    with pytest.raises(SolarError, match=said):
        index.search(**given)  # type: ignore[arg-type]
