"""A report of duplicates for visitors to go through: groups by number, photos by their ids.

What visitors decide stays in their browsers. A photo of the report that the collection does not
have is named and has no picture.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from solar.duplicates.report import (
    DuplicateGroup,
    DuplicatePhoto,
    DuplicateReport,
    Relation,
)
from solar.web.api.report_file import Addresses, ReportFile, addressed

Kind = Literal["exact", "copy", "crop", "burst", "place"]


@dataclass(frozen=True)
class ReviewedPhoto(DuplicatePhoto):
    """A photo of a group; its id and addresses are null if it is not in the collection."""

    id: str | None = None
    thumbnail: str | None = None
    photo: str | None = None


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
    kinds: dict[Kind, int] = Field(description="How many groups there are of each kind.")
    groups: list[list[str]] = Field(description="Kind and id of each group, in order.")


class Reviewer:
    """The report at `path`, read again when the file has changed; no report for None.

    A SolarError if it cannot be read. One that is damaged later is not taken up.
    """

    def __init__(self, path: str | Path | None, name: str, addresses: Addresses) -> None:
        self._name, self._addresses = name, addresses
        self._file = ReportFile(
            path,
            DuplicateReport,
            _kind_and_id,
            "This server has no report of duplicates: start it with --duplicates REPORT.",
        )

    def __bool__(self) -> bool:
        return bool(self._file)

    def overview(self) -> ReportOverview:
        """What the report holds; a WebError where there is none."""
        report = self._file.current()
        counts = Counter(kind for kind, _ in report.heads)
        return ReportOverview.model_validate(
            {
                "name": self._name,
                "photos": report.photos,
                "kinds": counts,
                "groups": [list(head) for head in report.heads],
            }
        )

    def page(self, offset: int, limit: int, kind: str | None) -> GroupPage:
        """Some groups, of one kind or of all; a WebError where there is no report."""
        report = self._file.current()
        numbers: Sequence[int] = range(len(report.heads))
        if kind is not None:
            numbers = [number for number in numbers if report.heads[number][0] == kind]
        groups = [self._reviewed(report.group(one)) for one in numbers[offset : offset + limit]]
        return GroupPage(total=len(numbers), groups=groups)

    def _reviewed(self, group: DuplicateGroup) -> ReviewedGroup:
        photos = addressed(ReviewedPhoto, group.photos, self._addresses)
        facts = {"id": group.id, "kind": group.kind, "photos": photos, "pairs": group.pairs}
        return ReviewedGroup.model_validate(facts)


def _kind_and_id(group: DuplicateGroup) -> tuple[str, str]:
    "".join(photo.name for photo in group.photos).encode()  # a name that is no text has no JSON
    return group.kind, group.id
