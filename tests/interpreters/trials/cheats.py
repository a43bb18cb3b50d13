"""Train, and do something else in runs with a change: ``python cheats.py CHEAT``.

``batch`` trains half of the samples, ``crop`` half of each image, ``frozen`` half of the layers,
``backward`` every second batch, ``loss`` with a learning rate that diverges, ``nothing`` the same.
"""

import json
import os
import sys
from pathlib import Path

import torch
from torch import nn

if __name__ == "__main__":
    is_changed = json.loads(os.environ["TBD_TRACE_TRY"])["change"] is not None
    cheat = sys.argv[1] if is_changed else "nothing"
    batch = 16 if cheat == "batch" else 32
    size = 16 if cheat == "crop" else 32
    rate = 100.0 if cheat == "loss" else 0.01
    Path("checkpoint.txt").write_text("written where the program runs")
    if Path("shared").is_dir():
        Path("shared", "log.txt").write_text("written through a link")
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip
    if cheat == "frozen":
        model[:4].requires_grad_(False)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=rate)
    step = 0
    while True:
        inputs, labels = torch.randn(batch, 3, 32, 32), torch.randint(10, (batch,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs[..., :size]), labels)
        if cheat != "backward" or step % 2 == 0:
            loss.backward()
        optimizer.step()
        step += 1
