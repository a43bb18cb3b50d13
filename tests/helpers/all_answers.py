"""Answers of many queries about the same traces, over one connection.

Most of the work of a question is to derive relations, which the next question needs, too.
"""

from __future__ import annotations

from collections.abc import Iterable

from tbd_trace.errors import CannotAnswerError
from tbd_trace.query import Catalogue, Result
from tbd_trace.query.shared_session import SharedSession
from tbd_trace.store.base import TraceStore


def answers(
    store: TraceStore, names: Iterable[str], trace_ids: list[str] | None = None
) -> dict[str, Result | CannotAnswerError]:
    """Return what each query answers, or why it does not.

    Args:
        store: the database or archive.
        names: the queries.
        trace_ids: the traces; None means all.
    """
    found: dict[str, Result | CannotAnswerError] = {}
    with SharedSession(store, store.trace_ids() if trace_ids is None else trace_ids) as session:
        for name in names:
            try:
                found[name] = session.run(Catalogue().get(name))
            except CannotAnswerError as error:
                found[name] = error
    return found
