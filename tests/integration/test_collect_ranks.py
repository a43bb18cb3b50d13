"""Ranks of a job on this machine: reports, buckets, stragglers, and a rank that dies."""

from __future__ import annotations

import csv
import random
import sys
from pathlib import Path

import polars as pl
import pytest

import tbd_trace
from fast import nightly
from nsys_agent import collected
from ranks import collect, job
from tbd_trace.store import Database
from tbd_trace.store.ranks import job_files

torch = pytest.importorskip("torch")

JOBS = [2, pytest.param(3, marks=nightly)]
TRAINING = """
import sys, time, torch, tbd_trace
import torch.distributed as dist
late, delay, dies = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(32, 200), torch.nn.ReLU(), torch.nn.Linear(200, 8)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
tbd_trace.instrument(model, optimizer, batch_size=4)
for number in range(14):
    if rank == dies and number == 4:
        sys.exit("it breaks here")
    # Equal computation that no load of the machine stretches much.
    time.sleep(0.03 + (delay if rank == late else 0.0))
    model(torch.randn(4, 32)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""
PARAMETERS = 32 * 200 + 200 + 200 * 8 + 8


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(TRAINING, encoding="utf-8")
    return path


def ingested(directory: Path, capture: Path) -> tbd_trace.Traces:
    database = Database(directory / "job.duckdb")
    database.ingest_files(job_files("drawn", [capture]))
    return tbd_trace.open(db=database.path)


def straggler(script: Path, directory: Path, ranks: int, late: int, delay: float) -> pl.DataFrame:
    capture = directory / "capture"
    window = ("--profiler", "torch", "--warmup", "2", "--iterations", "10", "-o", capture)
    words = (sys.executable, script, str(late), str(delay), "-1")
    done = collect("--ranks", str(ranks), *window, "--", *words)
    assert done.returncode == 0, done.stderr
    assert f"{ranks} ranks" in done.stderr
    traces = ingested(directory, capture)
    buckets = traces.sql("SELECT * FROM collective_record WHERE source = 'bucket'")
    # Gradients of float32 in one bucket, one all-reduce an iteration on each rank.
    assert set(buckets["bytes"]) == {4 * PARAMETERS}
    assert buckets.group_by("trace_id").len()["len"].to_list() == [10] * ranks
    found: pl.DataFrame = traces.query("straggler")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("ranks", JOBS)
def test_a_delayed_rank_is_the_straggler(script: Path, tmp_path: Path, ranks: int) -> None:
    late, delay = random.randrange(ranks), random.uniform(0.06, 0.12)
    found = straggler(script, tmp_path, ranks, late, delay)
    assert found["verdict"].unique().to_list() == ["same rank"], found
    named = found.filter(pl.col("is_straggler"))
    assert named["rank"].to_list() == [late], (late, delay, found)
    lateness = named["median_lateness_when_last_ns"][0] / 1e9
    assert lateness == pytest.approx(delay, abs=max(0.01, 0.25 * delay)), (late, delay)


@pytest.mark.slow
@pytest.mark.nightly(  # the ranks themselves run in the test above
    covered_by="tests/unit/queries/metrics/network/test_network_ranks.py::test_changing_ranks_are_rotating"
)
def test_without_a_delay_no_rank_is_the_straggler(script: Path, tmp_path: Path) -> None:
    # Other work on the machine may hit one rank for a while, so once may be chance.
    for attempt in ("first", "second", "third"):
        directory = tmp_path / attempt
        directory.mkdir()
        found = straggler(script, directory, 3, -1, 0.0)
        if "same rank" not in found["verdict"]:
            return
    pytest.fail(f"a straggler without a delay: {found}")


@pytest.mark.slow
def test_a_rank_that_dies_stops_the_others_and_is_named(script: Path, tmp_path: Path) -> None:
    capture, dying = tmp_path / "capture", random.randrange(2)
    window = ("--profiler", "torch", "--warmup", "2", "--iterations", "10", "-o", capture)
    words = (sys.executable, script, "-1", "0", str(dying))
    done = collect("--ranks", "2", *window, "--", *words)
    assert done.returncode == 1
    assert f"rank {dying} failed" in done.stderr.splitlines()[-1]
    assert f"its output is in {capture}/rank={dying}/timeline.log" in done.stderr.splitlines()[-1]
    log = capture / f"rank={dying}" / "timeline.log"
    assert "it breaks here" in log.read_text(encoding="utf-8")
    assert "Traceback" not in done.stderr
    content = job(capture)
    assert (content["status"], content["points"][0]["status"]) == ("failed", "failed")


@pytest.mark.slow
@pytest.mark.parametrize(
    "profiler",
    [pytest.param("nsys", marks=pytest.mark.needs("nsys")), pytest.param("torch", marks=nightly)],
)
def test_each_rank_has_a_report(tmp_path: Path, profiler: str) -> None:
    """The bytes of the buckets are those of the layers, in both kinds of report."""
    layers = [(f"layer{i}", 0.002, 0.004, 4 * random.randrange(1, 400_000)) for i in range(4)]
    path = tmp_path / "layers.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("name", "fwd_s", "bwd_s", "grad_bytes"), *layers])
    capture = tmp_path / "capture"
    words = ("--ranks", "2", "--layers", path, "--no-throughput", "--profiler", profiler)
    done = collected(
        collect, *words, "--warmup", "2", "--iterations", "4", "--force", "-o", capture
    )
    assert done.returncode == 0, done.stderr
    traces = ingested(tmp_path, capture)
    summary = traces.query("job_summary")
    assert summary["ranks_present"].to_list() == [2]
    buckets = traces.sql("SELECT * FROM collective_record WHERE source = 'bucket'")
    sums = buckets.group_by("trace_id").agg(pl.col("bytes").sum())["bytes"].to_list()
    assert sums == [4 * sum(size for *_, size in layers)] * 2
    assert set(buckets["kind"]) == {"all_reduce"}
    spans = (buckets["end_ns"] - buckets["start_ns"]).to_list()
    assert min(spans) > 0
