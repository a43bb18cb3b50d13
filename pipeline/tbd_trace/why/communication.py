"""Communication of a device in a mean step: its time, and the part beside compute."""

from __future__ import annotations

from statistics import median
from typing import NamedTuple

from tbd_trace.why.overlap import is_communication, is_compute, time_beside
from tbd_trace.why.program import Program


class Communication(NamedTuple):
    """Communication of a device in a mean step."""

    total_ns: float  # sum of the kernels
    hidden_ns: float  # part of it beside compute kernels
    compute_ns: float  # sum of the compute kernels, without the optimizer
    kernels: float
    median_ns: float  # of a kernel


def communication(program: Program) -> Communication | None:
    """Return the communication of the steps of a program, None if there is none."""
    ops, device = program.ops, program.device_id
    own = [op for op in program.measured_ops if ops.device[op] == device]
    durations = [ops.end[op] - ops.start[op] for op in own if is_communication(ops.cause[op])]
    if not durations or not program.steps:
        return None
    hidden = time_beside(ops, device, is_communication, is_compute)
    compute = sum(
        ops.end[op] - ops.start[op]
        for op in own
        if is_compute(ops.cause[op]) and ops.cause[op] != "gpu_optimizer"
    )
    steps = len(program.steps)
    return Communication(
        sum(durations) / steps,
        float(hidden[own].sum()) / steps,
        compute / steps,
        len(durations) / steps,
        median(durations),
    )
