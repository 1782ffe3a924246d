import numpy as np
import pytest
from PIL import Image

from solar.images.orientation import stored_box, stored_points, turned


@pytest.mark.parametrize("orientation", range(1, 9))
def test_points_and_boxes_go_back_to_where_their_pixels_are_stored(orientation: int) -> None:
    stored = Image.new("L", (7, 5))
    stored.putpixel((5, 1), 255)
    upright = np.asarray(turned(stored, orientation))
    [[y, x]] = np.argwhere(upright)
    [point] = stored_points(np.array([[x + 0.5, y + 0.5]]), orientation, stored.size)
    assert point.tolist() == [5.5, 1.5]
    assert stored_box((x, y, x + 1, y + 1), orientation, stored.size) == (5, 1, 6, 2)
