"""`solar reproduce`: the paper's tables and figures, published numbers beside measured ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from solar.cli.completion import any_models
from solar.cli.evaluate import SETTINGS, name_models, settings_of
from solar.cli.options import (
    Json,
    OptionalOutput,
    TableFormat,
    is_half,
    parse_scales,
    with_settings,
)
from solar.cli.pictures import check_suffix, save_image
from solar.cli.printing import print_report, say, steps
from solar.errors import SolarError
from solar.evaluation.settings import EvaluationSettings
from solar.weights import DEFAULT

EXAMPLE = "Example: solar reproduce table1 solar-r101 --root data/"

_BOTH = ("roxford5k", "rparis6k")
_FIGURES = {".png": "png", ".pdf": "pdf", ".svg": "svg"}


@dataclass(frozen=True)
class _Request:
    """What every table and figure is made of, and how to print it."""

    sets: Sequence[str]
    models: dict[str, str]  # by what to call them
    settings: EvaluationSettings
    picture: Path | None
    style: str
    results: Path | None
    count: int
    top: int
    queries: Sequence[str]
    level: str | None
    exponents: str | None


@with_settings(EvaluationSettings, SETTINGS)
def reproduce(
    which: Annotated[
        Literal["table1", "table2", "figure4", "figure5", "speed"],
        typer.Argument(
            metavar="WHICH",
            help="table1, table2; figure4 (rankings); figure5 (mAP against the GeM exponent p); "
            "speed (and memory).",
        ),
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
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="SET",
            help="Measure on this set, as for solar evaluate; repeatable; default: roxford5k and "
            "rparis6k (figure4: roxford5k).",
        ),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="For tables: results of earlier runs, METHOD/roxford5k.json and so on, as solar "
            "evaluate --json prints them.",
        ),
    ] = None,
    count: Annotated[
        int,
        typer.Option(
            min=1, help="For figure4: number of queries, those on which two models differ most."
        ),
    ] = 3,
    top: Annotated[int, typer.Option(min=1, help="For figure4: results per query.")] = 7,
    query: Annotated[
        list[str] | None, typer.Option(help="For figure4: a query photo to show; repeatable.")
    ] = None,
    level: Annotated[
        Literal["easy", "medium", "hard"] | None,
        typer.Option(help="For figure4: easy, medium or hard; default: the hardest of the set."),
    ] = None,
    exponents: Annotated[
        str | None, typer.Option(help="For figure5: exponents, such as 1,3,10.")
    ] = None,
    output: OptionalOutput = None,
    style: TableFormat = "text",
    json: Json = False,
    **given: Any,
) -> None:
    """Print a table of the paper with your own results, or draw a figure.

    -o saves a figure.
    """
    if which in ("figure5", "speed") and (given["backend"] or is_half(given["compress"])):
        raise SolarError(f"{which} describes photos itself: leave out --backend and --compress.")
    settings = settings_of(given)
    if settings.method == "asmk" and (models or not which.startswith("table")):
        raise SolarError("ASMK ranks by local features alone: use it for tables without a model.")
    if output is not None and not which.startswith("figure"):
        raise SolarError("--output saves a picture: it is for figure4 and figure5.")
    asked = _Request(
        sets=sets or (_BOTH[:1] if which == "figure4" else _BOTH),
        models=name_models(models or ([DEFAULT] if which.startswith("figure") else [])),
        settings=settings,
        picture=output,
        style="json" if json else style,
        results=results,
        count=count,
        top=top,
        queries=query or (),
        level=level,
        exponents=exponents,
    )
    _JOBS[which](asked)


def _table(asked: _Request, number: int) -> None:
    from solar.evaluation.paper import tables
    from solar.evaluation.paper.tables import TABLES

    table, settings = TABLES[number], asked.settings
    found = {} if asked.results is None else tables.read_results(asked.results)
    measured: dict[str, str | None] = dict(asked.models)
    if settings.features is not None:
        if len(asked.sets) > 1 or asked.models:
            raise SolarError("--features needs the --set they are of, and no model.")
        measured = {Path(str(settings.features[0])).stem: None}
    if settings.method == "asmk":
        measured = {Path(settings.local_features or "rootsift").stem: None}
    for name, of in measured.items():
        with steps() as progress:
            found[name] = tables.measure_sets(
                asked.sets, model=of, settings=settings, progress=progress
            )
    lines = tables.fill(table, found)
    print_report(asked.style, tables.to_json(table, lines), tables.to_table(table, lines))


def _speed(asked: _Request) -> None:
    from solar.evaluation.paper import speed

    settings = asked.settings
    costs = [
        speed.measure_speed(
            of, name=name, device=settings.device, size=settings.size, scales=settings.scales
        )
        for name, of in asked.models.items()
    ]
    print_report(asked.style, speed.to_json(costs), speed.to_table(costs))


def _figure4(asked: _Request) -> None:
    """What one model or two list for some queries, see `solar.evaluation.paper.rankings`."""
    from solar.evaluation.paper.rankings import rankings, to_json, to_table

    if len(asked.sets) > 1 or len(asked.models) > 2:
        raise SolarError("figure4 shows the rankings of one model or two on one --set.")
    check_suffix(asked.picture)
    with steps() as progress:
        found = rankings(
            asked.sets[0],
            asked.models,
            settings=asked.settings,
            count=asked.count,
            top=asked.top,
            queries=asked.queries,
            protocol=asked.level,
            progress=progress,
        )
    if asked.picture is not None:
        from solar.show.ranking_strips import draw_rankings

        save_image(draw_rankings(found), asked.picture)
    print_report(asked.style, to_json(found), to_table(found))


def _figure5(asked: _Request) -> None:
    """MAP against the exponent of the pooling."""
    from solar.evaluation.paper.sweep import EXPONENTS, sweep_p, to_json, to_table
    from solar.models import retrieval_model

    powers = parse_scales(asked.exponents, "--exponents") or EXPONENTS
    settings = asked.settings
    check_suffix(asked.picture, _FIGURES)
    networks = {
        name: retrieval_model(of, device=settings.device) for name, of in asked.models.items()
    }
    found = {}
    for what in asked.sets:
        with steps() as progress:
            found[Path(what).name] = [
                sweep_p(what, network, powers, name=name, settings=settings, progress=progress)
                for name, network in networks.items()
            ]
    if asked.picture is not None:
        from solar.files import replacing
        from solar.show.curves import plot_sweep

        style = _FIGURES[asked.picture.suffix.lower()]
        with replacing(asked.picture) as part:
            plot_sweep(found).savefig(part, format=style, dpi=150)
        say(f"→ {asked.picture}")
    print_report(asked.style, to_json(found), to_table(found))


_JOBS: dict[str, Callable[[_Request], None]] = {
    "table1": lambda asked: _table(asked, 1),
    "table2": lambda asked: _table(asked, 2),
    "figure4": _figure4,
    "figure5": _figure5,
    "speed": _speed,
}
