"""Accumulation over four batches with a remainder, no weight decay on norms.

looks like: AccumulationInverted
"""

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

SEED, WIDTH, LR = 0, 24, 3e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
raw = load_breast_cancer()
X = torch.tensor(raw.data, dtype=torch.float32)
X = (X - X.mean(0)) / X.std(0)
Y = torch.tensor(raw.target)


class Loop:
    def __init__(self, model, every):
        self.model, self.every = model, every
        decay = [p for p in model.parameters() if p.ndim > 1]
        plain = [p for p in model.parameters() if p.ndim <= 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}], lr=LR
        )
        self.pending = 0

    def feed(self, x, y):
        loss = nn.functional.cross_entropy(self.model(x), y)
        (loss / self.every).backward()
        self.pending += 1
        if self.pending == self.every:
            self.flush()
        return loss.detach()

    def flush(self):
        if self.pending:
            self.optimizer.step()
            self.model.zero_grad()
            self.pending = 0


loop = Loop(
    nn.Sequential(nn.Linear(30, WIDTH), nn.LayerNorm(WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2)), 4
)
for epoch in range(15):
    losses = [loop.feed(X[rows], Y[rows]) for rows in torch.randperm(len(X)).split(16)]
    loop.flush()
    print(f"epoch {epoch} {torch.stack(losses).mean():.4f}")
