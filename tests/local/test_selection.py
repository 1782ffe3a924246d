"""Which local features DELF and DELG keep, against the published port's choice."""

import numpy as np
import pytest
from support.golden2 import golden2

from solar.local.learned import (
    above_threshold,
    receptive_boxes,
    select,
    strongest,
    suppressed,
)

GOLDEN = golden2("delf")


def test_boxes_and_centres_are_the_published_ones() -> None:
    scores = GOLDEN["delg_scores"]
    boxes = receptive_boxes(scores.shape, 16)
    assert np.array_equal(boxes, GOLDEN["delg_boxes"])
    assert np.array_equal((boxes[:, :2] + boxes[:, 2:]) / 2, GOLDEN["delg_centers"])
    assert np.allclose(receptive_boxes((2, 3), 16, 0.5), 2 * receptive_boxes((2, 3), 16))


def test_the_published_choice_in_the_published_order() -> None:
    scores = GOLDEN["delg_scores"].ravel()
    assert len(above_threshold(scores)) == GOLDEN["delg_selected"]
    scales, rows = select([scores], [GOLDEN["delg_boxes"]], 1000)
    assert rows.tolist() == GOLDEN["delg_keep"].tolist()
    assert not scales.any()


def test_suppression_is_the_published_one() -> None:
    boxes, scores = GOLDEN["nms_boxes"], GOLDEN["nms_scores"]
    kept = suppressed(boxes, scores, overlap=0.6, most=40)
    assert kept.tolist() == GOLDEN["nms_keep"].tolist()


@pytest.mark.parametrize("passing", [0, 1, 2])
def test_few_places_are_no_reason_to_stop(passing: int) -> None:
    """The published port crashes where one place passes, and repeats the first of several."""
    scores = np.full(20, 0.01, np.float32)
    scores[3 : 3 + passing] = 300
    scales, rows = select([scores], [receptive_boxes((4, 5), 16)], 1000)
    assert rows.tolist() == list(range(3, 3 + passing))
    assert len(scales) == passing


def test_the_threshold_falls_until_enough_pass() -> None:
    scores = np.linspace(0, 260, 5000, dtype=np.float32)
    assert np.array_equal(above_threshold(scores), np.flatnonzero(scores > 130))
    assert len(above_threshold(np.full(50, 0.12, np.float32))) == 0  # the last is 260 / 2¹¹
    assert len(above_threshold(np.full(50, 0.13, np.float32))) == 50


def test_of_equal_strengths_the_earlier_is_first() -> None:
    assert strongest(np.array([1, 3, 3, 2], np.float32), 3).tolist() == [1, 2, 3]


def test_one_place_of_two_scales_is_kept_once() -> None:
    boxes = receptive_boxes((1, 2), 16)
    scores = np.array([5, 6], np.float32)
    scales, rows = select([scores, scores - 1], [boxes, boxes], 10)
    assert (scales.tolist(), rows.tolist()) == ([0, 0], [1, 0])
