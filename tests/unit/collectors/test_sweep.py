"""Exit codes of sweeps; made results in place of captures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tbd_collectors.collect import Result
from tbd_collectors.collection_request import Command
from tbd_collectors.sweep import collect_all

CODES = {"ok": 0, "out_of_memory": 3, "failed": 5}


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        (["ok", "ok"], 0),
        (["ok", "out_of_memory"], 0),
        (["out_of_memory", "out_of_memory"], 3),
        (["out_of_memory", "failed"], 5),
        (["ok", "failed", "ok"], 5),
        ([], 0),
    ],
)
def test_a_sweep_fails_if_no_batch_fits_or_a_capture_fails(statuses: list[str], code: int) -> None:
    made = iter(Result(Path(), name, "", CODES[name], [], {}) for name in statuses)
    jobs = [(Command(("train",)), Path()) for _ in statuses]
    results: list[Result] = []
    assert collect_all(jobs, lambda *_: next(made), results, lambda _: None) == code
    assert [result.status for result in results] == statuses
