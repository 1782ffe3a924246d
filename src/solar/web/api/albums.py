"""Albums of the page: groups of photos of the same place, as `solar groups` wrote them."""

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from solar.albums.report import GroupPhoto, GroupReport, PhotoGroup
from solar.web.api.report_file import Addresses, ReportFile, addressed
from solar.web.problems import WebError

ExportForm = Literal["json", "csv", "paths"]

TYPES: dict[ExportForm, str] = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "paths": "text/plain; charset=utf-8",
}
"""What each form of an export is, for browsers."""


@dataclass(frozen=True)
class AlbumPhoto(GroupPhoto):
    """A photo of an album; its id and addresses are null if it is not in the collection."""

    id: str | None = None
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


class Albums:
    """The groups in the file at `path`; none for None. A SolarError if it cannot be read."""

    def __init__(self, path: str | Path | None, addresses: Addresses) -> None:
        self._addresses = addresses
        self._file = ReportFile(
            path,
            GroupReport,
            lambda group: (group.id, len(group.photos)),
            "This server has no albums: write them with `solar groups`, and start it with --groups "
            "FILE.",
        )

    def __bool__(self) -> bool:
        return bool(self._file)

    def page(self, offset: int, limit: int, shown: int) -> AlbumPage:
        """Some albums, with `shown` photos each."""
        report = self._file.current()
        numbers = range(len(report.heads))[offset : offset + limit]
        albums = [self._album(report.group(number), 0, shown) for number in numbers]
        grouped = sum(size for _, size in report.heads)
        return AlbumPage(
            total=len(report.heads), photos=report.photos, grouped=grouped, albums=albums
        )

    def album(self, identity: str, offset: int, limit: int) -> Album:
        """An album and some of its photos."""
        return self._album(self._group(identity), offset, limit)

    def export(self, form: ExportForm, identity: str | None) -> str:
        """An album, or all of them, for other programs: names of photos as the index has them."""
        report = self._file.current()
        if identity is None:
            groups = [report.group(number) for number in range(len(report.heads))]
        else:
            groups = [self._group(identity)]
        if form == "paths":
            return "".join(f"{name}\n" for group in groups for name in group.names)
        if form == "json":
            return json.dumps([group.to_dict() for group in groups], indent=1) + "\n"
        out = io.StringIO()
        GroupReport(report.photos, groups).write_rows(out)
        return out.getvalue()

    def _group(self, identity: str) -> PhotoGroup:
        report = self._file.current()
        for number, (known, _) in enumerate(report.heads):
            if known == identity:
                return report.group(number)
        raise WebError(404, "There is no such album: it may have changed, so reload the page.")

    def _album(self, group: PhotoGroup, offset: int, limit: int) -> Album:
        return Album(
            id=group.id,
            count=len(group.photos),
            links=group.links,
            agreement=group.agreement,
            photos=addressed(AlbumPhoto, group.photos[offset : offset + limit], self._addresses),
        )
