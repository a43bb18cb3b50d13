"""What the end of a run means."""

from __future__ import annotations

from pathlib import Path

import pytest

from tbd_collectors.process import Completed
from tbd_collectors.profiler import TIMELINE, Run
from tbd_collectors.run_outcome import CaptureEndedError, check


@pytest.mark.parametrize("code", [-9, 137])  # 137: nsys, or a shell, ran the program
@pytest.mark.parametrize(
    ("ran_out", "status", "reason"),
    [
        (False, "failed", "ended by SIGKILL, which Linux also sends when memory runs out"),
        (True, "out_of_memory", "killed by Linux, because the host's memory ran out"),
    ],
)
def test_a_killed_program(
    code: int, ran_out: bool, status: str, reason: str, tmp_path: Path
) -> None:
    completed = Completed(code, 1.0, (), memory_ran_out=ran_out)
    planned_run = Run(TIMELINE, "torch", [], tmp_path)
    with pytest.raises(CaptureEndedError, match=reason) as caught:
        check(planned_run, completed, {}, tmp_path / "log")
    assert (caught.value.status, caught.value.exit_code) == (status, 137)
