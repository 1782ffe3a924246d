"""`solar evaluate`: how well photos are found again, and the paper's tables and figures of it."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from solar.cli.completion import any_models, averaged_models
from solar.cli.options import BACKENDS, known_device
from solar.datasets.registry import GROUND_TRUTHS
from solar.errors import SolarError
from solar.weights import DEFAULT

EXAMPLE = "Example: solar evaluate photos/ --distractors other-photos/"

_files = partial(typer.Option, rich_help_panel="Photos and descriptors")
_how = partial(typer.Option, rich_help_panel="How to measure")
_protocols = partial(typer.Option, rich_help_panel="Place recognition, ILIAS, Google Landmarks v2")
_more = partial(typer.Option, rich_help_panel="Tables, figures, comparisons")
_patches = partial(typer.Option, rich_help_panel="Patches")


def evaluate(
    what: Annotated[
        str | None,
        typer.Argument(
            help=f"{', '.join(GROUND_TRUTHS)}; a ground truth (.json, .pkl); a "
            "folder, tar, store or CSV of labelled photos (landmark/photo.jpg); the folder of a "
            "--protocol; or hpatches or phototour for patches. With --table and --sweep-p, both "
            "revisited sets by default."
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="A name from `solar models`, a .safetensors or a published .pth; NAME=MODEL "
            f"sets its name. Default: {DEFAULT}. Repeatable with --table and for patches.",
            autocompletion=any_models,
        ),
    ] = None,
    root: Annotated[Path | None, _files(help="The folder of the photos.")] = None,
    ground_truth: Annotated[
        Path | None, _files(help="The ground truth file, if it is not in --root.")
    ] = None,
    features: Annotated[
        tuple[str, str] | None,
        _files(
            metavar="DB QUERIES",
            help="Embeddings (.npy, .pt, .mat or a store) instead of a model and photos.",
        ),
    ] = None,
    asmk: Annotated[
        str | None,
        _files(
            metavar="FEATURES",
            help="Rank by ASMK* with local features instead of a model: rootsift, sift, or a "
            "HOW, DELF or patch model.",
            autocompletion=averaged_models,
        ),
    ] = None,
    codebook: Annotated[
        Path | None,
        _files(
            help="For --asmk: visual words of this index or file; default: learned from the set."
        ),
    ] = None,
    regions: Annotated[
        str | None,
        _files(
            metavar="FILE|grid",
            help="For --asmk: boxes in the database photos, as for index build.",
        ),
    ] = None,
    distractors: Annotated[
        str | None, _files(help="Embeddings or photos that match no query.")
    ] = None,
    cache: Annotated[
        Path | None, _files(help="Folder that caches the embeddings for the next run.")
    ] = None,
    size: Annotated[
        int | None, _how(min=1, help="Longest side in pixels; default: the model's own.")
    ] = None,
    scales: Annotated[
        str | None, _how(help="Comma-separated scales to average; default: the model's own.")
    ] = None,
    average: Annotated[
        str,
        _how(help="Average precision: trapezoid (as published) or finite (hpatches: matlab)."),
    ] = "trapezoid",
    precision: Annotated[
        str | None, _how(help="float64 or float32 scores; default: float64 up to 65,536 rows.")
    ] = None,
    device: Annotated[
        str | None,
        _how(
            callback=known_device,
            help="cpu or cuda; auto-detected by default. With --device cuda, scores are also "
            "computed there.",
        ),
    ] = None,
    backend: Annotated[str, _how(help=BACKENDS)] = "torch",
    half: Annotated[bool, _how("--half", help="Round embeddings to float16.")] = False,
    interval: Annotated[
        bool, _more("--interval", help="Add 95 % confidence intervals of mAP or recall@1.")
    ] = False,
    against: Annotated[
        str | None,
        _more(
            metavar="MODEL|FILE.csv",
            help="Compare with another model, or with its --per-query file.",
        ),
    ] = None,
    rankings: Annotated[
        int | None,
        _more(
            min=1,
            metavar="N",
            help="Show the results of the N queries on which --model and --against differ most.",
        ),
    ] = None,
    query: Annotated[
        list[str] | None, _more(help="A query photo to show with --rankings; repeatable.")
    ] = None,
    top: Annotated[int, _more(min=1, help="Results per query of --rankings.")] = 7,
    protocol: Annotated[
        str | None,
        _protocols(
            help="vpr, ilias, gldv2-retrieval or gldv2-recognition; for --rankings easy, medium "
            "or hard."
        ),
    ] = None,
    database: Annotated[
        Path | None,
        _protocols(
            help="Photos or a store to search in, below the folder; default: database (vpr), "
            "index or train (gldv2)."
        ),
    ] = None,
    queries: Annotated[
        Path | None,
        _protocols(
            help="Query photos or a store, below the folder; default: queries (vpr) or test "
            "(gldv2)."
        ),
    ] = None,
    positions: Annotated[
        Path | None,
        _protocols(
            metavar="FILE.csv",
            help="vpr: a CSV of name,east,north in metres, if names lack @UTM_E@UTM_N@.",
        ),
    ] = None,
    radius: Annotated[
        float, _protocols(min=0, help="vpr: a photo is correct within this many metres.")
    ] = 25.0,
    frames: Annotated[
        int | None,
        _protocols(
            min=0,
            metavar="N",
            help="vpr: photos of the same name up to N frames apart are correct (Nordland).",
        ),
    ] = None,
    answerable: Annotated[
        bool, _protocols("--answerable", help="vpr: leave out queries without a correct photo.")
    ] = False,
    k: Annotated[
        int | None,
        _protocols(
            "-k", min=1, help="Depth of AP@k; default: 1000 for ilias, 100 for gldv2-retrieval."
        ),
    ] = None,
    predictions: Annotated[
        Path | None,
        _protocols(
            metavar="FILE.csv",
            help="gldv2: predictions in the challenge's format, instead of a model.",
        ),
    ] = None,
    sweep_p: Annotated[
        bool,
        _more(
            "--sweep-p", help="Plot mAP against the GeM exponent p, in one pass over the photos."
        ),
    ] = False,
    p: Annotated[str | None, _more("--p", help="Exponents for --sweep-p, such as 1,3,10.")] = None,
    table: Annotated[
        str | None,
        _more(
            metavar="1|2|speed",
            help="Print the paper's table 1 or 2, or speed and memory, with your own results.",
        ),
    ] = None,
    results: Annotated[
        Path | None,
        _more(
            help="Results for --table from earlier runs: FOLDER/METHOD/roxford5k.json and so on, "
            "as --json prints them."
        ),
    ] = None,
    make: Annotated[
        Path | None,
        _patches(
            metavar="SEQUENCES",
            help="hpatches: cut the patches from sequences of photos (1.jpg … 6.jpg, H_1_2 …); "
            "-o keeps them.",
        ),
    ] = None,
    methods: Annotated[
        str | None, _patches(help="Descriptors to compare with: sift,rootsift.")
    ] = None,
    descriptors: Annotated[
        list[str] | None,
        _patches(
            metavar="NAME=FOLDER",
            help="hpatches: precomputed descriptors, SEQUENCE/ref.csv and so on.",
        ),
    ] = None,
    task: Annotated[
        str, _patches(help="hpatches: tasks to run, comma-separated.")
    ] = "matching,verification,retrieval",
    split: Annotated[
        str, _patches(help="hpatches: all, or the test part of a, b, c, illum, view or full.")
    ] = "all",
    lists: Annotated[
        Path | None,
        _patches(
            help="hpatches: the folder of splits.json and the published lists; default: "
            "generated lists."
        ),
    ] = None,
    subset: Annotated[
        str, _patches(help="phototour: subsets to use, comma-separated.")
    ] = "liberty,notredame,yosemite",
    convention: Annotated[
        str, _patches(help="phototour: FPR95 as in hardnet or hynet.")
    ] = "hardnet",
    keypoints: Annotated[
        int, _patches(min=1, help="Maximum keypoints per photo, for --make.")
    ] = 500,
    seed: Annotated[int, _patches(min=0, help="Random seed of --make and generated lists.")] = 0,
    verbose: Annotated[
        bool, _patches("--verbose", help="hpatches: also print every sequence.")
    ] = False,
    per_query: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.csv", help="Write every query's metrics; - adds them to --json."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Save the picture of --rankings or --sweep-p (out.png), or the patches of --make.",
        ),
    ] = None,
    style: Annotated[str, typer.Option("--format", help="text, json, markdown or latex.")] = "text",
    json: Annotated[bool, typer.Option("--json", help="Same as --format json.")] = False,
) -> None:
    """Compute retrieval metrics (mAP, recall@k), in percent."""
    from solar.cli import figures, patch_evaluation
    from solar.cli.describe import parse_scales
    from solar.evaluation.evaluation_settings import EvaluationSettings

    style = figures.check_style("json" if json else style, per_query)
    if (half or backend != "torch") and (
        sweep_p or table == "speed" or what in patch_evaluation.SETS
    ):
        raise SolarError("--sweep-p, --table speed and patches take no --backend and no --half.")
    if what in patch_evaluation.SETS:
        choice = patch_evaluation.Choice(
            model or (), methods, descriptors or (), device, task, average, subset, convention
        )
        source = patch_evaluation.Source(root, make, output, lists, split, keypoints, seed)
        patch_evaluation.SETS[what](choice, source, style=style, verbose=verbose)
        return
    sizes = None if scales is None else parse_scales(scales)
    files = (root, ground_truth, features, distractors)
    computing: dict[str, Any] = {
        "backend": backend,
        "half": half,
        "asmk": asmk,
        "codebook": codebook,
        "regions": regions,
    }
    settings = EvaluationSettings(
        *files, size, sizes, cache, average, precision, device, **computing
    )
    listed = bool(rankings or query)
    if asmk is not None and (model or against or listed or sweep_p or table == "speed"):
        raise SolarError(
            "--asmk ranks by local features alone: leave out --model, --against, --rankings, "
            "--sweep-p and --table speed."
        )
    for option, given in (("--codebook", codebook), ("--regions", regions)):
        if given is not None and asmk is None:
            raise SolarError(f"{option} needs --asmk.")
    own: dict[str, object] = {
        "database": database,
        "queries": queries,
        "positions": positions,
        "radius": radius,
        "frames": frames,
        "answerable": answerable,
        "k": k,
        "predictions": predictions,
    }
    settings = figures.with_protocol(settings, protocol, own, other=listed or sweep_p or table)
    request = figures.Request(what, model or (), against, settings, output, style)
    listing = {"count": rankings or 1, "top": top, "queries": query or (), "protocol": protocol}
    # The first that is asked for is done.
    jobs = (
        (table is not None, partial(figures.paper_table, request, table or "", results)),
        (sweep_p, partial(figures.sweep, request, p)),
        (listed, partial(figures.rankings, request, listing)),
        (True, partial(figures.measures, request, per_query, interval=interval)),
    )
    next(job for asked, job in jobs if asked)()
