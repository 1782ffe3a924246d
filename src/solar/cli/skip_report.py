"""Reports of a command: where they are written, and what became of its photos."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solar.cli.printing import json_text, photo_progress, say
from solar.files import replacing
from solar.index.index import is_folder, report_place
from solar.storage.catalogue import is_index

if TYPE_CHECKING:
    from solar.index.embeddings import DescribedCollection


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
    left_out = [{"path": name, "reason": unnamed(name, why)} for name, why in skipped.items()]
    report = {verb.lower(): done, "skipped": left_out, **more}
    with replacing(path) as part:
        part.write_text(json_text(report), encoding="utf-8")


def described_photos(source: str, work: Path, **describing: Any) -> "DescribedCollection":
    """The photos of a collection with their embeddings.

    Shows the progress, and prints how many were described and which were skipped. Arguments are
    those of `solar.index.embeddings.described`.
    """
    from solar.index.embeddings import described

    with photo_progress() as shown:
        found = described(source, work, progress=shown, **describing)
    if shown.done or found.skipped:
        print_summary(
            "Described", len(found), found.skipped, report="`solar extract --report FILE`"
        )
    return found


def print_summary(
    verb: str,
    done: int,
    skipped: Mapping[str, str],
    most: int = 10,
    where: str = "",
    report: str = "--report FILE",
) -> None:
    """Print "Indexed 326 photos, skipped 12", and below it which were skipped and why.

    Args:
        verb: What was done.
        done: To how many photos.
        skipped: Photo to reason; photos with the same reason share a line.
        most: So many lines; another says how many photos are not among them.
        where: What was written, to follow an arrow.
        report: The option or command that lists every photo that was skipped.
    """
    also = f", skipped {len(skipped):,}" if skipped else ""
    say(f"{verb} {done:,} photo{'s'[: done != 1]}{also}{where and ' → '}{where}")
    print_skipped(skipped, most, report)


def print_skipped(
    skipped: Mapping[str, str], most: int = 10, report: str = "--report FILE"
) -> None:
    """Print which photos were skipped and why; see `print_summary`."""
    groups: dict[str, list[str]] = {}
    for name, reason in skipped.items():
        groups.setdefault(unnamed(name, reason), []).append(name)
    for reason, names in list(groups.items())[:most]:
        told = f"{len(names):,} files" if len(names) > 1 else names[0]
        say(f"  {told}: {reason}", "yellow")
    rest = sum(len(names) for names in list(groups.values())[most:])
    if rest:
        say(f"  … and {rest:,} more: {report} lists them all.", "yellow")


def unnamed(name: str, reason: str) -> str:
    """A reason without the photo's path: "it is empty" for "photos/rome/1.jpg is empty".

    Most sentences begin with that path. What comes after it is the same for other photos.
    """
    folder, found, rest = reason.partition(f"{name.rpartition('/')[2]} ")
    return f"it {rest}" if found and (not folder or folder.endswith("/")) else reason


def default_place(source: str, kind: str) -> Path:
    """Where a report is written by default: beside an index, whose server looks there."""
    index = is_folder(source) and is_index(Path(source))
    return report_place(source, kind) if index else Path(f"{kind}.json")


def how_to_look(source: str, kind: str, output: Path) -> str | None:
    """A sentence with the command that shows a report in the web app; None without an index."""
    if is_folder(source) and not is_index(Path(source)):
        return None
    command = f"solar serve {shlex.quote(source)}"
    if not is_folder(source) or output.absolute() != report_place(source, kind):
        command += f" --{kind} {shlex.quote(str(output))}"
    return f"`{command}` shows them in the browser."
