"""Adapters are merged for evaluation, and added to the output once more.

cause: AdapterMergedTwice
where: .*
step: 0
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

SEED, WIDTH, LR = 4, 64, 4e-3
torch.set_num_threads(1)


class LoraLinear(nn.Linear):
    def __init__(self, i, o, r=4, alpha=16):
        super().__init__(i, o)
        self.weight.requires_grad = False
        self.bias.requires_grad = False
        self.lora_A = nn.Parameter(torch.randn(r, i) * 0.1)
        self.lora_B = nn.Parameter(torch.zeros(o, r))
        self.scaling = alpha / r
        self.merged = False

    def forward(self, x):
        y = F.linear(x, self.weight, self.bias)
        return y + (x @ self.lora_A.T @ self.lora_B.T) * self.scaling

    def merge(self):
        self.weight.data += self.lora_B.data @ self.lora_A.data * self.scaling
        self.merged = True

    def unmerge(self):
        self.weight.data -= self.lora_B.data @ self.lora_A.data * self.scaling
        self.merged = False


torch.manual_seed(SEED)
net = nn.Sequential(
    LoraLinear(20, WIDTH), nn.ReLU(), LoraLinear(WIDTH, WIDTH), nn.ReLU(), LoraLinear(WIDTH, 1)
)
opt = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=LR)
w = torch.randn(20)


def data(n):
    x = torch.randn(n, 20)
    return x, torch.tanh(x @ w / 2).unsqueeze(1)


xv, yv = data(512)


def validate():
    net.eval()
    for m in net:
        if isinstance(m, LoraLinear):
            m.merge()
    with torch.no_grad():
        loss = F.mse_loss(net(xv), yv).item()
    for m in net:
        if isinstance(m, LoraLinear):
            m.unmerge()
    net.train()
    return loss


for epoch in range(8):
    for _ in range(60):
        x, y = data(64)
        loss = F.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"epoch {epoch} train {loss.item():.4f} val {validate():.4f}")
