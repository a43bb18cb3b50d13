"""Made traces of training, and what the rules say about made traces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from made_trace import MadeDatabase, MadeTrace, Row
from tbd_trace.analysis.checks import select

PERIOD = 1000
ITERATIONS = 12

Kernel = tuple[int, int, str, dict[str, Any]]


def kernel(after: int, took: int, name: str = "work", **row: Any) -> Kernel:
    """Return a kernel that each iteration runs, so long after its beginning."""
    return after, took, name, row


def train(
    made: MadeTrace,
    *kernels: Kernel,
    iterations: int = ITERATIONS,
    periods: Sequence[int] | None = None,
    trains: bool = True,
    trace_id: str = "t",
) -> list[list[int]]:
    """Add iterations that follow each other without a gap; return the ids of each one's kernels.

    The kernels are launched one after the other from the iteration's tenth ns on. With ``trains``
    they are in the range of a backward pass.
    """
    trace: Row = {"trace_id": trace_id}
    start, made_kernels = 0, []
    for number, length in enumerate(periods or [PERIOD] * iterations):
        made.add_range(start, start + length, f"iteration {number}", **trace)
        if trains:
            made.add_range(start + 5, start + 90, "phase:backward", **trace)
        made_kernels.append(
            [
                made.launch(start + 10 + 2 * place, start + after, start + after + took, name,
                            **trace, **row)
                for place, (after, took, name, row) in enumerate(kernels)
            ]
        )  # fmt: skip
        start += length
    return made_kernels


def rows_of(made: MadeTrace, rule: str, **parameters: Any) -> list[Row]:
    """Return what a rule says about made traces, complete as :func:`evaluate` gives it."""
    with made.connect() as database:
        return rows_on(database, rule, **parameters)


def rows_on(database: MadeDatabase, rule: str, **parameters: Any) -> list[Row]:
    """Return what a rule says about the traces of a database."""
    database.set(**parameters)
    (query,) = select([rule])
    return database.rows_of_check(query)


def row_of(made: MadeTrace, rule: str, **parameters: Any) -> Row:
    """Return the only row of a rule."""
    (row,) = rows_of(made, rule, **parameters)
    return row


def verdict(row: Row) -> tuple[str, str | None]:
    """Return what a row says in short."""
    return row["verdict"], row["severity"]


def add_capture(made: MadeTrace, trace_id: str = "t", **said: Any) -> None:
    """Describe a trace as the timeline of a capture."""
    made.add_trace(
        trace_id,
        name=f"{trace_id}/timeline.sqlite",
        batch_size=said.get("batch_size"),
        capture=json.dumps(said),
    )
