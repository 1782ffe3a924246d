import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from solar.errors import SolarError
from solar.evaluation.paper.sweep import Sweep
from solar.evaluation.result import Evaluation
from solar.show.curves import plot_learning, plot_run, plot_sweep


def swept(
    model: str, learnt: float | None, *levels: str, out_of_range: dict[float, int] | None = None
) -> Sweep:
    evaluations = {
        p: Evaluation(("q",), {level: {"AP": np.array([1 / p])} for level in levels})
        for p in (1.0, 3.0, 10.0)
    }
    return Sweep(model, learnt, evaluations, out_of_range or {})


def test_a_panel_a_set_and_protocol_a_curve_a_model() -> None:
    levels = ("easy", "medium", "hard")
    sweeps = [swept("GeM", 2.9, *levels), swept("SOLAR", None, *levels)]
    figure = plot_sweep({"roxford5k": sweeps, "rparis6k": sweeps})
    titles = [axis.get_title() for axis in figure.axes]
    assert titles == ["roxford5k, Medium", "roxford5k, Hard", "rparis6k, Medium", "rparis6k, Hard"]
    curves = [line for line in figure.axes[0].lines if line.get_marker() in "os"]
    for line in curves:
        np.testing.assert_allclose(line.get_xdata(), [1, 3, 10])
        np.testing.assert_allclose(line.get_ydata(), [100, 100 / 3, 10])
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["GeM (p = 2.9)", "SOLAR"]


def test_the_models_own_exponent_is_a_star_on_its_curve() -> None:
    [axis] = plot_sweep({"photos": [swept("GeM", 3.0, "all")]}).axes
    [star] = [line for line in axis.lines if line.get_marker() == "*"]
    assert list(star.get_xdata()) == [3]
    np.testing.assert_allclose(star.get_ydata(), [100 / 3])


def test_the_axis_says_where_it_ends_and_why() -> None:
    figure = plot_sweep({"photos": [swept("GeM", None, "all", out_of_range={50.0: 1, 100.0: 7})]})
    told = figure.get_supxlabel()
    assert "from 1 to 10\n" in told
    assert "p = 1 is the average, p → ∞ the maximum" in told
    assert "from p = 50 on" in told
    assert "★" not in told
    assert "★" in plot_sweep({"photos": [swept("GeM", 3.0, "all")]}).get_supxlabel()


def test_the_figure_can_be_saved() -> None:
    encoded = io.BytesIO()
    plot_sweep({"photos": [swept("GeM", 3.0, "all")]}).savefig(encoded, format="png")
    assert Image.open(encoded).width > 300


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(SolarError, match=r'pip install "solar-retrieval\[show\]"'):
        plot_sweep({"photos": [swept("GeM", 3.0, "all")]})


pytest.importorskip("matplotlib")
LINES = [
    {"step": 0, "mAP": 20.0},
    {"step": 1, "loss": 0.5, "lr": 1e-6},
    {"step": 2, "loss": None, "lr": 1e-6},
    {"step": 3, "loss": 0.25, "lr": 1e-6, "mAP": 30.0},
]


def test_each_kind_of_figure_has_a_panel_and_gaps_are_left_out() -> None:
    figure = plot_learning(LINES)
    assert [axis.get_title(loc="left") for axis in figure.axes] == [
        "loss",
        "validation, percent",
        "learning rate",
    ]
    (curve,) = figure.axes[0].lines
    assert list(curve.get_xdata()) == [1, 3]


def test_a_run_gets_its_picture(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    path = plot_run(tmp_path)
    assert path is not None
    with Image.open(path) as picture:
        assert picture.format == "PNG"


def test_a_run_without_figures_is_told() -> None:
    with pytest.raises(SolarError, match="figures"):
        plot_learning([{"step": 0, "warning": "none"}])
