"""What the file of a photo says besides its pixels."""

from typing import NamedTuple

from solar.images import Stamp
from solar.images.exif import ExifFacts


class FileFacts(NamedTuple):
    """The stamp of a file, and its EXIF data."""

    stamp: Stamp
    exif: ExifFacts
