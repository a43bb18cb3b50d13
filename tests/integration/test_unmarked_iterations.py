"""Iterations of real traces without their marks: what NVTX says is the yardstick."""

from __future__ import annotations

import random
import shutil
import sqlite3
from bisect import bisect_right
from pathlib import Path

import duckdb
import polars as pl
import pytest

from corpus import corpus_file, corpus_files
from fast import one_in
from real_traces import Traces
from tbd_trace.query import sql
from tbd_trace.query.catalogue import derived_relation
from tbd_trace.store import Database

NERSC = "NERSC_sc22-dl-tutorial__sample_nsys_profiles__{}.qdrep.exp2022.4.sqlite"

# Kernels of the device that works most, in order, with their iteration and its evidence.
KERNELS = """
    SELECT s.iteration, s.evidence, s.launch_start_ns, s.thread_id
    FROM op_scope s
    WHERE s.op_kind IN ('kernel', 'graph') AND s.device_id = (
        SELECT device_id FROM op_scope WHERE op_kind IN ('kernel', 'graph')
        GROUP BY ALL ORDER BY sum(duration_ns) DESC, device_id LIMIT 1)
    ORDER BY s.start_ns, s.op_id
"""


def has_table(path: Path, table: str) -> bool:
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as file:
        found = file.execute("SELECT count(*) FROM sqlite_master WHERE name = ?", [table])
        return bool(found.fetchone()[0])


def stripped(path: Path, directory: Path) -> tuple[Database, str]:
    """Return a database with a copy of an nsys export that has no NVTX events, and its trace id."""
    copy = directory / path.name
    shutil.copyfile(path, copy)
    with sqlite3.connect(copy) as file:
        file.execute("DELETE FROM NVTX_EVENTS")
    file.close()
    database = Database(directory / "stripped.duckdb")
    return database, database.ingest([copy])[0].trace_id


def first_kernels(kernels: pl.DataFrame) -> list[int]:
    """Return which kernel of the device is the first of each marked iteration."""
    own = kernels.with_row_index("number").filter(pl.col("evidence") == "nvtx")
    return own.group_by("iteration").agg(pl.col("number").min()).sort("number")["number"].to_list()


def begins(kernels: pl.DataFrame, starts: list[int]) -> list[int]:
    """Return which kernel of the device was launched when each iteration began."""
    launched = kernels["launch_start_ns"].to_list()
    return [launched.index(start) for start in starts]


@pytest.mark.parametrize("path", one_in(24, corpus_files("nsys/*.sqlite"), then_one_in=12))
def test_without_nvtx_the_marked_steps_are_found(
    traces: Traces, tmp_path: Path, path: Path
) -> None:
    """As many steps, give or take one, and of training runs they begin with the same kernel."""
    if not has_table(path, "NVTX_EVENTS"):
        pytest.skip("no NVTX")
    name = f"nsys/{path.name}"
    marked = traces.sql(name, "SELECT * FROM _iteration_mark")
    steps = first_kernels(traces.sql(name, KERNELS)) if len(marked) else []
    if len(steps) < 3:
        pytest.skip("fewer than three iterations with GPU work are marked")
    database, trace = stripped(path, tmp_path)
    found = sql(database, "SELECT * FROM _iteration_anchor ORDER BY iteration", [trace])
    assert abs(len(found) - len(steps)) <= 1
    assert found["confidence"].min() >= 0.9  # type: ignore[operator]
    firsts = begins(sql(database, KERNELS, [trace]), found["start_ns"].to_list())
    # one in each step, none left out
    places = [bisect_right(steps, first) for first in firsts]
    assert places == list(range(places[0], places[0] + len(places)))
    if not traces.sql(name, "FROM training_window WHERE trains").is_empty():
        offsets = [first - min(steps, key=lambda step: abs(step - first)) for first in firsts]
        assert max(map(abs, offsets)) <= 1


@pytest.mark.nightly(
    covered_by="tests/integration/test_unmarked_iterations.py::test_steps_of_changing_length"
)
def test_kernels_of_unmarked_steps(tmp_path: Path) -> None:
    """29 steps of 470 kernels each, backward passes by another thread included."""
    database, trace = stripped(corpus_file(f"nsys/{NERSC.format('baseline')}"), tmp_path)
    found = sql(database, "SELECT * FROM iteration ORDER BY iteration", [trace])
    assert set(found["method"]) == {"anchor kernel"}
    assert found["kernels"].to_list() == [470] * 29
    assert set(found["confidence"]) == {1.0}


@pytest.mark.slow
def test_steps_of_changing_length(tmp_path: Path) -> None:
    """Data loading puts 132 kernels into some steps; the loader's threads launch them."""
    database, trace = stripped(corpus_file(f"nsys/{NERSC.format('dali_amp_apex_jit')}"), tmp_path)
    found = sql(database, "SELECT * FROM iteration ORDER BY iteration", [trace])
    assert len(found) == 29
    loaded = [kernels - 309 for kernels in found["kernels"]]
    # one batch is launched on both sides of a boundary
    assert sorted(set(loaded)) == [0, 2, 132, 264]


# kernels in random order

SHUFFLED = [
    *(NERSC.format(run) for run in ("baseline", "4gpu_baseline", "dali_amp_apex_jit")),
    "zx3xyy_assignment2-systems__result.sqlite",
    "zx3xyy_assignment2-systems__result_2_7B.sqlite",
    "Athrun0109_CS336_assignment2__result.sqlite",
    "GindaChen_nsys-ai__tests__fixtures__mfu_2gpu_before.sqlite",
    "GindaChen_nsys-ai__tests__fixtures__h100_2gpu_1s.sqlite",
    "brycelelbach_nsightful__tests__power_iteration__baseline.sqlite",
]
INPUTS = {
    "gpu_op": "SELECT * FROM gpu_op WHERE op_kind = 'kernel' ORDER BY device_id, start_ns, op_id",
    "kernel": "SELECT * FROM kernel",
    "op_launch": "SELECT * FROM op_launch WHERE op_kind = 'kernel'",
    # Only kernels show steps here: no marks, and no names of layers or of optimizers.
    "_iteration_mark": "SELECT * FROM _iteration_mark LIMIT 0",
    "_model_call": "SELECT * FROM _model_call LIMIT 0",
    "_model_part": "SELECT * FROM _model_part LIMIT 0",
    "annotation_semantics": "SELECT * FROM annotation_semantics LIMIT 0",
    "annotation_range": "SELECT * FROM annotation_range LIMIT 0",
}


def shuffled(ops: pl.DataFrame, window: int | None, seed: int) -> pl.DataFrame:
    """Put kernels into each other's places, anywhere on their device or within ``window`` of them.

    Name, grid, block and duration move together; start, stream and launch belong to the place.
    """
    draw = random.Random(seed)
    order: list[int] = []
    for part in ops.with_row_index("place").partition_by("device_id", maintain_order=True):
        places = part["place"].to_list()
        size = window or len(places)
        for first in range(0, len(places), size):
            order += draw.sample(places[first : first + size], len(places[first : first + size]))
    moved = ops[order]
    return ops.with_columns(moved["op_id"], moved["name"], moved["duration_ns"]).with_columns(
        end_ns=pl.col("start_ns") + pl.col("duration_ns")
    )


@pytest.mark.slow
@pytest.mark.parametrize("window", [None, 200])
@pytest.mark.parametrize("name", one_in(9, SHUFFLED, then_one_in=8), ids=lambda name: name[:40])
def test_shuffled_kernels_are_no_iterations(traces: Traces, name: str, window: int | None) -> None:
    inputs = {table: traces.sql(f"nsys/{name}", text) for table, text in INPUTS.items()}
    statement = derived_relation("_iteration_anchor").sql
    with duckdb.connect(config={"threads": 2}) as connection:
        for table, rows in inputs.items():
            connection.register(table, rows)
        assert connection.sql(statement).fetchall()  # in their own order they are
        for seed in range(4):
            ops = shuffled(inputs["gpu_op"], window, seed)
            moved = pl.DataFrame({"op_id": inputs["gpu_op"]["op_id"], "now": ops["op_id"]})
            launches = inputs["op_launch"].join(moved, on="op_id").drop("op_id")
            connection.register("gpu_op", ops)
            connection.register("op_launch", launches.rename({"now": "op_id"}))
            assert connection.sql(statement).fetchall() == []
