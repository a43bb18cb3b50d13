"""Compare predictions of `tbd-trace whatif` with the steps that were measured after the change.

Usage: python -m benchmarks.gains [--traces DIRECTORY ...] [--worlds DIRECTORY ...]

Pairs are public profiles of one program before and after a change, or a profile and the times that
its authors published. A prediction reads the profile before the change only. Pairs whose files are
missing are left out. A directory of worlds holds simulated traces, and their true gains in
truth.json. Prints Markdown: each pair, then how often the interval held, its width and the error of
the likely step.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import tbd_trace
from tbd_trace.errors import CannotAnswerError
from tbd_trace.why.predictions import WhatIf
from tbd_trace.why.result import Why
from tbd_trace.why.screen import ms

_PAIRS = Path(__file__).resolve().with_name("gains.csv")
_TRACES = os.environ.get("TBD_TRACE_CORPUS", "../shared/traces")
_PAYS = 1.05  # gain of a change, below which no one would try it
# Changes of whatif, by their name in the worlds.
_WORLD_CHANGES = {
    "amp": "amp", "workers": "input", "prefetch": "overlap_copies", "graphs": "graph",
    "nosync": "no_sync", "noalloc": "no_alloc", "fused_opt": "fused_optimizer",
    "balance": "straggler", "bf16comm": "compress", "compile": "compile", "nogc": "host_stalls",
    "overlap": "overlap_comm", "bucket": "bucket",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pair:
    """A program before and after a change.

    ``after`` is a file, or empty. ``before_ms`` and ``after_ms`` are published times of a step or
    of a sample, in long runs without a profiler. One of the two is known.
    """

    program: str
    before: str
    after: str
    before_ms: str
    after_ms: str
    done: str  # in words
    changes: str  # separated by ;
    remark: str


@dataclass(frozen=True, slots=True)
class Compared:
    """A prediction and the truth, in ns per step."""

    program: str
    change: str
    now: float
    best: float
    likely: float
    worst: float
    true: float
    remark: str = ""
    published: float | None = None  # the truth by published times; None without any

    @property
    def is_inside(self) -> bool:
        """True if the interval holds."""
        return self.best <= self.true <= self.worst

    @property
    def error(self) -> float:
        """Error of the likely step, as a part of the true one."""
        return self.likely / self.true - 1


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--traces", type=Path, nargs="+", default=[Path(_TRACES)], help="profiles, at any depth"
    )
    parser.add_argument("--worlds", type=Path, nargs="*", default=[], help="simulated traces")
    options = parser.parse_args()
    comparisons = list(_pairs(options.traces))
    print(
        "| program | change | before | predicted (8 of 10) | measured | published | error | inside "
        "| remark |\n|---|---|---:|---:|---:|---:|---:|---|---|"
    )
    for row in comparisons:
        print(f"| {' | '.join(_cells(row))} |")
    print()
    print(
        "| of | predictions | inside | median width | median error of likely |\n"
        "|---|---:|---:|---:|---:|"
    )
    print(_summary("pairs, by the profile after the change", comparisons))
    by_times = [_as_published(row) for row in comparisons]
    print(_summary("pairs, by published times where there are any", by_times))
    for directory in options.worlds:
        simulated = list(_worlds(directory))
        for change in sorted({row.change for row in simulated}):
            print(_summary(change, [row for row in simulated if row.change == change]))
        print(_summary(f"worlds {directory.name}", simulated))


def _pairs(directories: Sequence[Path]) -> Iterator[Compared]:
    with _PAIRS.open(encoding="utf-8", newline="") as file:
        pairs = [Pair(**row) for row in csv.DictReader(file)]
    for pair in pairs:
        before = _file(pair.before, directories)
        after = _file(pair.after, directories) if pair.after else None
        if before is None or (pair.after and after is None):
            continue
        program = f"{pair.program}: {pair.done}"
        try:
            prediction = tbd_trace.open(before).whatif(*pair.changes.split(";"))
        except CannotAnswerError as error:
            print(f"no answer about {program}: {error}")
            continue
        published = None
        if pair.after_ms:
            published = prediction.now_step_ns * float(pair.after_ms) / float(pair.before_ms)
        true = _mean_step(after) if after is not None else published
        assert true is not None
        compared = _compared(program, pair.changes, prediction, true, pair.remark)
        yield replace(compared, published=published)


def _worlds(directory: Path) -> Iterator[Compared]:
    truth = json.loads((directory / "truth.json").read_text(encoding="utf-8"))
    for name, world in truth.items():
        traces = tbd_trace.open(directory / world["path"])
        for simulated, gain in world["gains"].items():
            if simulated not in _WORLD_CHANGES or gain < _PAYS:
                continue
            change = _WORLD_CHANGES[simulated]
            with suppress(CannotAnswerError):
                prediction = traces.whatif(change)
                yield _compared(name, change, prediction, prediction.now_step_ns / gain)


def _mean_step(path: Path) -> float | None:
    answer = tbd_trace.open(path).why()
    return answer.slowest.step_ns if isinstance(answer, Why) else None


def _compared(
    program: str, changes: str, prediction: WhatIf, true: float, remark: str = ""
) -> Compared:
    assert prediction.likely_step_ns is not None
    return Compared(
        program,
        changes,
        prediction.now_step_ns,
        prediction.best_step_ns,
        prediction.likely_step_ns,
        prediction.worst_step_ns,
        true,
        remark,
    )


def _as_published(row: Compared) -> Compared:
    return row if row.published is None else replace(row, true=row.published)


def _file(name: str, directories: Sequence[Path]) -> Path | None:
    return next((path for folder in directories for path in folder.rglob(name)), None)


def _cells(row: Compared) -> list[str]:
    return [
        row.program,
        f"`{row.change.replace(';', '`, `')}`",
        ms(row.now),
        f"{ms(row.likely)} ({ms(row.best)} … {ms(row.worst)})",
        ms(row.true),
        ms(row.published) if row.published is not None else "",
        f"{100 * row.error:+.0f} %",
        "yes" if row.is_inside else "no",
        row.remark,
    ]


def _summary(name: str, rows: Sequence[Compared]) -> str:
    if not rows:
        return f"| {name} | 0 | | | |"
    inside = sum(row.is_inside for row in rows)
    width = median((row.worst - row.best) / row.now for row in rows)
    error = median(abs(row.error) for row in rows)
    return (
        f"| {name} | {len(rows)} | {inside} ({100 * inside / len(rows):.0f} %) "
        f"| {100 * width:.0f} % of the step | {100 * error:.0f} % |"
    )


if __name__ == "__main__":
    main()
