"""The paper's tables with what was measured here below what is published."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solar.errors import SolarError
from solar.evaluation.collection import open_collection
from solar.evaluation.described_photos import model_describer
from solar.evaluation.paper.published import SETS, Column, PaperTable, Results
from solar.evaluation.protocols.asmk import evaluate_asmk
from solar.evaluation.settings import EvaluationSettings
from solar.evaluation.table_text import Table, number
from solar.files import reading

if TYPE_CHECKING:
    from solar.models import RetrievalNet

_MORE = "+1m"


def read_results(folder: str | Path) -> dict[str, Results]:
    """Read what `solar evaluate SET … --json > FOLDER/METHOD/SET.json` has written.

    Returns method to its results; sets are `roxford5k`, `roxford5k+1m`, …. A SolarError if there is
    no such file, or one is not what the command writes.
    """
    found: dict[str, Any] = {}
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
    return found


def measure_sets(
    sets: Sequence[str] = ("roxford5k", "rparis6k"),
    *,
    model: RetrievalNet | str | Path | None = None,
    settings: EvaluationSettings | None = None,
    **options: Any,
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
            raise SolarError(f"{name} is in no table of the paper: leave it out for both sets.")
    found = {}
    with replace(settings or EvaluationSettings(), **options).caching() as given:
        describe = model_describer(sets[0], model, given)
        measured = {"": replace(given, distractors=None)}
        if given.distractors is not None:
            measured[_MORE] = given
        for name in sets:
            for more, how in measured.items():
                if how.method == "asmk":
                    found[f"{name}{more}"] = evaluate_asmk(name, how).to_dict()
                    continue
                described = open_collection(name, describe, how)
                found[f"{name}{more}"] = described.measure(how).to_dict()
    return found


@dataclass(frozen=True)
class Line:
    """A method with its published numbers, those measured here by what was measured, and a note."""

    method: str
    group: str
    published: Results
    measured: Mapping[str, Results]
    note: str = ""


def fill(table: PaperTable, measured: Mapping[str, Results]) -> list[Line]:
    """Put measured results beside the published ones of a table.

    They go by the method's name as printed or the zoo's name of its model, in upper or lower case.
    What matches no row gets one of its own, at the end.
    """
    rest = dict(measured)
    lines = []
    for method in table.methods:
        names = {method.name.casefold(), method.model.casefold()}
        mine = {name: rest.pop(name) for name in [*rest] if name and name.casefold() in names}
        published = table.published(method)
        lines.append(Line(method.name, method.group, published, mine, method.note))
    return lines + [Line(name, "Not in the paper", {}, {name: r}) for name, r in rest.items()]


def to_table(table: PaperTable, lines: Sequence[Line]) -> Table:
    """Render: for each method a row of published numbers, and below it the measured ones."""
    groups = [list(run) for _, run in groupby(lines, key=lambda line: line.group)]
    head = [
        (protocol.capitalize(), SETS[name], measure) for protocol, name, measure in table.columns
    ]
    notes = "".join(f" {line.method}, {line.note}" for line in lines if line.note)
    return Table(
        [("Method",), *head],
        [[row for line in group for row in _rows(table.columns, line)] for group in groups],
        f"Table {table.number} of the paper: {table.title}. "
        f"Published rows first; → marks what was measured here.{notes}",
    )


def _rows(columns: Sequence[Column], line: Line) -> list[list[str]]:
    rows = [_row(line.method, columns, line.published, 1)] if line.published else []
    return rows + [_row(f"→ {name}", columns, r, 2) for name, r in line.measured.items()]


def _row(title: str, columns: Sequence[Column], results: Results, digits: int) -> list[str]:
    found = [results.get(name, {}).get(level, {}).get(what) for level, name, what in columns]
    return [title, *(number(value, digits) for value in found)]


def to_json(table: PaperTable, lines: Sequence[Line]) -> dict[str, Any]:
    """The same for a program: set to protocol to measure, published and measured."""
    return {
        "table": table.number,
        "rows": [
            {
                "method": line.method,
                "published": line.published or None,
                "measured": line.measured,
                **({"note": line.note} if line.note else {}),
            }
            for line in lines
        ],
    }
