import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class LitRegressor(L.LightningModule):
    def __init__(self, lr=0.1):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x), y)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", nn.functional.mse_loss(self.net(x), y))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.hparams.lr)


def main():
    L.seed_everything(7)
    x = torch.randn(64, 4)
    data = TensorDataset(x, x.sum(1, keepdim=True))
    trainer = L.Trainer(
        accelerator="cpu",
        max_epochs=3,
        log_every_n_steps=1,
        logger=[TensorBoardLogger("tb_logs", name="regressor"), CSVLogger("csv_logs")],
        callbacks=[ModelCheckpoint(monitor="val_loss", save_last=True)],
    )
    trainer.fit(LitRegressor(), DataLoader(data, batch_size=16), DataLoader(data, batch_size=32))


if __name__ == "__main__":
    main()
