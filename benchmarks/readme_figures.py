"""Write what the models in the box reach into the README and the results page.

    python benchmarks/readme_figures.py

The figures are those of `src/solar/weights/*.json`, which `benchmarks/cards.py` measures; they
stand between the `models` marks. Where nothing was measured on real photos yet, those of the toy
landmarks are shown.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from marked import fill

from solar import weights

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "results.md")
MARK = "models"
# What to show of each task, the best that was measured first: set, measure, and what to call it.
PHOTOS = (
    ("landmarks", "mAP", "landmarks val, mAP"),
    ("landmarks + distractors", "mAP", "+ distractors"),
    ("buildings", "mAP", "buildings val, mAP"),
    ("buildings + distractors", "mAP", "+ distractors"),
)
PATCHES = (
    ("affine", "matching", "affine sequences, matching mAP"),
    ("affine", "verification", "verification"),
    ("affine", "retrieval", "retrieval"),
)
TOY = {
    "retrieval": ("toy", "mAP", "toy landmarks, mAP"),
    "patches": ("toy", "matching", "toy, mAP"),
}
BESIDE = {"teacher": "its teacher + GeM", "rootsift": "RootSIFT"}

Facts = Mapping[str, Any]


def render(every: Mapping[str, Facts]) -> str:
    """A table of the models for photos, and one of those for patches, as Markdown.

    Args:
        every: By name, what `NAME.json` says.
    """
    tables = []
    for task, wanted in (("retrieval", PHOTOS), ("patches", PATCHES)):
        of = {name: facts for name, facts in every.items() if facts["task"] == task}
        tables.append(_table(of, wanted, TOY[task]))
    return "\n\n".join(tables) + "\n"


def _table(of: Mapping[str, Facts], wanted: Any, toy: tuple[str, str, str]) -> str:
    shown = [one for one in wanted if all(one[0] in facts["figures"] for facts in of.values())]
    columns = shown or [toy]
    rows = {f"**{name}**": facts["figures"] for name, facts in of.items()}
    for facts in of.values():
        rows |= {BESIDE[name]: figures for name, figures in facts["beside"].items()}
    lines = [["in the box", *(title for _, _, title in columns), "MB", "command"]]
    lines.append(["---", *["---:"] * (len(columns) + 1), "---"])
    for name, figures in rows.items():
        facts = of.get(name.strip("*"), {})
        cells = [_cell(figures, place, measure) for place, measure, _ in columns]
        size = f"{facts['file']['bytes'] / 1e6:.1f}" if facts else ""
        lines.append([name, *cells, size, f"`{facts['command']}`" if facts else "the same"])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(figures: Mapping[str, Mapping[str, float]], place: str, measure: str) -> str:
    value = figures.get(place, {}).get(measure)
    return "" if value is None else f"{value:.1f}"


def main() -> None:
    """Write the tables into the pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.parse_args()
    content = render({name: weights.facts(name) for name in weights.NAMES})
    for page in PAGES:
        page.write_text(fill(page.read_text(encoding="utf-8"), MARK, content), encoding="utf-8")


if __name__ == "__main__":
    main()
