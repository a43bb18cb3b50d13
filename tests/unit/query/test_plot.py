"""Every metric that people look at rather than read can be drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from fast import one_in
from query_files import MEMORY_METRICS, METRICS, NOT_IN_SAMPLES, OF_JOBS, TORCH_METRICS, each_file
from tbd_trace.errors import UsageError
from tbd_trace.present import plot as plots
from tbd_trace.query import Catalogue
from tbd_trace.query.catalogue import read_query, required_relations
from tbd_trace.query.shared_session import SharedSession
from tbd_trace.store import Database

READ = {
    "collective_ranks": "lists of ranks",
    "iteration_summary": "numbers to read; iteration_timing draws the iterations behind them",
    "job_summary": "one row for each job: whether it is complete",
    "nvtx_kernels": "pairs of a range and a kernel: too many names for a plot",
    "nvtx_projection": "single ranges, thousands of them: a timeline viewer's business",
    "rank_collectives": "calls and lines: texts, not measures",
    "step_work": "amounts in different units; diff compares them",
    "trace_info": "what the trace is: texts, not measures",
}
"""Metric queries without a plot, and why."""


def test_every_query_is_drawn_or_has_a_reason_not_to_be() -> None:
    metrics = Catalogue().metrics()
    assert {query.name for query in metrics if query.plot is None} == READ.keys()


DRAWN = [path for path in METRICS if path.stem not in {*READ, *NOT_IN_SAMPLES}]


@pytest.fixture(scope="module")
def sessions(
    sample_database: Database, memory_sample: Database, torch_sample: Database
) -> Iterator[Callable[[str], SharedSession]]:
    """Yield a function that returns the open session on the sample that answers a query."""
    with ExitStack() as stack:

        @cache
        def opened(database: Database) -> SharedSession:
            return stack.enter_context(SharedSession(database, database.trace_ids()))

        def session(name: str) -> SharedSession:
            if name in TORCH_METRICS:
                return opened(torch_sample)
            return opened(memory_sample if name in MEMORY_METRICS else sample_database)

        yield session


@pytest.mark.slow
@each_file(one_in(4, DRAWN, then_one_in=10))
def test_every_plot_draws_the_sample(sessions: Callable[[str], SharedSession], path: Path) -> None:
    """Draw the rows of each grouping of a query."""
    query = read_query(path)
    assert query.plot is not None
    sources = [query, *required_relations(query.relations)]
    by = next((source.params["by"] for source in sources if "by" in source.params), None)
    choices = [str(choice) for choice in (by.choices or [] if by else []) if choice != OF_JOBS]
    groupings = [{"by": choice} for choice in choices] or [{}]
    for parameters in groupings:
        frame = sessions(query.name).run(query, parameters).frame
        svg = plots.render(
            frame,
            query.plot,
            title=query.title,
            form="svg",
            units={name: column.unit for name, column in query.columns.items()},
            trace_names={},
        )
        assert f"<title>{query.title}</title>" in svg.decode(), parameters


@pytest.mark.parametrize(
    "table",
    ['[plot]\nkind = "line"\nx = "a"', '[plot]\nkind = "line"\nx = 1\ny = ["b"]',
     '[[plot]]\nkind = "line"\nx = "a"\ny = ["b"]\n[[plot]]\nkinds = "line"',
     '[plot]\nkind = "line"\nx = "a"\ny = ["b"]\npanels = "a"',
     '[plot]\nkind = "pie"\nx = "a"\ny = ["b"]', '[plot]\nkind = "heatmap"\nx = "a"\ny = ["b"]'],
)  # fmt: skip
def test_a_plot_that_says_too_little_is_refused(tmp_path: Path, table: str) -> None:
    path = tmp_path / "own.sql"
    path.write_text(f'/*\ntitle = "Own"\n{table}\n*/\nSELECT 1 AS a, 2 AS b')
    with pytest.raises(UsageError, match="invalid header"):
        read_query(path)


def test_several_plots_follow_each_other(tmp_path: Path) -> None:
    path = tmp_path / "own.sql"
    table = '[[plot]]\nkind = "line"\nx = "a"\ny = ["b"]\n'
    path.write_text(f'/*\ntitle = "Own"\n{table}{table.replace("line", "bar")}*/\nSELECT 1')
    first = read_query(path).plot
    assert first is not None
    assert first.otherwise is not None
    assert (first.kind, first.otherwise.kind, first.otherwise.otherwise) == ("line", "bar", None)
