"""Ranks of TensorFlow on this machine: a report for each, and a rank that dies."""

from __future__ import annotations

import json
import os
from pathlib import Path

import polars as pl
import pytest

import tbd_trace
from corpus import ROOT
from interpreters.run import TENSORFLOW
from nsys_agent import collected
from ranks import collect, job
from tbd_trace.store import Database
from tbd_trace.store.ranks import job_files

RANKS, ITERATIONS = 2, 4

pytestmark = pytest.mark.needs("tensorflow")


@pytest.mark.needs("nsys")
def test_each_rank_has_its_iterations_layers_and_all_reduces(tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    words = ("minigo", "--scale", "small", "--framework", "tensorflow", "--python", str(TENSORFLOW))
    window = ("--no-throughput", "--warmup", "1", "--iterations", str(ITERATIONS))
    done = collected(collect, *words, *window, "--ranks", str(RANKS), "-o", capture)
    assert done.returncode == 0, done.stderr
    content = job(capture)
    assert (content["status"], content["scheme"], content["world_size"]) == ("ok", "serial", RANKS)
    database = Database(tmp_path / "job.duckdb")
    database.ingest_files(job_files("tensorflow", [capture]))
    traces = tbd_trace.open(db=database.path)

    described = json.loads((capture / "rank=0" / "capture.json").read_text(encoding="utf-8"))
    layers = json.loads((capture / "rank=0" / "layers.json").read_text(encoding="utf-8"))["layers"]
    reduced = traces.sql("SELECT trace_id, kind, bytes, end_ns - start_ns AS ns FROM collective")
    assert reduced.group_by("trace_id").len()["len"].to_list() == [ITERATIONS] * RANKS
    assert set(reduced["kind"]) == {"all_reduce"}
    assert set(reduced["bytes"]) == {4 * described["parameters"]}
    assert reduced["ns"].min() > 0  # type: ignore[operator]
    marks = traces.sql("SELECT DISTINCT trace_id, text FROM annotation WHERE text LIKE 'layer:%'")
    assert marks["trace_id"].n_unique() == RANKS
    for (_,), rank_marks in marks.group_by("trace_id"):
        assert {f"layer:{layer['name']}" for layer in layers} <= set(rank_marks["text"])
    assert traces.sql("FROM iteration")["trace_id"].value_counts()["count"].to_list() == (
        [ITERATIONS] * RANKS
    )

    (summary,) = traces.query("job_summary").to_dicts()
    assert (summary["ranks_present"], summary["complete"]) == (RANKS, True)
    assert summary["collectives_matched"] == ITERATIONS
    assert traces.query("straggler").height == RANKS
    check_communication(traces.query("comm_overhead", by="measured"), reduced)


def check_communication(layers: pl.DataFrame, reduced: pl.DataFrame) -> None:
    """The time of an all-reduce is divided among the layers by their bytes."""
    with_gradients = layers.filter(pl.col("gradient_bytes") > 0)
    per_byte = with_gradients["communication_s"] / with_gradients["gradient_bytes"]
    assert per_byte.max() == pytest.approx(per_byte.min())
    longest: float = reduced["ns"].max()  # type: ignore[assignment]
    assert 0 < with_gradients["communication_s"].sum() <= longest / 1e9


@pytest.mark.nightly(
    covered_by="tests/integration/test_collect_ranks.py::test_a_rank_that_dies_stops_the_others_and_is_named"
)
def test_a_rank_that_dies_stops_the_others_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture, dying = tmp_path / "capture", 1
    path = os.pathsep.join([str(ROOT / "models"), str(ROOT / "tests")])
    monkeypatch.setenv("PYTHONPATH", path)
    script = ROOT / "tests" / "interpreters" / "tensorflow_ranks.py"
    words = (str(TENSORFLOW), script, str(dying))
    done = collect("--ranks", "2", "--profiler", "torch", "-o", capture, "--", *words)
    assert done.returncode == 3, done.stderr
    last = done.stderr.splitlines()[-1]
    assert f"rank {dying} failed" in last
    assert f"its output is in {capture}/rank={dying}/timeline.log" in last
    assert "Traceback" not in done.stderr
    assert job(capture)["points"][0]["status"] == "failed"
