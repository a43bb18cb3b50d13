"""A report about more traces than a plot has room for, two of which have one name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

import made_nsys
from drawing import undrawn
from html_page import Reader
from tbd_trace.analysis.report.page import Note, Page, Plot, Section, render_page
from tbd_trace.analysis.report.plotter import draw_later
from tbd_trace.analysis.report.report_query import Answer
from tbd_trace.analysis.report.sections import build_page
from tbd_trace.api import Traces
from tbd_trace.store import Database


def section(page: Page, name: str) -> Section:
    return next(found for found in page.sections if found.id == name)


def texts(section: Section, kind: str) -> list[str]:
    return [b.text for b in section.blocks if isinstance(b, Note) and b.kind == kind]


@pytest.fixture(scope="module")
def of_many(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """Return a page about nine traces, and two that have one name."""
    folder = tmp_path_factory.mktemp("many")
    database = Database(folder / "many.duckdb")
    names = [*(f"run{number}" for number in range(9)), "a/same", "b/same"]
    files = []
    for number, name in enumerate(names):
        path = folder / f"{name}.sqlite"
        path.parent.mkdir(exist_ok=True)
        kernels = [made_nsys.kernel(start=1000 * number, end=1000 * number + 500 + number)]
        tables = {"StringIds": made_nsys.strings(), made_nsys.KERNEL: kernels}
        files.append(made_nsys.write(path, tables))
    database.ingest(files)

    def draw(answer: Answer, names: Mapping[str, str], caption: str) -> Callable[[], Plot | Note]:
        # Where there is room, a plot takes longest.
        chosen = draw_later if answer.frame["trace_id"].n_unique() > 8 else undrawn
        return chosen(answer, names, caption)

    return build_page(Traces(database, database.trace_ids()), draw=draw)


@pytest.mark.slow
def test_more_traces_than_a_plot_has_room_for(of_many: Page) -> None:
    said = [text for found in of_many.sections for text in texts(found, "note")]
    assert any("is not drawn" in text and "8 traces" in text for text in said)
    assert of_many.title == "run0, run1, run2 and 8 more"
    reader = Reader(render_page(of_many))
    assert all(f"run{number}" in reader.said() for number in range(9))


@pytest.mark.slow
def test_traces_of_one_name_are_distinguished(of_many: Page) -> None:
    assert len(of_many.trace_names) == 11
    same = {trace for trace, name in of_many.trace_names.items() if name.startswith("same")}
    assert len(same) == 2
    assert {of_many.trace_names[trace] for trace in same} == {f"same {each[:4]}" for each in same}
    compared = section(of_many, "comparison")
    assert "needs iterations" in texts(compared, "missing")[0]


@pytest.mark.slow
def test_a_trace_without_memory_has_no_chapter_about_it(of_many: Page) -> None:
    chapters = {found.id for found in of_many.sections}
    assert "memory-use" not in chapters
    assert "kernels" in chapters
