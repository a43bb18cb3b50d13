"""Copies that are no batches: checkpoints, and weights or state in host memory."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tbd_trace.why.program import Program

CHECKPOINT = "checkpoint"  # cause of such copies

_LARGE_BYTES = 1_000_000
_TIMES_USUAL = 10  # bytes to the host, in steps that save a checkpoint
_MOST_STEPS = 0.5  # part of the steps that save one
_FEWEST_STEPS = 4
_MANY_COPIES = 16  # of a step, or of the trace without steps; a batch has fewer
_MOST_OF = 0.8


def checkpoint_copies(program: Program) -> list[int]:
    """Return copies to the host in the few steps that copy far more to it than the others."""
    if len(program.steps) < _FEWEST_STEPS:
        return []
    by_step = [_large(program, range(begin, end), "DtoH") for begin, end in program.steps]
    size = [sum(program.ops.bytes[op] for op in copies) for copies in by_step]
    most = _TIMES_USUAL * max(median(size), _LARGE_BYTES)
    checkpoints = [copies for copies, each in zip(by_step, size, strict=True) if each > most]
    if len(checkpoints) > _MOST_STEPS * len(program.steps):
        return []
    return [op for copies in checkpoints for op in copies]


def offloaded_copies(program: Program) -> int:
    """Return the number of large copies to the GPU in a step, 0 if they may be batches.

    Weights or state of an optimizer that stay in host memory are copied tensor by tensor.
    """
    ops = program.ops
    copies = [op for op in program.measured_ops if "HtoD" in ops.name[op]]
    large = _large(program, copies, "HtoD")
    each = len(large) / max(len(program.steps), 1)
    total = sum(ops.bytes[op] for op in copies)
    is_most = sum(ops.bytes[op] for op in large) >= _MOST_OF * total
    return round(each) if each >= _MANY_COPIES and is_most else 0


def _large(program: Program, among: range | list[int], direction: str) -> list[int]:
    ops = program.ops
    return [
        op
        for op in among
        if ops.kind[op] == "memcpy" and direction in ops.name[op] and ops.bytes[op] >= _LARGE_BYTES
    ]
