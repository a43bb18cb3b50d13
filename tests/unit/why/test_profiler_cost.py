"""What recording adds to a step, in words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tbd_trace.why.profiler_cost import profiler_cost

TIMES = {"seconds": 0.12, "iterations": 5}


@pytest.mark.parametrize("name", ["unprofiled", "throughput"])
def test_both_times_are_stated(name: str) -> None:
    capture = json.dumps({"profiler_slowdown": 1.2345, name: TIMES})
    assert profiler_cost(capture) == (
        "without it a step takes 24 ms, recorded 1.23 times as long; shares of the host are upper "
        "bounds"
    )


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"unprofiled": TIMES},
        {"profiler_slowdown": 1.01, "unprofiled": TIMES},
        {"profiler_slowdown": 1.5},
        {"profiler_slowdown": 1.5, "unprofiled": {"seconds": 1.0}},
    ],
)
def test_what_is_unknown_or_little_is_not_stated(content: dict[str, Any]) -> None:
    assert profiler_cost(json.dumps(content)) is None
    assert profiler_cost(None) is None
