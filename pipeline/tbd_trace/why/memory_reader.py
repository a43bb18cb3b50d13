"""Diagnose the memory of the devices of traces over a connection."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb

from tbd_trace.model.canonical_tables import ALLOCATIONS, SEGMENTS
from tbd_trace.why.covers import missing_content
from tbd_trace.why.diagnosis import profiler_name
from tbd_trace.why.memory_changes import first_of, ranked_changes
from tbd_trace.why.memory_diagnosis import (
    FailedRequest,
    Line,
    MemoryBase,
    MemoryDiagnosis,
    Part,
)
from tbd_trace.why.memory_words import (
    BEFORE,
    UNKNOWN,
    fragmentation,
    held_by_devices,
    history,
    origin,
    title,
)

INPUTS = (
    "memory_state",
    "memory_holder",
    "memory_saving",
    "failed_allocation",
    ALLOCATIONS,
    SEGMENTS,
    "memory_space",
    "peak_memory",
    "_memory_phase",
    "_stack_line",
    "trace",
    "process",
)
"""Relations behind the answers."""
_RECORDERS = {"torch-memory-snapshot": "PyTorch memory snapshot", "memory-log": "memory log"}
_BASES = ("peak", "end", "plan")
_MOMENTS = ("failure", *_BASES)

_Row = Mapping[str, Any]
_STATES = "SELECT * FROM memory_state WHERE allocator IS DISTINCT FROM 'cuda'"
_TRACES = """
SELECT t.trace_id, t.name, t.tool, t.format, t.notes, t.capture ->> '$.batch_size' AS batch,
    t.capture ->> '$.precision' AS precision
FROM trace AS t"""
_PIDS = "SELECT trace_id, process_id, pid FROM process"
_HOLDERS = "SELECT * FROM memory_holder ORDER BY requested_bytes DESC, line, layer"
_SAVINGS = "SELECT * FROM memory_saving"
_FAILURES = """
SELECT space, arg_max(sequence, sequence) AS sequence,
    arg_max(timestamp_ns, sequence) AS timestamp_ns,
    arg_max(requested_bytes, sequence) AS requested_bytes,
    arg_max(device_free_bytes, sequence) AS device_free_bytes,
    arg_max(line, sequence) AS line, count(*) AS failures
FROM failed_allocation LEFT JOIN _stack_line USING (trace_id, stack_id)
GROUP BY space"""
_EVENTS = """
SELECT hash(trace_id, process_id, device_id, allocator, memory_kind) AS space,
    count(*) AS entries, count(*) FILTER (operation IN ('allocate', 'free')) AS events
FROM memory_event GROUP BY ALL"""
_PHASES = """
SELECT p.space, r.phase
FROM peak_memory AS p
ASOF JOIN _memory_phase AS r ON r.space = p.space AND p.sequence >= r.first_sequence"""
_PEAKS = """
SELECT p.space, p.reserved_bytes, s.start_requested_bytes
FROM peak_memory AS p JOIN memory_space AS s USING (space)"""
_SEGMENTS = """
SELECT hash(trace_id, process_id, device_id, allocator, NULL::VARCHAR) AS space,
    count(*) AS segments,
    coalesce(sum(total_bytes) FILTER (pool IS NOT NULL AND pool <> '0,0'), 0)::BIGINT AS private
FROM memory_segment GROUP BY ALL"""


def memory_diagnoses(connection: duckdb.DuckDBPyConnection) -> list[MemoryDiagnosis]:
    """Diagnose each memory space of a framework, the most urgent first.

    The driver's allocations are left out: a framework divides them further. The relations of
    ``INPUTS`` exist.
    """
    facts = _Facts(connection)
    return most_urgent_first(facts.diagnosis(rows) for rows in facts.states.values())


def most_urgent_first(diagnoses: Iterable[MemoryDiagnosis]) -> list[MemoryDiagnosis]:
    """Sort diagnoses: those with a failed request first, then devices, each by bytes."""
    return sorted(diagnoses, key=_urgency)


def _urgency(diagnosis: MemoryDiagnosis) -> tuple[bool, bool, int]:
    return diagnosis.failed is None, diagnosis.device_id is None, -diagnosis.base.live_bytes


class _Facts:
    # The rows of all memory spaces, by space.

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        def rows(statement: str) -> list[dict[str, Any]]:
            cursor = connection.execute(statement)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

        self.states = {
            space: {row["moment"]: row for row in some}
            for space, some in _by(rows(_STATES), "space").items()
        }
        self.traces = {row["trace_id"]: row for row in rows(_TRACES)}
        self.pids = {(r["trace_id"], r["process_id"]): r["pid"] for r in rows(_PIDS)}
        self.holders = _by(rows(_HOLDERS), "space")
        self.savings = _by(rows(_SAVINGS), "space")
        self.failures = _one(rows(_FAILURES))
        self.events = _one(rows(_EVENTS))
        self.phases = _one(rows(_PHASES))
        self.peaks = _one(rows(_PEAKS))
        self.segments = _one(rows(_SEGMENTS))

    def diagnosis(self, states: Mapping[str, _Row]) -> MemoryDiagnosis:
        state = next(states[name] for name in _BASES if name in states)
        space, trace = state["space"], self.traces[state["trace_id"]]
        base = self._base(state)
        failed = self._failed(states)
        parts = self._parts(space, base.live_bytes)
        changes = ranked_changes(self.savings.get(space, ()), failed)
        count = self.segments.get(space, {})
        moment = next(states[name] for name in _MOMENTS if name in states)  # of the free memory
        if moment["free_inside_bytes"] is None and "end" in states:
            moment = states["end"]
        return MemoryDiagnosis(
            verdict="memory",
            trace_id=state["trace_id"],
            trace=trace["name"],
            process_id=state["process_id"],
            pid=self.pids.get((state["trace_id"], state["process_id"])),
            device_id=state["device_id"],
            allocator=state["allocator"],
            memory_kind=state["memory_kind"],
            base=base,
            failed=failed,
            causes=parts,
            change=changes[0].change if changes else None,
            try_first=first_of(changes),
            changes=changes,
            devices=held_by_devices(
                self._held(state),
                state["device_id"],
                split=any(row["is_data_parallel"] for row in self.holders.get(space, ())),
            ),
            fragmentation=fragmentation(moment, count.get("private", 0)),
            not_known=_not_known(parts, trace["tool"]),
            covers=missing_content(trace["notes"] or ())
            + history(base, self.events.get(space, {}).get("entries", 0), count.get("segments", 0)),
            about=_about(trace),
        )

    def _base(self, state: _Row) -> MemoryBase:
        space = state["space"]
        peak = self.peaks.get(space, {})
        is_peak = state["moment"] == "peak"
        most = peak.get("reserved_bytes") if is_peak else state["reserved_bytes"]
        return MemoryBase(
            moment=state["moment"],
            sequence=state["sequence"],
            timestamp_ns=state["timestamp_ns"],
            phase=self.phases.get(space, {}).get("phase") if is_peak else None,
            live_bytes=state["requested_bytes"],
            held_bytes=state["reserved_bytes"],
            most_held_bytes=most if (most or 0) >= state["requested_bytes"] else None,
            start_bytes=peak.get("start_requested_bytes") if is_peak else None,
            events=self.events.get(space, {}).get("events", 0),
        )

    def _failed(self, states: Mapping[str, _Row]) -> FailedRequest | None:
        state = next(iter(states.values()))
        row = self.failures.get(state["space"])
        if row is None:
            return None
        then = states.get("failure", {})
        return FailedRequest(
            sequence=row["sequence"],
            timestamp_ns=row["timestamp_ns"],
            requested_bytes=row["requested_bytes"],
            device_free_bytes=row["device_free_bytes"],
            live_bytes=then.get("requested_bytes"),
            held_bytes=then.get("reserved_bytes"),
            unused_bytes=then.get("unused_bytes"),
            largest_free_bytes=then.get("largest_free_bytes"),
            line=row["line"],
            failures=row["failures"],
        )

    def _parts(self, space: int, live: int) -> list[Part]:
        parts = []
        for (name, likely, *_), rows in _by_class(self.holders.get(space, ())).items():
            number = sum(row["requested_bytes"] for row in rows)
            lines = _lines(rows)
            parts.append(
                Part(
                    cause=name,
                    title="before recording" if name == BEFORE else
                    "not classified" if name == UNKNOWN else title(name),
                    share_pct=100 * number / live if live else 0.0,
                    bytes=number,
                    allocations=sum(row["allocations"] for row in rows),
                    likely=likely,
                    evidence=origin(rows, lines),
                    known_by=rows[0]["evidence"],
                    lines=lines,
                )
            )  # fmt: skip
        return sorted(parts, key=lambda part: (-part.bytes, part.cause))

    def _held(self, state: _Row) -> dict[int, int]:
        # The most that the same allocator held on each device of the trace.
        held: dict[int, int] = {}
        for states in self.states.values():
            some = [*states.values()]
            same = all(some[0][key] == state[key] for key in ("trace_id", "allocator"))
            if same and some[0]["device_id"] is not None:
                most = [row["reserved_bytes"] or row["requested_bytes"] or 0 for row in some]
                peak = self.peaks.get(some[0]["space"], {}).get("reserved_bytes")
                held[some[0]["device_id"]] = max(*most, peak or 0)
        return held


def _by(rows: Iterable[dict[str, Any]], key: str) -> dict[Any, list[dict[str, Any]]]:
    grouped: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        grouped[row[key]].append(row)
    return grouped


def _one(rows: Iterable[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    return {row["space"]: row for row in rows}


def _by_class(rows: Iterable[_Row]) -> dict[tuple[Any, ...], list[_Row]]:
    grouped: dict[tuple[Any, ...], list[_Row]] = defaultdict(list)
    for row in rows:
        name = row["class"]
        if name != UNKNOWN:
            grouped[name, None].append(row)
            continue
        older = row["is_older"] and row["moment"] != "plan"
        key = (BEFORE if older else UNKNOWN, row["likely"], row["is_kept"], row["evidence"])
        grouped[key].append(row)
    return grouped


def _lines(rows: Iterable[_Row]) -> list[Line]:
    # By line of code; by layer where the source states layers and no code.
    lines: dict[tuple[str | None, str | None], list[_Row]] = defaultdict(list)
    for row in rows:
        lines[row["line"], None if row["line"] else row["layer"]].append(row)
    found = [
        Line(line, layer, sum(row["requested_bytes"] for row in some),
            sum(row["allocations"] for row in some))
        for (line, layer), some in lines.items()
    ]  # fmt: skip
    return sorted(found, key=lambda line: -line.bytes)


def _about(trace: _Row) -> list[str]:
    recorder = _RECORDERS.get(trace["format"]) or profiler_name(trace["tool"])
    batch = f"batch {trace['batch']}" if trace["batch"] else None
    return [part for part in (recorder, batch, trace["precision"]) if part]


def _not_known(parts: Sequence[Part], tool: str) -> list[str]:
    unknown = sum(part.share_pct for part in parts if part.cause in (BEFORE, UNKNOWN))
    if unknown < 50:
        return []
    earlier = "record from before the model is built, or" if tool == "torch" else "record"
    return [
        f"the class of {unknown:.0f} % of the bytes; {earlier} with `tbd-trace collect --memory`"
    ]
