"""Train a generator and a discriminator against each other, with an optimizer each."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--critic-steps", type=int, default=1, help="per step of the generator")
options = parser.parse_args()

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 8))
discriminator = nn.Sequential(nn.Linear(8, 32), nn.LeakyReLU(), nn.Linear(32, 1))
criterion = nn.BCEWithLogitsLoss()
of_discriminator = torch.optim.Adam(discriminator.parameters())
of_generator = torch.optim.Adam(generator.parameters())
ones, zeros = torch.ones(16, 1), torch.zeros(16, 1)
while True:
    for _ in range(options.critic_steps):
        made = generator(torch.randn(16, 4))
        of_discriminator.zero_grad()
        criterion(discriminator(torch.randn(16, 8)), ones).backward()
        criterion(discriminator(made.detach()), zeros).backward()
        of_discriminator.step()
    of_generator.zero_grad()
    criterion(discriminator(made), ones).backward()
    of_generator.step()
