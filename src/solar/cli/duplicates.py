"""`solar duplicates`: copies, crops, bursts and photos of one place."""

from collections import Counter
from typing import Annotated, Literal

import typer

from solar.cli import options, printing
from solar.cli.progress import described_photos, steps
from solar.errors import SolarError
from solar.files import refuse_places

EXAMPLE = "Example: solar duplicates photos.solar --html page.html"
Listed = Literal["keep", "rest"]


def duplicates(
    source: options.CollectionSource,
    output: options.OptionalOutput = None,
    csv: options.Csv = None,
    html: options.Html = None,
    kinds: str = "exact,copy,crop,burst,place",
    new: bool = False,
    keep: Annotated[str, typer.Option(metavar="RULE")] = "evidence",
    listed: Annotated[Listed | None, typer.Option("--print")] = None,
    null: Annotated[bool, typer.Option("--null", "-0")] = False,
    k: options.Nearest = 20,
    min_score: options.MinScore = 0.7,
    model: options.Model = None,
    size: options.Size = None,
    backend: options.Backend = None,
    device: options.Device = None,
    photos: options.MovedPhotos = None,
    json: options.Json = False,
) -> None:
    """Group copies, crops, bursts and photos of one place.

    Each group says which photo to keep and why, or that nothing tells which one.
    Nothing is deleted or moved.
    The report is JSON with one group per line: duplicates.json, or for an index
    photos.duplicates.json beside photos.solar, where `solar serve` finds it (with
    --new photos.duplicates-new.json). Run it again to resume.

    Options:
        kinds: Kinds of groups to report, separated by commas.
        new: Only report photos added to the index since the last report.
        keep: What to keep of copies: by evidence, or first the oldest, the largest, or folder:A,B.
        listed: Print the paths of the photos that may be removed, or of the others, for other
            tools; no report is written without -o.
        null: With --print, end paths with NUL, for xargs -0.
    """
    from solar.index.sources import working_folder
    from solar.near_duplicates import find as job
    from solar.near_duplicates.report import COPIES

    wanted = options.words(kinds)
    assert min_score is not None
    settings = job.DuplicateSettings(wanted, k, min_score, new, keep)
    job.refuse_new(source, settings)
    written = listed is None or output is not None
    output = output or printing.default_place(source, "duplicates-new" if new else "duplicates")
    refuse_places({"the report": output, "the table": csv, "the page": html})
    if json and listed:
        raise SolarError("--json and --print both go to standard output: choose one.")
    with printing.warnings_as_sentences(), working_folder(output) as work:
        found = described_photos(
            source, work, model=model, size=size, backend=backend, device=device
        )
        with steps() as progress:
            report = job.duplicates(found, settings, photos=photos, work=work, progress=progress)
            report = report.write(output) if written else report.held()
    if csv is not None:
        report.write_csv(csv)
    if html is not None:
        from solar.web.duplicates_page import write_duplicates_page

        write_duplicates_page(html, report)
    if json:
        rows = []
        for group in report:
            kept = group.keep if group.kind in COPIES else None
            names = [photo.name for photo in group.photos]
            rows.append({"kind": group.kind, "photos": names, "keep": kept})
        printing.print_json(rows)
        return
    counts = Counter(group.kind for group in report)
    rest = sum(len(group.rest) for group in report)
    shown = ", ".join(f"{counts[kind]:,} {kind}" for kind in wanted if counts[kind]) or "none"
    where = f" → {output}" if written else ""
    lines = [f"Groups: {shown}; {rest:,} of {report.photos:,} photos may be removed{where}"]
    lines += [f"{what} → {file}" for what, file in (("Table", csv), ("Page", html)) if file]
    if counts and written and (look := printing.how_to_look(source, "duplicates", output)):
        lines.append(look)
    for line in lines:
        (printing.say if listed else printing.show)(line)
    if listed:
        end = "\0" if null else "\n"
        for group in report:
            for photo in group.photos if group.kind in COPIES else ():
                if (photo.keep is False) == (listed == "rest"):
                    path = report.roots.absolute(photo.name) or photo.name
                    typer.echo(path + end, nl=False)
