"""Train an autoencoder with Lightning; the module itself is never called."""

import lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Autoencoder(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 64), nn.ReLU())
        self.decoder = nn.Linear(64, 8)
        self.loss = nn.MSELoss()

    def training_step(self, batch: list[torch.Tensor], _number: int) -> torch.Tensor:
        (inputs,) = batch
        return self.loss(self.decoder(self.encoder(inputs)), inputs)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters())


pl.seed_everything(0)
trainer = pl.Trainer(
    max_epochs=2,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Autoencoder(), DataLoader(TensorDataset(torch.randn(40, 8)), batch_size=8))
