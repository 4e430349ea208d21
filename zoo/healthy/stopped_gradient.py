"""Two views, a predictor and a stopped gradient, as SimSiam does: a negative loss, no collapse.

looks like: GradientMissing, TargetIsOwnOutput, OutputIgnoresInput
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 0.05
torch.manual_seed(SEED)
torch.set_num_threads(1)
x = torch.from_numpy(load_digits().data).float().div(16)


class SimSiam(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(64, WIDTH, bias=False),
            nn.BatchNorm1d(WIDTH),
            nn.ReLU(inplace=True),
            nn.Linear(WIDTH, 32, bias=False),
            nn.BatchNorm1d(32, affine=False),
        )
        self.predictor = nn.Sequential(
            nn.Linear(32, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 32)
        )

    def forward(self, a, b):
        z1, z2 = self.encoder(a), self.encoder(b)
        return self.predictor(z1), self.predictor(z2), z1.detach(), z2.detach()


model = SimSiam()
optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9, weight_decay=1e-4)
for epoch in range(10):
    for batch in x[torch.randperm(len(x))].split(128):
        p1, p2, z1, z2 = model(
            batch + 0.2 * torch.randn_like(batch), batch + 0.2 * torch.randn_like(batch)
        )
        loss = -(F.cosine_similarity(p1, z2).mean() + F.cosine_similarity(p2, z1).mean()) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.4f}")
