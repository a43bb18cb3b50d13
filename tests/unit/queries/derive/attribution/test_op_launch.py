"""The call that launched an operation: by process, correlation id and time."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fast import examples
from made_trace import MadeTrace, relation

PROCESSES, IDS = (1, 2), (7, 8)
Call = tuple[int, int]  # process and correlation id; the position in the list is the time


def start_of_the_call(calls: list[Call], process: int | None, number: int, at: int) -> int | None:
    """Return the start of the call that launched an operation, with loops instead of joins."""
    same = [
        (caller, 10 * place)
        for place, (caller, used) in enumerate(calls)
        if used == number and process in (None, caller)
    ]
    if not same or (process is None and len({caller for caller, _ in same}) > 1):
        return None
    starts = [start for _, start in same]
    return max((start for start in starts if start <= at), default=starts[0])


@settings(max_examples=examples(60))
@given(
    st.lists(st.tuples(st.sampled_from(PROCESSES), st.sampled_from(IDS)), max_size=6),
    st.lists(
        st.tuples(st.sampled_from([*PROCESSES, None]), st.sampled_from(IDS), st.integers(0, 70)),
        min_size=1,
        max_size=6,
    ),
)
def test_launches_by_brute_force(
    calls: list[Call], operations: list[tuple[int | None, int, int]]
) -> None:
    made = MadeTrace()
    for place, (process, number) in enumerate(calls):
        made.add_call(10 * place, 10 * place + 3, process_id=process, correlation_id=number)
    kernels = {
        made.add_kernel(at, at + 5, process_id=process, correlation_id=number): (
            process,
            number,
            at,
        )
        for process, number, at in operations
    }
    found = {row["op_id"]: row["launch_start_ns"] for row in relation(made, "op_launch")}
    assert {kernel: found.get(kernel) for kernel in kernels} == {
        kernel: start_of_the_call(calls, *described) for kernel, described in kernels.items()
    }


def _trace() -> tuple[MadeTrace, dict[int, int | None]]:
    # The kernels, with the threads that launched them. Each call is in a range of its own.
    made, threads = MadeTrace(), {}

    def call(at: int, thread: int, **row: Any) -> None:
        made.add_range(at - 1, at + 3, f"by {thread}", thread_id=thread, **row)
        made.add_call(at, at + 2, thread_id=thread, correlation_id=7, **row)

    call(10, 11)
    threads[made.add_kernel(20, 25, "unknown process", correlation_id=7, process_id=None)] = 11
    call(30, 12)
    threads[made.add_kernel(40, 46, "the id again", correlation_id=7, process_id=1)] = 12
    for process, thread in ((1, 13), (2, 14)):
        made.add_range(49, 53, f"by {thread}", process_id=process, thread_id=thread)
        made.add_call(50, 52, process_id=process, thread_id=thread, correlation_id=8)
        name = f"of process {process}"
        kernel = made.add_kernel(60, 67, name, correlation_id=8, process_id=process)
        threads[kernel] = thread
    threads[made.add_kernel(70, 78, "of either", correlation_id=8, process_id=None)] = None
    return made, threads


def test_all_relations_have_the_same_launches() -> None:
    made, threads = _trace()
    with made.connect() as database:
        kernels = {row["kernel_id"]: row for row in database.select("FROM kernel")}
        launches = {row["op_id"]: row["thread_id"] for row in database.relation("op_launch")}
        assert {kernel: launches.get(kernel) for kernel in threads} == threads
        for name in ("op_scope", "kernel_scope"):
            key = "op_id" if name == "op_scope" else "kernel_id"
            assert {r[key]: r["thread_id"] for r in database.relation(name)} == threads, name
        calls = {row["api_call_id"]: row["thread_id"] for row in database.select("FROM api_call")}
        assert {
            row["op_id"]: calls.get(row["api_call_id"]) for row in database.relation("gpu_chain")
        } == threads
        by_name = {kernels[kernel]["name"]: thread for kernel, thread in threads.items()}
        assert {
            row["kernel_name"]: row["thread_id"]
            for row in database.relation("range_kernel")
            if row["path_id"] or row["thread_id"] is None
        } == by_name
        assert {
            row["op_name"]: row["range_name"] for row in database.relation("self_operation")
        } == {name: thread and f"by {thread}" for name, thread in by_name.items()}
        ranges = {row["annotation_id"]: row for row in database.select("FROM annotation")}
        assert {
            ranges[row["annotation_id"]]["thread_id"]: row["gpu_sum_ns"]
            for row in database.relation("range_gpu_time")
        } == {
            thread: kernels[kernel]["duration_ns"]
            for kernel, thread in threads.items()
            if thread is not None
        }
