"""`solar groups`: albums of photos that show the same place."""

from typing import Annotated, Any

import typer

from solar.cli import printing
from solar.cli.options import (
    Backend,
    CollectionSource,
    Csv,
    Device,
    Inliers,
    Json,
    MinScore,
    Model,
    MovedPhotos,
    Nearest,
    OptionalOutput,
    Size,
)
from solar.files import refuse_places

EXAMPLE = "Example: solar groups photos.solar --csv albums.csv"


def groups(
    source: CollectionSource,
    output: OptionalOutput = None,
    csv: Csv = None,
    k: Nearest = 20,
    min_score: MinScore = None,
    inliers: Inliers = 8,
    support: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Share of the smaller group's photos that must match the other group, to join the "
            "two.",
        ),
    ] = 0.5,
    model: Model = None,
    size: Size = None,
    backend: Backend = None,
    device: Device = None,
    photos: MovedPhotos = None,
    json: Json = False,
) -> None:
    """Group photos of the same place into albums.

    Embeddings select candidate pairs; matching keypoints decide. The first
    photo of a group is its cover. The groups are JSON with one group per line:
    groups.json, or for an index photos.groups.json beside photos.solar, where
    `solar serve` finds it. Run it again to resume.
    """
    from solar.albums import groups as job
    from solar.cli.skip_report import default_place, described_photos, how_to_look
    from solar.index.sources import working_folder

    settings = job.GroupSettings(k, min_score, inliers or 8, support, device)
    output = output or default_place(source, "groups")
    refuse_places({"the groups": output, "the table": csv})
    describing: dict[str, Any] = {"model": model, "size": size, "backend": backend}
    with printing.warnings_as_sentences(), working_folder(output) as work:
        found = described_photos(source, work, device=device, **describing)
        with printing.steps() as progress:
            report = job.groups(found, settings, photos=photos, work=work, progress=progress)
            report = report.write(output)
    if csv is not None:
        report.write_csv(csv)
    if json:
        printing.print_json(
            [
                {"cover": group.cover, "photos": group.names, "agreement": group.agreement}
                for group in report
            ]
        )
        return
    sizes = [len(group.photos) for group in report]
    said = "1 group" if len(sizes) == 1 else f"{len(sizes):,} groups"
    lines = [f"{said} with {sum(sizes):,} of {report.photos:,} photos → {output}"]
    if csv is not None:
        lines.append(f"Table → {csv}")
    if sizes and (look := how_to_look(source, "groups", output)):
        lines.append(look)
    for line in lines:
        printing.say(line, to=printing.output())
