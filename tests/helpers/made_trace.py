"""Traces made row by row: small canonical tables in an in-memory DuckDB, ready for any query."""

from __future__ import annotations

import atexit
import itertools
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from typing import Any, Self

import duckdb
import polars as pl

from made_relations import MadeRelations
from tbd_trace import resources
from tbd_trace.analysis.checks.evaluation import Evaluator
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.query import Catalogue, prepare
from tbd_trace.query.header import Query
from tbd_trace.sqltext import csv_relation, identifier, literal

Row = dict[str, Any]

SAME_HASH = [
    "aten::relu_, seq = 14280, op_id = 352280",
    "aten::relu_, seq = 14288, op_id = 352288",
]
"""Texts that DuckDB 2.0's hash() does not tell apart."""


class MadeTrace:
    """Rows of the canonical tables of one or several traces.

    Every ``add_…`` takes any column of its table by name and fills in the rest with plain defaults:
    trace ``t``, process 1, thread 1, device 0, stream 7. It returns the row's id, or nothing.
    """

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = defaultdict(list)
        self._last_id = 0

    def next_id(self) -> int:
        """Return a number that nothing in these traces has yet."""
        self._last_id += 1
        return self._last_id

    def add(self, table: str, **row: Any) -> None:
        """Add a row to any canonical table."""
        self.rows[table].append({"trace_id": "t"} | row)

    def add_trace(self, trace_id: str = "t", **row: Any) -> None:
        """Describe a trace; those not described are plain nsys timelines."""
        defaults = {
            "name": f"{trace_id}.sqlite",
            "sha256": trace_id,
            "format": "nsys-sqlite",
            "tool": "nsys",
            "kind": "timeline",
        }
        self.add("trace", **(defaults | {"trace_id": trace_id} | row))

    def _operation(self, table: str, start: int | None, end: int | None, row: Row) -> int:
        number = self.next_id()
        timed: Row = {"start_ns": start, "end_ns": end, "process_id": 1, "device_id": 0}
        timed |= {"stream_id": 7, f"{table}_id": number}
        timed["duration_ns"] = None if start is None or end is None else end - start
        self.add(table, **(timed | row))
        return int(row.get(f"{table}_id", number))

    def add_kernel(
        self, start: int | None, end: int | None, name: str = "kernel", **row: Any
    ) -> int:
        """Add a kernel execution on the GPU."""
        return self._operation("kernel", start, end, {"name": name, "short_name": name} | row)

    def add_memcpy(self, start: int | None, end: int | None, **row: Any) -> int:
        """Add a memory copy."""
        return self._operation("memcpy", start, end, {"direction": "HtoD", "bytes": 1} | row)

    def add_memset(self, start: int | None, end: int | None, **row: Any) -> int:
        """Add a memory fill."""
        return self._operation("memset", start, end, {"bytes": 1} | row)

    def add_graph(self, start: int, end: int, **row: Any) -> int:
        """Add a CUDA graph traced as a whole."""
        return self._operation("graph_launch", start, end, row)

    def add_call(self, start: int, end: int, name: str = "cudaLaunchKernel", **row: Any) -> int:
        """Add a host call of the CUDA API."""
        number = self.next_id()
        call: Row = {"api_call_id": number, "start_ns": start, "end_ns": end, "name": name}
        call |= {"process_id": 1, "thread_id": 1, "api": "cuda"}
        self.add("api_call", **(call | row))
        return number

    def launch(
        self, at: int, start: int, end: int, name: str = "kernel", *, took: int = 1, **row: Any
    ) -> int:
        """Add a kernel and the call that launched it from ``at`` to ``at + took``.

        Of the keywords ``thread_id`` belongs to the call, ``process_id``, ``trace_id`` and
        ``correlation_id`` to both, all others to the kernel.
        """
        both: Row = {key: row[key] for key in ("trace_id", "process_id") if key in row}
        both["correlation_id"] = row.pop("correlation_id", None) or self.next_id()
        self.add_call(at, at + took, **both, thread_id=row.pop("thread_id", 1))
        return self.add_kernel(start, end, name, **(row | both))

    def add_range(self, start: int, end: int, text: str | None = "range", **row: Any) -> int:
        """Add an NVTX push/pop range."""
        number = self.next_id()
        made: Row = {"annotation_id": number, "start_ns": start, "end_ns": end, "text": text}
        made |= {"is_open": False, "kind": "push_pop", "process_id": 1, "thread_id": 1}
        made |= {"source": "nvtx"}
        made |= {"domain_id": 0}
        row.setdefault("end_thread_id", row.get("thread_id", 1))
        self.add("annotation", **(made | row))
        return int(row.get("annotation_id", number))

    def add_mark(self, at: int, text: str, **row: Any) -> None:
        """Add an NVTX mark."""
        made: Row = {"annotation_id": self.next_id(), "source": "nvtx", "kind": "mark"}
        made |= {"start_ns": at, "end_ns": at, "is_open": False, "text": text}
        made |= {"process_id": 1, "thread_id": 1, "domain_id": 0}
        self.add("annotation", **(made | row))

    def add_device(self, **row: Any) -> None:
        """Add a GPU with a peak of exactly 100 FP32 FLOP per ns (compute capability 8.0)."""
        # 64 FP32 lanes per SM, 2 operations per clock: 25 SMs * 64 * 2 * 31.25 MHz = 100 GFLOP/s
        made = {"device_id": 0, "compute_capability": "8.0", "sm_count": 25, "clock_hz": 31_250_000}
        self.add("device", **(made | row))

    def add_metric(
        self, kernel_id: int | None, metric: str, value: float | None, **row: Any
    ) -> None:
        """Add a hardware counter of one kernel."""
        made: Row = {"kernel_id": kernel_id, "metric": metric, "value": value, "instances": 1}
        self.add(
            "kernel_metric", **(made | {"tool": "nvprof" if "__" not in metric else "ncu"} | row)
        )

    def add_layer(self, layer: str, position: int = 0, **row: Any) -> None:
        """Add a layer of layers.json."""
        self.add("layer_definition", layer=layer, position=position, **row)

    def connect(self) -> MadeDatabase:
        """Return a database that holds these traces."""
        described = {row["trace_id"] for row in self.rows["trace"]}
        for trace_id in {row["trace_id"] for rows in self.rows.values() for row in rows}:
            if trace_id not in described:
                self.add_trace(trace_id)
        return MadeDatabase(self.rows)


@cache
def _empty_database() -> duckdb.DuckDBPyConnection:
    """Return the database that all made traces share: empty canonical tables, data tables."""
    connection = duckdb.connect(config={"threads": 1})
    for table in canonical_tables().values():
        connection.execute(f"CREATE TABLE {table.name} AS {table.empty_select}")
    for file in sorted(resources.data().glob("*.csv")):
        connection.execute(f"CREATE TABLE {identifier(file.stem)} AS {csv_relation(file)}")
    return connection


atexit.register(_empty_database.cache_clear)


class MadeDatabase:
    """Made traces in DuckDB, with derived relations on demand.

    The rows lie in a transaction that is never committed, so that the next database starts empty.
    Derived relations are in a schema of its own: two transactions cannot create the same table.
    Their rows come from an earlier database where it had the same inputs.
    """

    _numbers = itertools.count()

    def __init__(self, rows: dict[str, list[Row]]) -> None:
        self._connection = _empty_database().cursor()
        self._connection.execute("SET asof_loop_join_threshold = 0")  # as for real traces
        self._connection.execute("BEGIN TRANSACTION")
        schema = f"made_{next(self._numbers)}"
        self._connection.execute(f"CREATE SCHEMA {schema}")
        self._connection.execute(f"SET search_path = '{schema},main'")
        for table, made in rows.items():
            self._insert(table, made)
        self.relations = MadeRelations(rows)

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The connection; as it may change tables, all relations are computed from then on."""
        self.relations.off()
        return self._connection

    def _insert(self, table: str, rows: list[Row]) -> None:
        if rows:
            columns = {
                key: [row.get(key) for row in rows] for key in {k for row in rows for k in row}
            }
            frame = pl.DataFrame(columns, strict=False)
            self._connection.register("made_rows", frame)
            self._connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM made_rows")
            self._connection.unregister("made_rows")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def set(self, **parameters: str | int | float | bool) -> Self:
        """Set query parameters; to be done before the first relation is computed."""
        self.relations.set(parameters)
        for name, value in parameters.items():
            self._connection.execute(f"SET VARIABLE {identifier(name)} = {literal(value)}")
        return self

    def select(self, sql: str) -> list[Row]:
        """Return the rows of a statement."""
        found: list[Row] = self._connection.sql(sql).pl().to_dicts()
        return found

    def relation(self, name: str, order: str = "ALL") -> list[Row]:
        """Return the rows of a derived relation, computing it and what it builds on."""
        self.derive([name])
        return self.select(f"SELECT * FROM {name} ORDER BY {order}")

    def derive(self, names: Iterable[str]) -> None:
        """Compute derived relations and the relations that they read."""
        prepare(self._connection, names, self.relations)

    def rows_of_check(self, query: Query) -> list[Row]:
        """Return what a rule says, complete as ``evaluate`` gives it."""
        return list(Evaluator(self._connection, self.relations).rows(query))

    def metric(self, name: str, **parameters: str | int | float | bool) -> list[Row]:
        """Return the rows of a metric."""
        return self.select(self.ready(name, **parameters).sql)

    def ready(self, name: str, **parameters: str | int | float | bool) -> Query:
        """Compute what a metric reads, and return its query."""
        query = Catalogue().get(name)
        self.set(**parameters)
        self.derive(query.relations)
        for macros in query.macros:
            path = resources.queries() / "macros" / f"{macros}.sql"
            self._connection.execute(path.read_text(encoding="utf-8"))
        return query


def relation(made: MadeTrace, name: str, **parameters: str | int | float | bool) -> list[Row]:
    """Return the rows of one derived relation of made traces."""
    with made.connect() as database:
        return database.set(**parameters).relation(name)


def metric(made: MadeTrace, name: str, **parameters: str | int | float | bool) -> list[Row]:
    """Return the rows of one metric of made traces."""
    with made.connect() as database:
        return database.metric(name, **parameters)


def nested(steps: list[tuple[bool, int]]) -> list[tuple[int, int, int | None]]:
    """Return the ranges that a thread makes, as (start, end, position of the parent or None).

    Args:
        steps: what the thread does: push (True) or pop (False; nothing on an empty stack), and the
            time that passes before. What is open in the end is popped one step later each.
    """
    now = 0
    stack: list[int] = []
    made: list[tuple[int, int, int | None]] = []

    def pop() -> None:
        position = stack.pop()
        made[position] = (made[position][0], now, made[position][2])

    for push, passes in steps:
        now += passes
        if push:
            made.append((now, now, stack[-1] if stack else None))
            stack.append(len(made) - 1)
        elif stack:
            pop()
    while stack:
        now += 1
        pop()
    return made
