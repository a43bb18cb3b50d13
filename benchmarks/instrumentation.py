"""Measure the overhead of NVTX ranges and of nsys on training iterations.

Usage: python benchmarks/instrumentation.py [--scale full] [--rounds 3] [MODEL...]

Prints a Markdown table. The four configurations alternate, so that a slowdown of the machine
affects all of them; the ratio to the plain run of the same round counts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections import defaultdict
from itertools import product
from pathlib import Path
from statistics import median

from tbd_collectors import nsys
from tbd_collectors.collection_request import Workload
from tbd_collectors.process import run
from tbd_collectors.workload import command, importable
from tbd_models.registry import find

_WAYS = tuple(product((False, True), (False, True)))  # nsys, marks


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=["resnet50", "bert"], metavar="MODEL")
    parser.add_argument("--scale", default="full", choices=("full", "small"))
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print("| model | ranges per iteration | plain, ms | marks | nsys | nsys and marks |")
    print("|---|---:|---:|---:|---:|---:|")
    for name in options.models:
        workload = Workload(
            model=find(name).name,
            scale=options.scale,
            device=options.device,
            batch_size=options.batch_size,
            iterations=options.iterations,
            warmup=3,
        )
        print(_row(workload, options.rounds), flush=True)


def _row(workload: Workload, rounds: int) -> str:
    milliseconds = defaultdict(list)
    ratios = defaultdict(list)
    ranges = 0
    for _ in range(rounds):
        for way in _WAYS:
            elapsed, recorded = _measure(workload, *way)
            milliseconds[way].append(elapsed)
            ratios[way].append(elapsed / milliseconds[_WAYS[0]][-1])
            ranges = max(ranges, recorded // (workload.iterations + (workload.warmup or 0)))
    cells = [workload.model, f"{ranges:,}", f"{median(milliseconds[_WAYS[0]]):.1f}"]
    marks, profiled, both = _WAYS[1:]
    cells += [f"{median(ratios[way]):.3f}" for way in (marks, profiled, both)]
    return f"| {' | '.join(cells)} |"


def _measure(workload: Workload, profile: bool, marks: bool) -> tuple[float, int]:
    # Returns the median iteration in milliseconds and the number of ranges that nsys recorded.
    with tempfile.TemporaryDirectory() as directory, importable() as variables:
        folder = Path(directory)
        environment = dict(variables)
        argv = command(workload, report=folder / "report.json", nvtx=marks)
        if profile:
            options = nsys.NsysOptions(gpu=workload.device == "cuda", whole_run=True)
            argv = nsys.command(argv, folder / "timeline", options)
            environment |= nsys.environment()
        done = run(
            argv,
            environment=environment,
            directory=folder,
            timeout_s=1800,
            log=folder / "log",
        )
        if done.returncode != 0:
            raise subprocess.CalledProcessError(done.returncode, argv, "\n".join(done.tail))
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        recorded = 0
        if profile and marks:
            recorded = nsys.check(nsys.export(nsys.report(folder / "timeline"))).ranges
        return median(report["iteration_ns"]) / 1e6, recorded


if __name__ == "__main__":
    main()
