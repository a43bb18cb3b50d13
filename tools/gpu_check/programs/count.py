"""Count hardware events of matrix products of known size with Nsight Compute."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tbd_collectors import nsight_compute, process
from tbd_collectors.gpu_detection import gpus
from tbd_collectors.nsight_compute import NcuOptions
from tbd_trace.errors import TbdTraceError

PRODUCTS = ((512, 512, 512), (1024, 512, 2048), (2048, 2048, 2048))
_TIMEOUT_S = 60
_PROGRAM = """
import torch
torch.backends.cuda.matmul.allow_tf32 = False
for m, k, n in {products}:
    a, b = torch.randn(m, k, device="cuda"), torch.randn(k, n, device="cuda")
    a @ b  # loads the library
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    a @ b
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()
"""


def main() -> int:
    """Write counters.csv and facts.json; exit with 1 and the reason if counters are denied."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compute-capability")
    options = parser.parse_args()
    table = Path("counters.csv").resolve()
    try:
        capability = options.compute_capability or gpus()[0].compute_capability
        metrics = nsight_compute.select(capability, nsight_compute.known_metrics(capability))
        program = [sys.executable, "-c", _PROGRAM.format(products=PRODUCTS)]
        argv = nsight_compute.command(program, table, NcuOptions(metrics.metrics))
        done = process.run(
            argv, environment={}, directory=Path.cwd(), timeout_s=_TIMEOUT_S, log=Path("ncu.log")
        )
        counted = nsight_compute.check(table, done.tail)
    except TbdTraceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    facts = {"counted": counted, "flop": _flop(), "metrics": len(metrics.metrics)}
    Path("facts.json").write_text(json.dumps(facts), encoding="utf-8")
    return 0


def _flop() -> int:
    # A multiplication and an addition per element of the inner dimension.
    return sum(2 * m * k * n for m, k, n in PRODUCTS)


if __name__ == "__main__":
    sys.exit(main())
