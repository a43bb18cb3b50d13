"""Training without a GPU under the real nsys: layers and iterations as the program timed them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import nsys_agent
from requirements import lacks
from tbd_trace.query import Catalogue, execute
from tbd_trace.store import Database

pytestmark = pytest.mark.needs("nsys")

BATCH_SIZE = 4
ITERATIONS = 6
ATTEMPTS = 5
LONGEST_MARK_S = 0.002
CLOSE = {"rel": 0.05, "abs": 2e6}  # ns; the machine may be busy between two clocks
TRAINING = """
import collections, contextlib, json, sys, time
import nvtx

lengths = collections.defaultdict(lambda: [0.0] * 6)
starts = []
longest_mark = 0.0

@contextlib.contextmanager
def timed(text, number):
    global longest_mark
    before = time.perf_counter()
    with nvtx.annotate(text, domain="tbd_trace"):
        begin = time.perf_counter()
        yield
        end = time.perf_counter()
    lengths[text][number] += end - begin
    longest_mark = max(longest_mark, begin - before, time.perf_counter() - end)

def layer(text, number, milliseconds):
    with timed(text, number):
        time.sleep(milliseconds / 1000)

for number in range(6):
    starts.append(time.perf_counter())
    with nvtx.annotate(f"iteration {number}", domain="tbd_trace"):
        with timed("phase:data", number):
            time.sleep(0.01)
        with timed("phase:forward", number):
            with timed("layer:block", number):
                time.sleep(0.01)
                layer("layer:block.fc", number, 40)
        with timed("phase:backward", number):
            layer("layer_backward:block.fc", number, 15)
            layer("layer_backward:block", number, 25)
            layer("layer_backward:block.fc", number, 5)
        with timed("phase:optimizer", number):
            time.sleep(0.008)
    lengths["iteration"][number] = time.perf_counter() - starts[-1]

result = {"starts": starts, "lengths": lengths, "longest_mark": longest_mark}
json.dump(result, open(sys.argv[1], "w"))
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Database, dict[str, Any]]:
    """Return the capture in a database, and the program's own times in ns."""
    pytest.importorskip("nvtx")
    folder = tmp_path_factory.mktemp("cpu_training")
    capture = folder / "capture"
    capture.mkdir()
    (folder / "training.py").write_text(TRAINING, encoding="utf-8")
    record(folder, capture / "r")
    if not (capture / "r.nsys-rep").is_file():
        lacks("nsys", "it is installed in part and makes no report")
    content = {
        "format_version": 1,
        "capture_id": "cpu_training",
        "batch_size": BATCH_SIZE,
        "iteration_window": {"first": 1, "last": ITERATIONS - 1},
        "files": [{"file": "r.nsys-rep", "role": "timeline", "tool": "nsys"}],
    }
    (capture / "capture.json").write_text(json.dumps(content), encoding="utf-8")
    database = Database(folder / "x.duckdb")
    database.ingest([capture])
    own = json.loads((folder / "own.json").read_text(encoding="utf-8"))
    return database, {
        "starts": [1e9 * s for s in own["starts"]],
        "lengths": {text: [1e9 * s for s in each] for text, each in own["lengths"].items()},
    }


def record(folder: Path, report: Path) -> None:
    options = ["-f", "true", "-t", "nvtx,osrt", "-s", "none", "--cpuctxsw=none", "-o", report]
    program = [sys.executable, "training.py", "own.json"]
    for _ in range(ATTEMPTS):
        nsys_agent.nsys(["profile", *options, *program], folder, nsys_agent.environment())
        # Otherwise the program was interrupted while it set a mark, and its times are wrong.
        if json.loads((folder / "own.json").read_text())["longest_mark"] < LONGEST_MARK_S:
            break


def ask(database: Database, name: str, **parameters: str) -> list[dict[str, Any]]:
    query = Catalogue().get(name)
    found: list[dict[str, Any]] = execute(database, query, parameters=parameters).frame.to_dicts()
    return found


@pytest.mark.slow
def test_iterations(recorded: tuple[Database, dict[str, Any]]) -> None:
    database, own = recorded
    rows = ask(database, "iteration_timing")
    assert [row["label"] for row in rows] == [f"iteration {i}" for i in range(ITERATIONS)]
    assert [row["host_ns"] for row in rows] == pytest.approx(own["lengths"]["iteration"], **CLOSE)
    periods = [b - a for a, b in zip(own["starts"], own["starts"][1:], strict=False)]
    assert [row["period_ns"] for row in rows[:-1]] == pytest.approx(periods, **CLOSE)
    assert {(row["method"], row["kernels"], row["gpu_ns"]) for row in rows} == {
        ("nvtx range", None, None)
    }
    by_measure = {row["measure"]: row for row in ask(database, "iteration_summary")}
    median = sorted(periods)[len(periods) // 2]
    assert by_measure["period_ns"]["median_ns"] == pytest.approx(median, **CLOSE)
    assert (by_measure["gpu_ns"]["n"], by_measure["gpu_ns"]["median_ns"]) == (0, None)


def counted_iterations(database: Database) -> list[int]:
    return [row["iteration"] for row in ask(database, "iteration_timing") if row["in_window"]]


def test_throughput(recorded: tuple[Database, dict[str, Any]]) -> None:
    database, own = recorded
    counted = counted_iterations(database)
    [row] = ask(database, "throughput")
    assert counted == list(range(counted[0], counted[-1] + 1))
    # The last iteration counts if the ranges follow each other closely: on a loaded machine, not.
    assert counted[-1] in (ITERATIONS - 2, ITERATIONS - 1)
    assert (row["batch_size"], row["clock"]) == (BATCH_SIZE, "host")
    assert row["iterations"] == len(counted) >= 3
    ends = [*own["starts"][1:], own["starts"][-1] + own["lengths"]["iteration"][-1]]
    elapsed = (ends[counted[-1]] - own["starts"][counted[0]]) / 1e9
    assert row["samples_per_s"] == pytest.approx(len(counted) * BATCH_SIZE / elapsed, rel=0.05)


def lengths_in(own: dict[str, Any], counted: list[int]) -> dict[str, float]:
    """Return how long the ranges of each text took in the iterations that count."""
    return {text: sum(each[i] for i in counted) for text, each in own["lengths"].items()}


@pytest.mark.slow
def test_layers(recorded: tuple[Database, dict[str, Any]]) -> None:
    database, own = recorded
    counted = counted_iterations(database)
    length = lengths_in(own, counted)
    fc, block = "layer:block.fc", "layer:block"
    expected = {
        ("block", "forward"): length[block] - length[fc],
        ("block.fc", "forward"): length[fc],
        ("block", "backward"): length["layer_backward:block"],
        ("block.fc", "backward"): length["layer_backward:block.fc"],
        (None, "data"): length["phase:data"],
        (None, "optimizer"): length["phase:optimizer"],
    }
    rows = ask(database, "layer_time", window="iterations")
    found = {(row["layer"], row["phase"]): row["host_ns"] for row in rows}
    for key, time in expected.items():
        assert found[key] == pytest.approx(time, **CLOSE), key
    assert {(row["clock"], row["gpu_ns"], row["kernels"]) for row in rows} == {("host", None, None)}
    spans = [row["host_ns"] for row in ask(database, "iteration_timing")]
    # Nothing counts twice, nothing is lost.
    assert sum(found.values()) == sum(spans[i] for i in counted)


def test_dominant_layer(recorded: tuple[Database, dict[str, Any]]) -> None:
    database, own = recorded
    length = lengths_in(own, counted_iterations(database))
    rows = ask(database, "dominant_layer", window="iterations")
    assert [(row["rank"], row["layer"]) for row in rows] == [
        (1, "block.fc"),
        (2, "block"),
        (None, None),
    ]
    fc = length["layer:block.fc"] + length["layer_backward:block.fc"]
    assert rows[0]["host_ns"] == pytest.approx(fc, **CLOSE)
    assert rows[0]["share_pct"] == pytest.approx(100 * fc / length["iteration"], abs=3)
    owned = length["layer:block"] + fc - length["layer:block.fc"] + length["layer_backward:block"]
    assert rows[0]["unattributed_pct"] == pytest.approx(
        100 * (1 - owned / length["iteration"]), abs=3
    )
    assert {row["evidence"] for row in rows[:2]} == {"nvtx + nvtx backward"}
