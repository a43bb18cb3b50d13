"""Open traces and query them: the classes behind ``tbd_trace.open``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from tbd_trace import archive
from tbd_trace import query as queries
from tbd_trace.errors import UsageError
from tbd_trace.query.profile_cache import cache_database, cached
from tbd_trace.store import Database, TraceStore
from tbd_trace.store.selection import Selection

if TYPE_CHECKING:
    import polars as pl

    from tbd_trace.analysis.checks.result import Findings
    from tbd_trace.analysis.diff import Comparison
    from tbd_trace.present.drawn import Drawing
    from tbd_trace.why.memory_result import MemoryVerdict
    from tbd_trace.why.predictions import WhatIf
    from tbd_trace.why.result import Why

DEFAULT_DATABASE = "tbd-trace.duckdb"


@dataclass(frozen=True, slots=True)
class Traces(Selection):
    """Traces of a database or an archive, ready for queries.

    Used as a context manager, it closes the connections of :meth:`connect` at the end.
    """

    _connections: list[duckdb.DuckDBPyConnection] = field(default_factory=list, repr=False)

    def __enter__(self) -> Traces:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections of :meth:`connect`; the traces can be queried again."""
        while self._connections:
            self._connections.pop().close()

    def names(self) -> dict[str, str]:
        """Return short names of the traces by trace id, as in tables and plots."""
        from tbd_trace.present.run_names import run_names  # noqa: PLC0415 - imports polars

        traces = self.database.trace_frame(self.trace_ids).sort("name", "trace_id")
        rows = traces.select("trace_id", "name").rows()
        return run_names(dict(rows))

    def _repr_html_(self) -> str:
        return self.query("trace_info")._repr_html_()

    def query(self, name: str | Path, /, **parameters: object) -> pl.DataFrame:
        """Return the rows of a query; ``docs/reference/queries`` lists columns and units.

        Args:
            name: a query of the package, or the path of a SQL file.
            parameters: the query's parameters, as in ``--set NAME=VALUE``.

        Raises:
            CannotAnswerError: the traces lack data that the query needs.
            UsageError: an unknown query or parameter, or an invalid value.

        >>> traces = tbd_trace.open("data/samples/synthetic_cnn")
        >>> traces.query("iteration_timing", min_confidence=0.5).columns[:3]
        ['trace_id', 'pid', 'iteration']
        """
        return self.run(name, **parameters).frame

    def run(self, name: str | Path, /, **parameters: object) -> queries.Result:
        """Return the rows of a query with their notes; arguments and errors as in :meth:`query`."""
        query = find_query(str(name))
        texts = {key: str(value) for key, value in parameters.items()}
        return queries.execute(self.database, query, self.trace_ids, texts)

    def sql(self, statement: str, /) -> pl.DataFrame:
        """Run a SQL statement on the canonical tables and derived relations of these traces.

        Raises:
            UsageError: the statement is invalid, or would write.

        >>> traces = tbd_trace.open("data/samples/synthetic_cnn")
        >>> traces.sql("SELECT count(DISTINCT name) AS names FROM kernel").item()
        22
        """
        return queries.sql(self.database, statement, self.trace_ids)

    def why(self, **parameters: object) -> Why | MemoryVerdict:
        """Return causes, shares of a step and gains; of memory files what holds their peak.

        Args:
            parameters: those of the query ``why``.

        Raises:
            CannotAnswerError: no trace contains kernels, marked steps on a CPU, or memory.
            UsageError: an unknown parameter, or an invalid value.

        >>> why = tbd_trace.open("data/samples/synthetic_cnn").why()
        >>> why.slowest.causes[0].cause
        'gpu_matmul_no_tensor_core'
        """
        from tbd_trace.analysis import why as answers  # noqa: PLC0415 - imports NumPy: takes time

        texts = {key: str(value) for key, value in parameters.items()}
        return answers.why(self.database, self.trace_ids, texts)

    def whatif(self, *changes: str) -> WhatIf:
        """Return the duration of a step after some changes together, by replay.

        Args:
            changes: ``NAME`` or ``NAME=ARGUMENT``; ``tbd-trace whatif --list`` lists them.

        Raises:
            CannotAnswerError: no trace contains at least three steps.
            UsageError: a change is unknown, or its argument invalid.

        >>> prediction = tbd_trace.open("data/samples/synthetic_cnn").whatif("overlap_copies")
        >>> prediction.step_ns <= prediction.now_step_ns
        True
        """
        from tbd_trace.analysis import why as answers  # noqa: PLC0415 - as above

        return answers.whatif(self.database, self.trace_ids, changes)

    def check(self, *rules: str, **parameters: object) -> Findings:
        """Return the findings of rules, and which rules pass or lack data.

        Args:
            rules: ids such as ``OBS04``, or names; none means all.
            parameters: thresholds, as in ``--set NAME=VALUE``.

        Raises:
            UsageError: a rule or parameter is unknown, or its value invalid.

        >>> tbd_trace.open("data/samples/synthetic_cnn").check("OBS04")
        <Findings: 1 finding (1 warning), 0 passed, 0 not evaluable>
        """
        from tbd_trace.analysis.checks import result  # noqa: PLC0415 - as above

        texts = {key: str(value) for key, value in parameters.items()}
        return result.check(self, rules or None, texts)

    def diff(self, other: Traces, *, min_change_pct: float = 1.0) -> Comparison:
        """Compare another run with this one: is it faster, at the same work, and where?

        Args:
            other: the run to compare; this one is the baseline.
            min_change_pct: smallest change of an iteration that counts, in percent.

        Raises:
            CannotAnswerError: a side has only counters.

        >>> traces = tbd_trace.open("data/samples/synthetic_cnn")
        >>> traces.diff(traces)
        <Comparison: B against A: no change beyond noise, at the same work>
        """
        from tbd_trace.analysis.diff import compare  # noqa: PLC0415 - as above

        return compare(self, other, min_change_pct=min_change_pct)

    def report(self, path: str | os.PathLike[str], title: str = "") -> Path:
        """Write an HTML page about the traces, and return its path.

        Args:
            path: the page, which is replaced; the name ends in ``.html``.
            title: heading, by default the names of the traces.

        Raises:
            UsageError: the name has another extension, or the file cannot be written.
        """
        from tbd_trace.analysis.report.writing import write_report  # noqa: PLC0415 - as above

        return write_report(self, Path(path), title)

    def plot(self, name: str | Path, /, **parameters: object) -> Drawing:
        """Draw a query as its header declares; notebooks show the plot.

        Arguments and errors are those of :meth:`query`.

        Raises:
            UsageError: the query has no plot.

        >>> tbd_trace.open("data/samples/synthetic_cnn").plot("idle_causes")
        <Drawing: Causes of idle time>
        """
        from tbd_trace.present.drawn import draw  # noqa: PLC0415 - imports matplotlib

        return draw(self.run(name, **parameters), self.names())

    def connect(self, *relations: str) -> duckdb.DuckDBPyConnection:
        """Return a DuckDB connection with the canonical tables of these traces.

        Args:
            relations: derived relations to compute, such as ``"op_scope"``.

        >>> with tbd_trace.open("data/samples/synthetic_cnn") as traces:
        ...     connection = traces.connect("iteration")
        ...     connection.execute("SELECT count(*) FROM iteration").fetchone()
        (12,)
        """
        connection = queries.connect(self.database, self.trace_ids)
        cache = queries.RelationCache(self.database, self.trace_ids)
        queries.prepare(connection, relations, cache)
        self._connections.append(connection)
        return connection


def find_query(name: str) -> queries.Query:
    """Return a query by name, or by the path of a SQL file.

    Raises:
        UsageError: there is no such query, or the file's header is not valid.
    """
    path = Path(name)
    if path.suffix == ".sql" or path.is_file():
        return queries.Catalogue().load(path)
    return queries.Catalogue().get(name)


def open_traces(
    *traces: str | os.PathLike[str],
    db: str | os.PathLike[str] | None = None,
    question: queries.Query | None = None,
) -> Traces:
    """Open traces for queries; see :func:`tbd_trace.open`.

    Args:
        question: the only query; a new file is then ingested only in part.
    """
    selectors = [os.fspath(trace) for trace in traces]
    names = [selector for selector in selectors if not _is_there(selector)]
    if selectors and not names:
        return _open_files(selectors, question)
    if len(names) < len(selectors):
        raise UsageError(
            f"{names[0]!r} is not a file; name either files or traces of a database, not both"
        )
    chosen = db if db is not None else os.environ.get("TBD_TRACE_DB") or DEFAULT_DATABASE
    store = _store(os.fspath(chosen), names)
    return Traces(store, store.resolve(names))


def _store(location: str, names: Sequence[str]) -> TraceStore:
    if archive.is_archive(location):
        return open_archive(location)
    database = Database(Path(location))
    if not database.exists():
        what = f"no file or trace {names[0]!r}: " if names else ""
        raise UsageError(what + database.why_missing())
    return database


def open_archive(location: str) -> archive.Archive:
    """Open the archive at a path or URL.

    Raises:
        StoreError: there is none, or it is damaged.
        UsageError: URLs of this kind cannot be read.
    """
    return archive.Archive(location, cache_database().path.with_name("archives"))


def _open_files(selectors: Sequence[str], question: queries.Query | None) -> Traces:
    if any(map(archive.is_archive, selectors)):
        return together(*(_open_selector(selector, question) for selector in selectors))
    return Traces(*cached([Path(file) for file in selectors], question))


def _open_selector(selector: str, question: queries.Query | None) -> Traces:
    if archive.is_archive(selector):
        opened = open_archive(selector)
        return Traces(opened, opened.trace_ids())
    return Traces(*cached([Path(selector)], question))


def together(*opened: Traces) -> Traces:
    """Merge opened traces; duplicates are dropped, the order is kept."""
    return Traces(*archive.merged([(each.database, each.trace_ids) for each in opened]))


def _is_there(path: str) -> bool:
    if archive.is_url(path):
        return True
    try:
        return Path(path).exists()
    except PermissionError:
        return True  # opening it reports the error
    except (OSError, ValueError):  # not a path, for example too long
        return False
