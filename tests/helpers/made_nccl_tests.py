"""Made logs of nccl-tests."""

from __future__ import annotations

TITLES = "#       size         count      type   redop    root"
RESULTS = "     time   algbw   busbw #wrong"
END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.0\n#\n"


def start(ranks: int = 4, hosts: int = 2, name: str | None = None, columns: str = "") -> str:
    """The lines of a test before its results."""
    lines = ["# nccl-tests version 2.17.6 nccl-headers=22808 nccl-library=22808"]
    lines += [f"# Collective test starting: {name}"] if name else []
    lines += ["# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor) iters: 20", "#"]
    lines += ["# Using devices"]
    lines += [
        f"#  Rank {rank:2} Group  0 Pid {100 + rank:6} on    node-{rank * hosts // ranks}"
        f" device {rank:2} [0x{rank:02x}] NVIDIA H100 80GB HBM3"
        for rank in range(ranks)
    ]
    lines += ["#", "#                  out-of-place                       in-place"]
    lines += [columns or TITLES + 2 * RESULTS]
    lines += ["#        (B)    (elements)          (us)  (GB/s)  (GB/s)     (us)  (GB/s)  (GB/s)"]
    return "\n".join(lines) + "\n"


def result(size: int, *placements: tuple[float, float, float, str], extra: str = "sum -1") -> str:
    numbers = "  ".join(f"{t} {a} {b} {wrong}" for t, a, b, wrong in placements)
    return f"  {size}   {size // 4}  float  {extra}  {numbers}\n"


# 1 GB in 10 ms between 4 ranks: 100 GB/s, of which the bus sees 1.5 times as much.
ONE = (10_000.0, 100.0, 150.0, "0")
TWO = (20_000.0, 50.0, 75.0, "0")
LOG = start() + result(10**9, ONE, TWO) + END
