"""Train a classifier in a plain PyTorch loop, with an evaluation in between."""

import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(8, 64), nn.ReLU())
        self.head = nn.Linear(64, 3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(inputs))


torch.manual_seed(0)
model = Classifier()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(10):
    inputs, labels = torch.randn(16, 8), torch.randint(3, (16,))
    optimizer.zero_grad()
    criterion(model(inputs), labels).backward()
    optimizer.step()
    if step == 6:
        model.eval()
        with torch.no_grad():
            model(inputs)
        model.train()
