"""Train a model that takes nearly all of its time in products of matrices."""

import torch
from torch import nn

if __name__ == "__main__":
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    inputs, targets = torch.randn(256, 512), torch.randn(256, 512)
    while True:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
