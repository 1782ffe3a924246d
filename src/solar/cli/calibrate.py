"""`solar calibrate`: probabilities for one's own photos."""

from pathlib import Path
from typing import Annotated

import typer

from solar.cli import options, printing
from solar.cli.progress import steps

EXAMPLE = "Example: solar calibrate photos.solar --labels places.csv"


def calibrate(
    index: options.IndexAddress,
    labels: Path | None = None,
    samples: Annotated[int, typer.Option(min=1)] = 200,
    json: options.Json = False,
) -> None:
    """Fit probabilities to photos whose place is known.

    Some of the labelled photos are searched for, and the probabilities of
    later searches of this index follow from how often results are right.

    Options:
        labels: Labels: a CSV of name,label, or a JSON object of names and labels; default: folder
            names.
        samples: How many labelled photos to search for, at most.
    """
    from solar.datasets.labelled.photo_labels import folder_labels, read_labels
    from solar.index import Index
    from solar.index.calibrate import calibrate as job

    with Index.open(index) as opened, printing.warnings_as_sentences(), steps() as progress:
        if labels is None:
            names = list(opened.paths)
            known = dict(zip(names, folder_labels(names, index), strict=True))
        else:
            known = read_labels(labels)
        report = job(opened, known, queries=samples, progress=progress)
    if json:
        facts = {"queries": report.queries, "places": report.places, "errors": report.errors}
        printing.print_json({**facts, **vars(report.calibration)})
        return
    ten, fifty = report.errors.values()
    printing.show(
        f"Calibrated with {report.queries:,} photos of {report.places:,} places → {report.path}"
    )
    printing.show(f"Calibration error on places left out: {ten:.3f} (best 10), {fifty:.3f} (50).")
