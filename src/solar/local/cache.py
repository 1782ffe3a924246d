"""A cache of local features, in a folder that may be deleted at any time.

```
local/3f9a….features   one file of `solar.records` for each model and its settings
```

A value holds, after its header, for n keypoints: places (16 bits a coordinate, a 65,535th of the
photo's longer side), diameters and angles (half floats), and descriptors of 8 bits a number between
the photo's least and greatest: 136 bytes per keypoint with 128 numbers. Binary descriptors are kept
as they are, with 0 as least and greatest: 40 bytes per keypoint of ORB, 69 of AKAZE. How a value
begins says whether descriptors are of unit norm, and whether points are locations of a map.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import struct
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from solar.errors import SolarError
from solar.local.features import Descriptors, LocalFeatures, LocalModel, local_fingerprint
from solar.records import Records

if TYPE_CHECKING:
    from solar.images import Source

# By whether descriptors are of unit norm, and points are dense.
_MAGIC = {(True, False): b"solarLF1", (False, True): b"solarLF2", (True, True): b"solarLF3"}
_SUFFIX = ".features"
_KINDS = {magic: kind for kind, magic in _MAGIC.items()}
# Magic, the photo's identity, n, d, height, width, scale, least, greatest.
_HEADER = struct.Struct("<8s16sIIIIfff")


def pack(features: LocalFeatures, identity: bytes = b"") -> bytes:
    """Features as bytes; `identity` (16 bytes at most) is that of the photo."""
    binary = features.descriptors.dtype == np.uint8
    low, high = (0.0, 0.0) if binary else _range(features.descriptors)
    steps = features.descriptors
    if not binary:
        steps = np.round((steps - low) * (255 / (high - low))).astype(np.uint8)
    side = max(features.shape)
    places = np.clip(features.points * (65535 / side) + 0.5, 0, 65535)
    sizes_angles = np.stack([features.sizes, features.angles])
    columns = (places.astype("<u2"), sizes_angles.astype("<f2"), steps)
    body = b"".join(column.tobytes() for column in columns)
    numbers = (*features.descriptors.shape, *features.shape, features.scale, low, high)
    magic = _MAGIC[features.unit, features.dense]
    return _HEADER.pack(magic, identity, *numbers) + body


def unpack(content: bytes, identity: bytes = b"") -> LocalFeatures | None:
    """The features in bytes; None if they are of a photo that has changed, or nothing like it."""
    if len(content) < _HEADER.size:
        return None
    magic, whose, n, dim, height, width, scale, low, high = _HEADER.unpack_from(content)
    body = content[_HEADER.size :]
    whole = magic in _KINDS and len(body) == n * (8 + dim)
    if not whole or whose != identity.ljust(16, b"\0"):
        return None
    places = np.frombuffer(body, "<u2", 2 * n).reshape(n, 2)
    sizes, angles = np.frombuffer(body, "<f2", 2 * n, 4 * n).reshape(2, n).astype(np.float32)
    steps = np.frombuffer(body, np.uint8, dim * n, 8 * n).reshape(n, dim)
    unit, dense = _KINDS[magic]
    return LocalFeatures(
        points=places * np.float32(max(height, width) / 65535),
        sizes=sizes,
        angles=angles,
        descriptors=steps if low == high else _numbers(steps, low, high, unit=unit),
        shape=(height, width),
        scale=scale,
        unit=unit,
        dense=dense,
    )


def rounded(features: LocalFeatures) -> LocalFeatures:
    """Features as the cache returns them: matches do not depend on whether they were cached."""
    kept = unpack(pack(features))
    assert kept is not None
    return kept


def _numbers(steps: Descriptors, low: float, high: float, *, unit: bool) -> Descriptors:
    rows: Descriptors = steps * np.float32((high - low) / 255) + np.float32(low)
    if not unit:
        return rows
    norms = np.sqrt(np.einsum("nd,nd->n", rows, rows))[:, None]
    rows /= np.maximum(norms, 1e-12)
    return rows


class LocalCache:
    """Features of photos in a folder, for one model and its settings.

    Several threads and processes may use one folder. One that cannot be written keeps nothing.
    Settings are what else changes the features: `keypoints`, ….
    """

    def __init__(self, folder: str | Path, model: LocalModel, **settings: Any) -> None:
        self.folder = Path(folder)
        known = json.dumps([local_fingerprint(model), settings], sort_keys=True)
        key = hashlib.sha256(known.encode()).hexdigest()[:16]
        self._records = Records(self.folder / f"{key}{_SUFFIX}")
        self.writable = True

    def get(self, name: str, photo: Source) -> LocalFeatures | None:
        """The features of a photo; None where they are not there, or of an older photo."""
        try:
            content = self._records.get(name_digest(name))
        except SolarError as error:  # searches go on without it
            warnings.warn(str(error), stacklevel=2)
            content = None
        return None if content is None else unpack(content, file_identity(photo))

    def put(self, name: str, photo: Source, features: LocalFeatures) -> LocalFeatures:
        """Keep the features of a photo, in place of older ones; return them as `get` does."""
        if self.writable:
            try:
                self._records.put([(name_digest(name), pack(features, file_identity(photo)))])
            except SolarError:  # a read-only folder, or a full disk
                self.writable = False
        return rounded(features)


def count_kept(folder: Path) -> tuple[int, int]:
    """Number of photos in a cache, counted for each model, and the bytes of their features."""
    sizes = [Records(file).size() for file in folder.glob(f"*{_SUFFIX}")]
    return sum(count for count, _ in sizes), sum(total for _, total in sizes)


def forget_others(folder: Path, names: Iterable[str]) -> None:
    """Delete the features of all photos but these, for all models."""
    files = list(folder.glob(f"*{_SUFFIX}"))
    wanted = {name_digest(name) for name in names} if files else set()
    for file in files:
        Records(file).keep(wanted)


def own_folder(folder: Path | None) -> Path | None:
    """Where an index keeps features, by its folder; None for an index on a server."""
    return folder and folder / "local"


def name_digest(name: str) -> bytes:
    """The key of a photo in a cache: 16 bytes."""
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()[:16]


def _range(values: np.ndarray[Any, np.dtype[np.float32]]) -> tuple[float, float]:
    if values.size == 0:
        return 0.0, 1.0
    low, high = np.float32(values.min()), np.float32(values.max())
    return float(low), float(max(high, low + np.float32(1e-6)))


def file_identity(photo: Source) -> bytes:
    """What changes when a photo does: time and size of a file, or the bytes themselves."""
    if isinstance(photo, bytes):
        return hashlib.sha256(photo).digest()[:16]
    if isinstance(photo, str | Path):
        with contextlib.suppress(OSError):
            facts = Path(photo).stat()
            text = f"{facts.st_mtime_ns} {facts.st_size}"
            return hashlib.sha256(text.encode()).digest()[:16]
    return b""
