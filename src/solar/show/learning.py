"""Learning curves of a run: loss, validation, distances, signs of a collapse."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solar.errors import SolarError
from solar.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# One panel each; a panel whose figures a run does not have, or that never change, is left out.
_PANELS = (
    ("loss", ("loss", "first_order", "second_order", "first", "second")),
    ("validation, percent", ("mAP", "recall@1", "matching", "FPR95")),
    ("share of photos nearest to their own place", ("accuracy",)),
    ("cosine distance to the teacher", ("places", "pooled")),
    ("squared distance", ("near", "far")),
    ("distance", ("positive_distance", "negative_distance")),
    ("variance of descriptors", ("spread", "pool_similarity")),
    ("learning rate", ("lr",)),
)
_COLOURS = ("#0072B2", "#D55E00", "#009E73")
_WIDTHS = (3.0, 1.5, 1.5)  # a loss of one part is seen under that part


def plot_learning(metrics: Sequence[dict[str, Any]]) -> Figure:
    """Plot the figures of a run, lines of `metrics.jsonl`, against its steps."""
    from solar.show.curves import figure_class

    curves = {name: _points(metrics, name) for _, names in _PANELS for name in names}
    known = [(title, [name for name in names if curves[name]]) for title, names in _PANELS]
    known = [(title, names) for title, names in known if names]
    if not known:
        raise SolarError("The run has no figures to plot yet.")
    flat = [title for title, names in known if all(_is_flat(curves[name]) for name in names)]
    panels = [(title, names) for title, names in known if title not in flat] or known
    figure = figure_class()(figsize=(7, 2.2 * len(panels) + 0.4), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False, sharex=True)[:, 0]
    for axis, (title, names) in zip(axes, panels, strict=True):
        for width, name, colour in zip(_WIDTHS, names, _COLOURS, strict=False):
            steps, values = zip(*curves[name], strict=True)
            marker = "o" if len(steps) < 60 else ""
            axis.plot(steps, values, color=colour, label=name, lw=width, marker=marker, ms=3)
        axis.set_title(title, fontsize=10, loc="left")
        axis.grid(axis="y", color="#dddddd", linewidth=0.8)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=8)
    hidden = [(title, names) for title, names in known if (title, names) not in panels]
    constants = [f"{title} {curves[names[0]][0][1]:g} throughout" for title, names in hidden]
    axes[-1].set_xlabel("\n".join(["step", *constants]))
    return figure


def _points(metrics: Sequence[dict[str, Any]], name: str) -> list[tuple[int, float]]:
    return [(line["step"], line[name]) for line in metrics if line.get(name) is not None]


def _is_flat(points: Sequence[tuple[int, float]]) -> bool:
    return len(points) > 1 and len({value for _, value in points}) == 1


def plot_run(folder: str | Path) -> Path | None:
    """Draw a run's learning curves into its folder as `curves.png`; None without matplotlib."""
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        return None
    lines = (Path(folder) / "metrics.jsonl").read_text().splitlines()
    path = Path(folder) / "curves.png"
    figure = plot_learning([json.loads(line) for line in lines])
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120)
    return path
