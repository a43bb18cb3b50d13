"""Compare predictions of `tbd-trace whatif` with the steps that were measured after the change.

Usage: python -m benchmarks.why_pairs [--traces DIRECTORY]

Pairs are public profiles of one program before and after a change. A prediction reads the profile
before the change only. Pairs whose files are missing are left out. Prints Markdown.
"""

from __future__ import annotations

import argparse
import csv
import os
from dataclasses import dataclass
from pathlib import Path

import tbd_trace
from tbd_trace.why.result import WhatIf, Why
from tbd_trace.why.screen import ms

_PAIRS = Path(__file__).resolve().with_name("why_pairs.csv")
_TRACES = os.environ.get("TBD_TRACE_CORPUS", "../shared/traces")


@dataclass(frozen=True, slots=True)
class Pair:
    """A program before and after a change: its name, file names, and the names of the changes."""

    program: str
    before: str
    after: str
    done: str  # in words
    changes: str  # separated by ;
    remark: str


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, default=Path(_TRACES), help="profiles, at any depth")
    options = parser.parse_args()
    with _PAIRS.open(encoding="utf-8", newline="") as file:
        pairs = [Pair(**row) for row in csv.DictReader(file)]
    print(
        "| program | largest cause | change | before | predicted (range) | measured | error "
        "| in range | remark |\n|---|---|---|---:|---:|---:|---:|---|---|"
    )
    for pair in pairs:
        files = [next(options.traces.rglob(name), None) for name in (pair.before, pair.after)]
        if None not in files:
            print(_row(pair, *map(str, files)))


def _row(pair: Pair, before: str, after: str) -> str:
    traces = tbd_trace.open(before)
    why, measured = traces.why(), tbd_trace.open(after).why()
    found = traces.whatif(*pair.changes.split(";"))
    then = measured.slowest.judged_step_ns
    assert then is not None
    return f"| {' | '.join(_cells(pair, why, found, then))} |"


def _cells(pair: Pair, why: Why, found: WhatIf, then: float) -> list[str]:
    top = why.slowest.causes[0]
    is_inside = found.best_step_ns <= then <= found.worst_step_ns
    return [
        pair.program,
        f"{top.title} {top.share_pct:.0f} %",
        f"{pair.done} (`{pair.changes.replace(';', '`, `')}`)",
        ms(found.now_step_ns),
        f"{ms(found.step_ns)} ({ms(found.best_step_ns)} \N{EN DASH} {ms(found.worst_step_ns)})",
        ms(then),
        f"{100 * (found.step_ns / then - 1):+.0f} %",
        "yes" if is_inside else "no",
        pair.remark,
    ]


if __name__ == "__main__":
    main()
