"""Reports as files: plain JSON with a group per line, so that one of any size is read bit by bit.

```
{"format": "solar-duplicates-1", "solar": "0.1.0", "photos": 20000, …, "groups": [
{"kind": "copy", "photos": […], "pairs": […]},
{"kind": "crop", "photos": […], "pairs": […]}
]}
```
"""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from solar.files import reading, replacing

SIGNS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What reading something else than a report may raise."""

_END = "]}"


def write_lined(
    path: str | Path, head: Mapping[str, Any], groups: Iterable[Mapping[str, Any]]
) -> int:
    """Write a report, whole or not at all, and say how many groups it has.

    A SolarError if the disk is full or read-only.
    """
    count = 0
    with (
        replacing(path) as temporary,
        temporary.open("w", encoding="utf-8", errors="surrogateescape", newline="\n") as out,
    ):
        out.write(_json(head)[:-1] + ', "groups": [')
        for count, group in enumerate(groups, 1):
            out.write(("," if count > 1 else "") + "\n" + _json(group))
        out.write("\n" + _END + "\n")
    return count


def read_head(path: str | Path) -> dict[str, Any]:
    """What a report says of itself; one of `SIGNS` or an OSError if it cannot be read."""
    with _opened(path) as file:
        head = _head(file.readline())
        if head is None:
            file.seek(0)
            head = dict(json.load(file))
        return head


def read_lines(path: str | Path) -> Iterator[dict[str, Any]]:
    """The groups of a report, one after the other, in bounded memory; raises as `read_head` does.

    A report that another program has laid out otherwise is read whole.
    """
    with _opened(path) as file:
        if _head(file.readline()) is None:
            file.seek(0)
            yield from json.load(file)["groups"]
            return
        for line in file:
            text = line.strip().removesuffix(",")
            if text == _END:
                return
            yield json.loads(text)
        raise ValueError("it ends before its end")


def write_table(path: str | Path, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV file; a SolarError if the disk is full or read-only."""
    with (
        replacing(path) as temporary,
        temporary.open("w", encoding="utf-8", errors="surrogateescape", newline="") as out,
    ):
        table = csv.writer(out)
        table.writerow(head)
        table.writerows(rows)


def understood(path: str | Path, wrong: str) -> Any:
    """A block in which a report is read: what goes wrong is one sentence, a SolarError."""
    return reading(path, wrong, *SIGNS)


def _opened(path: str | Path) -> Any:
    return Path(path).open(encoding="utf-8", errors="surrogateescape")


def _json(facts: Mapping[str, Any]) -> str:
    return json.dumps(facts, ensure_ascii=False, allow_nan=False)


def _head(line: str) -> dict[str, Any] | None:
    """The facts on the first line of a report as we write it; None for another layout."""
    text = line.strip()
    if not text.endswith('"groups": ['):
        return None
    head = json.loads(text + _END)
    return head if isinstance(head, dict) else None
