"""Check tbd-trace on this machine, step by step, and write a table of verdicts.

Usage: PYTHONPATH=tools:collectors:pipeline:models python3 -m gpu_check [--kit DIR] [-o DIR]

A second call with the same directory continues: steps with a result are not repeated. Exit codes:
0 all steps have a result and none failed, 1 otherwise, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

from gpu_check import table
from gpu_check.kit import KitError
from gpu_check.machine import environment, set_up
from gpu_check.runner import Check
from gpu_check.steps import STEPS
from gpu_check.table import FAILED, OPEN


def main() -> int:
    """Run the command line."""
    started = time.monotonic()
    options = _options()
    names = [step.name for step in STEPS]
    if unknown := [name for name in (*options.steps, *options.again) if name not in names]:
        print(f"error: no step {unknown[0]}; the steps are {', '.join(names)}", file=sys.stderr)
        return 2
    directory = options.output.resolve()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        machine = set_up(directory, options.kit, options.device or _device())
    except (KitError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    variables = environment(directory)
    check = Check(machine, directory, variables, started + options.limit)
    steps = [step for step in STEPS if not options.steps or step.name in options.steps]
    verdicts = check.compare_recorded(steps) if options.judge else check.run(steps, options.again)
    print(f"{table.counts(verdicts)}; {directory}/verdicts.md", flush=True)
    return int(any(verdict.verdict in (FAILED, OPEN) for verdict in verdicts))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gpu_check", description=__doc__.splitlines()[0])
    parser.add_argument("steps", nargs="*", metavar="STEP", help="only these (default: all)")
    parser.add_argument("-o", "--output", type=Path, default=Path("gpu-check"))
    parser.add_argument(
        "--kit",
        type=Path,
        help="folder that make gpu-kit made; without it, tbd-trace is that of this interpreter",
    )
    parser.add_argument("--limit", type=float, default=520, help="seconds for everything")
    parser.add_argument(
        "--judge", action="store_true", help="run nothing, compare recorded steps again"
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), help="default: cuda if there is one")
    parser.add_argument(
        "--again", action="append", default=[], help="repeat a step", metavar="STEP"
    )
    return parser.parse_args()


def _device() -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return "cpu"
    listed = subprocess.run([program, "-L"], capture_output=True, timeout=60, check=False)
    return "cuda" if listed.returncode == 0 and listed.stdout.strip() else "cpu"


if __name__ == "__main__":
    sys.exit(main())
