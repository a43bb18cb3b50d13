"""Dumps of 16 ranks of a real job with injected faults; the ranks are those of its authors."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from requirements import CORPUS, lacks, require
from tbd_trace.analysis.hang.answer import explain_hang

TRUTH = {"gpu_error_1st": [12, 14], "gpu_error_2nd": [9, 14], "lock_gil_1st": [9, 14]}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TBD_TRACE_CACHE", str(tmp_path / "cache"))


def incident(name: str) -> Path:
    """Return the folder of an incident, or skip."""
    require("corpus")
    folder = CORPUS.parent / "more" / "flight_recorder" / f"NVIDIA_resiliency_{name}"
    return folder if folder.is_dir() else lacks("corpus", f"{folder} is missing")


@pytest.mark.slow
@pytest.mark.parametrize("name", TRUTH)
def test_ranks_of_incident(name: str) -> None:
    answer = explain_hang(incident(name))[0].to_dict()
    assert answer["ranks"] == TRUTH[name]
    assert answer["line"] is None  # no stacks
    assert set(answer["waiting"]) == set(range(16)) - set(TRUTH[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", TRUTH)
def test_deleted_dump_accuses_no_other_rank(name: str, tmp_path: Path) -> None:
    for rank in (0, 9, 12, 14):
        copy = Path(shutil.copytree(incident(name), tmp_path / f"without_{rank}"))
        (copy / f"_dump_{rank}").unlink()
        assert set(explain_hang(copy)[0].to_dict()["ranks"]) <= set(TRUTH[name])
