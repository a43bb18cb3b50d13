"""What recording adds to a step, in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tbd_trace.why.diagnosis import Diagnosis, TryFirst
from tbd_trace.why.profiler_cost import profiler_cost
from tbd_trace.why.ranking import Cause

MS = 1_000_000.0


def causes(**shares: float) -> list[Cause]:
    return [Cause(name, name, share, None, "", "high") for name, share in shares.items()]


# Recorded: 10 ms on the GPU, 24 ms and 6 ms on the host. Without the profiler a step takes 20 ms.
RECORDED = Diagnosis(
    trace_id="a", trace="a", process_id=1, pid=1, device_id=0, steps=5, step_ns=40 * MS,
    median_step_ns=40 * MS, p5_step_ns=None, p95_step_ns=None, gpu_step_ns=10 * MS, elapsed_ns=200,
    judged_steps=5, judged_step_ns=40 * MS, measured_over="", method=None, trains=True,
    replay_error_pct=None, causes=causes(host=60, gpu_matmul=25, input_pipeline=15),
)  # fmt: skip
CAPTURE = {"unprofiled": {"seconds": 0.1, "iterations": 5}}
COST = "without it a usual step takes 20 ms, recorded 40 ms (×2.00)"
SHARES = "the GPU works 50 %, host 40 %, input_pipeline 10 %"
ASSUMED = "if the GPU's work takes as long as recorded"


@pytest.mark.parametrize("name", ["unprofiled", "throughput"])
def test_causes_on_the_host_shrink_to_what_the_gpu_leaves(name: str) -> None:
    capture = {name: CAPTURE["unprofiled"]}
    assert profiler_cost(RECORDED, capture) == f"{COST}; there {SHARES}, {ASSUMED}"


def test_a_long_step_without_the_profiler_does_not_count() -> None:
    # One of the five steps evaluates.
    timed = {"seconds": 0.24, "iterations": 5, "iteration_ns": [20 * MS] * 4 + [160 * MS]}
    assert (profiler_cost(RECORDED, {"unprofiled": timed}) or "").startswith(COST)


def test_the_step_after_the_first_change_is_without_the_profiler() -> None:
    # After it, 10 ms on the GPU and 20 ms on the host, which a third of them are without profiler.
    first = TryFirst("graph", "host", "ns", 40 * MS, 25 * MS, 30 * MS, 35 * MS, "")
    then = causes(host=100 * 2 / 3, gpu_matmul=100 / 3)
    changed = replace(RECORDED, try_first=first, then=then)
    after = "and 16.67 ms after that change"
    assert profiler_cost(changed, CAPTURE) == f"{COST}; there {SHARES}, {after}, {ASSUMED}"


@pytest.mark.parametrize("gpu_ns", [None, 21 * MS])
def test_without_a_gpu_or_with_a_busier_one_the_times_alone_are_stated(
    gpu_ns: float | None,
) -> None:
    assert profiler_cost(replace(RECORDED, gpu_step_ns=gpu_ns), CAPTURE) == COST


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"unprofiled": {"seconds": 0.199, "iterations": 5}},
        {"unprofiled": {"seconds": 1.0}},
    ],
)
def test_what_is_unknown_or_little_is_not_stated(content: dict[str, Any]) -> None:
    assert profiler_cost(RECORDED, content) is None
    assert profiler_cost(replace(RECORDED, median_step_ns=None), CAPTURE) is None
