"""The jobs of `solar evaluate` on photos: measures, comparisons, the paper's tables and figures."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solar.cli.pictures import check_suffix, save_image
from solar.cli.printing import print_report, say, steps
from solar.errors import SolarError
from solar.weights import DEFAULT

if TYPE_CHECKING:
    from solar.evaluation import Evaluation
    from solar.evaluation.evaluation_settings import EvaluationSettings

_BOTH = ("roxford5k", "rparis6k")
_FIGURES = {".png": "png", ".pdf": "pdf", ".svg": "svg"}


@dataclass(frozen=True)
class Request:
    """What every job is told: the set, models as on the command line, how to measure and to print.

    Without a set, a job that can measure several takes both revisited ones.
    """

    what: str | None
    given: Sequence[str]
    against: str | None  # a model to compare with, or the file of an earlier run
    settings: "EvaluationSettings"
    picture: Path | None  # where to save the figure
    style: str

    @property
    def sets(self) -> tuple[str, ...]:
        """What to measure on."""
        return _BOTH if self.what is None else (self.what,)

    def named(self, default: str | None = None) -> dict[str, str]:
        """Name to model, the one to compare with first; the default where none is given."""
        mine = self.given or ([default] if default else [])
        return name_models([*([self.against] if self.against else []), *mine])

    def models(self) -> dict[str, str]:
        """The same for a job that measures one model, and perhaps another beside it."""
        from solar.evaluation.described_photos import needs_model

        if len(self.given) > 1:
            raise SolarError("Give one --model, and another one to compare it with as --against.")
        return self.named(DEFAULT if needs_model(self.what, self.settings) else None)

    def no_picture(self) -> None:
        """Raise a SolarError if a job that draws nothing is told where to save."""
        if self.picture is not None:
            raise SolarError("--output saves a picture: it needs --rankings or --sweep-p.")


def check_style(style: str, per_query: str | None) -> str:
    """A way to print; a SolarError if there is no such one, or it has no place for every query."""
    from solar.evaluation.layout import FORMATS

    if style not in FORMATS:
        raise SolarError(f"There is no format {style!r}: choose {', '.join(FORMATS)}.")
    if per_query == "-" and style != "json":
        raise SolarError("--per-query - needs --json: otherwise name a .csv file.")
    return style


def with_protocol(
    settings: "EvaluationSettings", protocol: str | None, own: Mapping[str, Any], *, other: object
) -> "EvaluationSettings":
    """Settings with those of a protocol; a SolarError if they do not go with what is asked for.

    Args:
        settings: All the others.
        protocol: As on the command line, where it may also be a level of --rankings.
        own: The fields that only protocols have.
        other: Whether rankings, a sweep or a table are asked for.
    """
    from solar.evaluation.collection import PROTOCOLS

    changed = replace(settings, **own)
    if protocol in PROTOCOLS:
        if other:
            raise SolarError(f"--protocol {protocol} takes no --rankings, --sweep-p or --table.")
        return replace(changed, protocol=protocol)
    if changed != settings:
        raise SolarError(
            "--database, --queries, --positions, --radius, --frames, --answerable, -k and "
            f"--predictions go with --protocol {', '.join(PROTOCOLS)}."
        )
    if protocol is not None and not other and protocol not in ("easy", "medium", "hard", "all"):
        raise SolarError(f"There is no protocol {protocol!r}: choose {', '.join(PROTOCOLS)}.")
    return settings


def name_models(models: Sequence[str]) -> dict[str, str]:
    """What to call models: NAME in NAME=MODEL, else the name of the file or of the zoo.

    Returns name to what `solar.load` takes; a SolarError if two have the same name.
    """
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


def measures(request: Request, per_query: str | None, *, interval: bool) -> None:
    """Evaluate one model, and perhaps compare it with another or with an earlier run."""
    from solar.evaluation import Evaluation

    request.no_picture()
    what = _one_set(request)
    models = [*request.models().items()]
    measured_here = models[1:] if request.against else models
    name, mine = measured_here[0] if measured_here else ("features", None)
    found = _measured(what, mine, request.settings)
    if per_query not in (None, "-"):
        found.write_csv(per_query)
    if request.against is None:
        _print_result(found, request.style, interval=interval, per_query=per_query == "-")
        return
    other, of = models[0]
    if of.endswith(".csv"):
        before = Evaluation.read_csv(of)
    else:
        before = _measured(what, of, replace(request.settings, features=None))
    _print_comparison((name, other), found, before, request.style)


def _one_set(request: Request) -> str:
    if request.what is None:
        settings = request.settings
        if settings.protocol and settings.database and settings.queries:
            return ""  # both are where their names say
        raise SolarError("Say what to evaluate: roxford5k, a folder of photos or a ground truth.")
    return request.what


def _measured(what: str, model: str | None, settings: "EvaluationSettings") -> "Evaluation":
    from solar.evaluation import evaluate

    with steps() as progress:
        found = evaluate(what, model=model, settings=settings, progress=progress)
    for name, why in found.failures.items():
        say(f"Skipped {name}: {why}", "yellow")
    return found


def _print_result(found: "Evaluation", style: str, *, interval: bool, per_query: bool) -> None:
    """One evaluation, perhaps with intervals of its first measure."""
    from solar.evaluation.layout import Table, number
    from solar.evaluation.result import mean_name
    from solar.evaluation.significance import interval as bounds

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
        # Programs read the means alone by their names: what they mean goes to people.
        say(found.convention)
    head = [[""], *([name] for name in shown)]
    note = f"{len(found.queries)} queries, in percent. {found.convention}"
    print_report(style, data, Table(head, [rows], note.rstrip()))


def _print_comparison(
    names: tuple[str, str], found: "Evaluation", other: "Evaluation", style: str
) -> None:
    """One evaluation against another: the difference of the first measure, its interval, a test."""
    from solar.evaluation.layout import Table
    from solar.evaluation.result import mean_name
    from solar.evaluation.significance import compare

    measure = found.headline
    differences, rows = {}, []
    for level in found.protocols:
        if level in other.protocols and isnan(found.mean(measure, level)):  # nothing asked at it
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


def paper_table(request: Request, which: str, results: Path | None) -> None:
    """Table 1 or 2 of the paper, or its speed and memory, with what is measured here."""
    from solar.evaluation import speed, tables
    from solar.evaluation.paper import TABLES

    request.no_picture()
    settings, models = request.settings, request.named()
    if which == "speed":
        how: dict[str, Any] = {"size": settings.size, "scales": settings.scales}
        costs = [
            speed.measure_speed(of, name=name, device=settings.device, **how)
            for name, of in models.items()
        ]
        print_report(request.style, speed.to_json(costs), speed.to_table(costs))
        return
    if not which.isdigit() or int(which) not in TABLES:
        raise SolarError(f"There is no table {which!r}: choose 1, 2 or speed.")
    table = TABLES[int(which)]
    found = {} if results is None else tables.read_results(results)
    measured: dict[str, str | None] = dict(models)
    if settings.features is not None:
        if request.what is None or models:
            raise SolarError("--table with --features needs the name of their set, and no --model.")
        measured = {Path(str(settings.features[0])).stem: None}
    if settings.asmk is not None:
        measured = {Path(settings.asmk).stem: None}
    for name, of in measured.items():
        with steps() as progress:
            found[name] = tables.measure_sets(
                request.sets, model=of, settings=settings, progress=progress
            )
    lines = tables.fill(table, found)
    print_report(request.style, tables.to_json(table, lines), tables.to_table(table, lines))


def sweep(request: Request, exponents: str | None) -> None:
    """MAP against the exponent of the pooling, for one model or two."""
    from solar.cli.describe import parse_scales
    from solar.evaluation.sweep import EXPONENTS, sweep_p, to_json, to_table
    from solar.models import retrieval_model

    powers = EXPONENTS if exponents is None else parse_scales(exponents, "--p")
    models, settings = request.models(), request.settings
    if not models:
        raise SolarError("--sweep-p needs a --model.")
    check_suffix(request.picture, _FIGURES)
    networks = {name: retrieval_model(of, device=settings.device) for name, of in models.items()}
    found = {}
    for what in request.sets:
        with steps() as progress:
            found[Path(what).name] = [
                sweep_p(what, network, powers, name=name, settings=settings, progress=progress)
                for name, network in networks.items()
            ]
    if request.picture is not None:
        from solar.files import replacing
        from solar.show.curves import plot_sweep

        style = _FIGURES[request.picture.suffix.lower()]
        with replacing(request.picture) as part:
            plot_sweep(found).savefig(part, format=style, dpi=150)
        say(f"→ {request.picture}")
    print_report(request.style, to_json(found), to_table(found))


def rankings(request: Request, listing: Mapping[str, Any]) -> None:
    """What one model or two list for some queries, chosen as `solar.evaluation.rankings` says."""
    from solar.evaluation.rankings import rankings as listed
    from solar.evaluation.rankings import to_json, to_table

    what, models = _one_set(request), request.models()
    if not models:
        raise SolarError("--rankings needs a --model, and takes another one as --against.")
    check_suffix(request.picture)
    with steps() as progress:
        found = listed(what, models, settings=request.settings, **listing, progress=progress)
    if request.picture is not None:
        from solar.show.ranking_strips import draw_rankings

        save_image(draw_rankings(found), request.picture)
    print_report(request.style, to_json(found), to_table(found))
