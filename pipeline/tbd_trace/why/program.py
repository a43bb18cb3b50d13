"""The calls, GPU operations and steps of one process, as the replay reads them."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import NamedTuple

import numpy as np

from tbd_trace.why.base import Base
from tbd_trace.why.edges import EDGE
from tbd_trace.why.events import Calls, Ops
from tbd_trace.why.overlap import OverlapCost, is_communication

MOSTLY_BUSY = 0.9
"""Part of a step in which the GPU works, from which on neither host nor loader limit it."""
_MOST_LAUNCHED = 0.8
_SHORTEST_DELAY_NS = 1_000_000
# A batch that is ready is taken in less than the longer of these: time, part of a step.
_LONGEST_TO_TAKE_NS, _LONGEST_TO_TAKE = 1_000_000, 0.02
_LEAST_FULL = 0.05  # share of matrix work that is not in half precision


class InputWait(NamedTuple):
    """A row of input_wait: a wait for the next batch in the pause before a call."""

    evidence: str
    start_ns: int
    end_ns: int
    ns: int
    is_loaded_here: bool  # by the launching thread itself


@dataclass(slots=True)
class Program:
    """One process of a trace.

    ``steps`` are the steps of ``base`` with GPU operations, as pairs: first operation of a step and
    of the next one.
    """

    trace_id: str
    process_id: int
    device_id: int
    calls: Calls
    ops: Ops
    stream_gap_ns: int  # usual time between operations of a stream
    launch_lag_ns: int  # usual time from a launch to its operation on an idle stream
    steps: list[tuple[int, int]]
    base: Base
    trains: bool  # it is known or assumed to train
    tool: str  # profiler that recorded it, as in trace.tool
    input_waits: dict[int, InputWait] = field(default_factory=dict)  # by the call after it
    rank_waits: dict[int, tuple[int, int]] = field(default_factory=dict)  # ns and last rank by op
    late_ranks: dict[int, str | None] = field(default_factory=dict)  # why each rank begins late
    sampled: str | None = None  # what limits the kernels, by periodic GPU metrics
    skewed: dict[int, str] = field(default_factory=dict)  # devices on another clock than the host
    overlap_costs: dict[int, OverlapCost] = field(default_factory=dict)  # by device
    compile_waits: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # by call
    ranks: tuple[int, int] | None = None  # of the job: how many were read, and how many it has

    @property
    def devices(self) -> list[int]:
        """The devices of the process."""
        return sorted(set(self.ops.device))

    def on(self, device_id: int) -> Program:
        """Return the program with another of its devices in ``device_id``."""
        if device_id == self.device_id:
            return self
        ops = self.ops
        # The steps end on this device, too.
        device = array("q", ops.device)
        for op, kind in enumerate(ops.kind):
            if kind == EDGE:
                device[op] = device_id
        return replace(self, device_id=device_id, ops=replace(ops, device=device))

    @property
    def op_step_ns(self) -> list[int]:
        """Measured durations of the steps of the replay."""
        start = self.ops.start
        return [start[end] - start[begin] for begin, end in self.steps]

    @property
    def overlap_cost(self) -> OverlapCost | None:
        """What communication adds to the kernels that run beside it; None if it is not known."""
        return self.overlap_costs.get(self.device_id)

    @property
    def knows_launches(self) -> bool:
        """True if the launching calls of most operations of the steps are recorded."""
        ops = self.measured_ops
        launched = sum(self.ops.call[op] >= 0 for op in ops)
        return launched >= _MOST_LAUNCHED * len(ops)

    @property
    def explains_idle(self) -> bool:
        """True if the trace shows what the host did while the device was idle."""
        return self.device_id not in self.skewed and self.knows_launches

    @property
    def launches_graphs(self) -> bool:
        """True if GPU graphs launch most operations of the steps."""
        names = self.calls.name
        launches = [self.ops.call[op] for op in self.measured_ops]
        graphs = sum(call >= 0 and "GraphLaunch" in names[call] for call in launches)
        return graphs > len(launches) / 2

    @property
    def arrivals(self) -> dict[int, int]:
        """When the batches of loader workers arrived, by the call that waited for them.

        Workers that limit the steps do not load faster if the GPU works faster. While the GPU works
        all the time, they limit nothing.
        """
        step_ns = fmean(self.op_step_ns) if self.steps else 0.0
        longest = max(_LONGEST_TO_TAKE_NS, _LONGEST_TO_TAKE * step_ns)
        waits = {
            call: self.calls.start[call]
            for call, wait in self.input_waits.items()
            if not wait.is_loaded_here and wait.ns > longest
        }
        # Most programs have no such waits, and need no busy time here.
        if not (waits and self.steps) or self.busy_ns >= MOSTLY_BUSY * step_ns:
            return {}
        return waits

    @property
    def busy_ns(self) -> float:
        """Mean time of a step in which the device works."""
        own = np.equal(self.ops.device, self.device_id)
        start, end = np.asarray(self.ops.start)[own], np.asarray(self.ops.end)[own]
        begun = np.maximum(start, np.maximum.accumulate(np.concatenate([[0], end[:-1]])))
        at = [(self.ops.start[a], self.ops.start[b]) for a, b in self.steps]
        busy = [np.minimum(end, last) - np.maximum(begun, first) for first, last in at]
        return fmean(float(ns.clip(min=0).sum()) for ns in busy)

    def delay_ns(self, op: int) -> int:
        """Return the time before an operation that nothing in the trace explains, from 1 ms on.

        Work or other programs that the trace does not contain may have occupied the GPU.
        """
        ops, call = self.ops, self.ops.call[op]
        if call < 0 or ops.awaited[op] >= 0:
            return 0
        delay = min(ops.lag[op], ops.start[op] - self.calls.end[call])
        return delay if delay > _SHORTEST_DELAY_NS else 0

    @property
    def gains_by_amp(self) -> bool:
        """True if matrix work, or attention without any, is not in half precision already."""
        ops = self.ops
        matrix_ns, attention_ns = Counter[bool](), Counter[bool]()
        for op, precision in enumerate(ops.precision):
            if precision and not is_communication(ops.cause[op]):
                counted = attention_ns if ops.cause[op] == "gpu_attention" else matrix_ns
                counted[precision == "half"] += ops.end[op] - ops.start[op]
        matrix_ns = matrix_ns or attention_ns
        return matrix_ns[False] > _LEAST_FULL * matrix_ns.total()

    @property
    def measured_ops(self) -> range:
        """The operations that start within the steps; all of them without steps."""
        if not self.steps:
            return range(len(self.ops.start))
        return range(self.steps[0][0], self.steps[-1][1])
