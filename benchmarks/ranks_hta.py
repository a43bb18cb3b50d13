"""Compare the ingest of a job's ranks with the loader of Holistic Trace Analysis, in turns.

Usage: python -m benchmarks.ranks_hta FILE [--ranks 8] [--rounds 5]

FILE is a trace of torch.profiler with `distributedInfo`; the ranks are copies of it that differ in
their rank only. Needs the environments of `make bench-rivals`. Prints Markdown.
"""

from __future__ import annotations

import argparse
import gzip
import re
import shutil
import sys
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from statistics import median

from benchmarks.measure import Cost, measure
from benchmarks.torch_trace import HTA_PYTHON

_HERE = Path(__file__).resolve().parent
_DATA = _HERE / ".data" / "ranks_hta"
_RANK = re.compile(
    rb'("distributedInfo"\s*:\s*\{.*?"rank"\s*:\s*)\d+(.*?"world_size"\s*:\s*)\d+', re.S
)
_LIMIT_S = 600
# Times of a cost: the load, the run, and the CPU time of the run.
_SECONDS: tuple[Callable[[Cost], float], ...] = (
    lambda cost: float(cost.message),
    attrgetter("seconds"),
    attrgetter("cpu_seconds"),
)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path, metavar="FILE")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if not HTA_PYTHON.exists():
        raise SystemExit(f"{HTA_PYTHON}: not there; run `make bench-rivals`")
    shutil.rmtree(_DATA, ignore_errors=True)
    make_job(options.trace, _DATA / "job", options.ranks)
    print(table(compare(_DATA / "job", options.rounds)))
    shutil.rmtree(_DATA)


def make_job(trace: Path, directory: Path, ranks: int) -> None:
    """Write a trace once per rank, gzipped, each with its own rank in ``distributedInfo``."""
    content = trace.read_bytes()
    text = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    directory.mkdir(parents=True)
    for rank in range(ranks):
        own, replacements = _RANK.subn(rb"\g<1>%d\g<2>%d" % (rank, ranks), text, count=1)
        if not replacements:
            raise SystemExit(f"{trace}: no `distributedInfo` with rank and world_size")
        packed = gzip.compress(own, 6, mtime=0)
        (directory / f"rank{rank}.json.gz").write_bytes(packed)


def compare(job: Path, rounds: int) -> dict[str, list[Cost]]:
    """Return the costs of both programs by name; their messages are the seconds of the load."""
    database = _DATA / "database"
    ingest = ("--job", "made", "--db", str(database / "made.duckdb"), str(job))
    own = (sys.executable, "-m", "benchmarks.ranks_load", *ingest)
    commands = {
        "HTA": (str(HTA_PYTHON), str(_HERE / "rivals" / "hta_load.py"), str(job)),
        "`ingest --job`": own,
        "`ingest --job --workers 1`": (*own, "--workers", "1"),
    }
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            shutil.rmtree(database, ignore_errors=True)
            database.mkdir()
            cost = measure(command, {}, _DATA / "log", _LIMIT_S)
            if not cost.usable:
                raise SystemExit(f"{name}: {cost.message}")
            costs[name].append(cost)
    return costs


def table(costs: dict[str, list[Cost]]) -> str:
    """Return Markdown: medians, and with × the first program's time ÷ the program's, by round.

    A load is without the start of Python and its imports, a run has both.
    """
    rival = next(iter(costs.values()))
    lines = [
        "| program | load | run | CPU time | load × | run × | CPU time × | peak memory |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, own in costs.items():
        cells = [f"{median(map(of, own)):.2f} s" for of in _SECONDS]
        cells += [
            f"{median(of(other) / of(one) for one, other in zip(own, rival, strict=True)):.2f} ×"
            for of in _SECONDS
        ]
        cells.append(f"{median(cost.peak_bytes for cost in own) / 1e6:.0f} MB")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
