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
from collections.abc import Sequence
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
        own, found = _RANK.subn(rb"\g<1>%d\g<2>%d" % (rank, ranks), text, count=1)
        if not found:
            raise SystemExit(f"{trace}: no `distributedInfo` with rank and world_size")
        packed = gzip.compress(own, 6, mtime=0)
        (directory / f"rank{rank}.json.gz").write_bytes(packed)


def compare(job: Path, rounds: int) -> dict[str, list[Cost]]:
    """Return the costs of both programs, start-up included, by name."""
    database = _DATA / "database"
    ingest = ("ingest", "--job", "made", "--db", str(database / "made.duckdb"), str(job))
    commands = {
        "HTA": (str(HTA_PYTHON), str(_HERE / "rivals" / "hta_load.py"), str(job)),
        "tbd-trace ingest --job": (sys.executable, "-m", "tbd_trace", *ingest),
        "the same with --workers 1": (sys.executable, "-m", "tbd_trace", *ingest, "--workers", "1"),
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
    """Return Markdown: medians, and ratios to the first program within the rounds."""
    rival = next(iter(costs.values()))
    loads = [float(cost.message) for cost in rival]
    lines = [
        f"HTA without its imports: {median(loads):.2f} s",
        "",
        "| program | s | CPU s | ÷ HTA without imports | CPU ÷ HTA | peak MB |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, own in costs.items():
        cells = [
            f"{median(cost.seconds for cost in own):.2f}",
            f"{median(cost.cpu_seconds for cost in own):.2f}",
            f"{median(_ratios([cost.seconds for cost in own], loads)):.2f}",
            f"{median(_ratios(*([c.cpu_seconds for c in each] for each in (own, rival)))):.2f}",
            f"{median(cost.peak_bytes for cost in own) / 1e6:.0f}",
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _ratios(own: Sequence[float], others: Sequence[float]) -> list[float]:
    return [one / other for one, other in zip(own, others, strict=True)]


if __name__ == "__main__":
    main()
