"""What the text of each range says, one by one: _range_role and the texts of _annotation_role."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from made_trace import MadeTrace, Row, relation
from tbd_trace import resources


def told(made: MadeTrace, **parameters: Any) -> dict[int, Row]:
    """Return what is said of each range by its id."""
    rows = relation(made, "_range_role", **parameters)
    found = {row["annotation_id"]: row for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize(
    ("text", "flags", "rank"),  # tells, is_step, is_plain, is_numbered
    [
        ("iteration 1", (True, True, False, False), None),
        ("loss", (True, True, False, False), None),
        ("all_reduce", (True, False, False, False), None),  # communication is no step
        ("layer:conv1", (False, False, False, False), 5),
        ("conv1", (False, False, True, False), 3),
        ("aten::conv2d", (False, False, False, False), 1),
        ("aten::conv2d, seq = 4, op_id = 9", (True, False, False, True), 1),
        ("CudnnConvolutionBackward0, seq = 4", (True, False, False, False), 1),
    ],
)
def test_texts(text: str, flags: tuple[bool, ...], rank: int | None) -> None:
    made = MadeTrace()
    number = made.add_range(0, 10, text)
    found = told(made)[number]
    named = ("is_explicit", "is_step", "is_plain", "is_numbered")
    assert tuple(found[name] for name in named) == flags
    assert found["layer_rank"] == rank


def test_a_text_is_named_by_its_first_range() -> None:
    made = MadeTrace()
    first = made.add_range(50, 60, "conv1")
    other = made.add_range(0, 10, "conv2")
    again = made.add_range(20, 30, "conv1", thread_id=2)
    elsewhere = made.add_range(20, 30, "conv1", trace_id="u")
    made.add_mark(5, "only a mark")
    found = told(made)
    assert {number: row["first_range_id"] for number, row in found.items()} == {
        first: first,
        other: other,
        again: first,
        elsewhere: elsewhere,
    }
    roles = {(row["trace_id"], row["text"]): row for row in relation(made, "_annotation_role")}
    assert roles["t", "conv1"]["first_range_id"] == first
    assert roles["u", "conv1"]["first_range_id"] == elsewhere
    assert roles["t", "only a mark"]["first_range_id"] is None


def test_stacks_differ_by_trace_process_thread_domain_and_kind() -> None:
    made = MadeTrace()
    rows: list[dict[str, Any]] = [
        {},
        {"trace_id": "u"},
        {"process_id": 2},
        {"thread_id": None},
        {"thread_id": 2},
        {"domain_id": 3},
        {"kind": "start_end"},
    ]
    numbers = [made.add_range(10 * i, 10 * i + 5, "conv1", **row) for i, row in enumerate(rows)]
    same = made.add_range(200, 300, "conv2")
    found = told(made)
    for one, another in itertools.combinations(numbers, 2):
        assert found[one]["stack_id"] != found[another]["stack_id"]
    assert found[same]["stack_id"] == found[numbers[0]]["stack_id"]


def test_what_says_nothing_drops_out_inside_a_layer() -> None:
    made = MadeTrace()
    layer = made.add_range(10, 50, "layer:conv1")
    made.add_range(20, 30, "aten::conv2d")
    made.add_range(49, 49, "aten::detach")
    made.add_range(20, 30, "conv")
    made.add_range(60, 70, "conv")  # or it would come once
    dropped = {layer + 1, layer + 2, layer + 3}
    kept = {
        made.add_range(20, 30, "aten::conv2d", thread_id=2),
        made.add_range(10, 30, "aten::conv2d"),  # begins with the layer
        made.add_range(20, 50, "aten::conv2d"),
        made.add_range(60, 70, "aten::conv2d"),
        made.add_range(20, 30, "aten::conv2d, seq = 4"),
        made.add_range(20, 30, "layer:conv1"),
        made.add_range(20, 30, "loss"),
    }
    assert set(told(made)) == {layer, layer + 4} | kept
    assert not dropped & kept


def test_what_a_range_may_hold_that_comes_once_stays() -> None:
    made = MadeTrace()
    numbers = {
        made.add_range(0, 90, "model"),
        made.add_range(10, 50, "layer:conv1"),
        made.add_range(20, 30, "conv"),
    }
    assert set(told(made)) == numbers


def test_backward_layers_keep_what_may_be_recomputed_inside() -> None:
    """A forward operator with a sequence number on the same thread: activations come again."""
    made = MadeTrace()
    backward = made.add_range(10, 50, "layer_backward:conv1")
    inside = made.add_range(20, 30, "aten::conv2d")
    assert set(told(made)) == {backward}
    numbered = made.add_range(60, 70, "aten::conv2d, seq = 4")
    assert set(told(made)) == {backward, inside, numbered}


def test_libraries_and_ranges_without_text_say_nothing() -> None:
    made = MadeTrace()
    made.add_range(0, 10, "ncclAllReduce", domain="NCCL", domain_id=1)
    made.add_range(0, 10, None)
    kept = made.add_range(0, 10, "conv1", domain="mine", domain_id=2)
    assert set(told(made)) == {kept}


def test_operators_that_end_with_the_trace_are_no_layers() -> None:
    """Calls that raised are never popped: nsys closes them, several at once, with the trace."""
    made = MadeTrace()
    made.add_trace(end_ns=100)
    raised = [made.add_range(start, 100, "aten::linear") for start in (10, 20)]
    left = made.add_range(30, 90, "aten::mm", is_open=True)
    closed = made.add_range(40, 50, "aten::mm")
    own = made.add_range(5, 100, "conv1")
    found = told(made)
    assert [found[number]["layer_rank"] for number in (*raised, left)] == [None] * 3
    assert found[closed]["layer_rank"] == 1
    assert found[own]["layer_rank"] == 3


def test_who_closes_a_range() -> None:
    made = MadeTrace()
    numbers = [made.add_range(0, 10, "conv1", end_thread_id=thread) for thread in (1, None, 2)]
    found = told(made)
    assert [found[number]["stays"] for number in numbers] == [True, True, False]


def test_phases_are_listed_alike() -> None:
    """Relations that have phases as enumerations know all that a text may mark."""
    derive = resources.sql_files("derive")
    texts = derive["_annotation_role"].read_text(encoding="utf-8")
    cases = texts[texts.index("classified AS") : texts.index("END AS phase")]
    marked = set(re.findall(r"THEN '(\w+)'", cases))
    assert len(marked) == 6
    enumerations = [
        set(re.findall(r"'([^']+)'", values))
        for file in derive.values()
        for values in re.findall(r"ENUM\(([^)]+)\)", file.read_text(encoding="utf-8"))
    ]
    phases = [values for values in enumerations if values & marked]
    assert len(phases) == 5
    assert all(values == marked for values in phases)
