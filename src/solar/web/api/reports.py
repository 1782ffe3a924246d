"""Reports of duplicates and of albums, served page by page.

What visitors decide about duplicates stays in their browsers. A photo of a report that the
collection does not have is named and has no picture.
"""

import io
import json
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

from pydantic import BaseModel, Field

from solar.albums.report import GroupPhoto, GroupReport, PhotoGroup
from solar.errors import SolarError
from solar.files import reading, replacing
from solar.index.report_file import Report, ReportGroup
from solar.near_duplicates.report import DuplicateGroup, DuplicatePhoto, DuplicateReport, Relation
from solar.web.api.schemas import Asked
from solar.web.problems import WebError

G = TypeVar("G", bound=ReportGroup)
P = TypeVar("P")

Addresses = Callable[[Sequence[str]], list[dict[str, str]]]
"""Takes names of photos to their ids and pictures; nothing for those that are not indexed."""


@dataclass(frozen=True)
class _OpenReport(Generic[G]):
    photos: int
    heads: list[tuple[str, Any]]  # id of each group, and its kind, or number of photos and name
    packed: list[bytes]  # groups, about 200 bytes per pair


class _ReportFile(Generic[G]):
    """The report at `path`, read again when the file has changed; no report for None.

    A SolarError if it cannot be read. One that is damaged later is not taken up.
    """

    kind: type[Report[G]]
    missing: ClassVar[str]

    def __init__(
        self, path: str | Path | None, addresses: Addresses, count: Callable[[], int]
    ) -> None:
        self._path = None if path is None else Path(path)
        self._addresses, self._count = addresses, count
        self._lock = threading.Lock()
        self._stamp = self._now()
        self._report = self._read(self._path) if self._path else None

    def __bool__(self) -> bool:
        return self._path is not None

    def _head(self, group: G) -> tuple[str, Any]:
        raise NotImplementedError

    def _read(self, path: Path) -> _OpenReport[G]:
        report, heads, packed = self.kind.read(path), [], []
        with reading(path, self.kind.wrong(), ValueError):
            for group in report:
                packed.append(zlib.compress(json.dumps(group.to_dict()).encode()))
                heads.append(self._head(group))
        return _OpenReport(report.photos, heads, packed)

    def _current(self) -> _OpenReport[G]:
        """The report as it is now; a WebError where there is none."""
        if self._report is None or self._path is None:
            raise WebError(404, self.missing)
        with self._lock:
            now = self._now()
            if now != self._stamp:
                self._stamp = now
                with suppress(SolarError):  # half copied, perhaps: the old one stays until then
                    self._report = self._read(self._path)
            return self._report

    def _now(self) -> tuple[int, ...]:
        with suppress(OSError):
            if self._path:
                found = self._path.stat()
                return found.st_mtime_ns, found.st_size, found.st_ino
        return ()

    def _group(self, packed: bytes) -> G:
        group: G = self.kind.group(json.loads(zlib.decompress(packed)))
        return group

    def _addressed(self, make: Callable[..., P], photos: Sequence[Any]) -> list[P]:
        """Photos of a group with their addresses, which `make` takes beside their own fields."""
        known = self._addresses([photo.name for photo in photos])
        return [make(**vars(photo), **where) for photo, where in zip(photos, known, strict=True)]


@dataclass(frozen=True, kw_only=True)
class _Addressed:
    id: str | None = None
    thumbnail: str | None = None
    photo: str | None = None


Folder = tuple[str, ...]
"""The path of a folder in an index, as its parts."""

Kind = Literal["exact", "copy", "crop", "burst", "place"]


@dataclass(frozen=True)
class ReviewedPhoto(_Addressed, DuplicatePhoto):
    """A photo of a group; its id and addresses are null if it is not in the collection."""


class ReviewedGroup(BaseModel):
    """Photos that are related."""

    id: str = Field(description="The same in every report with the same photos.")
    kind: Kind
    photos: list[ReviewedPhoto]
    pairs: list[Relation]


class GroupPage(BaseModel):
    """Some of the groups."""

    total: int = Field(description="How many there are of the kind.")
    groups: list[ReviewedGroup]


class ReportOverview(BaseModel):
    """What a report holds."""

    name: str
    photos: int = Field(description="How many were compared.")
    outdated: bool = Field(description="Whether the collection has other photos by now.")
    kinds: dict[Kind, int] = Field(description="How many groups there are of each kind.")
    groups: list[list[str]] = Field(description="Kind and id of each group, in order.")


class Reviewer(_ReportFile[DuplicateGroup]):
    """A report of `solar duplicates`."""

    kind = DuplicateReport
    missing = "This server has no report of duplicates: start it with --duplicates REPORT."

    def overview(self, name: str) -> ReportOverview:
        """What the report of the collection `name` holds."""
        report = self._current()
        kinds: dict[Any, int] = Counter(kind for _, kind in report.heads)
        groups = [[kind, identity] for identity, kind in report.heads]
        outdated = report.photos != self._count()
        return ReportOverview(
            name=name, photos=report.photos, outdated=outdated, kinds=kinds, groups=groups
        )

    def page(self, offset: int, limit: int, kind: Kind | None) -> GroupPage:
        """Some groups, of one kind or of all."""
        report = self._current()
        found = [
            packed
            for packed, (_, known) in zip(report.packed, report.heads, strict=True)
            if kind in (None, known)
        ]
        groups = [self._reviewed(self._group(one)) for one in found[offset : offset + limit]]
        return GroupPage(total=len(found), groups=groups)

    def _reviewed(self, group: DuplicateGroup) -> ReviewedGroup:
        photos = self._addressed(ReviewedPhoto, group.photos)
        kind: Any = group.kind
        return ReviewedGroup(id=group.id, kind=kind, photos=photos, pairs=list(group.pairs))

    def _head(self, group: DuplicateGroup) -> tuple[str, str]:
        "".join(photo.name for photo in group.photos).encode()  # JSON cannot hold other names
        return group.id, group.kind


ExportForm = Literal["json", "csv", "paths"]

TYPES: dict[ExportForm, str] = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "paths": "text/plain; charset=utf-8",
}
"""Media types of exports."""


@dataclass(frozen=True)
class AlbumPhoto(_Addressed, GroupPhoto):
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


class Albums(_ReportFile[PhotoGroup]):
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
            total=len(report.heads),
            photos=report.photos,
            outdated=report.photos != self._count(),
            grouped=sum(size for _, (size, _) in report.heads),
            albums=[
                self._album(self._group(one), name, 0, shown)
                for one, (_, (_, name)) in zip(
                    report.packed[offset : offset + limit], report.heads[offset:], strict=False
                )
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
        report = self._current()
        found = [
            (self._group(packed), name)
            for packed, (known, (_, name)) in zip(report.packed, report.heads, strict=True)
            if identity in (None, known)
        ]
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

    def _read(self, path: Path) -> _OpenReport[PhotoGroup]:
        report = super()._read(path)
        names = album_names([folder for _, (_, folder) in report.heads])
        heads = [
            (identity, (size, name))
            for (identity, (size, _)), name in zip(report.heads, names, strict=True)
        ]
        return replace(report, heads=heads)


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
