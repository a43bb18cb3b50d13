"""Train a small network while PyTorch's allocator records, and write its snapshot and peak."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

_WIDTH, _BATCH, _STEPS, _LEAKED = 4096, 1024, 4, 2**20


def main() -> None:
    """Write snapshot.pickle and facts.json."""
    cuda: Any = torch.cuda
    cuda.memory._record_memory_history(stacks="python", max_entries=100_000)
    model = nn.Sequential(*(nn.Linear(_WIDTH, _WIDTH) for _ in range(4))).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    leak = []
    for _ in range(_STEPS):
        x = torch.randn(_BATCH, _WIDTH, device="cuda")
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        leak.append(torch.zeros(_LEAKED // 4, device="cuda"))  # the fault: 1 MiB per step
    cuda.synchronize()
    facts = {
        "allocated": cuda.max_memory_allocated(),
        "requested": cuda.memory_stats()["requested_bytes.all.peak"],
        "reserved": cuda.max_memory_reserved(),
        "leaked_per_step": _LEAKED,
    }
    cuda.memory._dump_snapshot("snapshot.pickle")
    Path("facts.json").write_text(json.dumps(facts), encoding="utf-8")


if __name__ == "__main__":
    main()
