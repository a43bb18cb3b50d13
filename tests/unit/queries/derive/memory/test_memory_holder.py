"""What holds the peak: classes, lines of code, and likely names of bytes without a class."""

from __future__ import annotations

from typing import Any

import pytest

from made_checks_memory import MIB, Profile
from made_trace import relation


def holders(made: Profile) -> list[dict[str, Any]]:
    return sorted(relation(made, "memory_holder"), key=lambda row: -row["requested_bytes"])


def stack(made: Profile, number: int, *frames: tuple[str, str, str | None]) -> None:
    for depth, (function, file, module) in enumerate(frames):
        made.add("memory_stack", stack_id=number, depth=depth, function=function, file=file,
            module=module, line=10 * number + depth)  # fmt: skip


def test_the_line_is_that_of_the_program() -> None:
    """Frames of PyTorch, and of einops, are left out; within PyTorch alone its own frame counts."""
    made = Profile()
    stack(made, 1, ("forward", "/t/linear.py", "torch.nn.modules.linear"),
        ("_call_impl", "/t/module.py", "torch.nn.modules.module"),
        ("einsum", "/site/einops/einops.py", None), ("forward", "/a/net.py", None),
        ("main", "/a/train.py", None))  # fmt: skip
    stack(made, 2, ("backward", "/t/tensor.py", "torch._tensor"))
    made.make("feature_map", 30, stack_id=1)
    made.make("feature_map", 10, stack_id=1)
    made.make("activation_gradient", 20, "backward", stack_id=2)
    rows = holders(made)
    assert [(row["line"], row["allocations"], row["requested_bytes"] / MIB) for row in rows] == [
        ("net.py:13 forward", 2, 40),
        ("tensor.py:20 backward", 1, 20),
    ]
    assert rows[0]["evidence"] == "collector"
    assert rows[0]["largest_bytes"] == 30 * MIB


def test_bytes_before_the_recording_are_probably_weights() -> None:
    made = Profile()
    for address in (1 << 30, 2 << 30, 3 << 30):
        made.segment(address, 20, 20)
    made.free(made.make(None, 1))
    (row, *_) = holders(made)
    assert (row["class"], row["likely"], row["evidence"]) == ("unknown", "weights", "lifetime")
    assert (row["is_older"], row["is_kept"], row["allocations"]) == (True, True, 3)


def test_beside_known_weights_older_bytes_are_probably_frozen() -> None:
    made = Profile()
    made.segment(1 << 40, 20, 20)
    made.make("weight", 5)
    assert [row["likely"] for row in holders(made)] == ["frozen weights", None]


@pytest.mark.parametrize(
    ("phase", "likely"), [("backward", "feature maps"), ("forward", None), (None, None)]
)
def test_older_bytes_that_are_released_in_a_phase(phase: str | None, likely: str | None) -> None:
    made = Profile()
    made.make("feature_map", 1, phase)
    made.event("free", 1 << 50, 40 * MIB, phase=phase)
    row = holders(made)[0]
    assert (row["is_older"], row["is_kept"], row["likely"]) == (True, False, likely)


def test_older_bytes_that_zero_grad_releases_are_gradients() -> None:
    made = Profile()
    stack(made, 1, ("zero_grad", "/t/optimizer.py", "torch.optim.optimizer"))
    made.make("feature_map", 1)
    made.event("free", 1 << 50, 40 * MIB, stack_id=1)
    assert holders(made)[0]["likely"] == "weight gradients"


def test_what_modules_allocate_when_they_are_built() -> None:
    made = Profile()
    stack(made, 1, ("__init__", "/a/net.py", None))
    made.make(None, 7, None, stack_id=1)
    (row,) = holders(made)
    assert (row["likely"], row["evidence"], row["is_older"]) == ("weights", "frames", False)


def test_without_a_history_the_blocks_at_the_end_count() -> None:
    made = Profile()
    made.segment(1 << 30, 20, 12)
    made.segment(2 << 30, 20)
    (row,) = holders(made)
    assert (row["moment"], row["requested_bytes"], row["allocations"]) == ("end", 12 * MIB, 1)
    assert (row["likely"], row["evidence"]) == (None, "none")


def test_a_plan_has_the_class_of_the_largest_value() -> None:
    made = Profile()
    for allocation, size, value, kind in ((0, 9, 9, "weight"), (0, 9, 4, "input"), (1, 5, 5, None)):
        made.add("memory_plan", computation="f", allocation=allocation, bytes=size,
            value_name=f"v{value}", value_bytes=value, **{"class": kind})  # fmt: skip
    rows = holders(made)
    assert [(row["class"], row["requested_bytes"], row["layer"]) for row in rows] == [
        ("weight", 9, "v9"), ("unknown", 5, "v5")
    ]  # fmt: skip
    assert {row["evidence"] for row in rows} == {"plan"}


def failing(**later: Any) -> Profile:
    """Forward allocates twice at each of two lines, and fails; the exception releases the maps."""
    made = Profile()
    stack(made, 1, ("forward", "/a/net.py", None))
    stack(made, 2, ("forward", "/a/net.py", None))
    made.free(made.make(None, 5, None, stack_id=2), phase="forward")  # usually a temporary
    kept = [made.make(None, 8, None, stack_id=1) for _ in range(2)]
    last = made.make(None, 5, None, stack_id=2)
    made.add("memory_failure", **made.head, sequence=made.last + 1, requested_bytes=MIB, **later)
    made.last += 1
    made.free(*kept, last, phase="forward")
    return made


def test_a_failure_ends_lifetimes_of_feature_maps() -> None:
    rows = holders(failing())
    assert [(row["class"], row["allocations"]) for row in rows] == [
        ("feature_map", 2), ("temporary", 1)
    ]  # fmt: skip
    assert {row["evidence"] for row in rows} == {"frames and lifetime"}


def test_failures_of_old_databases_are_events() -> None:
    made = failing()
    made.rows["memory_failure"].clear()
    made.event("out_of_memory", 0, 3 * MIB, requested_bytes=None)
    (row,) = relation(made, "failed_allocation")
    assert (row["requested_bytes"], row["device_free_bytes"]) == (3 * MIB, None)
