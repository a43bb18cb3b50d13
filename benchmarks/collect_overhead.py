"""Measure how much slower a script trains before and after the window that collect records.

Usage: python benchmarks/collect_overhead.py [--profiler torch] [--rounds 3] [--steps 200]

A script that times its own steps runs alone and under ``tbd-trace collect --keep-running`` in turn.
Prints a Markdown table of the step that nine in ten exceed, relative to that of the run alone of
the same round: before the window, when the layers are marked; in it; and after it. Other programs
on the machine make single steps longer, not the quick ones.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from statistics import quantiles

_MARKED = 2  # the first marked step
_SETTLED = 10  # steps after the window, in the first of which the trace is written
_SCRIPT = """
import sys, time
import torch
from torch import nn

torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
model = nn.Sequential(nn.TransformerEncoder(layer, 3), nn.Linear(64, 10))
optimizer = torch.optim.AdamW(model.parameters())
inputs, labels = torch.randn(4, 32, 64), torch.randint(10, (4, 32))
with open(sys.argv[1], "w") as times:
    for _ in range(int(sys.argv[2])):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs).transpose(1, 2), labels).backward()
        optimizer.step()
        print(time.perf_counter_ns(), file=times, flush=True)
"""


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profiler", default="torch", choices=("torch", "nsys"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--warmup", type=int, default=40)
    options = parser.parse_args()
    first, end = options.warmup, options.warmup + 12
    print("| round | alone, ms | before the window | in it | after it |")
    print("|---:|---:|---:|---:|---:|")
    for number in range(1, options.rounds + 1):
        alone = _steps(options.steps, ())
        collected = _steps(
            options.steps,
            (
                *(sys.executable, "-m", "tbd_trace", "collect", "--keep-running"),
                *("--profiler", options.profiler, "--warmup", str(first), "--device", "cpu"),
            ),
        )
        parts = ((_MARKED, first), (first, end), (end + _SETTLED, len(collected)))
        ratios = [_quick(collected[a:b]) / _quick(alone) for a, b in parts]
        shown = " | ".join(f"× {ratio:.3f}" for ratio in ratios)
        print(f"| {number} | {_quick(alone) / 1e6:.2f} | {shown} |", flush=True)


def _quick(steps: list[int]) -> float:
    return quantiles(steps, n=10)[0]


def _steps(count: int, collect: tuple[str, ...]) -> list[int]:
    # Times of the steps in ns, but for the first.
    with tempfile.TemporaryDirectory() as directory:
        script, times = Path(directory, "train.py"), Path(directory, "times")
        script.write_text(_SCRIPT, encoding="utf-8")
        before = (*collect, "-o", str(Path(directory, "capture")), "--") if collect else ()
        subprocess.run(
            [*before, sys.executable, script, times, str(count)],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            check=True,
        )
        ends = [int(line) for line in times.read_text(encoding="utf-8").splitlines()]
    return [after - before for before, after in pairwise(ends)]


if __name__ == "__main__":
    main()
