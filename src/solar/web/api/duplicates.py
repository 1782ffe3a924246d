"""The report of duplicates. What visitors decide about them stays in their browsers."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal, cast

from pydantic import BaseModel, Field

from solar.near_duplicates.report import DuplicateGroup, DuplicatePhoto, DuplicateReport, Relation
from solar.web.api.reports import Addressed, ReportFile

Kind = Literal["exact", "copy", "crop", "burst", "place"]


@dataclass(frozen=True)
class ReviewedPhoto(Addressed, DuplicatePhoto):
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


class Reviewer(ReportFile[DuplicateGroup]):
    """A report of `solar duplicates`."""

    kind = DuplicateReport
    missing = "This server has no report of duplicates: start it with --duplicates REPORT."

    def overview(self, name: str) -> ReportOverview:
        """What the report of the collection `name` holds."""
        report = self._current()
        kinds: dict[Any, int] = Counter(one.facts for one in report.entries)
        groups = [[one.facts, one.id] for one in report.entries]
        outdated = report.photos != self._count()
        return ReportOverview(
            name=name, photos=report.photos, outdated=outdated, kinds=kinds, groups=groups
        )

    def page(self, offset: int, limit: int, kind: Kind | None) -> GroupPage:
        """Some groups, of one kind or of all."""
        found = [one for one in self._current().entries if kind in (None, one.facts)]
        groups = [
            ReviewedGroup(
                id=group.id,
                kind=cast("Kind", group.kind),
                photos=self._addressed(ReviewedPhoto, group.photos),
                pairs=list(group.pairs),
            )
            for group in map(self._group, found[offset : offset + limit])
        ]
        return GroupPage(total=len(found), groups=groups)

    def _head(self, group: DuplicateGroup) -> tuple[str, str]:
        "".join(photo.name for photo in group.photos).encode()  # JSON cannot hold other names
        return group.id, group.kind
