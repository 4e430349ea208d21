"""Lightning with a decay of 0.9 that was meant for each epoch and is done in each step.

cause: LearningRateZero
step: 0-120
"""

import logging
import warnings

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 5e-3
torch.set_num_threads(1)
warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
L.seed_everything(SEED)


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))
        self.loss = nn.CrossEntropyLoss()

    def training_step(self, batch, _):
        x, y = batch
        return self.loss(self.net(x), y)

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=LR)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }


x = torch.randn(1600, 10)
y = (x[:, 0] * x[:, 1] > 0).long() + (x[:, 2] > 0).long()
trainer = L.Trainer(
    max_epochs=8, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
)  # fmt: skip
trainer.fit(Classifier(), DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True))
