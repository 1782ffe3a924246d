"""The tables, figures and comparisons of `solar evaluate`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solar.cli.pictures import check_suffix, save_image
from solar.cli.printing import describing_and_ranking, print_report
from solar.errors import SolarError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from solar.evaluation import Evaluation

_BOTH = ("roxford5k", "rparis6k")
_FIGURES = {".png": "png", ".pdf": "pdf", ".svg": "svg"}


def name_models(models: Sequence[str]) -> dict[str, str]:
    """What to call models: NAME in NAME=MODEL, else the name of the file or of the zoo.

    Args:
        models: As on the command line.

    Returns:
        Name to what `solar.load` takes, in the same order.

    Raises:
        SolarError: Two have the same name.
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


def print_result(found: "Evaluation", *, style: str, interval: bool, per_query: bool) -> None:
    """One evaluation, perhaps with intervals of mAP."""
    from solar.evaluation.layout import Table, number
    from solar.evaluation.significance import interval as bounds

    data = found.to_dict(per_query=per_query)
    flat = "all" in found.protocols
    means = found.to_dict()
    rows = {"": means} if flat else means
    cells = {
        level: {name: number(value, 2) or "–" for name, value in values.items()}
        for level, values in rows.items()
    }
    if interval:
        for level, values in cells.items():
            if rows[level]["mAP"] is None:
                values["mAP, 95 %"] = "–"
                continue
            low, high = (100 * end for end in bounds(found.protocols[level or "all"]["AP"]))
            (data if flat else data[level])["mAP interval"] = [low, high]
            values["mAP, 95 %"] = f"{low:.2f} to {high:.2f}"
    head = [[""], *([name] for name in next(iter(cells.values())))]
    shown = [[level, *values.values()] for level, values in cells.items()]
    note = f"{len(found.queries)} queries, in percent."
    print_report(style, data, Table(head, [shown], note))


def print_comparison(
    names: tuple[str, str], found: "Evaluation", other: "Evaluation", *, style: str
) -> None:
    """One evaluation against another: the difference of mAP, its interval, and the paired test."""
    from dataclasses import asdict
    from math import isnan

    from solar.evaluation.layout import Table
    from solar.evaluation.significance import compare

    flat = "all" in found.protocols
    differences, rows = {}, []
    for level in found.protocols:
        if level in other.protocols and isnan(found.mean("AP", level)):  # nothing asked at it
            continue
        one = compare(other, found, protocol=level)
        percent = {k: 100 * v for k, v in asdict(one).items() if k != "p"}
        differences[level] = {**percent, "p": one.p}
        rows.append(
            [
                "" if flat else level,
                f"{100 * found.mean('AP', level):.2f}",
                f"{100 * other.mean('AP', level):.2f}",
                f"{percent['difference']:+.2f}",
                f"{percent['low']:+.2f} to {percent['high']:+.2f}",
                f"{one.p:.4f}",
            ]
        )
    head = [[""], *([name] for name in names), ["difference"], ["95 %"], ["p"]]
    note = (
        f"mAP in percent on {len(found.queries)} queries; p: how often chance alone makes a "
        "difference this large (paired permutation test)."
    )
    data = {
        "model": found.to_dict(),
        "against": other.to_dict(),
        "difference": differences["all"] if flat else differences,
    }
    print_report(style, data, Table(head, [rows], note))


def paper_table(
    which: str,
    what: str | None,
    models: Mapping[str, str],
    results: Path | None,
    measuring: Mapping[str, Any],
    *,
    style: str,
) -> None:
    """Table 1 or 2 of the paper, or its speed and memory, with what is measured here."""
    from solar.evaluation import speed, tables
    from solar.evaluation.paper import TABLES

    if which == "speed":
        how = {name: measuring[name] for name in ("size", "scales", "device")}
        costs = [speed.measure_speed(of, name=name, **how) for name, of in models.items()]
        print_report(style, speed.to_json(costs), speed.to_table(costs))
        return
    if not which.isdigit() or int(which) not in TABLES:
        raise SolarError(f"There is no table {which!r}: choose 1, 2 or speed.")
    table = TABLES[int(which)]
    found = {} if results is None else tables.read_results(results)
    given: dict[str, str | None] = dict(models)
    if measuring["features"] is not None:
        if what is None or models:
            raise SolarError("--table with --features takes the set they are of, and no --model.")
        given = {Path(measuring["features"][0]).stem: None}
    for name, of in given.items():
        with describing_and_ranking() as watching:
            sets = _BOTH if what is None else (what,)
            found[name] = tables.measure_sets(sets, model=of, **measuring, **watching)
    lines = tables.fill(table, found)
    print_report(style, tables.to_json(table, lines), tables.to_table(table, lines))


def sweep(
    what: str | None,
    models: Mapping[str, str],
    exponents: Sequence[float] | None,
    picture: Path | None,
    measuring: Mapping[str, Any],
    *,
    style: str,
) -> None:
    """MAP against the exponent of the pooling, for one model or two."""
    from solar.evaluation.sweep import EXPONENTS, sweep_p, to_json, to_table

    if not models:
        raise SolarError("--sweep-p takes a --model.")
    check_suffix(picture, _FIGURES)
    found = {}
    for name in _BOTH if what is None else (what,):
        with describing_and_ranking() as watching:
            found[Path(name).name] = [
                sweep_p(name, of, exponents or EXPONENTS, name=called, **measuring, **watching)
                for called, of in models.items()
            ]
    if picture is not None:
        from solar.show.curves import plot_sweep

        _save_figure(plot_sweep(found), picture)
    print_report(style, to_json(found), to_table(found))


def rankings(
    what: str,
    models: Mapping[str, str],
    picture: Path | None,
    measuring: Mapping[str, Any],
    *,
    style: str,
) -> None:
    """What one model or two list for some queries."""
    from solar.evaluation.rankings import rankings as listed
    from solar.evaluation.rankings import to_json, to_table

    if not models:
        raise SolarError("--rankings takes a --model, and another one as --against to compare.")
    check_suffix(picture)
    with describing_and_ranking() as watching:
        found = listed(what, models, **measuring, **watching)
    if picture is not None:
        from solar.show.ranking_strips import draw_rankings

        save_image(draw_rankings(found), picture)
    print_report(style, to_json(found), to_table(found))


def _save_figure(figure: "Figure", path: Path) -> None:
    from solar.cli.printing import errors
    from solar.files import replacing

    with replacing(path) as part:
        figure.savefig(part, format=_FIGURES[path.suffix.lower()], dpi=150)
    errors().print(f"→ {path}", soft_wrap=True)
