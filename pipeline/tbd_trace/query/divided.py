"""Run queries over many traces: one trace at a time where the answers can be put together.

Memory then depends on the largest trace, not on their number, and the traces can be asked in other
processes. Traces of one capture are asked together, because they share counters.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from tbd_trace.errors import CannotAnswerError, StoreError
from tbd_trace.model.canonical_tables import CATALOGUE
from tbd_trace.query import execution
from tbd_trace.query.connection import relation_names, selected_ids
from tbd_trace.query.header import Query, Scalar
from tbd_trace.query.needs import check_needs, check_refusal, named
from tbd_trace.query.parts import catalogue, divide
from tbd_trace.query.reduction import changes_rows, reduced
from tbd_trace.query.renamed import resolve_old_names
from tbd_trace.query.result import Batch, Result
from tbd_trace.runtime.executors import Executor, Lost, ThisProcess
from tbd_trace.store.base import TraceStore

if TYPE_CHECKING:
    import polars as pl

_REASONS_SHOWN = 3


def execute(
    database: TraceStore,
    query: Query,
    trace_ids: Sequence[str] | None = None,
    parameters: Mapping[str, str] | None = None,
    rows: int | None = None,
    *,
    executor: Executor | None = None,
) -> Result:
    """Run a query over some traces.

    Args:
        database: the database or archive with the traces.
        trace_ids: the traces; None means all.
        parameters: values of the query's parameters and of those of the relations it reads.
        rows: maximum number of rows to compute; None means all.
        executor: where to ask each trace; None asks in this process, small traces together.

    Raises:
        CannotAnswerError: no trace holds the data that the query needs, or the result would
            mislead.
        StoreError: a trace is damaged, or was removed while it was read.
        UsageError: an unknown parameter, an invalid value or invalid SQL.
    """
    parts = _parts_of_query(database, query, trace_ids, executor)
    if len(parts) < 2:
        result = execution.execute(database, query, trace_ids, parameters, rows)
        result.notes.extend(_together(query, executor))
        return result
    if query.refuse or changes_rows(query):
        rows = None
    divided = _DividedQuery(database, query, parts, dict(parameters or {}))
    answers = divided.answers(executor or ThisProcess(), rows)
    frames, height = [], 0
    with closing(answers):
        for frame in divided.in_order(answers):
            frames.append(frame)
            height += frame.height
            if rows is not None and height > rows:
                break
    frame = divided.reduced(frames)
    more = rows is not None and (divided.more or frame.height > rows)
    notes = divided.notes
    return Result(query, frame[:rows], notes, divided.values, more=more, missing=divided.missing)


def execute_batches(
    database: TraceStore,
    query: Query,
    trace_ids: Sequence[str] | None = None,
    parameters: Mapping[str, str] | None = None,
    *,
    executor: Executor | None = None,
) -> Generator[Batch]:
    """Run a query over some traces, and yield its rows in at least one batch.

    Millions of rows need not be in memory together. The traces stay open until the generator is
    exhausted or closed. Arguments and errors as in :func:`execute`.
    """
    parts = _parts_of_query(database, query, trace_ids, executor)
    if len(parts) < 2:
        for batch in execution.execute_batches(database, query, trace_ids, parameters):
            yield replace(batch, notes=batch.notes + _together(query, executor))
        return
    if query.refuse or changes_rows(query):
        result = execute(database, query, trace_ids, parameters, executor=executor)
        yield Batch(result.frame, result.notes, result.missing)
        return
    divided = _DividedQuery(database, query, parts, dict(parameters or {}))
    answers = divided.batches() if executor is None else divided.answers(executor, None)
    with closing(answers):
        for frame in divided.in_order(answers):
            yield Batch(frame, divided.notes)
    divided.check()
    if divided.missing:
        yield Batch(frame.clear(), divided.notes, divided.missing)


def _parts_of_query(
    database: TraceStore,
    query: Query,
    trace_ids: Sequence[str] | None,
    executor: Executor | None,
) -> list[list[str]]:
    if not query.reduce:
        return []
    return divide(database, selected_ids(database, trace_ids), executor, query.together)


def _together(query: Query, executor: Executor | None) -> list[str]:
    if query.reduce or executor is None:
        return []
    return [f"{query.name} needs all traces together; it was not shared among processes"]


@dataclass(frozen=True, slots=True)
class _Answer:
    # None for traces that lack the data, with the reason.
    frame: pl.DataFrame | None
    reason: str = ""
    more: bool = False


class _DividedQuery:
    # A query that is asked for each part, and its answer so far.

    def __init__(
        self,
        database: TraceStore,
        query: Query,
        parts: Sequence[Sequence[str]],
        parameters: dict[str, str],
    ) -> None:
        self._database, self._query, self._parts = database, query, parts
        self._parameters = parameters
        self.values: dict[str, Scalar] = execution.checked_values(query, parameters)
        self.more = False
        self.missing: list[str] = []  # names of traces that were not asked to the end
        self._reasons: dict[str, None] = {}
        self._is_answered = False
        ids = [trace_id for part in parts for trace_id in part]
        with catalogue(database, ids) as connection:
            self.notes = check_needs(connection, query)
            names = connection.execute(f"SELECT trace_id, name FROM {CATALOGUE}").fetchall()
        self._names: dict[str, str] = dict(names)
        self.notes += resolve_old_names(relation_names(query)).notes
        # Both are done with the rows of all parts.
        self._part_query = replace(query, reduce="", refuse=None)

    def answers(
        self, executor: Executor, rows: int | None
    ) -> Generator[tuple[Sequence[str], pl.DataFrame]]:
        calls = [
            partial(_ask, self._database, self._part_query, part, self._parameters, rows)
            for part in self._parts
        ]
        with closing(executor.run(calls)) as results:
            for part, answer in zip(self._parts, results, strict=True):
                if isinstance(answer, Lost):
                    self.missing += [self._names[trace_id] for trace_id in part]
                elif answer.frame is None:
                    self._reasons[answer.reason] = None
                else:
                    self._is_answered = True
                    self.more = self.more or answer.more
                    yield part, answer.frame

    def batches(self) -> Generator[tuple[Sequence[str], pl.DataFrame]]:
        for part in self._parts:
            batches = execution.execute_batches(
                self._database, self._part_query, part, self._parameters
            )
            try:
                with closing(batches):
                    for batch in batches:
                        self._is_answered = True
                        yield part, batch.rows
            except CannotAnswerError as error:
                self._reasons[str(error)] = None

    def in_order(
        self, answers: Iterable[tuple[Sequence[str], pl.DataFrame]]
    ) -> Iterator[pl.DataFrame]:
        if self._query.reduce == "concat":
            return _in_order(answers)
        return (frame for _, frame in answers)

    def check(self) -> None:
        if self._is_answered:
            return
        if self.missing:
            raise StoreError(not_answered(self.missing))
        reasons = list(self._reasons)
        more = len(reasons) - _REASONS_SHOWN
        rest = [f"{more} more traces cannot answer either"] if more > 0 else []
        raise CannotAnswerError("; ".join(reasons[:_REASONS_SHOWN] + rest))

    def reduced(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        self.check()
        rows = reduced(self._part_query, frames, self.values)
        check_refusal(self._query, rows, self.values)
        return reduced(self._query, [rows], self.values)


def _ask(
    database: TraceStore,
    query: Query,
    trace_ids: Sequence[str],
    parameters: Mapping[str, str],
    rows: int | None,
) -> _Answer:
    try:
        result = execution.execute(database, query, trace_ids, parameters, rows)
    except CannotAnswerError as error:
        return _Answer(None, str(error))
    return _Answer(result.frame, more=result.more)


def not_answered(names: Sequence[str]) -> str:
    """Return the sentence about traces whose processes ended before they had answered."""
    return (
        f"no answer for {named(names)}: the process that asked ended, twice; "
        "see whether memory ran out, and ask again with fewer --workers"
    )


def _in_order(
    answers: Iterable[tuple[Sequence[str], pl.DataFrame]],
) -> Iterator[pl.DataFrame]:
    # Rows in the order of trace ids: parts are sorted by their first trace, so the rows of later
    # traces of a part wait for the parts that begin before them.
    waiting: dict[str, list[pl.DataFrame]] = {}
    for part, frame in answers:
        for trace_id in sorted(waiting):
            if trace_id < part[0]:
                yield from waiting.pop(trace_id)
        if len(part) == 1 or frame.is_empty():
            yield frame
            continue
        for (trace_id,), rows in frame.partition_by(
            frame.columns[0], as_dict=True, maintain_order=True
        ).items():
            waiting.setdefault(str(trace_id), []).append(rows)
    for trace_id in sorted(waiting):
        yield from waiting[trace_id]
