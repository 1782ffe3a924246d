"""`solar groups`: albums of photos that show the same place."""

from typing import Annotated

import typer

from solar.cli import options, printing
from solar.cli.progress import described_photos, steps
from solar.files import refuse_places

EXAMPLE = "Example: solar groups photos.solar --csv albums.csv"


def groups(
    source: options.CollectionSource,
    output: options.OptionalOutput = None,
    csv: options.Csv = None,
    k: options.Nearest = 20,
    min_score: options.MinScore = None,
    inliers: options.Inliers = None,
    support: Annotated[float, typer.Option(min=0, max=1)] = 0.5,
    model: options.Model = None,
    size: options.Size = None,
    backend: options.Backend = None,
    device: options.Device = None,
    photos: options.MovedPhotos = None,
    json: options.Json = False,
) -> None:
    """Group photos of the same place into albums.

    Embeddings select candidate pairs; matching keypoints decide. The first
    photo of a group is its cover. The groups are JSON with one group per line:
    groups.json, or for an index photos.groups.json beside photos.solar, where
    `solar serve` finds it. Run it again to resume.

    Options:
        support: Share of the smaller group's photos that must match the other group, to join the
            two.
    """
    from solar.albums import groups as job
    from solar.index.sources import working_folder

    settings = job.GroupSettings(k, min_score, inliers, support, device)
    output = output or printing.default_place(source, "groups")
    refuse_places({"the groups": output, "the table": csv})
    with printing.warnings_as_sentences(), working_folder(output) as work:
        found = described_photos(
            source, work, model=model, size=size, backend=backend, device=device
        )
        with steps() as progress:
            report = job.groups(found, settings, photos=photos, work=work, progress=progress)
            report = report.write(output)
    if csv is not None:
        report.write_csv(csv)
    if json:
        rows = [
            {"cover": group.cover, "photos": group.names, "agreement": group.agreement}
            for group in report
        ]
        printing.print_json(rows)
        return
    sizes = [len(group.photos) for group in report]
    named = printing.counted(len(sizes), "group")
    printing.show(f"{named} with {sum(sizes):,} of {report.photos:,} photos → {output}")
    if csv is not None:
        printing.show(f"Table → {csv}")
    if sizes and (look := printing.how_to_look(source, "groups", output)):
        printing.show(look)
