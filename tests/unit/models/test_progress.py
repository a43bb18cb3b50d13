"""Lines about the progress of training."""

from __future__ import annotations

import time

import pytest

from tbd_models.progress import Progress


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_at_most_one_line_per_second(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    for tenth in range(31):
        clock.now = tenth / 10
        progress.measuring([0, 100_000_000], 12)
    assert len(capsys.readouterr().out.splitlines()) == 3


@pytest.mark.parametrize(
    ("seconds", "limit", "left_s", "line"),
    [
        ([4.0, 2.0, 2.0], 10, 0.0, "warm-up, iteration 3 of 10: 14 s left\n"),
        ([4.0, 2.0], None, 54.0, "warm-up, iteration 2: at most 54 s left\n"),
        ([4.0, 2.0], None, -3.0, "warm-up, iteration 2: at most 0 s left\n"),
    ],
)
def test_warm_up(
    seconds: list[float],
    limit: int | None,
    left_s: float,
    line: str,
    *,
    clock: Clock,
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = Progress()
    clock.now = 2.0
    progress.warming_up(seconds, limit, left_s)
    assert capsys.readouterr().out == line


def test_the_window(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    clock.now = 9.0
    progress.measuring([0], 12)  # no iteration has ended
    progress.measuring([0, 1_000_000_000, 4_000_000_000], 12)  # 2 s each
    assert capsys.readouterr().out == "measuring, iteration 2 of 12: 20 s left\n"
