"""Compare the cost of questions about jobs of different numbers of ranks.

Usage: python -m benchmarks.ranks [--ranks 8 64] [--iterations 14] [--queries NAME ...]

A rank is a generated export of Nsight Systems of some 20 MB (14 iterations). Exports of one job
differ in their start only, which makes them different traces. Nothing derived is cached. The
ratios between the jobs count: they are taken in one run.
"""

from __future__ import annotations

import argparse
import shutil
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from benchmarks.generate import generate
from benchmarks.measure import Cost, measure
from benchmarks.sizes import SIZES

_DATA = Path(__file__).resolve().parent / ".data" / "ranks"
_TBD = (sys.executable, "-m", "tbd_trace")
_QUERIES = ("kernel_summary", "iteration_timing", "step_breakdown")
_AT_ONCE = 50  # exports on disk
_MINUTES = 60  # limit of a command


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--iterations", type=int, default=14, help="of each rank")
    parser.add_argument("--queries", nargs="+", default=_QUERIES, metavar="NAME")
    parser.add_argument("--workers", type=int, help="processes that share the ranks")
    options = parser.parse_args()
    shutil.rmtree(_DATA, ignore_errors=True)
    _DATA.mkdir(parents=True)
    export = _DATA / "export.sqlite"
    generate(export, replace(SIZES["S"], iterations=options.iterations, processes=1))
    shared = ("--workers", str(options.workers)) if options.workers else ()
    costs: dict[str, list[Cost]] = {}
    for count in options.ranks:
        costs.setdefault("ingest", []).append(_ingest(export, count))
        for name in options.queries:
            question = ("query", name, "--db", _database(count), "--format", "csv", *shared)
            shutil.rmtree(Path(_database(count)).with_suffix(".traces") / "derived", True)
            costs.setdefault(name, []).append(_run(*question))
    print(f"{export.stat().st_size / 1e6:.1f} MB per rank\n")
    print(_table(options.ranks, costs))
    shutil.rmtree(_DATA)


def _database(count: int) -> str:
    return str(_DATA / f"{count}.duckdb")


def _ingest(export: Path, count: int) -> Cost:
    costs: list[Cost] = []
    for first in range(0, count, _AT_ONCE):
        files = []
        for rank in range(first, min(first + _AT_ONCE, count)):
            files.append(shutil.copy(export, _DATA / f"rank{rank}.sqlite"))
            with closing(sqlite3.connect(files[-1])) as connection, connection:
                connection.execute(
                    "UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = utcEpochNs + ?", (rank,)
                )
        costs.append(_run("ingest", "--job", "made", "--db", _database(count), *map(str, files)))
        for file in files:
            Path(file).unlink()
    return replace(
        costs[0],
        seconds=sum(cost.seconds for cost in costs),
        peak_bytes=max(cost.peak_bytes for cost in costs),
    )


def _run(*arguments: str) -> Cost:
    cost = measure((*_TBD, *arguments), {}, _DATA / "log", _MINUTES * 60)
    if not cost.usable:
        raise SystemExit(f"tbd-trace {' '.join(arguments[:2])}: {cost.message}")
    return cost


def _table(ranks: Sequence[int], costs: dict[str, list[Cost]]) -> str:
    head = ["command"]
    for count in ranks:
        head += [f"{count} ranks, s", "s per rank", "peak, MB"]
    head += ["time ratio", "memory ratio"]
    lines = [head, ["---"] * len(head)]
    for name, row_costs in costs.items():
        line = [name]
        for count, cost in zip(ranks, row_costs, strict=True):
            line += [
                f"{cost.seconds:.1f}", f"{cost.seconds / count:.3f}", f"{cost.peak_bytes / 1e6:.0f}"
            ]  # fmt: skip
        first, last = row_costs[0], row_costs[-1]
        line += [
            f"{last.seconds / first.seconds:.2f}", f"{last.peak_bytes / first.peak_bytes:.2f}"
        ]  # fmt: skip
        lines.append(line)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
