"""Operators, modules and FLOP of the sample of torch.profiler, from its JSON and arithmetic.

Computed without tbd-trace: the events around a launch are found by looking at every event, by
time alone: ids of frames and External ids are not read.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import median

from sample_facts import Row
from worked_window import after_warm_up

CAPTURE = Path(__file__).resolve().parents[2] / "data" / "samples" / "synthetic_mlp"
TRACE = "timeline.pt.trace.json"
STEPS = 4
BATCH = 64
# FLOP/s of an A100: multiprocessors × FP16 FLOP per clock of their tensor cores × clock
PEAK = 108 * 2048 * 1_410_000_000
# 2 m k n of the products of a step: forward, and gradients of weights and of the second input
STEP_FLOP = 2 * 64 * 256 * 512 * 2 + 2 * 64 * 512 * 128 * 3


@dataclass(eq=False)
class Event:
    """An event with its times in ns."""

    cat: str
    name: str
    start: int
    end: int
    thread: int
    args: dict[str, object]
    around: list[Event] = field(default_factory=list)  # on its thread, innermost last

    @property
    def ns(self) -> int:
        return self.end - self.start

    @property
    def is_range(self) -> bool:
        return self.cat in ("cpu_op", "user_annotation")

    @property
    def is_module(self) -> bool:
        return self.cat == "python_function" and self.name.startswith("nn.Module: ")

    @property
    def path(self) -> str:
        modules = [event for event in (*self.around, self) if event.is_module]
        return "/".join(event.name.removeprefix("nn.Module: ") for event in modules)

    @property
    def sequence(self) -> object:
        return self.args.get("Sequence number")


@dataclass
class Work:
    """A GPU operation with the call that launched it."""

    event: Event
    launch: Event

    @property
    def operator(self) -> Event:
        return next(event for event in reversed(self.launch.around) if event.cat == "cpu_op")


@cache
def events() -> list[Event]:
    found = [
        Event(e["cat"], e["name"], start := round(e["ts"] * 1000),
              start + round(e["dur"] * 1000), e["tid"], e["args"])
        for e in json.loads((CAPTURE / TRACE).read_text(encoding="utf-8"))["traceEvents"]
        if e["ph"] == "X"
    ]  # fmt: skip
    for one in found:
        outer = (
            other
            for other in found
            if other is not one and other.thread == one.thread
            and other.start <= one.start and other.end >= one.end
        )  # fmt: skip
        one.around = sorted(outer, key=lambda event: -event.ns)
    return found


@cache
def works() -> list[Work]:
    launches = {e.args["correlation"]: e for e in events() if e.cat == "cuda_runtime"}
    return [
        Work(event, launches[event.args["correlation"]])
        for event in events()
        if event.cat in ("kernel", "gpu_memcpy")
    ]


def trace_id() -> str:
    def sha256(content: bytes) -> str:
        return hashlib.sha256(content).hexdigest()

    hashes = [sha256((CAPTURE / name).read_bytes()) for name in (TRACE, "capture.json")]
    return sha256("".join(hashes).encode())[:12]


def _module(work: Work) -> tuple[str, str] | None:
    # Path of the module of an operation, and its pass.
    if path := work.launch.path:
        return path, "forward"
    nodes = [e for e in work.launch.around if e.name.startswith("autograd::engine")]
    for node in nodes:
        forward = [
            event
            for event in events()
            if event.sequence == node.sequence and event.start < node.start and event.path
        ]
        if forward:
            return max(forward, key=lambda event: event.start).path, "backward"
    return None


def op_summary(by: str = "shape") -> list[Row]:
    gpu_ns = sum(work.event.ns for work in works())
    groups: dict[tuple[str, str | None], list[Event]] = defaultdict(list)
    for event in events():
        if event.is_range:
            shapes = event.args.get("Input Dims") if by == "shape" else None
            groups[event.name, json.dumps(shapes) if shapes else None].append(event)
    inside: dict[Event, int] = defaultdict(int)
    for event in events():
        outer = [one for one in event.around if one.is_range]
        if outer and (event.is_range or event.cat == "cuda_runtime"):
            inside[outer[-1]] += event.ns
    rows = []
    for (name, shapes), calls in groups.items():
        own = [work for work in works() if work.operator in calls]
        within = [work for work in works() if set(work.launch.around) & set(calls)]
        self_ns = sum(work.event.ns for work in own)
        rows.append(
            {
                "trace_id": trace_id(),
                "op": name,
                "input_shapes": shapes,
                "calls": len(calls),
                "host_ns": sum(call.ns for call in calls),
                "self_host_ns": sum(call.ns - inside[call] for call in calls),
                "gpu_ns": sum(work.event.ns for work in within),
                "self_gpu_ns": self_ns,
                "self_gpu_pct": 100 * self_ns / gpu_ns,
                "launches": len({work.launch for work in within}),
            }
        )
    return sorted(
        rows,
        key=lambda r: (-r["self_gpu_ns"], -r["self_host_ns"], r["op"], r["input_shapes"] or ""),
    )


def module_summary() -> list[Row]:
    gpu_ns = sum(work.event.ns for work in works())
    found = [(work, _module(work)) for work in works()]
    placed = [(work, *module) for work, module in found if module is not None]
    rows = []
    for path in {event.path for event in events() if event.is_module}:
        calls = [event for event in events() if event.is_module and event.path == path]
        children = [
            event.ns
            for event in events()
            if event.is_module and re.fullmatch(re.escape(path) + "/[^/]+", event.path)
        ]
        own = sum(work.event.ns for work, module, _ in placed if module == path)
        inner = [p for p in placed if p[1] == path or p[1].startswith(f"{path}/")]
        passes = {
            name: sum(work.event.ns for work, _, which in inner if which == name)
            for name in ("forward", "backward")
        }
        rows.append(
            {
                "trace_id": trace_id(),
                "module": path,
                "class": path.split("/")[-1].rsplit("_", 1)[0],
                "calls": len(calls),
                "host_ns": sum(call.ns for call in calls),
                "self_host_ns": sum(call.ns for call in calls) - sum(children),
                "gpu_ns": sum(passes.values()),
                "self_gpu_ns": own,
                "forward_ns": passes["forward"],
                "backward_ns": passes["backward"],
                "recompute_ns": 0,
                "share_pct": 100 * sum(passes.values()) / gpu_ns,
                "evidence": "torch module + sequence",
            }
        )
    return sorted(rows, key=lambda row: (-row["gpu_ns"], -row["host_ns"], row["module"]))


def window() -> tuple[int, ...]:
    """Return the steps that count.

    40 of the 265 µs from step to step are between their ranges: where the last step ends is not
    known. The first step is the first use of every kernel, but hardly slower than the others.
    """
    marked = [_bounds(step) for step in range(STEPS)]
    starts = [one.start for one in marked]
    gaps = [b.start - a.end for a, b in pairwise(marked)]
    assert median(gaps) > 0.05 * median(b - a for a, b in pairwise(starts))
    return tuple(range(after_warm_up([b - a for a, b in pairwise(starts)], {0}), STEPS - 1))


def mfu(by: str = "trace") -> list[Row]:
    parts = [window()] if by == "trace" else [(step,) for step in window()]
    return [_utilization(steps, by == "iteration") for steps in parts]


def _bounds(step: int) -> Event:
    return next(e for e in events() if e.name == f"ProfilerStep#{step}")


def _utilization(steps: tuple[int, ...], single: bool) -> Row:
    def launched(step: int) -> list[Work]:
        around = _bounds(step)
        return [w for w in works() if around.start <= w.launch.start < around.end]

    kernels = [w for step in steps for w in launched(step) if w.event.cat == "kernel"]
    products = [work for work in kernels if work.operator.name == "aten::mm"]
    # From the start of a step on the host to that of the next one.
    elapsed = _bounds(steps[-1] + 1).start - _bounds(steps[0]).start
    flop = float(STEP_FLOP * len(steps))
    share = 100 * flop / PEAK / (elapsed / 1e9)
    return {
        "trace_id": trace_id(),
        "pid": 4242,
        "device_id": 0,
        "iteration": steps[0] if single else None,
        "convention": "shapes",
        "flop_per_token": None,
        "model_flop": flop,
        "executed_flop": flop,
        "elapsed_ns": elapsed,
        "samples_per_s": BATCH * len(steps) / elapsed * 1e9,
        "tokens_per_s": None,
        "arithmetic": "fp16",
        "peak_flops": float(PEAK),
        "mfu_pct": share,
        "hfu_pct": share,
        "covered_pct": 100 * sum(w.event.ns for w in products) / sum(w.event.ns for w in kernels),
        "evidence": "modelled",
        "measured_over": "steady state",
        "reason": None,
    }
