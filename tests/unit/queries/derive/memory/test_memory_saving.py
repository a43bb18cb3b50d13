"""What changes would save, worked out by hand for small histories (sizes in MiB)."""

from __future__ import annotations

from typing import Any

import pytest

from made_checks_memory import MIB, Profile
from made_trace import relation

LARGE = 100  # MiB


def savings(made: Profile, device: int | None = 0) -> dict[str, dict[str, Any]]:
    rows = [row for row in relation(made, "memory_saving") if row["device_id"] == device]
    return {row["change"]: row for row in rows}


def mib(row: dict[str, Any], *names: str) -> list[float]:
    return [row[f"{name}_bytes"] / MIB for name in names or ("now", "best", "likely", "worst")]


def stacks(made: Profile, *numbers: int) -> None:
    for number in numbers:
        made.add("memory_stack", stack_id=number, depth=0, function="f", file=f"m{number}.py",
            line=number)  # fmt: skip


def blocks(number: int = 4) -> Profile:
    """Equal blocks of feature maps of 40, 40 and 20 MiB on 100 MiB of weights."""
    made = Profile()
    stacks(made, 1, 2, 3)
    made.make("weight", 100)
    for _ in range(number):
        for stack, size in ((1, 40), (2, 40), (3, 20)):
            made.make("feature_map", size, stack_id=stack)
    return made


def test_checkpoints_keep_inputs_and_one_block() -> None:
    row = savings(blocks())["checkpointing"]
    # 500 less 400, plus one block of 100, plus four inputs of 20, 40 (most of the maps) or 40.
    assert mib(row) == [500, 280, 360, 360]
    assert row["measure"] == "live"
    assert "4 equal blocks" in row["how"]


def test_single_maps_are_not_checkpointed() -> None:
    assert "checkpointing" not in savings(blocks(1))


def test_recomputed_maps_are_checkpointed_already() -> None:
    made = Profile()
    stacks(made, 1)
    for _ in range(4):
        made.make("feature_map", 10, phase="recompute", stack_id=1)
    assert "checkpointing" not in savings(made)


def test_another_moment_can_limit_the_saving() -> None:
    """Without feature maps, 300 MiB of workspace are live at another time."""
    made = blocks()
    made.free(*[address for address in made.sizes if made.sizes[address] != 100 * MIB])
    made.make("workspace", 300)
    assert mib(savings(made)["checkpointing"]) == [500, 400, 400, 400]


def test_the_state_of_the_optimizer() -> None:
    made = Profile()
    made.make("weight", 100)
    made.make("optimizer_state", 60, phase="optimizer")
    made.make("optimizer_state", 40, phase="optimizer")
    found = savings(made)
    assert mib(found["optimizer_8bit"]) == pytest.approx([200, 125.4, 125.4, 150.8])
    assert mib(found["optimizer_offload"]) == [200, 100, 160, 200]
    assert "optimizer_sharded" not in found  # one device


def test_small_tensors_keep_their_state() -> None:
    made = Profile()
    made.make("optimizer_state", 0.015, phase="optimizer")  # 3,932 values of 4 bytes
    assert "optimizer_8bit" not in savings(made)


def test_two_devices_can_share_the_state() -> None:
    made = Profile()
    made.make("optimizer_state", 60, phase="optimizer")
    other = Profile(device=1)
    other.make("optimizer_state", 60, phase="optimizer")
    made.join(other)
    for device in (0, 1):
        assert mib(savings(made, device)["optimizer_sharded"]) == [60, 30, 30, 60]


def test_temporaries_of_the_optimizer() -> None:
    made = Profile()
    made.make("weight", 100)
    made.make("optimizer_temporary", 30, phase="optimizer")
    made.make("optimizer_temporary", 10, phase="optimizer")
    assert mib(savings(made)["optimizer_one_by_one"]) == [140, 100, 130, 140]


def test_gradients_that_stay_after_the_step() -> None:
    """Gradients of 50 MiB from the first backward are live in the next forward."""
    made = Profile()
    made.make("weight", 100)
    gradient = made.make("weight_gradient", 50, phase="backward")
    made.free(made.make("optimizer_temporary", 1, phase="optimizer"), phase="optimizer")
    made.make("feature_map", 80, phase="forward")
    made.free(gradient, phase="optimizer")
    row = savings(made)["set_to_none"]
    assert mib(row) == [230, 180, 180, 180]


def test_gradients_that_end_with_the_step_save_nothing() -> None:
    made = Profile()
    gradient = made.make("weight_gradient", 50, phase="backward")
    made.free(made.make("optimizer_temporary", 1, phase="optimizer"), phase="optimizer")
    made.free(gradient, phase="optimizer")
    made.make("feature_map", 80, phase="forward")
    assert "set_to_none" not in savings(made)


def test_half_the_batch() -> None:
    made = Profile()
    made.make(None, 10, None)  # before all phases: without a class
    made.make("weight", 100)
    made.make("feature_map", 60)
    made.make("input", 20)
    # Best: half of 90; likely: half of 80; at worst half of the feature maps.
    assert mib(savings(made)["smaller_batch"]) == [190, 145, 150, 160]


def test_equal_shares_of_devices_with_the_same_code() -> None:
    made = Profile()
    stacks(made, 1, 2)
    made.make("feature_map", 90, stack_id=1)
    other = Profile(device=1)
    other.make("feature_map", 30, stack_id=1)
    made.join(other)
    assert mib(savings(made)["balance"]) == [90, 60, 60, 75]
    assert "balance" not in savings(made, 1)


def test_devices_with_other_code_are_not_compared() -> None:
    made = Profile()
    stacks(made, 1, 2)
    made.make("feature_map", 90, stack_id=1)
    other = Profile(device=1)
    other.make("feature_map", 30, stack_id=2)
    assert "balance" not in savings(made.join(other))


def test_expandable_segments_return_free_parts() -> None:
    """Of 300 MiB, 20 and 5 are live, 180 and 95 are free: 8 and 3 whole pages of 20 MiB."""
    made = Profile().hold(300)
    made.make("weight", 20, address=1 << 30)
    made.make("weight", 5, address=2 << 30)
    made.segment(1 << 30, 200, 20, is_expandable=False)
    made.segment(2 << 30, 100, 5, is_expandable=False)
    row = savings(made)["expandable_segments"]
    assert row["measure"] == "held"
    # At best all but a page; at worst whole pages alone.
    assert mib(row) == [300, 300 - 255, 300 - 237.5, 300 - 220]


def test_a_page_that_is_partly_used_is_no_saving() -> None:
    made = Profile().hold(20)
    made.make("weight", 5, address=1 << 30)
    made.segment(1 << 30, 20, 5, is_expandable=False)
    assert "expandable_segments" not in savings(made)


@pytest.mark.parametrize("expandable", [True, None])
def test_segments_that_are_expandable_or_unknown(expandable: bool | None) -> None:
    made = Profile().hold(200)
    made.make("weight", 20, address=1 << 30)
    made.segment(1 << 30, 200, 20, is_expandable=expandable)
    assert ("expandable_segments" in savings(made)) is False
