"""Albums of the page: groups of photos of the same place, as `solar groups` wrote them."""

import csv
import io
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from solar.search.group_report import (
    COLUMNS,
    GroupPhoto,
    PhotoGroup,
    read_group_facts,
    read_photo_groups,
    table_rows,
)
from solar.web.duplicate_review import Addresses, ReportFile
from solar.web.problems import WebError

ExportForm = Literal["json", "csv", "paths"]

TYPES: dict[ExportForm, str] = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "paths": "text/plain; charset=utf-8",
}
"""What each form of an export is, for browsers."""


class AlbumPhoto(BaseModel):
    """A photo of an album."""

    name: str
    links: int = Field(description="How many photos of the album it matches.")
    inliers: int = Field(description="Inliers of the best of these matches.")
    agreement: float = Field(description="The share of the others that it matches, from 0 to 1.")
    id: str | None = Field(None, description="Its id; null if it is not in the collection.")
    thumbnail: str | None = None
    photo: str | None = None


class Album(BaseModel):
    """Photos of the same place."""

    id: str = Field(description="The same in every report with the same photos.")
    count: int = Field(description="How many photos it has.")
    links: int = Field(description="How many pairs of them match.")
    agreement: float = Field(description="The mean of its photos' agreements.")
    photos: list[AlbumPhoto] = Field(description="The cover first; only some if the album is long.")


class AlbumPage(BaseModel):
    """Some of the albums, the largest first, each with its first photos."""

    total: int
    photos: int = Field(description="How many photos were compared.")
    grouped: int = Field(description="How many of them are in an album.")
    albums: list[Album]


class _OpenGroups:
    """A report in memory, its groups compressed: some tens of bytes per photo."""

    def __init__(self, path: Path) -> None:
        self.photos, self.grouped = read_group_facts(path).photos, 0
        self.numbers: dict[str, int] = {}
        self._packed: list[bytes] = []
        for number, group in enumerate(read_photo_groups(path)):
            text = json.dumps(group.to_dict())  # names that are no text are escaped
            self._packed.append(zlib.compress(text.encode()))
            self.numbers[group.id] = number
            self.grouped += len(group.photos)

    def __len__(self) -> int:
        return len(self._packed)

    def group(self, number: int) -> PhotoGroup:
        return PhotoGroup.from_dict(json.loads(zlib.decompress(self._packed[number])))


class Albums:
    """The groups in the file at `path`; none for None. A SolarError if it cannot be read."""

    def __init__(self, path: str | Path | None, addresses: Addresses) -> None:
        self._addresses = addresses
        self._file = ReportFile(
            path,
            _OpenGroups,
            "This server has no albums: write them with `solar groups`, and start it with --groups "
            "FILE.",
        )

    def __bool__(self) -> bool:
        return bool(self._file)

    def page(self, offset: int, limit: int, shown: int) -> AlbumPage:
        """Some albums, with `shown` photos each."""
        report = self._file.current()
        numbers = range(len(report))[offset : offset + limit]
        albums = [self._album(report.group(number), 0, shown) for number in numbers]
        return AlbumPage(
            total=len(report), photos=report.photos, grouped=report.grouped, albums=albums
        )

    def album(self, identity: str, offset: int, limit: int) -> Album:
        """An album and some of its photos."""
        return self._album(self._group(identity), offset, limit)

    def export(self, form: ExportForm, identity: str | None) -> str:
        """An album, or all of them, for other programs: names of photos as the index has them."""
        report = self._file.current()
        if identity is None:
            groups = [report.group(number) for number in range(len(report))]
        else:
            groups = [self._group(identity)]
        if form == "paths":
            return "".join(f"{name}\n" for group in groups for name in group.names)
        if form == "json":
            return json.dumps([group.to_dict() for group in groups], indent=1) + "\n"
        out = io.StringIO()
        csv.writer(out).writerows([COLUMNS, *table_rows(groups)])
        return out.getvalue()

    def _group(self, identity: str) -> PhotoGroup:
        report = self._file.current()
        if identity not in report.numbers:
            raise WebError(404, "There is no such album: it may have changed, so reload the page.")
        return report.group(report.numbers[identity])

    def _album(self, group: PhotoGroup, offset: int, limit: int) -> Album:
        return Album(
            id=group.id,
            count=len(group.photos),
            links=group.links,
            agreement=group.agreement,
            photos=self._shown(group.photos[offset : offset + limit]),
        )

    def _shown(self, photos: Sequence[GroupPhoto]) -> list[AlbumPhoto]:
        known = self._addresses([photo.name for photo in photos])
        return [
            AlbumPhoto.model_validate(vars(photo) | where)
            for photo, where in zip(photos, known, strict=True)
        ]
