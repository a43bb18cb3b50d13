"""Train with batches that take 24 ms to load; at the end, say how many steps were trained."""

import time

import torch
from torch import nn


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, number):
        time.sleep(0.003)
        return torch.full((16,), number % 7 / 7), number % 2


if __name__ == "__main__":
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for inputs, labels in torch.utils.data.DataLoader(Samples(), batch_size=8):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
