"""`solar reproduce`: the paper's tables and figures, published numbers beside measured ones."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from solar.cli import options
from solar.cli.completion import any_models
from solar.cli.evaluate import SETTINGS, name_models, settings_of
from solar.cli.printing import check_suffix, print_report, save_image, say
from solar.cli.progress import steps
from solar.errors import SolarError
from solar.evaluation.settings import EvaluationSettings
from solar.weights import DEFAULT

if TYPE_CHECKING:
    from solar.evaluation.table_text import Table

EXAMPLE = "Example: solar reproduce table1 solar-r101 --root data/"

_BOTH = ("roxford5k", "rparis6k")
_FIGURES = {".png": "png", ".pdf": "pdf", ".svg": "svg"}


@options.with_settings(EvaluationSettings, SETTINGS)
def reproduce(
    which: Annotated[
        Literal["table1", "table2", "figure4", "figure5", "speed"], typer.Argument(metavar="WHICH")
    ],
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL",
            help="Models to measure, the baseline first; NAME=MODEL sets a name. Default for "
            f"figures: {DEFAULT}.",
            autocompletion=any_models,
        ),
    ] = None,
    sets: Annotated[list[str] | None, typer.Option("--set", metavar="SET")] = None,
    results: Annotated[Path | None, typer.Option(metavar="FOLDER")] = None,
    count: Annotated[int, typer.Option(min=1)] = 3,
    top: Annotated[int, typer.Option(min=1)] = 7,
    query: list[str] | None = None,
    level: Literal["easy", "medium", "hard"] | None = None,
    exponents: str | None = None,
    output: options.OptionalOutput = None,
    style: options.TableFormat = "text",
    json: options.Json = False,
    **given: Any,
) -> None:
    """Print the paper's tables beside your results, or draw a figure.

    -o saves a figure.

    Options:
        which: table1, table2; figure4 (rankings); figure5 (mAP against the GeM exponent p); speed
            (and memory).
        sets: Measure on this set, as for solar evaluate; repeatable; default: roxford5k and
            rparis6k (figure4: roxford5k).
        results: For tables: results of earlier runs, METHOD/roxford5k.json and so on, as solar
            evaluate --json prints them.
        count: For figure4: number of queries, those on which two models differ most.
        top: For figure4: results per query.
        query: For figure4: a query photo to show; repeatable.
        level: For figure4: easy, medium or hard; default: the hardest of the set.
        exponents: For figure5: exponents, such as 1,3,10.
    """
    if which in ("figure5", "speed") and (given["backend"] or options.is_half(given["compress"])):
        raise SolarError(f"{which} describes photos itself: leave out --backend and --compress.")
    settings = settings_of(given)
    if settings.method == "asmk" and (models or not which.startswith("table")):
        raise SolarError("ASMK ranks by local features alone: use it for tables without a model.")
    if output is not None and not which.startswith("figure"):
        raise SolarError("--output saves a picture: it is for figure4 and figure5.")
    chosen = sets or (_BOTH[:1] if which == "figure4" else _BOTH)
    named = name_models(models or ([DEFAULT] if which.startswith("figure") else []))
    match which:
        case "figure4":
            how: dict[str, Any] = {"count": count, "top": top, "queries": query or ()}
            report = _figure4(chosen, named, settings, output, protocol=level, **how)
        case "figure5":
            report = _figure5(chosen, named, settings, output, exponents)
        case "speed":
            report = _speed(named, settings)
        case _:
            report = _table(int(which[-1]), chosen, named, settings, results)
    print_report("json" if json else style, *report)


def _table(
    number: int,
    sets: Sequence[str],
    models: Mapping[str, str],
    settings: EvaluationSettings,
    results: Path | None,
) -> "tuple[Any, Table]":
    from solar.evaluation.paper import tables
    from solar.evaluation.paper.tables import TABLES

    found = {} if results is None else tables.read_results(results)
    measured: dict[str, str | None] = dict(models)
    if settings.features is not None:
        if len(sets) > 1 or models:
            raise SolarError("--features needs the --set they are of, and no model.")
        measured = {Path(str(settings.features[0])).stem: None}
    if settings.method == "asmk":
        measured = {Path(settings.local_features or "rootsift").stem: None}
    for name, of in measured.items():
        with steps() as progress:
            found[name] = tables.measure_sets(sets, model=of, settings=settings, progress=progress)
    lines = tables.fill(TABLES[number], found)
    return tables.to_json(TABLES[number], lines), tables.to_table(TABLES[number], lines)


def _speed(models: Mapping[str, str], settings: EvaluationSettings) -> "tuple[Any, Table]":
    from solar.evaluation.paper import speed

    how: dict[str, Any] = {name: getattr(settings, name) for name in ("device", "size", "scales")}
    costs = [speed.measure_speed(of, name=name, **how) for name, of in models.items()]
    return speed.to_json(costs), speed.to_table(costs)


def _figure4(
    sets: Sequence[str],
    models: Mapping[str, str],
    settings: EvaluationSettings,
    picture: Path | None,
    **how: Any,
) -> "tuple[Any, Table]":
    """The rankings of one or two models for some queries: `solar.evaluation.paper.rankings`."""
    from solar.evaluation.paper.rankings import rankings, to_json, to_table

    if len(sets) > 1 or len(models) > 2:
        raise SolarError("figure4 shows the rankings of one model or two on one --set.")
    check_suffix(picture)
    with steps() as progress:
        found = rankings(sets[0], models, settings=settings, progress=progress, **how)
    if picture is not None:
        from solar.show.ranking_strips import draw_rankings

        save_image(draw_rankings(found), picture)
    return to_json(found), to_table(found)


def _figure5(
    sets: Sequence[str],
    models: Mapping[str, str],
    settings: EvaluationSettings,
    picture: Path | None,
    exponents: str | None,
) -> "tuple[Any, Table]":
    """MAP against the exponent of the pooling."""
    from solar.evaluation.paper.sweep import EXPONENTS, sweep_p, to_json, to_table
    from solar.models import retrieval_model

    powers = options.parse_scales(exponents, "--exponents") or EXPONENTS
    check_suffix(picture, _FIGURES)
    networks = {name: retrieval_model(of, device=settings.device) for name, of in models.items()}
    found = {}
    for what in sets:
        with steps() as progress:
            found[Path(what).name] = [
                sweep_p(what, network, powers, name=name, settings=settings, progress=progress)
                for name, network in networks.items()
            ]
    if picture is not None:
        from solar.files import replacing
        from solar.show.curves import plot_sweep

        style = _FIGURES[picture.suffix.lower()]
        with replacing(picture) as part:
            plot_sweep(found).savefig(part, format=style, dpi=150)
        say(f"→ {picture}")
    return to_json(found), to_table(found)
