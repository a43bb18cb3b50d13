"""launch, _launch_range and op_scope's join to them: containment by brute force."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast import examples
from made_trace import MadeDatabase, MadeTrace, relation
from tbd_trace.query import prepare
from tbd_trace.query.catalogue import derive_relations, derived_relation

HOLDERS = [("t", 1, 1), ("t", 1, 2), ("t", 2, 1), ("u", 1, 1), ("t", None, 1)]
holder = st.sampled_from(HOLDERS)


def key(of: tuple[str, int | None, int]) -> dict[str, Any]:
    return dict(zip(("trace_id", "process_id", "thread_id"), of, strict=True))


def located(made: MadeTrace) -> list[dict[str, Any]]:
    """Return the operations, each with the innermost range around its launch."""
    with made.connect() as database:
        prepare(database.connection, ["op_scope", "_innermost_range", "annotation_path"])
        return database.select(
            "SELECT *, path AS range_path "
            "FROM op_scope LEFT JOIN _innermost_range USING (trace_id, api_call_id) "
            "LEFT JOIN annotation_path USING (trace_id, annotation_id)"
        )


def launches(database: MadeDatabase) -> dict[int, dict[str, Any]]:
    return {row["api_call_id"]: row for row in database.relation("launch")}


def innermost_from_slices(database: MadeDatabase) -> dict[int, int]:
    """Return the innermost range of each launch where each slice of the ranges is one range."""
    relations = {relation.name: relation.sql for relation in derive_relations()}
    connection = database.connection
    prepare(connection, ["_range_begin", *derived_relation("_innermost_range").relations])
    connection.execute("CREATE TEMP TABLE every_range AS FROM annotation")
    connection.execute("DELETE FROM _range_begin")
    for (number,) in connection.execute("SELECT annotation_id FROM every_range").fetchall():
        connection.execute("DELETE FROM annotation")
        connection.execute(
            f"INSERT INTO annotation FROM every_range WHERE annotation_id = {number}"
        )
        connection.execute(f"INSERT INTO _range_begin {relations['_range_begin']}")
    found = database.select(relations["_innermost_range"])
    return {row["api_call_id"]: row["annotation_id"] for row in found}


@pytest.mark.slow
@settings(max_examples=examples(20))
@given(
    threads=st.dictionaries(
        holder, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=8), min_size=1
    ),
    ranges=st.lists(
        st.tuples(
            holder,
            st.integers(0, 30),
            st.integers(0, 30),
            st.sampled_from(["push_pop", "start_end"]),
            st.sampled_from([None, 1, 2]),  # thread that ended it
            st.sampled_from([None, "NCCL", "mine"]),  # domain
            st.sampled_from([None, "text"]),
        ),
        max_size=12,
    ),
    shift=st.sampled_from([0, -20]),
)
def test_containment_by_brute_force(
    threads: dict[Any, list[tuple[int, int]]], ranges: Any, shift: int
) -> None:
    """Calls of a thread follow each other, touching or not; ranges nest, cross or coincide.

    Some begin before the recording, at times below 0.
    """
    made = MadeTrace()
    calls = []
    for of, gaps in threads.items():
        now = shift
        for correlation, (gap, length) in enumerate(gaps):
            start, now = now + gap, now + gap + length
            where = key(of)
            # the same correlation ids in every thread's process and trace, but not within one
            number = 100 * where["thread_id"] + correlation
            call = made.add_call(start, now, correlation_id=number, **where)
            del where["thread_id"]
            made.add_kernel(1000 + start, 1001 + now, correlation_id=number, **where)
            calls.append((of, start, now, call))
    spans = []
    owning = {}  # of several ranges that which is the largest owns
    for of, one, other, kind, ended_by, domain, text in ranges:
        start, end = sorted((one + shift, other + shift))
        row = key(of) | {"kind": kind, "end_thread_id": ended_by, "domain": domain}
        span = made.add_range(start, end, text, **row)
        spans.append((of, start, end, ended_by, span))
        if text:
            owning[span] = (domain != "NCCL", start, span)
    with made.connect() as database:
        # an operation without a process may have been launched by any (tested below)
        counted = Counter(row["api_call_id"] for row in database.relation("launch"))
        found = Counter(
            (r["trace_id"], r["api_call_id"], r["annotation_id"])
            for r in database.relation("_launch_range")
        )
        innermost = {
            r["api_call_id"]: r["annotation_id"] for r in database.relation("_innermost_range")
        }
        from_slices = innermost_from_slices(database)
    assert set(counted.values()) <= {1}
    assert set(counted) == {call for *_, call in calls}
    expected = Counter(
        (of[0], call, span)
        for of, start, end, call in calls
        for owner, begin, finish, ended_by, span in spans
        if of == owner and ended_by in (None, of[2]) and begin <= start and end <= finish
    )
    assert found == expected
    largest: dict[int, tuple[bool, int, int]] = {}
    for _, call, span in expected:
        if span in owning:
            largest[call] = max(owning[span], largest.get(call, owning[span]))
    assert innermost == {call: span for call, (*_, span) in largest.items()}
    assert from_slices == innermost


@pytest.mark.slow
@settings(max_examples=examples(10))
@given(order=st.permutations(HOLDERS))
def test_threads_have_the_same_numbers_every_time(order: list[tuple[str, int | None, int]]) -> None:
    """Runs that an earlier question left behind are read by these numbers."""
    made = MadeTrace()
    for at, of in enumerate(order):
        made.launch(at, 10, 20, correlation_id=1 + at, **key(of))
    rows = relation(made, "_launch_thread")
    numbers = {(r["trace_id"], r["process_id"], r["thread_id"]): r["host_thread"] for r in rows}
    expected = sorted(HOLDERS, key=lambda of: (of[0], of[1] is None, of[1], of[2]))
    assert numbers == {of: number for number, of in enumerate(expected, 1)}


def test_a_range_of_a_thread_that_launches_nothing_holds_nothing() -> None:
    made = MadeTrace()
    made.launch(10, 20, 30, thread_id=1)
    made.add_range(0, 100, thread_id=2)
    assert relation(made, "_launch_range") == []


@pytest.mark.parametrize(
    ("start", "end", "held"),
    [(10, 15, True), (9, 16, True), (11, 16, False), (9, 14, False), (15, 20, False)],
)
def test_both_ends_are_closed(start: int, end: int, held: bool) -> None:
    made = MadeTrace()
    made.launch(10, 50, 60, took=5)
    made.add_range(start, end)
    assert bool(relation(made, "_launch_range")) is held


@pytest.mark.slow
def test_correlation_ids_repeat_across_processes_and_traces() -> None:
    made = MadeTrace()
    for trace in ("t", "u"):
        for process in (1, 2):
            made.launch(
                10, 20, 30, f"{trace}{process}", trace_id=trace, process_id=process,
                thread_id=10 * process, correlation_id=7,
            )  # fmt: skip
            made.add_range(
                0,
                99,
                f"{trace}{process}",
                trace_id=trace,
                process_id=process,
                thread_id=10 * process,
            )
    rows = located(made)
    assert len(rows) == 4
    assert all(r["range_path"] == r["name"] == f"{r['trace_id']}{r['process_id']}" for r in rows)
    assert all(r["thread_id"] == 10 * r["process_id"] for r in rows)


@pytest.mark.slow
def test_operations_without_launch_record_stay() -> None:
    made = MadeTrace()
    made.add_kernel(0, 10, correlation_id=99)
    made.add_kernel(10, 20)  # no correlation id at all
    made.launch(5, 30, 40)
    rows = relation(made, "op_scope")
    assert sorted((r["start_ns"], r["api_call_id"] is None) for r in rows) == [
        (0, True),
        (10, True),
        (30, False),
    ]


def test_calls_without_operations_are_no_launches() -> None:
    made = MadeTrace()
    made.add_call(0, 5, "cudaMalloc")
    made.add_call(5, 9, "cudaDeviceSynchronize", correlation_id=99)
    made.launch(10, 20, 30)
    with made.connect() as database:
        assert [row["name"] for row in database.relation("launch")] == ["cudaLaunchKernel"]


@pytest.mark.slow
def test_graph_nodes_share_the_correlation_id_of_their_graph_s_launch() -> None:
    made = MadeTrace()
    call = made.add_call(10, 12, "cudaGraphLaunch", correlation_id=5)
    for node in range(4):
        made.add_kernel(20 + node, 21 + node, correlation_id=5, graph_node_id=node, graph_id=1)
    made.add_memcpy(30, 31, correlation_id=5, graph_node_id=9)
    span = made.add_range(0, 15, "replay")
    with made.connect() as database:
        assert len(launches(database)) == 1
    rows = located(made)
    assert len(rows) == 5
    assert {(r["api_call_id"], r["annotation_id"]) for r in rows} == {(call, span)}


def test_the_runtime_call_is_the_launch_not_the_driver_call_inside() -> None:
    made = MadeTrace()
    inner = made.add_call(11, 14, "cuLaunchKernel", correlation_id=5)
    outer = made.add_call(10, 15, "cudaLaunchKernel", correlation_id=5)
    made.add_kernel(20, 30, correlation_id=5)
    with made.connect() as database:
        assert set(launches(database)) == {outer} != {inner}


def test_cudnn_and_cublas_calls_launch_nothing_themselves() -> None:
    made = MadeTrace()
    made.add_call(0, 90, "cudnnConvolutionForward", api="cudnn", correlation_id=5)
    call = made.add_call(10, 15, correlation_id=5)
    made.add_kernel(20, 30, correlation_id=5)
    with made.connect() as database:
        assert set(launches(database)) == {call}


@pytest.mark.slow
def test_an_operation_without_process_joins_by_correlation_id_alone() -> None:
    """nvprof's tables of one process name none."""
    made = MadeTrace()
    call = made.add_call(10, 12, correlation_id=5, process_id=77, thread_id=3)
    made.add_kernel(20, 30, correlation_id=5, process_id=None)
    span = made.add_range(0, 50, process_id=77, thread_id=3)
    [row] = located(made)
    assert (row["api_call_id"], row["annotation_id"], row["thread_id"]) == (call, span, 3)


@pytest.mark.slow
def test_neither_operation_nor_call_has_a_process() -> None:
    made = MadeTrace()
    span = made.add_range(0, 50, process_id=None)
    made.launch(10, 20, 30, process_id=None)
    [row] = located(made)
    assert row["annotation_id"] == span


@pytest.mark.slow
def test_an_operation_without_process_is_never_counted_twice() -> None:
    """Two processes used its correlation id: which of them launched it, nobody knows."""
    made = MadeTrace()
    for process in (1, 2):
        made.add_call(10, 12, correlation_id=5, process_id=process, thread_id=process)
    made.add_kernel(20, 30, correlation_id=5, process_id=None)
    [row] = relation(made, "op_scope")
    assert row["api_call_id"] is None
