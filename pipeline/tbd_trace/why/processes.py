"""Diagnose the processes of traces over a connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from tbd_trace.errors import UsageError
from tbd_trace.why.diagnosis import Diagnosis, diagnose, profiler_name, slowest_first
from tbd_trace.why.program import Program
from tbd_trace.why.program_facts import Gpu
from tbd_trace.why.program_reader import RELATIONS, load
from tbd_trace.why.recorded_run import with_run
from tbd_trace.why.thinning import thinned
from tbd_trace.why.whatif import Simulator

INPUTS = (
    *RELATIONS,
    "device_peak",
    "gpu_products",
    "training_window",
    "process",
    "trace",
    "device",
)
"""Relations behind the answers."""

_PROCESSES = """
SELECT g.trace_id, g.process_id, t.name, p.pid, t.tool, t.notes, coalesce(w.trains, false),
    t.capture ->> '$.batch_size', t.capture ->> '$.precision', t.capture
FROM (
    SELECT trace_id, process_id FROM gpu_chain GROUP BY trace_id, process_id
    -- Copies alone, and graphs traced as a whole, contain no kernels to classify.
    HAVING $all OR bool_or(op_kind = 'kernel')
) g
JOIN trace t USING (trace_id)
LEFT JOIN process p ON p.trace_id = g.trace_id AND p.process_id = g.process_id
LEFT JOIN (
    SELECT trace_id, process_id, bool_or(trains) AS trains FROM training_window GROUP BY ALL
) w ON w.trace_id = g.trace_id AND w.process_id = g.process_id
ORDER BY ALL"""
_GPU_NAME = """
SELECT name FROM device
WHERE trace_id = $trace AND device_id = $device AND coalesce(process_id, $process) = $process"""
_OTHER_GPU = """
SELECT sm_count * boost_clock_mhz * 1e6, memory_bandwidth_gb_per_s * 1e9
FROM gpu_products WHERE lower(product) = lower($name)"""
_THIS_GPU = """
SELECT sm_count * clock_hz, memory_bandwidth_bytes_per_s
FROM device_peak
WHERE trace_id = $trace AND device_id = $device AND coalesce(process_id, $process) = $process"""


@dataclass(frozen=True, slots=True)
class Process:
    """A process with GPU work: its program, the name and notes of its trace, and its pid."""

    program: Program
    trace: str
    pid: int | None
    notes: Sequence[str] = ()
    about: Sequence[str] = ()  # profiler, GPU, batch and precision, in words
    capture: str | None = None  # the content of capture.json that is kept


def programs(
    connection: duckdb.DuckDBPyConnection, *, without_kernels: bool = False
) -> Iterator[Process]:
    """Yield each process with kernels; the relations of ``INPUTS`` exist.

    Args:
        without_kernels: also processes with other GPU operations only.
    """
    rows = connection.execute(_PROCESSES, {"all": without_kernels}).fetchall()
    for row in rows:
        yield _process(connection, row)  # a variable would keep the program while the next is read


def _process(connection: duckdb.DuckDBPyConnection, row: Sequence[Any]) -> Process:
    trace_id, process_id, name, pid, tool, notes, trains, batch, precision, capture = row
    program = load(connection, trace_id, process_id, tool, trains=trains)
    parameters = {"trace": trace_id, "device": program.device_id, "process": process_id}
    gpu = next(iter(connection.execute(_GPU_NAME, parameters).fetchall()), ())
    about = [profiler_name(tool), *gpu, f"batch {batch}" if batch else None, precision]
    words = [part for part in about if part]
    return Process(program, name, pid, notes or (), words, capture)


def diagnoses(connection: duckdb.DuckDBPyConnection) -> list[Diagnosis]:
    """Diagnose every process, the one with the longest steps first.

    The relations of ``INPUTS`` exist.
    """
    # `map` keeps no program while the next one is read.
    all_diagnoses = map(_diagnosis, programs(connection))
    # Without a duration there is nothing to divide.
    return slowest_first(diagnosis for diagnosis in all_diagnoses if diagnosis.causes)


def _diagnosis(process: Process) -> Diagnosis:
    found = diagnose(process.program, process.trace, process.pid, process.notes, process.about)
    return with_run(found, process.capture)


def gpus(
    connection: duckdb.DuckDBPyConnection, program: Program
) -> Callable[[str], tuple[Gpu, Gpu]]:
    """Return a function of the name of a GPU: rates of the program's GPU, and of that one."""

    def rates(name: str) -> tuple[Gpu, Gpu]:
        other = connection.execute(_OTHER_GPU, {"name": name}).fetchall()
        if not other:
            known = connection.execute("SELECT product FROM gpu_products ORDER BY ALL").fetchall()
            products = ", ".join(product for (product,) in known)
            raise UsageError(f"--change gpu={name}: unknown; use one of {products}")
        parameters = {
            "trace": program.trace_id, "device": program.device_id, "process": program.process_id
        }  # fmt: skip
        this = connection.execute(_THIS_GPU, parameters).fetchall()
        if not this or None in (*this[0], *other[0]):
            raise UsageError(f"--change gpu={name}: SMs, clock or bandwidth of a GPU are unknown")
        return Gpu(*this[0]), Gpu(*other[0])

    return rates


def simulator(connection: duckdb.DuckDBPyConnection, program: Program) -> Simulator:
    """Return the simulator of a program on this connection."""
    return Simulator(thinned(program), gpus(connection, program))
