import numpy as np
import pytest
from PIL import Image

from solar.demo import toy
from solar.demo.drawing.camera import NEAREST, aim_camera, paste_plane


@pytest.fixture(params=range(6))
def seen(request):
    """A building and a camera that looks at it."""
    b, s = toy.building(request.param), toy.scene(request.param, 1)
    return b, aim_camera(b, s, (320, 240))


def test_a_spot_on_the_front_lands_where_the_camera_sees_it(seen):
    b, cam = seen
    scale = 10
    flat = Image.new("RGBA", (int(2 * b.half * scale), int(b.height * scale)), (0, 0, 0, 255))
    x, y = b.half * 0.2, b.height * 0.5
    column, row = (x + b.half) * scale, (b.height - y) * scale
    box = tuple(round(v) for v in (column - 6, row - 6, column + 6, row + 6))
    flat.paste((255, 255, 255, 255), box)
    photo = Image.new("RGB", (320, 240))
    paste_plane(photo, flat, cam, (-b.half, b.height, 0.0), (1.0, 0.0, 0.0), scale)
    bright = np.asarray(photo.convert("L"), dtype=float)
    rows, columns = np.mgrid[0:240, 0:320] + 0.5
    centre = (bright * columns).sum() / bright.sum(), (bright * rows).sum() / bright.sum()
    assert centre == pytest.approx(cam.see((x, y, 0.0)), abs=1.0)


def test_far_ground_lies_on_the_horizon(seen):
    _, cam = seen
    (x0, y0), slope = cam.horizon()
    x, _, z = cam.place
    far = (x + 1e6 * cam.ahead[0] + 1e5, 0.0, z + 1e6 * cam.ahead[2])
    u, v = cam.see(far)
    assert v == pytest.approx(y0 + (u - x0) * slope, abs=0.1)


def test_a_ground_strip_under_the_photographer_is_cut_off_in_front_of_the_lens(seen):
    _, cam = seen
    x, y, z = cam.place
    ahead, aside = cam.ahead, (cam.ahead[2], -cam.ahead[0])
    strip = [
        (x + k * ahead[0] + w * aside[0], 0.0, z + k * ahead[2] + w * aside[1])
        for k, w in ((-50, -1), (50, -1), (50, 1), (-50, 1))
    ]
    outline = cam.outline(strip)
    assert len(outline) == 4
    assert np.abs(outline).max() < cam.focal * (y + 2) / NEAREST * 2 + 320


def test_nothing_is_left_of_what_is_behind(seen):
    _, cam = seen
    x, y, z = cam.place
    behind = [(x - 9 * cam.ahead[0] + d, y, z - 9 * cam.ahead[2]) for d in (0, 1, 2)]
    assert cam.outline(behind) == []
