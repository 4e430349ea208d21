"""The weights of three tasks' losses are parameters with nothing to hold them: they go below zero.

cause: LossWithoutBound
where: .*
step: 0-300
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
        self.loss_weights = nn.Parameter(torch.ones(3))

    def forward(self, x):
        h = self.shared(x)
        return {name: head(h) for name, head in self.heads.items()}


x = torch.randn(1500, 12)
kind = x[:, :4].argmax(1)
size = x[:, 4] * x[:, 5] + 0.1 * torch.randn(1500)
flag = (x[:, 6] + x[:, 7] > 0).float()
model = MultiTask()
own = [p for name, p in model.named_parameters() if name != "loss_weights"]
optimizer = torch.optim.Adam(
    [{"params": own}, {"params": [model.loss_weights], "lr": 10 * LR}], lr=LR
)
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
        total = (model.loss_weights * losses).sum()
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
    print(epoch, [round(v, 3) for v in losses.tolist()], model.loss_weights.tolist())
