"""An LSTM language model."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH = int(sys.argv[1]) if len(sys.argv) > 1 else 16
STEPS = 4


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(2000, 128)
        self.layers = nn.LSTM(128, 256, num_layers=2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(256, 2000)

    def forward(self, tokens):
        states, _ = self.layers(self.words(tokens))
        return self.head(states)


torch.manual_seed(0)
model = Language()
optimizer = torch.optim.Adam(model.parameters())
tokens = torch.randint(2000, (BATCH * STEPS, 33))
for (batch,) in DataLoader(TensorDataset(tokens), batch_size=BATCH):
    scores = model(batch[:, :-1])
    loss = nn.functional.cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("perplexity", torch.exp(loss).item())
