"""A transformer encoder with attention by torch, gradient accumulation and a mask of padding."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH = int(sys.argv[1]) if len(sys.argv) > 1 else 8
STEPS = 4


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(1000, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(128, 20)

    def forward(self, tokens):
        return self.head(self.encoder(self.words(tokens), src_key_padding_mask=tokens == 0))


torch.manual_seed(0)
model = Tagger()
optimizer = torch.optim.AdamW(model.parameters())
tokens = torch.randint(1, 1000, (2 * BATCH * STEPS, 96))
tokens[:, 90:] = 0
tags = torch.randint(20, tokens.shape)
for number, (words, wanted) in enumerate(DataLoader(TensorDataset(tokens, tags), BATCH)):
    scores = model(words)
    selected = tokens_present = words != 0
    loss = nn.functional.cross_entropy(scores[selected], wanted[selected]) / 2
    loss.backward()
    if number % 2:
        optimizer.step()
        optimizer.zero_grad()
        print("loss", float(loss))
