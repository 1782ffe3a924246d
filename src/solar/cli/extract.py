"""`solar extract`: photos to a store of descriptors."""

from pathlib import Path
from typing import Annotated

import typer

from solar.cli.options import (
    Backend,
    Device,
    Follow,
    Half,
    IgnoreOrientation,
    Json,
    MaxPixels,
    Model,
    Report,
    Scales,
    Size,
)
from solar.defaults import BATCH, SHARD_SIZE
from solar.weights import DEFAULT

EXAMPLE = "Example: solar extract photos/ -o photos.store"


def extract(
    source: Annotated[
        list[Path], typer.Argument(help="Folders, .txt lists of paths, .tar shards, or photos.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The store's folder.")],
    model: Model = DEFAULT,
    size: Size = None,
    scales: Scales = None,
    fast: Annotated[
        bool, typer.Option("--fast", help="Decode large JPEGs at a fraction of their size.")
    ] = False,
    ignore_orientation: IgnoreOrientation = False,
    half: Half = False,
    shard_size: Annotated[
        int | None, typer.Option(min=1, help=f"Photos per shard; {SHARD_SIZE} if not given.")
    ] = None,
    device: Device = None,
    backend: Backend = "torch",
    max_pixels: MaxPixels = None,
    follow: Follow = True,
    decoders: Annotated[
        int | None, typer.Option(min=0, help="Threads that decode; default: by the machine.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Photos per forward pass, at most.")] = BATCH,
    scheduler: Annotated[
        str | None, typer.Option(help="Describe on a Dask cluster: tcp://host:8786.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Describe on this many local Dask workers.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if a photo was skipped.")
    ] = False,
    report: Report = None,
    json: Json = False,
) -> None:
    """Describe a whole collection; run it again to go on after a stop.

    Run it again also when photos were added, changed or removed: only what
    is new is described.
    """
    from time import perf_counter

    from solar import describe
    from solar.cli.describe import parse_scales
    from solar.cli.printing import photo_progress, print_json
    from solar.cli.skip_report import print_summary, write_report
    from solar.describe.known_roots import confirm
    from solar.images import find_sources

    photos = find_sources(source, follow=follow)
    start = perf_counter()
    with photo_progress(len(photos)) as shown:
        store = describe.extract(
            photos,
            output,
            model=model,
            size=size,
            scales=None if scales is None else parse_scales(scales),
            orient=not ignore_orientation,
            mode="fast" if fast else "exact",
            dtype="float16" if half else "float32",
            shard_size=shard_size,
            device=device,
            backend=backend,
            max_pixels=max_pixels,
            throughput=describe.Throughput(decoders, batch),
            scheduler=scheduler,
            workers=workers,
            progress=shown,
        )
    confirm(output, photos.roots)
    seconds = perf_counter() - start
    skipped = {**photos.skipped, **store.failures}
    summary = {
        "store": str(output),
        "photos": len(photos),
        "described": len(store),
        "failed": len(store.failures),
        "skipped": len(skipped),
        "described_now": shown.described,
        "seconds": round(seconds, 3),
        "photos_per_second": round(shown.described / seconds, 3),
    }
    if json:
        print_json(summary)
    rate = f", {summary['photos_per_second']:.1f} photos/s" if shown.described else ""
    print_summary("Described", len(store), skipped, where=f"{output}{rate}")
    if report is not None:
        write_report(report, len(store), skipped, "Described", store=str(output))
    if strict and skipped:
        raise typer.Exit(1)
