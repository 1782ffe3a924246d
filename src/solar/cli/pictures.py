"""Where the commands put pictures."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from solar.errors import SolarError

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGES = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}
"""Formats by the end of a file's name."""


def check_suffix(picture: Path | None, known: Mapping[str, str] = IMAGES) -> None:
    """Raise a SolarError if a picture to be written has no format that is known."""
    if picture is not None and picture.suffix.lower() not in known:
        raise SolarError(f"The picture {picture} must end in {', '.join(known)}.")


def save_image(image: "Image", path: Path) -> None:
    """Write a picture, whole or not at all, and say so."""
    from solar.cli.printing import say
    from solar.files import replacing

    with replacing(path) as part:
        image.save(part, IMAGES[path.suffix.lower()])
    say(f"{image.width} × {image.height} → {path}")
