"""Open traces and query them: the classes behind ``tbd_trace.open``."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from tbd_trace import archive
from tbd_trace import query as queries
from tbd_trace.errors import UsageError
from tbd_trace.model.canonical_tables import CATALOGUE, clock_tables, gpu_tables
from tbd_trace.store import Database, TraceStore, identified_files

if TYPE_CHECKING:
    import polars as pl

    from tbd_trace.why.result import WhatIf, Why

DEFAULT_DATABASE = "tbd-trace.duckdb"


def default_database() -> Path:
    """Return the database used when none is named: ``TBD_TRACE_DB``, or one in this directory."""
    return Path(os.environ.get("TBD_TRACE_DB") or DEFAULT_DATABASE)


def cache_database() -> Database:
    """Return the cache of profiler files that were opened without ``ingest``.

    Its directory is ``TBD_TRACE_CACHE``, or ``tbd-trace`` in the user's cache directory.

    Raises:
        UsageError: there is no home directory, and no variable names another directory.
    """
    chosen = os.environ.get("TBD_TRACE_CACHE")
    directory = Path(chosen) if chosen else _user_cache() / "tbd-trace"
    return Database(directory / "cache.duckdb", "TBD_TRACE_CACHE")


def _user_cache() -> Path:
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base)
    try:
        return Path.home() / ".cache"
    except RuntimeError:
        raise UsageError(
            "there is no home directory to keep profiles in; set TBD_TRACE_CACHE to a directory"
        ) from None


@dataclass(frozen=True, slots=True)
class Traces:
    """Traces of a database or an archive, ready for queries.

    Used as a context manager, it closes the connections of :meth:`connect` at the end.
    """

    database: TraceStore  # the database or archive with the traces
    trace_ids: list[str]  # ids of the traces
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

        rows = self.database.trace_frame(self.trace_ids).select("trace_id", "name").rows()
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
        found = find_query(str(name))
        texts = {key: str(value) for key, value in parameters.items()}
        return queries.execute(self.database, found, self.trace_ids, texts)

    def sql(self, statement: str, /) -> pl.DataFrame:
        """Run a SQL statement on the canonical tables and derived relations of these traces.

        Raises:
            UsageError: the statement is invalid, or would write.

        >>> traces = tbd_trace.open("data/samples/synthetic_cnn")
        >>> traces.sql("SELECT count(DISTINCT name) AS names FROM kernel").item()
        22
        """
        return queries.sql(self.database, statement, self.trace_ids)

    def why(self, **parameters: object) -> Why:
        """Return why training is slow: causes, shares of a step and gains by replay.

        Args:
            parameters: those of the query ``why``.

        Raises:
            CannotAnswerError: no trace contains kernels.
            UsageError: an unknown parameter, or an invalid value.

        >>> why = tbd_trace.open("data/samples/synthetic_cnn").why()
        >>> why.slowest.causes[0].cause
        'gpu_matmul_no_tensor_core'
        """
        texts = {key: str(value) for key, value in parameters.items()}
        from tbd_trace.why import answers  # noqa: PLC0415 - imports NumPy, which takes time

        return answers.why(self.database, self.trace_ids, texts)

    def whatif(self, *changes: str) -> WhatIf:
        """Return the duration of a step after some changes together, by replay.

        Args:
            changes: ``NAME`` or ``NAME=ARGUMENT``; ``tbd-trace whatif --list`` lists them.

        Raises:
            CannotAnswerError: no trace contains at least three steps.
            UsageError: a change is unknown, or its argument invalid.

        >>> found = tbd_trace.open("data/samples/synthetic_cnn").whatif("overlap_copies")
        >>> found.step_ns <= found.now_step_ns
        True
        """
        from tbd_trace.why import answers  # noqa: PLC0415 - as above

        return answers.whatif(self.database, self.trace_ids, changes)

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
        return _of_files(selectors, question)
    if len(names) < len(selectors):
        raise UsageError(
            f"{names[0]!r} is not a file; name either files or traces of a database, not both"
        )
    store = _store(os.fspath(db) if db is not None else str(default_database()), names)
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
        UsageError: the URL is of a kind that cannot be read here.
    """
    return archive.Archive(location, cache_database().path.with_name("archives"))


def _of_files(selectors: Sequence[str], question: queries.Query | None) -> Traces:
    archives = {s: open_archive(s) for s in selectors if archive.is_archive(s)}
    if not archives:
        return _ingested_on_the_fly([Path(file) for file in selectors], question)
    return together(
        *(
            Traces(archives[selector], archives[selector].trace_ids())
            if selector in archives
            else _ingested_on_the_fly([Path(selector)], question)
            for selector in selectors
        )
    )


def together(*opened: Traces) -> Traces:
    """Merge opened traces; duplicates are dropped, the order is kept."""
    ids = list(dict.fromkeys(trace_id for traces in opened for trace_id in traces.trace_ids))
    store = opened[0].database
    if any(traces.database.name != store.name for traces in opened):
        parts = [(traces.database, traces.trace_ids) for traces in opened]
        store = archive.CombinedStore(parts, store.derived_directory)
    return Traces(store, ids)


def _is_there(path: str) -> bool:
    if archive.is_url(path):
        return True
    try:
        return Path(path).exists()
    except PermissionError:
        return True  # opening it reports the error
    except (OSError, ValueError):  # not a path, for example too long
        return False


def _ingested_on_the_fly(paths: Sequence[Path], question: queries.Query | None) -> Traces:
    cache = cache_database()
    files = identified_files(paths)
    found = cache.find(files)
    if found is None and question is not None and question.partial:
        cache = _cache_of_a_part(cache, question)
        found = cache.find(files)
    if found is None:
        cache.ingest_identified(files)
        found = [file.trace_id for file in files]
    cache.show_names({file.trace_id: file.file.name for file in files})
    return Traces(cache, list(dict.fromkeys(found)))


def _cache_of_a_part(cache: Database, question: queries.Query) -> Database:
    # Partly ingested files are cached apart from whole ones. A query about times on the GPU also
    # reads the tables that align the GPU's clock with the host's.
    read = queries.canonical_relations(question) - {CATALOGUE}
    tables = sorted(read | clock_tables() if read.issuperset(gpu_tables()) else read)
    name = "-".join(tables)
    columns = None
    if isinstance(question.partial, list):
        columns = sorted(question.partial)
        name += f"-{hashlib.sha256(' '.join(columns).encode()).hexdigest()[:8]}"
    return Database(cache.path.with_name(f"{name}.duckdb"), "TBD_TRACE_CACHE", tables, columns)
