"""`solar evaluate`: retrieval metrics."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solar.cli.options import Json, Model, TableFormat, is_half, parse_scales, with_settings
from solar.cli.printing import print_report, say
from solar.cli.progress import steps
from solar.datasets.public.registry import GROUND_TRUTHS
from solar.errors import SolarError
from solar.evaluation.settings import EvaluationSettings
from solar.evaluation.table_text import Table, number
from solar.weights import DEFAULT

if TYPE_CHECKING:
    from solar.evaluation import Evaluation


EXAMPLE = "Example: solar evaluate photos/ --distractors other-photos/"

SETTINGS: dict[str, tuple[str, ...]] = {
    "Photos and embeddings": (
        *("root", "ground_truth", "features", "distractors", "cache"),
        *("method", "local_features", "codebook"),
    ),
    "How to measure": (
        *("published", "size", "scales", "average", "precision", "device", "backend", "compress"),
    ),
}
"""Fields of `EvaluationSettings` that are options, by the heading that help shows them below."""
_PROTOCOLS: dict[str, tuple[str, ...]] = {
    "Place recognition, ILIAS, Google Landmarks v2": (
        *("protocol", "database", "queries", "positions", "radius"),
        *("frames", "answerable", "depth", "predictions"),
    )
}


@with_settings(EvaluationSettings, SETTINGS | _PROTOCOLS)
def evaluate(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="SET",
            help=f"{', '.join(GROUND_TRUTHS)}; a ground truth (.json, .pkl); a folder, tar, index "
            "or CSV of labelled photos (landmark/photo.jpg); or the folder of a --protocol.",
        ),
    ] = None,
    model: Model = None,
    against: Annotated[str | None, typer.Option(metavar="MODEL|FILE.csv")] = None,
    interval: bool = False,
    per_query: Annotated[str | None, typer.Option(metavar="FILE.csv")] = None,
    style: TableFormat = "text",
    json: Json = False,
    **given: Any,
) -> None:
    """Compute retrieval metrics (mAP, recall@k), in percent.

    --model NAME=MODEL and --against NAME=MODEL name a model in the table.

    Options:
        against: Compare with another model, or with its --per-query file.
        interval: Add 95 % confidence intervals of mAP or recall@1.
        per_query: Write every query's metrics; - adds them to --json.
    """
    from solar.evaluation import Evaluation
    from solar.evaluation.described_photos import needs_model

    if per_query == "-" and not json:
        raise SolarError("--per-query - needs --json: otherwise name a .csv file.")
    settings = settings_of(given)
    if what is None and not (settings.protocol and settings.database and settings.queries):
        raise SolarError("Say what to evaluate: roxford5k, a folder of photos or a ground truth.")
    what = what or ""
    if settings.method == "asmk" and (model or against):
        raise SolarError("ASMK ranks by local features alone: leave out --model and --against.")
    mine = model or (DEFAULT if needs_model(what, settings) else None)
    names = name_models([one for one in (against, mine) if one is not None])
    of = next(reversed(names.values())) if mine else None
    found = _measured(what, of, settings)
    if per_query not in (None, "-"):
        found.write_csv(per_query)
    shown = "json" if json else style
    if against is None:
        _print_result(found, shown, interval=interval, per_query=per_query == "-")
        return
    other, baseline = next(iter(names.items()))
    if baseline.endswith(".csv"):
        before = Evaluation.read_csv(baseline)
    else:
        before = _measured(what, baseline, replace(settings, features=None))
    called = next(reversed(names)) if mine else "features"
    _print_comparison((called, other), found, before, shown)


def settings_of(given: dict[str, Any]) -> EvaluationSettings:
    """The settings from the options of `SETTINGS`."""
    is_half(given["compress"])
    return EvaluationSettings(**{**given, "scales": parse_scales(given["scales"])})


def name_models(models: Sequence[str]) -> dict[str, str]:
    """Models by name: NAME in NAME=MODEL, else the stem of the file or the name in the zoo."""
    named = [_named(model) for model in models]
    if len({name for name, _ in named}) < len(named):
        raise SolarError("Two models have the same name: tell them apart with NAME=MODEL.")
    return dict(named)


def _named(model: str) -> tuple[str, str]:
    name, equals, of = model.partition("=")
    if equals and not Path(model).exists():
        return name, of
    path = Path(model)
    return (path.stem if path.suffix in (".pth", ".safetensors", ".csv") else model), model


def _measured(what: str, model: str | None, settings: EvaluationSettings) -> "Evaluation":
    from solar.evaluation import evaluate

    with steps() as progress:
        found = evaluate(what, model=model, settings=settings, progress=progress)
    for name, why in found.failures.items():
        say(f"Skipped {name}: {why}", "yellow")
    return found


def _print_result(found: "Evaluation", style: str, *, interval: bool, per_query: bool) -> None:
    from solar.evaluation.result import interval as bounds
    from solar.evaluation.result import mean_name

    data = found.to_dict(per_query=per_query)
    means = found.to_dict()
    measure, first = found.headline, mean_name(found.headline)
    rows = []
    for level, measured in found.protocols.items():
        own = means if level == "all" else means[level]
        shown = {name: number(own[name], 2) or "–" for name in map(mean_name, measured)}
        if interval and own[first] is None:
            shown[f"{first}, 95 %"] = "–"
        elif interval:
            low, high = (100 * end for end in bounds(measured[measure]))
            (data if level == "all" else data[level])[f"{first} interval"] = [low, high]
            shown[f"{first}, 95 %"] = f"{low:.2f} to {high:.2f}"
        rows.append(["" if level == "all" else level, *shown.values()])
    if style == "json":
        say(found.convention)
    head = [[""], *([name] for name in shown)]
    note = f"{len(found.queries)} queries, in percent. {found.convention}"
    print_report(style, data, Table(head, [rows], note.rstrip()))


def _print_comparison(
    names: tuple[str, str], found: "Evaluation", other: "Evaluation", style: str
) -> None:
    """The difference of the first measure of two evaluations, its interval and a test."""
    from solar.evaluation.result import compare, mean_name

    measure = found.headline
    differences, rows = {}, []
    for level in found.protocols:
        if level in other.protocols and isnan(found.mean(measure, level)):  # no queries
            continue
        one = compare(other, found, measure=measure, protocol=level)
        percent = {k: 100 * v for k, v in asdict(one).items() if k != "p"}
        differences[level] = {**percent, "p": one.p}
        rows.append(
            [
                "" if level == "all" else level,
                f"{100 * found.mean(measure, level):.2f}",
                f"{100 * other.mean(measure, level):.2f}",
                f"{percent['difference']:+.2f}",
                f"{percent['low']:+.2f} to {percent['high']:+.2f}",
                f"{one.p:.4f}",
            ]
        )
    head = [[""], *([name] for name in names), ["difference"], ["95 %"], ["p"]]
    note = (
        f"{mean_name(measure)} in percent on {len(found.queries)} queries; p: probability "
        f"of a difference this large by chance alone (paired permutation test). {found.convention}"
    )
    data = {
        "model": found.to_dict(),
        "against": other.to_dict(),
        "difference": {**differences.pop("all", {}), **differences},
    }
    print_report(style, data, Table(head, [rows], note.rstrip()))
