"""The benchmark's made traces hold what their size says, in both schemas, and are read in full."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from benchmarks.claims import CLAIMS, Costs, ratios
from benchmarks.exports import SCHEMAS
from benchmarks.generate import generate
from benchmarks.measure import Cost, measure
from benchmarks.report import Result, as_markdown
from benchmarks.sizes import Size

import nsys_agent
import tbd_trace
from tbd_trace.store.database import Database

ITERATIONS, LAYERS, KERNELS_PER_LAYER, DEPTH, THREADS, PROCESSES = 5, 3, 2, 3, 3, 2
LAUNCHES = PROCESSES * ITERATIONS * LAYERS * (2 * KERNELS_PER_LAYER + 1)
# an iteration: itself, four phases, two ranges per layer, three of the data loader
RANGES = LAUNCHES * DEPTH + PROCESSES * ITERATIONS * (1 + 4 + 2 * LAYERS + 3)
# three per launch; a fill per layer, two copies, a wait, a host allocation
CALLS = 3 * LAUNCHES + PROCESSES * ITERATIONS * (LAYERS + 2 + 1 + 1)


def made(path: Path, schema: str, seed: int = 0) -> Path:
    """Return a small made trace."""
    size = Size(ITERATIONS, LAYERS, KERNELS_PER_LAYER, DEPTH, THREADS, PROCESSES)
    generate(path, size, schema=schema, seed=seed)
    return path


@pytest.fixture(scope="module", params=SCHEMAS)
def trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a small made trace of each schema."""
    return made(tmp_path_factory.mktemp("made") / "toy.sqlite", request.param)


def only_row(path: Path, statement: str) -> tuple[int, ...]:
    """Return the one row of a query of the export itself."""
    with closing(sqlite3.connect(path)) as connection:
        (row,) = connection.execute(statement).fetchall()
    return tuple(row)


@pytest.mark.slow
def test_what_is_made_is_read_in_full(trace: Path, tmp_path: Path) -> None:
    database = tmp_path / "made.duckdb"
    Database(database).ingest([trace])
    opened = tbd_trace.open(db=database)
    counted = {
        "kernel": (LAUNCHES, "CUPTI_ACTIVITY_KIND_KERNEL"),
        "nvtx_range": (RANGES, "NVTX_EVENTS"),
        "api_call": (CALLS, "CUPTI_ACTIVITY_KIND_RUNTIME"),
    }
    for table, (rows, original) in counted.items():
        ours = opened.sql(f"SELECT count(*), sum(end_ns - start_ns)::BIGINT FROM {table}").row(0)
        assert ours == only_row(trace, f'SELECT count(*), sum("end" - start) FROM {original}')
        assert ours[0] == rows

    # Every launch is inside ranges, however deep, of the thread that made it.
    scopes = opened.sql("""SELECT count(*), count(annotation_id),
        count(DISTINCT layer) FILTER (WHERE NOT contains(layer, '::')),
        count(DISTINCT iteration) FROM kernel_scope""")
    assert scopes.row(0) == (LAUNCHES, LAUNCHES, LAYERS, ITERATIONS)


def test_kernels_of_a_stream_follow_each_other(trace: Path) -> None:
    overlaps = """SELECT count(*) FROM (
        SELECT start < lag("end") OVER (PARTITION BY globalPid, streamId ORDER BY start) AS early
        FROM CUPTI_ACTIVITY_KIND_KERNEL) WHERE early"""
    early_kernels = """SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL AS k
        JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS r
          ON r.correlationId = k.correlationId AND r.globalTid >> 24 = k.globalPid >> 24
        WHERE k.start < r.start"""
    assert only_row(trace, overlaps) == only_row(trace, early_kernels) == (0,)


def test_push_pop_ranges_of_a_thread_nest(trace: Path) -> None:
    crossing = """SELECT count(*) FROM NVTX_EVENTS AS a JOIN NVTX_EVENTS AS b
        ON a.globalTid = b.globalTid AND a.eventType = 59 AND b.eventType = 59
        AND a.start < b.start AND b.start < a."end" AND a."end" < b."end" """
    assert only_row(trace, crossing) == (0,)


def test_the_seed_decides_the_bytes(tmp_path: Path) -> None:
    first, again, other = (
        made(tmp_path / f"{number}.sqlite", "2022.4", seed).read_bytes()
        for number, seed in enumerate((0, 0, 1))
    )
    assert first == again
    assert first != other


@pytest.mark.needs("nsys")
def test_nsys_stats_reads_what_is_made(tmp_path: Path) -> None:
    trace = made(tmp_path / "toy.sqlite", "2022.4")
    totals = {}
    for report in ("gpukernsum", "nvtxsum"):
        command = ["nsys", "stats", "--quiet", "--report", report, "--format", "json"]
        done = subprocess.run(
            [*command, "--output", "-", str(trace)],
            env=nsys_agent.environment(),
            check=True,
            capture_output=True,
        )
        rows = json.loads(done.stdout)
        totals[report] = (
            sum(row["Instances"] for row in rows),
            sum(row["Total Time (ns)"] for row in rows),
        )
    statement = 'SELECT count(*), sum("end" - start) FROM {}'
    assert totals["gpukernsum"] == only_row(trace, statement.format("CUPTI_ACTIVITY_KIND_KERNEL"))
    assert totals["nvtxsum"] == only_row(trace, statement.format("NVTX_EVENTS"))


def python(code: str, log: Path, limit_s: float = 60) -> Cost:
    return measure((sys.executable, "-c", code), {}, log, limit_s)


def test_memory_and_time_of_children_count(tmp_path: Path) -> None:
    child = "memory = b'x' * 200_000_000; import time; time.sleep(0.3)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    cost = python(code, tmp_path / "log")
    assert cost.usable
    assert 200_000_000 < cost.peak_bytes < 400_000_000
    assert 0 < cost.cpu_seconds < cost.seconds


def test_what_takes_too_long_is_ended_and_what_fails_says_why(tmp_path: Path) -> None:
    slow = python("import time; time.sleep(600)", tmp_path / "log", limit_s=0.3)
    assert slow.timed_out
    assert not slow.usable
    failed = python("raise SystemExit('no such thing')", tmp_path / "log")
    assert (failed.returncode, failed.message, failed.usable) == (1, "no such thing", False)


def cost(seconds: float, *, timed_out: bool = False, returncode: int = 0) -> Cost:
    return Cost(seconds, seconds, 1000, returncode, timed_out, "")


def test_ratios_are_those_within_a_round() -> None:
    claim = next(claim for claim in CLAIMS if claim.slower == "ADBC")
    # The machine became ten times slower in the second round, which changes nothing.
    costs: Costs = {
        claim.slower: [cost(6), cost(60), cost(12)],
        claim.faster: [cost(2), cost(20), cost(3)],
    }
    assert ratios("S", costs) == []  # too small for that claim
    (ratio,) = ratios("L", costs)
    assert (ratio.claim, ratio.value, ratio.at_least, ratio.reached) == (claim, 3.0, False, False)

    costs[claim.slower] = [cost(100, timed_out=True, returncode=-9)]
    (ratio,) = ratios("L", costs)
    assert (ratio.value, ratio.at_least, ratio.reached) == (100 / 3, True, True)

    costs[claim.faster] = [cost(1, returncode=2)]
    assert ratios("L", costs) == []


def test_what_is_missing_says_so_in_the_table() -> None:
    group: dict[str, list[Cost] | str] = {"here": [cost(1)], "there": "not installed"}
    text = as_markdown([Result("S", 1, 1, {"ingest": group})])
    assert "| there |  |  |  |  |  | not installed |" in text
    assert "| here | 1.00 | 1.00 | 1.00 | 0 | 1 |  |" in text
