"""Write what was measured into the README and the pages of results and of local features.

    python benchmarks/readme_figures.py

Between the `models` marks stand the figures of `src/solar/weights/*.json`, which
`benchmarks/cards.py` measures, in the README those of the model for photos; where nothing was
measured on real photos yet, those of the toy landmarks. Between `twins`, `ablation` and `resnet50`
stand those of `benchmarks/results/*.json`, which `benchmarks/ablation_student.py` and
`benchmarks/ablation.py` measure; between `asmk` and `ranking` those of the scripts of that name.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lib.marked import KEPT, fill, table

from solar import weights

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
RESULTS = ROOT / "docs" / "results.md"
ASMK = ROOT / "docs" / "asmk.md"
RANKING = ROOT / "docs" / "ranking.md"
MARK = "models"
# Settings of the ablation: the file, and what to call it.
ABLATIONS = {
    "ablation-triplet-frozen": "Triplets; attention and whitening learn, as in the paper",
}
# What to show of each task, the best that was measured first: set, measure, and what to call it.
PHOTOS = (
    ("landmarks", "mAP", "landmarks val, mAP"),
    ("landmarks + distractors", "mAP", "+ distractors"),
    ("buildings", "mAP", "buildings val, mAP"),
    ("buildings + distractors", "mAP", "+ distractors"),
)
LOCAL = (("landmarks", "mAP", "ASMK\\*: landmarks val, mAP"), *PHOTOS[1:])
SETS = tuple(place for place, _, _ in PHOTOS)
PLACES = ("landmarks", "buildings")
PATCHES = (
    ("affine", "matching", "affine sequences, matching mAP"),
    ("affine", "verification", "verification"),
    ("affine", "retrieval", "retrieval"),
)
TOY = {
    "local": ("toy", "mAP", "toy landmarks, mAP"),
    "retrieval": ("toy", "mAP", "toy landmarks, mAP"),
    "patches": ("toy", "matching", "toy, mAP"),
}
TASKS = {"retrieval": PHOTOS, "local": LOCAL, "patches": PATCHES}
BESIDE = {
    "rootsift": "RootSIFT",
    "rootsift, ASMK*": "RootSIFT",
}

Facts = Mapping[str, Any]


def render(every: Mapping[str, Facts], tasks: Sequence[str] = tuple(TASKS)) -> str:
    """A table each of the models for photos, local features and patches, as Markdown.

    Args:
        every: By name, what `NAME.json` says.
        tasks: Which of these to show.
    """
    tables = []
    for task in tasks:
        of = {name: facts for name, facts in every.items() if facts["task"] == task}
        tables.append(_table(of, TASKS[task], TOY[task]))
    return "\n\n".join(tables) + "\n"


def _table(of: Mapping[str, Facts], wanted: Any, toy: tuple[str, str, str]) -> str:
    shown = [one for one in wanted if all(one[0] in facts["figures"] for facts in of.values())]
    columns = shown or [toy]
    rows = {f"**`{name}`**": facts["figures"] for name, facts in of.items()}
    for facts in of.values():
        rows |= {BESIDE[name]: own for name, own in facts["beside"].items() if name in BESIDE}
    lines = [["bundled", *(title for _, _, title in columns), "MB", "command"]]
    lines.append(["---", *["---:"] * (len(columns) + 1), "---"])
    said = ""
    for name, figures in rows.items():
        facts = of.get(name.strip("*`"), {})
        cells = [_cell(figures, place, measure) for place, measure, _ in columns]
        size = f"{facts['file']['bytes'] / 1e6:.1f}" if facts else ""
        command = f"`{facts['command']}`" if facts else said
        lines.append([name, *cells, size, "the same" if command == said else command])
        said = command
    return table(lines)


def _cell(figures: Mapping[str, Mapping[str, float]], place: str, measure: str) -> str:
    value = figures.get(place, {}).get(measure)
    return "" if value is None else f"{value:.1f}"


def ablation(name: str, base: str = "GeM", sets: Sequence[str] | None = None) -> str:
    """A table of a file of results: mean, deviation, distance from a network.

    Args:
        name: Of the file in `benchmarks/results`, without its end.
        base: Of the network.
        sets: To show; by default all four.
    """
    path = ROOT / "benchmarks" / "results" / f"{name}.json"
    sets = SETS if sets is None else sets
    lines = [["mAP", *sets], ["---", *["---:"] * len(sets)]]
    lines += [
        [row["network"], *(_compared(row[what], base) for what in sets)]
        for row in json.loads(path.read_text(encoding="utf-8"))["rows"]
    ]
    return table(lines)


def _compared(found: Mapping[str, Any], base: str) -> str:
    said = f"{found['mAP']:.1f}"
    if found["std"] is not None:
        said += f"{KEPT}±{KEPT}{found['std']:.1f}"
    if test := found.get(f"against {base}"):
        low, high = (f"{test[end]:+.1f}".replace("-", "−") for end in ("low", "high"))
        said += f" ({low}{KEPT}to{KEPT}{high})"
    return said


def asmk() -> str:
    """A table of what `benchmarks/asmk.py` wrote: every method."""
    path = ROOT / "benchmarks" / "results" / "asmk.json"
    report = json.loads(path.read_text(encoding="utf-8"))
    places = [title.removesuffix(", mAP") for _, _, title in PHOTOS]
    lines = [["mAP (95 % interval)", *places, "bytes per photo"], ["---", *["---:"] * 5]]
    lines += [
        [
            _method(row["method"]),
            *(_between(row["figures"][place], "mAP", ".1f") for place in SETS),
            f"{row['bytes_a_photo']:,.0f}",
        ]
        for row in report["rows"]
    ]
    return table(lines) + "\n"


def ranking() -> str:
    """A table of what `benchmarks/ranking.py` wrote: every method on every set."""
    sets = ("landmarks", "buildings", "mixed")
    folder = ROOT / "benchmarks" / "results"
    reports = [json.loads((folder / f"ranking-{name}.json").read_text("utf-8")) for name in sets]
    heads = [head for name in sets for head in (f"{name}: mAP", "recall@1")]
    lines = [["", *heads, "seconds"], ["---", *["---:"] * 7]]
    for rows in zip(*(report["rows"] for report in reports), strict=True):
        figures = [f"{row[what]:.1f}" for row in rows for what in ("mAP", "recall@1")]
        lines.append([rows[0]["method"], *figures, f"{rows[1]['seconds']:.2f}"])
    return table(lines) + "\n"


def _method(name: str) -> str:
    kind, _, which = name.partition(" ")
    which = "RootSIFT" if which == "rootsift" else f"`{which}`"
    return f"ASMK\\* with {which}" if kind == "asmk" else f"one embedding, {which}"


def _between(found: Mapping[str, float], what: str, form: str) -> str:
    # Rounded twice, as the figures of the cards are.
    numbers = (round(found[key], 2) for key in (what, "low", "high"))
    value, low, high = (f"{number:{form}}".replace("-", "−") for number in numbers)
    return f"{value}{KEPT}({low}{KEPT}to{KEPT}{high})"


def pages() -> dict[Path, str]:
    """What every page should hold."""
    every = {name: weights.facts(name) for name in weights.NAMES}
    tables = [f"{title}:\n\n{ablation(name, sets=PLACES)}" for name, title in ABLATIONS.items()]
    parts = {
        README: {MARK: render(every, ["retrieval"])},
        ASMK: {"asmk": asmk()},
        RESULTS: {
            MARK: render(every),
            "twins": ablation("twins", sets=PLACES) + "\n",
            "ablation": "\n\n".join(tables) + "\n",
            "resnet50": ablation("ablation", sets=PLACES) + "\n",
        },
        RANKING: {"ranking": ranking()},
    }
    return {page: _filled(page, contents) for page, contents in parts.items()}


def _filled(page: Path, contents: Mapping[str, str]) -> str:
    text = page.read_text(encoding="utf-8")
    for mark, content in contents.items():
        text = fill(text, mark, content)
    return text


def main() -> None:
    """Write the tables into the pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.parse_args()
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
