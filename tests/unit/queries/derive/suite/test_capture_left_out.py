"""Comparisons of many traces: those that have nothing to compare are left out, and named."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fast import nightly, one_in
from made_nsys import GPU, KERNEL, NVTX, RUNTIME, call, gpu, kernel, nvtx, strings, write
from tbd_trace.errors import CannotAnswerError
from tbd_trace.query import Catalogue, execute
from tbd_trace.store import Database

pytestmark = pytest.mark.slow

QUERIES = ("batch_sweep", "suite_compare")
STEPS = 5


def trace(path: Path, *, steps: bool = True, kernels: bool = True, number: int = 0) -> Path:
    """Write a run; ``number`` only makes its content differ from that of others."""
    tables = {"StringIds": strings(), GPU: [gpu(0, 0)], NVTX: [], RUNTIME: [], KERNEL: []}
    for step in range(STEPS):
        start = 1_000_000 * (step + 1)
        text = f"step {step}" if steps else "work" * (step + 1)
        tables[NVTX].append(nvtx(59, start=start, end=start + 900_000 + number, text=text))
        launch = {"correlationId": 10 + step}
        tables[RUNTIME].append(call(4, start=start + 10, end=start + 20, **launch))
        if kernels:
            tables[KERNEL].append(kernel(start=start + 100, end=start + 5000, **launch))
    if not steps:
        tables[KERNEL] = tables[KERNEL][:1]
    return write(path, {name: rows for name, rows in tables.items() if rows})


@pytest.fixture
def database(tmp_path: Path) -> Callable[..., Database]:
    def make(*paths: Path) -> Database:
        made = Database(tmp_path / "x.duckdb")
        made.ingest(paths)
        return made

    return make


@pytest.mark.parametrize("name", one_in(2, QUERIES, then_one_in=2))
def test_traces_without_what_is_compared_are_left_out_and_named(
    tmp_path: Path, database: Callable[..., Database], name: str
) -> None:
    good = [trace(tmp_path / f"good{n}.sqlite", number=n) for n in range(2)]
    idle = [trace(tmp_path / f"idle{n}.sqlite", kernels=False, number=n) for n in range(5)]
    alone = trace(tmp_path / "alone.sqlite", steps=False)
    result = execute(database(*good, *idle, alone), Catalogue().get(name))
    assert sorted(result.frame["capture"]) == ["good0.sqlite", "good1.sqlite"]
    assert result.frame["gpu_busy_pct"].null_count() == 0
    left_out = {note for note in result.notes if "leaves out" in note}
    assert left_out == {
        f"{name} leaves out idle0.sqlite, idle1.sqlite, idle2.sqlite and 2 more: "
        "no GPU work was recorded",
        f"{name} leaves out alone.sqlite: no iterations are known",
    }


@pytest.mark.parametrize("name", QUERIES)
def test_nothing_left_to_compare(
    tmp_path: Path, database: Callable[..., Database], name: str
) -> None:
    made = database(trace(tmp_path / "idle.sqlite", kernels=False))
    with pytest.raises(CannotAnswerError, match=r"idle\.sqlite: no GPU work was recorded$"):
        execute(made, Catalogue().get(name))


def test_notes_about_many_traces_are_one_line(
    tmp_path: Path, database: Callable[..., Database]
) -> None:
    good = trace(tmp_path / "good.sqlite")
    idle = [trace(tmp_path / f"idle{n}.sqlite", kernels=False, number=n) for n in range(7)]
    (note,) = execute(database(good, *idle), Catalogue().get("kernel_durations")).notes
    assert note.startswith("idle0.sqlite, idle1.sqlite, idle2.sqlite and 4 more: kernel_durations")


@nightly
def test_time_is_linear_in_the_traces(tmp_path: Path, database: Callable[..., Database]) -> None:
    query = Catalogue().get("suite_compare")
    made = database(*(trace(tmp_path / f"{n}.sqlite", number=n) for n in range(80)))
    ids = made.trace_ids()
    execute(made, query, ids[:2])  # whatever is imported
    seconds = []
    for count in (20, 80):
        start = time.perf_counter()
        assert execute(made, query, ids[:count]).frame.height == count
        seconds.append(time.perf_counter() - start)
    assert seconds[1] < 12 * seconds[0]  # 4 times as many; 16 times as long if it were quadratic
