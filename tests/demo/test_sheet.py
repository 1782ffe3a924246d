import numpy as np
import pytest
from PIL import Image

from solar.demo.building import Building, Dice
from solar.demo.scene import Scene, aim_camera
from solar.demo.sheet import paste

WHITE = (255, 255, 255, 255)


@pytest.fixture(params=range(6))
def seen(request):
    """A building and a camera that looks at it."""
    b = Building(Dice(0, request.param))
    return b, aim_camera(b, Scene(Dice(0, request.param, 1)), (320, 240))


def test_a_spot_on_the_front_lands_where_the_camera_sees_it(seen):
    b, cam = seen
    scale = 10
    flat = Image.new("RGBA", (int(2 * b.half * scale), int(b.height * scale)), (0, 0, 0, 255))
    column, row = round(b.half * 1.2 * scale), round(b.height * 0.5 * scale)
    flat.paste(WHITE, (column - 6, row - 6, column + 6, row + 6))
    photo = Image.new("RGB", (320, 240))
    paste(photo, flat, scale, cam, (-b.half, b.height, 0), (1, 0, 0))
    bright = np.asarray(photo.convert("L"), dtype=float)
    rows, columns = np.mgrid[0:240, 0:320] + 0.5
    centre = (bright * columns).sum() / bright.sum(), (bright * rows).sum() / bright.sum()
    u, v, depth = cam.see((column / scale - b.half, b.height - row / scale, 0))
    assert centre == pytest.approx((u / depth, v / depth), abs=1.0)


def test_nothing_is_drawn_of_what_is_behind_the_camera(seen):
    _, cam = seen
    ahead = cam.matrix[2]
    for metres in (9, -9, 0):
        photo = Image.new("RGB", (320, 240))
        corner = cam.place + metres * ahead + (0, 3, 0)
        paste(photo, Image.new("RGBA", (60, 60), WHITE), 10, cam, corner, (1, 0, 0))
        assert (photo.getbbox() is not None) == (metres > 0)
