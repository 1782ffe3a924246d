"""Albums: the report of groups, with names that people may give."""

import io
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from solar.albums.report import Folder, GroupPhoto, GroupReport, PhotoGroup, album_names
from solar.files import reading, replacing
from solar.web.api.reports import Addressed, OpenReport, ReportFile
from solar.web.api.schemas import Asked
from solar.web.problems import WebError

ExportForm = Literal["json", "csv", "paths"]

TYPES: dict[ExportForm, str] = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "paths": "text/plain; charset=utf-8",
}
"""Media types of exports."""


@dataclass(frozen=True)
class AlbumPhoto(Addressed, GroupPhoto):
    """A photo of an album; its id and addresses are null if it is not in the collection."""


class Album(BaseModel):
    """Photos of the same place."""

    id: str = Field(description="The same in every report with the same photos.")
    name: str = Field(
        description="That given by a person, or else that of most photos' folder, with as much of "
        "its path, or a number, as other albums make necessary."
    )
    count: int = Field(description="How many photos it has.")
    links: int = Field(description="How many pairs of them match.")
    agreement: float = Field(description="The mean of its photos' agreements.")
    photos: list[AlbumPhoto] = Field(description="The cover first; only some if the album is long.")


class RenameRequest(Asked):
    """A name for an album."""

    name: str = Field(max_length=120, description="Empty for that of its folder.")


class AlbumPage(BaseModel):
    """Some of the albums, the largest first, each with its first photos."""

    total: int
    photos: int = Field(description="How many photos were compared.")
    grouped: int = Field(description="How many of them are in an album.")
    outdated: bool = Field(description="Whether the collection has other photos by now.")
    albums: list[Album]


class Albums(ReportFile[PhotoGroup]):
    """A report of `solar groups`."""

    kind = GroupReport
    missing = (
        "This server has no albums: write them with `solar groups`, and start it with --groups "
        "FILE."
    )

    def page(self, offset: int, limit: int, shown: int) -> AlbumPage:
        """Some albums, with `shown` photos each."""
        report = self._current()
        return AlbumPage(
            total=len(report.entries),
            photos=report.photos,
            outdated=report.photos != self._count(),
            grouped=sum(one.facts[0] for one in report.entries),
            albums=[
                self._album(self._group(one), one.facts[1], 0, shown)
                for one in report.entries[offset : offset + limit]
            ],
        )

    def album(self, identity: str, offset: int, limit: int) -> Album:
        """An album and some of its photos."""
        return self._album(*self._groups(identity)[0], offset, limit)

    def rename(self, identity: str, name: str) -> Album:
        """Give an album a name, which photos of it keep in later reports; none if it is empty."""
        [(group, usual)], names = self._groups(identity), self._names()
        names = {path: one for path, one in names.items() if path not in group.names}
        if name.strip():
            names[group.cover] = name.strip()
        with replacing(self._names_file) as temporary:
            temporary.write_text(json.dumps(names, indent=1), "utf-8")
        return self._album(group, usual, 0, 1)

    @property
    def _names_file(self) -> Path:
        assert self._path is not None
        return self._path.with_suffix(".names.json")

    def _names(self) -> dict[str, str]:
        """Names given by people, by a photo of the album."""
        if not self._names_file.is_file():
            return {}
        with reading(self._names_file, "is damaged", ValueError):
            found = json.loads(self._names_file.read_text("utf-8"))
            return {str(path): str(name) for path, name in dict(found).items()}

    def export(self, form: ExportForm, identity: str | None) -> str:
        """An album, or all of them, for other programs: names of photos as the index has them."""
        groups = [group for group, _ in self._groups(identity)]
        if form == "paths":
            return "".join(f"{name}\n" for group in groups for name in group.names)
        if form == "json":
            return json.dumps([group.to_dict() for group in groups], indent=1) + "\n"
        out = io.StringIO()
        GroupReport(0, groups).write_rows(out)
        return out.getvalue()

    def _groups(self, identity: str | None) -> list[tuple[PhotoGroup, str]]:
        """An album, or all of them, with the names that they have unless a person gave one."""
        entries = [one for one in self._current().entries if identity in (None, one.id)]
        found = [(self._group(one), one.facts[1]) for one in entries]
        if identity is not None and not found:
            raise WebError(404, "There is no such album: it may have changed, so reload the page.")
        return found

    def _album(self, group: PhotoGroup, usual: str, offset: int, limit: int) -> Album:
        names = self._names()
        return Album(
            id=group.id,
            name=next((names[path] for path in group.names if path in names), usual),
            count=len(group.photos),
            links=group.links,
            agreement=group.agreement,
            photos=self._addressed(AlbumPhoto, group.photos[offset : offset + limit]),
        )

    def _head(self, group: PhotoGroup) -> tuple[str, tuple[int, Folder]]:
        folders = Counter(tuple(filter(None, path.split("/")[:-1])) for path in group.names)
        return group.id, (len(group.photos), folders.most_common(1)[0][0])

    def _read(self, path: Path) -> OpenReport:
        photos, entries = super()._read(path)
        names = album_names([one.facts[1] for one in entries])
        named = zip(entries, names, strict=True)
        return OpenReport(photos, [e._replace(facts=(e.facts[0], name)) for e, name in named])
