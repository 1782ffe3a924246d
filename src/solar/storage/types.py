"""Photos, hits, changes to an index, and how vectors were made."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from solar.describe.settings import comparable
from solar.images import Roots, Stamp
from solar.images.exif import ExifFacts, Position
from solar.storage.own_fields import FieldValue, own_fields


@dataclass(frozen=True, slots=True)
class Hit:
    """A photo found, by its path in the index, and its cosine similarity to the query.

    Attributes:
        inliers: Number of its keypoints that match the query; None if not verified.
        probability: Probability that it shows the same place; None if the model is not calibrated
            (`solar.ranking.calibration`), or scores are not similarities.
        absolute: Path of its file on this machine; None if unknown.
        threshold: With at least this many inliers, it shows the same scene as the query; None if
            not verified.
        photo: The photo, from `solar.client`; None from other searches.
        id: Its id on the server, from `solar.client`; None from other searches.
    """

    path: str
    score: float
    inliers: int | None = None
    absolute: str | None = field(default=None, compare=False)
    probability: float | None = None
    threshold: int | None = None
    photo: "Photo | None" = field(default=None, compare=False, repr=False)
    id: str | None = field(default=None, compare=False, repr=False)

    @property
    def same_scene(self) -> bool | None:
        """Whether enough keypoints match; None if not verified."""
        if self.inliers is None or self.threshold is None:
            return None
        return self.inliers >= self.threshold


@dataclass(frozen=True, slots=True)
class Photo:
    """An indexed photo.

    Attributes:
        path: Its key: relative to the folder that was indexed, see `solar.images.roots`.
        width: In pixels, upright; 0 if unknown.
        height: In pixels, upright; 0 if unknown.
        tags: Any words.
        taken: Capture time, as `2019-07-14T18:30:00`; None if unknown.
        stamp: State of its file when it was described; None if unknown.
        position: Latitude and longitude in degrees; None if unknown.
        camera: The camera; None if unknown.
        fields: Your own facts, by name: texts, numbers and booleans; what is None is left out.

    Raises:
        SolarError: A field has a name or a value that no index can keep.
    """

    path: str
    width: int = 0
    height: int = 0
    tags: tuple[str, ...] = ()
    taken: str | None = None
    stamp: Stamp | None = field(default=None, compare=False, repr=False)
    position: Position | None = None
    camera: str | None = None
    fields: Mapping[str, FieldValue] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.fields:
            object.__setattr__(self, "fields", own_fields(self.fields))


@dataclass(frozen=True)
class Amendment:
    """Changes to an index for which no photo has to be described; all at once, in this order.

    Attributes:
        removed: Paths of photos to remove.
        renamed: Old paths to new ones.
        stamps: Stamps of files, by the new path.
        skipped: All files that are left out, by name; None for no change.
        roots: Where photos are; None for no change.
        facts: Times, positions and cameras of photos, by the new path; what is None stays.
    """

    removed: Sequence[str] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    stamps: Mapping[str, Stamp] = field(default_factory=dict)
    skipped: Mapping[str, "Skipped"] | None = None
    roots: Roots | None = None
    facts: Mapping[str, ExifFacts] = field(default_factory=dict)

    def __bool__(self) -> bool:
        changes = (self.removed, self.renamed, self.stamps, self.skipped is not None, self.roots)
        return any((*changes, self.facts))


REMOVED = "removed by hand"
"""Why a photo is left out that a person removed: it comes back only when it is restored."""


class Skipped(NamedTuple):
    """A file that is left out of an index."""

    reason: str
    bytes: int = -1
    modified: int = 0


@dataclass(frozen=True)
class DescriptorSpec:
    """How the vectors of an index were made; only vectors made alike can be compared.

    Attributes:
        dim: Length of a vector.
        model: Name or file of the model; empty if the vectors came from elsewhere.
        fingerprint: `solar.models.fingerprint` of it; empty if the vectors came from elsewhere.
        settings: How photos were described: what `Settings.recorded` gives, or those of ASMK.
    """

    dim: int
    model: str = ""
    fingerprint: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def comparable(self) -> dict[str, Any]:
        """The settings in which vectors must agree to be compared."""
        # JSON turns tuples into lists.
        plain: dict[str, Any] = json.loads(json.dumps(comparable(self.settings)))
        return plain
