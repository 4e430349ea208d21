"""A LightningModule whose configure_optimizers forgets the new encoder, which is not frozen.

cause: ParametersNotOptimized
where: encoder
step: 0-20
"""

import logging
import warnings

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 32, 1e-3
torch.set_num_threads(1)
warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
L.seed_everything(SEED)


class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.GRU(3, WIDTH, batch_first=True)
        self.head = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))

    def forward(self, x):
        _, h = self.encoder(x)
        return self.head(h[-1])

    def training_step(self, batch, _):
        x, y = batch
        loss = nn.functional.smooth_l1_loss(self(x), y)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.head.parameters(), lr=LR)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 5)]


x = torch.randn(1024, 16, 3)
y = x[:, :, 0].cumsum(1).amax(1, keepdim=True) / 3
trainer = L.Trainer(
    max_epochs=6,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Model(), DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True))
