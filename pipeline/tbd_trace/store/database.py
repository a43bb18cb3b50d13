"""The database of traces behind one path.

``tbd-trace.duckdb`` holds views; the rows lie beside it, in ``tbd-trace.traces/<trace id>/``, one
Parquet file per canonical table. A trace is written in a private directory and appears by one
rename: an interrupted ingest leaves nothing, two processes never wait for each other, and what a
reader sees does not change under it.
"""

from __future__ import annotations

import difflib
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import polars as pl

from tbd_trace.errors import InputError, StoreError, UsageError
from tbd_trace.schema import canonical_tables
from tbd_trace.sqltext import file_list
from tbd_trace.store.capture import CaptureFile, capture_files
from tbd_trace.store.views import is_duckdb, write_views
from tbd_trace.store.writer import file_hash, identity, write_trace

# Raised when the canonical tables change, so that files of another layout are not misread.
LAYOUT = "v1"
_STALE_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What became of one profiler file.

    Attributes:
        path: the file.
        trace_id: its trace.
        name: its name in the database.
        status: ``ingested`` or ``already there``.
        format: the format that it was recognised as.
        kernels: number of kernel executions in it.
        notes: what the reader met that a user should know.
    """

    path: Path
    trace_id: str
    name: str
    status: str
    format: str
    kernels: int
    notes: list[str] = field(default_factory=list)


class Database:
    """The traces ingested under one path.

    Args:
        path: the ``.duckdb`` file; it and its Parquet files are made by the first ingest.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.traces_directory = self.path.with_suffix(".traces") / LAYOUT

    def exists(self) -> bool:
        """Tell whether anything was ever ingested here."""
        return self.traces_directory.is_dir()

    def ingest(
        self, paths: Sequence[Path], progress: Callable[[str], None] | None = None
    ) -> list[IngestReport]:
        """Ingest profiler files and capture directories; a file that is there already is kept.

        Args:
            paths: profiler files or capture directories.
            progress: called with a short text as the work goes on.

        Returns:
            One report per profiler file, in order.

        Raises:
            InputError: a file is no profile or damaged; earlier files stay ingested.
            StoreError: the database cannot be written.
        """
        say = progress or (lambda _text: None)
        files = [file for path in paths for file in capture_files(Path(path))]
        self._prepare()
        reports = [self._ingest_file(file, say) for file in files]
        write_views(self)
        return reports

    def _ingest_file(self, file: CaptureFile, say: Callable[[str], None]) -> IngestReport:
        if file.path.is_dir():
            raise InputError(
                f"{file.path}: a directory without capture.json; name the profiler file in it"
            )
        sha256 = file_hash(file.path)
        trace_id = identity(file, sha256)
        target = self.traces_directory / trace_id
        known = target.is_dir()
        if not known:
            known = not write_trace(
                file, trace_id, sha256, target, lambda table: say(f"{file.name}: {table}")
            )
        row = self._trace_frame([trace_id]).row(0, named=True)
        return IngestReport(
            path=file.path,
            trace_id=trace_id,
            name=row["name"],
            status="already there" if known else "ingested",
            format=row["format"],
            kernels=self._kernels(trace_id),
            notes=list(row["notes"]),
        )

    def _kernels(self, trace_id: str) -> int:
        aggregate = self.files("kernel_aggregate", [trace_id])
        single = pl.scan_parquet(self.files("kernel", [trace_id])).select(pl.len())
        total = pl.scan_parquet(aggregate).select(pl.col("instances").sum())
        return int(single.collect().item()) + int(total.collect().item())

    def _prepare(self) -> None:
        if self.path.exists() and not is_duckdb(self.path):
            raise StoreError(f"{self.path}: exists and is no DuckDB database; choose another --db")
        try:
            self.traces_directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"{self.path}: the database cannot be made there ({error.strerror}); "
                "choose another place with --db"
            ) from error
        for entry in self.traces_directory.glob(".*"):
            if entry.is_dir() and time.time() - entry.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(entry, ignore_errors=True)  # left by an ingest that was killed

    def trace_ids(self) -> list[str]:
        """Return the ids of all traces, sorted."""
        if not self.exists():
            return []
        return sorted(
            entry.name
            for entry in self.traces_directory.iterdir()
            if not entry.name.startswith(".") and (entry / "trace.parquet").is_file()
        )

    def files(self, table: str, trace_ids: Iterable[str]) -> list[Path]:
        """Return the Parquet files of a canonical table for some traces."""
        return [self.traces_directory / trace_id / f"{table}.parquet" for trace_id in trace_ids]

    def relation(self, table: str, trace_ids: Sequence[str]) -> str:
        """Return a SELECT of a canonical table limited to some traces."""
        files = self.files(table, trace_ids)
        if not files:
            return canonical_tables()[table].empty_select
        return f"SELECT * FROM read_parquet({file_list(files)})"

    def traces(self) -> pl.DataFrame:
        """Return the ``trace`` table: one row per trace, in the order of ingest."""
        return self._trace_frame(self.trace_ids()).sort("ingested_at", "name", "trace_id")

    def _trace_frame(self, trace_ids: Sequence[str]) -> pl.DataFrame:
        with duckdb.connect() as connection:
            frame: pl.DataFrame = connection.sql(self.relation("trace", trace_ids)).pl()
        return frame

    def resolve(self, selectors: Sequence[str]) -> list[str]:
        """Return the ids of the traces that the selectors name.

        Args:
            selectors: trace ids, unique prefixes of them, or names; none at all means every trace.

        Raises:
            UsageError: a selector names no trace, or several.
        """
        known = self.traces().select("trace_id", "name").rows()
        if not selectors:
            return [trace_id for trace_id, _ in known]
        return list(dict.fromkeys(self._one(selector, known) for selector in selectors))

    def _one(self, selector: str, known: Sequence[tuple[str, str]]) -> str:
        exact = [i for i, name in known if selector in (i, name)]
        found = exact or [i for i, _ in known if len(selector) >= 4 and i.startswith(selector)]
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(f"{selector!r} is ambiguous: {', '.join(found)}; use a trace id")
        close = difflib.get_close_matches(selector, [name for pair in known for name in pair], n=3)
        hint = f"; did you mean {', '.join(close)}?" if close else "; `tbd-trace info` lists them"
        raise UsageError(f"no trace {selector!r} in {self.path}{hint}")

    def remove(self, selectors: Sequence[str]) -> list[str]:
        """Remove traces and return their ids.

        Raises:
            UsageError: a selector names no trace, or several; nothing is removed then.
        """
        if not selectors:
            raise UsageError("name the traces to remove")
        trace_ids = self.resolve(selectors)
        for trace_id in trace_ids:
            shutil.rmtree(self.traces_directory / trace_id)
        return trace_ids
