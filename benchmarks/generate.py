"""Generate an Nsight Systems SQLite export of any size.

Usage: python -m benchmarks.generate FILE [--size S] [--schema 2022.4] [--iterations N ...]

Equal arguments give equal rows. Memory use does not depend on the size.
"""

from __future__ import annotations

import argparse
from operator import itemgetter
from pathlib import Path

from benchmarks.exports import SCHEMAS, Export
from benchmarks.sizes import SIZES, Size, with_changes
from benchmarks.training import Process, Rows
from nsys_schema import Kernel, Memcpy, Memset, Nvtx, Runtime, Synchronization

_UTC_START_NS = 1_700_000_000_000_000_000
_DIMENSIONS = ("iterations", "layers", "kernels_per_layer", "depth", "threads", "processes")


def generate(path: Path, size: Size, *, schema: str = SCHEMAS[0], seed: int = 0) -> None:
    """Write an export to ``path``; ``seed`` determines all durations."""
    with Export(path, schema=schema, utc_start_ns=_UTC_START_NS) as export:
        processes = [Process(export, size, number, seed) for number in range(size.processes)]
        for iteration in range(size.iterations):
            rows = Rows()
            for process in processes:
                process.iteration(iteration, rows)
            _write(export, rows)
        export.span(0, max(process.end_ns for process in processes))


def _write(export: Export, rows: Rows) -> None:
    # nsys writes events in the order of their starts.
    tables = {
        Kernel: rows.kernels,
        Memcpy: rows.memcpys,
        Memset: rows.memsets,
        Synchronization: rows.waits,
        Runtime: rows.calls,
        Nvtx: rows.ranges,
    }
    for kind, table_rows in tables.items():
        table_rows.sort(key=itemgetter(0))
        export.extend(kind, table_rows)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--size", default="S", choices=SIZES)
    parser.add_argument("--schema", default=SCHEMAS[0], choices=SCHEMAS)
    parser.add_argument("--seed", type=int, default=0)
    for name in _DIMENSIONS:
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, metavar="N")
    options = parser.parse_args()
    changes = {name: getattr(options, name) for name in _DIMENSIONS}
    size = with_changes(SIZES[options.size], changes)
    options.file.parent.mkdir(parents=True, exist_ok=True)
    generate(options.file, size, schema=options.schema, seed=options.seed)
    print(f"{options.file}: {options.file.stat().st_size / 1e6:.1f} MB, {size.kernels:,} kernels")


if __name__ == "__main__":
    main()
