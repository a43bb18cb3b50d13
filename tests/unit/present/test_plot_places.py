"""Which way to draw is taken, and what rows and series are called."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import polars as pl
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

from drawing import collected, legend, place_names, render
from tbd_trace.errors import CannotAnswerError, UsageError
from tbd_trace.query import Plot

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    return collected(monkeypatch)


def busy(*rows: tuple[str, int, int, float]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=["trace_id", "pid", "device_id", "busy"], orient="row")


BUSY = Plot("barh", ["trace_id", "device_id", "pid"], ["busy"])


@pytest.mark.parametrize(
    ("rows", "called"),
    [
        ([("a", 1, 0, 5.0)], ["one"]),
        ([("a", 1, 0, 5.0), ("b", 2, 0, 6.0)], ["one", "two"]),
        ([("a", 1, 0, 5.0), ("a", 1, 1, 6.0)], ["device 0", "device 1"]),
        ([("a", 1, 0, 5.0), ("a", 2, 0, 6.0)], ["pid 1", "pid 2"]),
        (
            [("a", 1, 0, 5.0), ("a", 1, 1, 6.0), ("b", 2, 0, 6.0)],
            ["one, device 0", "one, device 1", "two, device 0"],
        ),
    ],
)
def test_rows_are_called_by_what_tells_them_apart(
    drawn: list[Figure], rows: list[tuple[str, int, int, float]], called: list[str]
) -> None:
    render(busy(*rows), BUSY, names={"a": "one", "b": "two"})
    (axes,) = drawn[0].axes
    assert place_names(axes) == called
    assert [bar.get_width() for bar in axes.patches] == [value for *_, value in rows]


def test_traces_of_one_name_keep_their_own_bars(drawn: list[Figure]) -> None:
    rows = busy(("a", 1, 0, 5.0), ("b", 2, 0, 6.0))
    render(rows, BUSY, names={"a": "x.sqlite", "b": "x.sqlite"})
    assert place_names(drawn[0].axes[0]) == ["x.sqlite a", "x.sqlite b"]


def test_what_long_names_share_is_left_out(drawn: list[Figure]) -> None:
    names = {
        key: f"some_long_directory/many_profiles_{key}_of_a_long_run.sqlite" for key in ("ab", "ac")
    }
    render(busy(("ab", 1, 0, 5.0), ("ac", 2, 0, 6.0)), BUSY, names=names)
    assert place_names(drawn[0].axes[0]) == ["…ab…", "…ac…"]


def test_long_names_that_differ_at_their_ends_are_left_alone(drawn: list[Figure]) -> None:
    names = {key: key + "x" * 30 + ".sqlite" for key in ("ab", "ac")}
    render(busy(("ab", 1, 0, 5.0), ("ac", 2, 0, 6.0)), BUSY, names=names)
    assert place_names(drawn[0].axes[0]) == list(names.values())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["barh", "stacked_barh"])
def test_of_very_many_bars_the_first_are_drawn(drawn: list[Figure], kind: str) -> None:
    frame = pl.DataFrame({"range_name": [f"r{n}" for n in range(5000)], "total_ns": range(5000)})
    render(frame, Plot(kind, "range_name", ["total_ns"]))
    assert place_names(drawn[0].axes[0]) == [f"r{n}" for n in range(100)]
    assert drawn[0].get_figheight() < 40


def test_panels_of_traces_have_whole_names(drawn: list[Figure]) -> None:
    names = {
        key: f"some_long_directory/many_profiles_{key}_of_a_long_run.sqlite" for key in ("ab", "ac")
    }
    render(
        busy(("ab", 1, 0, 5.0), ("ac", 2, 0, 6.0)), Plot("barh", "device_id", ["busy"]), names=names
    )
    assert [axes.get_title(loc="left") for axes in drawn[0].axes] == list(names.values())


@pytest.mark.slow
def test_titles_stay_inside_and_apart(drawn: list[Figure]) -> None:
    names = {key: key * 120 for key in "ab"}
    layers = [f"a layer whose name takes much room {number}" for number in range(30)]
    rows = pl.DataFrame(
        [(trace, layer, 5.0) for trace in names for layer in layers],
        schema=["trace_id", "layer", "busy"],
        orient="row",
    )
    render(rows, Plot("barh", "layer", ["busy"], title="All layers"), names=names)
    figure = drawn[0]
    boxes = {text.get_text(): text.get_window_extent() for text in figure.findobj(Text)}
    for name in names.values():
        assert 0 <= boxes[name].x0 < boxes[name].x1 <= figure.bbox.x1
        assert not boxes[name].overlaps(boxes["All layers"])


@pytest.mark.slow
def test_the_first_way_to_draw_that_has_values_is_taken(drawn: list[Figure]) -> None:
    last = Plot("bar", "device", ["level"])
    middle = Plot("barh", "layer", ["used_pct"], otherwise=last)
    plot = Plot("line", "iteration", ["used_pct"], otherwise=middle)
    columns = {"iteration": pl.Int64, "layer": pl.String, "device": pl.String}
    schema = columns | {"used_pct": pl.Float64, "level": pl.Float64}
    frames = [
        pl.DataFrame([row], schema=schema, orient="row")
        for row in ((3, None, "gpu", 9.0, 1.0), (None, "conv", "gpu", 9.0, 1.0),
                    (None, "conv", "gpu", None, 1.0))
    ]  # fmt: skip
    for frame in frames:
        render(frame, plot)
    line, lying, standing = (figure.axes[0] for figure in drawn)
    assert list(line.lines[0].get_xdata()) == [3]
    assert place_names(lying) == ["conv"]
    assert [bar.get_height() for bar in standing.patches] == [1]
    nothing = pl.DataFrame([(None, None, "gpu", None, None)], schema=schema, orient="row")
    with pytest.raises(CannotAnswerError, match="nothing to draw"):
        render(nothing, plot)


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("nope", "the plot draws nope, which the query does not return; its columns are a, b"),
        ("b", "the plot draws b, which is not numeric"),
    ],
)
def test_what_a_plot_cannot_draw_is_said(column: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        render(pl.DataFrame({"a": [1], "b": ["text"]}), Plot("line", "a", [column]))


def test_kinds_of_evidence_lie_beside_each_other(drawn: list[Figure]) -> None:
    frame = pl.DataFrame(
        {
            "layer": ["conv", "conv", "fc"],
            "evidence": ["counter", "modelled", "counter"],
            "busy_pct": [50.0, 40.0, 2.0],
            "pipe_pct": [55.0, None, None],
        }
    )
    render(frame, Plot("grouped_barh", "layer", ["busy_pct", "pipe_pct"], ["evidence"]))
    (axes,) = drawn[0].axes
    assert legend(axes) == ["counter, busy", "counter, pipe", "modelled, busy"]
    assert all(bar.get_x() == 0 for bar in axes.patches)
    assert len({bar.get_y() for bar in axes.patches if bar.get_width() > 0}) == 4


def test_idle_time_is_grey(drawn: list[Figure]) -> None:
    frame = pl.DataFrame({"name": ["x"], "compute_pct": [70.0], "idle_pct": [30.0]})
    render(frame, Plot("stacked_barh", "name", ["compute_pct", "idle_pct"]))
    compute, idle = drawn[0].axes[0].patches
    assert (compute.get_x(), idle.get_x()) == (0, 70)
    red, green, blue = (to_hex(idle.get_facecolor())[n : n + 2] for n in (1, 3, 5))
    assert red == green == blue
    assert to_hex(compute.get_facecolor()) != to_hex(idle.get_facecolor())


def test_svg_tells_what_it_shows() -> None:
    frame = busy(("a", 1, 0, 5.0), ("b", 2, 0, 6.0))
    svg = ET.fromstring(render(frame, BUSY, names={"a": "<one>", "b": "two"}))
    assert svg.get("role") == "img"
    assert svg.findtext(f"{SVG}title") == "Drawn"
    assert svg.findtext(f"{SVG}desc") == "Horizontal bars of busy by trace."
    by_trace = ET.fromstring(render(frame, Plot("bar", "pid", ["busy"]), names={"a": "<one>"}))
    assert by_trace.findtext(f"{SVG}desc") == "Bars of busy by pid. <one>; b."
