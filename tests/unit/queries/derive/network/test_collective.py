"""Collectives belong to the call that launched their kernel, as other operations do."""

from __future__ import annotations

from made_trace import MadeTrace, relation

KERNEL = "ncclDevKernel_Generic"  # does not say which collective it is
UNKNOWN = {"process_id": None}


def test_the_launch_of_each_kernel() -> None:
    made = MadeTrace()
    made.add_trace()
    # Process of the kernel unknown, and one process launched with this correlation id.
    made.add_range(0, 5, "nccl:all_gather")
    made.add_call(1, 2, correlation_id=7)
    made.add_kernel(10, 20, KERNEL, correlation_id=7, **UNKNOWN)
    # The id again, later.
    made.add_range(30, 35, "nccl:broadcast")
    made.add_call(31, 32, correlation_id=7)
    made.add_kernel(40, 50, KERNEL, correlation_id=7, **UNKNOWN)
    # Two processes launched with one id.
    for process, text, start in ((1, "nccl:all_reduce", 60), (2, "nccl:reduce_scatter", 61)):
        made.add_range(start, start + 5, text, process_id=process)
        made.add_call(start + 1, start + 2, correlation_id=8, process_id=process)
        made.add_kernel(start + 10, start + 15, KERNEL, correlation_id=8, process_id=process)
    made.add_kernel(80, 90, KERNEL, correlation_id=8, **UNKNOWN)
    found = [
        (row["start_ns"], row["issue_ns"], row["kind"]) for row in relation(made, "collective")
    ]
    assert found == [
        (10, 1, "all_gather"),
        (40, 31, "broadcast"),
        (70, 61, "all_reduce"),
        (71, 62, "reduce_scatter"),
        (80, None, None),
    ]
