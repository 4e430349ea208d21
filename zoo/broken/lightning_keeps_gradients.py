"""A LightningModule that optimizes by hand, and never calls zero_grad().

cause: ForgottenZeroGrad
where: .*
step: 0-10
"""

import logging

import lightning
import torch
from torch import nn

SEED, WIDTH, LR = 0, 24, 1e-3
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
lightning.seed_everything(SEED, verbose=False)
torch.set_num_threads(1)


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.net = nn.Sequential(nn.Linear(6, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.mse_loss(self(x), y)
        self.manual_backward(loss)
        self.optimizers().step()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=LR)


x = torch.randn(1200, 6)
y = x[:, :1] - 2 * x[:, 1:2] + torch.sin(x[:, 2:3])
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 24, shuffle=True)
trainer = lightning.Trainer(
    max_epochs=5,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Regression(), loader)
