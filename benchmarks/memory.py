"""Compare tbd-trace with PyTorch's own viewer on a generated memory snapshot.

Usage: python -m benchmarks.memory [--events 1000000] [--rounds 3]

PyTorch's `trace_plot` wraps a snapshot into a page, whose work begins in the browser. The commands
take turns; the ratio within a round counts.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
from pathlib import Path

from benchmarks.bench import take_turns
from benchmarks.measure import measure
from benchmarks.memory_snapshot import EVENTS, write_snapshot
from benchmarks.report import Result, as_markdown
from benchmarks.subjects import Subject
from tbd_trace import resources

_DATA = Path(__file__).resolve().parent / ".data"
_TBD = (sys.executable, "-m", "tbd_trace")
_VIEWER = (sys.executable, "-m", "torch.cuda._memory_viz", "trace_plot")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=300, help="time limit of a run, s")
    options = parser.parse_args()
    _DATA.mkdir(parents=True, exist_ok=True)
    file = _DATA / f"snapshot-{options.events}.pickle"
    if not file.exists():
        write_snapshot(file, options.events)
    scratch = _DATA / "scratch-memory"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    log = scratch / "log"
    # Fill the page cache, so that the first command does not wait for the disk.
    measure(("cat", str(file)), {}, log, options.limit)
    result = Result("memory", file.stat().st_size, 0)
    for name, group in _groups(file, scratch).items():
        result.groups[name] = take_turns(group, options.rounds, log, options.limit)
    shutil.rmtree(scratch)
    print(as_markdown([result]))


def _groups(file: Path, scratch: Path) -> dict[str, list[Subject]]:
    database = scratch / "database"

    def empty() -> None:
        shutil.rmtree(database, ignore_errors=True)
        database.mkdir()

    def forget() -> None:  # as after ingest: no derived relation is cached
        for derived in database.rglob("derived"):
            shutil.rmtree(derived)

    place = ("--db", str(database / "memory.duckdb"))
    viewer = (*_VIEWER, str(file), "--output", str(scratch / "plot.html"))
    lacks = "" if importlib.util.find_spec("torch") else "PyTorch is not installed"
    return {
        "memory snapshot": [
            Subject("PyTorch's trace_plot", viewer, lacks=lacks),
            Subject(
                "tbd-trace ingest, snapshot", (*_TBD, "ingest", str(file), *place), prepare=empty
            ),
        ],
        "memory queries, nothing cached": [
            Subject(f"tbd-trace query {name}", (*_TBD, "query", name, *place), prepare=forget)
            for name in sorted(resources.sql_files("metrics"))
            if name.startswith("memory_") and name not in _NOT_ASKED
        ],
    }


# Questions to files of another kind.
_NOT_ASKED = ("memory_operations", "memory_untracked", "memory_vs_batch", "memory_leak")


if __name__ == "__main__":
    main()
