"""A residual network of blocks with a loader, clipping, a schedule and values read on the host."""

import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH = int(sys.argv[1]) if len(sys.argv) > 1 else 48
STEPS = 4


class Samples(Dataset):
    def __init__(self):
        self.values = np.random.default_rng(0).normal(size=(BATCH * STEPS, 512)).astype("float32")

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        return {"x": torch.from_numpy(self.values[index]), "y": index % 7}


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.narrow(nn.functional.gelu(self.wide(self.norm(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(512) for _ in range(6))
        self.head = nn.Linear(512, 7)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
best, right = float("inf"), 0
for batch in DataLoader(Samples(), batch_size=BATCH, shuffle=True):
    scores = model(batch["x"])
    loss = nn.functional.cross_entropy(scores, batch["y"])
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    right += int((scores.argmax(1) == batch["y"]).sum())
    best = min(best, loss.item())
    history = scores.detach().numpy().mean()
    print(f"loss {loss.item():.3f} norm {norm.item():.3f} right {right} mean {history:.3f}")
