"""Plots: what is drawn, not how it looks."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import polars as pl
import pytest
from matplotlib.figure import Figure
from PIL import Image

from drawing import collected
from tbd_trace.errors import CannotAnswerError, UsageError
from tbd_trace.present import plot as plots
from tbd_trace.present.values import NULL
from tbd_trace.query import Plot

UNITS: dict[str, str | None] = {"period_ns": "ns", "busy_ns": "ns", "share_pct": "%"}
NAMES = {"a1": "one/profile.sqlite", "b2": "two/profile.sqlite"}


@pytest.fixture
def iterations() -> pl.DataFrame:
    rows = [
        {
            "trace_id": trace,
            "iteration": number,
            "period_ns": scale * (20_000_000 + number),
            "busy_ns": None if number == 3 else scale * 15_000_000,
            "share_pct": 75.0,
            "kernel_name": f"kernel<{number}>" + "x" * 90,
        }
        for trace, scale in (("a1", 1), ("b2", 2))
        for number in range(5)
    ]
    return pl.DataFrame(rows)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Collect the figures that are saved."""
    return collected(monkeypatch)


def render(frame: pl.DataFrame, plot: Plot, form: str = "svg") -> bytes:
    return plots.render(
        frame, plot, title="Iteration timing", form=form, units=UNITS, trace_names=NAMES
    )


def one(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(pl.col("trace_id") == "a1")


def test_line_draws_every_value_in_a_unit_that_reads_well(
    iterations: pl.DataFrame, drawn: list[Figure]
) -> None:
    render(one(iterations), Plot("line", "iteration", ["period_ns", "busy_ns"]))
    (axes,) = drawn[0].axes
    period, busy = axes.lines
    assert list(period.get_xdata()) == [0, 1, 2, 3, 4]
    assert list(period.get_ydata()) == pytest.approx([20 + n / 1e6 for n in range(5)])
    values = [float(value) for value in busy.get_ydata()]
    assert values[3] != values[3], "NULL is a gap, not a zero"
    assert values[:3] == [15.0, 15.0, 15.0]
    assert axes.get_ylabel() == "ms"
    assert axes.get_xlabel() == "iteration"
    assert axes.get_ylim()[0] == 0
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["period", "busy"]
    assert axes.get_title(loc="left") == "one/profile.sqlite"
    assert drawn[0].get_suptitle() == "Iteration timing"


def test_single_column_labels_its_axis_and_needs_no_legend(
    iterations: pl.DataFrame, drawn: list[Figure]
) -> None:
    render(one(iterations), Plot("line", "iteration", ["period_ns"], title="My title"))
    (axes,) = drawn[0].axes
    assert axes.get_ylabel() == "period (ms)"
    assert axes.get_legend() is None
    assert drawn[0].get_suptitle() == "My title"


def test_traces_are_drawn_apart_on_the_same_scale(
    iterations: pl.DataFrame, drawn: list[Figure]
) -> None:
    render(iterations, Plot("line", "iteration", ["period_ns"]))
    first, second = drawn[0].axes
    assert [axes.get_title(loc="left") for axes in (first, second)] == list(NAMES.values())
    assert first.get_ylim() == second.get_ylim()
    assert first.get_ylim()[1] >= 40
    assert max(first.lines[0].get_ydata()) == pytest.approx(20.000004)


def test_traces_as_series_share_one_panel(iterations: pl.DataFrame, drawn: list[Figure]) -> None:
    render(iterations, Plot("scatter", "iteration", ["share_pct"], series="trace_id"))
    (axes,) = drawn[0].axes
    assert [line.get_label() for line in axes.lines] == list(NAMES.values())
    assert {line.get_linestyle() for line in axes.lines} == {"None"}


def test_lying_bars_name_kernels_shortened_and_keep_their_order(
    iterations: pl.DataFrame, drawn: list[Figure]
) -> None:
    render(one(iterations), Plot("barh", "kernel_name", ["period_ns"], limit=3))
    (axes,) = drawn[0].axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert [re.findall(r"<(\d)>", label) for label in labels] == [["0"], ["1"], ["2"]]
    assert all(len(label) <= 48 for label in labels)
    assert axes.yaxis_inverted()
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([20, 20.000001, 20.000002])
    assert axes.get_xlabel() == "period (ms)"


def test_names_that_look_alike_when_shortened_keep_their_own_bars(drawn: list[Figure]) -> None:
    names = ["f" * 40 + str(number) + "g" * 40 for number in range(2)]
    render(
        pl.DataFrame({"name": names, "share_pct": [1.0, 2.0]}), Plot("barh", "name", ["share_pct"])
    )
    (axes,) = drawn[0].axes
    assert len({bar.get_y() for bar in axes.patches}) == 2


def test_stacked_bars_stand_on_each_other(drawn: list[Figure]) -> None:
    frame = pl.DataFrame({"trace_id": ["a1", "b2"], "busy_ns": [6e6, None], "idle_ns": [2e6, 3e6]})
    render(frame, Plot("stacked_bar", "trace_id", ["busy_ns", "idle_ns"]))
    (axes,) = drawn[0].axes
    idle = axes.containers[1]
    assert [bar.get_y() for bar in idle] == pytest.approx([6e6, 0])
    assert [label.get_text() for label in axes.get_xticklabels()] == list(NAMES.values())
    assert axes.get_ylim()[1] >= 8e6


def test_lying_bars_of_series_are_stacked(drawn: list[Figure]) -> None:
    rows = [("conv1", "forward", 3), ("conv1", "backward", 5), ("fc", "forward", 1)]
    frame = pl.DataFrame(rows, schema=["layer", "phase", "share_pct"], orient="row")
    render(frame, Plot("barh", "layer", ["share_pct"], series="phase"))
    (axes,) = drawn[0].axes
    forward, backward = axes.containers
    assert [(bar.get_x(), bar.get_width()) for bar in forward] == [(0, 3), (0, 1)]
    assert [(bar.get_x(), bar.get_width()) for bar in backward] == [(3, 5)]
    assert backward[0].get_y() == forward[0].get_y()


def test_place_that_is_null_is_drawn_as_such(drawn: list[Figure]) -> None:
    frame = pl.DataFrame({"iteration": pl.Series([None], dtype=pl.Int64), "share_pct": [4.0]})
    render(frame, Plot("stacked_bar", "iteration", ["share_pct"]))
    (axes,) = drawn[0].axes
    assert [label.get_text() for label in axes.get_xticklabels()] == [NULL]


def test_grouped_bars_stand_beside_each_other(
    iterations: pl.DataFrame, drawn: list[Figure]
) -> None:
    render(one(iterations), Plot("bar", "iteration", ["period_ns", "busy_ns"]))
    (axes,) = drawn[0].axes
    left, right = (container[0] for container in axes.containers)
    assert left.get_x() + left.get_width() == pytest.approx(right.get_x())


def test_histogram_counts_every_value(iterations: pl.DataFrame, drawn: list[Figure]) -> None:
    render(one(iterations), Plot("histogram", "busy_ns", ["busy_ns"]))
    (axes,) = drawn[0].axes
    assert sum(bar.get_height() for bar in axes.patches) == 4
    assert axes.get_xlabel() == "busy (ms)"
    assert axes.get_ylabel() == "count"


@pytest.mark.slow
def test_forms(iterations: pl.DataFrame) -> None:
    plot = Plot("line", "iteration", ["period_ns"])
    assert ET.fromstring(render(iterations, plot, "svg")).tag.endswith("svg")
    assert Image.open(io.BytesIO(render(iterations, plot, "png"))).width >= 1200
    assert render(iterations, plot, "pdf").startswith(b"%PDF")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["svg", "png"])
def test_same_rows_give_the_same_file(iterations: pl.DataFrame, form: str) -> None:
    plot = Plot("line", "iteration", ["period_ns"])
    assert render(iterations, plot, form) == render(iterations, plot, form)


def test_names_are_not_mathematics(recwarn: pytest.WarningsRecorder) -> None:
    frame = pl.DataFrame(
        {"name": ["$x_{", "\N{CJK UNIFIED IDEOGRAPH-4E2D}"], "share_pct": [1.0, 2.0]}
    )
    assert render(frame, Plot("barh", "name", ["share_pct"]))
    assert not list(recwarn)


@pytest.mark.slow
def test_a_scale_without_values_is_not_drawn(iterations: pl.DataFrame, drawn: list[Figure]) -> None:
    plot = Plot(kind="line", x="iteration", y=[["period_ns"], ["busy_ns", "share_pct"]])
    frame = one(iterations)
    render(frame, plot)
    # One value is enough, and one column of a scale.
    busy = pl.when(pl.col("iteration") == 1).then("busy_ns").alias("busy_ns")
    render(frame.with_columns(busy, share_pct=pl.lit(None, pl.Float64)), plot)
    render(frame.with_columns(busy_ns=None, share_pct=None), plot)
    assert [len(figure.axes) for figure in drawn] == [2, 2, 1]
    assert drawn[-1].axes[0].get_ylabel() == "period (ms)"


def test_nothing_to_draw_is_said() -> None:
    frame = pl.DataFrame(
        {"iteration": [1], "period_ns": [None]}, schema_overrides={"period_ns": pl.Int64}
    )
    with pytest.raises(CannotAnswerError, match="nothing to draw"):
        render(frame, Plot("line", "iteration", ["period_ns"]))


def test_too_many_traces_are_refused() -> None:
    frame = pl.DataFrame({"trace_id": [str(n) for n in range(9)], "iteration": 1, "period_ns": 1})
    with pytest.raises(UsageError, match="room for 8 traces, not 9"):
        render(frame, Plot("line", "iteration", ["period_ns"]))


@pytest.mark.slow
def test_panels_of_a_plot_have_scales_and_labels_of_their_own(drawn: list[Figure]) -> None:
    frame = pl.DataFrame(
        {
            "trace_id": [str(number) for number in range(9)],  # more than there is room for
            "model": [*["bert"] * 2, *["resnet50"] * 7],
            "unit": [*["tokens/s"] * 2, *["images/s"] * 7],
            "framework": [*["pytorch"] * 2, *["mxnet"] * 4, *["pytorch"] * 3],
            "batch_size": [1, 2, 8, 16, 32, 64, 8, 16, 32],
            "throughput": [5000.0, 9000.0, *range(10, 80, 10)],
        }
    )
    plot = Plot("line", "batch_size", ["throughput"], "framework", panels=["model", "unit"])
    render(frame, plot)
    bert, resnet = drawn[0].axes
    titles = [axes.get_title(loc="left") for axes in (bert, resnet)]
    assert titles == ["bert, tokens/s", "resnet50, images/s"]
    assert bert.get_ylim()[1] > 9000
    assert resnet.get_ylim()[1] < 100
    assert bert.get_xlim()[1] < 8
    assert resnet.get_xlim()[1] > 64
    assert bert.get_xlabel() == resnet.get_xlabel() == "batch size"
    assert list(resnet.lines[0].get_xdata()) == [8, 16, 32, 64]
    legends = [
        [text.get_text() for text in axes.get_legend().get_texts()] for axes in (bert, resnet)
    ]
    assert legends == [["pytorch"], ["mxnet", "pytorch"]], "a lone line is named, too"
    assert bert.lines[0].get_color() == resnet.lines[1].get_color() != resnet.lines[0].get_color()


def test_too_many_panels_are_refused() -> None:
    frame = pl.DataFrame({"model": [str(n) for n in range(17)], "iteration": 1, "period_ns": 1})
    with pytest.raises(UsageError, match="room for 16 panels, not 17"):
        render(frame, Plot("line", "iteration", ["period_ns"], panels=["model"]))


def test_extension_is_checked() -> None:
    plots.check_path(Path("x.SVG"))
    with pytest.raises(UsageError, match=r"x\.gif.*\.svg, \.png, \.pdf"):
        plots.check_path(Path("x.gif"))


@pytest.mark.parametrize(("points", "marker"), [(60, "o"), (61, "")])
def test_lines_of_many_points_have_no_markers(
    points: int, marker: str, drawn: list[Figure]
) -> None:
    frame = pl.DataFrame({"iteration": range(points), "period_ns": range(points)})
    render(frame, Plot("line", ["iteration"], ["period_ns"]))
    (line,) = drawn[0].axes[0].lines
    assert line.get_marker() == marker
