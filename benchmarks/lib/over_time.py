"""What a server did over time, as curves below one another."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from solar.show.curves import figure_class

Curve = tuple[str, Sequence[float | None], str]
"""Its label, a value for every moment (None where there is none), its colour."""

BLUE, GREEN, RED, GREY = "#0072B2", "#009E73", "#D55E00", "#888888"


def draw(minutes: Sequence[float], panels: Sequence[tuple[str, list[Curve]]], file: Path) -> None:
    """Write an .svg or .png file with a panel for every title and its curves."""
    figure = figure_class()(figsize=(7, 5), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False, sharex=True)[:, 0]
    for axis, (title, curves) in zip(axes, panels, strict=True):
        for label, values, colour in curves:
            known = np.array([np.nan if value is None else value for value in values], float)
            axis.plot(minutes, known, color=colour, lw=1.2, label=label)
        axis.set_title(title, fontsize=10, loc="left")
        axis.set_ylim(bottom=0)
        axis.grid(axis="y", color="#dddddd", linewidth=0.8)
        axis.spines[["top", "right"]].set_visible(False)
        if len(curves) > 1:
            axis.legend(frameon=False, fontsize=8)
    axes[-1].set_xlabel("minutes")
    file.unlink(missing_ok=True)
    figure.savefig(file)
