"""A report of duplicates for visitors to go through: groups by number, photos by their ids.

What visitors decide stays in their browsers. A photo of the report that the collection does not
have is named and has no picture.
"""

import threading
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Generic, Literal, TypeVar

from pydantic import BaseModel, Field

from solar.errors import SolarError
from solar.search.duplicate_report import read_facts, read_groups
from solar.show.duplicates_page import group_id
from solar.web.problems import WebError

R = TypeVar("R")


class ReportFile(Generic[R]):
    """The report at `path`, read again when the file has changed; no report for None.

    A SolarError if it cannot be read. One that is damaged later is not taken up.

    Args:
        path: Where it is.
        read: Reads it.
        missing: What visitors are told where there is none.
    """

    def __init__(self, path: str | Path | None, read: Callable[[Path], R], missing: str) -> None:
        self._path = None if path is None else Path(path)
        self._read, self._missing = read, missing
        self._lock = threading.Lock()
        self._stamp = self._now()
        self._report = read(self._path) if self._path else None

    def __bool__(self) -> bool:
        return self._path is not None

    def current(self) -> R:
        """The report as it is now; a WebError where there is none."""
        if self._report is None or self._path is None:
            raise WebError(404, self._missing)
        with self._lock:
            now = self._now()
            if now != self._stamp:
                self._stamp = now
                with suppress(SolarError):  # half copied, perhaps: the old one stays until then
                    self._report = self._read(self._path)
            return self._report

    def _now(self) -> tuple[int, ...]:
        try:
            found = self._path.stat() if self._path else None
        except OSError:
            found = None
        return () if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)


Kind = Literal["exact", "copy", "crop", "burst", "place"]


class ReviewedPhoto(BaseModel):
    """A photo of a group."""

    name: str
    width: int
    height: int
    bytes: int
    taken: str | None = Field(description="Capture time by the camera's clock, if known.")
    sharpness: float
    keep: bool = Field(description="Whether the report suggests keeping it.")
    why: str = Field(description="The reason for that.")
    id: str | None = Field(None, description="Its id; null if it is not in the collection.")
    thumbnail: str | None = None
    photo: str | None = None


class ReviewedPair(BaseModel):
    """How two photos of a group are related."""

    a: int = Field(description="Position of a photo in the list of the group, from 0.")
    b: int
    kind: Kind
    how: str
    score: float | None
    mapping: list[list[float]] | None = Field(
        description="3 × 3, from a to b, in coordinates from 0 to 1 of the upright photos."
    )
    covers: list[float] = Field(description="The share of a, and of b, that the other contains.")
    difference: float | None
    inliers: int | None
    why: str


class ReviewedGroup(BaseModel):
    """Photos that are related."""

    id: str = Field("", description="The same in every report with the same photos.")
    kind: Kind
    photos: list[ReviewedPhoto] = Field(min_length=2)
    pairs: list[ReviewedPair] = Field(min_length=1)


class GroupPage(BaseModel):
    """Some of the groups."""

    total: int = Field(description="How many there are of the kind.")
    groups: list[ReviewedGroup]


class ReportOverview(BaseModel):
    """What a report holds."""

    name: str
    photos: int = Field(description="How many were compared.")
    kinds: dict[Kind, int] = Field(description="How many groups there are of each kind.")
    groups: list[list[str]] = Field(description="Kind and id of each group, in order.")


class _OpenReport:
    """A report in memory, its groups compressed: about 200 bytes per pair."""

    def __init__(self, path: Path) -> None:
        self.photos = read_facts(path).photos
        self.groups: list[list[str]] = []
        self._packed: list[bytes] = []
        for group in read_groups(path):
            try:
                checked = ReviewedGroup.model_validate(group, from_attributes=True)
                checked.id = group_id(group)
                self._packed.append(zlib.compress(checked.model_dump_json().encode()))
            except ValueError as error:  # also of a name that is no text
                raise SolarError(
                    f"{path} is not a report of solar duplicates, or is damaged: write it again."
                ) from error
            self.groups.append([checked.kind, checked.id])

    def group(self, number: int) -> ReviewedGroup:
        return ReviewedGroup.model_validate_json(zlib.decompress(self._packed[number]))


Addresses = Callable[[Sequence[str]], list[dict[str, str]]]
"""Takes names of photos to their ids and pictures; nothing for those that are not indexed."""


class Reviewer:
    """The report at `path`, read again when the file has changed; no report for None.

    A SolarError if it cannot be read. One that is damaged later is not taken up.
    """

    def __init__(self, path: str | Path | None, name: str, addresses: Addresses) -> None:
        self._name, self._addresses = name, addresses
        self._file = ReportFile(
            path,
            _OpenReport,
            "This server has no report of duplicates: start it with --duplicates REPORT.",
        )

    def __bool__(self) -> bool:
        return bool(self._file)

    def overview(self) -> ReportOverview:
        """What the report holds; a WebError where there is none."""
        report = self._file.current()
        counts = Counter(kind for kind, _ in report.groups)
        return ReportOverview.model_validate(
            {"name": self._name, "photos": report.photos, "kinds": counts, "groups": report.groups}
        )

    def page(self, offset: int, limit: int, kind: str | None) -> GroupPage:
        """Some groups, of one kind or of all; a WebError where there is no report."""
        report = self._file.current()
        numbers: Sequence[int] = range(len(report.groups))
        if kind is not None:
            numbers = [number for number in numbers if report.groups[number][0] == kind]
        groups = [report.group(number) for number in numbers[offset : offset + limit]]
        photos = [photo for group in groups for photo in group.photos]
        known = self._addresses([photo.name for photo in photos])
        for photo, where in zip(photos, known, strict=True):
            for name, value in where.items():
                setattr(photo, name, value)
        return GroupPage(total=len(numbers), groups=groups)
