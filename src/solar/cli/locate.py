"""`solar locate`: where a photo was taken."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from solar.cli.options import (
    Boxes,
    Device,
    IndexAddress,
    Json,
    Model,
    MovedPhotos,
    VerifyTop,
    boxes,
)

if TYPE_CHECKING:
    from solar.index.location import Location

EXAMPLE = "Example: solar locate photos.solar holiday.jpg"


def locate(
    index: IndexAddress,
    photo: Annotated[
        str, typer.Argument(metavar="PHOTO", help="A photo, or the path of an indexed one.")
    ],
    box: Boxes = None,
    verify_top: VerifyTop = 50,
    model: Model = None,
    device: Device = None,
    photos: MovedPhotos = None,
    json: Json = False,
) -> None:
    """Estimate where a photo was taken, from photos of the same place.

    Without enough evidence, it prints no estimate.
    """
    from solar.cli.printing import print_json, warnings_as_sentences
    from solar.images.exif import position
    from solar.index import Index
    from solar.index.index import locate as located
    from solar.ranking.verify import VerifySettings

    [area] = boxes(box, 1)
    settings = VerifySettings(top=verify_top, photos=photos)
    with Index.open(index, model=model, device=device) as opened, warnings_as_sentences():
        found = located(photo, opened, box=area, verify=settings)
    own = position(photo) if Path(photo).is_file() else None
    if json:
        print_json({**found.to_dict(), "exif": own})
        return
    _print(found)
    if own is not None:
        from solar.cli.printing import say

        say(f"The EXIF of the photo says {_degrees(own)}.")


def _print(found: "Location") -> None:
    from solar.cli.printing import output
    from solar.errors import printable

    console = output()
    if found.position is None:
        lines = [f"{found.reason[0].upper()}{found.reason[1:]}."]
    else:
        lines = [f"{_degrees(found.position)}, within {found.radius:,.0f} m"]
    for one in found.photos:
        place = _degrees(one.position)
        lines.append(f"{one.inliers:>6} points  {place}  {printable(one.path)}")
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def _degrees(position: tuple[float, float]) -> str:
    return f"{position[0]:.6f}, {position[1]:.6f}"
