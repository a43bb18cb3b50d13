"""`collect --memory` in each framework, for a command, and from shapes alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import tbd_trace
from fast import nightly
from interpreters.run import MXNET, TENSORFLOW

needs = pytest.mark.needs

TRAIN = """
import torch, tbd_trace
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
tbd_trace.instrument(model, optimizer, memory=True)
for _ in range(4):
    optimizer.zero_grad()
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
"""


def collect(*words: str | Path) -> None:
    command = [sys.executable, "-m", "tbd_trace", "collect", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def classes(capture: Path) -> dict[str, int]:
    rows = tbd_trace.open(capture).query("memory_breakdown", at="step", allow_unknown=True)
    return dict(zip(rows["class"], rows["requested_bytes"], strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "framework", "python"),
    [
        # test_a_gpu_too_small_for_one_sample collects memory with PyTorch more often.
        pytest.param("resnet50", "pytorch", sys.executable, marks=nightly),
        pytest.param("minigo", "tensorflow", TENSORFLOW, marks=needs("tensorflow")),
        pytest.param("resnet50", "tensorflow", TENSORFLOW, marks=[needs("tensorflow"), nightly]),
        pytest.param("resnet50", "mxnet", MXNET, marks=needs("mxnet")),
    ],
)
def test_each_framework(tmp_path: Path, model: str, framework: str, python: str) -> None:
    capture = tmp_path / "capture"
    small = ("--scale", "small", "--device", "cpu", "--memory", "--no-throughput")
    collect(model, "--framework", framework, "--python", python, *small, "--output", capture)
    document = json.loads((capture / "capture.json").read_text())
    assert [file["file"] for file in document["files"]] == ["memory.jsonl"]
    found = classes(capture)
    assert found["weight"] == 4 * document["parameters"]
    assert found["weight_gradient"] == found["weight"]
    assert found["feature_map"] > found["weight"]
    layers = tbd_trace.open(capture).query("memory_by_layer")
    assert layers["weight_bytes"].sum() == found["weight"]


@pytest.mark.slow
def test_a_command(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    capture = tmp_path / "capture"
    collect("--memory", "--device", "cpu", "--output", capture, "--", sys.executable, script)
    found = classes(capture)
    assert found["weight"] == found["optimizer_state"] == 4 * (8 * 16 + 16 + 16 * 4 + 4)
    assert found["feature_map"] == 4 * 2 * 16  # the ReLU's output; the first layer reads the input


@pytest.mark.slow
@pytest.mark.nightly(
    covered_by="tests/unit/collectors/test_largest_batch.py::test_a_gpu_too_small_for_one_sample"
)
def test_an_estimate_holds_memory_of_a_device(tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    collect("resnet50", "--scale", "small", "--memory", "--estimate", "--output", capture)
    (peak,) = tbd_trace.open(capture).query("memory_peak").to_dicts()
    assert peak["allocator"] == "torch"
    assert peak["peak_reserved_bytes"] > peak["peak_requested_bytes"]


@pytest.mark.slow
@pytest.mark.nightly
def test_an_estimate_of_a_language_model(tmp_path: Path) -> None:
    """At full size: weights by the declared parameters, and layers computed again."""
    pytest.importorskip("transformers")
    found = {}
    for options in ((), ("--activation-checkpointing",)):
        capture = tmp_path / f"capture{len(options)}"
        full = ("--variant", "125m", "--batch-size", "2", "--precision", "mixed")
        collect("llm", *full, "--memory", "--estimate", *options, "--output", capture)
        assert classes(capture)["weight"] == 4 * 124_635_456
        document = json.loads((capture / "capture.json").read_text())
        assert document["activation_checkpointing"] == bool(options)
        opened = tbd_trace.open(capture)
        layers = opened.query("memory_by_layer")
        assert (layers["recomputed_bytes"].sum() > 0) == bool(options)
        (peak,) = opened.query("memory_peak").to_dicts()
        found[bool(options)] = peak["peak_requested_bytes"]
    assert found[True] < found[False] / 2


def test_a_command_without_instrument(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tbd_trace", "collect", "--memory", "--device", "cpu"]
    command += ["--output", str(tmp_path / "c"), "--", sys.executable, "-c", "pass"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1
    assert "tbd_trace.instrument(model, memory=True)" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "framework", "python"),
    [
        pytest.param("resnet50", "pytorch", sys.executable, marks=nightly),
        pytest.param("seq2seq", "pytorch", sys.executable, marks=nightly),
        pytest.param("resnet50", "mxnet", MXNET, marks=[needs("mxnet"), nightly]),
        pytest.param("seq2seq", "mxnet", MXNET, marks=needs("mxnet")),
    ],
)
def test_classes_and_throughput_of_a_sweep(
    tmp_path: Path, model: str, framework: str, python: str
) -> None:
    sweep = tmp_path / "sweep"
    small = ("--scale", "small", "--device", "cpu", "--iterations", "3", "--warmup", "1")
    options = ("--framework", framework, "--python", python, "--batch-size", "2,4", *small)
    collect(model, *options, "--memory", "--output", sweep)
    captures = sorted(sweep.iterdir())
    rows = tbd_trace.open(*captures).query("memory_vs_batch")
    assert rows["batch_size"].unique().sort().to_list() == [2, 4]
    for capture in captures:
        document = json.loads((capture / "capture.json").read_text())
        own = rows.filter(batch_size=document["batch_size"])
        speed = document["throughput"]["samples_per_second"]
        assert own["samples_per_s"].unique().to_list() == [speed]
        assert own["requested_bytes"].sum() == own["peak_requested_bytes"][0]
    maps = rows.filter(group_name="feature maps").sort("batch_size")["requested_bytes"]
    assert maps[1] > maps[0]
    picture = tmp_path / "figure.svg"
    command = [sys.executable, "-m", "tbd_trace", "query", "memory_vs_batch", *map(str, captures)]
    subprocess.run([*command, "--plot", str(picture)], check=True, timeout=100)
    drawn = picture.read_text()
    assert "Stacked bars of requested by batch size" in drawn
    assert "with a line of samples per s" in drawn
