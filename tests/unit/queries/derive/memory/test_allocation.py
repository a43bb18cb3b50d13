"""Relations about allocations: what a class or a phase is taken from, and where it is unknown."""

from __future__ import annotations

import pytest

from made_checks_memory import Profile
from made_trace import relation


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        (1, ["weight"]),
        (3, ["weight", "optimizer_state", "optimizer_state"]),
        # No optimizer has more than two states of a weight: what the others are is unknown.
        (5, ["weight", "optimizer_state", "optimizer_state"]),
    ],
)
def test_older_allocations_of_the_size_of_a_gradient(blocks: int, expected: list[str]) -> None:
    made = Profile()
    made.make(None, 10, "backward")
    for _ in range(blocks):
        made.segment(made.next_id() << 30, 10, live=10)
    rows = relation(made, "_older_class")
    assert [row["class"] for row in rows] == expected


def test_of_weights_of_several_sizes_the_fewest_states_count() -> None:
    made = Profile()
    for size, blocks in ((10, 3), (20, 2)):
        made.make(None, size, "backward")
        for _ in range(blocks):
            made.segment(made.next_id() << 30, size, live=size)
    rows = relation(made, "_older_class")
    assert [row["class"] for row in rows] == ["weight", "optimizer_state"] * 2


def test_allocations_that_end_are_no_states() -> None:
    """Of two weights, five allocations remain: the fifth is one too few for a second state."""
    made = Profile()
    for _ in range(2):
        made.make(None, 10, "backward")
    for _ in range(5):
        made.segment(made.next_id() << 30, 10, live=10)
    made.event("free", made.next_id() << 30, 10 << 20)
    rows = relation(made, "_older_class")
    assert [row["class"] for row in rows if row["died_sequence"] is None] == (
        ["weight"] * 2 + ["optimizer_state"] * 2
    )
    assert [row["class"] for row in rows if row["died_sequence"] is not None] == ["weight_gradient"]


def test_bytes_at_the_start_are_explained_by_their_releases() -> None:
    made = Profile()
    made.add("memory_total", **made.head, sequence=-1, requested_bytes=100)
    made.make(None, 1)
    (row,) = relation(made, "memory_space")
    assert (row["unmatched_frees"], row["unexplained_bytes"]) == (0, 100)
    made.event("free", made.next_id() << 30, 10)
    (row,) = relation(made, "memory_space")
    assert (row["unmatched_frees"], row["unexplained_bytes"]) == (1, 90)


@pytest.mark.parametrize("function", ["zero_grad", "step", None])
def test_a_stack_without_the_name_of_a_function(function: str | None) -> None:
    made = Profile()
    made.add("memory_stack", stack_id=1, depth=0, function=function, file="/a/loop.py", line=3)
    made.make(None, 1, stack_id=1)
    (row,) = relation(made, "_stack_trait")
    assert row["is_zero_grad"] is (function == "zero_grad")
    traits = ("is_workspace", "is_communication", "is_transfer", "is_gradient_seed")
    assert [row[name] for name in traits] == [False] * 4
    assert (row["phase"], row["layer"], row["operator"]) == ("forward", None, None)


def test_a_file_without_requested_sizes_has_the_allocated_ones() -> None:
    made = Profile()
    made.event("allocate", 64, 512, requested_bytes=None)
    made.event("free", 64, 512, requested_bytes=None)
    made.event("allocate", 64, 1024, requested_bytes=1000)
    rows = relation(made, "_memory_change")
    assert [(row["bytes"], row["ended_bytes"]) for row in rows] == [(512, 0), (512, 512), (1000, 0)]


def test_a_class_is_stated_of_the_allocation_that_is_live_at_the_address() -> None:
    made = Profile()

    def state(kind: str, layer: str | None = None) -> None:
        made.event("classify", address, 0, layer=layer, **{"class": kind})

    address = made.next_id() << 30
    state("weight")  # of an older allocation, which the recording does not have
    made.make(None, 1, address=address)
    first = made.last
    state("temporary", "conv")
    state("input")
    made.free(address)
    state("weight")  # of none
    made.make(None, 2, address=address)
    second = made.last
    state("feature_map", "fc")
    rows = relation(made, "_stated_class")
    assert [(row["born_sequence"], row["class"], row["layer"]) for row in rows] == [
        (first, "input", "conv"),
        (second, "feature_map", "fc"),
    ]


def test_without_phases_and_classes_no_backward_pass_is_known() -> None:
    made = Profile()
    made.make(None, 9, None)
    (row,) = relation(made, "_relevant_memory")
    assert (row["has_backward"], row["has_optimizer"]) == (False, False)


def test_a_release_without_a_size_changes_nothing() -> None:
    made = Profile()
    made.make(None, 1)
    made.event("free", 64, 0, bytes=None, requested_bytes=None)
    made.add("memory_total", **made.head, sequence=None, requested_bytes=1 << 20)
    (row,) = relation(made, "memory_space")
    assert row["start_requested_bytes"] == 0


def test_a_statement_without_held_bytes_is_passed_over() -> None:
    made = Profile()
    for number, held in enumerate((300, None, 500)):
        made.make(None, 1)
        made.add("memory_total", **made.head, sequence=number, reserved_bytes=held)
    made.add("memory_total", **made.head, sequence=-1, reserved_bytes=100)
    rows = relation(made, "memory_running")
    assert [row["reserved_bytes"] for row in rows] == [300, 300, 500]


def test_segments_alone_are_no_allocations() -> None:
    made = Profile()
    made.event("segment_allocate", 1 << 30, 1 << 20)
    (row,) = relation(made, "memory_space")
    counts = ("allocations", "unmatched_frees", "unexplained_bytes", "start_requested_bytes")
    assert [row[name] for name in counts] == [0] * 4


def test_iterations_that_end_with_the_optimizer_are_numbered_from_zero() -> None:
    made = Profile()
    ends = []
    for _ in range(3):
        maps, gradient = made.make("feature_map", 2), made.make("weight_gradient", 1, "backward")
        made.free(maps)
        made.make("optimizer_state", 1, "optimizer")
        made.free(gradient, phase="optimizer")
        ends.append(made.last)
    rows = relation(made, "memory_iteration")
    assert [(row["iteration"], row["end_sequence"], row["method"]) for row in rows] == [
        (number, end, "optimizer") for number, end in enumerate(ends)
    ]
