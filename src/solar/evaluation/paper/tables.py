"""Tables of the SOLAR paper (ECCV 2020), and what was measured here below each row.

Percent; None where the paper prints a dash. A set with `+1m` has the million distractors, with
`+24` so many others. Below table 1 stands what others have reached since with the paper's network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from solar.errors import SolarError
from solar.evaluation.collection import open_collection
from solar.evaluation.described_photos import model_describer
from solar.evaluation.protocols.asmk import evaluate_asmk
from solar.evaluation.settings import EvaluationSettings
from solar.evaluation.table_text import Table, number
from solar.images import find_photos
from solar.models.zoo import GLDV2_OVERLAP

if TYPE_CHECKING:
    from solar.models import RetrievalNet


Results: TypeAlias = Mapping[str, Mapping[str, Mapping[str, float | None]]]
"""Set to protocol to measure to percent: `results["roxford5k"]["hard"]["mAP"]`. A mean of several
trained networks has its deviation beside it, as `"mAP std"`."""

SETS = {
    "roxford5k": "ROxf",
    "roxford5k+1m": "ROxf+1M",
    "rparis6k": "RPar",
    "rparis6k+1m": "RPar+1M",
}
"""The sets of the tables, and what the tables call them."""

Column: TypeAlias = tuple[str, str, str]  # protocol, set, measure


@dataclass(frozen=True)
class Method:
    """A row of a table: its name as printed, without references, and a value per column."""

    name: str
    group: str  # the heading it stands under
    values: Sequence[float | tuple[float, float] | None]  # or a mean and its deviation
    model: str = ""  # the zoo's name of a published file of it
    recipe: str = ""  # trains it
    note: str = ""

    def is_called(self, name: str) -> bool:
        """Whether a name is the printed one, the model's or the recipe's."""
        known = (self.name, self.model, self.recipe)
        return name.casefold() in (own.casefold() for own in known if own)


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper: columns from left to right, rows from top to bottom."""

    name: str
    title: str
    columns: Sequence[Column]
    methods: Sequence[Method]
    digits: int = 1  # of a published number

    def published(self, method: Method) -> Results:
        """A row by set, protocol and measure."""
        found: dict[str, dict[str, dict[str, float | None]]] = {}
        for (protocol, name, measure), value in zip(self.columns, method.values, strict=True):
            cell = found.setdefault(name, {}).setdefault(protocol, {})
            if isinstance(value, tuple):
                cell[measure], cell[f"{measure} std"] = value
            else:
                cell[measure] = value
        return found

    def find(self, name: str) -> Method | None:
        """The row of this name."""
        return next((method for method in self.methods if method.is_called(name)), None)


_LOCAL, _GLOBAL, _OURS = "Local aggregation", "Global single-pass", "The paper's own"
_SINCE = "Since the paper"
_GEM_SOTA, _SOLAR = "gem-r101-gl18", "solar-r101"

# Table 1 as it is printed: mAP and mP@10 for each of the sets, Medium and then Hard.
_TABLE_1 = """
HesAff-rSIFT-ASMK*      60.4 85.6 45.0 76.0 61.2 97.9 42.0 95.3 36.4 56.7 25.7 42.1 34.5 80.6 16.5 63.4
DELF-ASMK*              65.7 87.9   --   -- 77.1 98.7   --   -- 41.0 57.9   --   -- 54.6 90.9   --   --
DELF-D2R-R-ASMK*        69.9 89.0   --   -- 78.7 99.0   --   -- 45.6 61.9   --   -- 57.7 93.0   --   --
DELF-D2R-R-ASMK* [GL18] 73.3 90.0 61.0 84.6 80.7 99.1 60.2 97.9 47.6 64.3 33.6 53.7 61.3 93.4 29.9 82.4
AlexNet-GeM             43.3 62.1 24.2 42.8 58.0 91.6 29.9 84.6 17.1 26.2  9.4 11.9 29.7 67.6  8.4 39.6
VGG16-GeM               61.9 82.7 42.6 68.1 69.3 97.9 45.4 94.1 33.7 51.0 19.0 29.4 44.3 83.7 19.1 64.9
ResNet101-R-MAC         60.9 78.1 39.3 62.1 78.9 96.9 54.8 93.9 32.4 50.0 12.5 24.9 59.4 86.1 28.0 70.0
ResNet101-SPoC [O]      39.8 61.0 21.5 40.4 69.2 96.7 41.6 92.0 12.4 23.8  2.8  5.6 44.7 78.0 15.3 54.4
ResNet101-CroW          41.4 58.8 22.5 40.5 62.9 94.4 34.1 87.1 13.9 25.7  3.0  6.6 36.9 77.9 10.3 45.1
ResNet101-GeM [O]       45.8 66.2 25.6 45.1 69.7 97.6 46.2 94.0 18.1 31.3  4.7 13.4 47.0 84.9 20.3 70.4
ResNet101-GeM           64.7 84.7 45.2 71.7 77.2 98.1 52.3 95.3 38.5 53.0 19.9 34.9 56.3 89.1 24.7 73.3
ResNet101-GeM+DAME      65.3 85.0 44.7 70.1 77.1 98.4 50.3 94.6 40.4 56.3 22.8 35.6 56.0 88.0 22.0 69.0
ResNet101-GeM+AP        67.5   -- 47.5   -- 80.1   -- 52.5   -- 42.8   -- 23.2   -- 60.5   -- 25.1   --
ResNet101-GeM [SOTA]    67.3 84.7 49.5   -- 80.6 96.7 57.3   -- 44.3 59.7 25.7   -- 61.5 90.7 29.8   --
ResNet101-GeM+SOS       67.6 84.7 50.0 73.1 80.9 96.6 57.6 94.4 44.9 60.1 26.2 42.9 61.9 91.0 30.3 78.9
ResNet101+SOA           68.6 85.7 51.3 74.7 81.4 96.6 58.8 94.6 46.9 62.7 28.3 46.0 63.7 91.9 32.4 80.9
ResNet101+SOLAR         69.9 86.7 53.5 76.7 81.6 97.1 59.2 94.9 47.9 63.0 29.9 48.9 64.5 93.0 33.4 81.6
"""  # noqa: E501 (a row of the paper is a line)
_MODELS = {
    "VGG16-GeM": "gem-vgg16-sfm120k-lw",
    "ResNet101-GeM": "gem-r101-sfm120k-lw",
    "ResNet101-GeM [SOTA]": _GEM_SOTA,
    "ResNet101+SOLAR": _SOLAR,
    "HesAff-rSIFT-ASMK*": "rootsift",
    "DELF-ASMK*": "delf-r50",
}
_RECIPES = {
    "ResNet101-GeM+SOS": "gem-sos-r101-gl18",
    "ResNet101+SOA": "soa45-r101-gl18",
    "ResNet101+SOLAR": "solar-r101-gl18",
}

# mAP of two sets, Medium, all that the authors' README tells.
_HOW = {"how-r18": ("R18-HOW-ASMK*", 75.1, 79.4), "how-r50": ("R50-HOW-ASMK*", 78.3, 80.1)}

# mAP for each of the sets, Medium and then Hard, rounded; mP@10 is not told.
_RETRAINED = (79.7, 67.6, 88.6, 73.2, 60.0, 41.1, 76.2, 51.0)


def _table_1() -> list[Method]:
    found = []
    for line in _TABLE_1.strip().split("\n"):
        name, cells = line[:23].rstrip(), line[23:].split()
        values = [None if cell == "--" else float(cell) for cell in cells]
        group = _LOCAL if "ASMK" in name else _OURS if "+SO" in name else _GLOBAL
        of = _MODELS.get(name, ""), _RECIPES.get(name, "")
        found.append(Method(name, group, values, *of))
    since = [value for mean in _RETRAINED for value in (mean, None)]
    name, note = "ResNet101+SOLAR [GLDv2]", f"retrained by the authors of Token: {GLDV2_OVERLAP}"
    found.append(Method(name, _SINCE, since, "solar-r101-gldv2", note=note))
    for model, (name, oxford, paris) in _HOW.items():
        medium = [oxford, None, None, None, paris, None, None, None]
        found.append(Method(name, _SINCE, [*medium, *[None] * 8], model))
    return found


TABLE_1 = PaperTable(
    "table1",
    "Large-scale image retrieval, mAP and mP@10 in percent",
    [(p, s, m) for p in ("medium", "hard") for s in SETS for m in ("mAP", "mP@10")],
    _table_1(),
)

TABLE_2 = PaperTable(
    "table2",
    "Second-order components, mAP in percent",
    [(p, s, "mAP") for p in ("medium", "hard") for s in ("roxford5k", "rparis6k")],
    [
        Method("ResNet101-GeM [SOTA]", "None (baseline)", (67.3, 80.6, 44.3, 61.5), _GEM_SOTA),
        *(
            Method(name, group, values, recipe=f"{recipe}-r101-gl18")
            for name, group, recipe, values in (
                ("ResNet101-GeM+SOS", "Loss (SOS)", "gem-sos", (67.6, 80.9, 44.9, 61.9)),
                ("ResNet101+SOA4", "Spatial (SOA)", "soa4", (68.2, 81.0, 45.7, 62.3)),
                ("ResNet101+SOA5", "Spatial (SOA)", "soa5", (68.3, 81.3, 45.9, 62.8)),
                ("ResNet101+SOA4,5", "Spatial (SOA)", "soa45", (68.6, 81.4, 46.9, 63.7)),
            )
        ),
        Method(
            *("ResNet101+SOLAR", "Both (SOLAR)", (69.9, 81.6, 47.9, 64.5)),
            *(_SOLAR, _RECIPES["ResNet101+SOLAR"]),
        ),
    ],
)

# FPR95 of networks for patches: the supplement's table. Trained on, tested on.
SCENES = ("liberty", "notredame", "yosemite")
_UBC = """
SOSNet         1.95      0.58      1.25      1.25      2.84      0.87      1.46
SOSNet+        1.31±0.01 0.46±0.04 1.21±0.06 1.07±0.03 2.25±0.03 0.80±0.04 1.138±0.034
SOSNet+, 3     1.22±0.04 0.45±0.03 1.20±0.03 0.96±0.05 2.01±0.10 0.73±0.04 1.065±0.050
SOSNet+, 4     1.27±0.04 0.44±0.03 1.23±0.06 0.99±0.09 2.08±0.01 0.78±0.01 1.130±0.040
SOSNet+, 5     1.26±0.03 0.44±0.02 1.17±0.02 0.99±0.06 2.06±0.04 0.73±0.02 1.108±0.031
SOSNet+, 6     1.30±0.02 0.56±0.05 1.23±0.07 1.59±0.08 2.80±0.05 0.93±0.01 1.380±0.046
SOSNet+, 3,4   1.21±0.02 0.42±0.03 1.15±0.02 1.00±0.01 2.07±0.01 0.75±0.06 1.101±0.040
SOSNet+, 3,5   1.27±0.06 0.45±0.05 1.30±0.02 0.96±0.03 2.19±0.02 0.82±0.01 1.139±0.030
SOSNet+, 4,5   1.22±0.03 0.48±0.01 1.29±0.01 0.97±0.01 2.22±0.04 0.75±0.04 1.130±0.021
SOSNet+, 4,6   1.39±0.02 0.59±0.02 1.59±0.19 1.32±0.03 2.72±0.18 0.89±0.03 1.416±0.077
SOSNet+, 3,4,5 1.32±0.03 0.46±0.02 1.36±0.04 1.02±0.10 2.10±0.06 0.71±0.02 1.147±0.047
"""


def _ubc() -> list[Method]:
    found = []
    for line in _UBC.strip().split("\n"):
        name, cells = line[:15].rstrip(), [cell.split("±") for cell in line[15:].split()]
        values = [(float(c[0]), float(c[1])) if len(c) > 1 else float(c[0]) for c in cells]
        _, plus, layers = name.partition("+")
        label = f"SOSNet+, SOA{layers[2:]}" if layers else name
        layers = layers[2:].replace(",", "") or "none"
        recipe = f"solar-local-{layers}-liberty" if plus else ""
        found.append(Method(label, "" if layers == "none" else "SOA", values, recipe=recipe))
    return found


UBC = PaperTable(
    "ubc",
    "FPR95 on UBC PhotoTour in percent, trained on the first and tested on the second scene",
    [
        *((train, test, "FPR95") for train in SCENES for test in SCENES if test != train),
        ("mean", "", "FPR95"),
    ],
    _ubc(),
    digits=2,
)

TABLES = {table.name: table for table in (TABLE_1, TABLE_2, UBC)}


DISTRACTORS = 1_001_001  # photos in the million distractors of Revisited Oxford and Paris


@dataclass(frozen=True)
class Cost:
    """Cost of describing by a method, as printed: seconds per photo on the device `where`.

    Descriptors of the million distractors are in GB; units of 2³⁰ bytes, judging by SOLAR's.
    """

    name: str
    where: str
    seconds: str
    descriptors: float


COSTS = (
    Cost("DELF-D2R-R-ASMK* [GL18]", "Titan Xp", "> 1.5", 27.6),
    Cost("ResNet101+SOLAR", "Titan Xp", "0.15", 7.7),  # 7.4 % more than GeM
)
"""Section "Speed & Memory Costs" of the paper."""


def measure_sets(
    sets: Sequence[str] = ("roxford5k", "rparis6k"),
    *,
    model: RetrievalNet | str | Path | None = None,
    settings: EvaluationSettings | None = None,
    **options: Any,
) -> Results:
    """Evaluate one model on `roxford5k`, `rparis6k` or both; each photo is described once.

    Model, settings and options are as for `evaluate`. With distractors, each set is measured with
    and without them.
    """
    check_sets(sets)
    found = {}
    with replace(settings or EvaluationSettings(), **options).caching() as given:
        describe = model_describer(sets[0], model, given)
        measured = [replace(given, distractors=None)]
        if given.distractors is not None:
            measured.append(given)
        for name in sets:
            for how in measured:
                if how.method == "asmk":
                    photos = how.distractors
                    others = 0 if photos is None else len(find_photos(str(photos)))
                    found[_among(name, others)] = evaluate_asmk(name, how).to_dict()
                    continue
                described = open_collection(name, describe, how)
                rows = described.distractors
                others = 0 if rows is None else len(rows.rows)
                found[_among(name, others)] = described.measure(how).to_dict()
    return found


def check_sets(sets: Sequence[str]) -> None:
    """A SolarError if the paper's tables lack one of these."""
    there = [name for name in SETS if "+" not in name]
    for name in sets:
        if name not in there:
            raise SolarError(f"{name} is in no table of the paper: choose {' or '.join(there)}.")


def _among(name: str, distractors: int) -> str:
    """A set with so many distractors; "+1m" is the million of the paper alone."""
    if not distractors:
        return name
    return f"{name}+1m" if distractors == DISTRACTORS else f"{name}+{distractors}"


@dataclass(frozen=True)
class Line:
    """A method with its published numbers, and the measured ones by what was measured."""

    method: str
    group: str
    published: Results
    measured: Mapping[str, Results]
    note: str = ""


def fill(table: PaperTable, measured: Mapping[str, Results]) -> list[Line]:
    """Put measured results beside the published ones of a table.

    They go by the method's name as printed or the zoo's name of its model, in upper or lower case.
    The others get rows at the end.
    """
    rest = dict(measured)
    lines = []
    for method in table.methods:
        mine = {name: rest.pop(name) for name in [*rest] if method.is_called(name)}
        published = table.published(method)
        lines.append(Line(method.name, method.group, published, mine, method.note))
    return lines + [Line(name, "Not in the paper", {}, {name: r}) for name, r in rest.items()]


def to_table(table: PaperTable, lines: Sequence[Line]) -> Table:
    """Render: for each method its published numbers, and below them the measured ones."""
    groups = [list(run) for _, run in groupby(lines, key=lambda line: line.group)]
    columns = [*table.columns, *_other_columns(table, lines)]
    head = [
        tuple(part for part in (protocol.title(), _title(name), measure) if part)
        for protocol, name, measure in columns
    ]
    notes = "".join(f" {line.method}, {line.note}" for line in lines if line.note)
    return Table(
        [("Method",), *head],
        [[row for line in group for row in _rows(columns, line, table.digits)] for group in groups],
        f"The paper's {table.name}: {table.title}. "
        f"Published rows first; → marks what was measured here.{notes}",
    )


def _other_columns(table: PaperTable, lines: Sequence[Line]) -> list[Column]:
    """For sets with other distractors than the paper's, the columns of the set without any."""
    measured = {name for line in lines for found in line.measured.values() for name in found}
    return [
        (protocol, more, measure)
        for more in sorted(measured - {name for _, name, _ in table.columns})
        for protocol, name, measure in table.columns
        if name == more.partition("+")[0]
    ]


def _title(name: str) -> str:
    base, _, distractors = name.partition("+")
    if name in SETS or base not in SETS:
        return SETS.get(name, name.title())
    return f"{SETS[base]}+{int(distractors):,}"


def _rows(columns: Sequence[Column], line: Line, digits: int) -> list[list[str]]:
    rows = [_row(line.method, columns, line.published, digits)] if line.published else []
    return rows + [_row(f"→ {name}", columns, r, 2) for name, r in line.measured.items()]


def _row(title: str, columns: Sequence[Column], results: Results, digits: int) -> list[str]:
    found = []
    for level, name, what in columns:
        cell = results.get(name, {}).get(level, {})
        spread = cell.get(f"{what} std")
        text = number(cell.get(what), digits)
        found.append(text if spread is None else f"{text} ± {number(spread, 2)}")
    return [title, *found]


def to_json(table: PaperTable, lines: Sequence[Line]) -> dict[str, Any]:
    """Set to protocol to measure, published and measured."""
    return {
        "table": table.name,
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
