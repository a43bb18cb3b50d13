"""A line with its own axis over bars, and bars of uneven numbers."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from drawing import collected, legend, render
from tbd_trace.errors import UsageError
from tbd_trace.query import Plot
from tbd_trace.query.catalogue import read_query

MIB = 1 << 20
UNITS = {"requested_bytes": "byte", "samples_per_s": "sample/s", "batch_size": "sample"}
PLOT = Plot(
    *("stacked_bar", "batch_size", ["requested_bytes"], "group_name"),
    panels=["sweep"],
    secondary="samples_per_s",
)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    return collected(monkeypatch)


def sweep(name: str, speeds: dict[int, float | None]) -> pl.DataFrame:
    """Return rows as of memory_vs_batch: weights of 10 MiB, feature maps of 2 MiB per sample."""
    rows = [
        {"sweep": name, "batch_size": batch, "group_name": group, "requested_bytes": size * MIB,
         "samples_per_s": speed}
        for batch, speed in speeds.items()
        for group, size in (("weights", 10), ("feature maps", 2 * batch))
    ]  # fmt: skip
    return pl.DataFrame(rows, schema_overrides={"samples_per_s": pl.Float64})


def test_a_line_over_stacked_bars(drawn: list[Figure]) -> None:
    svg = render(sweep("a", {4: 50.0, 8: 80.0, 32: 90.0}), PLOT, UNITS)
    bars, line = drawn[0].axes
    heights = [p.get_height() for p in bars.patches if isinstance(p, Rectangle)]
    assert heights == [10, 10, 10, 8, 16, 64]
    assert [label.get_text() for label in bars.get_xticklabels()] == ["4", "8", "32"]
    for one in line.get_lines():  # the line and its white border
        assert one.get_xydata().tolist() == [[0, 50], [1, 80], [2, 90]]
    assert (bars.get_ylabel(), line.get_ylabel()) == ("requested (MiB)", "samples per s")
    assert line.get_ylim()[0] == 0
    assert line.get_ylim()[1] > 90
    assert legend(bars) == ["weights", "feature maps", "samples per s"]
    assert legend(line) == []
    assert b"with a line of samples per s" in svg


@pytest.mark.slow
def test_labels_do_not_overlap(drawn: list[Figure]) -> None:
    render(sweep("a", {1: 123_456.0, 2: 150_000.0}), PLOT, UNITS)
    bars, line = drawn[0].axes
    renderer = FigureCanvasAgg(drawn[0]).get_renderer()
    second = line.yaxis.get_tightbbox(renderer)
    box = bars.get_legend().get_window_extent(renderer)
    assert second.x1 < box.x0
    assert box.x1 <= drawn[0].bbox.x1


@pytest.mark.slow
def test_unknown_speeds(drawn: list[Figure]) -> None:
    frame = pl.concat([sweep("a", {1: None, 2: 7.0, 4: 9.0}), sweep("b", {1: None, 2: None})])
    render(frame, PLOT, UNITS)
    first, second, line = drawn[0].axes  # b has no axis for a line
    assert line.get_lines()[0].get_xydata().tolist() == [[1, 7], [2, 9]]
    assert legend(first)[-1] == "samples per s"
    assert legend(second) == ["weights", "feature maps"]


def test_consecutive_numbers_keep_their_places(drawn: list[Figure]) -> None:
    render(sweep("a", {4: 1.0, 5: 2.0, 6: 3.0}), PLOT, UNITS)
    bars, line = drawn[0].axes
    centres = {p.get_x() + p.get_width() / 2 for p in bars.patches if isinstance(p, Rectangle)}
    assert sorted(centres) == pytest.approx([4, 5, 6])
    assert line.get_lines()[0].get_xydata().tolist() == [[4, 1], [5, 2], [6, 3]]


def test_headers(tmp_path: Path) -> None:
    path = tmp_path / "own.sql"
    head = 'title = "x"\n[plot]\nkind = "{}"\nx = "a"\ny = ["b"]\nsecondary = "c"\n'
    path.write_text(f"/*\n{head.format('bar')}*/\nSELECT 1 AS a, 2 AS b, 3 AS c")
    plot = read_query(path).plot
    assert plot is not None
    assert plot.columns == {"a", "b", "c"}
    path.write_text(f"/*\n{head.format('line')}*/\nSELECT 1 AS a, 2 AS b, 3 AS c")
    with pytest.raises(UsageError, match="a line plot has no secondary axis"):
        read_query(path)


def test_a_line_of_names(drawn: list[Figure]) -> None:
    frame = sweep("a", {1: 1.0}).with_columns(samples_per_s=pl.lit("fast"))
    with pytest.raises(UsageError, match="draws samples_per_s, which is not numeric"):
        render(frame, PLOT, UNITS)
    assert drawn == []
