"""The verdict on memory of real snapshots, against a replay in plain Python.

The replay knows the rules of the documentation and the pickle, and none of the product's SQL.
"""

from __future__ import annotations

import pickle
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tbd_trace
from corpus import corpus_file, corpus_files
from memory_replay import PlainUnpickler
from tbd_trace.why.memory_diagnosis import MemoryDiagnosis
from tbd_trace.why.memory_result import MemoryVerdict

FILES = corpus_files("memory_snapshot/*.pickle", "../more/memory_snapshot/*.pickle")
OOM = "../more/memory_snapshot/Constructor-Sun_code_location__memory_snapshot_oom.pickle"
BARE = "../more/memory_snapshot/Yiyi-philosophy_LLM-inference__oom_snapshot_no_history.pickle"


@dataclass
class Life:
    """An allocation: from which event to which one, and the frames of both events."""

    bytes: int
    born: int = -1
    died: int | None = None
    frames: Any = ()
    died_frames: Any = ()


@dataclass
class Device:
    """One device of a snapshot, replayed."""

    events: list[dict[str, Any]]
    lives: list[Life]
    start: int
    peak: int
    at: int  # event of the peak; -1 before the first one

    def live(self) -> list[Life]:
        return [
            life
            for life in self.lives
            if life.born <= self.at and (life.died is None or life.died > self.at)
        ]


def load(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        found = PlainUnpickler(file).load()
    return found if isinstance(found, dict) else {"segments": found}


def blocks_at_the_end(document: dict[str, Any], device: int) -> dict[int, tuple[int, Any]]:
    found = {}
    for segment in document["segments"]:
        at = segment["address"]
        for block in segment["blocks"]:
            at = block.get("address", at)
            if segment["device"] == device and block["state"].startswith("active"):
                asked = block.get("requested_size", block["size"])
                found[at] = (asked, block.get("frames") or ())
            at += block["size"]
    return found


def replay(document: dict[str, Any], device: int) -> Device:
    """Undo the history from the end, then run through it."""
    events = document.get("device_traces", [[]] * (device + 1))[device]
    ended = blocks_at_the_end(document, device)
    open_lives = {address: Life(size, frames=frames) for address, (size, frames) in ended.items()}
    lives = []
    for number in range(len(events) - 1, -1, -1):
        event = events[number]
        address, size = event.get("addr"), event["size"]
        if event["action"] == "free_completed":
            open_lives[address] = Life(size, died=number, died_frames=event.get("frames") or ())
        elif event["action"] == "alloc":
            life = open_lives.pop(address, Life(size))
            life.born, life.frames = number, event.get("frames") or ()
            lives.append(life)
    lives += open_lives.values()
    start = sum(life.bytes for life in open_lives.values())
    total, peak, at = start, start, -1
    for number, event in enumerate(events):
        total += {"alloc": 1, "free_completed": -1}.get(event["action"], 0) * event["size"]
        if total > peak:
            peak, at = total, number
    return Device(events, lives, start, peak, at)


def phase_of(frames: Any) -> str | None:
    """Return the phase of training that a call stack shows."""
    files = [frame["filename"] for frame in frames]
    names = [frame["name"] for frame in frames]
    python = [file.endswith(".py") for file in files]
    engine = any(name.startswith("torch::autograd::Engine") for name in names)
    in_module = any(
        "torch/nn/modules/" in file or "torch/nn/parallel/" in file
        or (is_python and name in ("forward", "__call__"))
        for file, name, is_python in zip(files, names, python, strict=True)
    )  # fmt: skip
    if any("torch/optim/" in file for file in files):
        return "optimizer"
    if engine and in_module:
        return "recompute"
    if engine or "_make_grads" in names:
        return "backward"
    for file, name, is_python in zip(files, names, python, strict=True):
        moved = file.endswith("torch/nn/modules/module.py") and name in ("_apply", "convert", "to")
        if moved or (is_python and name == "__init__"):
            return "setup"
    return "forward" if any(python) else None


def runs_of(device: Device) -> list[tuple[int, str]]:
    """Return the stretches of one phase: first event and phase."""
    runs: list[tuple[int, str]] = []
    for number, event in enumerate(device.events):
        if event["action"] in ("alloc", "free_completed"):
            phase = phase_of(event.get("frames") or ())
            phase = "backward" if phase == "recompute" else phase
            if phase and (not runs or runs[-1][1] != phase):
                runs.append((number, phase))
    return runs


def classes(device: Device, others: Sequence[Device] = ()) -> Counter[str]:
    """Return the bytes at the peak by class; other devices run the same code."""
    runs = runs_of(device)
    firsts = [first for first, _ in runs]
    failures = [n for n, event in enumerate(device.events) if event["action"] == "oom"]
    usual = usual_lives(device, others, firsts, failures)
    named = {id(life): name(life, runs, firsts, failures, usual) for life in device.lives}
    gradients = Counter(
        life.bytes for life in device.lives
        if named[id(life)] == "weight_gradient" and life.died is None
    ) or Counter(
        life.bytes for life in device.lives if named[id(life)] == "weight_gradient"
    )  # fmt: skip
    older = Counter(life.bytes for life in device.lives if life.born < 0 and life.died is None)
    states = min(
        (min((older[size] - count) // count, 2) for size, count in gradients.items()
         if older[size]), default=0,
    )  # fmt: skip
    found: Counter[str] = Counter()
    taken: Counter[int] = Counter()
    for life in device.live():
        kind = named[id(life)]
        if life.born < 0 and kind == "unknown" and gradients[life.bytes]:
            kind = of_older(life, runs, (gradients[life.bytes], states), taken)
        found[kind] += life.bytes
    return found


def of_older(
    life: Life, runs: list[tuple[int, str]], gradients: tuple[int, int], taken: Counter[int]
) -> str:
    """Return the class of an older allocation of the size of some gradients.

    Args:
        gradients: their number, and the number of states of each weight.
    """
    count, states = gradients
    firsts = [first for first, _ in runs]
    if life.died is not None:
        run = bisect_right(firsts, life.died) - 1
        in_step = run >= 0 and runs[run][1] == "optimizer"
        return "optimizer_state" if in_step else "weight_gradient"
    taken[life.bytes] += 1
    if taken[life.bytes] <= count:
        return "weight"
    return "optimizer_state" if taken[life.bytes] <= (1 + states) * count else "unknown"


def name(
    life: Life,
    runs: list[tuple[int, str]],
    firsts: list[int],
    failures: list[int],
    usual: dict[str, list[bool]],
) -> str:
    """Return the class that call stack and lifetime of an allocation show."""
    names = [frame["name"] for frame in life.frames]
    if any("orkspace" in one or ("cublas" in one and "Handle" in one) for one in names):
        return "workspace"
    born = bisect_right(firsts, life.born) - 1
    phase = phase_of(life.frames) or (runs[born][1] if born >= 0 else None)
    outlives = is_longer(life, firsts)
    if is_cut(life, firsts, failures):
        alike = usual.get(repr(life.frames), [])
        outlives = not alike or sum(alike) > len(alike) / 2
    copies = ("THPVariable_to", "THPVariable_cuda", "at::native::to", "at::native::_to_copy")
    is_copy = any(copy in one for one in names for copy in copies)
    inside = any(
        "torch/nn/modules/" in frame["filename"]
        or "torch/nn/parallel/" in frame["filename"]
        or (frame["filename"].endswith(".py") and frame["name"] in ("forward", "__call__"))
        for frame in life.frames
    )
    if life.born < 0:
        phase = None
    elif phase == "forward" and is_copy and not inside:
        phase = "copy"
    elif phase == "backward" and "_make_grads" in names:
        outlives = False
    kinds = {
        "optimizer": ("optimizer_state", "optimizer_temporary"),
        "backward": ("weight_gradient", "activation_gradient"),
        "forward": ("feature_map", "temporary"),
        "copy": ("input", "input"),
    }
    longer, shorter = kinds.get(phase or "", ("unknown", "unknown"))
    return longer if outlives else shorter


def usual_lives(
    device: Device, others: Sequence[Device], firsts: list[int], failures: list[int]
) -> dict[str, list[bool]]:
    """Return for each call stack whether its allocations outlive their phase, if a request failed.

    Allocations that the failure has cut are left out.
    """
    found: dict[str, list[bool]] = {}
    for other in (device, *others) if failures else ():
        starts = [first for first, _ in runs_of(other)]
        for life in other.lives:
            if life.born >= 0 and not (other is device and is_cut(life, firsts, failures)):
                found.setdefault(repr(life.frames), []).append(is_longer(life, starts))
    return found


def is_longer(life: Life, firsts: list[int]) -> bool:
    return life.died is None or bisect_right(firsts, life.died) != bisect_right(firsts, life.born)


def is_cut(life: Life, firsts: list[int], failures: list[int]) -> bool:
    """Return True if a failure ended a lifetime: the release follows it in the same stretch."""
    failed = next((number for number in failures if number >= life.born), None)
    if failed is None or life.died is None or is_longer(life, firsts):
        return False
    return life.died > failed


def verdict(path: Path) -> MemoryVerdict:
    answer = tbd_trace.open(path).why()
    assert isinstance(answer, MemoryVerdict)
    return answer


def by_class(diagnosis: MemoryDiagnosis) -> Counter[str]:
    found: Counter[str] = Counter()
    for part in diagnosis.causes:
        found["unknown" if part.cause == "before_recording" else part.cause] += part.bytes
    return found


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES)
def test_peak_classes_and_failure_are_those_of_a_replay(path: Path) -> None:
    document = load(path)
    answer = verdict(path)
    numbers = {segment["device"] for segment in document["segments"]}
    assert {one.device_id for one in answer.diagnoses} == numbers
    devices = {number: replay(document, number) for number in numbers}
    for found in answer.diagnoses:
        assert found.device_id is not None
        device = devices[found.device_id]
        changes = [e for e in device.events if e["action"] in ("alloc", "free_completed")]
        assert found.base.live_bytes == device.peak
        assert sum(part.bytes for part in found.causes) == device.peak
        assert sum(part.share_pct for part in found.causes) == pytest.approx(100)
        failed = [event for event in device.events if event["action"] == "oom"]
        assert (found.failed is None) == (not failed)
        if found.failed is not None:
            assert found.failed.requested_bytes == failed[-1]["size"]
            assert found.failed.device_free_bytes == failed[-1]["device_free"]
        if not changes:
            assert found.base.moment == "end"
            continue
        assert (found.base.sequence, found.base.start_bytes) == (device.at, device.start)
        named = classes(device, [other for other in devices.values() if other is not device])
        expected = {kind: size for kind, size in named.items() if size}
        assert by_class(found) == expected
        largest = max(expected, key=lambda kind: expected[kind])
        assert found.causes[0].cause in (largest, "before_recording")
    first = answer.slowest
    assert first.failed is not None or first.base.live_bytes == max(
        one.base.live_bytes for one in answer.diagnoses
    )


@pytest.mark.slow
def test_a_real_failure_in_words_and_numbers() -> None:
    path = corpus_file(OOM)
    document, answer = load(path), verdict(path)
    first = answer.slowest
    assert first.failed is not None
    assert (first.device_id, first.failed.failures) == (1, 1)
    held = Counter[int]()
    for number in (0, 1, 2):
        for event in (
            document["device_traces"][number][:422]
            if number == 1
            else (document["device_traces"][number])
        ):
            held[number] += {"segment_map": 1, "segment_unmap": -1}.get(event["action"], 0) * (
                event["size"]
            )
    assert first.failed.held_bytes == held[1]
    said = " ".join(str(answer).split())
    assert "Out of memory on device 1: 4.94 GiB asked, 91.25 MiB free on the device" in said
    gib = {device: f"{size / 2**30:.1f} GiB" for device, size in held.items()}
    assert gib == {0: "8.0 GiB", 1: "78.4 GiB", 2: "20.4 GiB"}
    assert f"{gib[1]} on device 1, {gib[2]} on device 2, {gib[0]} on device 0" in said
    assert "models.py:181 update_nodes" in said
    assert first.try_first is not None
    assert first.try_first.unit == "bytes"
    assert first.causes[0].cause == "feature_map"


@pytest.mark.slow
def test_a_real_file_without_history_says_what_is_missing() -> None:
    said = " ".join(str(verdict(corpus_file(BARE))).split())
    assert "peak not recorded; 11.03 GiB live, 11.03 GiB held at the end" in said
    assert "the history has one entry and no allocation" in said
    assert "_record_memory_history" in said
    assert "460 blocks at the end of the recording: probably weights" in said


def test_the_replay_of_a_made_history() -> None:
    """The replay itself: 5 live before, 3 allocated, 5 released, and a peak of 8."""
    events = [
        {"action": "alloc", "addr": 9, "size": 3},
        {"action": "free_completed", "addr": 1, "size": 5},
    ]
    state = {"address": 9, "size": 3, "requested_size": 3, "state": "active_allocated"}
    document = pickle.loads(pickle.dumps({
        "segments": [{"device": 0, "address": 9, "blocks": [state]}], "device_traces": [events]
    }))  # fmt: skip
    device = replay(document, 0)
    assert (device.start, device.peak, device.at) == (5, 8, 0)
    assert classes(device) == Counter({"unknown": 8})
