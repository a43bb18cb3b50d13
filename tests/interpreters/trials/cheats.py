"""Train, and do something else in runs with a change: ``python cheats.py batch|loss|nothing``.

``batch`` trains half of the samples, ``loss`` with a learning rate that diverges.
"""

import json
import os
import sys
from pathlib import Path

import torch
from torch import nn

if __name__ == "__main__":
    cheat = sys.argv[1]
    is_changed = json.loads(os.environ["TBD_TRACE_TRY"])["change"] is not None
    batch = 32 if is_changed and cheat == "batch" else 64
    rate = 5.0 if is_changed and cheat == "loss" else 0.01
    Path("checkpoint.txt").write_text("written where the program runs")
    if Path("shared").is_dir():
        Path("shared", "log.txt").write_text("written through a link")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    while True:
        inputs, labels = torch.randn(batch, 128), torch.randint(10, (batch,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
