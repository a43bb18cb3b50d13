"""Recording a window of iterations with torch.profiler, in this process."""

from __future__ import annotations

import gzip
import json
import threading
from pathlib import Path
from typing import Any

import pytest

import tbd_trace

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tbd_models.instrument import profiler_training_pytorch as training  # noqa: E402
from tbd_models.instrument.marks import TRACE_VARIABLE, marked  # noqa: E402
from tbd_models.instrument.profiler_pytorch import (  # noqa: E402
    RecordFunctionMarks,
    TraceRecorder,
)

FILE = "x.pt.trace.json.gz"


def content(path: Path) -> dict[str, Any]:
    with gzip.open(path) as file:
        found: dict[str, Any] = json.load(file)
    return found


def names(path: Path, category: str) -> list[str]:
    """Return the names of a category's events that ended, by start."""
    found = [
        event
        for event in content(path)["traceEvents"]
        if event.get("cat") == category
        and event["args"].get("finished", True) not in (False, "false")
    ]
    return [event["name"] for event in sorted(found, key=lambda event: event["ts"])]


@pytest.fixture
def recorder(tmp_path: Path) -> TraceRecorder:
    return TraceRecorder(tmp_path / FILE, "cpu")


# Marks and trace.


def test_marks_are_recorded_between_start_and_stop(recorder: TraceRecorder, tmp_path: Path) -> None:
    marks = RecordFunctionMarks(recorder)
    marks.push("before")
    marks.push("begun before")
    recorder.start()
    marks.pop()
    with marked(marks, "outer"), marked(marks, "inner"):
        torch.ones(3)
    handle = marks.start("phase:data")
    marks.end(handle)
    marks.push("never ended")
    recorder.stop()
    marks.pop()
    marks.pop()
    with marked(marks, "after"):
        pass
    assert names(tmp_path / FILE, "user_annotation") == ["outer", "inner", "phase:data"]


def test_threads_have_ranges_of_their_own(recorder: TraceRecorder, tmp_path: Path) -> None:
    marks = RecordFunctionMarks(recorder)
    recorder.start()
    marks.push("main")
    thread = threading.Thread(target=lambda: (marks.push("other"), marks.pop()))
    thread.start()
    thread.join()
    marks.pop()
    recorder.stop()
    assert "main" in names(tmp_path / FILE, "user_annotation")


def test_modules_and_shapes_are_recorded(recorder: TraceRecorder, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
    recorder.start()
    model(torch.ones(3, 4))
    recorder.stop()
    frames = names(tmp_path / FILE, "python_function")
    modules = [name for name in frames if name.startswith("nn.Module: ")]
    assert modules == [f"nn.Module: {name}_0" for name in ("Sequential", "Linear", "ReLU")]
    document = content(tmp_path / FILE)
    assert document["torch_version"] == torch.__version__
    (product,) = (e for e in document["traceEvents"] if e["name"] == "aten::addmm")
    assert product["args"]["Input Dims"][:3] == [[2], [3, 4], [4, 2]]
    assert not any(event["name"] == "[memory]" for event in document["traceEvents"])
    assert {path.name for path in tmp_path.iterdir()} == {FILE}


def test_allocations_are_recorded_on_request(tmp_path: Path) -> None:
    recorder = TraceRecorder(tmp_path / FILE, "cpu", memory=True)
    recorder.start()
    torch.ones(1000)
    recorder.stop()
    sizes = [
        event["args"]["Bytes"]
        for event in content(tmp_path / FILE)["traceEvents"]
        if event["name"] == "[memory]"
    ]
    assert 4000 in sizes


def test_what_recorded_is_described(recorder: TraceRecorder) -> None:
    said = recorder.describe()
    assert (said["framework_version"], said["device"]) == (torch.__version__, "cpu")
    assert said["gpu"] is None


# Requests.


def ask(
    monkeypatch: pytest.MonkeyPatch, directory: Path, **change: Any
) -> training.TraceRequest | None:
    asked = {"trace": str(directory / "t"), "report": str(directory / "r"), "iterations": 4}
    asked |= {"warmup": None, "memory": False}
    monkeypatch.setenv(TRACE_VARIABLE, json.dumps(asked | change))
    return training.requested()


@pytest.mark.parametrize(("warmup", "used"), [(None, training.WARMUP), (0, 1), (1, 1), (7, 7)])
def test_a_request_of_collect(
    warmup: int | None, used: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first iteration is never recorded: it measures the layers."""
    monkeypatch.delenv("RANK", raising=False)
    assert ask(monkeypatch, tmp_path, warmup=warmup, memory=True) == training.TraceRequest(
        tmp_path / "t", used, 4, True, tmp_path / "r"
    )


def test_only_the_first_process_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    assert ask(monkeypatch, tmp_path) is not None
    monkeypatch.setenv("RANK", "1")
    assert ask(monkeypatch, tmp_path) is None
    monkeypatch.delenv(TRACE_VARIABLE)
    assert training.requested() is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"profiler": "nsys"}, "profiler is 'nsys'; only 'torch' runs inside the program"),
        ({"profiler": "torch", "warmup": 0}, "warmup and iterations must be at least 1"),
        ({"profiler": "torch", "iterations": 0}, "warmup and iterations must be at least 1"),
    ],
)
def test_wrong_requests_are_refused(options: dict[str, Any], message: str) -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match=message):
        tbd_trace.instrument(model, optimizer, **options)


def test_it_needs_pytorch_and_the_optimizer() -> None:
    keras = type("Model", (), {"__module__": "keras.models"})()
    with pytest.raises(ValueError, match="memory and profiler are for PyTorch models only"):
        tbd_trace.instrument(keras, profiler="torch")
    with pytest.raises(ValueError, match="marks need the optimizer"):
        tbd_trace.instrument(nn.Linear(2, 2), memory=True, profiler="torch")


def test_removing_the_marks_writes_the_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    backward = torch.autograd.backward
    marks = tbd_trace.instrument(
        model, optimizer, profiler="torch", trace=tmp_path / FILE, warmup=1, iterations=9
    )
    for _ in range(3):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    marks.remove()
    recorded = names(tmp_path / FILE, "user_annotation")
    assert [text for text in recorded if text.startswith("iteration")] == [
        "iteration 1",
        "iteration 2",
    ]
    assert recorded.count("layer:Linear") == 2
    # The nodes of the product and of the transposed weight.
    assert recorded.count("layer_backward:Linear") == 2 * 2
    assert torch.autograd.backward is backward
    assert not model._forward_hooks


def test_a_full_disk_does_not_stop_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_recorder: TraceRecorder) -> None:
        raise OSError(28, "No space left on device")

    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    request = training.TraceRequest(tmp_path / FILE, 1, 1)
    trace = training.TrainingTrace(model, optimizer, request)
    monkeypatch.setattr(TraceRecorder, "stop", full)
    with pytest.warns(UserWarning, match="was not written .*No space left on device"):
        for _ in range(4):
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    monkeypatch.undo()
    trace.remove()
