"""Build steps of the same kind, and measure what they have in common."""

from __future__ import annotations

from gpu_check.answers import Answers, cell, fact, predicted_step, query, share, total
from gpu_check.step import (
    Expectation,
    Measure,
    Step,
    at_least,
    between,
    equal,
    inside,
)

_COLLECT = "{tbd} collect --device {device} --force"
_TRACE = f"{_COLLECT} --profiler torch --no-throughput --no-counters --iterations {{iterations}}"
STREAMS = "streams.pt.trace.json"
"""Trace of the program streams.py."""

# Multiply-accumulate operations of a forward pass, by the authors of the models: ResNet-50 v1.5 at
# 224 x 224 has 4.09e9. Training needs three times that, and an operation counts as two.
_RESNET_FLOP = 3 * 2 * 4.09e9


def doctor(check: str) -> Measure:
    """Return a measure of the status of a check of `tbd-trace doctor`."""

    def status(answers: Answers) -> str:
        rows = answers.ask("doctor")
        return next(str(row["status"]) for row in rows if row["check"] == check)

    return status


def recorded(capture: str = "cap") -> tuple[Expectation, ...]:
    """Return what every capture of a training on a GPU must show."""
    return (
        at_least("kernels", cell("trace_info", "kernels", capture), 1),
        at_least("iterations", cell("iteration_summary", "n", capture), 2, needs_gpu=False),
        between("GPU busy, %", cell("compute_util", "gpu_busy_pct", capture), 1, 100),
    )


def model(name: str, options: str, *more: Expectation) -> Step:
    """Return a step that records a model of the suite with torch.profiler."""
    return Step(
        name,
        45,
        (f"{_TRACE} --scale {{scale}} --warmup 3 {options} -o cap",),
        (*recorded(), at_least("layers", layers("cap"), 4, needs_gpu=False), *more),
        ("cap",),
        needs=(),
    )


def layers(capture: str) -> Measure:
    """Return a measure of the number of layers with a time."""
    rows = query("layer_time", capture)
    return lambda answers: len({row["layer"] for row in rows(answers) if row["layer"]})


def train(name: str, options: str, *more: Expectation, limit_s: float = 45) -> Step:
    """Return a step that records the program train.py with torch.profiler."""
    commands = (trained("cap", "facts.json", options),)
    return Step(name, limit_s, commands, (*recorded(), *more), ("cap",))


def trained(capture: str, facts: str, options: str) -> str:
    """Return the command that records the program train.py with torch.profiler."""
    return (
        f"{_TRACE} --warmup 8 -o {capture} -- {{program}}/train.py --device {{device}} "
        f"--steps {{iterations}} --facts {facts} {options}"
    )


def pair(name: str, cause: str, change: str, fault: str, remedy: str = "") -> Step:
    """Return a step that trains with a fault and without it, and compares both with why."""
    shared = "--batch-size {train_batch} --width {train_width} --depth {train_depth}"
    commands = (
        trained("before", "before.json", f"{shared} {fault}"),
        trained("after", "after.json", f"{shared} {remedy}"),
    )

    def lost(answers: Answers) -> float:
        before, after = (fact(f"{name}.json", "step_ns")(answers) for name in ("before", "after"))
        return float(100 * (1 - after / before))

    def step_of(capture: str) -> Measure:
        return lambda answers: answers.ask("why", capture)["judged_step_ns"]

    def named(answers: Answers) -> bool:
        causes = answers.ask("why", "before")["causes"]  # by share
        return cause in [row["cause"] for row in causes[:3]]

    def less(answers: Answers) -> float:
        return float(share(cause, "before")(answers) - share(cause, "after")(answers))

    return Step(
        name,
        60,
        commands,
        (
            at_least("time lost by the fault, % of the step", lost, 5, needs_gpu=False),
            equal(f"{cause} is among the three largest causes of why", named, True),
            at_least(f"{cause}: share before - after, points", less, 3),
            inside(
                f"step after, ns, as whatif {change}",
                step_of("after"),
                predicted_step("before", change),
            ),
        ),
        ("before", "after"),
        needs=(),
    )


def estimated(column: str, size: int) -> Measure:
    """Return a measure of an estimated number of bytes at a batch size."""
    rows = query("memory_vs_batch", "estimate/*")

    def value(answers: Answers) -> float:
        return next(float(row[column]) for row in rows(answers) if row["batch_size"] == size)

    return value


def swept(key: str, size: int) -> Measure:
    """Return a measure of a peak at a batch size, as the step memory-sweep recorded it."""

    def value(answers: Answers) -> float:
        rows = answers.facts("../memory-sweep/sweep.json")
        return next(float(row[key]) for row in rows if row["batch_size"] == size)

    return value


def flop_per_step(answers: Answers) -> float:
    """Return the FLOP of a training step, from the shapes of operators."""
    flop = cell("mfu", "model_flop", "cap")(answers)
    return float(flop / cell("compute_util", "iterations", "cap")(answers))


def resnet(name: str, options: str) -> Step:
    """Return a step that records ResNet-50 and compares its FLOP with the published number."""
    size = 64
    flop = Expectation(
        "FLOP per step, by published multiplications (±5 %)",
        lambda _: size * _RESNET_FLOP,
        flop_per_step,
        lambda actual, true: abs(actual / true - 1) <= 0.05,
    )
    below = between("MFU, %", cell("mfu", "mfu_pct", "cap"), 0.1, 100)
    return model(name, f"resnet50 --batch-size {size} {options}", flop, below)


def graph_launches(answers: Answers) -> int:
    """Return the number of launches of CUDA graphs."""
    return int(cell("trace_info", "graph_launches", "cap")(answers))


def checkpointed(answers: Answers) -> float:
    """Return the GPU time of recomputed activations, in ns."""
    return float(total("module_summary", "recompute_ns", "cap")(answers))


def streams(answers: Answers) -> int:
    """Return the number of streams with kernels."""
    rows = answers.ask(
        "sql", "SELECT count(DISTINCT stream_id) AS n FROM kernel", "--trace", STREAMS
    )
    return int(rows[0]["n"])


def busy_ms(answers: Answers) -> float:
    """Return the time in which at least one kernel runs, in ms."""
    busy = cell("compute_util", "kernel_busy_ns", STREAMS, "window=trace")(answers)
    return float(busy) / 1e6


def kernels_of(target: str) -> Measure:
    """Return a measure of the sum of all durations of kernels, in ns."""
    return total("kernel_summary", "total_ns", target)


def by_nsys(column: str) -> Measure:
    """Return a measure of a column of trace_info, of the first file that record_nsys.py made."""

    # A .qdstrm file is imported where nsys is fully installed, when compared again there.
    def value(answers: Answers) -> float:
        return float(cell("trace_info", column, fact("facts.json", 0, "file")(answers))(answers))

    return value


def product_flop(answers: Answers) -> float:
    """Return the counted FLOP of the program count.py."""
    rows = query("fp32_util", "counters.csv", "window=trace")(answers)
    return next(float(row["flop"]) for row in rows if row["evidence"] == "counter")


def occupancy_difference(answers: Answers) -> float:
    """Return the largest achieved minus estimated occupancy of a kernel, in points."""
    # The launch configuration limits what the counter can show.
    rows = query("occupancy", "cap")(answers)
    pairs = [
        (row["estimated_achieved_pct"], row["achieved_pct"])
        for row in rows
        if row["achieved_pct"] is not None and row["estimated_achieved_pct"] is not None
    ]
    return float(max(achieved - estimated for estimated, achieved in pairs))
