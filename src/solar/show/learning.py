"""Learning curves of a run: loss, validation, distances, health."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solar.errors import SolarError
from solar.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# One panel each; a panel whose figures a run does not have is left out.
_PANELS = (
    ("loss", ("loss", "first_order", "second_order", "first", "second")),
    ("validation, percent", ("mAP", "recall@1", "matching", "FPR95")),
    ("cosine distance to the teacher", ("places", "pooled")),
    ("squared distance", ("near", "far")),
    ("distance", ("positive_distance", "negative_distance")),
    ("variance of descriptors", ("spread", "pool_similarity")),
    ("learning rate", ("rate",)),
)
_COLOURS = ("#0072B2", "#D55E00", "#009E73")
_WIDTHS = (3.0, 1.5, 1.5)  # a loss of one part is seen under that part


def plot_learning(metrics: Sequence[dict[str, Any]]) -> Figure:
    """Plot the figures of a run against its steps.

    Args:
        metrics: Lines of `metrics.jsonl`, each with a `step`.

    Raises:
        SolarError: matplotlib is not installed, or there is nothing to plot.
    """
    from solar.show.curves import figure_class

    known = {name for line in metrics for name, value in line.items() if value is not None}
    panels = [(title, [n for n in names if n in known]) for title, names in _PANELS]
    panels = [(title, names) for title, names in panels if names]
    if not panels:
        raise SolarError("The run has no figures to plot yet.")
    figure = figure_class()(figsize=(7, 2.2 * len(panels) + 0.4), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False, sharex=True)[:, 0]
    for axis, (title, names) in zip(axes, panels, strict=True):
        for width, name, colour in zip(_WIDTHS, names, _COLOURS, strict=False):
            points = [(line["step"], line[name]) for line in metrics if line.get(name) is not None]
            marker = "o" if len(points) < 60 else ""
            axis.plot(
                *zip(*points, strict=True),
                color=colour,
                label=name,
                linewidth=width,
                marker=marker,
                ms=3,
            )
        axis.set_title(title, fontsize=10, loc="left")
        axis.grid(axis="y", color="#dddddd", linewidth=0.8)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=8)
    axes[-1].set_xlabel("step")
    return figure


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
