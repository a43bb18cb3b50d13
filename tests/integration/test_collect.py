"""``tbd-trace collect`` with the real nsys: commands of one's own, and what goes wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import tbd_trace
from fast import nightly
from interpreters.run import MXNET
from nsys_agent import collected
from tbd_collectors.left_overs import MARKER

pytestmark = pytest.mark.needs("nsys")

ZERO_EDIT = Path(__file__).parents[1] / "interpreters" / "zero_edit"
NSYS = ("--profiler", "nsys")
MARKED = """
import time, nvtx
for number in range(5):
    with nvtx.annotate(f"step {number}"):
        time.sleep(0.02)
"""
TRAINING = """
import torch
import tbd_trace

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.LSTM(64, 16, batch_first=True)
)
optimizer = torch.optim.Adam(model.parameters())
tbd_trace.instrument(model, optimizer, batch_size=4)
for _ in range(6):
    output, _ = model(torch.randn(4, 3, 8))
    output.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def arguments(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "tbd_trace", *map(str, words)]


def collect(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return collected(collect_once, *words)


def collect_once(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments("collect", "--device", "cpu", *(NSYS if "--" in words else ()), *words),
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        timeout=300,
        check=False,
    )


def document(capture: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((capture / "capture.json").read_text(encoding="utf-8"))
    return content


@pytest.mark.slow
def test_a_command_with_marks_of_its_own(tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    done = collect("-o", capture, "--", sys.executable, "-c", MARKED, "--api-key", "hush-hush")
    assert done.returncode == 0, done.stderr
    assert document(capture)["command"][-2:] == ["--api-key", "***"]
    timing = tbd_trace.open(capture).query("iteration_timing")
    assert timing["label"].to_list() == [f"step {n}" for n in range(5)]
    assert all(20e6 <= ns < 60e6 for ns in timing["host_ns"])


@pytest.mark.slow
def test_two_lines_mark_a_training_loop(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script, capture = tmp_path / "train.py", tmp_path / "capture"
    script.write_text(TRAINING, encoding="utf-8")
    done = collect("--warmup", "1", "-o", capture, "--", sys.executable, script)
    assert done.returncode == 0, done.stderr
    traces = tbd_trace.open(capture)
    # The iteration that began after the last step is none.
    labels = traces.query("iteration_timing")["label"].to_list()
    assert labels == [f"iteration {n}" for n in range(1, 6)]
    table = traces.query("layer_time")
    found = {(row["layer"], row["layer_type"], row["phase"]) for row in table.to_dicts()}
    for layer in (("0", "Linear"), ("1", "ReLU"), ("2", "LSTM")):
        assert {(*layer, "forward"), (*layer, "backward")} <= found
    layers = json.loads((capture / "layers.json").read_text(encoding="utf-8"))["layers"]
    assert {layer["name"]: layer["parameters"] for layer in layers} == {
        "0": 8 * 64 + 64,
        "1": 0,
        "2": 4 * 16 * (64 + 16) + 2 * 4 * 16,
    }
    # Three steps of a sequence: each weight once, a multiply-add being two.
    assert [layer["forward_flop"] for layer in layers] == [
        3 * 2 * 8 * 64,
        0,
        3 * 2 * 4 * 16 * (64 + 16),
    ]


@pytest.mark.slow
def test_a_loop_is_marked_without_a_change(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script, capture = ZERO_EDIT / "plain_loop.py", tmp_path / "capture"
    done = collect("--warmup", "2", "-o", capture, "--", sys.executable, script)
    assert done.returncode == 0, done.stderr
    assert "iterations are steps of SGD, layers those of Classifier" in done.stderr
    assert document(capture)["framework"] == "pytorch"
    traces = tbd_trace.open(capture)
    labels = traces.query("iteration_timing")["label"].to_list()
    assert labels == [f"iteration {n}" for n in range(2, 10)]
    table = traces.query("layer_time")
    found = {(row["layer"], row["layer_type"], row["phase"]) for row in table.to_dicts()}
    for phase in ("forward", "backward"):
        assert {("features.0", "Linear", phase), ("head", "Linear", phase)} <= found


@pytest.mark.slow
def test_the_warm_up_is_recorded_but_does_not_count(tmp_path: Path) -> None:
    """A slow warm-up, which nsys records from the start of the program on."""
    pytest.importorskip("torch")
    capture = tmp_path / "capture"
    script = (ZERO_EDIT / "long_loop.py", "--pause", "0.01", "--slow-steps", "12")
    window = ("--warmup", "14", "--iterations", "6")
    done = collect(*window, "-o", capture, "--", sys.executable, *script)
    assert done.returncode == 0, done.stderr
    assert (document(capture)["warmup"], document(capture)["iterations"]) == (14, 6)
    traces = tbd_trace.open(capture)
    timing = traces.query("iteration_timing")
    assert timing["label"].to_list() == [f"iteration {n}" for n in range(14, 20)]
    ranges = traces.query("nvtx_summary").rows(named=True)
    found = {row["range_name"].removeprefix("tbd_trace:"): row for row in ranges}
    assert {f"warm-up {n}" for n in range(2, 14)} <= found.keys()
    assert found["phase:forward"]["instances"] == found["layer:0"]["instances"] == 6
    slow = [found[f"warm-up {n}"]["total_ns"] for n in range(2, 12)]
    assert min(slow) > 2 * median(timing["host_ns"])


@pytest.mark.slow
def test_a_training_that_ends_in_its_warm_up(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = (sys.executable, ZERO_EDIT / "long_loop.py", "--steps", "5")
    done = collect("-o", tmp_path / "c", "--", *script)
    assert done.returncode == 1
    why = "no iteration was recorded: the program trained 5 steps, of which 5 are warm-up"
    assert f"{why}; --warmup 2 records 3 of them; no capture was written" in done.stderr
    done = collect("-o", tmp_path / "c", "--warmup", "2", "--", *script)
    assert done.returncode == 0, done.stderr
    assert tbd_trace.open(tmp_path / "c").query("iteration_timing").height == 3


@pytest.mark.slow
def test_a_crash_passes_its_exit_code_on_and_leaves_its_traceback(tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    script = "import sys, time; time.sleep(1); print('before', file=sys.stderr); sys.exit(7)"
    done = collect("-o", capture, "--", sys.executable, "-c", script)
    assert done.returncode == 7
    assert f"error: {capture}: the program failed with exit code 7: before" in done.stderr
    assert document(capture)["status"] == "failed"
    assert "before" in (capture / "timeline.log").read_text(encoding="utf-8")
    asked = subprocess.run(
        arguments("query", "iteration_timing", capture), capture_output=True, text=True, check=False
    )
    assert asked.returncode == 1
    assert "the run ended as failed" in asked.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("framework", "python"),
    [
        # MXNet starts in a third of the time.
        pytest.param("mxnet", MXNET, marks=pytest.mark.needs("mxnet")),
        pytest.param("pytorch", sys.executable, marks=nightly),
    ],
)
def test_a_batch_that_does_not_fit_ends_a_sweep_as_a_result(
    tmp_path: Path, framework: str, python: str
) -> None:
    done = collect(
        *("resnet50", "--framework", framework, "--python", python, "--scale", "small"),
        *("--batch-size", "2,1000000000000,2000000000000"),
        *("--iterations", "3", "--warmup", "0", "-o", tmp_path / "sweep", "--format", "csv"),
    )
    assert done.returncode == 0, done.stderr
    statuses = [line.split(",")[1:3] for line in done.stdout.splitlines()[1:]]
    assert statuses == [["ok", "2"], ["out_of_memory", "1000000000000"]]
    captures = sorted((tmp_path / "sweep").iterdir())
    assert [document(capture)["status"] for capture in captures] == ["out_of_memory", "ok"]


@pytest.mark.slow
def test_ctrl_c_stops_the_profiler_and_marks_the_capture(tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    running = subprocess.Popen(
        arguments("collect", "--device", "cpu", "-o", capture, "--", "sleep", "60"),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    assert "timeline (nsys)" in running.stderr.readline()
    time.sleep(2)  # for nsys to start the program
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode == 130
    assert document(capture)["status"] == "interrupted"
    assert not [path for path in tmp_path.iterdir() if path != capture]
    assert not _left_overs(tmp_path)


def _left_overs(directory: Path) -> list[str]:
    """Return the command lines of processes that a run in this directory left behind."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
            line = (entry / "cmdline").read_bytes().decode()
        except OSError:
            continue
        if f"{MARKER}=".encode() in environment and str(directory) in line:
            found.append(line)
    return found


@pytest.mark.slow
def test_a_run_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    done = collect("-o", capture, "--timeout", "2", "--", "sleep", "60")
    assert done.returncode == 1
    assert "took longer than --timeout allows" in done.stderr
    assert document(capture)["status"] == "failed"


@pytest.mark.slow
def test_a_capture_is_not_overwritten_unless_forced(tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    command = ("-o", capture, "--", sys.executable, "-c", MARKED)
    assert collect(*command).returncode == 0
    first = document(capture)["capture_id"]
    done = collect(*command)
    assert (done.returncode, document(capture)["capture_id"]) == (2, first)
    assert f"{capture} exists; choose another -o, or --force to replace it" in done.stderr
    assert collect("--force", *command).returncode == 0
    assert document(capture)["capture_id"] != first


def test_a_directory_that_is_no_capture_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    done = collect("--force", "-o", tmp_path / "thesis", "--", "true")
    assert done.returncode == 2
    assert (tmp_path / "thesis" / "chapter.tex").is_file()


@pytest.mark.slow
def test_an_interpreter_without_the_framework(tmp_path: Path) -> None:
    """It has no site-packages, and so neither the framework nor anything of ours but the loop."""
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    done = collect("resnet50", "--python", bare, "-o", tmp_path / "capture")
    assert done.returncode == 2
    assert "lacks a module of the workload: No module named" in done.stderr
    assert not (tmp_path / "capture").exists()


@pytest.mark.slow
def test_a_range_that_never_begins_leaves_what_the_program_said(tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    program = [sys.executable, "-c", MARKED + "print('done')\n"]
    done = collect("--capture-range", "never@mine", "-o", capture, "--", *program)
    assert done.returncode == 1
    assert f"{capture}: nsys wrote no report timeline.nsys-rep" in done.stderr
    assert document(capture)["status"] == "failed"
    assert "done" in (capture / "timeline.log").read_text(encoding="utf-8")
