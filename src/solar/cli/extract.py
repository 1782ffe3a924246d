"""`solar extract`: photos to a store of descriptors."""

from pathlib import Path
from typing import Annotated

import typer

from solar.cli.options import Device, IgnoreOrientation, Json, Model, Scales, Size
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
    half: Annotated[bool, typer.Option("--half", help="Store float16, half the size.")] = False,
    shard_size: Annotated[int, typer.Option(min=1, help="Photos per shard.")] = SHARD_SIZE,
    device: Device = None,
    backend: Annotated[
        str,
        typer.Option(help="On a CPU: torch, onnxruntime or openvino, these two also with -int8."),
    ] = "torch",
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
        bool, typer.Option("--strict", help="Exit with 1 if a photo could not be read.")
    ] = False,
    json: Json = False,
) -> None:
    """Describe a whole collection; run it again to go on after a stop."""
    from time import perf_counter

    from solar import describe
    from solar.cli.describe import parse_scales
    from solar.cli.printing import errors, photo_progress, print_json
    from solar.images import find_photos

    photos = find_photos(source)
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
            throughput=describe.Throughput(decoders, batch),
            scheduler=scheduler,
            workers=workers,
            progress=shown.advance,
        )
    seconds = perf_counter() - start
    summary = {
        "store": str(output),
        "photos": len(photos),
        "described": len(store),
        "failed": len(store.failures),
        "described_now": shown.described,
        "seconds": round(seconds, 3),
        "photos_per_second": round(shown.described / seconds, 3),
    }
    if json:
        print_json(summary)
    else:
        rate = f", {summary['photos_per_second']:.1f} photos/s" if shown.described else ""
        failed = f", {len(store.failures)} could not be read" if store.failures else ""
        errors().print(f"{len(store)} × {store.dim} → {output}{failed}{rate}")
    for name, reason in list(store.failures.items())[:5]:
        errors().print(f"  {name}: {reason}", markup=False, soft_wrap=True)
    if len(store.failures) > 5:
        errors().print(f"  and {len(store.failures) - 5} more, in the store's failures")
    if strict and store.failures:
        raise typer.Exit(1)
