"""Relations of Flight Recorder dumps: ranks, calls and progress in groups."""

from __future__ import annotations

import json
from typing import Any

import pytest

from made_trace import MadeTrace, metric, relation

DEFAULTS = {
    "local_group_id": 0, "group_name": "0", "group_description": "default_pg", "backend": "nccl",
    "operation": "all_reduce", "is_point_to_point": False, "is_retired": True,
    "input_shapes": "[[4]]", "input_dtypes": '["Float"]',
    "output_shapes": "[[4]]", "output_dtypes": '["Float"]',
}  # fmt: skip


class Dumps(MadeTrace):
    """Dumps of the ranks of one job; trace ``K`` is that of rank K."""

    def add_dump(self, rank: int, **capture: Any) -> None:
        """Add a dump; ``capture`` is what was known about the job."""
        self.add_trace(
            str(rank), format="flight-recorder-dump", kind="summary", capture=json.dumps(capture)
        )
        size = capture.get("world_size")
        self.add("job_rank", trace_id=str(rank), job="j", rank=rank, world_size=size)

    def call(self, rank: int, sequence: int, **row: Any) -> None:
        """Add a collective of a rank."""
        known = DEFAULTS | {"sequence": sequence, "operation_id": sequence}
        known |= {"record_id": self.next_id(), "created_ns": 1000 + sequence}
        self.add("flight_record", trace_id=str(rank), **(known | row))


def dumps(ranks: int, **capture: Any) -> Dumps:
    made = Dumps()
    for rank in range(ranks):
        made.add_dump(rank, **capture)
    return made


def rows(made: MadeTrace, name: str, *columns: str) -> list[tuple[Any, ...]]:
    found = relation(made, name)
    return sorted(tuple(row[column] for column in columns) for row in found)


def test_ranks_below_those_known_are_missing() -> None:
    made = dumps(1, world_size=4, empty_ranks=[2], written_ns=5)
    made.add_dump(3)
    made.call(0, 1)
    assert rows(made, "flight_rank", "rank", "dump", "records", "world_size", "written_ns") == [
        (0, "records", 1, 4, 5),
        (1, "missing", 0, 4, None),
        (2, "empty file", 0, 4, None),
        (3, "no records", 0, 4, None),
    ]


@pytest.mark.parametrize(
    ("configured", "gathered", "ranks"),
    [(None, "[[4]]", 2), ("[0, 1, 2]", "[[4]]", 3), (None, "[[5,4]]", 5)],
)
def test_number_of_ranks(configured: str | None, gathered: str, ranks: int) -> None:
    made = dumps(2)
    made.call(0, 1, operation="all_gather", output_shapes=gathered)
    made.add("flight_group", trace_id="0", group_name="", ranks=configured)
    assert len(relation(made, "flight_rank")) == ranks


def test_dump_without_ended_operations_is_partial_unless_it_has_the_first() -> None:
    made = dumps(3)
    made.call(0, 41, is_retired=False)
    made.call(1, 41, is_retired=True)
    made.call(2, 1, is_retired=False)
    assert rows(made, "flight_rank", "rank", "is_partial") == [(0, True), (1, False), (2, False)]


def test_operations_that_gloo_leaves_out_are_counted() -> None:
    made = dumps(2)
    made.call(0, 4, backend="gloo", operation_id=6)
    made.call(1, 4, backend="gloo")
    assert rows(made, "flight_rank", "rank", "unrecorded") == [(0, 2), (1, 0)]


@pytest.mark.parametrize(
    ("operation", "inputs", "outputs", "are_alike"),
    [
        ("all_reduce", ("[[4]]", "[[5]]"), ("[[4]]", "[[5]]"), False),
        ("all_to_all", ("[[4]]", "[[5]]"), ("[[9]]", "[[9]]"), True),
        ("gather", ("[[4]]", "[[4]]"), ("[[2,4]]", "[]"), True),
        ("gather", ("[[4]]", "[[5]]"), ("[[2,4]]", "[]"), False),
        ("scatter", ("[[2,4]]", "[]"), ("[[4]]", "[[4]]"), True),
        ("_all_gather_base", ("[[4]]", "[[5]]"), ("[[8]]", "[[8]]"), False),
        ("all_gather", ("[[4]]", "[[5]]"), ("[[4],[5]]", "[[4],[5]]"), True),
        ("reduce_scatter", ("[[4],[5]]", "[[4],[5]]"), ("[[4]]", "[[5]]"), True),
    ],
)
def test_shapes_that_all_ranks_must_pass_alike(
    operation: str, inputs: tuple[str, str], outputs: tuple[str, str], are_alike: bool
) -> None:
    made = dumps(2)
    for rank in (0, 1):
        shapes = {"input_shapes": inputs[rank], "output_shapes": outputs[rank]}
        made.call(rank, 1, operation=operation, **shapes)
    signatures = {row["signature"] for row in relation(made, "flight_call")}
    assert (len(signatures) == 1) == are_alike


def test_coalesced_operations_are_one_collective() -> None:
    made = dumps(1)
    made.call(0, 3, operation="all_reduce", record_id=0)
    made.call(0, 3, operation="all_reduce_coalesced", record_id=1, is_retired=False)
    made.call(0, 3, operation="send", record_id=2, is_point_to_point=True, peer=1)
    assert rows(made, "flight_call", "position", "operation", "is_retired", "peer") == [
        (0, "all_reduce+all_reduce_coalesced", False, None),
        (2, "send", True, 1),
    ]


def test_progress_is_that_of_calls_else_of_counters() -> None:
    made = dumps(3)
    for rank, known in ((0, "[0, 1, 2]"), (1, "[0, 1, 2]")):
        made.add("flight_group", trace_id=str(rank), group_name="5", ranks=known,
                 local_group_id=2, last_enqueued=9, evidence="order")  # fmt: skip
    made.call(0, 8, group_name="5", group_description=None, is_retired=False)
    made.call(0, 9, group_name="5", group_description=None, is_retired=False)
    made.call(1, 7, group_name="0", is_retired=False)
    made.call(2, 7, group_name="0")
    in_group = [
        row
        for row in rows(made, "flight_position", "group_name", "rank", "entered", "completed")
        if row[0] == "5"
    ]
    # Rank 1 counts nine calls; rank 2 has a whole dump, and none of the group.
    assert in_group == [("5", 0, 9, 7), ("5", 1, 9, 9), ("5", 2, 0, 0)]


def test_state_of_each_rank_in_open_collectives() -> None:
    made = dumps(3, world_size=4)
    for rank in range(3):
        made.call(rank, 1, file="a.py", line=3)
    made.call(0, 2, is_retired=False, file="a.py", line=4)
    made.call(1, 2, file="a.py", line=4)
    (row,) = metric(made, "collective_ranks")
    assert {key: row[key] for key in ("sequence", "finished", "waiting", "not_called")} == {
        "sequence": 2, "finished": "1", "waiting": "0", "not_called": "2",
    }  # fmt: skip
    assert (row["without_records"], row["unknown"], row["line"]) == ("3", None, "a.py:4")
    found = metric(made, "rank_collectives")
    assert [(r["rank"], r["state"], r["sequence"], r["line"]) for r in found] == [
        (0, "waiting", 2, "a.py:4"),
        (1, "idle", 2, "a.py:4"),
        (2, "idle", 1, "a.py:3"),
        (3, None, None, None),
    ]
