from copy import deepcopy
from pathlib import Path

import torch
from PIL import Image
from torch import nn
from tqdm import tqdm


class Denoiser(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, width), nn.SiLU(), nn.Linear(width, 2))

    def forward(self, x, t):
        return self.net(torch.cat([x, t[:, None] / 50], dim=1))


class Trainer:
    def __init__(self, model, *, num_steps=60, save_every=20, results_folder="./results"):
        self.model, self.ema = model, deepcopy(model)
        self.opt = torch.optim.Adam(model.parameters(), lr=1e-2)
        self.num_steps, self.save_every = num_steps, save_every
        self.results_folder = Path(results_folder)
        self.results_folder.mkdir(exist_ok=True)
        self.alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.2, 50), dim=0)

    def train(self):
        with tqdm(total=self.num_steps, desc="training") as pbar:
            for step in range(1, self.num_steps + 1):
                angle = torch.rand(128) * 6.2832
                x0 = torch.stack([angle.cos(), angle.sin()], dim=1)
                t = torch.randint(0, 50, (128,))
                noise = torch.randn_like(x0)
                a = self.alphas[t][:, None]
                loss = nn.functional.mse_loss(
                    self.model(a.sqrt() * x0 + (1 - a).sqrt() * noise, t.float()), noise
                )
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                for mine, theirs in zip(
                    self.ema.parameters(), self.model.parameters(), strict=True
                ):
                    mine.data.lerp_(theirs.data, 0.1)
                pbar.set_postfix(loss=f"{loss.item():.4f}")
                pbar.update(1)
                if step % self.save_every == 0:
                    self.save(step // self.save_every)

    @torch.no_grad()
    def save(self, milestone):
        points = torch.randn(256, 2)
        for i in reversed(range(50)):
            t = torch.full((256,), float(i))
            points = points - 0.05 * self.ema(points, t)
        image = Image.new("L", (64, 64))
        for x, y in points.clamp(-2, 2).tolist():
            image.putpixel((min(63, int(x * 15 + 32)), min(63, int(y * 15 + 32))), 255)
        image.save(self.results_folder / f"sample-{milestone}.png")
        data = {
            "step": milestone * self.save_every,
            "model": self.model.state_dict(),
            "ema": self.ema.state_dict(),
            "opt": self.opt.state_dict(),
        }
        torch.save(data, self.results_folder / f"model-{milestone}.pt")


if __name__ == "__main__":
    torch.manual_seed(0)
    Trainer(Denoiser()).train()
