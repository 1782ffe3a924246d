"""`solar extract`: photos to a store of descriptors."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from solar.errors import SolarError
from solar.weights import DEFAULT

if TYPE_CHECKING:
    from solar.describe import Store
    from solar.search import Index

EXAMPLE = "Example: solar extract photos/ -o photos.store"
# What goes with a store or an index, whose photos are described already.
_EXPORTING = {"source", "parquet", "json"}


def extract(
    context: typer.Context,
    source: Annotated[
        list[Path],
        typer.Argument(
            help="Folders, .txt lists of paths, .tar shards, or photos; with --parquet also a "
            "store or an index."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The store's folder; beside the Parquet file if not given."
        ),
    ] = None,
    parquet: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write path, vector, size and hash of every photo to this Parquet file.",
        ),
    ] = None,
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
    is new is described. A store or an index becomes a Parquet file as it is.
    """
    from time import perf_counter

    from solar import describe
    from solar.cli.describe import parse_scales
    from solar.cli.printing import photo_progress, print_json
    from solar.cli.skip_report import print_summary, write_report
    from solar.describe.known_roots import confirm
    from solar.images import find_sources

    if parquet is not None and _export(context, source, parquet, json):
        return
    if output is None:
        if parquet is None:
            raise SolarError("Name the store to write: -o photos.store.")
        output = parquet.with_suffix(".store")
    if output == parquet:
        raise SolarError(f"{output} cannot be both store and Parquet file: name two.")
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
    summary: dict[str, Any] = {
        "store": str(output),
        "photos": len(photos),
        "described": len(store),
        "failed": len(store.failures),
        "skipped": len(skipped),
        "described_now": shown.described,
        "seconds": round(seconds, 3),
        "photos_per_second": round(shown.described / seconds, 3),
    }
    rate = f", {summary['photos_per_second']:.1f} photos/s" if shown.described else ""
    print_summary("Described", len(store), skipped, where=f"{output}{rate}")
    if parquet is not None:
        _write(store, parquet)
        summary["parquet"] = str(parquet)
    if json:
        print_json(summary)
    if report is not None:
        write_report(report, len(store), skipped, "Described", store=str(output))
    if strict and skipped:
        raise typer.Exit(1)


def _export(context: typer.Context, source: list[Path], parquet: Path, json: bool) -> bool:
    """Write what a store or an index holds, if that is the source."""
    from solar.cli.printing import print_json
    from solar.search.parquet_export import check_target, open_described

    check_target(parquet)
    opened = open_described(source[0]) if len(source) == 1 else None
    if opened is None:
        return False
    for option in sorted(context.params.keys() - _EXPORTING):
        if (given := context.get_parameter_source(option)) and given.name == "COMMANDLINE":
            name = option.replace("_", "-")
            raise SolarError(f"{source[0]} is described already: leave out --{name}.")
    with opened as described:
        rows = _write(described, parquet)
    if json:
        print_json({"source": str(source[0]), "parquet": str(parquet), "described": rows})
    return True


def _write(described: "Store | Index", parquet: Path) -> int:
    from solar.cli.printing import say, steps
    from solar.search.parquet_export import write_parquet

    with steps() as watch:
        rows = write_parquet(
            described, parquet, watch=lambda done, total: watch("Writing", done, total)
        )
    say(f"Wrote {rows:,} row{'s'[: rows != 1]} → {parquet}")
    return rows
