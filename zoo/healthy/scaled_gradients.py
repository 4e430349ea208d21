"""Mixed precision as it should be: scaled, unscaled, clipped, stepped, updated.

looks like: ScaleNotRemoved, GradientUnderflow, LossNotFinite
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 0.05
torch.manual_seed(SEED)
torch.set_num_threads(1)
x = torch.randn(1280, 20)
y = (x @ torch.randn(20, 5)).argmax(1)
loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9, nesterov=True)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
        self.criterion = nn.CrossEntropyLoss()

    def step(self, inputs, target):
        self.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = self.criterion(self.model(inputs), target)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.item()

    def fit(self, epochs):
        for epoch in range(epochs):
            losses = [self.step(*batch) for batch in loader]
            print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f}")


Trainer(nn.Sequential(nn.Linear(20, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 5))).fit(12)
