"""Train with Accelerate, over a data loader that accumulates gradients."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.AdamW(model.parameters())
samples = TensorDataset(torch.randn(128, 8), torch.randint(3, (128,)))
model, optimizer, batches = accelerator.prepare(
    model, optimizer, DataLoader(samples, batch_size=8, shuffle=True)
)
while True:
    for inputs, labels in batches:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(inputs), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
