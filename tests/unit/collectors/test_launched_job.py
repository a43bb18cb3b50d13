"""The job.json of ranks that a launcher started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tbd_collectors.job import rows
from tbd_collectors.launched_job import finish, part, prepare
from tbd_collectors.launcher import LauncherRank
from tbd_trace.errors import UsageError
from tbd_trace.store.job_document import read_job


def write(job: Path, rank: int, **changes: Any) -> None:
    folder = job / f"rank={rank}"
    folder.mkdir(parents=True)
    periods = [9_000_000, 1_000_000 * (rank + 1), 3_000_000]
    content = {"status": "ok", "world_size": 2, "profiler": "torch"}
    content |= {"profiled": {"iteration_ns": periods}}
    (folder / "capture.json").write_text(json.dumps(content | changes))


def test_the_last_rank_completes_the_job(tmp_path: Path) -> None:
    write(tmp_path, 1)
    (tmp_path / ".recorded.1").touch()
    assert finish(tmp_path) is None
    assert not (tmp_path / "job.json").exists()
    write(tmp_path, 0)
    result = finish(tmp_path)
    assert result is not None
    assert (result.status, result.exit_code) == ("ok", 0)
    document = json.loads((tmp_path / "job.json").read_text())
    assert (document["world_size"], document["profiler"]) == (2, "torch")
    (point,) = document["points"]
    # The first iteration waits for the slowest start; of the others the slowest rank counts.
    assert (point["iteration_s"], point["median_s"]) == ([0.002, 0.003], 0.0025)
    assert {path.name for path in tmp_path.iterdir()} == {"rank=0", "rank=1", "job.json"}


def test_a_job_without_a_rank_can_be_completed(tmp_path: Path) -> None:
    write(tmp_path, 1, world_size=4)
    result = finish(tmp_path, incomplete=True)
    assert result is not None
    assert (result.status, result.reason) == ("failed", "ranks 0, 2, 3 wrote no capture")
    document = json.loads((tmp_path / "job.json").read_text())
    assert document["status"] == document["points"][0]["status"] == "failed"
    assert rows(result)[0]["status"] == "failed"
    job = read_job(tmp_path)
    assert job is not None
    assert [point.is_readable for point in job.points] == [True]


def test_a_rank_that_failed_is_named(tmp_path: Path) -> None:
    write(tmp_path, 0, status="interrupted", reason="interrupted by SIGTERM")
    write(tmp_path, 1, status="failed", reason="boom")
    result = finish(tmp_path)
    assert result is not None
    assert (result.status, result.reason) == ("failed", "rank 1: boom")


def test_a_directory_without_parts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no rank=K/ with a capture"):
        finish(tmp_path)


def test_an_earlier_job_is_kept_unless_forced(tmp_path: Path) -> None:
    write(tmp_path, 0)
    write(tmp_path, 1)
    finish(tmp_path)
    launched = LauncherRank(0, 2, tmp_path)
    launched.noted(0).touch()
    with pytest.raises(UsageError, match="exists; choose another -o, or --force"):
        prepare(launched, force=False)
    assert part(launched).is_dir()
    prepare(launched, force=True)
    assert {path.name for path in tmp_path.iterdir()} == {"rank=1"}
    prepare(LauncherRank(0, 2, tmp_path / "new" / "job"), force=False)
    assert (tmp_path / "new" / "job").is_dir()
