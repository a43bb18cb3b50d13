"""Ranks that run at the same time stop together; a target's GPU is that of the machine."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tbd_collectors import gpu_detection
from tbd_collectors.collect import capability
from tbd_collectors.collection_request import Workload
from tbd_collectors.rank_launch import Launch, Outcome, together
from tbd_trace.errors import UsageError

WAIT_S = 20  # at most, for a stop that comes within a second


def launches(ranks: int) -> list[Launch]:
    stop = threading.Event()
    return [Launch(rank, ranks, [], [], "lo", 1, (), stop) for rank in range(ranks)]


def run(rank_0: object) -> Outcome[str]:
    """Run two ranks: rank 0 ends at once with a text or an exception, rank 1 waits for a stop."""

    def run_rank(launch: Launch) -> str:
        if launch.rank:
            return "stopped" if launch.stop.wait(WAIT_S) else "not stopped"
        if isinstance(rank_0, Exception):
            raise rank_0
        return str(rank_0)

    return together(
        launches(2),
        run_rank,
        lambda result: result == "failed",
        lambda launch: Path(f"{launch.rank}"),
    )


def test_a_rank_that_fails_stops_the_others() -> None:
    assert run("failed") == Outcome(["failed", "stopped"], 0)


def test_ranks_that_fail_together_are_not_stopped() -> None:
    """Each says why it failed."""

    def run_rank(launch: Launch) -> str:
        return "stopped" if launch.rank and launch.stop.wait(0.5) else "failed"

    outcome = together(
        launches(2),
        run_rank,
        lambda result: result == "failed",
        lambda launch: Path(f"{launch.rank}"),
    )
    assert outcome == Outcome(["failed", "failed"], 0)


def test_an_exception_of_a_rank_stops_the_others() -> None:
    with pytest.raises(OSError, match="no space"):
        run(OSError("no space"))


def test_ranks_that_succeed_run_to_their_ends() -> None:
    ranks = launches(3)
    outcome = together(
        ranks,
        lambda launch: f"{launch.rank}",
        lambda _: False,
        lambda launch: Path(f"{launch.rank}"),
    )
    assert outcome == Outcome(["0", "1", "2"], None)
    assert not ranks[0].stop.is_set()


@pytest.mark.parametrize(
    ("device", "amd", "found", "expected"),
    [
        ("cpu", False, ["8.0"], None),
        ("cuda", True, [], None),
        ("cuda", False, ["8.0", "9.0"], "8.0"),
    ],
)
def test_capability_of_the_first_gpu(
    device: str, amd: bool, found: list[str], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = [gpu_detection.Gpu(f"GPU {each}", each) for each in found]
    monkeypatch.setattr(gpu_detection, "is_amd", lambda: amd)
    monkeypatch.setattr(gpu_detection, "gpus", lambda: gpus)
    assert capability(Workload("resnet50", device=device)) == expected


def test_without_a_gpu_a_target_for_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_detection, "is_amd", lambda: False)
    monkeypatch.setattr(gpu_detection, "gpus", list)
    with pytest.raises(UsageError, match="no GPU"):
        capability(Workload("resnet50"))
