"""Curves: mAP against the exponent of the pooling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from solar.errors import SolarError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from solar.evaluation.paper.sweep import Sweep

# Okabe and Ito's colours, told apart by every kind of colour vision; markers do without any.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
_MARKERS = ("o", "s", "^", "D")
_TICKS = (1, 2, 3, 5, 10, 20, 50, 100)
_SHOWN = ("medium", "hard")


def plot_sweep(sweeps: Mapping[str, Sequence[Sweep]]) -> Figure:
    """Plot mAP against p: a panel per set and protocol, a curve per model, a star at its p.

    The sweeps of one or more models come by set. Of the revisited protocols Medium and Hard are
    shown, as in the paper.
    """
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


def _caption(sweeps: Mapping[str, Sequence[Sweep]]) -> str:
    every = [one for many in sweeps.values() for one in many]
    swept = sorted({p for one in every for p in one.evaluations})
    lines = [
        f"exponent p of the pooling, from {swept[0]:g} to {swept[-1]:g}",
        "p = 1 is the average, p → ∞ the maximum of each channel",
    ]
    if beyond := sorted({p for one in every for p in one.out_of_range}):
        shown = ", ".join(f"{p:g}" for p in beyond)
        lines.append(f"left out, beyond the range of float32: p = {shown}")
    if any(one.learnt is not None for one in every):
        lines.append("★ the p of the model itself")
    return "\n".join(lines)


def _protocols(many: Sequence[Sweep]) -> list[str]:
    known = many[0].protocols
    return [level for level in known if level in _SHOWN] or known


def _panel(axis: Axes, many: Sequence[Sweep], protocol: str) -> None:
    for place, (one, colour, marker) in enumerate(zip(many, _COLOURS, _MARKERS, strict=False)):
        powers = list(one.evaluations)
        values = [100 * found.mean("AP", protocol) for found in one.evaluations.values()]
        label = one.model if one.learnt is None else f"{one.model} (p = {one.learnt:.3g})"
        axis.plot(powers, values, color=colour, marker=marker, ms=4, linewidth=1.6, label=label)
        if one.learnt is not None:
            # Lines in the same place take turns.
            dots = (2.0 * place, (2.0, max(2.0, 2.0 * len(many) - 2.0)))
            axis.axvline(one.learnt, color=colour, linestyle=dots, linewidth=1.4)
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


def figure_class() -> type[Figure]:
    """What a figure is made with; a SolarError if matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SolarError(
            'Curves are drawn with matplotlib: pip install "solar-retrieval[show]".'
        ) from error
    return Figure
