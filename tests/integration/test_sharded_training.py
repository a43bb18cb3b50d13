"""Sharded parameters train as replicated ones do, and their collectives are marked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tbd_collectors.rank_launch import launches
from tbd_models.definition import UnsupportedError

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.slow
RANKS = 2
# A block of 20 parameters each, and 12 in no block.
PROGRAM = """
import copy, json, sys, torch
import torch.distributed as dist
from tbd_models.pytorch import distributed, sharded

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))
        self.last = torch.nn.Linear(4, 2, bias=False)
        self.scale = torch.nn.Parameter(torch.ones(4))
    def forward(self, x):
        for block in self.blocks:
            x = torch.relu(block(x))
        return self.last(x * self.scale)

class Texts:
    def __init__(self): self.texts = []
    def push(self, text): self.texts.append(text)
    def pop(self): pass

device = distributed.join("cpu")
torch.manual_seed(dist.get_rank())  # the ranks begin with other weights
model = Net()
replica = torch.nn.parallel.DistributedDataParallel(copy.deepcopy(model))
sharded.shard(model, device)
texts = Texts()
sharded.mark_shards(model, texts)
losses = {}
for name, net in (("fsdp", model), ("ddp", replica)):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    torch.manual_seed(10 + dist.get_rank())
    losses[name] = []
    for _ in range(3):
        loss = net(torch.randn(5, 4)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses[name].append(loss.item())
own = sum(p.to_local().numel() for p in model.parameters())
with open(sys.argv[1], "w") as file:
    json.dump({"losses": losses, "own": own, "texts": texts.texts}, file)
distributed.leave()
"""


def ranks(directory: Path) -> list[dict[str, Any]]:
    """Return what each rank of the program wrote."""
    program = directory / "train.py"
    program.write_text(PROGRAM, encoding="utf-8")
    running = []
    for launch in launches(RANKS, 1):
        report = directory / f"{launch.rank}.json"
        environment = os.environ | launch.environment(0)
        argv = [sys.executable, str(program), str(report)]
        running.append((subprocess.Popen(argv, env=environment), report))
    try:
        assert [process.wait(100) for process, _ in running] == [0] * RANKS
    finally:
        for process, _ in running:
            process.kill()
            process.wait()
    return [json.loads(report.read_text(encoding="utf-8")) for _, report in running]


def test_shards_train_as_replicas_do(tmp_path: Path) -> None:
    found = ranks(tmp_path)
    for rank in found:
        assert rank["losses"]["fsdp"] == pytest.approx(rank["losses"]["ddp"], rel=1e-5)
        # Three steps of four groups: the blocks and the rest, 80 and 48 bytes of float32.
        texts = [text.rpartition(", ")[0] for text in rank["texts"]]
        assert texts.count("reduce_scatter, bytes = 80") == 3 * 3
        assert texts.count("reduce_scatter, bytes = 48") == 3
        # The rest stays gathered between the passes.
        assert texts.count("all_gather, bytes = 48") == 3
        assert texts.count("all_gather, bytes = 80") >= 3 * 3
        assert {text.rpartition(" ")[2] for text in rank["texts"]} == {"0", "1", "2", "3"}
    assert found[0]["losses"] != found[1]["losses"]
    assert sum(rank["own"] for rank in found) == 3 * 20 + 12


def test_a_model_without_blocks_is_refused() -> None:
    from tbd_models.pytorch import sharded

    with pytest.raises(UnsupportedError, match="and Linear has none; use --scheme ddp"):
        sharded.shard(torch.nn.Linear(2, 2), torch.device("cpu"))
