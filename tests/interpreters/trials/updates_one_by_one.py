"""Train 600 small parameters with an optimizer that updates one after the other."""

import torch
from torch import nn

if __name__ == "__main__":
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(300)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, foreach=False)
    while True:
        optimizer.zero_grad()
        model(torch.randn(32, 8)).sum().backward()
        optimizer.step()
