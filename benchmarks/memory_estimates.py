"""Compare estimates of memory with recordings: ``python -m benchmarks.memory_estimates``.

Each model trains at the small scale on the CPU in each framework that is installed. Prints a
Markdown table; a cell that cannot run states why.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import tbd_trace
from tbd_models.registry import FRAMEWORKS, NAMES, is_implemented


def main() -> None:
    """Print a row per model and framework."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--framework", action="append", choices=FRAMEWORKS)
    parser.add_argument("--model", action="append", choices=NAMES)
    given = parser.parse_args()
    print("| model | framework | recorded peak (B) | estimated peak (B) | difference |")
    print("|---|---|---:|---:|---:|")
    for model in given.model or NAMES:
        for framework in given.framework or FRAMEWORKS:
            if is_implemented(model, framework):
                print(f"| {model} | {framework} | {_compared(model, framework)} |", flush=True)


def _compared(model: str, framework: str) -> str:
    peaks = []
    for options in ((), ("--estimate",)):
        peak = _peak_bytes(model, framework, *options)
        if isinstance(peak, str):
            return f"{peak} | | "
        peaks.append(peak)
    recorded, estimated = peaks
    share = 100 * (estimated - recorded) / recorded
    return f"{recorded:,} | {estimated:,} | {share:+.2f} %"


def _peak_bytes(model: str, framework: str, *options: str) -> int | str:
    with tempfile.TemporaryDirectory() as directory:
        capture = Path(directory) / "capture"
        words = [sys.executable, "-m", "tbd_trace", "collect", model, "--framework", framework]
        words += ["--scale", "small", "--device", "cpu", "--memory", "--no-throughput", *options]
        done = subprocess.run(
            [*words, "-o", str(capture)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            return f"not run: {(done.stderr.strip().splitlines() or ['no output'])[-1][:120]}"
        rows = tbd_trace.open(capture).query("memory_peak").to_dicts()
        return int(max(row["peak_requested_bytes"] for row in rows))


if __name__ == "__main__":
    main()
