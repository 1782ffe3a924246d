"""`solar pairs`: which photos to match, and what structure from motion makes of them."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from solar.cli import printing
from solar.cli.options import (
    Backend,
    Device,
    Json,
    Keypoints,
    KeypointSize,
    LocalFeatures,
    MinScore,
    Model,
    NearestOrNone,
    OptionalOutput,
    ServedPhotos,
    Verify,
)
from solar.errors import SolarError
from solar.files import beside

EXAMPLE = "Example: solar pairs photos/ -o pairs.txt -k 20"
# Photos are larger and have more keypoints than a search needs: cameras are to be found exactly.
_SIZE, _KEYPOINTS = 1600, 4096


def pairs(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="An index, a store, a folder, list or tar shard of photos, or an .h5 file of "
            "hloc's global features.",
        ),
    ],
    output: OptionalOutput = None,
    k: NearestOrNone = 20,
    min_score: MinScore = None,
    verify: Verify = False,
    query: Annotated[
        Path | None,
        typer.Option(
            "--query-list", metavar="LIST", help="Only pair the photos of this list with others."
        ),
    ] = None,
    window: Annotated[
        int,
        typer.Option(
            min=0, help="Also pair each photo with this many before and after it, by name."
        ),
    ] = 0,
    within: Annotated[
        float | None,
        typer.Option(
            metavar="METRES",
            help="Skip pairs whose GPS positions are farther apart than this.",
        ),
    ] = None,
    given: Annotated[
        Path | None,
        typer.Option(
            "--pairs",
            metavar="LIST",
            help="Use the pairs of this list; no embeddings are computed.",
        ),
    ] = None,
    database: Annotated[
        Path | None,
        typer.Option(
            "--colmap",
            metavar="FILE",
            help="Match the pairs, and write them to this COLMAP database.",
        ),
    ] = None,
    reconstruct: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Run COLMAP's mapper, and write its models here."),
    ] = None,
    features: LocalFeatures = None,
    backend: Backend = None,
    keypoints: Keypoints = _KEYPOINTS,
    size: KeypointSize = _SIZE,
    photos: ServedPhotos = None,
    model: Model = None,
    device: Device = None,
    json: Json = False,
) -> None:
    """Choose pairs of photos to match, for COLMAP, hloc and others.

    Each pair is written once, as a line `image1.jpg image2.jpg` with paths
    relative to the image folder. Keypoint options are for --colmap, beside whose
    database the pairs are written unless -o names them. An .h5 file of hloc's
    needs --photos. Run it again to resume.
    """
    from solar.cli.skip_report import described_photos
    from solar.index.embeddings import only_named
    from solar.index.sources import working_folder
    from solar.ranking.verify import VerifySettings
    from solar.sfm import colmap
    from solar.sfm import pairs as job
    from solar.sfm.pairs import verifier_of

    if reconstruct is not None:
        database = database or reconstruct / "database.db"
        output = output or reconstruct / "pairs.txt"
    if database is not None:
        colmap.check_database(database, reconstruct)
        output = output or beside(database, ".pairs.txt")
    if output is None:
        raise SolarError("Name the list of pairs to write: -o pairs.txt.")
    if given is not None and output.resolve() == given.resolve():
        raise SolarError(f"{given} is the list to read: name another one to write with -o.")
    if given is not None and (
        verify or query or window or min_score is not None or within is not None
    ):
        raise SolarError(
            "--pairs takes a list as it is: leave out --verify, --query-list, --window, "
            "--within and --min-score."
        )
    verifying = VerifySettings(photos=photos) if verify else False
    settings = job.PairSettings(k, min_score, verifying, query, window, within, device)
    with printing.warnings_as_sentences(), working_folder(output) as work:
        if given is None:
            collection = described_photos(source, work, model=model, device=device)
        else:
            collection = only_named(source, work)
        with printing.steps() as progress:
            chosen = (
                job.pairs(collection, settings, work=work, progress=progress)
                if given is None
                else job.read_pairs(given, collection)
            )
            count = job.write_pairs(output, chosen)
        summary: dict[str, Any] = {
            "pairs": count,
            "photos": len(collection),
            "skipped": len(collection.skipped),
            "output": str(output),
        }
        _tell(f"{count:,} pairs of {len(collection):,} photos → {output}", json)
        if database is not None:
            wanted = VerifySettings(
                model=features,
                backend=backend or "torch",
                keypoints=keypoints,
                size=size,
                photos=photos,
            )
            verifier = verifier_of(collection, wanted)
            with printing.steps() as progress:
                counts = colmap.write_database(
                    database,
                    job.read_pairs(output, collection),
                    verifier,
                    progress=progress,
                    total=count,
                )
            summary["database"] = {"file": str(database), **asdict(counts)}
            _tell(
                f"{counts.verified:,} of them verified, {counts.images:,} photos → {database}", json
            )
        if reconstruct is not None:
            assert database is not None
            printing.say("Reconstructing with COLMAP's incremental mapper")
            made = colmap.reconstruct(database, collection.folder(photos), reconstruct)
            models = str(reconstruct / colmap.MODELS)
            summary["reconstruction"] = {"folder": models, **asdict(made)}
            _tell(
                f"{made.images} of {made.of} photos registered, {made.points:,} points, mean "
                f"reprojection error {made.error:.2f} px → {models}",
                json,
            )
    if json:
        printing.print_json(summary)


def _tell(text: str, json: bool) -> None:
    """Print a result, beside JSON on standard error."""
    printing.say(text, to=None if json else printing.output())
