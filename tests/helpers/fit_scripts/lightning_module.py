"""A perceptron by the Trainer of Lightning."""

import sys

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH = int(sys.argv[1]) if len(sys.argv) > 1 else 64
STEPS = 4


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Dropout(0.2),
                                 nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 5))  # fmt: skip

    def training_step(self, batch, _number):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


torch.manual_seed(0)
data = TensorDataset(torch.randn(BATCH * STEPS, 512), torch.randint(5, (BATCH * STEPS,)))
trainer = lightning.Trainer(
    max_steps=STEPS, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
    enable_model_summary=False, gradient_clip_val=1.0,
)  # fmt: skip
trainer.fit(Classifier(), DataLoader(data, batch_size=BATCH))
