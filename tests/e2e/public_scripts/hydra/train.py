import logging
from pathlib import Path

import hydra
import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from torch import nn
from torch.utils.tensorboard import SummaryWriter

log = logging.getLogger(__name__)


def build(cfg):
    if cfg.name == "linear":
        return nn.Linear(2, 1)
    return nn.Sequential(nn.Linear(2, cfg.width), nn.ReLU(), nn.Linear(cfg.width, 1))


@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg: DictConfig) -> float:
    log.info("Config:\n%s", OmegaConf.to_yaml(cfg))
    output = Path(HydraConfig.get().runtime.output_dir)
    torch.manual_seed(0)
    x = torch.randn(64, 2)
    y = x[:, :1] * 2
    model = build(cfg.model)
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg.model.lr)
    with SummaryWriter(str(output / "tensorboard")) as writer:
        for epoch in range(cfg.max_epochs):
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            writer.add_scalar("train/loss", loss.item(), epoch)
            log.info("epoch %d train/loss %.4f", epoch, loss.item())
    torch.save(model.state_dict(), output / "last.ckpt")
    return loss.item()


if __name__ == "__main__":
    main()
