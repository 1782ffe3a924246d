"""`solar adapt`: fit a model to labelled photos with one linear layer."""

from pathlib import Path
from typing import Annotated, Any

import typer

from solar.cli.options import IndexAddress, Json, Model, Output, Seed

EXAMPLE = "Example: solar adapt photos.solar --labels labels.csv -o mine.safetensors"


def adapt(
    index: IndexAddress,
    output: Output,
    labels: Path | None = None,
    model: Model = None,
    dim: Annotated[int | None, typer.Option(min=1)] = None,
    epochs: Annotated[int | None, typer.Option(min=1)] = None,
    margin: Annotated[float | None, typer.Option(min=0, max=1)] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Fit a model to labelled photos with one linear layer.

    The gain is measured on places that the layer was not trained on. Without
    a significant gain, nothing is written. The adapted model is a .safetensors.

    Options:
        labels: Labels: a CSV of name,label, or a JSON object of names and labels; default: folder
            names.
        dim: Length of the new embeddings; default: at most 512.
        epochs: Number of passes over the photos.
        margin: CosFace margin, subtracted from the cosine of the label.
    """
    from time import perf_counter

    from solar.cli.printing import print_json, say
    from solar.cli.progress import steps
    from solar.training import adaptation as work

    given = {"dim": dim, "epochs": epochs, "margin": margin, "seed": seed}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    start = perf_counter()
    with steps() as progress:
        found = work.adapt(index, labels, output, model=model, progress=progress, **options)
    summary = {"model": str(output), **found.to_dict(), "seconds": perf_counter() - start}
    if json:
        print_json(summary)
        return
    names = ("before", "after", "gain", "low", "high")
    before, after, gain, low, high = (summary[name] for name in names)
    say(
        f"mAP {before:.1f} → {after:.1f} on places it was not trained on ({gain:+.1f}, 95 % "
        f"interval {low:+.1f} to {high:+.1f}, {found.places} places)"
    )
    say(f"Trained on all {found.photos:,} labelled photos → {output}")
