"""`solar index`: make and change an index of photos."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solar.cli import index_upkeep
from solar.cli.help import Commands
from solar.cli.options import (
    AllowedRoots,
    Backend,
    Codebook,
    Compress,
    Device,
    Follow,
    IndexAddress,
    IndexOutput,
    Json,
    LocalFeatures,
    MaxPixels,
    Method,
    Model,
    OptionalOutput,
    Regions,
    Report,
    Seed,
    ServedPhotos,
    Size,
)

if TYPE_CHECKING:
    from solar.index.build import BuiltIndex


app = Commands(help="Build, update and inspect an index of photos.")

Sources = Annotated[
    list[Path],
    typer.Argument(
        metavar="SOURCE",
        help="Photos, or folders, .txt lists or .tar shards of photos; or a store of embeddings.",
    ),
]
KeptStore = Annotated[
    Path | None, typer.Option("--store", help="Also keep the embeddings in this store.")
]
Metadata = Annotated[
    Path | None,
    typer.Option(
        help='JSON Lines file: {"path": …, "tags": [ … ], "taken": …, "position": [ … ]}.'
    ),
]
VisualWords = Annotated[
    int | None, typer.Option(min=1, help="For ASMK: number of visual words to learn.")
]
TrainOn = Annotated[
    Path | None, typer.Option(help="For ASMK: learn the visual words from these photos instead.")
]


@app.command(epilog="Example: solar index build photos/ -o photos.solar")
def build(
    sources: Sources,
    output: IndexOutput,
    model: Model = None,
    size: Size = None,
    compress: Compress = None,
    device: Device = None,
    backend: Backend = None,
    max_pixels: MaxPixels = None,
    follow: Follow = True,
    report: Report = None,
    store: KeptStore = None,
    metadata: Metadata = None,
    keypoints: Annotated[
        bool,
        typer.Option(
            "--precompute-keypoints",
            help="Compute the keypoints of all photos now, up to 136 kB each; otherwise "
            "searches compute them when a photo is first matched.",
        ),
    ] = False,
    method: Method = "global",
    features: LocalFeatures = None,
    words: VisualWords = None,
    codebook: Codebook = None,
    train_on: TrainOn = None,
    regions: Regions = None,
) -> None:
    """Build an index of photos; run it again to resume.

    Files that cannot be indexed are skipped and listed with the reason.
    """
    from solar.asmk import build as asmk_build
    from solar.asmk.build import AsmkSettings
    from solar.cli.printing import photo_progress, warnings_as_sentences
    from solar.index.build import build_index

    describing = {"size": size, "device": device, "backend": backend, "max_pixels": max_pixels}
    aggregating: dict[str, Any] = {
        "local_features": features,
        "words": words,
        "codebook": codebook,
        "train_on": train_on,
        "regions": regions,
    }
    with photo_progress() as shown, warnings_as_sentences():
        known: dict[str, Any] = {"store": store, "metadata": metadata, "progress": shown}
        known["follow"] = follow
        if method == "asmk":
            refused: dict[str, Any] = {"model": model, "compress": compress, **describing}
            refused["precompute_keypoints"] = keypoints or None
            _refuse(refused, "is for one embedding per photo: leave it out with --method asmk")
            asked = AsmkSettings(aggregating.pop("local_features"), **aggregating)
            built = asmk_build.build(sources, output, asked, **known)
        else:
            _refuse(aggregating, "needs --method asmk")
            known |= _compression(output, compress)
            built = build_index(sources, output, model=model, describing=describing, **known)
    if keypoints:
        _keep_keypoints(output)
    _report(built, output, report)


def _keep_keypoints(output: str) -> None:
    from solar.cli.printing import progress
    from solar.index import Index
    from solar.ranking.verify import find_features

    with Index.open(output) as opened:
        for _ in progress(find_features(opened.engine), len(opened), "Finding keypoints"):
            pass


@app.command(epilog="Example: solar index add photos.solar new/")
def add(
    index: IndexAddress,
    sources: Sources,
    new: Annotated[
        bool,
        typer.Option("--skip-known", help="Skip photos whose path is in the index already."),
    ] = False,
    skip_copies: Annotated[
        bool,
        typer.Option("--skip-copies", help="Skip copies and crops of photos in the index."),
    ] = False,
    device: Device = None,
    max_pixels: MaxPixels = None,
    follow: Follow = True,
    report: Report = None,
    store: KeptStore = None,
    metadata: Metadata = None,
    regions: Regions = None,
) -> None:
    """Add photos, or replace changed ones.

    A new folder becomes part of the index: `solar index sync` then covers it.
    """
    from solar.cli.printing import photo_progress, warnings_as_sentences
    from solar.index.add import add
    from solar.near_duplicates.copy_lookup import without_copies

    with photo_progress() as shown, warnings_as_sentences():
        known: dict[str, Any] = {"store": store, "metadata": metadata, "progress": shown}
        known |= {"new": new, "follow": follow}
        known["leave_out"] = without_copies if skip_copies else None
        describing = {"device": device, "max_pixels": max_pixels, "regions": regions}
        built = add(sources, index, describing=describing, **known)
    _report(built, index, report)


app.command(epilog="Example: solar index sync photos.solar --dry-run")(index_upkeep.sync)
app.command(epilog="Example: solar index relocate photos.solar /mnt/disk/photos")(
    index_upkeep.relocate
)


@app.command(epilog="Example: solar index remove photos.solar rome/12.jpg")
def remove(
    index: IndexAddress,
    photos: Annotated[list[str], typer.Argument(metavar="PHOTO", help="Paths in the index.")],
) -> None:
    """Remove the named photos from an index: all of them or none."""
    from solar.cli.printing import errors
    from solar.index import Index

    with Index.open(index) as opened:
        count = opened.remove(photos)
        errors().print(f"Removed {count} photo{'s'[: count != 1]}; {len(opened)} left.")


@app.command(epilog="Example: solar index info photos.solar --json")
def info(index: IndexAddress, json: Json = False) -> None:
    """Show what an index contains and how it was made."""
    from rich.table import Table
    from rich.text import Text

    from solar.cli.printing import output, print_json
    from solar.index import Index

    with Index.open(index) as opened:
        facts = opened.info()
    if json:
        print_json(facts)
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), Text(_shown(value)))
    output().print(table)


def _shown(value: object) -> str:
    """A fact in words: nothing as a dash, numbers with commas, names before their values."""
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
def check(index: IndexAddress) -> None:
    """Recompute every checksum; exit code 1 if anything is wrong."""
    from solar.cli.printing import errors
    from solar.index import Index

    with Index.open(index) as opened:
        problems, count = opened.check(), len(opened)
    for problem in problems:
        errors().print(problem, style="red", markup=False, soft_wrap=True)
    if problems:
        raise typer.Exit(1)
    errors().print(f"{count:,} photos, no errors found.")


@app.command(epilog="Example: solar index compact photos.solar")
def compact(index: IndexAddress) -> None:
    """Reclaim space from removed photos and rebuild the search index."""
    from solar.index import Index

    with Index.open(index) as opened:
        opened.compact()


@app.command(epilog="Example: solar index copy photos.solar milvus://localhost:19530/photos")
def copy(
    index: IndexAddress,
    destination: Annotated[str, typer.Argument(metavar="NEW", help="The new index.")],
    compress: Compress = None,
) -> None:
    """Copy an index to another engine, or with another --compress than it has."""
    from solar.cli.printing import errors
    from solar.index import Index
    from solar.index.index import need_vectors

    with need_vectors(Index.open(index)) as opened:
        kept = opened.info().get("compress", "none")
        options = _compression(destination, compress, kept)
        with opened.copy(destination, **options) as copied:
            errors().print(f"{len(copied)} photos → {destination}")


@app.command("map", epilog="Example: solar index map photos.solar -o map.png")
def draw_map(
    index: IndexAddress,
    output: OptionalOutput = None,
    photos: ServedPhotos = None,
    roots: AllowedRoots = None,
    seed: Seed = 0,
    side: Annotated[
        int, typer.Option(min=200, max=20000, help="Width of the picture in pixels.")
    ] = 2000,
    json: Json = False,
) -> None:
    """Draw a 2-D map of all photos, similar ones close together.

    -o writes a .png, .jpg or .webp of thumbnails, --json prints positions.
    """
    from solar.cli.pictures import check_suffix, save_image
    from solar.cli.printing import errors, print_json
    from solar.errors import SolarError
    from solar.images import Roots
    from solar.images.known_roots import shown_roots
    from solar.index import Index
    from solar.index.index import need_vectors
    from solar.show.collection_map import choose_method, map_index
    from solar.show.map_picture import draw_map

    if output is None and not json:
        raise SolarError("Name the picture to write with -o map.png, or use --json.")
    check_suffix(output)
    console = errors()
    with need_vectors(Index.open(index)) as opened:
        allowed = Roots()
        if output is not None:
            allowed = shown_roots(opened.place, opened.roots, photos=photos, given=roots or [])
        if reason := choose_method(len(opened))[1]:
            console.print(reason, soft_wrap=True, markup=False)
        with console.status("Arranging"):
            found = map_index(opened, seed=seed)
    if output is not None:
        picture, shown = draw_map(found, allowed.find, side=side)
        save_image(picture, output)
        if shown < len(found.paths):
            console.print(f"{shown} of {len(found.paths)} photos fit on the map.")
    if json:
        places = zip(found.paths, found.points.tolist(), strict=True)
        print_json([{"path": path, "x": x, "y": y} for path, (x, y) in places])


def _refuse(options: dict[str, Any], why: str) -> None:
    """Complain of the first option that was given and makes no sense."""
    for name, value in options.items():
        if value is not None:
            from solar.errors import SolarError

            option = name if name.startswith("-") else f"--{name.replace('_', '-')}"
            raise SolarError(f"{option} {why}.")


def _report(built: "BuiltIndex", index: str, report: Path | None) -> None:
    from solar.cli.printing import say
    from solar.cli.skip_report import print_summary, write_report

    count = len(built.index)
    built.index.close()
    print_summary("Indexed", built.photos, built.skipped, where=index)
    if built.photos != count:
        say(f"{index} holds {count:,} photos.")
    if report is not None:
        write_report(report, built.photos, built.skipped, index=index, photos=count)


def _compression(address: str, asked: str | None, otherwise: str = "none") -> dict[str, str]:
    """The engine's option; another address names its own kind of index."""
    from solar.index.index import is_folder

    if is_folder(address):
        return {"compress": asked or otherwise}
    if asked:
        from solar.errors import SolarError

        raise SolarError(
            "--compress is for an index in a folder: for Milvus, name the index type in the "
            "address, as in milvus://…?index=HNSW."
        )
    return {}
