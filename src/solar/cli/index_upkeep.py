"""`solar index sync` and `relocate`: an index stays true to its folders."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solar.cli.options import Device, Follow, IndexAddress, Json, MaxPixels, Report
from solar.errors import SolarError

if TYPE_CHECKING:
    from solar.index.sync import Changes


def sync(
    index: IndexAddress,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would change.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Keep watching until Ctrl-C.")] = False,
    every: Annotated[
        float, typer.Option(min=0.1, help="With --watch: seconds between checks.")
    ] = 10.0,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Also remove the photos of a folder that is empty or missing."
        ),
    ] = False,
    exif: Annotated[
        bool,
        typer.Option(
            "--exif",
            help="Also read time, position and camera of photos indexed without them.",
        ),
    ] = False,
    device: Device = None,
    max_pixels: MaxPixels = None,
    follow: Follow = True,
    report: Report = None,
    json: Json = False,
) -> None:
    """Update an index: new, changed, moved and deleted photos."""
    from solar.cli.printing import photo_progress, print_json, say
    from solar.cli.skip_report import print_skipped, write_report
    from solar.index.sync import Changes
    from solar.index.sync import sync as bring_up_to_date

    if watch and dry_run:
        raise SolarError("--dry-run checks once: leave out --watch.")
    describing: dict[str, Any] = {"device": device, "max_pixels": max_pixels}

    def look(exif: bool = False) -> Changes:
        with photo_progress() as shown:
            known: dict[str, Any] = {"dry_run": dry_run, "force": force, "follow": follow}
            known["exif"] = exif
            return bring_up_to_date(index, progress=shown, **known, **describing)

    def tell(changes: Changes) -> None:
        if json:
            print_json(changes.to_dict())
            return
        say(f"{'Would change' if dry_run else 'Updated'}: {changes}")
        if dry_run:
            _list(changes)
        print_skipped(changes.skipped)

    changes = look(exif)  # once is enough: what comes later is read when it is described
    tell(changes)
    if report is not None:
        done = len(changes.new) + len(changes.changed)
        write_report(report, done, changes.skipped, **_without_skipped(changes.to_dict()))
    if watch:
        _watch(look, tell, every)


def _watch(look: "Callable[[], Changes]", tell: "Callable[[Changes], None]", every: float) -> None:
    """Look again and again, and tell what changed, until Ctrl-C."""
    import time

    from solar.cli.printing import say
    from solar.errors import SolarError

    say(f"Checking every {every:g} s; press Ctrl-C to stop.")
    complaint = ""
    try:
        while True:
            time.sleep(every)
            try:
                changes = look()
            except SolarError as error:  # a disk that is not there, another writer: may pass
                if str(error) != complaint:
                    say(str(error), "yellow")
                complaint = str(error)
                continue
            complaint = ""
            if changes:
                tell(changes)
    except KeyboardInterrupt:
        say("Stopped.")


def _list(changes: "Changes", most: int = 10) -> None:
    """Name what would change, as far as there is room."""
    from solar.cli.printing import say

    lines = [
        *(f"+ {name}" for name in changes.new),
        *(f"~ {name}" for name in changes.changed),
        *(f"> {old} → {new}" for old, new in changes.moved.items()),
        *(f"- {name}" for name in changes.deleted),
    ]
    for line in lines[:most]:
        say(f"  {line}")
    if len(lines) > most:
        say(f"  … and {len(lines) - most:,} more: --json lists them all.")


def _without_skipped(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if name != "skipped"}


def relocate(
    index: IndexAddress,
    place: Annotated[Path, typer.Argument(metavar="FOLDER", help="New path of the folder.")],
    root: Annotated[
        str | None,
        typer.Option(
            "--from", help="Old path of the folder that moved, if the index has several folders."
        ),
    ] = None,
) -> None:
    """Tell an index that a folder has moved; nothing is recomputed."""
    from solar.cli.printing import say
    from solar.index import Index
    from solar.index.sync import relocate as move

    with Index.open(index) as opened:
        moved, count, here = move(opened, place, root)
    say(f"{here:,} of {count:,} photos are in {moved.path}.")
