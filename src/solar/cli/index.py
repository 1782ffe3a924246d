"""`solar index`: make and change an index of photos."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solar.cli import options, printing
from solar.cli.help import Commands
from solar.cli.progress import photo_progress, steps
from solar.defaults import BATCH
from solar.errors import SolarError

if TYPE_CHECKING:
    from solar.index.build import BuiltIndex
    from solar.index.ingest import Changes
    from solar.index.photo_index import PhotoIndex


app = Commands(help="Build, update and inspect an index of photos.")

Sources = Annotated[
    list[Path],
    typer.Argument(
        metavar="SOURCE",
        help="Photos, or folders, .txt lists or .tar shards of photos.",
    ),
]
Metadata = Annotated[
    Path | None,
    typer.Option(
        help='JSON Lines file: {"path": …, "tags": [ … ], "taken": …, "position": [ … ]}, and any '
        'further fields of your own, such as "color": "red".'
    ),
]


# Parameters of `build` for either method alone.
_ASMK = ("features", "words", "codebook", "train_on")
_GLOBAL = (
    *("model", "size", "scales", "fast", "ignore_orientation", "compress", "device", "backend"),
    *("max_pixels", "keypoints", "decoders", "batch", "scheduler", "workers"),
    *("thorough", "timing"),
)

THOROUGH = "1,1.4142135623730951,2"
"""The scales that find photos best of those in docs/performance.md."""

_LONG = 30.0  # seconds after which a build says where they went


@app.command(epilog="Example: solar index build photos/ -o photos.solar")
def build(
    context: typer.Context,
    sources: Sources,
    output: options.IndexOutput,
    model: options.Model = None,
    size: options.Size = None,
    scales: options.Scales = None,
    fast: Annotated[bool | None, typer.Option("--fast/--exact")] = None,
    ignore_orientation: options.IgnoreOrientation = False,
    compress: options.Compress = None,
    device: options.Device = None,
    backend: options.Backend = None,
    max_pixels: options.MaxPixels = None,
    decoders: Annotated[int | None, typer.Option(min=0)] = None,
    batch: Annotated[int, typer.Option(min=1)] = BATCH,
    scheduler: str | None = None,
    workers: Annotated[int | None, typer.Option(min=1)] = None,
    follow: options.Follow = True,
    skip_bad: options.SkipBad = True,
    report: options.Report = None,
    json: options.Json = False,
    metadata: Metadata = None,
    keypoints: Annotated[bool, typer.Option("--precompute-keypoints")] = False,
    thorough: bool = False,
    timing: bool = False,
    method: options.Method = "global",
    features: options.LocalFeatures = None,
    words: Annotated[int | None, typer.Option(min=1)] = None,
    codebook: options.Codebook = None,
    train_on: Path | None = None,
) -> None:
    """Build an index of photos; run it again to resume if interrupted.

    Files that cannot be indexed are skipped and listed with the reason. With
    --strict, the exit code is 1 if there are any.

    Options:
        fast: Decode JPEGs on the GPU; on a CPU decode large ones at reduced size.
        decoders: Number of decoding threads; default: automatic.
        batch: Maximum batch size.
        scheduler: Compute on a Dask cluster: tcp://host:8786.
        workers: Compute on this many local Dask workers.
        keypoints: Compute the keypoints of all photos now, up to 136 kB each; otherwise searches
            compute them when a photo is first matched.
        thorough: Describe at scales 1, 1.41 and 2, which find more; searches take them, too.
        timing: Print where the time went; otherwise only if it was more than 30 seconds.
        words: For ASMK: number of visual words to learn.
        train_on: For ASMK: learn the visual words from these photos instead.
    """
    from solar.describe import Throughput
    from solar.describe.progress import taken
    from solar.index.build import build_index

    known: dict[str, Any] = {"metadata": metadata, "follow": follow}
    with photo_progress() as shown, printing.warnings_as_sentences():
        known["progress"] = shown
        if method == "asmk":
            if option := options.first_given(context, _GLOBAL):
                raise SolarError(
                    f"{option} is for one embedding per photo: leave it out with --method asmk."
                )
            from solar.asmk import build as asmk_build
            from solar.asmk.build import AsmkSettings

            asked = AsmkSettings(features, words, codebook, train_on)
            built = asmk_build.build(sources, output, asked, **known)
        else:
            if option := options.first_given(context, _ASMK):
                raise SolarError(f"{option} needs --method asmk.")
            describing = {
                "size": size,
                "scales": options.parse_scales(THOROUGH if thorough else scales),
                "orient": not ignore_orientation,
                "mode": None if fast is None else "fast" if fast else "exact",
                "device": device,
                "backend": backend,
                "max_pixels": max_pixels,
                "throughput": Throughput(decoders, batch),
                "scheduler": scheduler,
                "workers": workers,
            }
            known |= _compression(output, compress)
            built = build_index(sources, output, model=model, describing=describing, **known)
    if keypoints:
        _keep_keypoints(output)
    _report(built, output, report, json=json, now=shown.done)
    _print_timing(taken(), always=timing)
    if built.skipped and not skip_bad:
        raise typer.Exit(1)


def _opened(address: str) -> "PhotoIndex":
    from solar.index import Index

    return Index.open(address)


def _print_timing(seconds: dict[str, float], *, always: bool) -> None:
    if seconds and (always or sum(seconds.values()) > _LONG):
        parts = ", ".join(f"{what} {took:.1f} s" for what, took in seconds.items())
        printing.say(f"Time by what was done, partly at once: {parts}.")


def _keep_keypoints(output: str) -> None:
    from solar.ranking.verify import find_features

    with _opened(output) as opened, steps() as shown:
        for done, _ in enumerate(find_features(opened.engine), 1):
            shown("Finding keypoints", done, len(opened))


@app.command(epilog="Example: solar index add photos.solar new/")
def add(
    index: options.IndexAddress,
    sources: Sources,
    new: Annotated[bool, typer.Option("--skip-known")] = False,
    skip_copies: bool = False,
    device: options.Device = None,
    max_pixels: options.MaxPixels = None,
    follow: options.Follow = True,
    report: options.Report = None,
    metadata: Metadata = None,
) -> None:
    """Add photos, or replace changed ones.

    A new folder becomes part of the index: `solar index sync` then covers it.

    Options:
        new: Skip photos whose path is in the index already.
        skip_copies: Skip copies and crops of photos in the index.
    """
    from solar.index.add import add
    from solar.near_duplicates.copy_lookup import without_copies

    with photo_progress() as shown, printing.warnings_as_sentences():
        built = add(
            sources,
            index,
            new=new,
            leave_out=without_copies if skip_copies else None,
            metadata=metadata,
            progress=shown,
            follow=follow,
            describing={"device": device, "max_pixels": max_pixels},
        )
    _report(built, index, report)


@app.command(epilog="Example: solar index sync photos.solar --dry-run")
def sync(
    index: options.IndexAddress,
    dry_run: bool = False,
    watch: bool = False,
    every: Annotated[float, typer.Option(min=0.1)] = 10.0,
    force: bool = False,
    exif: bool = False,
    device: options.Device = None,
    max_pixels: options.MaxPixels = None,
    follow: options.Follow = True,
    report: options.Report = None,
    json: options.Json = False,
) -> None:
    """Update an index: new, changed, moved and deleted photos.

    Options:
        dry_run: Only print what would be done.
        watch: Keep watching until Ctrl-C.
        every: With --watch: seconds between checks.
        force: Also remove the photos of a folder that is empty or missing.
        exif: Also read time, position and camera of photos indexed without them.
    """
    from solar.index.ingest import Changes
    from solar.index.sync import sync as bring_up_to_date

    if watch and dry_run:
        raise SolarError("--dry-run checks once: leave out --watch.")

    def look(exif: bool = False) -> Changes:
        with photo_progress() as shown:
            return bring_up_to_date(
                index,
                dry_run=dry_run,
                force=force,
                follow=follow,
                exif=exif,
                progress=shown,
                device=device,
                max_pixels=max_pixels,
            )

    def tell(changes: Changes) -> None:
        if json:
            printing.print_json(changes.to_dict())
            return
        printing.say(f"{'Would change' if dry_run else 'Updated'}: {changes}")
        if dry_run:
            _list(changes)
        printing.print_skipped(changes.skipped)

    changes = look(exif)  # once is enough: EXIF of later photos is read when they are added
    tell(changes)
    facts = {name: value for name, value in changes.to_dict().items() if name != "skipped"}
    printing.write_report(report, len(changes.new) + len(changes.changed), changes.skipped, **facts)
    if watch:
        _watch(look, tell, every)


@app.command(epilog="Example: solar index relocate photos.solar /mnt/disk/photos")
def relocate(
    index: options.IndexAddress,
    place: Annotated[Path, typer.Argument(metavar="FOLDER")],
    root: Annotated[str | None, typer.Option("--from")] = None,
) -> None:
    """Tell an index that a folder has moved; nothing is recomputed.

    Options:
        place: New path of the folder.
        root: Old path of the folder that moved, if the index has several folders.
    """
    from solar.index.sync import relocate as move

    with _opened(index) as opened:
        moved, count, here = move(opened, place, root)
    printing.say(f"{here:,} of {count:,} photos are in {moved.path}.")


@app.command(epilog="Example: solar index remove photos.solar rome/12.jpg")
def remove(
    index: options.IndexAddress,
    photos: Annotated[list[str], typer.Argument(metavar="PHOTO")],
) -> None:
    """Remove the named photos from an index for good: all of them or none.

    Files stay, and later updates leave them out; `solar index restore` lets them in again.

    Options:
        photos: Paths in the index.
    """
    with _opened(index) as opened:
        count = opened.remove(photos)
        printing.say(f"Removed {printing.counted(count, 'photo')}; {len(opened):,} left.")


@app.command(epilog="Example: solar index restore photos.solar rome/12.jpg")
def restore(
    index: options.IndexAddress,
    photos: Annotated[list[str] | None, typer.Argument(metavar="PHOTO")] = None,
    json: options.Json = False,
) -> None:
    """List the photos that were removed by hand, or let some in again.

    Options:
        photos: Their paths; the next `solar index sync` indexes them.
    """
    with _opened(index) as opened:
        if photos:
            opened.restore(photos)
        removed = opened.removed
    if json:
        printing.print_json(removed)
    elif photos:
        count = printing.counted(len(photos), "photo")
        printing.say(f"Restored {count}: the next `solar index sync` indexes them.")
    else:
        for path in removed:
            printing.show(path)


@app.command(epilog="Example: solar index info photos.solar --json")
def info(index: options.IndexAddress, json: options.Json = False) -> None:
    """Show what an index contains and how it was made."""
    with _opened(index) as opened:
        facts = opened.info()
    if json:
        printing.print_json(facts)
        return
    printing.print_table([(name.replace("_", " "), _shown(value)) for name, value in facts.items()])


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{name} {_shown(own)}" for name, own in value.items()) or "–"
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value)) or "–"
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


@app.command(epilog="Example: solar index check photos.solar")
def check(index: options.IndexAddress) -> None:
    """Recompute every checksum; exit code 1 if anything is wrong."""
    with _opened(index) as opened:
        problems, count = opened.check(), len(opened)
    for problem in problems:
        printing.say(problem, "red")
    if problems:
        raise typer.Exit(1)
    printing.say(f"{count:,} photos, no errors found.")


@app.command(epilog="Example: solar index compact photos.solar")
def compact(index: options.IndexAddress) -> None:
    """Reclaim space from removed and changed photos and rebuild the search index."""
    with _opened(index) as opened:
        unused = printing.counted(opened.info().get("unused_rows", 0), "unused row")
        opened.compact()
        printing.say(f"Compacted {index}: {len(opened):,} photos; {unused} reclaimed.")


@app.command(epilog="Example: solar index copy photos.solar milvus://localhost:19530/photos")
def copy(
    index: options.IndexAddress,
    destination: Annotated[str, typer.Argument(metavar="NEW")],
    compress: options.Compress = None,
) -> None:
    """Copy an index to another engine, or with another --compress than it has.

    Options:
        destination: The new index.
    """
    with _opened(index) as opened:
        engine = _compression(destination, compress, opened.info().get("compress", "none"))
        with opened.copy(destination, **engine) as copied:
            printing.say(f"{len(copied)} photos → {destination}")


@app.command(epilog="Example: solar index export photos.solar --parquet photos.parquet")
def export(
    index: options.IndexAddress,
    parquet: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    h5: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    npy: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
) -> None:
    """Write the embeddings of an index for other tools.

    Options:
        parquet: Path, embedding, size and hash of every photo.
        h5: Global features as hloc reads them.
        npy: Embeddings as float32 (n, dim); their paths, one per line, in a .txt beside it.
    """
    from solar.files import refuse_places
    from solar.index import exchange

    written = {
        "the Parquet file": (parquet, exchange.write_parquet),
        "the .h5 file": (h5, exchange.write_h5),
        "the .npy file": (npy, exchange.write_npy),
    }
    refuse_places({what: file for what, (file, _) in written.items()})
    if parquet is h5 is npy is None:
        raise SolarError("Name a file to write: --parquet, --h5 or --npy.")
    with _opened(index) as opened:
        for file, write in written.values():
            if file is not None:
                with steps() as shown:
                    rows = write(opened, file, progress=shown)
                printing.say(f"Wrote {printing.counted(rows, 'row')} → {file}")


@app.command("map", epilog="Example: solar index map photos.solar -o map.png")
def draw_map(
    index: options.IndexAddress,
    output: options.OptionalOutput = None,
    photos: options.ServedPhotos = None,
    roots: options.AllowedRoots = None,
    seed: options.Seed = 0,
    side: Annotated[int, typer.Option(min=200, max=20000)] = 2000,
    json: options.Json = False,
) -> None:
    """Draw a 2-D map of all photos, similar ones close together.

    -o writes a .png, .jpg or .webp of thumbnails, --json prints positions.

    Options:
        side: Width of the picture in pixels.
    """
    from solar.images import Roots
    from solar.images.known_roots import shown_roots
    from solar.show.collection_map import choose_method, draw_map, map_index
    from solar.storage.protocol import NoVectorsError

    if output is None and not json:
        raise SolarError("Name the picture to write with -o map.png, or use --json.")
    printing.check_suffix(output)
    with _opened(index) as opened:
        if not opened.has_vectors:
            raise NoVectorsError
        allowed = Roots()
        if output is not None:
            allowed = shown_roots(opened.place, opened.roots, photos=photos, given=roots or [])
        if reason := choose_method(len(opened))[1]:
            printing.say(reason)
        with printing.errors().status("Arranging"):
            found = map_index(opened, seed=seed)
    if output is not None:
        picture, shown = draw_map(found, allowed.find, side=side)
        printing.save_image(picture, output)
        if shown < len(found.paths):
            printing.say(f"{shown} of {len(found.paths)} photos fit on the map.")
    if json:
        places = zip(found.paths, found.points.tolist(), strict=True)
        printing.print_json([{"path": path, "x": x, "y": y} for path, (x, y) in places])


def _watch(look: "Callable[[], Changes]", tell: "Callable[[Changes], None]", every: float) -> None:
    import time

    printing.say(f"Checking every {every:g} s; press Ctrl-C to stop.")
    complaint = ""
    try:
        while True:
            time.sleep(every)
            try:
                changes = look()
            except SolarError as error:  # may pass: a disconnected disk, another writer
                if str(error) != complaint:
                    printing.say(str(error), "yellow")
                complaint = str(error)
                continue
            complaint = ""
            if changes:
                tell(changes)
    except KeyboardInterrupt:
        printing.say("Stopped.")


def _list(changes: "Changes", most: int = 10) -> None:
    lines = [
        *(f"+ {name}" for name in changes.new),
        *(f"~ {name}" for name in changes.changed),
        *(f"> {old} → {new}" for old, new in changes.moved.items()),
        *(f"- {name}" for name in changes.deleted),
    ]
    for line in lines[:most]:
        printing.say(f"  {line}")
    if len(lines) > most:
        printing.say(f"  … and {len(lines) - most:,} more: --json lists them all.")


def _report(
    built: "BuiltIndex", index: str, report: Path | None, *, json: bool = False, now: int = 0
) -> None:
    count = len(built.index)
    built.index.close()
    if json:
        facts = {"photos": count, "skipped": len(built.skipped), "processed_now": now}
        printing.print_json({"index": index, **facts})
    printing.print_summary("Indexed", built.photos, built.skipped, where=index)
    if built.previews:
        files = printing.counted(built.previews, "RAW file")
        printing.say(f"{files} indexed by the JPEG preview inside.")
    if built.photos != count:
        printing.say(f"{index} holds {count:,} photos.")
    printing.write_report(report, built.photos, built.skipped, index=index, photos=count)


def _compression(address: str, asked: str | None, otherwise: str = "none") -> dict[str, str]:
    """The compression of an index in a folder; an address of Milvus names its own."""
    from solar.index.index import is_folder

    if is_folder(address):
        return {"compress": asked or otherwise}
    if asked:
        raise SolarError(
            "--compress is for an index in a folder: for Milvus, name the index type in the "
            "address, as in milvus://…?index=HNSW."
        )
    return {}
