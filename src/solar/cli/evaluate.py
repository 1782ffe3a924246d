"""`solar evaluate`: how well photos are found again, and the paper's tables and figures of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solar.cli.completion import any_models
from solar.weights import DEFAULT

if TYPE_CHECKING:
    from solar.evaluation import Evaluation

EXAMPLE = "Example: solar evaluate photos/ --distractors other-photos/"

_FILES, _HOW, _MORE = "Photos and descriptors", "How to measure", "Tables, figures, comparisons"
_PATCHES = "Patches"


def evaluate(
    what: Annotated[
        str | None,
        typer.Argument(
            help="roxford5k, rparis6k, oxford5k or paris6k; a ground truth (.json, .pkl); a "
            "folder, tar, store or CSV of labelled photos (landmark/photo.jpg); or hpatches or "
            "phototour for patches. With --table and --sweep-p, both revisited sets if not given."
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="A name from `solar models`, a .safetensors or a published .pth; NAME=MODEL "
            f"calls it so. {DEFAULT} if not given. Several only with --table and for patches.",
            autocompletion=any_models,
        ),
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="The folder of the photos.", rich_help_panel=_FILES)
    ] = None,
    ground_truth: Annotated[
        Path | None,
        typer.Option(
            help="The ground truth file, if it is not in the root.", rich_help_panel=_FILES
        ),
    ] = None,
    features: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="DB QUERIES",
            help="Descriptors (.npy, .pt, .mat or a store) in place of a model and photos.",
            rich_help_panel=_FILES,
        ),
    ] = None,
    distractors: Annotated[
        str | None,
        typer.Option(help="Descriptors or photos that are never right.", rich_help_panel=_FILES),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            help="A folder that keeps the descriptors for the next run.", rich_help_panel=_FILES
        ),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Longest side in pixels; the model's own if not given.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    scales: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated scales to average; the model's own if not given.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    average: Annotated[
        str,
        typer.Option(
            help="Average precision: trapezoid, as published, or finite (matlab for hpatches).",
            rich_help_panel=_HOW,
        ),
    ] = "trapezoid",
    precision: Annotated[
        str | None,
        typer.Option(
            help="float64 or float32 products; float64 up to 65,536 rows by default.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(help="cuda to compute scores there as well.", rich_help_panel=_HOW),
    ] = None,
    interval: Annotated[
        bool,
        typer.Option("--interval", help="Add 95 % intervals of mAP.", rich_help_panel=_MORE),
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL|FILE.csv",
            help="Compare with another model, or with what its --per-query has written.",
            rich_help_panel=_MORE,
        ),
    ] = None,
    rankings: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="What is listed for the N queries that --model and --against differ most on.",
            rich_help_panel=_MORE,
        ),
    ] = None,
    query: Annotated[
        list[str] | None,
        typer.Option(help="A query for --rankings, by its photo.", rich_help_panel=_MORE),
    ] = None,
    top: Annotated[
        int, typer.Option(min=1, help="Photos a list of --rankings.", rich_help_panel=_MORE)
    ] = 7,
    protocol: Annotated[
        str | None,
        typer.Option(
            help="easy, medium or hard for --rankings; hard if not given.", rich_help_panel=_MORE
        ),
    ] = None,
    sweep_p: Annotated[
        bool,
        typer.Option(
            "--sweep-p",
            help="mAP against the exponent p of GeM, in one pass over the photos.",
            rich_help_panel=_MORE,
        ),
    ] = False,
    p: Annotated[
        str | None,
        typer.Option("--p", help="Exponents for --sweep-p: 1,3,10.", rich_help_panel=_MORE),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            metavar="1|2|speed",
            help="The paper's table 1 or 2, or its speed and memory, with what is measured here.",
            rich_help_panel=_MORE,
        ),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(
            help="Results for --table from earlier runs: FOLDER/METHOD/roxford5k.json and so on, "
            "as --json prints them.",
            rich_help_panel=_MORE,
        ),
    ] = None,
    make: Annotated[
        Path | None,
        typer.Option(
            metavar="SEQUENCES",
            help="hpatches: cut the patches from sequences of photos (1.jpg … 6.jpg, H_1_2 …); "
            "-o keeps them.",
            rich_help_panel=_PATCHES,
        ),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(help="Descriptors to compare with: sift,rootsift.", rich_help_panel=_PATCHES),
    ] = None,
    descriptors: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FOLDER",
            help="hpatches: descriptors of others, SEQUENCE/ref.csv and so on.",
            rich_help_panel=_PATCHES,
        ),
    ] = None,
    task: Annotated[
        str,
        typer.Option(help="hpatches: some of these tasks.", rich_help_panel=_PATCHES),
    ] = "matching,verification,retrieval",
    split: Annotated[
        str,
        typer.Option(
            help="hpatches: all, or the test part of a, b, c, illum, view or full.",
            rich_help_panel=_PATCHES,
        ),
    ] = "all",
    lists: Annotated[
        Path | None,
        typer.Option(
            help="hpatches: the folder of splits.json and the published lists; generated lists "
            "without it.",
            rich_help_panel=_PATCHES,
        ),
    ] = None,
    subset: Annotated[
        str,
        typer.Option(help="phototour: some of these subsets.", rich_help_panel=_PATCHES),
    ] = "liberty,notredame,yosemite",
    convention: Annotated[
        str,
        typer.Option(help="phototour: FPR95 as hardnet or hynet.", rich_help_panel=_PATCHES),
    ] = "hardnet",
    keypoints: Annotated[
        int, typer.Option(min=1, help="Most points a photo of --make.", rich_help_panel=_PATCHES)
    ] = 500,
    seed: Annotated[
        int, typer.Option(min=0, help="Of --make and generated lists.", rich_help_panel=_PATCHES)
    ] = 0,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", help="hpatches: every sequence too.", rich_help_panel=_PATCHES),
    ] = False,
    per_query: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.csv", help="Write every query's measures; - adds them to --json."
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
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Measure how well photos are found again, in percent."""
    from solar.cli import figures
    from solar.cli.describe import parse_scales
    from solar.errors import SolarError
    from solar.evaluation.collection import needs_model
    from solar.evaluation.layout import FORMATS

    style = "json" if json else style
    if style not in FORMATS:
        raise SolarError(f"There is no format {style!r}: choose {', '.join(FORMATS)}.")
    if per_query == "-" and style != "json":
        raise SolarError("--per-query - goes with --json: name a .csv file otherwise.")
    if what in ("hpatches", "phototour"):
        from solar.cli import patch_evaluation

        choice = patch_evaluation.Choice(model or (), methods, descriptors or (), device)
        if what == "phototour":
            patch_evaluation.phototour(choice, root, subset, convention, style=style)
            return
        where = patch_evaluation.Source(root, make, output, lists, split, keypoints, seed)
        patch_evaluation.hpatches(choice, where, task, average, style=style, verbose=verbose)
        return
    if output is not None and not (sweep_p or rankings or query):
        raise SolarError("--output saves a picture: it goes with --rankings or --sweep-p.")
    if not model and table is None and needs_model(what, features):
        model = [DEFAULT]
    models = figures.name_models([*([against] if against else []), *(model or [])])
    measuring: dict[str, Any] = {
        "root": root,
        "ground_truth": ground_truth,
        "distractors": distractors,
        "size": size,
        "scales": None if scales is None else parse_scales(scales),
        "cache": cache,
        "average": average,
        "precision": precision,
        "device": device,
    }
    if table is not None:
        measuring["features"] = features
        figures.paper_table(table, what, models, results, measuring, style=style)
        return
    if len(model or []) > 1:
        raise SolarError("Give one --model, and another one to compare it with as --against.")
    if sweep_p:
        exponents = None if p is None else parse_scales(p, "--p")
        figures.sweep(what, models, exponents, output, measuring, style=style)
        return
    if what is None:
        raise SolarError("Say what to evaluate: roxford5k, a folder of photos, a ground truth.")
    if rankings or query:
        measuring |= {"count": rankings or 1, "queries": query or (), "top": top}
        figures.rankings(what, models, output, {**measuring, "protocol": protocol}, style=style)
        return
    name, mine = [*models.items()][-1] if model else ("features", None)
    found = _measured(what, mine, {**measuring, "features": features})
    if per_query not in (None, "-"):
        found.write_csv(per_query)
    if against is None:
        figures.print_result(found, style=style, interval=interval, per_query=per_query == "-")
        return
    other, of = next(iter(models.items()))
    names = (name, other)
    figures.print_comparison(names, found, _other(what, of, measuring), style=style)


def _measured(what: str, model: str | None, measuring: Mapping[str, Any]) -> "Evaluation":
    from solar.cli.printing import describing_and_ranking, errors
    from solar.evaluation import evaluate as measure

    with describing_and_ranking() as watching:
        found = measure(what, model=model, **measuring, **watching)
    for name, why in found.failures.items():
        errors().print(f"Left out {name}: {why}", style="yellow", markup=False, soft_wrap=True)
    return found


def _other(what: str, model: str, measuring: Mapping[str, Any]) -> "Evaluation":
    """What to compare with: an earlier run's measures, or another model on the same set."""
    from solar.evaluation import Evaluation

    if model.endswith(".csv"):
        return Evaluation.read_csv(model)
    return _measured(what, model, measuring)
