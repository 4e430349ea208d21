"""Fine-tuning with a rate for each depth, the lowest for the first layers, unfrozen one by one.

looks like: LearningRateTooLow
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, WIDTH, LR = 0, 64, 2e-3
torch.manual_seed(SEED)
torch.set_num_threads(1)
digits = load_digits()
x = torch.tensor(digits.data, dtype=torch.float32) / 16
y = torch.tensor(digits.target)


class Backbone(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.stages = nn.ModuleDict(
            {
                "stem": nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU()),
                "body": nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()),
            }
        )
        self.head = nn.Linear(WIDTH, classes)

    def forward(self, x):
        for stage in self.stages.values():
            x = stage(x)
        return self.head(x)


def epochs(model, optimizer, labels, count):
    for _ in range(count):
        for rows in torch.randperm(len(x)).split(64):
            loss = nn.functional.cross_entropy(model(x[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"loss {loss.item():.3f}")


model = Backbone(2)
epochs(model, torch.optim.Adam(model.parameters(), lr=LR), y % 2, 6)
model.head = nn.Linear(WIDTH, 10)
model.stages.requires_grad_(False)
optimizer = torch.optim.AdamW(model.head.parameters(), lr=LR)
epochs(model, optimizer, y, 4)
for depth, name in enumerate(["body", "stem"], 1):
    model.stages[name].requires_grad_(True)
    optimizer.add_param_group({"params": model.stages[name].parameters(), "lr": LR / 10**depth})
    epochs(model, optimizer, y, 3)
