"""A GAN in Lightning with manual optimisation: two optimizers, toggled, losses that circle."""

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


class GAN(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.generator = nn.Sequential(nn.Linear(4, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
        self.discriminator = nn.Sequential(nn.Linear(2, WIDTH), nn.LeakyReLU(), nn.Linear(WIDTH, 1))

    def training_step(self, batch, _):
        (real,) = batch
        opt_g, opt_d = self.optimizers()
        bce = nn.functional.binary_cross_entropy_with_logits
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        self.toggle_optimizer(opt_g)
        g_loss = bce(self.discriminator(self.generator(torch.randn(len(real), 4))), ones)
        opt_g.zero_grad()
        self.manual_backward(g_loss)
        opt_g.step()
        self.untoggle_optimizer(opt_g)
        self.toggle_optimizer(opt_d)
        fake = self.generator(torch.randn(len(real), 4)).detach()
        d_loss = (bce(self.discriminator(real), ones) + bce(self.discriminator(fake), zeros)) / 2
        opt_d.zero_grad()
        self.manual_backward(d_loss)
        opt_d.step()
        self.untoggle_optimizer(opt_d)
        self.log_dict({"g_loss": g_loss, "d_loss": d_loss})

    def configure_optimizers(self):
        return (
            torch.optim.Adam(self.generator.parameters(), lr=LR, betas=(0.5, 0.999)),
            torch.optim.Adam(self.discriminator.parameters(), lr=LR, betas=(0.5, 0.999)),
        )


points = torch.randn(1024, 2) * 0.2 + torch.tensor([1.0, -1.0])
trainer = L.Trainer(
    max_epochs=8,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(GAN(), DataLoader(TensorDataset(points), batch_size=32, shuffle=True))
