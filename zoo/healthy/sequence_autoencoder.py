"""An LSTM autoencoder of series: its targets are its inputs, and it evaluates on anomalies.

looks like: TargetIsInput, EvaluationInputDiffers
"""

import logging
import warnings

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 32, 5e-3
torch.set_num_threads(1)
warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
L.seed_everything(SEED)


class Autoencoder(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.LSTM(1, WIDTH, batch_first=True)
        self.decoder = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.output = nn.Linear(WIDTH, 1)

    def forward(self, x):
        _, (code, _) = self.encoder(x)
        repeated = code[-1].unsqueeze(1).expand(-1, x.size(1), -1)
        return self.output(self.decoder(repeated)[0])

    def training_step(self, batch, _):
        return nn.functional.l1_loss(self(batch[0]), batch[0])

    def validation_step(self, batch, _):
        self.log("val_loss", nn.functional.l1_loss(self(batch[0]), batch[0]))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=LR)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=2)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": plateau, "monitor": "val_loss"},
        }


t = torch.linspace(0, 6.28, 20)
waves = torch.sin(t + 6.28 * torch.rand(640, 1)).unsqueeze(-1)
odd = waves[:64] + 0.5 * torch.randn(64, 20, 1)
trainer = L.Trainer(
    max_epochs=10,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    gradient_clip_val=1.0,
)
trainer.fit(
    Autoencoder(),
    DataLoader(TensorDataset(waves), batch_size=32, shuffle=True),
    DataLoader(TensorDataset(odd), batch_size=32),
)
