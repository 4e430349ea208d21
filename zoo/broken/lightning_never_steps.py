"""Lightning with manual optimisation, whose author forgot step().

cause: OptimizerNotStepping
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


class Regressor(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.net = nn.Sequential(nn.Linear(6, WIDTH), nn.SiLU(), nn.Linear(WIDTH, 1))

    def training_step(self, batch, _):
        x, y = batch
        optimizer = self.optimizers()
        optimizer.zero_grad()
        loss = nn.functional.l1_loss(self.net(x), y)
        self.manual_backward(loss)
        self.log("loss", loss)

    def configure_optimizers(self):
        return torch.optim.NAdam(self.parameters(), lr=LR)


x = torch.randn(960, 6)
data = TensorDataset(x, x[:, :1] * x[:, 1:2])
trainer = L.Trainer(
    max_epochs=5, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
)  # fmt: skip
trainer.fit(Regressor(), DataLoader(data, batch_size=32, shuffle=True))
