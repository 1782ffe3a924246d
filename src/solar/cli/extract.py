"""`solar extract`: photos to a store of descriptors."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solar.cli import options
from solar.defaults import BATCH, SHARD_SIZE
from solar.errors import SolarError
from solar.weights import DEFAULT

if TYPE_CHECKING:
    from solar.describe import Store
    from solar.index import Index


EXAMPLE = "Example: solar extract photos/ -o photos.store"
_KINDS = {"parquet": "Parquet file", "h5": ".h5 file"}
# Parameters that make sense for a store or an index, whose embeddings exist already.
_EXPORTING = {"source", "parquet", "h5", "json"}


def extract(
    context: typer.Context,
    source: Annotated[list[Path], typer.Argument(metavar="SOURCE")],
    output: options.OptionalOutput = None,
    parquet: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    h5: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    model: options.Model = None,
    size: options.Size = None,
    scales: options.Scales = None,
    fast: Annotated[bool | None, typer.Option("--fast/--exact")] = None,
    ignore_orientation: options.IgnoreOrientation = False,
    compress: options.Compress = None,
    shard_size: Annotated[
        int | None, typer.Option(min=1, help=f"Photos per shard; default: {SHARD_SIZE}.")
    ] = None,
    device: options.Device = None,
    backend: options.Backend = None,
    max_pixels: options.MaxPixels = None,
    follow: options.Follow = True,
    decoders: Annotated[int | None, typer.Option(min=0)] = None,
    batch: Annotated[int, typer.Option(min=1)] = BATCH,
    scheduler: str | None = None,
    workers: Annotated[int | None, typer.Option(min=1)] = None,
    skip_bad: options.SkipBad = True,
    report: options.Report = None,
    json: options.Json = False,
) -> None:
    """Compute the embeddings of photos and keep them in a store.

    Run it again to resume.

    With --parquet or --h5, the store is written beside that file unless -o names
    it. Also run it again after adding, changing or removing photos: only new
    content is processed. A store or an index is exported as it is. With --strict,
    the exit code is 1 if a photo was skipped.

    Options:
        source: Photos, or folders, .txt lists or .tar shards of photos; with --parquet or --h5 also
            a store or an index.
        parquet: Also write path, embedding, size and hash of every photo to this Parquet file.
        h5: Also write global features as hloc reads them (.h5).
        fast: Decode JPEGs on the GPU; on a CPU decode large ones at reduced size.
        decoders: Number of decoding threads; default: automatic.
        batch: Maximum batch size.
        scheduler: Compute on a Dask cluster: tcp://host:8786.
        workers: Compute on this many local Dask workers.
    """
    from time import perf_counter

    from solar import describe
    from solar.cli.printing import print_json, print_summary, write_report
    from solar.cli.progress import photo_progress
    from solar.images import find_photos
    from solar.images.known_roots import confirm

    exports = {"parquet": parquet, "h5": h5}
    files = {kind: file for kind, file in exports.items() if file is not None}
    if files and _export(context, source, files, json):
        return
    output = _store_place(output, files)
    photos = find_photos(source, follow=follow)
    start = perf_counter()
    with photo_progress() as shown:
        store = describe.extract(
            photos,
            output,
            model=model or DEFAULT,
            size=size,
            scales=options.parse_scales(scales),
            orient=not ignore_orientation,
            mode=None if fast is None else "fast" if fast else "exact",
            dtype="float16" if options.is_half(compress) else "float32",
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
        "processed_now": shown.done,
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
    write_report(report, len(store), skipped, "described", store=str(output))
    if skipped and not skip_bad:
        raise typer.Exit(1)


def _store_place(output: Path | None, files: Mapping[str, Path]) -> Path:
    """The path of the store, by default beside the first file, and different from all of them."""
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
    """Write the embeddings of a store or an index, if the source is one."""
    from solar.cli.printing import print_json
    from solar.index.embeddings import open_described
    from solar.index.exchange import check_h5_target, check_parquet_target

    for kind, file in files.items():
        (check_parquet_target if kind == "parquet" else check_h5_target)(file)
    opened = open_described(source[0]) if len(source) == 1 else None
    if opened is None:
        return False
    if option := options.first_given(context, context.params.keys() - _EXPORTING):
        raise SolarError(f"{source[0]} already holds embeddings: leave out {option}.")
    with opened as described:
        rows = [_write(described, kind, file) for kind, file in files.items()]
    if json:
        named = {kind: str(file) for kind, file in files.items()}
        print_json({"source": str(source[0]), **named, "described": rows[0]})
    return True


def _write(described: "Store | Index", kind: str, file: Path) -> int:
    from solar.cli.printing import counted, say
    from solar.cli.progress import steps
    from solar.index.exchange import write_h5, write_parquet

    write = write_parquet if kind == "parquet" else write_h5
    with steps() as progress:
        rows = write(described, file, progress=progress)
    say(f"Wrote {counted(rows, 'row')} → {file}")
    return rows
