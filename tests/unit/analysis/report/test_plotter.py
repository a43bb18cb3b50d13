"""Plotter: a process of its own draws what this one would, and this one where that fails."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from tbd_trace.analysis.report import plotter as plotter_module
from tbd_trace.analysis.report.page import Note, Plot
from tbd_trace.analysis.report.plotter import Plotter, draw_here
from tbd_trace.analysis.report.report_query import Answer
from tbd_trace.query import Catalogue
from tbd_trace.runtime import worker_process

NAMES = {"t": "run"}


def answer(rows: int = 8) -> Answer:
    query = Catalogue().get("iteration_timing")
    times = pl.Series([float(number) for number in range(rows)])
    frame = pl.DataFrame(dict.fromkeys(query.columns, times)).with_columns(
        trace_id=pl.lit("t"), in_window=pl.lit(True)
    )
    return Answer(query, {}, frame)


@pytest.fixture(autouse=True)
def two_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "cpus", lambda: 2)


@pytest.fixture
def drawn_here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the captions of the plots that this process draws, as it goes on."""
    captions: list[str] = []

    def noted(asked: Answer, names: Any, caption: str) -> Plot | Note:
        captions.append(caption)
        return draw_here(asked, names, caption)

    monkeypatch.setattr(plotter_module, "draw_here", noted)
    return captions


def same(plot: Plot | Note, asked: Answer, caption: str = "") -> bool:
    expected = draw_here(asked, NAMES, caption)
    return isinstance(plot, Plot) and plot == expected and plot.frame is asked.frame


@pytest.mark.slow
def test_another_process_draws_the_same(drawn_here: list[str]) -> None:
    asked = [answer(), answer(3)]
    with Plotter() as plotter:
        waiting = [plotter.draw(one, NAMES, f"plot {one.frame.height}") for one in asked]
        plots = [wait() for wait in waiting]
    assert drawn_here == []
    for one, plot in zip(asked, plots, strict=True):
        assert same(plot, one, f"plot {one.frame.height}")


@pytest.mark.slow
def test_why_a_plot_is_not_drawn_comes_back(drawn_here: list[str]) -> None:
    with Plotter() as plotter:
        block = plotter.draw(answer(5000), NAMES, "")()
    assert isinstance(block, Note)
    assert "5,000 rows are too many" in block.text
    assert drawn_here == []


@pytest.mark.slow
def test_what_the_process_does_not_draw_is_drawn_here(drawn_here: list[str]) -> None:
    asked = answer()
    with Plotter() as plotter:
        assert same(plotter.draw(asked, NAMES, "before")(), asked, "before")
        assert plotter._worker is not None
        plotter._worker._process.kill()
        assert same(plotter.draw(asked, NAMES, "after")(), asked, "after")
        assert same(plotter.draw(asked, NAMES, "later")(), asked, "later")
    assert drawn_here == ["after", "later"]


def cannot_start(*_: object, **__: object) -> None:
    raise OSError("no more processes")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        (worker_process, "cpus", lambda: 1),
        (sys, "executable", ""),
        (subprocess, "Popen", cannot_start),
    ],
    ids=["one CPU", "embedded", "no process"],
)
def test_without_another_process_plots_are_drawn_here(
    place: Any,
    name: str,
    value: str | Callable[..., Any],
    drawn_here: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(place, name, value)
    asked = answer()
    with Plotter() as plotter:
        assert same(plotter.draw(asked, NAMES, "here")(), asked, "here")
    assert drawn_here == ["here"]


def test_leaving_early_ends_the_process(drawn_here: list[str]) -> None:
    with pytest.raises(ValueError, match="enough"), Plotter() as plotter:
        assert plotter._worker is not None
        process = plotter._worker._process
        for number in range(3):
            plotter.draw(answer(), NAMES, f"plot {number}")
        raise ValueError("enough")
    assert process.returncode is not None
    plotter._thread.shutdown(wait=True)
    assert drawn_here == []
