"""`solar pairs`: pairs of photos to match, and structure from motion."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solar.cli import options
from solar.cli.printing import print_json, say, show, warnings_as_sentences
from solar.cli.progress import described_photos, steps
from solar.errors import SolarError
from solar.files import beside

if TYPE_CHECKING:
    from solar.index.embeddings import DescribedCollection
    from solar.ranking.verify import VerifySettings
    from solar.sfm.colmap import DatabaseCounts


EXAMPLE = "Example: solar pairs photos/ -o pairs.txt -k 20"
# More than for a search: camera poses need precise keypoints.
_SIZE, _KEYPOINTS = 1600, 4096
# Parameters that choose pairs.
_CHOOSING = ("verify", "query", "window", "within", "min_score")


def pairs(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="SOURCE")],
    output: options.OptionalOutput = None,
    k: options.NearestOrNone = 20,
    min_score: options.MinScore = None,
    verify: options.Verify = False,
    query: Annotated[Path | None, typer.Option("--query-list", metavar="LIST")] = None,
    window: Annotated[int, typer.Option(min=0)] = 0,
    within: Annotated[float | None, typer.Option(metavar="METRES")] = None,
    given: Annotated[Path | None, typer.Option("--pairs", metavar="LIST")] = None,
    database: Annotated[Path | None, typer.Option("--colmap", metavar="FILE")] = None,
    reconstruct: Annotated[Path | None, typer.Option(metavar="FOLDER")] = None,
    features: options.LocalFeatures = None,
    backend: options.Backend = None,
    keypoints: options.Keypoints = _KEYPOINTS,
    size: options.KeypointSize = _SIZE,
    photos: options.ServedPhotos = None,
    model: options.Model = None,
    device: options.Device = None,
    json: options.Json = False,
) -> None:
    """Choose pairs of photos to match, for COLMAP, hloc and others.

    Each pair is written once, as a line `image1.jpg image2.jpg` with paths
    relative to the image folder. Keypoint options are for --colmap, beside whose
    database the pairs are written unless -o names them. An .h5 file of hloc's
    needs --photos. Run it again to resume.

    Options:
        source: An index, a folder, list or tar shard of photos, or an .h5 file of hloc's
            global features.
        query: Only pair the photos of this list with others.
        window: Also pair each photo with this many before and after it, by name.
        within: Skip pairs whose GPS positions are farther apart than this.
        given: Use the pairs of this list; no embeddings are computed.
        database: Match the pairs, and write them to this COLMAP database.
        reconstruct: Run COLMAP's mapper, and write its models here.
    """
    from solar.index.embeddings import only_named
    from solar.index.sources import working_folder
    from solar.ranking.verify import VerifySettings
    from solar.sfm import colmap
    from solar.sfm import pairs as job

    if reconstruct is not None:
        database = database or reconstruct / "database.db"
        output = output or reconstruct / "pairs.txt"
    if database is not None:
        colmap.check_database(database, reconstruct)
        output = output or beside(database, ".pairs.txt")
    if output is None:
        raise SolarError("Name the list of pairs to write: -o pairs.txt.")
    if given is not None:
        if output.resolve() == given.resolve():
            raise SolarError(f"{given} is the list to read: name another one to write with -o.")
        if option := options.first_given(context, _CHOOSING):
            raise SolarError(f"--pairs takes a list as it is: leave out {option}.")
    tell = say if json else show
    verifying = VerifySettings(photos=photos) if verify else False
    settings = job.PairSettings(k, min_score, verifying, query, window, within, device)
    with warnings_as_sentences(), working_folder(output) as work:
        if given is None:
            collection = described_photos(source, work, model=model, device=device)
            with steps() as progress:
                chosen = job.pairs(collection, settings, work=work, progress=progress)
                count = job.write_pairs(output, chosen)
        else:
            collection = only_named(source, work)
            count = job.write_pairs(output, job.read_pairs(given, collection))
        tell(f"{count:,} pairs of {len(collection):,} photos → {output}")
        summary: dict[str, Any] = {
            "pairs": count,
            "photos": len(collection),
            "skipped": len(collection.skipped),
            "output": str(output),
        }
        if database is not None:
            matching = VerifySettings(
                model=features,
                backend=backend or "torch",
                keypoints=keypoints,
                size=size,
                photos=photos,
            )
            counts = _match(collection, output, count, database, matching)
            summary["database"] = {"file": str(database), **asdict(counts)}
            tell(f"{counts.verified:,} of them verified, {counts.images:,} photos → {database}")
        if reconstruct is not None:
            assert database is not None
            say("Reconstructing with COLMAP's incremental mapper")
            made = colmap.reconstruct(database, collection.folder(photos), reconstruct)
            models = str(reconstruct / colmap.MODELS)
            summary["reconstruction"] = {"folder": models, **asdict(made)}
            tell(
                f"{made.images} of {made.of} photos registered, {made.points:,} points, mean "
                f"reprojection error {made.error:.2f} px → {models}"
            )
    if json:
        print_json(summary)


def _match(
    collection: "DescribedCollection",
    pairs: Path,
    count: int,
    database: Path,
    settings: "VerifySettings",
) -> "DatabaseCounts":
    from solar.ranking.verify import verifier_of
    from solar.sfm.colmap import write_database
    from solar.sfm.pairs import read_pairs

    listed = read_pairs(pairs, collection)
    roots = collection.roots.moved_to(settings.photos)
    verifier = verifier_of(roots, collection.local, settings)
    with steps() as progress:
        return write_database(database, listed, verifier, progress=progress, total=count)
