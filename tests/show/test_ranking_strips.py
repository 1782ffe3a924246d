import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from solar.evaluation.paper.rankings import Listed, RankedPhoto, Ranking
from solar.show.ranking_strips import RIGHT, WRONG, draw_rankings

GREY, BLUE = (128, 128, 128), (20, 40, 200)


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    Image.new("RGB", (80, 60), GREY).save(tmp_path / "grey.png")
    return tmp_path / "grey.png"


def ranking(photo: Path | bytes | None, *rights: bool, **changes: object) -> Ranking:
    hits = tuple(RankedPhoto(f"{i}.jpg", photo, right) for i, right in enumerate(rights))
    given = {"query": "q.jpg", "picture": photo, "box": None, "protocol": "hard", **changes}
    return Ranking(lists=(Listed("model", 0.5, hits),), **given)


def count(picture: Image.Image, colour: tuple[int, int, int]) -> int:
    return int((np.asarray(picture) == colour).all(axis=2).sum())


def test_right_photos_are_green_and_wrong_ones_red(photo: Path) -> None:
    legend = draw_rankings([ranking(photo)])
    for rights in ((True, True, False), (False,)):
        picture = draw_rankings([ranking(photo, *rights)])
        green = count(picture, RIGHT) - count(legend, RIGHT)
        red = count(picture, WRONG) - count(legend, WRONG)
        assert green > 0 if any(rights) else green == 0
        if len(rights) == 3:
            assert green == pytest.approx(2 * red, rel=0.1)


def test_marks_tell_right_from_wrong_without_colour(photo: Path) -> None:
    right, wrong = (
        np.asarray(draw_rankings([ranking(photo, right)])).min(axis=2) > 200  # white strokes
        for right in (True, False)
    )
    above_the_legend = slice(None, right.shape[0] - 80)
    assert (right[above_the_legend] != wrong[above_the_legend]).sum() > 50


def test_the_box_of_the_query_is_drawn_where_it_is(photo: Path) -> None:
    plain = np.asarray(draw_rankings([ranking(photo, True)]))
    boxed = np.asarray(draw_rankings([ranking(photo, True, box=(20, 15, 60, 45))]))
    ys, xs = np.nonzero((plain != boxed).any(axis=2))
    inside = np.nonzero((plain == GREY).all(axis=2))
    left, top = inside[1].min(), inside[0][inside[1] < 400].min()
    scale = 440 / 80  # the query is twice as wide as a cell of 220
    assert xs.min() == pytest.approx(left + 20 * scale, abs=2)
    assert xs.max() == pytest.approx(left + 60 * scale, abs=2)
    assert ys.min() == pytest.approx(top + 15 * scale, abs=2)
    assert ys.max() == pytest.approx(top + 45 * scale, abs=2)


def test_a_box_across_the_border_is_drawn_inside(photo: Path) -> None:
    plain, across, whole = (
        np.asarray(draw_rankings([ranking(photo, True, box=box)]))
        for box in (None, (-5, -5, 500, 500), (0, 0, 80, 60))
    )
    assert (plain != whole).any()
    np.testing.assert_array_equal(across, whole)


def test_photos_come_from_bytes_or_not_at_all() -> None:
    encoded = io.BytesIO()
    Image.new("RGB", (60, 80), BLUE).save(encoded, "PNG")
    from_bytes = ranking(encoded.getvalue(), True, False)
    assert count(draw_rankings([from_bytes]), BLUE) > 1000
    assert count(draw_rankings([ranking(None, True)]), BLUE) == 0


def test_every_query_and_every_list_adds_a_strip(photo: Path) -> None:
    one = ranking(photo, True, False)
    two = Ranking("q", photo, None, "all", one.lists * 3)
    heights = [draw_rankings(found).height for found in ([one], [one, one], [two])]
    assert heights[0] < heights[1]
    assert heights[0] < heights[2]
    assert draw_rankings([one], cell=110).width < 0.6 * draw_rankings([one]).width


def test_long_names_do_not_widen_the_picture(photo: Path) -> None:
    short, long = ranking(photo, True), ranking(photo, True, query="q" * 400)
    assert draw_rankings([short]).size == draw_rankings([long]).size
