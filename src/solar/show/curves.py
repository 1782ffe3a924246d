"""Curves: mAP against the exponent of the pooling, and the learning curves of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solar.errors import SolarError
from solar.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from solar.evaluation.paper.sweep import Sweep

# Okabe and Ito's colours, told apart by every kind of colour vision; markers do without any.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
_MARKERS = ("o", "s", "^", "D")
_TICKS = (1, 2, 3, 5, 10, 20, 50, 100)
_SHOWN = ("medium", "hard")

# The panels; those without values are left out.
_PANELS = (
    ("loss", ("loss", "first_order", "second_order", "first", "second")),
    ("validation, percent", ("mAP", "recall@1", "matching", "FPR95")),
    ("share of photos nearest to their own place", ("accuracy",)),
    ("cosine distance to the teacher", ("places", "pooled")),
    ("squared distance", ("near", "far")),
    ("distance", ("positive_distance", "negative_distance")),
    ("variance of embeddings", ("spread", "pool_similarity")),
    ("learning rate", ("lr",)),
)
_WIDTHS = (3.0, 1.5, 1.5)  # a loss of one part shows under the curve of that part


def plot_sweep(sweeps: Mapping[str, Sequence[Sweep]]) -> Figure:
    """Plot mAP against p: a panel per set and protocol, a curve per model, a star at its own p."""
    make_figure = figure_class()
    panels = [(name, protocol) for name, many in sweeps.items() for protocol in _protocols(many)]
    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    figure = make_figure(figsize=(4.6 * columns + 0.6, 3.1 * rows + 0.9), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis, (name, protocol) in zip(axes.flat, panels, strict=False):
        _panel(axis, sweeps[name], protocol)
        level = "" if protocol == "all" else f", {protocol.capitalize()}"
        axis.set_title(f"{name}{level}", fontsize=11)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    figure.supxlabel(_caption(sweeps), fontsize=9)
    figure.supylabel("mAP in percent", fontsize=10)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False, fontsize=10)
    return figure


def plot_bars(values: Mapping[str, Mapping[str, float]]) -> Figure:
    """Bars of named values by group: a panel per value, as in the paper's figure 6."""
    measures = list(next(iter(values.values())))
    figure = figure_class()(figsize=(3.4 * len(measures), 3.2), layout="constrained")
    axes = figure.subplots(1, len(measures), squeeze=False)[0]
    for axis, measure, colour in zip(axes, measures, _COLOURS, strict=False):
        heights = [each[measure] for each in values.values()]
        axis.bar(list(values), heights, color=colour)
        low, high = min(heights), max(heights)
        axis.set_ylim(max(0, low - 1.5 * (high - low) - 1), high + 0.3 * (high - low) + 0.5)
        axis.tick_params(axis="x", rotation=90)
        axis.set_title(f"{measure}, mAP in percent", fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    return figure


def _caption(sweeps: Mapping[str, Sequence[Sweep]]) -> str:
    every = [one for many in sweeps.values() for one in many]
    swept = sorted({p for one in every for p in one.evaluations})
    lines = [
        f"exponent p of the pooling, from {swept[0]:g} to {swept[-1]:g}",
        "p = 1 is the average, p → ∞ the maximum of each channel",
    ]
    if beyond := sorted({p for one in every for p in one.out_of_range}):
        lines.append(f"from p = {beyond[0]:g} on, photos beyond the range of float32 rank last")
    if any(one.learnt is not None for one in every):
        lines.append("★ the p of the model itself")
    return "\n".join(lines)


def _protocols(many: Sequence[Sweep]) -> list[str]:
    known = many[0].protocols
    return [level for level in known if level in _SHOWN] or known


def _panel(axis: Axes, many: Sequence[Sweep], protocol: str) -> None:
    for one, colour, marker in zip(many, _COLOURS, _MARKERS, strict=False):
        powers = list(one.evaluations)
        values = [100 * found.mean("AP", protocol) for found in one.evaluations.values()]
        label = one.model if one.learnt is None else f"{one.model} (p = {one.learnt:.3g})"
        axis.plot(powers, values, color=colour, marker=marker, ms=4, linewidth=1.6, label=label)
        if one.learnt in powers:
            own = values[powers.index(one.learnt)]
            axis.plot([one.learnt], [own], color=colour, marker="*", markersize=13, zorder=3)
    axis.set_xscale("log")
    low, high = axis.get_xlim()
    ticks = [tick for tick in _TICKS if low <= tick <= high]
    axis.set_xticks(ticks, labels=[str(tick) for tick in ticks])
    axis.minorticks_off()
    axis.grid(axis="y", color="#dddddd", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def plot_learning(metrics: Sequence[dict[str, Any]]) -> Figure:
    """Plot the figures of a run, lines of `metrics.jsonl`, against its steps."""
    curves = {
        name: [(line["step"], line[name]) for line in metrics if line.get(name) is not None]
        for _, names in _PANELS
        for name in names
    }
    known = [(title, [name for name in names if curves[name]]) for title, names in _PANELS]
    panels = [(title, names) for title, names in known if names]
    if not panels:
        raise SolarError("The run has no figures to plot yet.")
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


def figure_class() -> type[Figure]:
    """Matplotlib's Figure; a SolarError if it is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SolarError(
            'Curves are drawn with matplotlib: pip install "solar-retrieval[show]".'
        ) from error
    return Figure
