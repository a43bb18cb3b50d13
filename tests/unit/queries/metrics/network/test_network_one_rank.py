"""Communication of one rank, on made traces with numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from made_trace import MadeTrace, metric, relation

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def overlap(made: MadeTrace, **parameters: Any) -> list[tuple[Any, ...]]:
    names = ("collectives", "total_ns", "communication_ns", "overlapped_ns", "exposed_ns")
    return [
        tuple(row[name] for name in names) for row in metric(made, "comm_overlap", **parameters)
    ]


@pytest.mark.slow
def test_overlap_of_two_streams() -> None:
    made = MadeTrace()
    made.launch(0, 100, 200, "gemm")
    # Two collectives from 150 to 300 and from 250 to 350, the first under the gemm until 200.
    made.launch(5, 150, 300, ALL_REDUCE, stream_id=8)
    made.launch(9, 250, 350, ALL_REDUCE, stream_id=9)
    # A copy hides nothing.
    made.add_memcpy(340, 400)
    assert overlap(made) == [(2, 250, 200, 50, 150)]


def test_kind_and_bytes_come_from_the_record_around_the_launch() -> None:
    made = MadeTrace()
    made.launch(10, 100, 200, "ncclDevKernel_Generic")
    record = {"source": "operator", "process_id": 1, "thread_id": 1, "dtype": "BFloat16"}
    record |= {"input_elements": 10, "output_elements": 80, "group_size": 8, "group_name": "3"}
    made.add("collective_record", record_id=1, kind="_allgather_base", start_ns=5, end_ns=20,
             **record)  # fmt: skip
    # After the end of the record, and on another thread.
    made.launch(30, 300, 400, "ncclDevKernel_Generic")
    made.launch(15, 500, 600, "ncclDevKernel_Generic", thread_id=2)
    found = relation(made, "collective")
    names = ("kind", "bytes", "group_size", "communicator", "issue_ns", "bytes_evidence")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("all_gather", 160, 8, "group 3", 10, "record_param_comms"),
        (None, None, None, "stream 1", 30, None),
        (None, None, None, "stream 1", 15, None),
    ]


def test_ranges_of_shards_say_what_gloo_is_asked_for() -> None:
    """Each rank has 10 of 20 floats; gloo records its input, and all-reduces in two ways."""
    made = MadeTrace()
    records = [
        ("bucket", "all_gather", 100, 200, {"bytes": 80}),
        ("gloo", "all_gather", 110, 190, {"input_elements": 10}),
        ("bucket", "reduce_scatter", 300, 400, {"bytes": 80}),
        ("gloo", "all_reduce", 310, 390, {"input_elements": 20}),
        ("gloo", "all_reduce", 410, 490, {"input_elements": 1}),  # of a norm
        # Two buckets of gradients at once: the one that began last may wait for the other.
        ("bucket", "all_reduce", 500, 700, {"bytes": 400}),
        ("bucket", "all_reduce", 510, 900, {"bytes": 800}),
        ("gloo", "all_reduce", 520, 690, {"input_elements": 100}),
    ]
    for number, (source, kind, start, end, more) in enumerate(records):
        made.add("collective_record", record_id=number, source=source, kind=kind, process_id=1,
                 start_ns=start, end_ns=end, dtype="float", **more)  # fmt: skip
    found = relation(made, "collective")
    assert [(row["kind"], row["bytes"], row["bytes_evidence"]) for row in found] == [
        ("all_gather", 80, "range text"),
        ("reduce_scatter", 80, "range text"),
        ("all_reduce", 4, "input dimensions"),
        ("all_reduce", 400, "input dimensions"),
    ]


def test_kinds_by_name() -> None:
    names = {
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)": ("all_reduce", True),
        "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL": ("reduce_scatter", True),
        "ncclDevKernel_AllGather_RING_LL": ("all_gather", True),
        "ncclDevKernel_Broadcast_RING_LL": ("broadcast", False),
        "ncclDevKernel_Reduce_Sum_f32_RING_LL": ("reduce", False),
        "ncclDevKernel_SendRecv": ("send_recv", False),
        "ncclDevKernel_Generic": (None, None),
    }
    made = MadeTrace()
    for at, name in enumerate(names):
        made.launch(10 * at, 1000 + 10 * at, 1005 + 10 * at, name)
    found = relation(made, "collective")
    assert {row["name"]: (row["kind"], row["is_synchronizing"]) for row in found} == names


@pytest.mark.slow
def test_ranges_of_nvtx() -> None:
    made = MadeTrace()
    made.add_range(0, 1000, "iteration 0")
    made.add_range(100, 300, "gloo:all_reduce, bytes = 4000, bucket = 1", kind="start_end")
    made.add_range(200, 500, "all_gather, bytes = 800")
    made.add_range(600, 700, "reduce the loss, bytes = 8")
    found = relation(made, "collective")
    assert [(row["kind"], row["bytes"], row["source"]) for row in found] == [
        ("all_reduce", 4000, "nvtx"),
        ("all_gather", 800, "nvtx"),
    ]
    # 100 to 500, whatever runs on the device.
    assert overlap(made) == [(2, 500, 400, None, None)]


def test_ranks_of_one_trace() -> None:
    made = MadeTrace()
    for process, device in ((11, 1), (12, 0)):
        made.launch(5, 100, 200, ALL_REDUCE, process_id=process, device_id=device)
    found = relation(made, "job_member")
    members = [(row["rank"], row["process_id"], row["device_id"]) for row in found]
    assert sorted(members) == [(0, 12, 0), (1, 11, 1)]
    assert {(row["world_size"], row["evidence"]) for row in found} == {(2, "process and device")}
    alone = MadeTrace()
    alone.launch(5, 100, 200, ALL_REDUCE)
    assert relation(alone, "job_member") == []


def test_a_rank_in_two_traces_is_marked() -> None:
    made = MadeTrace()
    for trace, rank in (("a", 0), ("b", 1), ("c", 1)):
        made.add_trace(trace, name=f"run/{trace}.json")
        made.add("job_rank", trace_id=trace, rank=rank, evidence="file name")
    found = relation(made, "job_member")
    assert sorted((row["job"], row["rank"], row["is_duplicate"]) for row in found) == [
        ("run", 0, False), ("run", 1, True), ("run", 1, True),
    ]  # fmt: skip
