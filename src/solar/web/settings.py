"""What decides how the web app behaves."""

from dataclasses import dataclass, field
from pathlib import Path

from solar.defaults import SIZE

MIB = 2**20
THUMBNAIL, LARGEST = 320, 1600
"""Pixels a side, at most, of the pictures that visitors get: in lists, and of one photo."""


@dataclass(frozen=True)
class WebSettings:
    """How the web app behaves; the defaults are safe for one person on one machine.

    Attributes:
        name: The collection's name, shown on the page.
        photos: Where the photos are; the place that the index remembers if not given.
        writable: Let visitors add photos, remove some from the index, and have the collection
            brought up to date.
        originals: Let visitors have the files themselves, with what EXIF says; otherwise photos
            are encoded anew at every size.
        device: Where photos are described when it is; found out if not given.
        token: What visitors must know; None lets everybody in who can reach the address.
        duplicates: A report of `solar duplicates` to go through on the page.
        groups: A file of `solar groups` whose albums the page shows.
        labels: Take a photo's label from its folder; None looks whether the names are like that.
        hosts: Host names the app answers to, besides `localhost` and any address in numbers. A page
            of somebody else's that makes its own name point here is refused by this.
        root_path: The path that the app is reached under, `/photos` for
            `https://example.org/photos/`; empty for a site of its own.
        home: The path below that of one index among several; empty for the first.
        indexes: The names of all indexes of the server, where there are several.
        proxies: Addresses or networks of reverse proxies that are believed when they say who the
            visitor is.
        max_upload_bytes: Largest photo taken from a visitor.
        max_uploads: Photos in one request to add some.
        max_pixels: Largest photo decoded for a visitor; its header tells.
        rate: Requests a second and visitor, in the long run; 0 for no limit. Pictures count a
            tenth.
        burst: Requests that a visitor may send at once.
        queue: Searches and clicks that wait for the network; a further one is told to come back.
        batch: Queries of one size that share a forward pass, at most.
        gather: Seconds that a query waits for others to share it with.
        threads: Threads that decode, search and match.
        query_bytes: Memory for uploaded queries; the oldest are forgotten.
        picture_bytes: Memory for pictures made before.
        attention_bytes: Memory for what attention maps are made of.
        attention_size: The shorter side of a photo whose attention is looked at.
        why_bytes: Memory for what explanations are made of.
        in_flight_bytes: Uploads that arrive or are looked at together, those to search with and
            those to add each; a further one is told to come back.
        patience: Seconds that a visitor may be silent in all during an upload; every 16 KiB that
            come give one more.
        static: Where the page is.
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
    hosts: tuple[str, ...] = ()
    root_path: str = ""
    home: str = ""
    indexes: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    max_upload_bytes: int = 32 * MIB
    max_uploads: int = 100
    max_pixels: int = 100_000_000
    rate: float = 20.0
    burst: float = 200.0
    queue: int = 64
    batch: int = 16
    gather: float = 0.004
    threads: int = 2
    query_bytes: int = 128 * MIB
    picture_bytes: int = 64 * MIB
    attention_bytes: int = 256 * MIB
    attention_size: int = SIZE
    why_bytes: int = 256 * MIB
    in_flight_bytes: int = 256 * MIB
    patience: float = 20.0
    static: Path = field(default=Path(__file__).parent / "static")

    @property
    def label(self) -> str:
        """What tells this index from others in metrics; empty where there are none."""
        return self.name if self.indexes else ""
