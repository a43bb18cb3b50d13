"""Measure the link between ranks: ``python -m tbd_models.pytorch.link --report FILE``.

``tbd-trace collect --ranks`` starts it on each rank. Rank 0 writes the times of all-reduces.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tbd_models.json_file import write_json
from tbd_models.pytorch import distributed

SIZES = (4, 4 * 2**10, 64 * 2**10, 2**20, 4 * 2**20, 16 * 2**20)  # bytes
_REPETITIONS = 5
_MORE = 20  # of sizes whose times are short and thus vary
_SHORT_S = 0.005


def main() -> int:
    """Measure and return the exit code."""
    parser = argparse.ArgumentParser(prog="tbd_models.pytorch.link", description=__doc__)
    parser.add_argument("--device", default="cpu", choices=("cuda", "cpu"))
    parser.add_argument("--report", type=Path, required=True)
    arguments = parser.parse_args()
    device = distributed.join(arguments.device)
    try:
        samples = [_measure(size, device) for size in SIZES]
        if dist.get_rank() == 0:
            write_json(arguments.report, {"ranks": dist.get_world_size(), "samples": samples})
        dist.barrier()
    finally:
        distributed.leave()
    return 0


def _measure(size: int, device: torch.device) -> dict[str, Any]:
    moved = torch.ones(size // 4, device=device)
    first = _all_reduce(moved)  # also connects the ranks
    # The same on all ranks, so that none waits for a collective that the others do not call.
    is_short = distributed.same_on_all(first < _SHORT_S, device)
    _all_reduce(moved)
    count = _MORE if is_short else _REPETITIONS
    return {"bytes": size, "seconds": [_all_reduce(moved) for _ in range(count)]}


def _all_reduce(moved: torch.Tensor) -> float:
    dist.barrier()
    moved.fill_(1.0)
    begin = time.perf_counter()
    dist.all_reduce(moved)
    if moved.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - begin


if __name__ == "__main__":
    sys.exit(main())
