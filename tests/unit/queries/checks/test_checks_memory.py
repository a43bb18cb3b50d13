"""Rules over memory profiles: where each passes, finds something and abstains."""

from __future__ import annotations

from typing import Any

import pytest

from made_checks import row_of, rows_of, verdict
from made_checks_memory import MIB, Profile

RULES = ("OBS11", "MEM01", "MEM03", "MEM04")


def contents(unknown: float = 0, **options: Any) -> Profile:
    """Weights 30, gradients 10, feature maps 45 and theirs 10, workspace 5: 100 MiB at the peak."""
    made = Profile(**options)
    made.make("weight", 30, "setup")
    if unknown:
        made.make(None, unknown, "setup")
    first = made.make("feature_map", 20, layer="conv1")
    second = made.make("feature_map", 25, layer="conv2")
    made.make("weight_gradient", 10, "backward")
    work = made.make("workspace", 5, "backward")
    gradient = made.make("activation_gradient", 10, "backward", layer="conv2")
    made.free(first, second, work, gradient)
    return made


# feature maps


def test_feature_maps_and_their_gradients_dominate() -> None:
    row = row_of(contents(), "OBS11")
    assert verdict(row) == ("finding", "note")
    assert (row["value"], row["threshold"], row["evidence"]) == (55, 50, "collector")
    assert "55.0 % of the 100.0 MiB live at the peak in the backward pass" in row["reason"]
    assert "below the 62 to 89 % of the paper" in row["reason"]
    assert "conv2 makes 64 % of them" in row["reason"]  # 35 of 55


@pytest.mark.parametrize(
    ("least", "expected"), [(54.9, "finding"), (55.0, "finding"), (56, "pass")]
)
def test_the_threshold_of_feature_maps(least: float, expected: str) -> None:
    assert row_of(contents(), "OBS11", min_feature_map_pct=least)["verdict"] == expected


def test_other_classes_dominate() -> None:
    made = contents()
    made.make("optimizer_state", 120, "optimizer")  # live: 30 + 10 + 120; the peak moves here
    row = row_of(made, "OBS11")
    assert verdict(row) == ("pass", None)
    assert (row["value"], row["evidence"]) == (0, "none")


@pytest.mark.parametrize(
    ("unknown", "expected", "share"),
    # 55 of 110 at least, 65 at most: dominant. 55 of 111 at least, 66 at most: open.
    [(10, "finding", 50), (11, "not evaluable", None)],
)
def test_unknown_bytes_could_be_feature_maps(
    unknown: int, expected: str, share: float | None
) -> None:
    row = row_of(contents(unknown), "OBS11")
    assert (row["verdict"], row["value"]) == (expected, share)
    assert "unknown" in row["reason"]


def test_memory_outside_the_allocator_is_no_part_of_the_whole() -> None:
    made = Profile()
    made.make("untracked", 100, "setup")
    made.make("feature_map", 45)
    made.make("weight_gradient", 55, "backward")
    assert row_of(made, "OBS11")["value"] == 45


def test_inference_keeps_no_feature_maps() -> None:
    made = Profile()
    made.make("weight", 1, "setup")
    made.make("feature_map", 9)
    row = row_of(made, "OBS11")
    assert verdict(row) == ("not evaluable", None)
    assert "no backward pass" in row["reason"]


def test_the_device_with_the_largest_share_is_named_and_small_ones_are_left_out() -> None:
    made = contents()
    other = Profile(device=1)
    other.make("feature_map", 80)
    other.make("weight_gradient", 10, "backward")
    small = Profile(device=2)
    small.make("feature_map", 7.9)
    small.make("weight_gradient", 0.1, "backward")
    row = row_of(made.join(other).join(small), "OBS11")
    assert row["value"] == pytest.approx(100 * 80 / 90)
    assert row["reason"].startswith("device 1, torch: ")


@pytest.mark.parametrize("rule", RULES)
def test_the_drivers_memory_has_no_classes(rule: str) -> None:
    made = Profile()
    made.head["allocator"] = "cuda"
    made.make(None, 10, "backward")
    row = row_of(made, rule, **({"memory_gb": 80} if rule == "MEM04" else {}))
    assert verdict(row) == ("not evaluable", None)
    assert "driver" in row["reason"]


@pytest.mark.parametrize("rule", (*RULES, "MEM02", "MEM05"))
def test_a_timeline_without_memory_is_not_judged(rule: str) -> None:
    made = Profile()
    made.launch(0, 10, 20)
    row = row_of(made, rule)
    assert verdict(row) == ("not evaluable", None)
    assert row["reason"].startswith("needs ")
    assert row["advice"]


# growth


def iterations(*kept: int, weight: float = 1, batch: float = 2) -> Profile:
    """Return iterations, each of which keeps so many more bytes than the one before."""
    made = Profile()
    made.make("weight", weight, "setup")
    frames = [("clone", "torch.cpp"), ("keep", "/home/a/loop.py"), ("<module>", "/home/a/run.py")]
    for depth, (function, file) in enumerate(frames):
        made.add(
            "memory_stack", stack_id=5, depth=depth, function=function, file=file, line=7 + depth
        )
    for number, size in enumerate(kept):
        within = {"iteration": number}
        one = made.make("feature_map", batch, **within)
        two = made.make("weight_gradient", 1, "backward", **within)
        if size > 0:
            made.make("temporary", size / MIB, stack_id=5, operator="clone", **within)
        elif size < 0:
            last = max(a for a, bytes_ in made.sizes.items() if bytes_ == -size)
            made.free(last, **within)
            del made.sizes[last]
        made.free(one, two, **within)
    return made


@pytest.mark.slow
def test_a_leak_is_found_with_its_code() -> None:
    row = row_of(iterations(0, *[8192] * 5), "MEM02")
    assert verdict(row) == ("finding", "warning")  # 10,000 iterations: 78 MiB of a peak of 4 MiB
    assert (row["value"], row["threshold"]) == (8192, 4096)
    assert row["unit"] == "bytes per iteration"
    assert "grow by 8.0 KiB per iteration, 32.0 KiB over 5 iterations" in row["reason"]
    assert "100 % of the growth is temporary of clone, from keep (loop.py:8)" in row["reason"]


@pytest.mark.slow
def test_a_small_leak_is_a_note() -> None:
    row = row_of(iterations(0, *[8192] * 5, weight=100), "MEM02")
    assert verdict(row) == ("finding", "note")


@pytest.mark.slow
def test_what_shrinks_is_no_part_of_the_growth() -> None:
    made = Profile()
    shrinking = [made.make("input", 1000 / MIB) for _ in range(6)]
    for iteration, freed in enumerate(shrinking):
        for operator, size in (("clone", 9000), ("cat", 3000)):
            made.make("temporary", size / MIB, operator=operator, iteration=iteration)
        made.free(freed, iteration=iteration)
    assert "75 % of the growth is temporary of clone" in row_of(made, "MEM02")["reason"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "kept",
    [
        [0] * 6,  # constant
        [1 << 20, 0, 0, 0, 0, 0],  # the first iteration is left out
        [1 << 20, 9000, 9000, 0, 0, 0, 0],  # warm-up with an end
        [0, 9000, 9000, 9000, 0],  # so is this: the last iteration adds nothing
        [0, *[4000] * 6],  # below the threshold
        [0, 9000, -9000, 9000, -9000, 9000, 9000],  # up and down
    ],
)
def test_no_leak(kept: list[int]) -> None:
    row = row_of(iterations(*kept), "MEM02")
    assert verdict(row) == ("pass", None), row["reason"]
    assert row["value"] is not None


@pytest.mark.slow
def test_growth_after_a_warm_up() -> None:
    row = row_of(iterations(1 << 20, 0, 0, *[9000] * 9), "MEM02")
    assert verdict(row) == ("finding", "warning")
    assert row["value"] == 9000


@pytest.mark.slow
def test_growth_with_ups_and_downs_is_not_steady() -> None:
    """The median slope is 5000 bytes and the last value the highest, but 11 of 15 pairs rise."""
    made = Profile()
    for number, total in enumerate((0, 1, 50_000, 10_000, 60_000, 5_000, 70_000)):
        made.free(*list(made.sizes)[-1:], iteration=number)
        made.make("temporary", total / MIB, iteration=number)
    row = row_of(made, "MEM02")
    assert verdict(row) == ("pass", None)
    assert row["value"] == pytest.approx(5000, abs=1)
    assert "not steadily: 73 % of the pairs rise" in row["reason"]


@pytest.mark.slow
def test_feature_maps_of_an_unfinished_iteration_are_no_leak() -> None:
    made = iterations(*[0] * 6)
    made.make("feature_map", 50, iteration=6)
    assert row_of(made, "MEM02")["verdict"] == "pass"


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_iterations_show_no_growth(count: int) -> None:
    row = row_of(iterations(*[9000] * count), "MEM02")
    assert verdict(row) == ("not evaluable", None)
    assert "fewer than 3 iterations after the first" in row["reason"]


@pytest.mark.slow
def test_several_traces_have_one_answer_each() -> None:
    made = iterations(0, *[9000] * 5)
    other = Profile("other")
    other.make("weight", 1)
    found = {row["trace_id"]: row["verdict"] for row in rows_of(made.join(other), "MEM02")}
    assert found == {"t": "finding", "other": "not evaluable"}


# optimizer temporaries


def step(maps: float, temporaries: float) -> Profile:
    """Return an iteration with weights of 100 MiB."""
    made = Profile()
    made.make("weight", 100, "setup")
    kept = made.make("feature_map", maps)
    gradient = made.make("weight_gradient", 1, "backward")
    made.free(kept)
    used = [made.make("optimizer_temporary", temporaries / 2, "optimizer") for _ in range(2)]
    made.free(*used, gradient, phase="optimizer")
    return made


def test_optimizer_temporaries_set_the_peak() -> None:
    # The peak is 100 + 1 + 59; without temporaries it is 100 + 1 + 39, in the backward pass.
    row = row_of(step(maps=39, temporaries=59), "MEM03")
    assert verdict(row) == ("finding", "warning")
    assert (row["value"], row["threshold"]) == (12.5, 5)
    assert "take 59.0 MiB of the 160.0 MiB live at the peak in the optimizer step" in row["reason"]
    assert "the peak would be 140.0 MiB (12.5 % less)" in row["reason"]


@pytest.mark.parametrize(
    ("maps", "temporaries", "saved", "said"),
    [
        (57, 59, 1.25, "would be 158.0 MiB"),  # they are 37 % of the peak, but save little
        (59, 20, 0, "no optimizer temporaries are live at the peak in the backward pass"),
        (0.5, 4, 100 * 3.5 / 105, "(3.3 % less)"),
    ],
)
def test_without_temporaries_the_peak_is_nearly_the_same(
    maps: float, temporaries: float, saved: float, said: str
) -> None:
    row = row_of(step(maps, temporaries), "MEM03")
    assert verdict(row) == ("pass", None)
    assert row["value"] == pytest.approx(saved)
    assert said in row["reason"]


def test_the_next_iteration_has_nearly_the_same_peak() -> None:
    made = step(maps=10, temporaries=59)  # 160 MiB, and 111 without
    made.make("feature_map", 58)  # 158 MiB
    row = row_of(made, "MEM03")
    assert verdict(row) == ("pass", None)
    assert row["value"] == 1.25


def test_without_an_optimizer_step_there_is_no_answer() -> None:
    row = row_of(contents(), "MEM03")
    assert verdict(row) == ("not evaluable", None)
    assert "no optimizer step" in row["reason"]
