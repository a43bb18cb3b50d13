"""A training loop, simulated forwards: the trace that it makes, and when its steps begin."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from made_trace import MadeTrace
from tbd_trace.query import prepare
from tbd_trace.why.processes import INPUTS, programs
from tbd_trace.why.program import Program

MS = 1_000_000

CALL, PAUSE, LAUNCH, GAP, TAIL = 4_000, 6_000, 9_000, 1_500, 5_000


@dataclass
class Loop:
    """What a loop does; times in ns, waits by step (and launch)."""

    steps: int = 12
    kernels: list[tuple[str, int]] = field(
        default_factory=lambda: [("ampere_sgemm_128x64_tn", 400_000)] * 6
    )
    copy_ns: int = 300_000
    copy_bytes: int = 6_000_000
    loading_ns: dict[int, int] = field(default_factory=dict)  # before the copy of a step
    stalls: dict[tuple[int, int], int] = field(default_factory=dict)  # before a launch
    long_launches: dict[tuple[int, int], int] = field(default_factory=dict)
    late_ns: dict[tuple[int, int], int] = field(default_factory=dict)  # before an operation
    waits_in: str = "cudaDeviceSynchronize"  # at the end of each step
    alone_in_sync_ns: int = 0  # time in the synchronization after the last operation ended
    trace_id: str = "t"
    process: int = 1  # which has its own device
    begins: list[int] = field(default_factory=list)  # of the steps, on the GPU
    marked: list[tuple[int, int]] = field(default_factory=list)  # ranges of the steps

    def run(self, made: MadeTrace | None = None) -> MadeTrace:
        """Return the trace of the loop."""
        made = made or MadeTrace()
        if all(row["trace_id"] != self.trace_id for row in made.rows["trace"]):
            made.add_trace(self.trace_id)
        now, free, number = 1_000_000, 0, 1_000_000 * self.process
        host: dict[str, Any] = {"trace_id": self.trace_id, "process_id": self.process}
        gpu = host | {"device_id": self.process - 1}
        host |= {"thread_id": self.process}
        self.begins, self.marked = [], []
        for step in range(self.steps):
            begin = now
            now += self.loading_ns.get(step, 20_000)
            work = [("copy", self.copy_ns), *self.kernels]
            for place, (name, takes) in enumerate(work):
                now += PAUSE + self.stalls.get((step, place), 0)
                took = CALL + self.long_launches.get((step, place), 0)
                start = max(free + GAP, now + LAUNCH, now + took - CALL + LAUNCH)
                start += self.late_ns.get((step, place), 0)
                number += 1
                call = "cudaLaunchKernel" if place else "cudaMemcpyAsync"
                made.add_call(now, now + took, call, correlation_id=number, **host)
                if place:
                    made.add_kernel(start, start + takes, name, correlation_id=number, **gpu)
                else:
                    copy = gpu | {"bytes": self.copy_bytes, "src_kind": "pinned"}
                    made.add_memcpy(start, start + takes, correlation_id=number, **copy)
                    self.begins.append(start)
                free = start + takes
                now += took
            now += PAUSE
            end = max(now, free) + TAIL + self.alone_in_sync_ns
            made.add_call(now, end, self.waits_in, **host)
            now = end
            made.add_range(begin, now, f"step {step}", **host)
            self.marked.append((begin, now))
            now += PAUSE
        return made

    @property
    def mean_ns(self) -> float:
        """Mean step, without the first, which counts as warm-up."""
        return (self.begins[-1] - self.begins[1]) / (len(self.begins) - 2)


def programs_of(made: MadeTrace) -> list[Program]:
    """Return the program of each process, by trace."""
    with made.connect() as database:
        prepare(database.connection, INPUTS)
        return [found.program for found in programs(database.connection)]


def together(*loops: Loop) -> list[Program]:
    """Return the programs of loops; the relations of all cost little more than those of one."""
    made = MadeTrace()
    for number, loop in enumerate(loops):
        loop.trace_id = f"{number:03}"
        loop.run(made)
    return programs_of(made)
