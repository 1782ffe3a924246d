"""Albums of photos that show the same place, and their report."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from solar.index.report_file import Report

Folder = tuple[str, ...]
"""The path of a folder in an index, as its parts."""


@dataclass(frozen=True)
class GroupPhoto:
    """A photo of a group."""

    name: str  # in the collection
    links: int  # photos of the group that it matches
    inliers: int  # keypoints that agree in the best of these matches
    agreement: float  # the share of the others that it matches, of at most `k` compared


@dataclass(frozen=True)
class PhotoGroup:
    """Photos that show the same place."""

    photos: tuple[GroupPhoto, ...]  # the cover first, then those that belong to it most surely
    links: int  # pairs of them that match

    @property
    def cover(self) -> str:
        """The name of the photo that matches most others."""
        return self.photos[0].name

    @property
    def names(self) -> list[str]:
        """Names of its photos."""
        return [photo.name for photo in self.photos]

    @property
    def agreement(self) -> float:
        """The mean `agreement` of its photos."""
        return round(sum(photo.agreement for photo in self.photos) / len(self.photos), 4)

    @property
    def id(self) -> str:
        """A digest of the names of its photos."""
        names = "\0".join(sorted(self.names))
        return hashlib.sha256(names.encode("utf-8", "surrogateescape")).hexdigest()[:12]

    def to_dict(self) -> dict[str, Any]:
        """As it is in a report."""
        return {"cover": self.cover, "agreement": self.agreement, **asdict(self)}

    def rows(self) -> Iterator[list[Any]]:
        """A row per photo, as it is in a table."""
        for photo in self.photos:
            cover = "yes" if photo.name == self.cover else "no"
            yield [photo.name, cover, photo.links, photo.inliers, photo.agreement]

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> PhotoGroup:
        """From JSON; a ValueError, TypeError or LookupError if it is no group."""
        photos = tuple(GroupPhoto(**one) for one in stored["photos"])
        links = stored["links"]
        counts = [links, *(n for photo in photos for n in (photo.links, photo.inliers))]
        if not photos or not all(type(number) is int and number >= 0 for number in counts):
            raise ValueError("a group without photos, or with negative counts")
        if not all(isinstance(one.name, str) and 0 <= one.agreement <= 1 for one in photos):
            raise ValueError("a name that is no text, or a share outside 0 to 1")
        return cls(photos, links)


class GroupReport(Report[PhotoGroup]):
    """What `solar.groups` found."""

    form = "solar-groups-1"
    made_by = "file of solar groups"
    columns = ("name", "cover", "links", "inliers", "agreement")
    group = PhotoGroup.from_dict


def album_names(folders: Sequence[Folder]) -> list[str]:
    """A name for each album by the folder of most of its photos, to tell it from the others.

    As much of the end of its path as tells a folder from the others; further albums of the same
    folder are numbered.
    """
    ends = Counter(folder[-n:] for folder in {*folders} for n in range(1, len(folder) + 1))
    seen: Counter[str] = Counter()
    names = []
    for folder in folders:
        lengths = range(1, len(folder) + 1)
        length = next((n for n in lengths if ends[folder[-n:]] == 1), len(folder))
        name = " ".join("/".join(folder[-length:]).replace("_", " ").split()) or "Album"
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return names
