"""Toy landmarks: procedural buildings rendered from any viewpoint, in any light.

They stand in for real photos in the demo, the tests and the small training runs. The same numbers
always give the same photo; two landmarks may well share their colours, and the light changes those
anyway, so that finding a landmark again takes more than a colour histogram.
"""

import io
from pathlib import Path

from PIL import Image

from solar.demo.building import Building, Dice
from solar.demo.scene import Scene, render
from solar.errors import SolarError
from solar.files import replacing

# Distractors are landmarks from a range of high numbers.
DISTRACTORS = 1_000_000
_SMALLEST = 16


def landmark(
    identity: int, view: int, *, size: tuple[int, int] = (320, 240), seed: int = 0
) -> Image.Image:
    """Photograph toy landmark `identity`; `view` decides on viewpoint, light, zoom, passers-by.

    The framing follows the size, nothing is stretched. Another seed gives other buildings. A
    SolarError if a number is negative, or the picture has less than 16 pixels on a side.
    """
    if min(identity, view, seed) < 0:
        raise SolarError(
            f"Toy landmark {identity}, view {view}, seed {seed}: give numbers from 0 upwards."
        )
    if min(size) < _SMALLEST:
        raise SolarError(
            f"A toy photo of {size[0]}x{size[1]} pixels is too small: ask for at least "
            f"{_SMALLEST}x{_SMALLEST}."
        )
    return render(Building(Dice(seed, identity)), Scene(Dice(seed, identity, view)), size)


def write(
    folder: Path, *, landmarks: int = 8, views: int = 6, size: tuple[int, int] = (320, 240),
    seed: int = 0, first: int = 0, distractors: int = 0,
) -> list[Path]:  # fmt: skip
    """Write photos as `landmark-003/view-002.jpg`, and `distractors/photo-004.jpg`.

    Buildings are numbered from `first` on; distractors appear nowhere else. Files that already hold
    the same photo are kept. Returns the files, landmarks first, in order.
    """
    if min(landmarks, views, distractors) < 0:
        raise SolarError(
            f"Cannot write {landmarks} landmarks with {views} views and {distractors} distractors: "
            "give numbers from 0 upwards."
        )
    folder = Path(folder)
    plan = [
        (folder / f"landmark-{identity:03d}" / f"view-{view:03d}.jpg", identity, view)
        for identity in range(first, first + landmarks)
        for view in range(views)
    ] + [
        (folder / "distractors" / f"photo-{n:03d}.jpg", DISTRACTORS + n, 0)
        for n in range(first, first + distractors)
    ]
    for path, identity, view in plan:
        encoded = io.BytesIO()
        landmark(identity, view, size=size, seed=seed).save(encoded, "JPEG", quality=85)
        if path.is_file() and path.read_bytes() == encoded.getvalue():
            continue
        with replacing(path, durable=False) as part:
            part.write_bytes(encoded.getvalue())
    return [path for path, _, _ in plan]
