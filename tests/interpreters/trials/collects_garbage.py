"""Train a small model, and keep so many new objects in each step that Python looks for garbage."""

from collections import deque

import torch
from torch import nn

if __name__ == "__main__":
    torch.manual_seed(0)
    model = nn.Linear(64, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    history = deque(maxlen=10)
    while True:
        history.append([[number] for number in range(30_000)])
        optimizer.zero_grad()
        nn.functional.mse_loss(model(torch.randn(32, 64)), torch.randn(32, 8)).backward()
        optimizer.step()
