"""What became of photos, for a reader and for a program: how many, and which were skipped why."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from solar.cli.printing import json_text, say
from solar.errors import printable
from solar.files import replacing


def write_report(
    path: Path, done: int, skipped: Mapping[str, str], verb: str = "Indexed", **more: Any
) -> None:
    """Write `{"indexed": 3, "skipped": [{"path": …, "reason": …}, …], …}` to a file.

    Args:
        path: The JSON file.
        done: How many photos were indexed or described.
        skipped: Those that were not, and why.
        verb: What was done to them: "Described" gives the key "described".
        **more: Further keys.
    """
    left_out = [{"path": name, "reason": reason} for name, reason in skipped.items()]
    report = {verb.lower(): done, "skipped": left_out, **more}
    with replacing(path) as part:
        part.write_text(json_text(report), encoding="utf-8")


def print_summary(
    verb: str, done: int, skipped: Mapping[str, str], most: int = 10, where: str = ""
) -> None:
    """Print "Indexed 326 photos, skipped 12", and below it which were skipped and why.

    Args:
        verb: What was done.
        done: To how many photos.
        skipped: Photo to reason; photos with the same reason share a line.
        most: So many lines; another says how many photos are not among them.
        where: What was written, to follow an arrow.
    """
    also = f", skipped {len(skipped):,}" if skipped else ""
    say(f"{verb} {done:,} photo{'s'[: done != 1]}{also}{where and ' → '}{where}")
    print_skipped(skipped, most)


def print_skipped(skipped: Mapping[str, str], most: int = 10) -> None:
    """Print which photos were skipped and why; see `print_summary`."""
    groups: dict[str, list[str]] = {}
    for name, reason in skipped.items():
        groups.setdefault(_unnamed(name, reason), []).append(name)
    for reason, names in list(groups.items())[:most]:
        if len(names) > 1:
            say(f"  {len(names):,} files: {reason}", "yellow")
        else:
            told = printable(skipped[names[0]])
            named = printable(names[0]) in told
            say(f"  {told}" if named else f"  {names[0]}: {told}", "yellow")
    rest = sum(len(names) for names in list(groups.values())[most:])
    if rest:
        say(f"  … and {rest:,} more: --report FILE lists them all.", "yellow")


def _unnamed(name: str, reason: str) -> str:
    """A reason without the photo's path, with which most sentences begin: so equal ones meet."""
    folder, found, rest = printable(reason).partition(printable(name))
    return rest.strip() if found and " " not in folder else printable(reason)
