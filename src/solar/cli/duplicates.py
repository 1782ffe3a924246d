"""`solar duplicates`: the same photo, the same moment, the same place."""

from collections import Counter
from typing import Annotated, Literal

import typer

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
    words,
)
from solar.cli.printing import (
    default_place,
    described_photos,
    how_to_look,
    print_json,
    say,
    show,
    warnings_as_sentences,
)
from solar.cli.progress import steps
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
    from solar.duplicates import find as job
    from solar.duplicates.report import COPIES
    from solar.index.build import working_folder

    wanted = words(kinds)
    assert min_score is not None
    settings = job.DuplicateSettings(wanted, k, min_score, new)
    job.refuse_new(source, settings)
    output = output or default_place(source, "duplicates-new" if new else "duplicates")
    refuse_places({"the report": output, "the table": csv, "the page": html})
    if json and listed:
        raise SolarError("--json and --print both go to standard output: choose one.")
    with warnings_as_sentences(), working_folder(output) as work:
        found = described_photos(
            source, work, model=model, size=size, backend=backend, device=device
        )
        with steps() as progress:
            report = job.duplicates(found, settings, photos=photos, work=work, progress=progress)
            report = report.write(output)
    if csv is not None:
        report.write_csv(csv)
    if html is not None:
        from solar.web.duplicates_page import write_duplicates_page

        write_duplicates_page(html, report)
    if json:
        rows = []
        for group in report:
            keep = group.keep if group.kind in COPIES else None
            names = [photo.name for photo in group.photos]
            rows.append({"kind": group.kind, "photos": names, "keep": keep})
        print_json(rows)
        return
    counts = Counter(group.kind for group in report)
    rest = sum(len(group.rest) for group in report)
    shown = ", ".join(f"{counts[kind]:,} {kind}" for kind in wanted if counts[kind]) or "none"
    lines = [
        f"Groups: {shown}; {rest:,} of {report.photos:,} photos are copies or crops → {output}"
    ]
    lines += [f"{what} → {file}" for what, file in (("Table", csv), ("Page", html)) if file]
    if counts and (look := how_to_look(source, "duplicates", output)):
        lines.append(look)
    for line in lines:
        (say if listed else show)(line)
    if listed:
        end = "\0" if null else "\n"
        for group in report:
            for name in getattr(group, listed) if group.kind in COPIES else ():
                typer.echo((report.roots.absolute(name) or name) + end, nl=False)
