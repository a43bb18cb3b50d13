"""Find stalls of the host: far longer pauses than usual at the same place of a step."""

from __future__ import annotations

import numpy as np
import polars as pl

from tbd_trace.why.edges import EDGE
from tbd_trace.why.program import Program

_SHORTEST_NS = 1_000_000
_TIMES_USUAL = 10
_SHORTEST_PAUSE_NS = 2_000_000  # of pauses in each step
_TIMES_USUAL_OF_THREAD = 50
_FEWEST_STEPS = 5  # with fewer, the usual pause is unknown


def stalls(program: Program) -> dict[int, int]:
    """Return the usual pause, in ns, before each call that the host reached late.

    A pause is late if it is far longer than usual at its place of a step or, where steps pause at
    the same place again and again, than pauses of its thread. Waits for input are not stalls.
    """
    calls, ops = program.calls, program.ops
    firsts = [ops.call[op] for op, _ in program.steps]
    begins = [calls.start[call] for call in firsts if call >= 0]
    # The last step may end with an operation.
    begins += [
        calls.start[ops.call[op]] if ops.call[op] >= 0 else ops.start[op]
        for _, op in program.steps[-1:]
    ]
    if len(begins) != len(firsts) + 1 or begins != sorted(begins):
        return {}
    names = {name: number for number, name in enumerate(dict.fromkeys(calls.name))}
    frame = pl.DataFrame(
        {
            "thread": np.asarray(calls.thread),
            "is_edge": [kind == EDGE for kind in calls.kind],
            "name": [names[name] for name in calls.name],
            "step": np.searchsorted(begins, calls.start, side="right") - 1,
            "think": np.asarray(_without_input(program)),
        }
    ).with_row_index("call")
    is_in_step = pl.col("step").is_between(0, len(begins) - 2)
    place = "thread", "rank", "name"
    usual = pl.col("think").median().over(place)
    late = (
        frame.filter(is_in_step & ~pl.col("is_edge"))
        .with_columns(rank=pl.int_range(pl.len()).over("thread", "step"))
        .with_columns(
            usual=usual,
            steps=pl.len().over(place),
            usual_of_thread=pl.col("think").median().over("thread"),
        )
        .with_columns(
            is_late=(pl.col("steps") >= _FEWEST_STEPS)
            & (pl.col("think") > _SHORTEST_NS)
            & (pl.col("think") > _TIMES_USUAL * pl.col("usual")),
            is_pause=(pl.col("think") > _SHORTEST_PAUSE_NS)
            & (pl.col("think") > _TIMES_USUAL_OF_THREAD * pl.col("usual_of_thread")),
        )
        .filter(pl.col("is_late") | pl.col("is_pause"))
        .with_columns(usual=pl.when("is_late").then("usual").otherwise("usual_of_thread"))
    )
    return {call: int(ns) for call, ns in late.select("call", "usual").rows()}


def _without_input(program: Program) -> list[int]:
    # Pauses before the calls, without waits for input.
    think = list(program.calls.think)
    for call, wait in program.input_waits.items():
        think[call] -= wait.ns
    return think
