"""Variables that arm the Flight Recorder of a rank."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tbd_collectors.flight_recorder import armed
from tbd_models.instrument.flight_dump import AT_VARIABLE, DUMP_VARIABLE


@pytest.mark.parametrize(("timeout_s", "after_s"), [(3600.0, 3597.0), (5.0, 4.0)])
def test_dump_is_written_before_the_time_limit(timeout_s: float, after_s: float) -> None:
    before = time.time()
    variables = armed(Path("/c/rank=2"), 2, timeout_s)
    assert variables[DUMP_VARIABLE] == "/c/rank=2/dump_2"
    assert before + after_s - 0.01 <= float(variables[AT_VARIABLE]) <= time.time() + after_s + 0.01
    assert variables["TORCH_FR_BUFFER_SIZE"] == "2000"
    assert variables["TORCH_FR_DUMP_TEMP_FILE"] == "/c/rank=2/dump_"


def test_variables_of_the_user_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", "50")
    assert "TORCH_FR_BUFFER_SIZE" not in armed(Path("/c"), 0, 60.0)
