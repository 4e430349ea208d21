"""The optimizer is made anew after unfreezing, and the schedule still drives the old one.

cause: ScheduleOfAnotherOptimizer
where: .*
step: 90-130
"""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

SEED, WIDTH, LR = 0, 64, 2e-3
torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Linear(20, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU()
        )
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, x):
        return self.head(self.backbone(x))


torch.manual_seed(SEED)
x = torch.randn(1500, 20)
y = (x @ torch.randn(20, 5)).argmax(1)
loader = DataLoader(TensorDataset(x, y), 50, shuffle=True)
model = Net()
for p in model.backbone.parameters():
    p.requires_grad = False
optimizer = torch.optim.Adam(model.head.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
for epoch in range(12):
    if epoch == 3:
        for p in model.backbone.parameters():
            p.requires_grad = True
        optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(xb), yb)
        loss.backward()
        optimizer.step()
    scheduler.step()
    print(epoch, loss.item(), scheduler.get_last_lr())
