"""The paper's tables with what was measured here below what is published."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from solar.errors import SolarError
from solar.evaluation.collection import model_describer, open_collection
from solar.evaluation.evaluation_settings import EvaluationOptions, EvaluationSettings
from solar.evaluation.layout import Table, number
from solar.evaluation.paper import SETS, Column, PaperTable, Results
from solar.files import reading

if TYPE_CHECKING:
    from solar.models import RetrievalNet

_MORE = "+1m"
_NOT_PUBLISHED = "Not in the paper"


def read_results(folder: str | Path) -> dict[str, Results]:
    """Read what `solar evaluate SET … --json > FOLDER/METHOD/SET.json` has written.

    Args:
        folder: A folder per method, a file per set: `roxford5k.json`, `roxford5k+1m.json`, ….

    Returns:
        Method to its results.

    Raises:
        SolarError: There is no such file, or one is not what the command writes.
    """
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(Path(folder).glob("*/*.json")):
        if path.stem not in SETS:
            raise SolarError(f"{path} is for no set of the tables: name it {' or '.join(SETS)}.")
        wrong = "is not what `solar evaluate … --json` writes"
        with reading(path, wrong, ValueError, KeyError, TypeError):
            content = json.loads(path.read_bytes())
            {protocol: float(content[protocol]["mAP"]) for protocol in ("medium", "hard")}
        found.setdefault(path.parent.name, {})[path.stem] = content
    if not found:
        raise SolarError(f"There is no METHOD/SET.json in {folder}, such as solar/roxford5k.json.")
    return dict(found)


def measure_sets(
    sets: Sequence[str] = ("roxford5k", "rparis6k"),
    *,
    model: RetrievalNet | str | Path | None = None,
    settings: EvaluationSettings | None = None,
    **options: Unpack[EvaluationOptions],
) -> Results:
    """Evaluate one model on the sets of the tables, which is loaded and describes photos once.

    Args:
        sets: `roxford5k`, `rparis6k`, or both.
        model: As `evaluate` takes it.
        settings: How to do it; with distractors, each set is measured with and without them.
        options: Fields of `EvaluationSettings`, in place of those of `settings`.

    Raises:
        SolarError: A set is in no table, or cannot be evaluated.
    """
    for name in sets:
        if name not in SETS or _MORE in name:
            raise SolarError(f"{name} is in no table of the paper: leave it out for all of them.")
    found = {}
    with EvaluationSettings.choose(settings, options).caching() as given:
        describe = model_describer(sets[0], model, given)
        measured = {"": replace(given, distractors=None)}
        if given.distractors is not None:
            measured[_MORE] = given
        for name in sets:
            for more, how in measured.items():
                described = open_collection(name, describe, how)
                found[f"{name}{more}"] = described.measure(how).to_dict()
    return found


@dataclass(frozen=True)
class Line:
    """A method with its published numbers, and those measured here by what was measured."""

    method: str
    group: str
    published: Results
    measured: Mapping[str, Results]


def fill(table: PaperTable, measured: Mapping[str, Results]) -> list[Line]:
    """Put measured results beside the published ones.

    Args:
        table: One of `solar.evaluation.paper.TABLES`.
        measured: By the method's name as printed or the zoo's name of its model, in upper or lower
            case. What matches no row gets one of its own, at the end.
    """
    rest = dict(measured)
    lines = []
    for method in table.methods:
        mine = {n: r for n, r in rest.items() if n.casefold() in _names(method.name, method.model)}
        for name in mine:
            del rest[name]
        lines.append(Line(method.name, method.group, table.published(method), mine))
    lines += [Line(name, _NOT_PUBLISHED, {}, {name: found}) for name, found in rest.items()]
    return lines


def _names(*names: str) -> set[str]:
    return {name.casefold() for name in names if name}


def to_table(table: PaperTable, lines: Sequence[Line]) -> Table:
    """Render: for each method a row of published numbers, and below it the measured ones."""
    groups = [list(run) for _, run in groupby(lines, key=lambda line: line.group)]
    head = [
        (protocol.capitalize(), SETS[name], measure) for protocol, name, measure in table.columns
    ]
    return Table(
        [("Method",), *head],
        [[row for line in group for row in _rows(table.columns, line)] for group in groups],
        f"Table {table.number} of the paper: {table.title}. "
        "Published rows first; → marks what was measured here.",
    )


def _rows(columns: Sequence[Column], line: Line) -> list[list[str]]:
    rows = [[line.method, *_cells(columns, line.published, 1)]] if line.published else []
    return rows + [
        [f"→ {name}", *_cells(columns, found, 2)] for name, found in line.measured.items()
    ]


def _cells(columns: Sequence[Column], results: Results, digits: int) -> list[str]:
    return [number(_value(results, column), digits) for column in columns]


def _value(results: Results, column: Column) -> float | None:
    protocol, name, measure = column
    return results.get(name, {}).get(protocol, {}).get(measure)


def to_json(table: PaperTable, lines: Sequence[Line]) -> dict[str, Any]:
    """The same for a program: set to protocol to measure, published and measured."""
    return {
        "table": table.number,
        "rows": [
            {"method": line.method, "published": line.published or None, "measured": line.measured}
            for line in lines
        ],
    }
