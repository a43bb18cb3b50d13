"""A perceptron in a plain loop: slices of a data set, no loader."""

import sys

import torch
from torch import nn

BATCH = int(sys.argv[1]) if len(sys.argv) > 1 else 64
STEPS = 4

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
                      nn.Linear(1024, 10))  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
data = torch.randn(BATCH * 40, 256)
labels = torch.randint(10, (BATCH * 40,))
total = 0.0
for step in range(STEPS):
    part = slice(step * BATCH, (step + 1) * BATCH)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(data[part]), labels[part])
    loss.backward()
    optimizer.step()
    total += loss.item()
print("loss", total / STEPS)
