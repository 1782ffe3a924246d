from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.drawn import drawn_retrieval

import solar
from solar.demo import toy
from solar.errors import SolarError
from solar.models import PatchNet, RetrievalConfig, RetrievalNet
from solar.models.contributions import LocatedDescriptor
from solar.show import explanation
from solar.show.colours import AGAINST, FOR, signed
from solar.show.explanation import Explanation


@pytest.fixture(scope="module")
def network() -> RetrievalNet:
    return drawn_retrieval(RetrievalConfig("resnet18", attention={5: 2}))


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    home = tmp_path_factory.mktemp("why")
    for view in (0, 1):
        toy.landmark(3, view, size=(210, 140)).save(home / f"{view}.png")
    return home / "0.png", home / "1.png"


@pytest.fixture(scope="module")
def why(network: RetrievalNet, photos: tuple[Path, Path]) -> Explanation:
    return solar.explain(*photos, model=network, compare_attention=True)


def regular(vectors: list[list[list[float]]], size: tuple[int, int]) -> LocatedDescriptor:
    """Regions of equal size with these vectors."""
    array = np.array(vectors, np.float32)
    rows, columns = (np.linspace(0, size[1 - n], array.shape[n] + 1) for n in (0, 1))
    return LocatedDescriptor(array, np.zeros(array.shape[2], np.float32), rows, columns, size)


def test_both_heat_maps_sum_to_the_similarity(
    why: Explanation, network: RetrievalNet, photos: tuple[Path, Path]
) -> None:
    first, second = network.describe(photos)
    assert why.score == pytest.approx(float(first @ second), abs=1e-6)
    assert why.heat_a.sum() == pytest.approx(why.score, abs=1e-6)
    assert why.heat_b.sum() == pytest.approx(why.score, abs=1e-6)


def test_the_shift_is_what_the_whitening_adds(why: Explanation) -> None:
    """Without its bias the layer would give another similarity, before anything is normalised."""
    a, b = (one.descriptor - one.shift for one in (why.a, why.b))
    assert why.shift == pytest.approx(why.score - float(a @ b), abs=1e-6)
    assert why.to_dict()["shift"] == why.shift


def test_answers_of_a_region_sum_to_its_heat(why: Explanation) -> None:
    row, column = explanation.region_at(why.b, (150.0, 100.0))
    answers = why.answers((150.0, 100.0), "b")
    assert answers.shape == why.heat_a.shape
    assert answers.sum() == pytest.approx(why.heat_b[row, column], abs=1e-6)
    assert explanation.region_at(why.b, (1e9, -5)) == (0, why.heat_b.shape[1] - 1)
    with pytest.raises(SolarError, match="location"):
        why.answers((210.0, 0.0))


def test_without_attention_is_another_similarity(
    why: Explanation, network: RetrievalNet, photos: tuple[Path, Path]
) -> None:
    assert why.plain is not None
    assert why.to_dict()["score_without_attention"] == why.plain.score
    none = drawn_retrieval(RetrievalConfig("resnet18"))
    with pytest.raises(SolarError, match="compare_attention"):
        solar.explain(*photos, model=none, compare_attention=True)
    with pytest.raises(SolarError, match="patches"):
        solar.explain(*photos, model=PatchNet())  # type: ignore[arg-type]


def test_pairs_are_mutual_alike_and_strong(monkeypatch: pytest.MonkeyPatch) -> None:
    a = regular([[[2, 0, 0], [0, 1, 0], [0, 0, 0.1]], [[1, 0, 0], [1, 5, 0], [0, 0, 0]]], (30, 20))
    b = regular([[[0, 1, 0], [3, 0, 0]], [[0, 0, 0.1], [0, 0, -9]]], (40, 20))
    expected = [((5.0, 5.0), (30.0, 5.0), 6.0), ((15.0, 15.0), (10.0, 5.0), 5.0)]
    # The third, (0, 0, 0.1) with itself, is too faint.
    assert Explanation(a, b).pairs() == expected
    monkeypatch.setattr(explanation, "_BLOCK", 4)  # a row at a time
    assert Explanation(a, b).pairs() == expected
    assert Explanation(a, b).pairs(1) == expected[:1]
    # Of two that only point a little the same way the product is large because they are.
    apart = regular([[[1, 9, 0]]], (10, 10)), regular([[[9, 1, 0]]], (10, 10))
    assert Explanation(*apart).score == 18
    assert Explanation(*apart).pairs() == []
    # One that adds hardly more than any two regions do is chance.
    faint = Explanation(regular(0.01 * a.vectors, (30, 20)), regular(0.01 * b.vectors, (40, 20)))
    assert faint.pairs() == []


def test_a_picture_of_a_heat_map_keeps_its_sum_and_its_place() -> None:
    one = regular([[[0.0], [4.0]], [[0.0], [0.0]]], (40, 20))
    heat = one.vectors[..., 0]
    drawn = explanation.density(one, heat, (40, 20))
    assert drawn.argmax() % 40 >= 30
    assert drawn[:5, 30:].mean() == pytest.approx(4 / 200)
    assert (drawn[15:, :10] == 0).all()
    halved = explanation.density(one, heat, (20, 10))
    np.testing.assert_allclose(halved, drawn.reshape(10, 2, 20, 2).mean(axis=(1, 3)), atol=1e-3)

    boxed = LocatedDescriptor(one.vectors, one.shift, one.rows / 2, one.columns / 2, (40, 20))
    outside = explanation.density(boxed, heat, (40, 20))
    assert (outside[:, 20:] == 0).all()
    assert (outside[10:] == 0).all()
    assert outside.max() > 0


def test_evidence_for_and_against_has_two_colours() -> None:
    coloured = signed(np.array([[2.0, 1.0, 0.0, -1.0, -7.0]]), 2)
    assert coloured[0, :, 3].tolist() == [255, 128, 0, 128, 255]
    assert tuple(coloured[0, 1, :3]) == FOR
    assert tuple(coloured[0, 3, :3]) == AGAINST


def test_a_picture_shows_both_photos_and_what_attention_adds(why: Explanation) -> None:
    picture = why.figure(height=200)
    assert picture.width > 2 * 300
    assert picture.height > 2 * 200
    assert why._repr_png_().startswith(b"\x89PNG")
    alone = Explanation(why.a, why.b)
    with pytest.raises(SolarError, match="photos"):
        alone.figure()
    single = Explanation(why.a, why.b, why.photos).figure(height=200)
    assert single.height < 300
    assert isinstance(single, Image.Image)
