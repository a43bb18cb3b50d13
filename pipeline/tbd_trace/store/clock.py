"""Compare the clocks of host and GPU, and shift GPU times to the host's clock."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from tbd_trace.model.canonical_tables import gpu_tables
from tbd_trace.store.tables import rewrite

# Launches that suffice to compare the clocks; all are read only where the clocks disagree.
_ENOUGH = 100_000
_TOLERATED_NS = 50_000
_SHORTEST, _EARLY = 4, 5  # columns of ``launch_lag``
_UNKNOWN = (
    "GPU and host clocks do not agree, and by how much is not clear ({launches} launches, {waits} "
    "synchronisations{device}): times are as recorded, GPU times must not be compared with host "
    "times, and the causes of idle time are unknown"
)


@dataclass(frozen=True, slots=True)
class _Clock:
    process_id: int | None
    device_id: int | None
    at_ns: int
    offset_ns: int
    drift: float
    uncertainty_ns: int
    launches: int
    waits: int
    early: int
    remain: int
    verdict: str


def align_clocks(
    connection: duckdb.DuckDBPyConnection,
    staging: Path,
    counts: MutableMapping[str, int],
    rule: Callable[[str], str],
    lag: Sequence[tuple[Any, ...]],
) -> list[str]:
    """Shift the GPU's times to the host's clock where the clocks disagree.

    Args:
        rule: returns the SQL of a rule.

    Returns:
        Notes with the offset, its uncertainty and its evidence, or that it is unknown.
    """
    operations = sum(counts.get(table, 0) for table in gpu_tables())
    measured = [row for row in lag if row[_SHORTEST] is not None]
    if measured and all(row[_SHORTEST] <= _TOLERATED_NS and not row[_EARLY] for row in measured):
        return []
    if not operations:
        return []
    every = -(-operations // _ENOUGH)
    clocks = _clocks(connection, rule, every)
    if every > 1 and any(clock.verdict != "agree" or clock.early for clock in clocks):
        clocks = _clocks(connection, rule, 1)
    shifted = [clock for clock in clocks if clock.verdict == "shift"]
    if shifted:
        for table in gpu_tables():
            if counts.get(table):
                rewrite(connection, staging, table, _shift(table, shifted), counts)
    several = len(clocks) > 1
    return [note for clock in clocks for note in _notes(clock, several)]


def _clocks(
    connection: duckdb.DuckDBPyConnection, rule: Callable[[str], str], every: int
) -> list[_Clock]:
    for name in ("launched", "waited"):
        sql = rule(name).replace("$every", str(every))
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {sql}")
    rows = connection.execute(rule("clock")).fetchall()
    connection.execute("DROP TABLE launched; DROP TABLE waited")
    return [_Clock(*row) for row in rows]


def _shift(table: str, clocks: list[_Clock]) -> str:
    # Durations stay as the GPU measured them. A device or process without evidence is shifted like
    # the one with the most launches.
    values = ", ".join(
        f"({_key(c.process_id)}, {_key(c.device_id)}, {c.at_ns}, {c.offset_ns}, "
        f"{c.drift!r}::DOUBLE)"
        for c in clocks
    )
    first = clocks[0]
    offset = (
        f"coalesce(c.offset_ns, {first.offset_ns}) + (coalesce(c.drift, {first.drift!r}) "
        f"* (t.start_ns - coalesce(c.at_ns, {first.at_ns})))::BIGINT"
    )
    return (
        f"SELECT t.* REPLACE (t.start_ns - ({offset}) AS start_ns, "
        f"t.end_ns - ({offset}) AS end_ns) "
        f"FROM {table} AS t LEFT JOIN (VALUES {values}) AS c (process_id, device_id, at_ns, "
        "offset_ns, drift) ON c.process_id = coalesce(t.process_id, -1) "
        "AND c.device_id = coalesce(t.device_id, -1) "
        f"ORDER BY t.{table}_id"
    )


def _key(number: int | None) -> int:
    return -1 if number is None else number


def _notes(clock: _Clock, several: bool) -> list[str]:
    device = f", device {clock.device_id}" if several and clock.device_id is not None else ""
    if clock.verdict == "unknown":
        counted = {"launches": f"{clock.launches:,}", "waits": f"{clock.waits:,}"}
        return [_UNKNOWN.format(**counted, device=device)]
    if clock.verdict == "agree":
        if not clock.early:
            return []
        return [
            f"operations that start before their launch (an impossible order): {clock.early:,} "
            f"of {clock.launches:,}{device}; their times are as recorded"
        ]
    side = "ahead of" if clock.offset_ns > 0 else "behind"
    drift = f", drifting by {clock.drift * 1e6:.2f} µs per s" if clock.drift else ""
    waits = f" and {clock.waits:,} synchronisations" if clock.waits else ""
    remain = f"; {clock.remain:,} of these still contradict it" if clock.remain else ""
    return [
        f"GPU clock was {_length(abs(clock.offset_ns))} {side} the host clock{device}{drift} "
        f"(±{_length(clock.uncertainty_ns)}, from {clock.launches:,} launches{waits}); GPU times "
        f"were shifted{remain}"
    ]


def _length(ns: int) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6)):
        if ns >= size:
            return f"{ns / size:,.3f} {unit}"
    return f"{ns / 1e3:,.1f} µs"
