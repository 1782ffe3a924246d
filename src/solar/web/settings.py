"""Settings of the web app."""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from solar.defaults import SIZE
from solar.errors import SolarError

INDEXES = "/indexes/"
"""The path above several indexes."""

_ORIGIN = r"https://[A-Za-z0-9.-]+(?::\d+)?|http://(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?"
# Also keeps what would end the policy, which names the origin, out of it.
_TILES = re.compile(rf"({_ORIGIN})/(?:[^\s{{}}]|\{{[zxy]\}})*")

MIB = 2**20
THUMBNAIL, LARGEST = 320, 1600
"""Maximum pixels per side of pictures: in lists, and of one photo."""


@dataclass(frozen=True)
class WebSettings:
    """How the web app behaves; the defaults are safe for one person on one machine."""

    name: str = "photos"  # of the collection, shown on the page
    photos: str | Path | None = None  # their folder, instead of the one recorded in the index
    writable: bool = False  # visitors add photos, remove some from the index, and update it
    originals: bool = False  # visitors download files with their EXIF, not re-encoded photos
    device: str | None = None  # "cpu" or "cuda": computes embeddings during an update
    token: str | None = None  # required from visitors; None admits all who can reach the address
    duplicates: str | Path | None = None  # a report of `solar duplicates` to review on the page
    groups: str | Path | None = None  # a file of `solar groups` whose albums the page shows
    labels: bool | None = None  # whether folder names are labels; None detects it
    # Address of map tiles with {z}, {x} and {y}, whose server learns visitors' addresses and the
    # region they look at; None for a plain outline.
    tiles: str | None = None
    tiles_attribution: str | None = None  # whom the map credits for the tiles
    hosts: tuple[str, ...] = ()  # answered to besides `localhost` and numeric addresses
    root_path: str = ""  # `/photos` where the app is at `https://example.org/photos/`
    home: str = ""  # path of one of several indexes below `root_path`; empty for the first
    indexes: tuple[str, ...] = ()  # names of all indexes of the server, if there are several
    proxies: tuple[str, ...] = ()  # addresses or networks whose `X-Forwarded-For` is trusted
    max_upload_bytes: int = 32 * MIB  # of a photo
    max_pixels: int = 100_000_000  # of a photo that is decoded, checked in its header
    # Requests per second per visitor, with bursts of ten times that; a picture is a tenth of one.
    rate: float = 20.0  # 0 for no limit
    queue: int = 64  # searches and clicks that wait for the network; beyond it, there is a 503
    batch: int = 16  # queries of the same size in one forward pass, at most
    threads: int = 2  # that decode, search and match
    query_bytes: int = 128 * MIB  # uploaded queries; those not used for longest are dropped
    picture_bytes: int = 64 * MIB  # cached thumbnails and pictures
    attention_bytes: int = 256 * MIB  # cached attention maps
    attention_size: int = SIZE  # shorter side of photos for attention maps
    why_bytes: int = 256 * MIB  # cached explanations

    def __post_init__(self) -> None:
        """Refuse tiles without an attribution, which their licences require, and the reverse."""
        if self.tiles is not None:
            tile_origin(self.tiles)
        if (self.tiles is None) != (not self.tiles_attribution):
            raise SolarError(
                "`tiles=` and `tiles_attribution=` need each other: name the server of the map "
                "tiles, and whom the map is to credit."
            )


def home_of(name: str) -> str:
    """The path of an index, quoted."""
    return INDEXES + quote(name, safe="")


def tile_origin(template: str) -> str:
    """The scheme, host and port of map tiles; a SolarError if `template` is not one of tiles."""
    found = _TILES.fullmatch(template)
    if found is None or not all(f"{{{name}}}" in template for name in "zxy"):
        raise SolarError(
            f"`tiles={template}` is not an address of map tiles: write one with https (http only "
            "for this machine) and {z}, {x} and {y}, such as "
            "https://tiles.example.org/{z}/{x}/{y}.png."
        )
    return found[1]
