"""Run a small training on gloo in which one rank goes wrong, and dump the Flight Recorder.

``python gloo_hang.py DIRECTORY WORLD RANK STEP FAULT`` writes ``DIRECTORY/dump_K`` for each rank
that is alive when no rank makes progress for a while.
"""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

STEPS = 6
QUIET_S = 1.5  # without progress until the dumps
# The line at which each fault shows: that of the call that goes wrong, or is not made.
LINES = {
    "stuck": "all_reduce",
    "spinning": "all_reduce",
    "exception": "all_reduce",
    "returned": "all_reduce",
    "killed": "all_reduce",
    "stuck_before_barrier": "barrier",
    "stuck_in_group": "in group",
    "other_operation": "other operation",
    "other_size": "other size",
    "other_type": "other type",
    "skipped": "all_reduce",
    "extra": "extra",
    "order": "order",
    "one_more": "one more",
    "left_out_group": "second",
    "empty_file": "all_reduce",
    "no_records": "all_reduce",
}
FAULTS = tuple(LINES)
CONTROLS = ("none", "slow", "uneven")


@dataclass(frozen=True)
class Plan:
    """A training, and what goes wrong in it."""

    directory: Path  # of the dumps
    world: int
    wrong: int  # rank
    step: int
    fault: str

    def fault_of(self, rank: int) -> str:
        """Return the fault of a rank, empty for the others; all ranks have uneven data."""
        return self.fault if rank == self.wrong or self.fault == "uneven" else ""


def line_of(fault: str) -> int:
    """Return the line of this file at which a fault shows."""
    text = Path(__file__).read_text().splitlines()
    return next(n for n, line in enumerate(text, 1) if line.endswith(f"# {LINES[fault]}"))


def run(plan: Plan) -> None:
    """Run the training in a process of its own, and leave its dumps in the directory."""
    plan.directory.mkdir(parents=True, exist_ok=True)
    words = [str(plan.directory), str(plan.world), str(plan.wrong), str(plan.step), plan.fault]
    environment = {**os.environ, "TORCH_FR_BUFFER_SIZE": "2000", "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, __file__, *words], check=True, env=environment, timeout=120,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    if plan.fault == "empty_file":
        (plan.directory / f"dump_{plan.wrong}").write_bytes(b"")


def train(plan: Plan, rank: int, mark: Callable[[], None]) -> None:  # noqa: PLR0912 - faults
    """Train; the calls of a step are in one function, so that each has its line."""
    import torch
    import torch.distributed as dist

    fault = plan.fault_of(rank)
    members = list(range(plan.world // 2 + 1))
    pair = dist.new_group(members)
    second = dist.new_group()
    grad = torch.ones(64)
    loss = torch.ones(3)
    for step in range(STEPS):
        here = fault if step == plan.step else ""
        mark()
        dist.broadcast(grad, 0)
        mark()
        time.sleep(0.01)
        if here == "stuck_in_group":
            time.sleep(1000)
        if rank in members:
            dist.all_reduce(loss, group=pair)  # in group
        mark()
        if here == "returned":
            return
        misbehave(here)
        if here == "extra":
            dist.all_reduce(grad)  # extra
        if here == "other_operation":
            dist.broadcast(grad, 0)  # other operation
        elif here == "other_size":
            dist.all_reduce(torch.ones(80))  # other size
        elif here == "other_type":
            dist.all_reduce(torch.ones(64, dtype=torch.float64))  # other type
        elif here == "order":
            dist.all_reduce(loss, group=second)  # order
            dist.all_reduce(grad)
        elif here != "skipped":
            dist.all_reduce(grad)  # all_reduce
        mark()
        if here not in ("order", "left_out_group"):
            dist.all_reduce(loss, group=second)  # second
        mark()
        if fault == "uneven":
            exchange(rank, plan.world)
        if here == "stuck_before_barrier":
            time.sleep(1000)
        dist.barrier()  # barrier
        mark()
    if fault == "one_more":
        dist.barrier()  # one more


def misbehave(here: str) -> None:
    """Do what keeps a rank from its next collective."""
    if here in ("stuck", "empty_file", "no_records"):
        time.sleep(1000)
    while here == "spinning":
        sum(range(1000))
    if here == "exception":
        raise ValueError("no such sample")
    if here == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if here == "slow":
        time.sleep(1)


def exchange(rank: int, world: int) -> None:
    """Call collectives whose shapes legally differ between ranks."""
    import torch
    import torch.distributed as dist

    parts = [1 + (rank + other) % 3 for other in range(world)]
    sent, received = torch.ones(sum(parts)), torch.empty(sum(parts))
    dist.all_to_all_single(received, sent, parts, parts)
    loss = torch.ones(3)
    gathered = [torch.empty(3) for _ in range(world)] if rank == 0 else None
    dist.gather(loss, gathered)
    scattered = [torch.ones(3) for _ in range(world)] if rank == 0 else None
    dist.scatter(loss, scattered)


def main(plan: Plan) -> None:
    """Start the ranks as copies of this process, so that PyTorch is imported once."""
    import torch.distributed  # noqa: F401

    shared = mmap.mmap(-1, plan.world + 1)  # progress of each rank, and whether to dump
    pids = []
    for rank in range(plan.world):
        if (pid := os.fork()) == 0:
            run_rank(plan, rank, shared)
        pids.append(pid)
    wait_for_silence(shared)
    shared[plan.world] = 1
    for pid in pids:
        os.waitpid(pid, 0)
    (plan.directory / ".store").unlink(missing_ok=True)


def wait_for_silence(shared: mmap.mmap) -> None:
    """Return when no rank has made progress for a while."""
    last, since = b"", time.monotonic()
    while time.monotonic() - since < QUIET_S:
        now = shared[:]
        if now != last or not all(now[:-1]):
            last, since = now, time.monotonic()
        time.sleep(0.02)


def run_rank(plan: Plan, rank: int, shared: mmap.mmap) -> None:
    """Train as one rank, and dump when the others stand still, too."""
    import torch.distributed as dist
    from torch._C import _distributed_c10d as c10d

    fault = plan.fault_of(rank)

    def dump() -> None:
        while not shared[plan.world]:
            time.sleep(0.02)
        records = c10d._dump_fr_trace(fault != "no_records")
        (plan.directory / f"dump_{rank}").write_bytes(records)
        os._exit(0)

    def mark() -> None:
        shared[rank] = shared[rank] % 255 + 1

    threading.Thread(target=dump, daemon=True).start()
    with suppress(Exception):
        dist.init_process_group(
            "gloo",
            init_method=f"file://{plan.directory}/.store",
            rank=rank,
            world_size=plan.world,
            timeout=timedelta(seconds=60),
        )
        train(plan, rank, mark)
    mark()
    time.sleep(1000)


if __name__ == "__main__":
    where, *numbers, kind = sys.argv[1:]
    world, wrong, step = map(int, numbers)
    main(Plan(Path(where), world, wrong, step, kind))
