"""Settings of the web app."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from solar.defaults import SIZE
from solar.errors import SolarError
from solar.web.tiles import tile_origin

INDEXES = "/indexes/"
"""The path above several indexes."""

MIB = 2**20
THUMBNAIL, LARGEST = 320, 1600
"""Maximum pixels per side of pictures: in lists, and of one photo."""


@dataclass(frozen=True)
class WebSettings:
    """How the web app behaves; the defaults are safe for one person on one machine.

    Attributes:
        name: The collection's name, shown on the page.
        photos: The folder of the photos. Default: the one recorded in the index.
        writable: Let visitors add photos, remove photos from the index, and update it from its
            folders.
        originals: Let visitors download the files themselves, with their EXIF; otherwise photos
            are re-encoded at every size.
        device: The device that computes embeddings during an update, "cpu" or "cuda". Default:
            auto-detected.
        token: Access token required from visitors; None admits all who can reach the
            address.
        duplicates: A report of `solar duplicates` to review on the page.
        groups: A file of `solar groups` whose albums the page shows.
        labels: Use folder names as labels; None detects whether they are labels.
        tiles: Address of map tiles with {z}, {x} and {y}, for the map of the world. Default: a
            plain outline; nothing is requested from elsewhere.
        tiles_attribution: Whom the map credits for the tiles; required with `tiles`.
        hosts: Host names that the app answers to, besides `localhost` and numeric addresses. This
            protects against DNS rebinding.
        root_path: The path that the app is served under, `/photos` for
            `https://example.org/photos/`; empty for the root of a site.
        home: The path of one of several indexes below `root_path`; empty for the first.
        indexes: The names of all indexes of the server, if there are several.
        proxies: Addresses or networks of reverse proxies whose `X-Forwarded-For` is trusted.
        max_upload_bytes: Maximum size of an uploaded photo.
        max_pixels: Maximum number of pixels of a photo that is decoded, checked in its header.
        rate: Requests per second per visitor, on average, with bursts of ten times that; 0 for no
            limit. A picture counts as a tenth of a request.
        queue: Maximum number of searches and clicks waiting for the network; beyond it, visitors
            get a 503.
        batch: Maximum number of queries of the same size in one forward pass.
        threads: Number of threads that decode, search and match.
        query_bytes: Memory for uploaded queries; the oldest are dropped.
        picture_bytes: Memory for cached thumbnails and pictures.
        attention_bytes: Memory for cached attention maps.
        attention_size: Photos are resized to this shorter side for attention maps.
        why_bytes: Memory for cached explanations.
        in_flight_bytes: Maximum size of all uploads in progress, separately for queries and for
            photos to add; beyond it, visitors get a 503.
    """

    name: str = "photos"
    photos: str | Path | None = None
    writable: bool = False
    originals: bool = False
    device: str | None = None
    token: str | None = None
    duplicates: str | Path | None = None
    groups: str | Path | None = None
    labels: bool | None = None
    tiles: str | None = None
    tiles_attribution: str | None = None
    hosts: tuple[str, ...] = ()
    root_path: str = ""
    home: str = ""
    indexes: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    max_upload_bytes: int = 32 * MIB
    max_pixels: int = 100_000_000
    rate: float = 20.0
    queue: int = 64
    batch: int = 16
    threads: int = 2
    query_bytes: int = 128 * MIB
    picture_bytes: int = 64 * MIB
    attention_bytes: int = 256 * MIB
    attention_size: int = SIZE
    why_bytes: int = 256 * MIB
    in_flight_bytes: int = 256 * MIB

    def __post_init__(self) -> None:
        """Refuse tiles without an attribution, which their licences require, and the reverse."""
        if self.tiles is not None:
            tile_origin(self.tiles)
        if (self.tiles is None) != (not self.tiles_attribution):
            raise SolarError(
                "`tiles=` and `tiles_attribution=` need each other: name the server of the map "
                "tiles, and whom the map is to credit."
            )

    @property
    def label(self) -> str:
        """The label of this index in metrics; empty if it is the only one."""
        return self.name if self.indexes else ""


def home_of(name: str) -> str:
    """The path of an index, quoted."""
    return INDEXES + quote(name, safe="")
