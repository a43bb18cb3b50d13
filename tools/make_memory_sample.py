"""Generate the memory sample in ``data/samples``: synthetic, not measured on a GPU.

    python tools/make_memory_sample.py --output data/samples/synthetic_memory

Equal calls give equal files. ``memory.jsonl`` is the whole training as a collector logs it;
``snapshot.pickle`` is PyTorch's snapshot of the same training, whose history begins after
iteration 0.
"""

from __future__ import annotations

import argparse
import json
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sample_memory.allocator import Segment
from sample_memory.frames import Frame, Stack
from sample_memory.network import BATCH_SIZE
from sample_memory.training import ITERATIONS, Event, Training

NOTICE = "synthetic: made by tools/make_memory_sample.py, not measured on any GPU"
LOG, SNAPSHOT = "memory.jsonl", "snapshot.pickle"
EVENT_US = 10  # time between two events
_START_US = 1_704_067_200 * 10**6  # 2024-01-01T00:00:00Z
_STREAM = 0
_LOGGED = ("alloc", "free", "classify")
_IN_HISTORY = ("alloc", "free", "segment_alloc")


def make_memory_sample(output: Path) -> None:
    """Write the capture directory; existing files in it are replaced."""
    output.mkdir(parents=True, exist_ok=True)
    training = Training().run()
    lines = [json.dumps(line, separators=(",", ":")) + "\n" for line in log(training)]
    (output / LOG).write_text("".join(lines), encoding="utf-8")
    (output / SNAPSHOT).write_bytes(pickle.dumps(snapshot(training), protocol=4))
    (output / "capture.json").write_text(json.dumps(_capture(), indent=2) + "\n", encoding="utf-8")


def log(training: Training) -> Iterator[dict[str, Any]]:
    """Yield the lines of memory.jsonl; fields that are unknown are left out."""
    yield {
        "format": "tbd-trace memory",
        "version": 1,
        "framework": "pytorch",
        "allocator": "torch",
        "device": 0,
        "device_type": "cuda",
        "time_unit": "us",
        "live_before_bytes": 0,
        "batch_size": BATCH_SIZE,
    }
    for number, event in enumerate(e for e in training.events if e.action in _LOGGED):
        line = {"t": number * EVENT_US, "action": event.action} | _content(event)
        yield {key: value for key, value in line.items() if value is not None}


def _content(event: Event) -> dict[str, Any]:
    made = event.allocation
    assert made is not None
    content: dict[str, Any] = {"address": made.address}
    if event.action == "classify":
        return content | {"class": made.kind}
    content |= {"bytes": made.bytes, "stream": _STREAM, "iteration": event.iteration}
    if event.action == "free":
        return content
    return content | {
        "class": made.said,
        "layer": made.layer,
        "phase": made.phase,
        "operator": made.operator and f"aten::{made.operator}",
        "shape": None if made.shape is None else "x".join(map(str, made.shape)) or None,
        "dtype": None if made.shape is None else made.dtype,
    }


def snapshot(training: Training) -> dict[str, Any]:
    """Return the snapshot of PyTorch's allocator after the last event."""
    frames: dict[Frame, dict[str, Any]] = {}
    stacks: dict[Stack, list[dict[str, Any]]] = {}

    def listed(stack: Stack) -> list[dict[str, Any]]:
        # PyTorch shares equal frames, which keeps snapshots small.
        shared = [
            frames.setdefault(frame, dict(zip(("name", "filename", "line"), frame, strict=True)))
            for frame in stack
        ]
        return stacks.setdefault(stack, shared)

    history: list[dict[str, Any]] = []
    for event in training.events[training.starts[1] :]:
        if event.action not in _IN_HISTORY:
            continue
        base = {"stream": _STREAM, "segment_pool_id": (0, 0), "frames": listed(event.stack)}
        for action, address, size in _actions(event):
            time = _START_US + len(history) * EVENT_US
            history.append(
                {"action": action, "addr": address, "size": size, "time_us": time} | base
            )
    recorded = {
        e.allocation.address: e.allocation
        for e in training.events[training.starts[1] :]
        if e.action == "alloc" and e.allocation is not None
    }
    return {
        "segments": [
            _segment(s, {a: listed(made.stack) for a, made in recorded.items()})
            for s in training.allocator.segments
        ],
        "device_traces": [history],
        "allocator_settings": {"expandable_segments": False},
        "external_annotations": [],
    }


def _actions(event: Event) -> list[tuple[str, int, int]]:
    if event.segment is not None:
        return [("segment_alloc", event.segment.address, event.segment.size)]
    made = event.allocation
    assert made is not None
    actions = ("alloc",) if event.action == "alloc" else ("free_requested", "free_completed")
    return [(action, made.address, made.bytes) for action in actions]


def _segment(segment: Segment, frames: dict[int, list[dict[str, Any]]]) -> dict[str, Any]:
    live = [block for block in segment.blocks if block.requested is not None]
    used = sum(block.size for block in live)
    return {
        "device": 0,
        "address": segment.address,
        "total_size": segment.size,
        "allocated_size": used,
        "active_size": used,
        "requested_size": sum(block.requested or 0 for block in live),
        "stream": _STREAM,
        "segment_type": "small" if segment.is_small else "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": [
            {
                "address": block.address,
                "size": block.size,
                "requested_size": block.requested or 0,
                "state": "inactive" if block.requested is None else "active_allocated",
                "frames": [] if block.requested is None else frames.get(block.address, []),
            }
            for block in segment.blocks
        ],
    }


def _capture() -> dict[str, Any]:
    return {
        "format_version": 1,
        "capture_id": "synthetic-memory",
        "synthetic": True,
        "notice": NOTICE,
        "model": "small-cnn",
        "framework": "pytorch",
        "framework_version": "2.3.0",
        "batch_size": BATCH_SIZE,
        "batch_definition": "images",
        "precision": "fp32",
        "optimizer": "sgd",
        "iterations": ITERATIONS,
        "files": [
            {"file": LOG, "role": "memory", "tool": "tbd-trace"},
            {"file": SNAPSHOT, "role": "memory", "tool": "torch"},
        ],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=NOTICE)
    parser.add_argument("--output", type=Path, required=True, help="directory to write")
    make_memory_sample(parser.parse_args(arguments).output)


if __name__ == "__main__":
    main()
