"""Every workload, collected by the real nsys without a GPU, ingested and asked."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tbd_trace
from fast import nightly, slow
from nsys_agent import collected
from requirements import require
from tbd_models.registry import NAMES, find, is_implemented

pytestmark = [pytest.mark.needs("nsys"), pytest.mark.slow]

ITERATIONS = 5
# What runs a framework, and how its version begins.
INTERPRETERS = {
    "pytorch": (sys.executable, "2."),
    "tensorflow": (os.environ.get("TBD_TRACE_TENSORFLOW_PYTHON"), "2."),
    "mxnet": (os.environ.get("TBD_TRACE_MXNET_PYTHON"), "1.9."),
}
# How it runs without marks, and with them; PyTorch has one way alone.
EXECUTIONS = {
    "pytorch": (None, None),
    "tensorflow": ("graph", "graph"),
    "mxnet": ("hybridised", "naive engine"),
}
PHASES = {"data", "forward", "loss", "backward", "optimizer"}


def command(*words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run tbd-trace as a user would, on one core: tests share the machine."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | variables
    return subprocess.run(
        [sys.executable, "-m", "tbd_trace", *map(str, words)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=540,
        check=False,
    )


def cells() -> list[tuple[str, str]]:
    """Return every model with each framework that it is implemented in."""
    return [(m, f) for f in INTERPRETERS for m in NAMES if is_implemented(m, f)]


def marked(cell: tuple[str, str]) -> Any:
    """Leave most to the night: one cell of each framework stays."""
    if cell == ("resnet50", "pytorch"):
        return pytest.param(cell)
    if cell in (("minigo", "tensorflow"), ("transformer", "mxnet")):
        return pytest.param(cell, marks=slow)
    return pytest.param(cell, marks=nightly)


@pytest.fixture(scope="module", params=map(marked, cells()), ids="-".join)
def capture(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the capture of a workload at small scale."""
    model, framework = request.param
    if framework == "pytorch":
        pytest.importorskip("torch")
    else:
        require(framework)
    python, _ = INTERPRETERS[framework]
    folder: Path = tmp_path_factory.mktemp("collected") / model
    words = (
        *(model, "--framework", framework, "--python", python, "--device", "cpu"),
        *("--scale", "small", "--batch-size", "2", "--iterations", str(ITERATIONS)),
        *("--warmup", "2", "--profiler", "nsys", "-o", folder, "--format", "csv"),
    )
    done = collected(partial(command, "collect"), *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].startswith(f"{folder},ok,2,{ITERATIONS},2,")
    return folder


@pytest.fixture(scope="module")
def document(capture: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((capture / "capture.json").read_text(encoding="utf-8"))
    return content


@pytest.fixture(scope="module")
def traces(capture: Path, tmp_path_factory: pytest.TempPathFactory) -> tbd_trace.api.Traces:
    from tbd_trace.store import Database

    database = Database(tmp_path_factory.mktemp("store") / "x.duckdb")
    database.ingest([capture])
    return tbd_trace.open(db=database.path)


def test_iterations_take_as_long_as_the_run_says(
    traces: tbd_trace.api.Traces, document: dict[str, Any]
) -> None:
    found = traces.query("iteration_timing")
    assert found["label"].to_list() == [f"iteration {2 + n}" for n in range(ITERATIONS)]
    own = document["profiled"]["iteration_ns"]
    assert len(own) == ITERATIONS
    periods, spans = found["period_ns"].to_list(), found["host_ns"].to_list()
    # Between reading its clock and marking an iteration a busy machine may do something else, once.
    for times, said in ((periods[:-1], own[:-1]), (spans, own)):  # the last one has no period
        off = [t for t, s in zip(times, said, strict=True) if abs(t - s) > max(0.05 * s, 1e7)]
        assert len(off) <= 1, (times, said)


def test_throughput_is_that_of_the_run_without_a_profiler(
    traces: tbd_trace.api.Traces, document: dict[str, Any]
) -> None:
    bare = document["throughput"]
    assert bare["samples_per_second"] == pytest.approx(2 * ITERATIONS / bare["seconds"])
    assert sum(bare["iteration_ns"]) == pytest.approx(1e9 * bare["seconds"])
    row = traces.query("throughput").row(0, named=True)
    assert row["unprofiled_samples_per_s"] == pytest.approx(bare["samples_per_second"])
    model = find(document["model"])
    variant = model.variant(document["variant"])
    # Seconds of an utterance; images of a place in the batch of adversarial training.
    units = getattr(variant.small, "units_per_sample", 1)
    assert row["unprofiled_units_per_s"] == pytest.approx(bare["samples_per_second"] * units)
    assert row["throughput_unit"] == model.throughput_unit
    medians = [
        statistics.median(document[name]["iteration_ns"]) for name in ("profiled", "throughput")
    ]
    assert document["profiler_slowdown"] == pytest.approx(medians[0] / medians[1])


def test_every_layer_and_phase_is_there_forward_and_backward(
    capture: Path, traces: tbd_trace.api.Traces
) -> None:
    """Every layer of layers.json ran forward, every one with FLOP backward ran backward."""
    layers = json.loads((capture / "layers.json").read_text(encoding="utf-8"))["layers"]
    table = traces.query("layer_time")
    assert set(table["phase"].drop_nulls()) >= PHASES
    assert set(table["clock"]) == {"host"}
    forward = set(table.filter(pl.col("phase") == "forward")["layer"].drop_nulls())
    backward = set(table.filter(pl.col("phase") == "backward")["layer"].drop_nulls())
    assert forward >= {layer["name"] for layer in layers}
    trained = {layer["name"] for layer in layers if layer["backward_flop"]}
    assert trained
    assert backward >= trained


def test_dominant_layer_has_a_rank(traces: tbd_trace.api.Traces) -> None:
    table = traces.query("dominant_layer", by="type")
    assert table["rank"].drop_nulls().to_list() == list(range(1, table["rank"].count() + 1))
    # Modules that only call others are of no type in layers.json.
    top = table.filter(pl.col("layer_type").is_not_null()).row(0, named=True)
    assert top["rank"] <= 2
    assert top["share_pct"] > 5


def test_what_ran_is_said(capture: Path, document: dict[str, Any]) -> None:
    model = find(document["model"])
    assert document["status"] == "ok"
    assert document["batch_size"] == 2
    assert document["precision"] == "fp32"
    assert document["scale"] == "small"
    assert document["optimizer"] == model.variant(document["variant"]).optimizer
    _, version = INTERPRETERS[document["framework"]]
    assert document["framework_version"].startswith(version)
    runs = (document["throughput"], document["profiled"])
    assert tuple(run.get("execution") for run in runs) == EXECUTIONS[document["framework"]]
    assert document["profiler_version"].startswith("20")
    layers = json.loads((capture / "layers.json").read_text(encoding="utf-8"))["layers"]
    assert sum(layer["parameters"] for layer in layers) == document["parameters"]
    assert (capture / "timeline.nsys-rep").is_file()
    assert not [path for path in capture.parent.iterdir() if path.name.startswith(".")]


@nightly
def test_an_iteration_is_an_optimizer_step_of_several_passes(tmp_path: Path) -> None:
    """Their forward passes run twice each, for the activations that were not kept."""
    pytest.importorskip("transformers")
    done = command(
        *("collect", "llm", "--device", "cpu", "--scale", "small", "--batch-size", "6"),
        *("--iterations", "4", "--warmup", "1", "-o", tmp_path / "x"),
        *("--gradient-accumulation", "3", "--activation-checkpointing"),
    )
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "x" / "capture.json").read_text(encoding="utf-8"))
    assert (document["gradient_accumulation"], document["batch_size"]) == (3, 6)
    bare = document["throughput"]
    assert bare["samples_per_second"] == pytest.approx(6 * 4 / bare["seconds"])
    traces = tbd_trace.open(tmp_path / "x")
    (kept,) = traces.sql("SELECT capture FROM trace").row(0)
    kept = json.loads(kept)
    assert (kept["gradient_accumulation"], kept["activation_checkpointing"]) == (3, True)
    timing = traces.query("iteration_timing")
    assert timing["label"].to_list() == [f"iteration {1 + n}" for n in range(4)]
    (row,) = traces.query("throughput").to_dicts()
    assert row["unprofiled_units_per_s"] == pytest.approx(32 * bare["samples_per_second"])
    ranges = traces.sql(
        "SELECT text, count(*) AS n FROM nvtx_range WHERE text LIKE 'phase:%' "
        "OR text = 'layer:model.layers.1.mlp.up_proj' GROUP BY text"
    )
    counts = dict(ranges.rows())
    assert counts.pop("layer:model.layers.1.mlp.up_proj") == 2 * 3 * 4
    assert counts.pop("phase:optimizer") == 4
    assert counts == {f"phase:{name}": 3 * 4 for name in PHASES - {"optimizer"}}


@nightly
@pytest.mark.needs("tensorflow")
def test_what_xla_compiles_has_no_layers(tmp_path: Path) -> None:
    """Iterations are marked all the same, and that no layer is known is said."""
    python, _ = INTERPRETERS["tensorflow"]
    done = command(
        *("collect", "resnet50", "--framework", "tensorflow", "--python", python),
        *("--execution", "xla", "--device", "cpu", "--scale", "small", "--batch-size", "2"),
        *("--iterations", "3", "--warmup", "1", "--no-throughput", "-o", tmp_path / "x"),
    )
    assert done.returncode == 0, done.stderr
    assert "no layers" in done.stderr
    asked = {
        query: command(
            "query", query, tmp_path / "x", "--format", "json", TBD_TRACE_CACHE=str(tmp_path)
        )
        for query in ("iteration_timing", "layer_time")
    }
    timing = json.loads(asked["iteration_timing"].stdout)
    assert [row["label"] for row in timing] == [f"iteration {1 + n}" for n in range(3)]
    assert asked["layer_time"].returncode == 3
    assert "layer" in asked["layer_time"].stderr
