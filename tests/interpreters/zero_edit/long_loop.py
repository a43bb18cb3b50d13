"""Train for an hour, or fewer steps; write when each step ended; fail at one of them."""

import argparse
import time
from pathlib import Path

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--times", default="/dev/null", help="file for the ends of the steps in ns")
parser.add_argument("--steps", type=int, default=360_000)
parser.add_argument("--fail-at", type=int, default=-1)
parser.add_argument("--pause", type=float, default=0.01, help="seconds before a step")
parser.add_argument("--slow-steps", type=int, default=0, help="first steps, with 10 pauses each")
options = parser.parse_args()

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 3))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters())
print(f"training {options.steps} steps", flush=True)
with Path(options.times).open("w") as times:
    for step in range(options.steps):
        if step == options.fail_at:
            raise ValueError(f"no sample of step {step}")
        time.sleep(options.pause * (10 if step < options.slow_steps else 1))
        inputs, labels = torch.randn(16, 8), torch.randint(3, (16,))
        optimizer.zero_grad()
        criterion(model(inputs), labels).backward()
        optimizer.step()
        print(time.perf_counter_ns(), file=times, flush=True)
