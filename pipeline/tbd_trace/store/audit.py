"""Find, repair and report impossible rows of a trace before it is published.

Each rule is an SQL file of ``queries/ingest/audit``. Repairs become notes of the trace. Rules
that compare rows read samples of large tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from tbd_trace import resources
from tbd_trace.model.canonical_tables import (
    API_CALL,
    KERNEL,
    CanonicalTable,
    canonical_tables,
    clock_tables,
    event_tables,
    timed_tables,
)
from tbd_trace.sqltext import parquet_relation
from tbd_trace.store.clock import align_clocks
from tbd_trace.store.tables import rewrite, table_files

_RULES = Path("ingest") / "audit"
# Rules that compare rows read about this many rows; larger tables are sampled.
_MOST_ROWS = 100_000
_THIN = 10  # kernels of one stream have to be sorted
# No recording is longer; a table that spans more has an invalid time.
_LONGEST_NS = 30 * 24 * 3600 * 10**9
_LARGEST_NS = 1 << 62
_CERTAIN = "correlation_id IS NOT NULL AND start_ns IS NOT NULL"

Ask = Callable[[str], list[tuple[Any, ...]]]


def rule(name: str) -> str:
    """Return the SQL of a rule."""
    return (resources.queries() / _RULES / f"{name}.sql").read_text(encoding="utf-8")


@cache
def audited_tables() -> frozenset[str]:
    """Return the tables with a rule about their rows."""
    return frozenset(path.stem for path in (resources.queries() / _RULES / "rows").glob("*.sql"))


class Audit:
    """The audit of one trace.

    Args:
        staging: the directory of the trace's tables; faulty tables are rewritten.
        counts: rows by table; updated.
        written: the ingested tables, with their ingested columns.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        staging: Path,
        counts: MutableMapping[str, int],
        written: Sequence[CanonicalTable],
    ) -> None:
        self._connection = connection
        self._staging = staging
        self._counts = counts
        self._written = {table.name for table in written if table == canonical_tables()[table.name]}
        self._filled = {table.name for table in written if counts[table.name]}
        connection.execute("RESET disabled_optimizers")  # which readers of streams set
        connection.execute(rule("macros"))
        by_name = {table.name: table for table in written}
        for table in event_tables().values():
            # Others would take a tenth of the ingest of a small file.
            is_audited = table.name in audited_tables() or table.drops_duplicates
            if table.name in clock_tables() or (is_audited and table.name in self._filled):
                self._show(table, by_name.get(table.name))

    def _show(self, table: CanonicalTable, written: CanonicalTable | None) -> None:
        # Columns that were not ingested are NULL.
        select = table.empty_select
        if written is not None and table.name in self._filled:
            select = parquet_relation(table_files(self._staging, table.name))
            present = {column.name for column in written.columns}
            missing = [column for column in table.columns if column.name not in present]
            if missing:
                nulls = ", ".join(f"NULL::{column.type} AS {column.name}" for column in missing)
                select = f"SELECT *, {nulls} FROM ({select})"
        self._connection.execute(f"CREATE OR REPLACE TEMP VIEW {table.name} AS {select}")

    def run(self, ask: Ask) -> list[str]:
        """Repair rows, align the clocks of GPU and host, and return notes.

        Rules that need tables or columns that were not ingested are skipped.

        Args:
            ask: runs a SELECT on the tables before repairs.

        Raises:
            duckdb.Error: a table cannot be read or written.
        """
        audited = sorted(self._filled & audited_tables())
        spans = self._spans(audited)
        notes = [
            note
            for table in audited
            for note in self._audit_table(table, *spans.get(table, (0, 0)))
        ]
        for table in self._with_suspected_repeats():
            notes += self._single(table)
        if API_CALL in self._filled and self._written.issuperset(clock_tables()):
            notes += self._clocks(ask)
        if KERNEL in self._filled & self._written:
            notes += self._overlaps()
        return notes

    def _clocks(self, ask: Ask) -> list[str]:
        lag = ask(rule("launch_lag")) if KERNEL in self._filled else []
        notes = align_clocks(self._connection, self._staging, self._counts, rule, lag)
        is_reused = sum(pairs for _, _, pairs, *_ in lag) > self._counts[KERNEL]
        return notes + self._reuse() if is_reused else notes

    def _every(self, table: str) -> int:
        # The audit reads one in this many rows of the table.
        return -(-self._counts[table] // _MOST_ROWS)

    def _audit_table(self, table: str, first: int, last: int) -> list[str]:
        spans_too_much = last - first > _LONGEST_NS or max(-first, last) > _LARGEST_NS
        times_only = canonical_tables()[table].audited_by_times
        if times_only and not spans_too_much and not self._has_reversed(table):
            return []
        middle = self._middle(table) if spans_too_much else str(first)
        sql = rule(f"rows/{table}").replace("$middle", middle)
        faults = f"SELECT fault FROM ({sql}) WHERE fault IS NOT NULL"
        # Most tables have none; counting takes longer to plan.
        if not self._connection.execute(f"{faults} LIMIT 1").fetchall():
            return []
        fault_counts = self._connection.execute(
            f"SELECT fault, count(*) FROM ({faults}) GROUP BY fault ORDER BY fault"
        ).fetchall()
        self._rewrite(table, f"SELECT * FROM ({sql}) WHERE kept")
        return [str(fault).format(f"{rows:,}") for fault, rows in fault_counts]

    def _spans(self, tables: Iterable[str]) -> dict[str, tuple[int, int]]:
        # Earliest and latest time by table, from the statistics of the Parquet files.
        timed = {table: timed_tables()[table].times for table in tables if table in timed_tables()}
        files = {str(file): table for table in timed for file in table_files(self._staging, table)}
        if not files:
            return {}
        statistics = self._connection.execute(
            "SELECT file_name, path_in_schema, min(stats_min_value::BIGINT), "
            "max(stats_max_value::BIGINT) FROM parquet_metadata($files) "
            "WHERE list_contains($columns, path_in_schema) GROUP BY ALL",
            {
                "files": list(files),
                "columns": sorted({name for own in timed.values() for name in own}),
            },
        ).fetchall()
        limits: dict[str, list[int]] = {table: [] for table in timed}
        for file, column, *span in statistics:
            if column in timed[files[file]]:
                limits[files[file]] += (limit for limit in span if limit is not None)
        return {table: (min(known), max(known)) for table, known in limits.items() if known}

    def _has_reversed(self, table: str) -> bool:
        begin, end = timed_tables()[table].start, timed_tables()[table].end
        sql = f"SELECT 1 FROM {table} WHERE {end} < {begin} LIMIT 1"
        return begin != end and bool(self._connection.execute(sql).fetchall())

    def _middle(self, table: str) -> str:
        # The median of the possible start times.
        begin = timed_tables()[table].start
        ((middle,),) = self._connection.execute(
            f"SELECT quantile_disc({begin}, 0.5) FILTER ({begin} BETWEEN -{_LARGEST_NS} AND "
            f"{_LARGEST_NS}) FROM {table}"
        ).fetchall()
        return "NULL" if middle is None else str(middle)

    def _with_suspected_repeats(self) -> list[str]:
        # Tables with several rows of one start and correlation id. One query for all, because
        # planning takes most of the time.
        counts = " UNION ALL ".join(
            f"SELECT '{table}' AS name, count(*) AS rows, "
            "count(DISTINCT hash(start_ns, correlation_id)) AS single "
            f"FROM {table} WHERE start_ns % {self._every(table)} = 0 AND {_CERTAIN}"
            for table in sorted(self._filled & self._written)
            if canonical_tables()[table].drops_duplicates
        )
        if not counts:
            return []
        alike = f"SELECT name FROM ({counts}) WHERE rows > single ORDER BY name"
        return [name for (name,) in self._connection.execute(alike).fetchall()]

    def _single(self, table: str) -> list[str]:
        # Rows that are equal in all columns but their id are one event: a launch and its operation
        # happen once. Without an id or a time equal rows can be different events.
        columns = [column.name for column in canonical_tables()[table].columns]
        values = ", ".join(name for name in columns if name not in ("trace_id", f"{table}_id"))
        before = self._counts[table]
        first = f"row_number() OVER (PARTITION BY {values} ORDER BY {table}_id) = 1"
        kept = f"SELECT * FROM {table} QUALIFY {first} OR ({_CERTAIN}) IS NOT TRUE"
        ((left,),) = self._connection.execute(f"SELECT count(*) FROM ({kept})").fetchall()
        if left == before:
            return []
        self._rewrite(table, f"{kept} ORDER BY {table}_id")
        return [
            f"rows of {table} that stand twice, equal in all columns: {before - left:,}; left out"
        ]

    def _reuse(self) -> list[str]:
        # Queries match an operation with the nearest launch before it.
        ((ids,),) = self._connection.execute(rule("reuse")).fetchall()
        if not ids:
            return []
        return [
            f"correlation ids that one process used for several launches: {ids:,}; an operation "
            "belongs to the nearest launch before it"
        ]

    def _overlaps(self) -> list[str]:
        # Which of two overlapping kernels is wrong cannot be known, so both stay.
        every = 1 if self._every(KERNEL) == 1 else _THIN * self._every(KERNEL)
        parts = ("overlap",) if every == 1 else ("overlap", "overlap_longest")
        suspect = " UNION ".join(map(rule, parts)).replace("$every", str(every))
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE suspect AS {suspect}")
        if self._connection.execute("SELECT count(*) FROM suspect").fetchall() == [(0,)]:
            return []
        ((kernels, earlier, name, longest_ns),) = self._connection.execute(
            rule("overlap_worst")
        ).fetchall()
        if not kernels:
            return []
        seen = "" if every == 1 else f" in a sample of one in {every}"
        return [
            f"kernels that overlap an earlier one on the same stream (a stream runs one at a "
            f"time): {kernels:,}{seen}, over {earlier:,} earlier ones; the longest of these is "
            f"{_short(name)} with {longest_ns / 1e6:,.3f} ms. Its time, and sums with it, may be "
            "wrong"
        ]

    def _rewrite(self, table: str, select: str) -> None:
        rewrite(self._connection, self._staging, table, select, self._counts)


def _short(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:59]}…"
