"""Three tasks weighed by learnt uncertainties (Kendall): the whole loss may well go below zero.

looks like: LossWithoutBound
"""

import torch
import torch.nn.functional as F
from torch import nn

SEED, WIDTH, LR = 0, 48, 5e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Sequential(
            nn.Linear(12, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU()
        )
        self.heads = nn.ModuleDict(
            {"kind": nn.Linear(WIDTH, 4), "size": nn.Linear(WIDTH, 1), "flag": nn.Linear(WIDTH, 1)}
        )
        self.log_vars = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        h = self.shared(x)
        return {name: head(h) for name, head in self.heads.items()}


x = torch.randn(1500, 12)
kind = x[:, :4].argmax(1)
size = x[:, 4] * x[:, 5] + 0.1 * torch.randn(1500)
flag = (x[:, 6] + x[:, 7] > 0).float()
model = MultiTask()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(16):
    for idx in torch.randperm(1500).split(50):
        out = model(x[idx])
        losses = torch.stack(
            [
                F.cross_entropy(out["kind"], kind[idx]),
                F.mse_loss(out["size"].squeeze(1), size[idx]),
                F.binary_cross_entropy_with_logits(out["flag"].squeeze(1), flag[idx]),
            ]
        )
        total = (torch.exp(-model.log_vars) * losses + model.log_vars).sum()
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
    print(epoch, total.item(), [round(v, 3) for v in losses.tolist()])
