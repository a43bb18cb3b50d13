"""Heatmaps, bins, rooflines, steady states: what is drawn, not how it looks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from drawing import collected, legend, place_names, render
from tbd_trace.query import Plot
from tbd_trace.query.plot import parse_plot

ROOF = ["peak_flops", "memory_bandwidth_bytes_per_s"]
ROOFLINE_UNITS = {"intensity": "FLOP/byte", "achieved_flops": "FLOP/s"}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    return collected(monkeypatch)


def bars(axes: Any) -> list[tuple[float, float, float]]:
    """Return left edge, width and height of the bars."""
    return [
        (p.get_x(), p.get_width(), p.get_height()) for p in axes.patches if isinstance(p, Rectangle)
    ]


# heatmap


RANKS = Plot("barh", ["job", "rank"], ["times_last"])


@pytest.mark.slow
def test_a_bar_per_rank_is_named_and_has_room(drawn: list[Figure]) -> None:
    rows = [{"job": "run", "rank": rank, "times_last": 1} for rank in range(20)]
    render(pl.DataFrame(rows), RANKS, {})
    assert place_names(drawn[0].axes[0]) == [f"rank {rank}" for rank in range(20)]
    assert drawn[0].get_size_inches()[1] > 5
    render(pl.DataFrame([*rows, {"job": "other", "rank": 0, "times_last": 1}]), RANKS, {})
    assert place_names(drawn[1].axes[0])[-2:] == ["run, rank 19", "other, rank 0"]


def test_bars_can_be_named_by_numbers(drawn: list[Figure]) -> None:
    rows = [{"kind": "all_reduce", "bytes": size, "times_last": 1} for size in (2**33, 8)]
    render(pl.DataFrame(rows), Plot("barh", ["kind", "bytes"], ["times_last"]), {})
    assert place_names(drawn[0].axes[0]) == ["8,589,934,592", "8"]


HEATMAP = Plot(
    "heatmap", "start_ns", ["busy_pct"], ["device_id", "pid"], x_end="end_ns", x_title="time"
)
HEAT_UNITS = {"start_ns": "ns", "busy_pct": "%"}


def test_heatmap_has_a_row_of_cells_per_device(drawn: list[Figure]) -> None:
    rows = [
        {"device_id": d, "pid": 7, "start_ns": 10**6 * n, "end_ns": 10**6 * (n + 1), "busy_pct": v}
        for d, values in ((0, [0.0, 50.0, 100.0]), (1, [10.0, None, 30.0]))
        for n, v in enumerate(values)
    ]
    svg = render(pl.DataFrame(rows), HEATMAP, HEAT_UNITS)
    assert b"<image" not in svg, "shapes, which scale and can be part of a page"
    axes, scale = drawn[0].axes
    first, second = (mesh for mesh in axes.collections if isinstance(mesh, QuadMesh))
    assert first.get_array().ravel().tolist() == [0, 50, 100]
    assert first.get_clim() == second.get_clim() == (0, 100)
    edges = np.asarray(first.get_coordinates())
    assert edges[0, :, 0].tolist() == [0, 1, 2, 3]  # ms
    assert place_names(axes) == ["device 0", "device 1"]
    assert axes.get_xlabel() == "time (ms)"
    assert scale.get_ylabel() == "busy (%)"
    assert axes.yaxis_inverted()


def test_heatmap_of_values_that_are_no_shares_reaches_to_the_largest(drawn: list[Figure]) -> None:
    frame = pl.DataFrame({"start": [0, 1], "end": [1, 2], "level": [3.0, 8.0], "unit": ["a", "a"]})
    render(frame, Plot("heatmap", "start", ["level"], "unit", x_end="end"))
    mesh = next(m for m in drawn[0].axes[0].collections if isinstance(m, QuadMesh))
    assert mesh.get_clim() == (0, 8)


def test_cells_without_an_end_leave_the_plot_to_the_next(drawn: list[Figure]) -> None:
    frame = pl.DataFrame(
        {"iteration": [0, 0], "iteration_end": [None, None], "sequence": [0, 1],
         "sequence_end": [1, 2], "late": [3.0, 4.0], "unit": ["a", "a"]},
        schema_overrides={"iteration_end": pl.Int64},
    )  # fmt: skip
    last = Plot("heatmap", "sequence", ["late"], "unit", x_end="sequence_end")
    first = replace(last, x="iteration", x_end="iteration_end", otherwise=last)
    render(frame, first)
    assert drawn[0].axes[0].get_xlim() == (0, 2)


@pytest.mark.slow
def test_traces_keep_their_own_time_in_heatmaps(drawn: list[Figure]) -> None:
    frame = pl.DataFrame(
        {
            "trace_id": ["a", "b"], "device_id": [0, 0], "pid": [1, 2],
            "start_ns": [0, 0], "end_ns": [1000, 5000], "busy_pct": [1.0, 2.0],
        }
    )  # fmt: skip
    render(frame, HEATMAP, HEAT_UNITS)
    short, long, *_ = drawn[0].axes
    assert short.get_xlim()[1] < long.get_xlim()[1]
    assert short.get_xlabel() == long.get_xlabel() == "time (µs)"
    assert place_names(short) == ["device 0"], "processes of different traces are no series"


# binned


def test_bins_are_drawn_where_they_lie_and_empty_ones_are_left_out(drawn: list[Figure]) -> None:
    frame = pl.DataFrame({"from": [0.0, 10.0, None], "to": [10.0, 20.0, None], "n": [3, 5, 9]})
    render(frame, Plot("binned", "from", ["n"], x_end="to", x_title="occupancy"))
    (axes,) = drawn[0].axes
    assert bars(axes) == [(0, 10, 3), (10, 10, 5)]
    assert axes.get_xlabel() == "occupancy"
    assert axes.get_xscale() == "linear"


def test_bins_on_a_logarithmic_axis_are_divided_as_they_look(drawn: list[Figure]) -> None:
    frame = pl.DataFrame(
        {"from": [1e3, 1e3], "to": [1e5, 1e5], "n": [1, 2], "kind": ["measured", "modelled"]}
    )
    render(
        frame, Plot("binned", "from", ["n"], "kind", x_end="to", log=["x"]), units={"from": "ns"}
    )
    (axes,) = drawn[0].axes
    (left, width, height), second = bars(axes)
    assert (left, left + width, height) == pytest.approx((1e3, 1e4, 1))
    assert second == pytest.approx((1e4, 9e4, 2))
    assert axes.get_xscale() == "log"
    named = axes.xaxis.get_major_formatter()
    assert [named(place, 0) for place in (1e3, 5e4, 1e9)] == ["1 µs", "50 µs", "1 s"]
    assert legend(axes) == ["measured", "modelled"]


def test_a_bin_from_zero_has_a_place_on_a_logarithmic_axis(drawn: list[Figure]) -> None:
    frame = pl.DataFrame({"from": [0.0, 1.0], "to": [1.0, 10.0], "n": [4, 2]})
    render(frame, Plot("binned", "from", ["n"], x_end="to", log=["x"]))
    (zero, one) = bars(drawn[0].axes[0])
    assert zero[0] > 0
    assert zero[0] + zero[1] == pytest.approx(one[0])


@pytest.mark.slow
def test_lists_of_columns_are_drawn_beside_each_other(drawn: list[Figure]) -> None:
    frame = pl.DataFrame(
        {"trace_id": ["a", "b"], "x": [1, 2], "kernels": [10, 40], "total_ns": [5e6, 7e6]}
    )
    units = {"kernels": "kernel", "total_ns": "ns"}
    render(frame, Plot("scatter", "x", [["kernels"], ["total_ns"]]), units)
    count_a, time_a, count_b, time_b = drawn[0].axes
    assert [a.get_ylabel() for a in (count_a, time_a)] == ["kernels", "total (ms)"]
    assert [a.lines[0].get_ydata()[0] for a in (count_a, time_a, count_b, time_b)] == [10, 5, 40, 7]
    assert count_a.get_ylim() == count_b.get_ylim() != time_a.get_ylim()
    assert [a.get_xlabel() for a in (count_a, count_b)] == ["", "x"], "once is enough"


def test_lines_may_have_logarithmic_axes(drawn: list[Figure]) -> None:
    frame = pl.DataFrame({"batch_size": [1, 64], "rate": [10.0, 5000.0]})
    render(frame, Plot("line", "batch_size", ["rate"], log=["x", "y"]))
    (axes,) = drawn[0].axes
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert axes.get_ylim()[0] > 0


# the steady state


WINDOW = Plot("line", "iteration", ["period_ns"], ["pid"], window="in_window")


def test_iterations_outside_the_steady_state_are_fainter(drawn: list[Figure]) -> None:
    frame = pl.DataFrame(
        {
            "iteration": range(6),
            "pid": 1,
            "period_ns": [9, 5, 4, 4, 4, 8],
            "in_window": [False, False, True, True, True, False],
        }
    )
    render(frame, WINDOW)
    (axes,) = drawn[0].axes
    faint, solid = axes.lines
    assert faint.get_ydata().tolist() == [9, 5, 4, 4, 4, 8]
    assert (faint.get_alpha() or 1) < (solid.get_alpha() or 1)
    shown = [float(value) for value in solid.get_ydata()]
    assert [value for value in shown if math.isfinite(value)] == [4, 4, 4]
    (span,) = bars(axes)
    assert span[:2] == (1.5, 3)
    assert legend(axes) == ["period", "steady state"]


def test_without_a_steady_state_all_iterations_are_drawn_alike(drawn: list[Figure]) -> None:
    frame = pl.DataFrame({"iteration": [0, 1], "pid": 1, "period_ns": [2, 3], "in_window": False})
    render(frame, WINDOW)
    (axes,) = drawn[0].axes
    (line,) = axes.lines
    assert line.get_ydata().tolist() == [2, 3]
    assert bars(axes) == []


@pytest.mark.parametrize(
    ("column", "unit", "labels"),
    [
        ("workers", None, ["2 workers", "16 workers"]),
        ("bandwidth_gbit", "Gbit/s", ["2 Gbit/s", "16 Gbit/s"]),
        ("group_size", None, ["group size 2", "group size 16"]),
        ("rank", None, ["rank 2", "rank 16"]),
    ],
)
def test_a_number_in_the_legend_has_a_name(
    drawn: list[Figure], column: str, unit: str | None, labels: list[str]
) -> None:
    frame = pl.DataFrame({"x": [1, 2], "y": [3, 4], column: [2, 16]})
    render(frame, Plot("line", "x", ["y"], column), {column: unit})
    assert legend(drawn[0].axes[0]) == labels


def test_a_number_and_a_text_in_the_legend(drawn: list[Figure]) -> None:
    frame = pl.DataFrame({"x": [1, 2], "y": [3, 4], "scheme": ["a", "b"], "workers": [2, 4]})
    render(frame, Plot("line", "x", ["y"], ["scheme", "workers"]), {})
    assert legend(drawn[0].axes[0]) == ["a, 2 workers", "b, 4 workers"]


def test_a_line_has_a_band_and_measured_points(drawn: list[Figure]) -> None:
    names = ["x", "y", "low", "high", "measured", "kind"]
    rows = [
        (1, 2.0, 1.5, 2.5, None, "a"),
        (2, 3.0, 2.0, 3.5, 9.0, "a"),
        (1, 1.0, 1.0, 1.0, None, "b"),
        (2, 1.0, 1.0, 1.0, None, "b"),
    ]
    plot = Plot("line", "x", ["y"], "kind", band=["low", "high"], points="measured")
    render(pl.DataFrame(rows, schema=names, orient="row"), plot, {})
    (axes,) = drawn[0].axes
    assert legend(axes) == ["a", "a, measured", "b"]
    _, points, _ = axes.lines
    assert [pair for pair in points.get_xydata().tolist() if pair[1] > 0] == [[2, 9]]
    assert axes.get_ylim()[1] > 9
    band, _ = axes.collections
    corners = band.get_paths()[0].vertices.tolist()
    assert [1, 1.5] in corners and [1, 2.5] in corners
    assert [2, 2.0] in corners and [2, 3.5] in corners


def test_bars_have_no_band() -> None:
    with pytest.raises(TypeError, match="neither band nor points"):
        parse_plot({"kind": "bar", "x": "x", "y": ["y"], "points": "measured"})


# roofline


def roofline(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    names = ["name", "precision", "intensity", "achieved_flops", *ROOF]
    return pl.DataFrame(rows, schema=names, orient="row")


PLOT = Plot(
    "roofline", "intensity", ["achieved_flops"], "precision",
    log=["x", "y"], roof=ROOF, label=["name"],
)  # fmt: skip


@pytest.mark.slow
def test_roofline_draws_points_under_the_roof_of_each_peak(drawn: list[Figure]) -> None:
    rows = [
        ("conv", "fp32", 100.0, 8e12, 1e13, 1e12),
        ("add", "fp32", 0.1, 9e10, 1e13 * (1 + 1e-12), 1e12),  # the same roof but for rounding
        ("gemm", "tensor", 50.0, 4e13, 1e14, 1e12),
    ]
    render(roofline(rows), PLOT, ROOFLINE_UNITS)
    (axes,) = drawn[0].axes
    flat, high, fp32, tensor, *numbered = axes.lines
    assert list(flat.get_xdata()) == pytest.approx([0.1 / 3, 10, 300])
    assert list(flat.get_ydata()) == pytest.approx([1e11 / 3, 1e13, 1e13])
    assert high.get_ydata()[-1] == pytest.approx(1e14)
    assert list(fp32.get_xdata()) == [100, 0.1]
    assert list(fp32.get_ydata()) == [8e12, 9e10]
    assert list(tensor.get_ydata()) == [4e13]
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert [(text.get_text(), text.xy) for text in axes.texts] == [
        ("1", (100, 8e12)), ("2", (0.1, 9e10)), ("3", (50, 4e13)),
    ]  # fmt: skip
    assert legend(axes) == [
        "roof: 10 TFLOP/s, 1 TB/s", "roof: 100 TFLOP/s, 1 TB/s", "fp32", "tensor",
        "1  conv", "2  add", "3  gemm",
    ]  # fmt: skip
    assert len(numbered) == 3
    assert axes.yaxis.get_major_formatter()(1e12, 0) == "1 TFLOP/s"


def test_roofline_leaves_out_what_logarithms_have_no_place_for(drawn: list[Figure]) -> None:
    rows = [
        ("copy", "fp32", 0.0, 0.0, 1e13, 1e12),
        ("unknown", "fp32", 1.0, None, None, None),
        ("conv", "fp32", 100.0, 8e12, None, 1e12),  # no roof, for want of the peak
    ]
    render(roofline(rows), PLOT, ROOFLINE_UNITS)
    (axes,) = drawn[0].axes
    points = next(line for line in axes.lines if line.get_label() == "fp32")
    assert list(points.get_xdata()) == [100]
    assert legend(axes) == ["roof: 10 TFLOP/s, 1 TB/s", "fp32", "1  conv"]
