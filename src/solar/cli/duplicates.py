"""`solar duplicates`: the same photo, the same moment, the same place."""

from collections import Counter
from typing import Annotated, Any, Literal

import typer

from solar.cli import printing
from solar.cli.options import (
    Backend,
    CollectionSource,
    Csv,
    Device,
    Html,
    Json,
    MinScore,
    Model,
    MovedPhotos,
    Nearest,
    OptionalOutput,
    Size,
)
from solar.errors import SolarError
from solar.files import refuse_places

EXAMPLE = "Example: solar duplicates photos.solar --html page.html"
Listed = Literal["keep", "rest"]


def duplicates(
    source: CollectionSource,
    output: OptionalOutput = None,
    csv: Csv = None,
    html: Html = None,
    kinds: Annotated[
        str, typer.Option(help="Kinds of groups to report, separated by commas.")
    ] = "exact,copy,crop,burst,place",
    new: Annotated[
        bool,
        typer.Option("--new", help="Only report photos added to the index since the last report."),
    ] = False,
    listed: Annotated[
        Listed | None,
        typer.Option(
            "--print", help="Print the paths of the copies to keep or to drop, for other tools."
        ),
    ] = None,
    null: Annotated[
        bool, typer.Option("--null", "-0", help="With --print, end paths with NUL, for xargs -0.")
    ] = False,
    k: Nearest = 20,
    min_score: MinScore = 0.7,
    model: Model = None,
    size: Size = None,
    backend: Backend = None,
    device: Device = None,
    photos: MovedPhotos = None,
    json: Json = False,
) -> None:
    """Group copies, crops, bursts and photos of one place.

    Each group says which photo to keep and why. Nothing is deleted or moved.
    The report is JSON with one group per line: duplicates.json, or for an index
    photos.duplicates.json beside photos.solar, where `solar serve` finds it (with
    --new photos.duplicates-new.json). Run it again to resume.
    """
    from solar.cli.skip_report import default_place, described_photos, how_to_look
    from solar.duplicates import find as job
    from solar.duplicates.report import COPIES
    from solar.index.sources import working_folder

    wanted = tuple(kind.strip() for kind in kinds.split(",") if kind.strip())
    settings = job.DuplicateSettings(wanted, k, 0.7 if min_score is None else min_score, new)
    job.refuse_new(source, settings)
    output = output or default_place(source, "duplicates-new" if new else "duplicates")
    refuse_places({"the report": output, "the table": csv, "the page": html})
    if json and listed:
        raise SolarError("--json and --print both go to standard output: choose one.")
    describing: dict[str, Any] = {"model": model, "size": size, "device": device}
    describing["backend"] = backend
    with printing.warnings_as_sentences(), working_folder(output) as work:
        found = described_photos(source, work, **describing)
        with printing.steps() as progress:
            report = job.duplicates(found, settings, photos=photos, work=work, progress=progress)
            report = report.write(output)
    if csv is not None:
        report.write_csv(csv)
    if html is not None:
        from solar.web.duplicates_page import write_duplicates_page

        write_duplicates_page(html, report)
    if json:
        printing.print_json(
            [
                {
                    "kind": group.kind,
                    "photos": [photo.name for photo in group.photos],
                    "keep": group.keep if group.kind in COPIES else None,
                }
                for group in report
            ]
        )
        return
    counts, rest = Counter[str](), 0
    for group in report:
        counts[group.kind] += 1
        rest += len(group.rest)
    told = ", ".join(f"{counts[kind]:,} {kind}" for kind in wanted if counts[kind]) or "none"
    lines = [f"Groups: {told}; {rest:,} of {report.photos:,} photos are copies or crops → {output}"]
    lines += [f"{what} → {file}" for what, file in (("Table", csv), ("Page", html)) if file]
    if counts and (look := how_to_look(source, "duplicates", output)):
        lines.append(look)
    for line in lines:
        printing.say(line, to=None if listed else printing.output())
    if listed:
        end = "\0" if null else "\n"
        for group in report:
            for name in getattr(group, listed) if group.kind in COPIES else ():
                typer.echo((report.roots.absolute(name) or name) + end, nl=False)
