"""`solar extract`: photos to a store of descriptors."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solar.cli.options import (
    Backend,
    Compress,
    Device,
    Follow,
    IgnoreOrientation,
    Json,
    MaxPixels,
    Model,
    OptionalOutput,
    Report,
    Scales,
    Size,
    SkipBad,
    is_half,
    parse_scales,
)
from solar.defaults import BATCH, SHARD_SIZE
from solar.errors import SolarError
from solar.weights import DEFAULT

if TYPE_CHECKING:
    from solar.describe import Store
    from solar.index import Index

EXAMPLE = "Example: solar extract photos/ -o photos.store"
_KINDS = {"parquet": "Parquet file", "h5": ".h5 file"}
# What goes with a store or an index, whose photos are described already.
_EXPORTING = {"source", "parquet", "h5", "json"}


def extract(
    context: typer.Context,
    source: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE",
            help="Photos, or folders, .txt lists or .tar shards of photos; with --parquet or --h5 "
            "also a store or an index.",
        ),
    ],
    output: OptionalOutput = None,
    parquet: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write path, embedding, size and hash of every photo to this Parquet file.",
        ),
    ] = None,
    h5: Annotated[
        Path | None,
        typer.Option(
            "--h5", metavar="FILE", help="Also write global features as hloc reads them (.h5)."
        ),
    ] = None,
    model: Model = None,
    size: Size = None,
    scales: Scales = None,
    fast: Annotated[
        bool | None,
        typer.Option(
            "--fast/--exact",
            help="Decode JPEGs on the GPU; on a CPU decode large ones at reduced size.",
        ),
    ] = None,
    ignore_orientation: IgnoreOrientation = False,
    compress: Compress = None,
    shard_size: Annotated[
        int | None, typer.Option(min=1, help=f"Photos per shard; default: {SHARD_SIZE}.")
    ] = None,
    device: Device = None,
    backend: Backend = None,
    max_pixels: MaxPixels = None,
    follow: Follow = True,
    decoders: Annotated[
        int | None, typer.Option(min=0, help="Number of decoding threads; default: automatic.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Maximum batch size.")] = BATCH,
    scheduler: Annotated[
        str | None, typer.Option(help="Compute on a Dask cluster: tcp://host:8786.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Compute on this many local Dask workers.")
    ] = None,
    skip_bad: SkipBad = True,
    report: Report = None,
    json: Json = False,
) -> None:
    """Compute embeddings of a collection in a store; run it again to resume.

    With --parquet or --h5, the store is written beside that file unless -o names
    it. Also run it again after adding, changing or removing photos: only new
    content is processed. A store or an index is exported as it is. With --strict,
    the exit code is 1 if a photo was skipped.
    """
    from time import perf_counter

    from solar import describe
    from solar.cli.printing import photo_progress, print_json
    from solar.cli.skip_report import print_summary, write_report
    from solar.images import find_sources
    from solar.images.known_roots import confirm

    exports = {"parquet": parquet, "h5": h5}
    files = {kind: file for kind, file in exports.items() if file is not None}
    if files and _export(context, source, files, json):
        return
    output = _store_place(output, files)
    photos = find_sources(source, follow=follow)
    start = perf_counter()
    with photo_progress() as shown:
        store = describe.extract(
            photos,
            output,
            model=model or DEFAULT,
            size=size,
            scales=parse_scales(scales),
            orient=not ignore_orientation,
            mode=None if fast is None else "fast" if fast else "exact",
            dtype="float16" if is_half(compress) else "float32",
            shard_size=shard_size,
            device=device,
            backend=backend or "torch",
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
        "described_now": shown.done,
        "seconds": round(seconds, 3),
        "photos_per_second": round(shown.done / seconds, 3),
    }
    rate = f", {summary['photos_per_second']:.1f} photos/s" if shown.done else ""
    print_summary("Described", len(store), skipped, where=f"{output}{rate}")
    for kind, file in files.items():
        _write(store, kind, file)
        summary[kind] = str(file)
    if json:
        print_json(summary)
    if report is not None:
        write_report(report, len(store), skipped, "Described", store=str(output))
    if skipped and not skip_bad:
        raise typer.Exit(1)


def _store_place(output: Path | None, files: Mapping[str, Path]) -> Path:
    """Where the store is written: beside the first file if -o does not say, and to none of them."""
    if output is None:
        if not files:
            raise SolarError("Name the store to write: -o photos.store.")
        output = next(iter(files.values())).with_suffix(".store")
    taken = {output: "store"}
    for kind, file in files.items():
        if file in taken:
            raise SolarError(
                f"{file} cannot be both {taken[file]} and {_KINDS[kind]}: give two paths."
            )
        taken[file] = _KINDS[kind]
    return output


def _export(
    context: typer.Context, source: list[Path], files: Mapping[str, Path], json: bool
) -> bool:
    """Write what a store or an index holds, if that is the source."""
    from solar.cli.printing import print_json
    from solar.index.embeddings import open_described
    from solar.index.exchange import check_h5_target, check_parquet_target

    for kind, file in files.items():
        (check_parquet_target if kind == "parquet" else check_h5_target)(file)
    opened = open_described(source[0]) if len(source) == 1 else None
    if opened is None:
        return False
    for option in sorted(context.params.keys() - _EXPORTING):
        if (given := context.get_parameter_source(option)) and given.name == "COMMANDLINE":
            name = option.replace("_", "-")
            raise SolarError(f"{source[0]} already holds embeddings: leave out --{name}.")
    with opened as described:
        rows = [_write(described, kind, file) for kind, file in files.items()]
    if json:
        named = {kind: str(file) for kind, file in files.items()}
        print_json({"source": str(source[0]), **named, "described": rows[0]})
    return True


def _write(described: "Store | Index", kind: str, file: Path) -> int:
    from solar.cli.printing import say, steps
    from solar.index.exchange import write_h5, write_parquet

    write = write_parquet if kind == "parquet" else write_h5
    with steps() as progress:
        rows = write(described, file, progress=progress)
    say(f"Wrote {rows:,} row{'s'[: rows != 1]} → {file}")
    return rows
