"""`solar demo`: the main job on generated photos, offline."""

import sys
from itertools import product
from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: solar demo --serve"

_SHOWN = 3  # buildings, and views of each, in the table: more columns are hard to read


def demo(
    landmarks: Annotated[int, typer.Option(min=1, max=20, help="Buildings to generate.")] = 6,
    views: Annotated[int, typer.Option(min=1, max=20, help="Photos of each.")] = 4,
    folder: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where the sample goes; the cache if not given."),
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Then open the web app on the sample.")
    ] = False,
) -> None:
    """Index generated photos of a few buildings, and print how similar they are."""
    from solar.cli.printing import output, photo_progress
    from solar.models.zoo import cache_directory
    from solar.web.sample import sample_index

    place = folder or cache_directory() / "demo"
    with photo_progress() as shown:
        index = sample_index(place, landmarks=landmarks, views=views, progress=shown.advance)
    console = output()
    console.print(
        f"{landmarks * views} generated photos of {landmarks} buildings, and how alike some are:\n"
    )
    _print_similarities(index)
    console.print(
        "\nThe network here is ResNet-18 with second-order attention and weights drawn at random: "
        "enough to show that everything runs.\nFor useful similarities load trained weights, "
        "for example `solar describe photo.jpg --model solar-r101 -o photo.npy`.",
        soft_wrap=True,
    )
    if serve:
        from solar.web.serving import serve as run

        run(str(index), port=0, open_browser=sys.stdout.isatty(), say=typer.echo)
    else:
        started = Path(sys.argv[0])
        command = started if started.name == "solar" else "solar"
        console.print(f"\nIn a browser: {command} serve {index} --open", soft_wrap=True)


def _print_similarities(index: Path) -> None:
    """A table of some of the photos in percent."""
    from rich.table import Table

    from solar.cli.printing import output
    from solar.search import Index

    with Index.open(index) as opened:
        photos = list(product(range(_SHOWN), range(_SHOWN)))
        paths = [f"landmark-{landmark:03}/view-{view:03}.jpg" for landmark, view in photos]
        found = opened.engine.lookup(paths)
    rows = {
        f"{landmark}.{view}": found[path][1]
        for (landmark, view), path in zip(photos, paths, strict=True)
        if path in found
    }
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("percent")
    for name in rows:
        table.add_column(name, justify="right")
    for name, row in rows.items():
        table.add_row(name, *(f"{100 * float(row @ other):.1f}" for other in rows.values()))
    output().print(table)
