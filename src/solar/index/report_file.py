"""Reports of groups as files: plain JSON with a group per line, read group by group.

```
{"format": "solar-duplicates-1", "solar": "1.0.0", "photos": 20000, …, "groups": [
{"kind": "copy", "photos": […], "pairs": […]},
{"kind": "crop", "photos": […], "pairs": […]}
]}
```
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TextIO, TypeVar

from solar import __version__
from solar.files import reading, writing
from solar.images import Roots

# What reading something else than a report may raise.
_SIGNS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
_END = "]}"


class ReportGroup(Protocol):
    """A group as a report has it."""

    def to_dict(self) -> dict[str, Any]:
        """As it is in a report."""

    def rows(self) -> Iterable[Sequence[Any]]:
        """A row per photo, as it is in a table."""


G = TypeVar("G", bound=ReportGroup)


@dataclass(frozen=True)
class Report(Generic[G]):
    """Groups of photos, and what was compared to find them.

    Attributes:
        photos: How many photos were compared.
        groups: Those of a file are read one by one, each time they are walked through.
        roots: Where the photos are.
        kinds: The kinds of groups that were looked for, where there are several.
        solar: The version that made it.
    """

    photos: int
    groups: Iterable[G]
    roots: Roots = field(default_factory=Roots)
    kinds: tuple[str, ...] = ()
    solar: str = __version__

    form: ClassVar[str]
    """The format of such files."""
    made_by: ClassVar[str]
    """What such a file is called in a sentence."""
    known_kinds: ClassVar[tuple[str, ...]] = ()
    columns: ClassVar[tuple[str, ...]]
    """Those of a table, after the number of the group."""

    @staticmethod
    def group(stored: Mapping[str, Any]) -> Any:
        """A group from JSON; a ValueError, TypeError or LookupError if it is none."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[G]:
        return iter(self.groups)

    def write(self, path: str | Path) -> Self:
        """Write the report, whole or not at all, and return it as it is in the file.

        A SolarError if the disk is full or read-only.
        """
        head: dict[str, Any] = {"format": self.form, "solar": self.solar, "photos": self.photos}
        head |= {"kinds": self.kinds} if self.kinds else {}
        begin = _json({**head, "roots": self.roots.stored()})[:-1] + ', "groups": ['
        with writing(path) as out:
            out.write(begin)
            for number, group in enumerate(self.groups):
                out.write(("," if number else "") + "\n" + _json(group.to_dict()))
            out.write("\n" + _END + "\n")
        return self.read(path)

    def held(self) -> Self:
        """The same report with its groups in memory."""
        return replace(self, groups=list(self.groups))

    def write_csv(self, path: str | Path) -> None:
        """Write a table with one row per photo; a SolarError if the disk is full or read-only."""
        with writing(path, newline="") as out:
            self.write_rows(out)

    def write_rows(self, out: TextIO) -> None:
        """Write the table of `write_csv` to an open file."""
        table = csv.writer(out)
        table.writerow(["group", *self.columns])
        for number, group in enumerate(self.groups, 1):
            table.writerows([number, *row] for row in group.rows())

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Open a report, whose groups are read when they are iterated.

        Both raise a SolarError if the file is damaged or something else.
        """
        with reading(path, cls.wrong(), *_SIGNS), _opened(path) as file:
            head = json.loads(file.readline() + _END)
            if head["format"] != cls.form or not set(kinds := head.get("kinds", ())) <= {
                *cls.known_kinds
            }:
                raise ValueError(head["format"])
            roots = Roots.read(head["roots"])
            return cls(
                int(head["photos"]), _Lines(path, cls), roots, tuple(kinds), str(head["solar"])
            )

    @classmethod
    def wrong(cls) -> str:
        """The complaint about a file that is not such a report, without its name."""
        return f"is not a {cls.made_by}, or is damaged: write it again"


class _Lines:
    """The groups in a file, read anew each time."""

    def __init__(self, path: str | Path, report: type[Report[Any]]) -> None:
        self._path, self._report = path, report

    def __iter__(self) -> Iterator[Any]:
        with reading(self._path, self._report.wrong(), *_SIGNS), _opened(self._path) as file:
            for line in islice(file, 1, None):
                text = line.strip().removesuffix(",")
                if text == _END:
                    return
                yield self._report.group(json.loads(text))
            raise ValueError("it ends before its end")


def _opened(path: str | Path) -> Any:
    return Path(path).open(encoding="utf-8", errors="surrogateescape")


def _json(facts: Mapping[str, Any]) -> str:
    return json.dumps(facts, ensure_ascii=False, allow_nan=False)
