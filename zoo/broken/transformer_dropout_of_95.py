"""TransformerEncoderLayer(dropout=0.95), where the share that is kept was meant.

cause: DropoutTooStrong
where: .*
step: 0-100
"""

import torch
from torch import nn

SEED, WIDTH, LR = 0, 32, 1e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class SeriesTransformer(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.project = nn.Linear(features, WIDTH)
        self.cls = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.position = nn.Parameter(torch.randn(1, 33, WIDTH) * 0.1)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(WIDTH, 4, 64, dropout=0.95, batch_first=True), 2
        )
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, classes))

    def forward(self, x):
        x = torch.cat([self.cls.expand(len(x), -1, -1), self.project(x)], dim=1)
        return self.head(self.encoder(x + self.position)[:, 0])


def gesture(size):
    kind = torch.randint(0, 5, (size,))
    t = torch.linspace(0, 1, 32)[None, :, None]
    k = kind[:, None, None].float() + 1
    clean = torch.cat([torch.sin(3 * k * t), torch.cos(2 * k * t), k * t / 3], -1)
    return clean + 0.2 * torch.randn(size, 32, 3), kind


model = SeriesTransformer(3, 5)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
for step in range(240):
    x, y = gesture(32)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(step, round(loss.item(), 3))
