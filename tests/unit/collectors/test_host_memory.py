"""Count the processes that Linux has killed for lack of memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tbd_collectors import host_memory


def test_the_count_is_that_of_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_memory, "_COUNTERS", tmp_path / "vmstat")
    assert host_memory.oom_kills() == 0
    (tmp_path / "vmstat").write_text("nr_free_pages 17\noom_kill 3\noom_kill_x 9\n")
    assert host_memory.oom_kills() == 3
