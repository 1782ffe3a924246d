"""`solar locate`: where a photo was taken."""

from pathlib import Path
from typing import Annotated

import typer

from solar.cli import options

EXAMPLE = "Example: solar locate photos.solar holiday.jpg"


def locate(
    index: options.IndexAddress,
    photo: Annotated[str, typer.Argument(metavar="PHOTO")],
    box: options.Boxes = None,
    verify_top: options.VerifyTop = 50,
    model: options.Model = None,
    device: options.Device = None,
    photos: options.MovedPhotos = None,
    json: options.Json = False,
) -> None:
    """Estimate where a photo was taken, from photos of the same place.

    Without enough evidence, it prints no estimate.

    Options:
        photo: A photo, or the path of an indexed one.
    """
    from solar.cli.printing import print_json, say, show, warnings_as_sentences
    from solar.images.exif import exif_facts
    from solar.index import Index
    from solar.index.index import locate as located
    from solar.ranking.verify import VerifySettings

    [area] = options.boxes(box, 1)
    settings = VerifySettings(top=verify_top, photos=photos)
    with Index.open(index, model=model, device=device) as opened, warnings_as_sentences():
        found = located(photo, opened, box=area, verify=settings)
    own = exif_facts(photo).position if Path(photo).is_file() else None
    if json:
        print_json({**found.to_dict(), "exif": own})
        return
    if found.position is None:
        show(f"{found.reason[0].upper()}{found.reason[1:]}.")
    else:
        show(f"{_degrees(found.position)}, within {found.radius:,.0f} m")
    for one in found.photos:
        show(f"{one.inliers:>6} points  {_degrees(one.position)}  {one.path}")
    if own is not None:
        say(f"The EXIF of the photo says {_degrees(own)}.")


def _degrees(position: tuple[float, float]) -> str:
    return f"{position[0]:.6f}, {position[1]:.6f}"
