"""Directories with a job.json: their ranks, jobs and measured points."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tbd_trace
from made_kineto import document, event, write
from tbd_trace.cli.main import app

POINTS: list[dict[str, Any]] = [
    {"directory": "alone-first", "world_size": 1, "median_s": 0.12, "quietest_s": 0.11},
    {
        **{"directory": "bandwidth=1gbit", "world_size": 2, "bandwidth_bits_per_s": 1e9},
        **{"latency_added_s": 0, "median_s": 0.2, "quietest_s": 0.19, "is_stable": True},
        "link": [
            {"bytes": 4, "median_s": 0.0003, "bus_bytes_per_s": 13e3},
            {"bytes": 100, "median_s": 0.001, "bus_bytes_per_s": 1e5},
        ],
    },
    {"directory": "bandwidth=2gbit", "world_size": 2, "status": "failed"},
    {"directory": "alone-last", "world_size": 1, "median_s": 0.13, "quietest_s": 0.10},
]


def make(folder: Path, points: list[dict[str, Any]], **fields: Any) -> Path:
    """Write a job.json, and the capture of each rank of its points."""
    folder.mkdir(parents=True)
    usual = {"status": "ok", "iteration_s": [0.1, 0.2]}
    content = {"scheme": "ddp", "points": [usual | point for point in points], **fields}
    (folder / "job.json").write_text(json.dumps(content))
    for number, point in enumerate(points):
        for rank in range(point["world_size"]):
            place = folder / point["directory"] / f"rank={rank}"
            place.mkdir(parents=True)
            step = event("user_annotation", "ProfilerStep#0", 100 * number + rank, 100)
            write(place / "timeline.pt.trace.json", document([step]))
            files = [{"file": "timeline.pt.trace.json", "role": "timeline", "tool": "torch"}]
            capture = {"world_size": point["world_size"], "files": files}
            (place / "capture.json").write_text(json.dumps(capture))
    return folder


def ingest(tmp_path: Path, *words: Any) -> Any:
    database = str(tmp_path / "store.duckdb")
    return CliRunner().invoke(app, ["ingest", "--db", database, *map(str, words)])


def asked(tmp_path: Path, sql: str) -> list[tuple[Any, ...]]:
    return tbd_trace.open(db=tmp_path / "store.duckdb").sql(sql).rows()


NAMES = "SELECT name, job, rank FROM trace LEFT JOIN job_rank USING (trace_id) ORDER BY name"


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--job", "net")])
def test_each_point_of_a_sweep_is_a_job(tmp_path: Path, words: tuple[str, ...]) -> None:
    """A single rank is not a job, and its repetition at the end only checks the machine."""
    done = ingest(tmp_path, *words, make(tmp_path / "sweep", POINTS))
    assert done.exit_code == 0, done.output
    name = words[-1] if words else "sweep"
    file = "timeline.pt.trace.json"
    assert asked(tmp_path, NAMES) == [
        (f"{name}/alone-first/rank=0/{file}", None, None),
        (f"{name}/bandwidth=1gbit/rank=0/{file}", f"{name}/bandwidth=1gbit", 0),
        (f"{name}/bandwidth=1gbit/rank=1/{file}", f"{name}/bandwidth=1gbit", 1),
    ]


@pytest.mark.slow
def test_a_job_of_one_point_has_the_name_of_its_directory(tmp_path: Path) -> None:
    folder = make(tmp_path / "job", [{"directory": ".", "world_size": 2}])
    assert ingest(tmp_path, folder).exit_code == 0
    assert [row[1:] for row in asked(tmp_path, NAMES)] == [("job", 0), ("job", 1)]
    assert asked(tmp_path, "SELECT DISTINCT world_size, is_own FROM job_point") == [(2, True)]


@pytest.mark.slow
def test_each_trace_knows_all_points(tmp_path: Path) -> None:
    host = [{"bytes": 100, "algorithm_bytes_per_s": 8e8}]
    folder = make(tmp_path / "sweep", POINTS, host_link=host)
    # A rank by itself knows them, too.
    assert ingest(tmp_path, folder / "bandwidth=1gbit" / "rank=1").exit_code == 0
    found = asked(tmp_path, "SELECT * EXCLUDE (trace_id) FROM job_point ORDER BY point_id")
    assert found == [
        (0, False, "ddp", 1, None, None, 2, 0.12, 0.11, None, None, None, 8e8),
        (1, True, "ddp", 2, 1e9, 0.0, 2, 0.2, 0.19, True, 0.0003, 1e5, 8e8),
        (2, False, "ddp", 2, None, None, 2, None, None, None, None, None, 8e8),
        (3, False, "ddp", 1, None, None, 2, 0.13, 0.10, None, None, None, 8e8),
    ]


@pytest.mark.slow
def test_another_job_json_makes_another_trace(tmp_path: Path) -> None:
    folder = make(tmp_path / "sweep", POINTS)
    rank = folder / "alone-first" / "rank=0"
    assert "ingested" in ingest(tmp_path, rank).output
    assert "already there" in ingest(tmp_path, rank).output
    content = json.loads((folder / "job.json").read_text())
    content["points"][1]["quietest_s"] = 0.18
    (folder / "job.json").write_text(json.dumps(content))
    assert "already there" not in ingest(tmp_path, rank).output


@pytest.mark.slow
def test_a_capture_beside_a_job_of_others_is_none_of_its_ranks(tmp_path: Path) -> None:
    folder = make(tmp_path / "job", [{"directory": "one", "world_size": 1}])
    (folder / "one").rename(folder / "two")
    assert ingest(tmp_path, folder / "two" / "rank=0").exit_code == 0
    assert asked(tmp_path, "SELECT count(*) FROM job_point") == [(0,)]


BAD = {
    "points: 1": {"points": 1},
    "no directory": {"points": [{"world_size": 1}]},
    "outside": {"points": [{"directory": "../other", "world_size": 1}]},
    "no world size": {"points": [{"directory": ".", "world_size": 0}]},
    "a text": {"points": [{"directory": ".", "world_size": 1, "median_s": "fast"}]},
    "a negative": {"points": [{"directory": ".", "world_size": 1, "quietest_s": -1}]},
    "no list": {"points": [{"directory": ".", "world_size": 1, "iteration_s": 3}]},
    "no link": {"points": [{"directory": ".", "world_size": 1, "link": [3]}]},
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_a_damaged_job_json_is_reported_in_one_line(
    tmp_path: Path, content: dict[str, Any]
) -> None:
    folder = make(tmp_path / "job", [{"directory": ".", "world_size": 1}])
    (folder / "job.json").write_text(json.dumps(content))
    for path in (folder, folder / "rank=0"):
        done = ingest(tmp_path, path)
        assert done.exit_code == 1
        assert done.output.count("\n") == 1
        assert "job.json: " in done.output
